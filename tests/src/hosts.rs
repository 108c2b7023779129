//! Hosts that are reached by `ssh`: real servers on this machine, each with a
//! network, processes, users and a home of its own, and every fault that a host
//! can have. They end with the test, even if it is killed.
//!
//! The script `tests/rig/sshd.sh` does the work and describes each fault.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use crate::home::program;

/// The user id of the tests' homes.
const TESTER: u32 = 61001;

/// Running hosts `h1`, `h2`, …
#[derive(Debug)]
pub struct Hosts {
    folder: tempfile::TempDir,
    count: usize,
    shared: Vec<String>,
    isolated: bool,
    holder: Child,
}

/// The hosts to bring up.
#[derive(Clone, Debug)]
pub struct Plan {
    count: usize,
    home_size: Option<String>,
    shared: Vec<String>,
    sshd_options: String,
    folder: PathBuf,
}

impl Plan {
    /// Hosts `h1` to `h<count>`.
    pub fn new(count: usize) -> Self {
        Self {
            count,
            home_size: None,
            shared: Vec::new(),
            sshd_options: String::new(),
            folder: "/tmp".into(),
        }
    }

    /// Keeps everything of the hosts, with their homes, below this folder.
    #[must_use]
    pub fn below(mut self, folder: &Path) -> Self {
        self.folder = folder.to_path_buf();
        self
    }

    /// Gives each home a file system of this size, for example `64M`, so that
    /// it can be filled. Needs hosts with name spaces.
    #[must_use]
    pub fn home_size(mut self, size: &str) -> Self {
        self.home_size = Some(size.to_owned());
        self
    }

    /// Gives these hosts one home, as the login nodes of a cluster have.
    #[must_use]
    pub fn shared_home(mut self, hosts: &[&str]) -> Self {
        self.shared = hosts.iter().map(|host| (*host).to_owned()).collect();
        self
    }

    /// Lines put first into every `sshd_config`. The password of the users is
    /// `rig`; it counts only with `PasswordAuthentication yes`.
    #[must_use]
    pub fn sshd_options(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.sshd_options);
        self
    }

    /// Brings the hosts up; returns when each answers.
    ///
    /// # Panics
    /// When this machine cannot have such hosts; the message has the reason.
    #[track_caller]
    pub fn up(self) -> Hosts {
        let folder = tempfile::Builder::new()
            .prefix("nh")
            .tempdir_in(&self.folder)
            .expect("a folder");
        let isolated = isolates();
        let mut holder = script()
            .arg("hold")
            .arg(folder.path())
            .env("HOSTS", self.count.to_string())
            .env("MODE", if isolated { "ns" } else { "user" })
            .env("HOME_SIZE", self.home_size.unwrap_or_default())
            .env("SHARED", self.shared.join(" "))
            .env("SSHD_OPTIONS", self.sshd_options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(folder.path().join("said")).expect("a file"))
            // A signal to the test's process group must not hit the process
            // that cleans up.
            .process_group(0)
            .spawn()
            .expect("bash is installed");
        let mut line = String::new();
        let mut out = BufReader::new(holder.stdout.take().expect("piped"));
        let read = out.read_line(&mut line);
        if !line.starts_with("ready") {
            drop(holder.stdin.take());
            let _ = holder.wait();
            let said = fs::read_to_string(folder.path().join("said")).unwrap_or_default();
            let logs = logs(folder.path());
            panic!("the hosts did not come up ({read:?}): {said}\n{logs}");
        }
        let hosts = Hosts {
            folder,
            count: self.count,
            shared: self.shared,
            isolated,
            holder,
        };
        fs::create_dir_all(hosts.common().join("bin")).expect("a folder");
        open_to_all(&hosts.common().join("bin"), 0o755);
        hosts
    }
}

impl Hosts {
    /// Brings up hosts `h1` to `h<count>` with default options.
    #[track_caller]
    pub fn up(count: usize) -> Self {
        Plan::new(count).up()
    }

