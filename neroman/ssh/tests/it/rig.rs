//! A real `sshd` for one test, and a user's `ssh` configuration that leads to it.
//!
//! The test itself accepts the connections, on a loopback port of the kernel's
//! choice, and starts one `sshd -i` for each: so it can count them, freeze them
//! and cut them, and all of them end with the test.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nero_ssh::{Host, Pipe, Ssh, SshError};
use rustix::process::{Pid, Signal, kill_process_group};

/// Longest that anything in a test may take; no measure of speed.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A node with an ssh server, and how its user gets there: as `node`.
pub struct SshNode {
    folder: tempfile::TempDir,
    port: u16,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    servers: Mutex<Vec<Child>>,
    connections: AtomicUsize,
    /// New connections are accepted and then left alone.
    frozen: AtomicBool,
    closed: AtomicBool,
    silent: Mutex<Vec<TcpStream>>,
}

impl SshNode {
    /// A node with default options.
    pub fn new() -> Self {
        Self::with("")
    }

    /// A node with lines of `sshd_config` that come first, and so win.
    pub fn with(options: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("nssh")
            .tempdir()
            .expect("a folder");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let mut node = Self {
            folder,
            port,
            shared: Arc::default(),
            accepting: None,
        };
        node.set_up(options);
        node.accept(listener);
        node
    }

    fn set_up(&self, options: &str) {
        // The server of root insists on this folder, which its service makes.
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd").expect("root may make it");
        }
        fs::create_dir_all(self.home()).expect("a folder");
        fs::create_dir(self.sockets()).expect("a folder");
        self.new_host_key();
        make_key(&self.path("id"), "");
        fs::copy(self.path("id.pub"), self.path("authorized")).expect("a file");
        self.login_shell("/bin/bash");
        let dir = self.folder.path().display();
        let login = format!(
            "#!/bin/sh\ncd \"$HOME\" || exit 1\nread -r shell <{dir}/shell\n\
             [ -n \"$SSH_ORIGINAL_COMMAND\" ] || exec \"$shell\"\n\
             exec \"$shell\" -c \"$SSH_ORIGINAL_COMMAND\"\n"
        );
        write_program(&self.path("login"), &login);
        let config = format!(
            "{options}\nUsePAM no\nStrictModes no\nPidFile none\nHostKey {dir}/host\n\
             AuthorizedKeysFile {dir}/authorized\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nSetEnv HOME={dir}/home\n\
             ForceCommand {dir}/login\nLogLevel VERBOSE\n"
        );
        fs::write(self.path("sshd_config"), config).expect("a file");
        self.configure("node", "");
    }

    fn accept(&mut self, listener: TcpListener) {
        let program = sshd();
        let (config, log) = (self.path("sshd_config"), self.path("sshd.log"));
        let shared = Arc::clone(&self.shared);
        self.accepting = Some(std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("the listener stands");
                if shared.closed.load(Ordering::SeqCst) {
                    return;
                }
                shared.connections.fetch_add(1, Ordering::SeqCst);
                if shared.frozen.load(Ordering::SeqCst) {
                    shared.silent.lock().expect("no panic").push(stream);
                    continue;
                }
                let output = OwnedFd::from(stream.try_clone().expect("a descriptor"));
                let server = Command::new(&program)
                    .arg("-i")
                    .arg("-f")
                    .arg(&config)
                    .arg("-E")
                    .arg(&log)
                    .stdin(Stdio::from(OwnedFd::from(stream)))
                    .stdout(Stdio::from(output))
                    .stderr(Stdio::null())
                    .process_group(0)
                    .spawn()
                    .expect("sshd starts");
                shared.servers.lock().expect("no panic").push(server);
            }
        }));
    }

    /// Writes an entry `name` that leads to this node; `extra` are more lines for
    /// it, which come first.
    pub fn configure(&self, name: &str, extra: &str) {
        let dir = self.folder.path().display();
        let port = self.port;
        let config = format!(
            "Host {name}\n{extra}\nHostName 127.0.0.1\nPort {port}\nHostKeyAlias {name}\n\
             Host *\nIdentityFile {dir}/id\nIdentitiesOnly yes\n\
             UserKnownHostsFile {dir}/known_hosts\nGlobalKnownHostsFile /dev/null\n\
             StrictHostKeyChecking yes\nConnectTimeout 5\nServerAliveInterval 1\n\
             ServerAliveCountMax 2\nHashKnownHosts no\n"
        );
        fs::write(self.config(), config).expect("a file");
    }

    /// Makes a new host key; the known key is that of the first call.
    pub fn new_host_key(&self) {
        let key = self.path("host");
        let first = !key.exists();
        for file in [key.clone(), key.with_extension("pub")] {
            let _ = fs::remove_file(file);
        }
        make_key(&key, "");
        if first {
            let public = fs::read_to_string(key.with_extension("pub")).expect("it was made");
            let known = format!("node {public}");
            fs::write(self.path("known_hosts"), known).expect("a file");
        }
    }

    /// Sets the account's login shell.
    pub fn login_shell(&self, program: &str) {
        fs::write(self.path("shell"), format!("{program}\n")).expect("a file");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The account's home on the node.
    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub fn sockets(&self) -> PathBuf {
        self.path("s")
    }

    pub fn config(&self) -> PathBuf {
        self.path("ssh_config")
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The user's `ssh`, as a new daemon would use it.
    pub fn ssh(&self) -> Ssh {
        let config = self.config().display().to_string();
        Ssh::new(
            vec!["ssh".to_owned(), "-F".to_owned(), config],
            &self.sockets(),
        )
    }

    pub async fn try_connect(&self) -> Result<Host, SshError> {
        let ssh = self.ssh();
        let connect = ssh.connect("node", "node", None);
        tokio::time::timeout(DEADLINE, connect)
            .await
            .expect("a connection has a deadline of its own")
    }

    pub async fn connect(&self) -> Host {
        match self.try_connect().await {
            Ok(host) => host,
            Err(error) => panic!("{error}: {}\n{}", error.trouble, self.log()),
        }
    }

    /// Runs the user's `ssh` with these words.
    pub fn user(&self, words: &[&str]) -> Output {
        Command::new("ssh")
            .arg("-F")
            .arg(self.config())
            .args(words)
            .stdin(Stdio::null())
            .output()
            .expect("ssh runs")
    }

    /// Our control sockets.
    pub fn control_sockets(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.sockets()).expect("the folder stands");
        entries
            .map(|entry| entry.expect("an entry").path())
            .collect()
    }

    /// The process of a master.
    pub fn process(&self, control_socket: &Path) -> Pid {
        let path = control_socket.display().to_string();
        let check = self.user(&["-S", &path, "-O", "check", "node"]);
        let text = String::from_utf8(check.stderr).expect("text");
        let number = text
            .split_once("pid=")
            .and_then(|(_, rest)| rest.split_once(')'))
            .and_then(|(number, _)| number.parse().ok());
        let number = number.unwrap_or_else(|| panic!("no `Master running (pid=N)`: {text}"));
        Pid::from_raw(number).expect("a process")
    }

    /// Number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// From now on this node answers nothing and closes nothing.
    pub fn freeze(&self) {
        self.shared.frozen.store(true, Ordering::SeqCst);
        self.signal(Signal::STOP);
    }

    /// New connections work again; the frozen ones stay so.
    pub fn thaw_new(&self) {
        self.shared.frozen.store(false, Ordering::SeqCst);
    }

    /// The node's connections end.
    pub fn cut(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        for server in self.shared.servers.lock().expect("no panic").iter() {
            let pid = Pid::from_child(server);
            // The process may have ended.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Log of the server, for the message of a failed test.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("sshd.log")).unwrap_or_default()
    }
}

impl Drop for SshNode {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        self.cut();
        for server in self.shared.servers.lock().expect("no panic").iter_mut() {
            let _ = server.wait();
        }
    }
}

