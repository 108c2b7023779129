//! Lines that a job prints, and rows of its files, read for metrics.

use std::path::Path;
use std::process::Command;

use super::Row;
use super::programs::Programs;

/// Measures each kind of line; the example takes the best of five itself.
pub fn parsing(programs: &Programs, _: usize, _: usize) -> Result<Vec<Row>, String> {
    let printed = run(programs.root())?;
    let slowest = printed
        .lines()
        .filter_map(|line| {
            let (kind, figures) = line.split_once("  ")?;
            let speed = figures.split_whitespace().next()?.parse::<f64>().ok()?;
            Some((kind, speed, figures))
        })
        .min_by(|one, other| one.1.total_cmp(&other.1));
    let (kind, speed, figures) = slowest.ok_or("no figures")?;
    let beside = figures.rsplit(',').next().unwrap_or_default().trim();
    eprint!("{printed}");
    Ok(vec![Row {
        what: "lines read for metrics",
        ours: format!("{speed:.0} MB/s of the slowest kind ({})", kind.trim()),
        beside: format!("{beside} the time of adding up the bytes of the same lines"),
        goal: "200 MB/s",
    }])
}

fn run(root: &Path) -> Result<String, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--release", "--locked", "-q", "-p", "nero-metrics"]);
    cargo.args(["--example", "parsing-speed"]).current_dir(root);
    let output = cargo.output().map_err(|error| format!("cargo: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
