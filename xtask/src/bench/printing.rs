//! How long a printed line takes to a client.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use super::host::Host;
use super::programs::Programs;
use super::ssh::on_host;
use super::stage::BenchHome;
use super::{Row, median, monotonic, quantile};

/// From a job on this machine.
pub fn here(programs: &Programs, _: usize, _: usize) -> Result<Vec<Row>, String> {
    let stage = BenchHome::new(programs, "print")?;
    add(&stage, "local", &programs.path("floor"))?;
    stage.warm()?;
    followed(&stage, "printed line until `logs -f` has it")
}

/// From a job on a host.
pub fn over_ssh(programs: &Programs, _: usize, _: usize) -> Result<Vec<Row>, String> {
    let host = Host::up(programs.root())?;
    let stage = on_host(programs, &host, "sshprint")?;
    add(&stage, "h1", &host.program(programs, "floor")?)?;
    followed(&stage, "ssh: printed line until `logs -f` has it")
}

/// An experiment `c/p` that prints the time 300 times, 10 ms apart.
fn add(stage: &BenchHome, node: &str, floor: &Path) -> Result<(), String> {
    let yaml = format!(
        "collection: c\nnode: {node}\n+p:\n  command: {} lines 300 10\n",
        floor.display()
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    Ok(())
}

/// Starts `c/p` and follows what it prints.
fn followed(stage: &BenchHome, what: &'static str) -> Result<Vec<Row>, String> {
    stage.ok(&["start", "c/p"])?;
    let mut client = stage.spawn(&["logs", "c/p", "-f"])?;
    let out = client.stdout.take().ok_or("no pipe")?;
    let mut late = Vec::new();
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        let seen = monotonic();
        if let Ok(printed) = line.trim().parse::<i64>() {
            late.push((seen - printed) as f64 / 1e9);
        }
    }
    client.wait().map_err(|error| error.to_string())?;
    // The first lines were printed before the client was there.
    let late = late.split_off(late.len().min(60));
    Ok(vec![Row {
        what,
        ours: format!(
            "p50 {:.2} ms, p99 {:.2} ms",
            median(late.clone()) * 1e3,
            quantile(late, 0.99) * 1e3
        ),
        beside: "-".to_owned(),
        goal: "p50 5 ms, p99 50 ms",
    }])
}
