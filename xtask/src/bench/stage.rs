//! A home to measure on, and what its processes use.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::programs::Programs;

/// Clock ticks in a second, as `/proc` counts CPU time.
const TICKS: f64 = 100.0;

/// A home; dropping it ends its processes.
pub struct BenchHome {
    folder: PathBuf,
    neroman: PathBuf,
    environment: Vec<(String, String)>,
}

impl BenchHome {
    /// Starts one run, so that daemon, neromum and launcher run.
    pub fn warm(&self) -> Result<(), String> {
        let folder = self.experiment("warm", "collection: warm\n+w:\n  command: /bin/true\n")?;
        self.ok(&["add", &folder.display().to_string()])?;
        self.ok(&["start", "warm/w"])?;
        self.ok(&["wait", "warm/w"])?;
        Ok(())
    }

    /// A fresh home.
    pub fn new(programs: &Programs, name: &str) -> Result<Self, String> {
        let folder = programs.scratch(name)?;
        Ok(Self {
            folder,
            neroman: programs.path("neroman"),
            environment: Vec::new(),
        })
    }

    /// With one more variable for every command.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The folder with everything.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes an experiment folder.
    pub fn experiment(&self, name: &str, yaml: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(folder.join("neronet.yaml"), yaml))
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// A call of `neroman-office` as `neroman` makes it; without one neroman does its work itself.
    pub fn office(&self, args: &[&str]) -> Command {
        let program = self.neroman.with_file_name("neroman-office");
        let said = Command::new(&program).arg("--version").output();
        let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
        match said.as_deref().map(|said| said.trim().split_once(' ')) {
            Ok(Some((_, build))) => {
                let mut command = Command::new(program);
                command.arg(build).args(args);
                command
            }
            _ => self.command(args),
        }
    }

    /// A command of `neroman` on this home.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.neroman);
        command
            .args(args)
            .env("NERONET_HOME", self.folder.join("h"))
            .envs(self.environment.iter().cloned())
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it; must exit 0. Returns its output and how long it took.
    pub fn ok(&self, args: &[&str]) -> Result<(Output, Duration), String> {
        let began = Instant::now();
        let output = self
            .command(args)
            .output()
            .map_err(|error| error.to_string())?;
        let took = began.elapsed();
        if output.status.success() {
            return Ok((output, took));
        }
        // With `--json` a failure is told on standard output.
        let said = [output.stderr, output.stdout].concat();
        Err(format!(
            "neroman {} ended with {}: {}",
            args.join(" "),
            output.status,
            String::from_utf8_lossy(&said)
        ))
    }

    /// Starts it and leaves it running.
    pub fn spawn(&self, args: &[&str]) -> Result<Child, String> {
        self.command(args)
            .spawn()
            .map_err(|error| error.to_string())
    }

    /// Every process of this home: (pid, what it is).
    pub fn processes(&self) -> BTreeMap<i32, &'static str> {
        let home = self.folder.join("h");
        let home = home.as_os_str().as_encoded_bytes();
        let mut found = BTreeMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<i32>().ok())
            else {
                continue;
            };
            let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
            let command = read("cmdline");
            let ours = holds(&command, home) || holds(&read("environ"), home);
            let program = command.split(|byte| *byte == 0).next().unwrap_or_default();
            let program = program
                .rsplit(|byte| *byte == b'/')
                .next()
                .unwrap_or_default();
            let kind = match program {
                b"neroman" => "neroman daemon",
                b"neromum" => "neromum",
                b"nerokid" => "watcher",
                b"nerokid-shim" if parent(pid).is_some_and(is_shim) => "shim",
                b"nerokid-shim" => "launcher",
                _ => "job",
            };
            if ours && !program.is_empty() {
                found.insert(pid, kind);
            }
        }
        found
    }

    /// The process of the daemon.
    pub fn daemon(&self) -> Result<i32, String> {
        let processes = self.processes();
        let mut daemons = processes
            .iter()
            .filter(|(_, kind)| **kind == "neroman daemon");
        let found = daemons.next().map(|(pid, _)| *pid);
        found.ok_or_else(|| "no daemon runs".to_owned())
    }

    /// CPU seconds of all our daemons and all they waited for.
    pub fn cpu(&self) -> f64 {
        let lasting = ["neroman daemon", "neromum", "launcher"];
        self.processes()
            .iter()
            .filter(|(_, kind)| lasting.contains(kind))
            .map(|(pid, _)| cpu_seconds(*pid))
            .sum()
    }

    /// Every neromum of this home with this first word, such as `serve` or `job`.
    pub fn agents(&self, word: &str) -> Vec<i32> {
        let has_word = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(word.as_bytes())
        };
        let all = self.processes().into_iter();
        let agents = all.filter(|(_, kind)| *kind == "neromum");
        agents.map(|(pid, _)| pid).filter(has_word).collect()
    }
}

impl Drop for BenchHome {
    fn drop(&mut self) {
        let _ = self.command(&["daemon", "stop"]).output();
        for pid in self.processes().keys() {
            if let Some(pid) = rustix::process::Pid::from_raw(*pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// CPU seconds of a process and of all it waited for.
pub fn cpu_seconds(pid: i32) -> f64 {
    fields(pid).map_or(0.0, |fields| fields[13..17].iter().sum::<f64>() / TICKS)
}

/// The same without the children that it waited for.
pub fn own_cpu_seconds(pid: i32) -> f64 {
    fields(pid).map_or(0.0, |fields| fields[13..15].iter().sum::<f64>() / TICKS)
}

/// The second of the machine's uptime in which a process began.
pub fn started_s(pid: i32) -> Option<u64> {
    fields(pid).map(|fields| (fields[21] / TICKS) as u64)
}

/// Memory that a process has written, in KiB. Its program's text is not among it: that counts as
/// private while no other process runs the program, and as dirty while its file is new.
pub fn written_kib(pid: i32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find(|line| line.starts_with("Anonymous:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// How often a process has gone to sleep: each is a wake-up.
pub fn switches(pid: i32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("voluntary_ctxt_switches"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The fields of `/proc/PID/stat` as numbers, counted from 0; the name is 0.
fn fields(pid: i32) -> Option<Vec<f64>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after = text.rfind(')')? + 2;
    let mut all = vec![f64::from(pid), 0.0];
    all.extend(
        text[after..]
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0.0)),
    );
    Some(all)
}

fn parent(pid: i32) -> Option<i32> {
    fields(pid).map(|fields| fields[3] as i32)
}

fn is_shim(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|command| holds(&command, b"nerokid-shim"))
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
