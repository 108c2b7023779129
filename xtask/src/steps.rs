//! Runs named steps one after another and remembers how long each took.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The four programs of the project; each must build alone.
pub const PROGRAMS: &[&str] = &["neroman", "neromum", "nerokid", "nerokid-shim"];

/// Steps of one task; the first that fails ends it.
pub struct Steps {
    root: PathBuf,
    took: Vec<(String, Duration)>,
}

impl Steps {
    /// Steps of the project that lies at `root`.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            took: Vec::new(),
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
        command
    }

    /// `cargo build` of the four programs; `more` are further words for it.
    pub fn build(&self, more: &[&str]) -> Command {
        let mut command = self.cargo(&["build", "--locked"]);
        for program in PROGRAMS {
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

    /// Prints the ten slowest steps.
    pub fn print_slowest(&self) {
        let mut slowest: Vec<_> = self.took.iter().collect();
        slowest.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        println!("\nthe ten slowest steps:");
        for (name, took) in slowest.iter().take(10) {
            println!("{:8.1} s  {name}", took.as_secs_f64());
        }
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
