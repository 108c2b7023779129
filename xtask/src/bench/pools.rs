//! Pools of Python: our executor beside others, which pip brings into a virtual
//! environment of the build folder.

use std::fs;
use std::process::Command;

use super::programs::Programs;
use crate::steps::execute;

const PACKAGES: [&str; 4] = [
    "numpy==2.4.6",
    "loky==3.7.0",
    "distributed==2026.8.0",
    "ray==2.60.0",
];

/// Measures all of them, and prints a table.
pub fn run(programs: &Programs, rounds: usize) -> Result<(), String> {
    let folder = nero_pip::packages(&programs.tool("pools"), &PACKAGES)?;
    let home = programs.scratch("pools")?;
    let paths = [programs.root().join("python/src"), folder];
    let paths = std::env::join_paths(paths).map_err(|error| error.to_string())?;
    let mut neroman = Command::new(programs.path("neroman"));
    neroman.args(["daemon", "stop"]).env("NERONET_HOME", &home);
    let mut script = Command::new("python3");
    script
        .arg(programs.root().join("xtask/bench/pools.py"))
        .arg(rounds.to_string())
        .current_dir(&home)
        .env("PYTHONPATH", paths)
        .env("NERONET_HOME", &home)
        .env("NERONET_PROGRAM", programs.path("neroman"));
    let outcome = execute(script);
    execute(neroman)?;
    outcome?;
    // A leftover does no harm: it lies in the build folder.
    let _ = fs::remove_dir_all(&home);
    Ok(())
}
