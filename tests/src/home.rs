//! One neroman with all its files and processes, in a folder that is removed
//! after the test.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nero_model::process::{Life, ProcessId};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

use crate::hosts::Hosts;
use crate::processes::{Part, parts};
use crate::umask;
use crate::wait::until;

/// All programs of the project.
const PROGRAMS: [&str; 5] = [
    "neroman",
    "neroman-office",
    "neromum",
    "nerokid",
    "nerokid-shim",
];

/// A home; dropping it ends every process that belongs to it.
#[derive(Debug)]
pub struct Home {
    folder: tempfile::TempDir,
    env: BTreeMap<String, String>,
    neroman: PathBuf,
    /// Whether file modes bind its processes, even those of root.
    is_bound: bool,
}

/// Result of a command.
#[derive(Debug)]
pub struct Ran {
    /// The command's words.
    pub args: Vec<String>,
    /// Exit code; `None` when a signal ended the command.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// An empty home with a short path.
    pub fn new() -> Self {
        Self::in_folder(
            tempfile::Builder::new()
                .prefix("nt")
                .tempdir()
                .expect("a folder"),
        )
    }

    /// A home in a folder that the test made, for example on a small file
    /// system.
    pub fn in_folder(folder: tempfile::TempDir) -> Self {
        umask::draw();
        let base = folder.path().join("home");
        fs::create_dir_all(&base).expect("a folder");
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
        let env = BTreeMap::from([
            ("PATH".to_owned(), path),
            ("HOME".to_owned(), folder.path().display().to_string()),
            ("NERONET_HOME".to_owned(), base.display().to_string()),
            ("TZ".to_owned(), "Pacific/Chatham".to_owned()),
        ]);
        Self {
            folder,
            env,
            neroman: program("neroman"),
            is_bound: false,
        }
    }

    /// Binds later commands, and the processes that they start, by file modes,
    /// as an ordinary user is.
    pub fn bind_by_modes(&mut self) {
        self.is_bound = geteuid().is_root();
    }

    /// A home that reaches its nodes through these hosts' ssh configuration.
    pub fn with_hosts(hosts: &Hosts) -> Self {
        let mut home = Self::new();
        home.set_env("NERONET_SSH", &hosts.ssh_command());
        home
    }

    /// Runs later commands from the `neroman` in this folder, which contains
    /// all programs of another build.
    pub fn use_programs(&mut self, folder: &Path) {
        self.neroman = folder.join("neroman");
    }

    /// Copies all programs with the content of build `number`; 0 is the present
    /// build. Returns their folder.
    pub fn other_build(&self, number: usize) -> PathBuf {
        let folder = self.path().join("programs").join(number.to_string());
        self.other_build_at(&folder, number);
        folder
    }

    /// The same into this folder.
    pub fn other_build_at(&self, folder: &Path, number: usize) {
        fs::create_dir_all(folder).expect("a folder");
        for name in PROGRAMS {
            let to = folder.join(name);
            let mut content = fs::read(program(name)).expect("it is built");
            if number > 0 {
                content.extend_from_slice(format!("another build: {number}").as_bytes());
            }
            self.script(&to, content);
        }
    }

    /// Keeps the folder when the home is dropped; returns it.
    pub fn keep(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.path().to_path_buf()
    }

    /// The folder with everything of this test.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `NERONET_HOME`.
    pub fn base(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Sets a variable for later commands.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    /// Writes the configuration.
    pub fn configure(&self, text: &str) {
        fs::write(self.base().join("config.yaml"), text).expect("the home is writable");
    }

    /// An experiment folder with a `neronet.yaml`.
    pub fn experiment(&self, name: &str, yaml: &str) -> PathBuf {
        let folder = self.path().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("neronet.yaml"), yaml).expect("a file");
        folder
    }

    /// Writes an executable script into a folder.
    pub fn script(&self, path: &Path, text: impl AsRef<[u8]>) {
        fs::write(path, text).expect("a file");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own file");
    }

    /// The command, ready to be run.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(&self.neroman);
        if self.is_bound {
            command = Command::new("setpriv");
            command
                .arg("--bounding-set=-dac_override,-dac_read_search")
                .arg(&self.neroman);
        }
        command
            .args(args)
            .env_clear()
            .envs(&self.env)
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A call of `neroman-office`, as `neroman` makes it.
    pub fn office(&self, args: &[&str]) -> Command {
        let program = self.neroman.with_file_name("neroman-office");
        let said = Command::new(&program).arg("--version").output();
        let said = String::from_utf8(said.expect("it is built").stdout).expect("a text");
        let build = said.trim().strip_prefix("neroman-office ");
        let mut command = self.in_environment(program.to_str().expect("a text"));
        command.arg(build.expect("a build")).args(args);
        command
    }

    /// Another program, started as `neroman` is: in this home's environment and folder.
    pub fn in_environment(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(&self.env)
            .current_dir(self.path())
            .stdin(Stdio::null());
        command
    }

    /// The path of `neroman`.
    pub fn neroman(&self) -> &Path {
        &self.neroman
    }

