//! A node behind a real `sshd`, which serves one connection and ends with it:
//! ssh starts it as its proxy command, so nothing listens anywhere.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nero_agents::{AgentError, AgentOptions, Progress, Remote, RemoteCancel, start_remote_from};
use nero_model::DeploymentId;
use nero_model::builds::PROGRAMS;
use nero_ssh::{Host, Ssh};
use rustix::process::{Pid, Signal, kill_process};

/// Longest that anything may take; no measure of speed.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A node and its user.
pub struct Node {
    folder: tempfile::TempDir,
    pub deployment: DeploymentId,
}

impl Node {
    /// A node with default options.
    pub fn new() -> Self {
        Self::with("")
    }

    /// A node on which `first`, lines of sh, ran before the server of each
    /// connection started: in name spaces of its own, where it may mount. `$HOME`
    /// is the home there.
    pub fn with(first: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("na")
            .tempdir()
            .expect("a folder");
        let node = Self {
            folder,
            deployment: DeploymentId::random(),
        };
        // The server of root insists on this folder, which its service makes.
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd").expect("root may make it");
        }
        for folder in [node.home(), node.path("s"), node.path("bin")] {
            fs::create_dir(folder).expect("a folder");
        }
        for key in ["host", "id"] {
            node.make_key(key);
        }
        node.write_server(first);
        node
    }

    fn make_key(&self, name: &str) {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(self.path(name))
            .status()
            .expect("ssh-keygen is installed");
        assert!(made.success());
    }

    /// The server's configuration. The home stands in it too, since the shell that
    /// executes the forced command reads start-up files of its home.
    fn write_server(&self, first: &str) {
        let dir = self.folder.path().display();
        self.login_shell("exec \"$shell\" -c \"$SSH_ORIGINAL_COMMAND\"");
        let server = format!(
            "UsePAM no\nStrictModes no\nPidFile none\nHostKey {dir}/host\n\
             AuthorizedKeysFile {dir}/id.pub\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPermitRootLogin yes\nForceCommand {dir}/login\n\
             SetEnv HOME={dir}/home\n"
        );
        fs::write(self.path("sshd_config"), server).expect("a file");
        let serve = format!("/usr/sbin/sshd -i -f {dir}/sshd_config -E {dir}/sshd.log");
        let proxy = match first {
            "" => format!("#!/bin/sh\nexec {serve}\n"),
            _ => {
                // A user other than root becomes root for the mounts, and itself
                // again for the server.
                let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
                let (space, serve) = if user.is_root() {
                    ("unshare -m", serve)
                } else {
                    let (user, group) = (user.as_raw(), group.as_raw());
                    let back = format!("unshare -U --map-user={user} --map-group={group}");
                    ("unshare -rm", format!("{back} {serve}"))
                };
                write_program(
                    &self.path("inside"),
                    &format!("#!/bin/sh\nset -e\nHOME={dir}/home\n{first}\nexec {serve}\n"),
                );
                format!("#!/bin/sh\nexec {space} {dir}/inside\n")
            }
        };
        write_program(&self.path("proxy"), &proxy);
        let host = fs::read_to_string(self.path("host.pub")).expect("it was made");
        fs::write(self.path("known"), format!("node {host}")).expect("a file");
        let client = format!(
            "Host *\nHostKeyAlias node\nProxyCommand {dir}/proxy\nIdentityFile {dir}/id\n\
             IdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile {dir}/known\n\
             GlobalKnownHostsFile /dev/null\n"
        );
        fs::write(self.path("ssh_config"), client).expect("a file");
    }

    /// Sets the commands that a login runs; `$shell` is bash, and programs in the
    /// node's `bin` come first.
    pub fn login_shell(&self, does: &str) {
        let dir = self.folder.path().display();
        let login = format!(
            "#!/bin/sh\nHOME={dir}/home PATH={dir}/bin:$PATH SHELL=/bin/bash shell=/bin/bash\n\
             export HOME PATH SHELL\ncd \"$HOME\" || exit 1\n{does}\n"
        );
        write_program(&self.path("login"), &login);
    }

    /// Puts a program first into the `PATH` there.
    pub fn program(&self, name: &str, text: &str) {
        write_program(&self.path("bin").join(name), text);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The node's `bin`, where builds lie.
    pub fn builds(&self) -> PathBuf {
        self.home().join(".neronet/bin")
    }

    /// Everything in [`builds`](Self::builds) that is no whole build.
    pub fn litter(&self) -> Vec<String> {
        names(&self.builds())
            .into_iter()
            .filter(|name| !nero_model::builds::is_sound(&self.builds().join(name)))
            .collect()
    }

    pub fn ssh(&self) -> Ssh {
        let config = self.path("ssh_config").display().to_string();
        let words = ["ssh".to_owned(), "-F".to_owned(), config];
        Ssh::new(words.to_vec(), &self.path("s"))
    }

    pub async fn host(&self) -> Host {
        self.ssh()
            .connect("node", "node", None)
            .await
            .expect("it connects")
    }

    pub fn cancel(&self) -> RemoteCancel {
        RemoteCancel {
            node: "node".to_owned(),
            deployment: self.deployment,
            root: None,
            options: AgentOptions::default(),
            tenure: 0,
        }
    }

    pub async fn start(&self) -> Result<Remote, AgentError> {
        self.start_with(&self.cancel()).await
    }

    pub async fn start_with(&self, cancel: &RemoteCancel) -> Result<Remote, AgentError> {
        start_remote_from(programs(), &self.host().await, cancel, &|_: Progress| {}).await
    }

    /// What its server recorded, and its processes: for the message of a failed test.
    pub fn state(&self) -> String {
        let log = fs::read_to_string(self.path("sshd.log")).unwrap_or_default();
        format!("{log}\n{:#?}", self.processes())
    }

    /// Breaks every connection.
    pub fn hang_up(&self) {
        for (pid, line) in self.processes() {
            if line.starts_with("ssh -F") || line.starts_with("ssh: ") {
                kill(pid);
            }
        }
    }

    /// Every process with this node's root in its command line.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let own = self.folder.path().display().to_string();
        fs::read_dir("/proc")
            .expect("it is mounted")
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|pid: i32| {
                let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
                let line = String::from_utf8_lossy(&words).replace('\0', " ");
                (line.contains(&own)).then_some((pid, line))
            })
            .collect()
    }

    /// The processes among them that serve.
    pub fn serving(&self) -> Vec<i32> {
        self.processes()
            .into_iter()
            .filter(|(_, line)| line.contains("neromum serve"))
            .map(|(pid, _)| pid)
            .collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            kill(pid);
        }
    }
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // The process may have ended by itself.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The names in a folder; none when it is not there.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

pub fn write_program(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own file");
}

/// The folder of the real programs: of `NERO_PROGRAMS`, or those built for
/// tests; built now when they are not there.
pub fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(folder) = std::env::var_os("NERO_PROGRAMS") {
            return PathBuf::from(folder);
        }
        let own = std::env::current_exe().expect("a running program has a path");
        // target/debug/deps/it-1234
        let folder = own
            .ancestors()
            .nth(2)
            .expect("cargo's layout")
            .to_path_buf();
        if !PROGRAMS.iter().all(|name| folder.join(name).is_file()) {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut build = Command::new(cargo);
            build.arg("build");
            for name in PROGRAMS {
                build.args(["-p", name]);
            }
            assert!(build.status().expect("cargo runs").success());
        }
        folder
    })
}

/// Waits until `look` returns something.
pub async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < DEADLINE, "waited for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
