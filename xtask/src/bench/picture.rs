//! A plot as PNG: time and memory of drawing it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::programs::Programs;
use super::{Row, median};
use crate::steps::execute;

/// Measures four curves of 1200 points, 1800 pixels wide.
pub fn picture(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let program = build(programs.root())?;
    let (mut drawn, mut done, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let printed = run(&program)?;
        let figures: Vec<f64> = (printed.split_whitespace())
            .filter_map(|figure| figure.parse().ok())
            .collect();
        let [svg, png, peak] = figures[..] else {
            return Err("no figures".to_owned());
        };
        drawn.push(svg);
        done.push(png);
        peaks.push(peak / 1024.0);
    }
    Ok(vec![Row {
        what: "PNG of 4 x 1200 points",
        ours: format!(
            "{:.0} ms, SVG of it {:.1} ms, {:.0} MB",
            median(done),
            median(drawn),
            median(peaks)
        ),
        beside: "-".to_owned(),
        goal: "150 ms",
    }])
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "-p", "nero-raster"]);
    cargo.args(["--example", "picture-speed"]).current_dir(root);
    execute(cargo)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root.join("target"));
    Ok(target.join("release/examples/picture-speed"))
}

fn run(program: &Path) -> Result<String, String> {
    let output = Command::new(program)
        .args(["4", "1200"])
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
