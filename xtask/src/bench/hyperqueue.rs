//! HyperQueue beside ours: its `LocalCluster`, which pip brings into a virtual
//! environment of the build folder.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::programs::Programs;

const PACKAGE: &str = "hyperqueue==0.27.0";
/// File in the environment that marks it as complete.
const WHOLE: &str = "whole";

/// HyperQueue, or the reason why it is not measured.
pub struct HyperQueue(Result<PathBuf, String>);

impl HyperQueue {
    /// Makes the environment unless an earlier bench made it.
    pub fn find(programs: &Programs) -> Self {
        let folder = programs.tool("hyperqueue");
        Self(ensure(&folder).map(|()| folder))
    }

    /// Its name, version and mode.
    pub fn name() -> String {
        format!(
            "HyperQueue {} (LocalCluster, without journal)",
            PACKAGE.rsplit('=').next().unwrap_or_default()
        )
    }

    /// Seconds on the clock and of CPU for `runs` tasks, with their files below
    /// `scratch`.
    pub fn tasks(
        &self,
        programs: &Programs,
        scratch: &Path,
        runs: usize,
    ) -> Result<(f64, f64), String> {
        let folder = self.0.clone()?;
        let script = programs.root().join("xtask/bench/hq.py");
        let runs = runs.to_string();
        let arguments: [&OsStr; 3] = [script.as_ref(), runs.as_ref(), scratch.as_ref()];
        let printed = said(Command::new(folder.join("bin/python")).args(arguments))?;
        // The cluster prints a table before.
        let last = printed.lines().last().unwrap_or_default();
        let mut figures = last.split_whitespace().map(str::parse::<f64>);
        match (figures.next(), figures.next()) {
            (Some(Ok(wall)), Some(Ok(cpu))) => Ok((wall, cpu)),
            _ => Err(format!("hq.py printed {last:?} last")),
        }
    }
}

fn ensure(folder: &Path) -> Result<(), String> {
    let whole = folder.join(WHOLE);
    if fs::read_to_string(&whole).is_ok_and(|found| found == PACKAGE) {
        return Ok(());
    }
    said(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(folder),
    )?;
    said(Command::new(folder.join("bin/python")).args([
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--quiet",
        PACKAGE,
    ]))?;
    fs::write(&whole, PACKAGE).map_err(|error| format!("{}: {error}", whole.display()))
}

/// What a program prints; an error ends with its last line.
fn said(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().display().to_string();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    Err(format!(
        "{program} ended with {}: {}",
        output.status,
        last.unwrap_or_default()
    ))
}
