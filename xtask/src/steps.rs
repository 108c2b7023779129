//! Runs named steps one after another and remembers how long each took.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The programs of the project; each must build alone.
pub const PROGRAMS: &[&str] = &[
    "neroman",
    "neroman-office",
    "neromum",
    "nerokid",
    "nerokid-shim",
];

/// Steps of one task.
pub struct Steps {
    root: PathBuf,
    took: Vec<(String, Duration)>,
    failures: Vec<String>,
}

impl Steps {
    /// Steps of the project that lies at `root`.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            took: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// The project's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Cargo's build folder.
    pub fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| self.root.join("target"), |set| self.root.join(set))
    }

    /// A `cargo` command in the project's folder.
    pub fn cargo<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(args).current_dir(&self.root);
        if !self.incremental() {
            command.env("CARGO_INCREMENTAL", "0");
        }
        command
    }

    /// Whether builds keep what the next one could reuse of a crate. They do where somebody builds
    /// again and again with cargo itself; in a fresh clone it would only cost time and disk.
    pub fn incremental(&self) -> bool {
        let kept = fs::read_dir(self.target().join("debug/incremental"));
        std::env::var_os("CARGO_INCREMENTAL").is_some()
            || kept.is_ok_and(|mut entries| entries.next().is_some())
    }

    /// The programs that this revision has: the first ones had no `neroman-office`.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> {
        let has_office = self.root.join("neroman/office").exists();
        let all = PROGRAMS.iter().copied();
        all.filter(move |name| has_office || *name != "neroman-office")
    }

    /// `cargo build` of all programs; `more` are further words for it.
    pub fn build(&self, more: &[&str]) -> Command {
        let mut command = self.cargo(&["build", "--locked"]);
        for program in self.programs() {
            command.args(["-p", program]);
        }
        command.args(more);
        command
    }

    /// Runs a function as a step.
    pub fn run(
        &mut self,
        name: &str,
        step: impl FnOnce(&Self) -> Result<(), String>,
    ) -> Result<(), String> {
        println!("== {name}");
        let began = Instant::now();
        let outcome = step(self);
        self.took.push((name.to_owned(), began.elapsed()));
        outcome.map_err(|why| format!("{name}: {why}"))
    }

    /// Runs a command as a step; anything but exit 0 fails it.
    pub fn command(&mut self, name: &str, command: Command) -> Result<(), String> {
        self.run(name, |_| execute(command))
    }

    /// Runs a function as a step and keeps its failure for [`Self::outcome`], so that the steps
    /// behind it run, too. Returns whether it succeeded.
    pub fn attempt(&mut self, name: &str, step: impl FnOnce(&Self) -> Result<(), String>) -> bool {
        let outcome = self.run(name, step);
        if let Err(why) = &outcome {
            println!("FAILED: {why}");
        }
        self.failures.extend(outcome.as_ref().err().cloned());
        outcome.is_ok()
    }

    /// Runs a command as [`Self::attempt`] runs a function.
    pub fn attempt_command(&mut self, name: &str, command: Command) -> bool {
        self.attempt(name, |_| execute(command))
    }

    /// Prints how long each step took, and returns the failures of all attempts together.
    ///
    /// # Errors
    /// Every step that failed, a line each.
    pub fn outcome(&self) -> Result<(), String> {
        println!("\nminutes of each step:");
        for (name, took) in &self.took {
            println!("{:8.1}  {name}", took.as_secs_f64() / 60.0);
        }
        let all: Duration = self.took.iter().map(|(_, took)| *took).sum();
        println!("{:8.1}  in all", all.as_secs_f64() / 60.0);
        if self.failures.is_empty() {
            return Ok(());
        }
        Err(self.failures.join("\nerror: "))
    }
}

/// Runs a command to its end.
pub fn execute(mut command: Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| format!("cannot run {}: {error}", command.get_program().display()))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!(
            "{} ended with {status}",
            command.get_program().display()
        ))
    }
}

/// Whether `cargo NAME` is installed.
pub fn has_cargo_command(root: &Path, name: &str) -> bool {
    Command::new("cargo")
        .args([name, "--version"])
        .current_dir(root)
        .output()
        .is_ok_and(|output| output.status.success())
}
