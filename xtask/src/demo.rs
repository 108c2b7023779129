//! `cargo xtask demo`: the whole story on a home of its own.

use std::fs;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::sheet;
use crate::steps::Steps;

/// Builds, runs the examples, shows what happens, leaves nothing running.
pub fn run(steps: &mut Steps) -> Result<(), String> {
    build(steps)?;
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

/// Builds the programs; one line on the terminal tells how far it is.
fn build(steps: &Steps) -> Result<(), String> {
    println!("building Neronet, about four minutes on two cores");
    let mut build = steps.build(&["--message-format=json-render-diagnostics", "--quiet"]);
    let failed = |error: std::io::Error| format!("cannot run cargo build: {error}");
    let mut cargo = build.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let messages = BufReader::new(cargo.stdout.take().expect("piped"));
    let is_terminal = std::io::stdout().is_terminal();
    let mut crates = 0_usize;
    for line in messages.lines() {
        let is_one = line.map_err(failed)?.contains("\"compiler-artifact\"");
        crates += usize::from(is_one);
        if is_one && is_terminal {
            print!("\r{crates} parts are built");
            std::io::stdout().flush().map_err(failed)?;
        }
    }
    if is_terminal {
        println!();
    }
    let status = cargo.wait().map_err(failed)?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("cargo build ended with {status}"))
    }
}

fn story(stage: &DemoHome, examples: &Path) -> Result<(), String> {
    let penguins = examples.join("penguins").display().to_string();
    let book = examples.join("plan/plan.xlsx");
    stage.must(&["add", &penguins, &book.display().to_string()])?;
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
    stage.must(&["plot", "penguins/train*", "loss", "--log"])?;
    stage.must(&["results", "penguins/*", "--best", "loss"])?;
    stage.must(&["rule", "list", "aborted"])?;
    stage.must(&["logs", "penguins/uncleaned", "--stderr", "--lines", "3"])?;
    println!("\nThe rows of {}:", book.display());
    print_rows(&written(&book)?);
    Ok(())
}

/// The rows of the workbook once its results are in them.
fn written(book: &Path) -> Result<Vec<Vec<String>>, String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let rows = sheet::rows(book)?;
        let has_results =
            |row: &Vec<String>| row.len() >= rows[0].len() && !row.concat().is_empty();
        if rows.iter().all(has_results) {
            return Ok(rows);
        }
        if Instant::now() > deadline {
            return Err(format!("no results came into {}", book.display()));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn print_rows(rows: &[Vec<String>]) {
    let short = |cell: &str| match cell.parse::<f64>() {
        Ok(number) if cell.len() > 7 => format!("{number:.4}"),
        _ => cell.to_owned(),
    };
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let wide = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let chars = cells.map(|cell| short(cell).chars().count());
        chars.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, wide)| format!("{:wide$}", short(cell)))
            .collect();
        println!("  {}", line.join("  ").trim_end());
    }
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
        println!("  {neroman} show 101                      everything about one experiment");
        println!("  {neroman} metrics 101 loss --csv        a series");
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
