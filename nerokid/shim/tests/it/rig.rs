//! A launcher of our own, its runs, and what they leave on disk. Everything it
//! starts is gone when it is dropped.

use std::collections::VecDeque;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nero_journal::v1::changed::What;
use nero_journal::v1::{
    Changed, Doorbell, FromLauncher, Guard, LauncherHello, Retire, ToLauncher, from_launcher,
    to_launcher,
};
use prost::Message as _;
use tempfile::TempDir;

use crate::run::{Cancel, Run};

/// Time for anything on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `probe` returns something; panics with `what` after
/// [`PATIENCE`].
pub fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        // Gives way to the processes that are waited for.
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A launcher in a folder of its own.
#[derive(Debug)]
pub struct Rig {
    pub folder: TempDir,
    child: Option<Child>,
    link: Option<UnixStream>,
    inbox: Vec<u8>,
    pub news: VecDeque<from_launcher::Message>,
}

/// How a launcher is started.
#[derive(Debug, Default)]
pub struct Start<'a> {
    pub crash_at: &'a str,
    pub umask: &'a str,
    pub env: &'a [(&'a str, &'a str)],
    pub folder: Option<TempDir>,
    /// Folder of a cgroup to be in; empty: ours.
    pub cgroup: &'a str,
    /// Further arguments of the launcher.
    pub arguments: &'a [&'a str],
    /// Another user to be; needs root.
    pub user: Option<u32>,
}

impl Rig {
    pub fn new() -> Self {
        Self::start(Start::default())
    }

    pub fn crashing(point: &str) -> Self {
        Self::start(Start {
            crash_at: point,
            ..Start::default()
        })
    }

    pub fn start(mut start: Start<'_>) -> Self {
        let folder = start
            .folder
            .take()
            .unwrap_or_else(|| TempDir::new().unwrap());
        let mut rig = Self {
            folder,
            child: None,
            link: None,
            inbox: Vec::new(),
            news: VecDeque::new(),
        };
        if let Some(user) = start.user {
            rig.child = Some(rig.spawn_as(user));
            // The launcher answers that user alone, so our connection is that
            // user's.
            rig.link = Some(rig.dial_as(user));
            rig.greet();
        } else {
            rig.child = Some(rig.spawn(&start));
            rig.connect();
        }
        rig
    }

    /// A launcher of another user, in a folder open to it.
    pub fn as_user(user: u32, folder: TempDir) -> Self {
        Self::start(Start {
            user: Some(user),
            folder: Some(folder),
            ..Start::default()
        })
    }

    fn spawn_as(&self, user: u32) -> Child {
        use std::os::unix::process::CommandExt as _;
        // Copied to a place that this user can reach.
        let program = self.path("nerokid-shim");
        copy(env!("CARGO_BIN_EXE_nerokid-shim").as_ref(), &program);
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Command::new(program)
            .env_clear()
            .args(["launcher", "--socket"])
            .arg(self.socket())
            .arg("--log")
            .arg(self.path("launcher.log"))
            .uid(user)
            .gid(user)
            .spawn()
            .unwrap()
    }

    /// A connection with another user's credentials: the kernel records those
    /// of the thread that connects, so a thread becomes that user.
    pub fn dial_as(&self, user: u32) -> UnixStream {
        let socket = self.socket();
        let connected = std::thread::spawn(move || {
            let user = rustix::process::Uid::from_raw(user);
            // This thread alone, by the system call itself.
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            until("the socket", || UnixStream::connect(&socket).ok())
        });
        let stream = connected.join().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn spawn(&self, start: &Start<'_>) -> Child {
        let umask = match start.umask {
            "" => "022",
            umask => umask,
        };
        let mut command = Command::new("/bin/sh");
        command
            .env_clear()
            .args([
                "-c",
                "umask \"$1\"; [ -z \"$2\" ] || echo $$ > \"$2/cgroup.procs\"; shift 2; exec \"$@\"",
                "sh",
                umask,
                start.cgroup,
            ])
            .arg(env!("CARGO_BIN_EXE_nerokid-shim"))
            .arg("launcher")
            .arg("--socket")
            .arg(self.socket())
            .arg("--log")
            .arg(self.path("launcher.log"))
            .args(start.arguments)
            .stdin(Stdio::null())
            .envs(start.env.iter().copied());
        if !start.crash_at.is_empty() {
            command.env("NERO_CRASH_AT", start.crash_at);
        }
        command.spawn().unwrap()
    }

    pub fn socket(&self) -> PathBuf {
        self.path("l.sock")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("launcher.log")).unwrap_or_default()
    }