    /// The folder with everything of these hosts.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Whether each host has name spaces of its own. Without them (not root),
    /// hosts can only be cut, frozen, killed and started.
    pub fn isolated(&self) -> bool {
        self.isolated
    }

    /// `h1`, `h2`, …
    pub fn names(&self) -> Vec<String> {
        (1..=self.count)
            .map(|number| format!("h{number}"))
            .collect()
    }

    /// The configuration file for `ssh -F`; a test may change it.
    pub fn ssh_config(&self) -> PathBuf {
        self.path().join("ssh_config")
    }

    /// The value of `NERONET_SSH` with which neroman reaches these hosts.
    pub fn ssh_command(&self) -> String {
        format!("ssh -F {}", self.ssh_config().display())
    }

    /// A folder that all hosts and this machine see at the same path and every
    /// user may write to.
    pub fn common(&self) -> PathBuf {
        self.path().join("common")
    }

    /// Puts a program of this build into the common folder; returns its path,
    /// the same on every host and here.
    pub fn program(&self, name: &str) -> PathBuf {
        let to = self.common().join("bin").join(name);
        if !to.exists() {
            let private = to.with_extension("new");
            fs::copy(program(name), &private).expect("a copy");
            open_to_all(&private, 0o755);
            fs::rename(&private, &to).expect("same folder");
        }
        to
    }

    /// The home of the host's user, seen from this machine.
    pub fn home(&self, host: &str) -> PathBuf {
        let whose = match self.shared.first() {
            Some(first) if self.shared.iter().any(|one| one == host) => first,
            _ => host,
        };
        self.path().join("hosts").join(whose).join("home")
    }

    /// Writes a file of the user there, `path` from the home on.
    pub fn put(&self, host: &str, path: &str, text: &str, mode: u32) {
        let to = self.home(host).join(path);
        fs::write(&to, text).expect("a file");
        open_to_all(&to, mode);
        if self.isolated {
            chown(&to, Some(TESTER), Some(TESTER)).expect("root");
        }
    }

