//! `cargo xtask demo`: the whole story on a home of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::steps::{Steps, execute};

/// Builds, runs the examples, shows what happens, leaves nothing running.
pub fn run(steps: &mut Steps) -> Result<(), String> {
    execute(steps.build(&[]))?;
    let target = steps.target();
    let stage = DemoHome {
        home: target.join("demo/home"),
        neroman: target.join("debug/neroman"),
    };
    let examples = target.join("demo/examples");
    // An earlier demo that was interrupted may have left its daemon.
    if stage.home.exists() {
        let _ = stage.command(&["daemon", "stop"]).output();
    }
    let cleared = match fs::remove_dir_all(target.join("demo")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    cleared
        .and_then(|()| copy_tree(&steps.root().join("examples"), &examples))
        .and_then(|()| fs::create_dir_all(&stage.home))
        .map_err(|error| format!("cannot prepare {}: {error}", target.join("demo").display()))?;

    let outcome = story(&stage, &examples);
    let stopped = stage.say(&["daemon", "stop"]);
    outcome?;
    stopped.map(|_| ())?;
    stage.epilogue(&examples);
    Ok(())
}

fn story(stage: &DemoHome, examples: &Path) -> Result<(), String> {
    let penguins = examples.join("penguins").display().to_string();
    let sums = examples.join("sums").display().to_string();
    stage.must(&["add", &penguins, &sums])?;
    stage.must(&["start", "all"])?;
    stage.must(&["status", "--watch"])?;
    // One is ended by its rule and one crashes, so this is 1 by design.
    match stage.say(&["wait", "all"])?.code() {
        Some(1) => {}
        other => {
            return Err(format!(
                "`neroman wait all` ended with {other:?}, and 1 was expected"
            ));
        }
    }
    stage.must(&["results", "penguins/*", "--best", "test error"])?;
    stage.must(&["rule", "list", "aborted"])?;
    stage.must(&["logs", "penguins/uncleaned", "--stderr", "--lines", "3"])?;
    stage.must(&["path", "finished"])
}

/// A home and the program that uses it.
struct DemoHome {
    home: PathBuf,
    neroman: PathBuf,
}

impl DemoHome {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.neroman);
        command.args(args).env("NERONET_HOME", &self.home);
        command
    }

    /// Shows a command and runs it.
    fn say(&self, args: &[&str]) -> Result<ExitStatus, String> {
        let shown: Vec<String> = args.iter().map(|word| quoted(word)).collect();
        println!("\n$ neroman {}", shown.join(" "));
        self.command(args)
            .status()
            .map_err(|error| format!("cannot run {}: {error}", self.neroman.display()))
    }

    fn must(&self, args: &[&str]) -> Result<(), String> {
        let status = self.say(args)?;
        if status.success() {
            return Ok(());
        }
        Err(format!("`neroman {}` ended with {status}", args.join(" ")))
    }

    fn epilogue(&self, examples: &Path) {
        let neroman = self.neroman.display();
        println!("\nThe results lie in {}/*/results.", examples.display());
        println!(
            "Everything else of this demo lies in {}.",
            self.home.display()
        );
        println!("\nWhat to type next:");
        println!("  export NERONET_HOME={}", self.home.display());
        println!("  {neroman} show 1                        everything about one experiment");
        println!("  {neroman} metrics 1 loss --csv          a series");
        println!("  {neroman} restart 'crashed,aborted'     once more");
        println!("  {neroman} abort 'runtime>1 && loss>0.5' end what goes wrong");
        println!("  {neroman} daemon stop                   when you have seen enough");
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{word}'")
    }
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            if name != "results" && name != "__pycache__" {
                copy_tree(&entry.path(), &to.join(name))?;
            }
        } else {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}
