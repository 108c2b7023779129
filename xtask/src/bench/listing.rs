//! The list of very many experiments.

use std::fs::File;
use std::process::Stdio;
use std::time::Instant;

use super::programs::Programs;
use super::stage::BenchHome;
use super::{Row, median};

/// How many experiments are listed.
const EXPERIMENTS: usize = 100_000;

/// `status --json` of them: time, and the most memory of the command.
pub fn listing(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let stage = BenchHome::new(programs, "listing")?;
    let yaml = format!(
        "collection: c\n+t:\n  command: /bin/true\n  parameters: {{i: {{range: [0, {EXPERIMENTS}, 1]}}}}\n"
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    let to = stage.folder().join("list.json");
    let (mut took, mut memory, mut bytes) = (vec![], vec![], 0);
    for _ in 0..rounds {
        let file = File::create(&to).map_err(|error| format!("{}: {error}", to.display()))?;
        let began = Instant::now();
        let child = stage
            .command(&["status", "--json"])
            .stdout(file)
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        memory.push(peak_mib(child.id())?);
        took.push(began.elapsed().as_secs_f64());
        bytes = to
            .metadata()
            .map_err(|error| format!("{}: {error}", to.display()))?
            .len();
    }
    Ok(vec![Row {
        what: "`status --json` of 100 000 experiments",
        ours: format!(
            "{:.2} s, {:.0} MiB at most, {} MB printed",
            median(took),
            median(memory),
            bytes / 1_000_000
        ),
        beside: "-".to_owned(),
        goal: "1 s, 100 MiB",
    }])
}

/// Waits for a child, which must succeed; the most memory that it had resident.
pub fn peak_mib(pid: u32) -> Result<f64, String> {
    let pid = libc::pid_t::try_from(pid).map_err(|error| error.to_string())?;
    let mut status = 0;
    // SAFETY: rusage is plain numbers; the call fills both places, which outlive it.
    let (ended, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(pid, &mut status, 0, &mut usage), usage)
    };
    if ended != pid || status != 0 {
        return Err(format!("`status --json` ended with wait status {status}"));
    }
    Ok(usage.ru_maxrss as f64 / 1024.0)
}