    /// Runs a command line there over plain `ssh`.
    pub fn ssh(&self, host: &str, command: &str) -> Output {
        Command::new("ssh")
            .arg("-F")
            .arg(self.ssh_config())
            .args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host])
            .arg(command)
            .stdin(Stdio::null())
            .output()
            .expect("ssh is installed")
    }

    /// Runs a command there as root, past ssh.
    #[track_caller]
    pub fn enter(&self, host: &str, command: &[&str]) -> String {
        let mut words = vec![host];
        words.extend(command);
        self.must("enter", &words)
    }

    /// A program there as root, past ssh, whose words are still to be given.
    pub fn entering(&self, host: &str) -> Command {
        let mut command = script();
        command.arg("enter").arg(self.path()).arg(host);
        command
    }

    /// Every process of the host, as this machine numbers them; sshd first.
    #[track_caller]
    pub fn processes(&self, host: &str) -> Vec<i32> {
        let text = self.must("members", &[host]);
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Makes connections hang, while processes go on, until
    /// [`mend`](Self::mend).
    #[track_caller]
    pub fn cut(&self, host: &str) {
        self.must("cut", &[host]);
    }

    /// Undoes `cut`, `lossy` and `slow`.
    #[track_caller]
    pub fn mend(&self, host: &str) {
        self.must("mend", &[host]);
    }

    /// Drops `percent` per cent of the packets, each way.
    #[track_caller]
    pub fn lossy(&self, host: &str, percent: u32) {
        self.must("lossy", &[host, &percent.to_string()]);
    }

    /// Limits the bandwidth to the host, for example to `1mbit`.
    #[track_caller]
    pub fn slow(&self, host: &str, rate: &str) {
        self.must("slow", &[host, rate]);
    }

    /// Stops every process of the host.
    #[track_caller]
    pub fn freeze(&self, host: &str) {
        self.must("freeze", &[host]);
    }

    /// Lets a frozen host go on.
    #[track_caller]
    pub fn thaw(&self, host: &str) {
        self.must("thaw", &[host]);
    }

    /// A crash: kills every process of the host at once.
    #[track_caller]
    pub fn kill(&self, host: &str) {
        self.must("kill", &[host]);
    }

    /// Starts a killed host with the same home and another boot id.
    #[track_caller]
    pub fn start(&self, host: &str) {
        self.must("start", &[host]);
    }

    /// [`kill`](Self::kill) and [`start`](Self::start).
    #[track_caller]
    pub fn restart(&self, host: &str) {
        self.must("restart", &[host]);
    }

    /// `kill -9` of every sshd that serves a connection.
    #[track_caller]
    pub fn hang_up(&self, host: &str) {
        self.must("hangup", &[host]);
    }

    /// `kill -9` of everything but the listening sshd, as on machines that kill
    /// a user's processes at logout.
    #[track_caller]
    pub fn log_out(&self, host: &str) {
        self.must("logout", &[host]);
    }

    /// Gives the host another key.
    #[track_caller]
    pub fn new_host_key(&self, host: &str) {
        self.must("new-key", &[host]);
    }

    /// Fills the home except `keep_bytes`. Needs [`Plan::home_size`].
    #[track_caller]
    pub fn fill(&self, host: &str, keep_bytes: u64) {
        self.must("fill", &[host, &keep_bytes.to_string()]);
    }

    /// Undoes [`fill`](Self::fill).
    #[track_caller]
    pub fn free(&self, host: &str) {
        self.must("free", &[host]);
    }

    /// Adds `offset_s` to the host's uptime, from its next start on.
    #[track_caller]
    pub fn set_clock(&self, host: &str, offset_s: u64) {
        self.must("clock", &[host, &offset_s.to_string()]);
    }

    /// Makes `name` another name of this host for later connections, as a site does that
    /// leads its users to one of several login nodes.
    pub fn alias(&self, name: &str, host: &str) {
        let text = fs::read_to_string(self.ssh_config()).expect("their configuration");
        let is_of = |block: &str, whose: &str| block.starts_with(&format!("{whose}\n"));
        let blocks: Vec<&str> = text.split("Host ").skip(1).collect();
        let of_host = blocks.iter().find(|block| is_of(block, host));
        let own = of_host.expect("it exists").replacen(host, name, 1);
        let mut all = format!("Host {own}");
        for block in blocks.iter().filter(|block| !is_of(block, name)) {
            all.push_str(&format!("Host {block}"));
        }
        fs::write(self.ssh_config(), all).expect("own file");
    }

    /// Changes the address of this machine on the hosts' network: open
    /// connections hang.
    #[track_caller]
    pub fn change_own_address(&self) {
        self.must("move", &["h1"]);
    }

    #[track_caller]
    fn must(&self, verb: &str, words: &[&str]) -> String {
        let output = script()
            .arg(verb)
            .arg(self.path())
            .args(words)
            .stdin(Stdio::null())
            .output()
            .expect("bash is installed");
        assert!(
            output.status.success(),
            "{verb} {words:?}: {}\n{}",
            String::from_utf8_lossy(&output.stderr),
            logs(self.path())
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // The holder cleans up when its standard input ends.
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Whether hosts can have name spaces of their own here. Root in a container
/// that forbids that counts as an ordinary user.
pub fn isolates() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        rustix::process::geteuid().is_root()
            && script()
                .arg("isolates")
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
    })
}

fn script() -> Command {
    let mut command = Command::new("bash");
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("rig/sshd.sh"))
        .env_clear();
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsStr::new("/usr/bin:/bin").to_owned());
    command.env("PATH", path);
    if let Some(home) = std::env::var_os("HOME") {
        command.env("HOME", home);
    }
    command
}

fn logs(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder.join("log"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let lines = fs::read_to_string(entry.path()).unwrap_or_default();
        let tail: Vec<&str> = lines.lines().rev().take(20).collect();
        text.push_str(&format!("--- {}\n", entry.path().display()));
        for line in tail.iter().rev() {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("own file");
}