/// An `ssh-agent` that ends with the test.
pub struct Agent {
    process: Child,
    pub socket: PathBuf,
}

impl Agent {
    pub async fn new(node: &SshNode) -> Self {
        let socket = node.path("agent");
        let process = Command::new("ssh-agent")
            .arg("-D")
            .arg("-a")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("ssh-agent starts");
        let agent = Self { process, socket };
        until("the agent", || agent.socket.exists()).await;
        agent
    }

    /// Takes a key in.
    pub fn add(&self, key: &Path) {
        let added = Command::new("ssh-add")
            .arg(key)
            .env("SSH_AUTH_SOCK", &self.socket)
            .stdin(Stdio::null())
            .output()
            .expect("ssh-add runs");
        assert!(added.status.success(), "{added:?}");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes a key pair.
pub fn make_key(path: &Path, passphrase: &str) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", passphrase, "-C", "test", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .expect("ssh-keygen runs");
    assert!(made.status.success(), "{made:?}");
}

/// The fingerprint of a key, as `ssh-keygen` prints it.
pub fn fingerprint(key: &Path) -> String {
    let output = Command::new("ssh-keygen")
        .arg("-lf")
        .arg(key)
        .output()
        .expect("ssh-keygen runs");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let print = text.split(' ').nth(1).expect("bits and fingerprint");
    print.to_owned()
}

/// Writes an executable script.
pub fn write_program(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own file");
}

/// A port at which no process listens; no other process gets it as long as it is
/// held.
pub fn closed_port() -> (rustix::fd::OwnedFd, u16) {
    use rustix::net::{AddressFamily, SocketAddrV4, SocketType, bind, getsockname, socket};
    let held = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = getsockname(&held).expect("it is bound");
    let address = SocketAddrV4::try_from(address).expect("as bound");
    (held, address.port())
}

/// The server's program, which is on no ordinary user's path.
fn sshd() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/usr/lib/ssh"].map(PathBuf::from))
        .map(|folder| folder.join("sshd"))
        .find(|program| program.is_file())
        .expect("sshd is needed: apt-get install openssh-server")
}

/// Waits until `look` returns true.
pub async fn until(what: &str, mut look: impl FnMut() -> bool) {
    let looking = async {
        while !look() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let looked = tokio::time::timeout(DEADLINE, looking).await;
    assert!(looked.is_ok(), "waited {DEADLINE:?} for {what}");
}

/// Runs words in no terminal.
pub fn run(words: &[OsString]) -> Output {
    Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .expect("ssh runs")
}

/// Opens the user's own master and returns its control path.
pub fn users_master(node: &SshNode, more: &str) -> PathBuf {
    let path = node.path("own master");
    let lines = format!("ControlPath \"{}\"\n{more}", path.display());
    node.configure("node", &lines);
    let opened = node.user(&["-f", "-M", "-N", "node"]);
    assert!(opened.status.success(), "{opened:?}");
    path
}

/// A stream of a command that prints the line `M4RK` first.
pub async fn open(host: &Host, command: &str) -> Result<Pipe, SshError> {
    host.open(command, "M4RK", DEADLINE).await
}

/// Runs these words on the node, in no terminal here or there.
pub async fn exec(host: &Host, tail: &[String]) -> Output {
    run(&host.argv(false, tail).await.expect("a connection"))
}

pub async fn says(host: &Host, script: &str) -> String {
    let said = host.script(script).await.expect("a script runs");
    String::from_utf8(said.out).expect("text").trim().to_owned()
}
