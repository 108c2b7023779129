//! The watcher beside a job that prints.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::programs::Programs;
use super::stage::{BenchHome, cpu_seconds, written_kib};
use super::{Row, median};

/// Rules of the run, each with a window of its own length.
const RULES: usize = 100;
/// How long points may take until they are kept.
const PATIENCE: Duration = Duration::from_secs(60);
/// Points a second that its job prints.
const RATE: usize = 1000;

/// What the watcher takes for many rules with windows over a quick metric.
pub fn windows(programs: &Programs, _: usize, _: usize) -> Result<Vec<Row>, String> {
    const SECONDS: u64 = 20;
    let stage = BenchHome::new(programs, "windows")?;
    let rules: String = (1..=RULES)
        .map(|minutes| format!("    - warn: mean(loss, {minutes}m) > 1000\n"))
        .collect();
    let floor = programs.path("floor").display().to_string();
    let yaml =
        format!("collection: c\n+w:\n  command: {floor} metrics {RATE} 120\n  rules:\n{rules}");
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.ok(&["start", "c/w"])?;
    let watcher = watcher(&stage)?;
    // This measures the steady state, so its first seconds must be over.
    thread::sleep(Duration::from_secs(5));
    let (before, began) = (cpu_seconds(watcher), Instant::now());
    thread::sleep(Duration::from_secs(SECONDS));
    let share = (cpu_seconds(watcher) - before) / began.elapsed().as_secs_f64();
    let memory = written_kib(watcher).ok_or("the watcher has ended")?;
    stage.ok(&["abort", "c/w"])?;
    Ok(vec![Row {
        what: "100 rules with windows, 1000 points/s",
        ours: format!(
            "{:.1} % of a core, {:.2} MiB written",
            share * 100.0,
            memory / 1024.0
        ),
        beside: "-".to_owned(),
        goal: "2 % of a core, 3 MiB",
    }])
}

fn watcher(stage: &BenchHome) -> Result<i32, String> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let found = stage
            .processes()
            .into_iter()
            .find(|(_, kind)| *kind == "watcher");
        match found {
            Some((pid, _)) => return Ok(pid),
            None if Instant::now() > deadline => return Err("no watcher came".to_owned()),
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A job that prints as fast as it can: how much longer it takes beside a watcher, how fast its
/// points are folded, and the CPU of all of ours until they are kept.
pub fn flood(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    const LINES: usize = 500_000;
    const POINTS: usize = LINES * 9;
    let stage = BenchHome::new(programs, "flood")?;
    let floor = programs.path("floor");
    let took = stage.folder().join("took");
    let yaml = format!(
        "collection: c\n+f:\n  command: {} flood {LINES} {}\n  outputs: []\n  rules: [{{abort: 'mean(a, 1m) > 1000'}}]\n",
        floor.display(),
        took.display()
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.warm()?;
    let seconds = || -> Result<f64, String> {
        let text = fs::read_to_string(&took).map_err(|error| error.to_string())?;
        let nanoseconds: f64 = text.trim().parse().map_err(|_| "no time".to_owned())?;
        Ok(nanoseconds / 1e9)
    };
    let (mut alone, mut beside, mut folded, mut cost) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rounds {
        let log =
            fs::File::create(stage.folder().join("log")).map_err(|error| error.to_string())?;
        let printed = log.try_clone().map_err(|error| error.to_string())?;
        let status = Command::new(&floor)
            .args(["flood", &LINES.to_string()])
            .arg(&took)
            .stdout(log)
            .stderr(Stdio::null())
            .status()
            .map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("the job ended with {status}"));
        }
        let job = seconds()?;
        alone.push(job);
        let printed = printed.metadata().map_err(|error| error.to_string())?;
        let (before, began) = (stage.cpu(), Instant::now());
        stage.ok(&["restart", "c/f"])?;
        stage.ok(&["wait", "c/f"])?;
        beside.push(seconds()?);
        // Its answers take of the daemon's CPU, too: a millisecond each.
        let deadline = Instant::now() + PATIENCE;
        while !is_kept(&stage, LINES)? {
            if Instant::now() > deadline {
                return Err("points are not kept".to_owned());
            }
            thread::sleep(Duration::from_millis(100));
        }
        folded.push(POINTS as f64 / began.elapsed().as_secs_f64());
        // The job computes all the time: what it took alone is its CPU.
        cost.push((stage.cpu() - before - job) / (printed.len() as f64 / 1e6));
    }
    let (alone, beside) = (median(alone), median(beside));
    Ok(vec![Row {
        what: "4.5 million points as fast as they come",
        ours: format!(
            "{:.1} million points/s folded, until they are kept; the job takes {:+.0} %; {:.0} ms of CPU for a MB",
            median(folded) / 1e6,
            (beside / alone - 1.0) * 100.0,
            median(cost) * 1e3
        ),
        beside: format!("{alone:.2} s the job alone, into a file"),
        goal: "1 million points/s, 5 %, 35 ms",
    }])
}

/// Whether the points of so many lines are kept, many of them joined into coarser ones, and the
/// watcher has ended.
fn is_kept(stage: &BenchHome, lines: usize) -> Result<bool, String> {
    let list = stage.ok(&["status", "c/f", "--json"])?.0.stdout;
    let list: Value = serde_json::from_slice(&list).map_err(|error| error.to_string())?;
    let step = list["experiments"][0]["metrics"]["i"]["step"].as_f64();
    let is_watched = stage.processes().values().any(|kind| *kind == "watcher");
    Ok(step == Some(lines as f64 - 1.0) && !is_watched)
}

/// A rule over all metrics of a run with ten million points, as it would have acted.
pub fn backtest(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    const LINES: usize = 1_111_112;
    let stage = BenchHome::new(programs, "backtest")?;
    let floor = programs.path("floor");
    let took = stage.folder().join("took");
    let yaml = format!(
        "collection: c\n+f:\n  command: {} flood {LINES} {}\n  outputs: []\n",
        floor.display(),
        took.display()
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.ok(&["start", "c/f"])?;
    stage.ok(&["wait", "c/f"])?;
    let others = ["b", "c", "d", "e", "f", "g", "h", "i"].map(|name| format!("{name} < -1"));
    let rule = format!("abort: mean(a, 1m) > 1000000000 || {}", others.join(" || "));
    let mut all = Vec::new();
    for _ in 0..rounds {
        all.push(
            stage
                .ok(&["rule", "backtest", "c/f", &rule])?
                .1
                .as_secs_f64(),
        );
    }
    Ok(vec![Row {
        what: "back-test of a rule over 10 million points",
        ours: format!("{:.2} s the whole command", median(all)),
        beside: "-".to_owned(),
        goal: "2 s",
    }])
}
