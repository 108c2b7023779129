//! `cargo xtask bench`: release builds, measured; medians and ratios.
//!
//! Not a test: nothing fails because a machine is slow. The CPU time of all
//! processes together is the fair figure on a busy machine.

mod cluster;
mod containers;
mod files;
mod flows;
mod growth;
mod host;
mod hyperqueue;
mod listing;
mod mail;
mod parsing;
mod peers;
mod picture;
pub mod pools;
mod printing;
pub mod programs;
mod rows;
mod scale;
mod ssh;
mod stage;
mod table;
mod views;
mod watching;
mod workbook;

use std::path::Path;
use std::time::Duration;

use programs::Programs;

/// One line of the table.
pub struct Row {
    what: &'static str,
    ours: String,
    beside: String,
    goal: &'static str,
}

/// Measures, prints the table of what could be measured.
pub fn run(programs: &Programs, rounds: usize, runs: usize, only: &str) -> Result<(), String> {
    let all = rows::ALL.iter();
    let all = all.map(|(name, row)| (*name, move || row(programs, rounds, runs)));
    measure(programs, all, only)
}

/// The same at the sizes of a large group; what takes its time does so for at most `longest`.
pub fn scale(programs: &Programs, longest: Duration, only: &str) -> Result<(), String> {
    let all = scale::ALL.iter();
    let all = all.map(|(name, row)| (*name, move || row(programs, longest)));
    measure(programs, all, only)
}

fn measure(
    programs: &Programs,
    all: impl Iterator<Item = (&'static str, impl FnOnce() -> Result<Vec<Row>, String>)>,
    only: &str,
) -> Result<(), String> {
    let (mut table, mut failed) = (Vec::new(), Vec::new());
    for (name, row) in all {
        if !name.contains(only) {
            continue;
        }
        eprintln!("measuring: {name}");
        match row() {
            Ok(rows) => table.extend(rows),
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    print(&table, programs.folder());
    if !failed.is_empty() {
        // The homes stay: their logs show what happened.
        return Err(failed.join("\n"));
    }
    programs.clear();
    Ok(())
}

fn print(table: &[Row], folder: &Path) {
    println!("\n| what | ours | beside it | goal |\n|---|---|---|---|");
    for row in table {
        println!(
            "| {} | {} | {} | {} |",
            row.what, row.ours, row.beside, row.goal
        );
    }
    println!("\nprograms: {}", folder.display());
}

/// The clock that all processes and hosts of this machine share, in nanoseconds.
fn monotonic() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// The middle of some figures.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The value below which this share of the figures lies.
pub fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let index = ((values.len() as f64 - 1.0) * share).round() as usize;
    values.get(index).copied().unwrap_or(f64::NAN)
}