    /// Runs `neroman` with these words and returns the result.
    pub fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        let child = self.spawn(args);
        Ran::of(
            args,
            child.wait_with_output().expect("neroman can be waited for"),
        )
    }

    /// Starts `neroman` with these words.
    pub fn spawn<S: AsRef<OsStr>>(&self, args: &[S]) -> Child {
        self.command(args)
            .process_group(0)
            .spawn()
            .expect("neroman is built: cargo xtask test")
    }

    /// Runs `neroman`, which must exit 0; returns its output.
    #[track_caller]
    pub fn ok<S: AsRef<OsStr>>(&self, args: &[S]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{ran:#?}\n{}", self.logs());
        ran.out
    }

    /// Runs `neroman … --json`, which must exit 0.
    #[track_caller]
    pub fn json<S: AsRef<OsStr>>(&self, args: &[S]) -> Value {
        let mut words: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
        words.push(OsStr::new("--json"));
        let text = self.ok(&words);
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert_eq!(value["schema"], 1, "{text}");
        value
    }

    /// `status --json` of one experiment.
    #[track_caller]
    pub fn experiment_json(&self, id: u64) -> Value {
        let id = id.to_string();
        self.json(&["status", id.as_str()])["experiments"][0].clone()
    }

    /// Waits until the experiment is in this state; returns its JSON.
    #[track_caller]
    pub fn until_state(&self, id: u64, state: &str) -> Value {
        until(&format!("experiment {id} to be {state}"), || {
            let id = id.to_string();
            let ran = self.run(&["status", id.as_str(), "--json"]);
            let value: Value = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
            let seen = value["experiments"][0].clone();
            if seen["state"] == state {
                Ok(seen)
            } else {
                Err((ran, self.logs()))
            }
        })
    }

    /// Waits until the experiment's run is settled, with its last metric;
    /// returns its JSON. Unlike `wait`, it does not give up after a while.
    #[track_caller]
    pub fn until_settled(&self, id: u64) -> Value {
        let ended = ["finished", "crashed", "aborted", "timeout"];
        until(&format!("experiment {id} to be settled"), || {
            let seen = self.experiment_json(id);
            let over = seen["phase"]
                .as_str()
                .is_some_and(|phase| ended.contains(&phase));
            if over && seen["settled"] == true {
                Ok(seen)
            } else {
                Err((seen, self.logs()))
            }
        })
    }

    /// The live processes of this part.
    pub fn alive(&self, part: Part) -> Vec<ProcessId> {
        let all = parts(&self.base());
        all.into_iter()
            .filter(|(its, _)| *its == part)
            .map(|(_, id)| id)
            .collect()
    }

    /// Waits until a process of this part lives.
    #[track_caller]
    pub fn until_alive(&self, part: Part) -> ProcessId {
        until(&format!("a {part:?} to live"), || {
            self.alive(part)
                .first()
                .copied()
                .ok_or_else(|| parts(&self.base()))
        })
    }

    /// `kill -9` to every process of this part; returns when they are dead.
    #[track_caller]
    pub fn kill(&self, part: Part) {
        self.kill_all(&[part]);
    }

    /// `kill -9` to all processes of these parts at once.
    #[track_caller]
    pub fn kill_all(&self, which: &[Part]) {
        let hit: Vec<ProcessId> = parts(&self.base())
            .into_iter()
            .filter(|(part, _)| which.contains(part))
            .map(|(_, id)| id)
            .collect();
        end(&hit);
    }

    /// The logs of the daemons, for messages of failed tests.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for path in self.log_files() {
            let lines = fs::read_to_string(&path).unwrap_or_default();
            let tail: Vec<&str> = lines.lines().rev().take(40).collect();
            text.push_str(&format!("--- {}\n", path.display()));
            for line in tail.iter().rev() {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }

    /// How often the daemons logged this, as far as the logs are kept.
    pub fn count_logged(&self, what: &str) -> usize {
        let files = self.log_files().into_iter();
        let texts = files.map(|path| fs::read_to_string(path).unwrap_or_default());
        texts.map(|text| text.matches(what).count()).sum()
    }

    fn log_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.base()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = entry.file_name();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    if !["runs", "store", "bin", "trees"]
                        .iter()
                        .any(|skip| name == *skip)
                    {
                        folders.push(path);
                    }
                } else if name == "log" || path.extension().is_some_and(|ending| ending == "log") {
                    files.push(path);
                }
            }
        }
        files
    }

    /// Ends all processes of this home and returns those that were alive.
    pub fn end_everything(&self) -> Vec<(Part, ProcessId)> {
        let first = parts(&self.base());
        loop {
            let alive: Vec<ProcessId> = parts(&self.base()).into_iter().map(|(_, id)| id).collect();
            if alive.is_empty() {
                return first;
            }
            end(&alive);
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.end_everything();
    }
}

impl Ran {
    fn of<S: AsRef<OsStr>>(args: &[S], output: Output) -> Self {
        Self {
            args: args
                .iter()
                .map(|arg| arg.as_ref().to_string_lossy().into_owned())
                .collect(),
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// `kill -9` by identity; returns when none of the processes runs any more.
#[track_caller]
pub fn end(which: &[ProcessId]) {
    for id in which {
        if id.life().is_ok_and(|life| life == Life::Alive)
            && let Some(pid) = Pid::from_raw(id.pid)
        {
            // It may end by itself between the look and the signal.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    until("killed processes to be gone", || {
        let alive: Vec<_> = which
            .iter()
            .filter(|id| id.life().is_ok_and(|life| life == Life::Alive))
            .collect();
        if alive.is_empty() {
            Ok(())
        } else {
            Err(format!("{alive:?}"))
        }
    });
}

/// Path of a program of this build, beside the running test.
///
/// # Panics
/// When the program was not built.
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a running program has a path");
    let folder = own
        .ancestors()
        .find(|folder| folder.join(name).is_file())
        .unwrap_or_else(|| panic!("{name} is not built; run: cargo build --workspace --bins"));
    folder.join(name)
}