    pub fn launcher_pid(&self) -> i32 {
        self.child.as_ref().unwrap().id() as i32
    }

    /// A raw connection.
    pub fn dial(&self) -> UnixStream {
        let stream = until("the socket", || UnixStream::connect(self.socket()).ok());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Connects, and takes hello and the list.
    pub fn connect(&mut self) {
        self.link = Some(self.dial());
        self.greet();
    }

    fn greet(&mut self) {
        self.inbox.clear();
        self.send(hello());
        self.hear(|message| matches!(message, from_launcher::Message::Hello(_)));
        self.hear(|message| matches!(message, from_launcher::Message::Listed(_)));
    }

    pub fn disconnect(&mut self) {
        self.link = None;
        self.news.clear();
    }

    pub fn send(&mut self, message: to_launcher::Message) {
        let bytes = framed(message);
        self.link.as_mut().unwrap().write_all(&bytes).unwrap();
    }

    fn receive(&mut self) {
        let mut buffer = [0; 4096];
        let got = self.link.as_mut().unwrap().read(&mut buffer);
        let got = got.unwrap_or_else(|error| {
            panic!(
                "no news: {error}; had {:?}; log:\n{}",
                self.news,
                self.log()
            )
        });
        assert!(got > 0, "the launcher closed; log:\n{}", self.log());
        self.inbox.extend_from_slice(&buffer[..got]);
        while let Some((head, rest)) = self.inbox.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*head) as usize;
            let Some(bytes) = rest.get(..length) else {
                return;
            };
            let message = FromLauncher::decode(bytes).unwrap().message.unwrap();
            self.news.push_back(message);
            self.inbox.drain(..4 + length);
        }
    }

    /// The next message that fits; others stay.
    pub fn hear(
        &mut self,
        fits: impl Fn(&from_launcher::Message) -> bool,
    ) -> from_launcher::Message {
        loop {
            if let Some(at) = self.news.iter().position(&fits) {
                return self.news.remove(at).unwrap();
            }
            self.receive();
        }
    }

    /// The next news of this kind about a run.
    pub fn hear_of(&mut self, run: &Run, what: What) -> Changed {
        let token = run.launch.token.clone();
        let message = self.hear(|message| {
            matches!(message, from_launcher::Message::Changed(changed)
                if changed.token == token && changed.what == what as i32)
        });
        match message {
            from_launcher::Message::Changed(changed) => changed,
            other => panic!("{other:?}"),
        }
    }

    /// All news of a run up to that it ended, as words.
    pub fn news_of(&mut self, run: &Run) -> Vec<What> {
        let mut all = Vec::new();
        loop {
            let token = run.launch.token.clone();
            let message = self.hear(|message| {
                matches!(message, from_launcher::Message::Changed(changed)
                    if changed.token == token)
            });
            if let from_launcher::Message::Changed(changed) = message {
                all.push(changed.what());
                if !matches!(changed.what(), What::Started | What::TakenOver) {
                    return all;
                }
            }
        }
    }

    /// A run of this program, not yet launched.
    pub fn run(&self, argv: &[&str]) -> Run {
        Run::new(self.folder.path(), argv)
    }

    /// A run of a shell script.
    pub fn script(&self, script: &str) -> Run {
        self.run(&["/bin/sh", "-c", script])
    }

    pub fn launch(&mut self, run: &Run) {
        self.send(to_launcher::Message::Launch(run.launch.clone()));
    }

    /// Launches and waits for the end.
    pub fn complete(&mut self, run: &Run) -> Vec<What> {
        self.launch(run);
        self.news_of(run)
    }

    /// Asks for the end and rings.
    pub fn cancel(&mut self, run: &Run, number: u32, cancel: Cancel) {
        run.cancel(number, cancel);
        self.ring(run);
    }

    pub fn ring(&mut self, run: &Run) {
        self.send(to_launcher::Message::Doorbell(Doorbell {
            token: run.launch.token.clone(),
        }));
    }

    pub fn retire(&mut self) {
        self.send(to_launcher::Message::Retire(Retire {}));
    }

    /// Kills the launcher with SIGKILL.
    pub fn kill_launcher(&mut self) {
        self.disconnect();
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Waits for the launcher to leave by itself.
    pub fn launcher_left(&mut self) -> bool {
        let child = self.child.as_mut().unwrap();
        let status = until("the launcher to leave", || child.try_wait().unwrap());
        self.child = None;
        status.success()
    }

    /// Starts another launcher on the same socket.
    pub fn restart(&mut self) {
        // A process that is ending has no command line, and its files are still open.
        until("the socket of the launcher before to be closed", || {
            UnixStream::connect(self.socket()).err()
        });
        self.child = Some(self.spawn(&Start::default()));
        self.connect();
    }

    pub fn guard(&mut self, run: &Run) {
        self.send(Self::guarding(run));
    }

    /// The request to guard a run, from the present records of its claim.
    pub fn guarding(run: &Run) -> to_launcher::Message {
        let claim = run.claim();
        let shim = claim.claimed.as_ref().and_then(|one| one.shim.clone());
        let job = claim.started.as_ref().and_then(|one| one.job.clone());
        to_launcher::Message::Guard(Guard {
            token: run.launch.token.clone(),
            run_dir: run.launch.run_dir.clone(),
            incarnation: run.launch.incarnation,
            shim,
            job,
            grace_ms: run.launch.grace_ms,
            watcher: run.launch.watcher.clone(),
            time_limit_ms: run.launch.time_limit_ms,
            marks: run.launch.env.clone(),
            is_step: false,
            cards: Vec::new(),
        })
    }

    /// Processes of ours: their arguments or environment name the folder.
    pub fn processes(&self) -> Vec<i32> {
        let name = self.folder.path().as_os_str().as_bytes();
        let own = std::process::id() as i32;
        let numbers = fs::read_dir("/proc").unwrap().flatten();
        numbers
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter(|pid| *pid != own && lives(*pid))
            .filter(|pid| {
                ["cmdline", "environ"].iter().any(|file| {
                    fs::read(format!("/proc/{pid}/{file}"))
                        .is_ok_and(|bytes| bytes.windows(name.len()).any(|part| part == name))
                })
            })
            .collect()
    }

    /// Shims and jobs that have not begun: they look like their launcher.
    pub fn shims(&self) -> Vec<i32> {
        let launcher = self.launcher_pid();
        let path = format!("/proc/{launcher}/task/{launcher}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        let numbers = children.split_whitespace().flat_map(str::parse);
        let is_ours = |pid: &i32| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|bytes| bytes.windows(8).any(|part| part == b"launcher"))
        };
        numbers.filter(is_ours).collect()
    }

    /// Waits until only the launcher is left.
    pub fn nobody_else_is_left(&self) {
        let launcher = self.child.as_ref().map_or(0, |child| child.id() as i32);
        until("everybody to be gone", || {
            self.processes()
                .iter()
                .all(|pid| *pid == launcher)
                .then_some(())
        });
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("launcher's log:\n{}", self.log());
        }
        // The launcher first: it would start watchers anew.
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.processes();
            if left.is_empty() || Instant::now() > deadline {
                return;
            }
            left.into_iter().for_each(kill);
        }
    }
}

/// Copies a program by `cp`: a test's child could hold our own descriptor for
/// an instant, and a file open for writing cannot be executed.
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// Whether a process runs (a zombie does not).
pub fn lives(pid: i32) -> bool {
    nero_model::process::Stat::read(pid)
        .is_ok_and(|stat| !matches!(stat.state, b'Z' | b'X') || stat.threads > 1)
}

/// `kill -9`.
pub fn kill(pid: i32) {
    signal(pid, rustix::process::Signal::KILL);
}

pub fn signal(pid: i32, signal: rustix::process::Signal) {
    let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal);
}

pub fn hello() -> to_launcher::Message {
    to_launcher::Message::Hello(LauncherHello {
        build: "test".to_owned(),
        protocol_lowest: 1,
        protocol_highest: 1,
        process: None,
    })
}

pub fn framed(message: to_launcher::Message) -> Vec<u8> {
    let message = ToLauncher {
        message: Some(message),
    };
    let mut bytes = (message.encoded_len() as u32).to_le_bytes().to_vec();
    message.encode(&mut bytes).unwrap();
    bytes
}
