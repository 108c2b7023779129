//! One change of a workbook in place: time and memory of the process that makes it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::programs::Programs;
use super::{Row, median};
use crate::steps::execute;

/// A workbook, what is written into it, and the goal.
struct Change {
    what: &'static str,
    /// Rows and columns of the workbook.
    book: (u32, u32),
    /// Rows and columns of new cells.
    cells: (u32, u32),
    goal: &'static str,
}

const CHANGES: [Change; 2] = [
    Change {
        what: "20 000 cells into a workbook of 10 000 x 30",
        book: (10_000, 30),
        cells: (10_000, 2),
        goal: "600 ms, 64 MB",
    },
    Change {
        what: "one cell into a workbook of 200 rows",
        book: (200, 12),
        cells: (1, 1),
        goal: "20 ms",
    },
];

/// Measures both, each round on a fresh workbook.
pub fn workbook(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let program = build(programs.root())?;
    let scratch = programs.scratch("workbook")?;
    let mut rows = Vec::new();
    for change in CHANGES {
        let (mut times, mut peaks) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let book = scratch.join(format!("{round}.xlsx"));
            run(&program, "make", &book, change.book)?;
            let printed = run(&program, "edit", &book, change.cells)?;
            let figures = printed.trim().split_once(' ');
            let figures =
                figures.and_then(|(took, peak)| Some((took.parse().ok()?, peak.parse().ok()?)));
            let (took, peak): (f64, f64) = figures.ok_or("no figures")?;
            times.push(took);
            peaks.push(peak / 1024.0);
        }
        rows.push(Row {
            what: change.what,
            ours: format!("{:.1} ms, {:.0} MB", median(times), median(peaks)),
            beside: "-".to_owned(),
            goal: change.goal,
        });
    }
    Ok(rows)
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "-p", "nero-workbook"]);
    cargo.args(["--example", "speed"]).current_dir(root);
    execute(cargo)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root.join("target"));
    Ok(target.join("release/examples/speed"))
}

fn run(program: &Path, verb: &str, book: &Path, size: (u32, u32)) -> Result<String, String> {
    let output = Command::new(program)
        .arg(verb)
        .arg(book)
        .args([size.0.to_string(), size.1.to_string()])
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
