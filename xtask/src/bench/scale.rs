//! `cargo xtask scale`: sizes of a large group with real programs, and what has to level off.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::host::Host;
use super::listing::many;
use super::programs::Programs;
use super::rows::kill;
use super::stage::{BenchHome, cpu_seconds, own_cpu_seconds, started_s, written_kib};
use super::{Row, median};

/// Measures for at most so long, where time matters.
type Measure = fn(&Programs, Duration) -> Result<Vec<Row>, String>;

/// Every row: its name and how it is measured.
pub const ALL: &[(&str, Measure)] = &[
    ("experiments", experiments),
    ("finished", finished),
    ("queue", queue),
    ("nodes", nodes),
    ("printing", printing),
    ("points", points),
    ("hour", hour),
];

/// How long a state is looked at that does not change.
const STEADY: Duration = Duration::from_secs(30);
/// The daemon's CPU, in seconds, below which it has nothing to do for two seconds.
const IDLE_S: f64 = 0.03;
/// How long runs may take to come, and nodes to be connected.
const PATIENCE: Duration = Duration::from_secs(1200);
/// Runs that are live at the same time.
const LIVE: usize = 1000;

fn row(what: &'static str, ours: String, goal: &'static str) -> Vec<Row> {
    let beside = "-".to_owned();
    vec![Row {
        what,
        ours,
        beside,
        goal,
    }]
}

fn experiments(programs: &Programs, _: Duration) -> Result<Vec<Row>, String> {
    let stage = many(programs, "experiments")?;
    let memory = at_rest_mib(&stage)?;
    let all = stage.ok(&["status", "all"])?.1;
    let selector = || {
        Ok(stage
            .ok(&["status", "--json", "i > 99990"])?
            .1
            .as_secs_f64())
    };
    let selector = (0..5).map(|_| selector()).collect::<Result<_, String>>()?;
    kill(&stage, "neroman daemon")?;
    let again = stage.ok(&["status", "1"])?.1;
    let read = at_rest_mib(&stage)?;
    Ok(row(
        "100 000 experiments: first answer after kill -9; `status`; a selector; memory behind `add`, read anew",
        format!(
            "{:.2} s; {:.2} s; {:.0} ms; {memory:.0} MiB, {read:.0}",
            again.as_secs_f64(),
            all.as_secs_f64(),
            median(selector) * 1e3
        ),
        "0.6 s; 1 s; 50 ms; 120 MB",
    ))
}

/// What an experiment takes whose one run has finished.
fn finished(programs: &Programs, _: Duration) -> Result<Vec<Row>, String> {
    const RUNS: usize = 20_000;
    let stage = large(programs, "finished", RUNS, "echo loss 3")?;
    let empty = mib(stage.daemon()?)?;
    stage.ok(&["start", "all"])?;
    stage.ok(&["wait", "all"])?;
    let live = at_rest_mib(&stage)?;
    kill(&stage, "neroman daemon")?;
    let again = stage.ok(&["status", "1"])?.1;
    let read = at_rest_mib(&stage)?;
    Ok(row(
        "20 000 experiments with a finished run each",
        format!(
            "{empty:.0} MiB without runs, {live:.0} behind them, {read:.0} read anew in {:.2} s",
            again.as_secs_f64()
        ),
        "90 MiB",
    ))
}

fn queue(programs: &Programs, _: Duration) -> Result<Vec<Row>, String> {
    const QUEUED: usize = 10_000;
    let stage = large(programs, "queue", LIVE + QUEUED, "sleep 100000")?;
    stage.ok(&["start", "all"])?;
    live(&stage, LIVE)?;
    // The start of the last ones is no part of the steady state.
    thread::sleep(STEADY);
    let agent = *stage.agents("serve").first().ok_or("no neromum serves")?;
    let share = share(agent, STEADY);
    Ok(row(
        "10 000 queued and 1000 live on one neromum",
        format!("{:.1} MiB, {:.1} % of a core", mib(agent)?, share * 100.0),
        "60 MB, 10 %",
    ))
}

/// All nodes lose their connections at once, time and again.
fn nodes(programs: &Programs, longest: Duration) -> Result<Vec<Row>, String> {
    const NODES: usize = 200;
    const BETWEEN: Duration = Duration::from_secs(60);
    let host = Host::up_many(programs.root(), NODES)?;
    let stage = BenchHome::new(programs, "nodes")?.with("NERONET_SSH", &host.ssh());
    let names = (1..=NODES).map(|node| format!("  h{node}: {{address: h{node}, cpus: 1}}\n"));
    configure(&stage, &format!("nodes:\n{}", names.collect::<String>()))?;
    // A node without runs is not connected.
    let runs =
        (1..=NODES).map(|node| format!("+h{node}: {{node: h{node}, command: sleep 100000}}\n"));
    let folder = stage.experiment("e", &format!("collection: c\n{}", runs.collect::<String>()))?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.ok(&["start", "all"])?;
    let connected = || -> Result<usize, String> {
        let list = document(&stage, &["node", "list", "--json"])?;
        let nodes = list["nodes"].as_array().cloned().unwrap_or_default();
        let is_there = |node: &&Value| node["name"] != "local" && node["connected"] == true;
        Ok(nodes.iter().filter(is_there).count())
    };
    until("all nodes to be connected", || Ok(connected()? == NODES))?;
    let daemon = stage.daemon()?;
    let began = Instant::now();
    let cpu = || (own_cpu_seconds(daemon), cpu_seconds(daemon));
    let (before, first_s) = (cpu(), uptime_s()?);
    let mut back = Vec::new();
    let mut starts = Vec::new();
    while began.elapsed() < longest.min(Duration::from_secs(600)) {
        host.fault("move", "h1")?;
        let moved = Instant::now();
        // A connection counts as lost when its node has said nothing for a while.
        let mut last_lost = None;
        while moved.elapsed() < BETWEEN {
            starts.extend(connections(daemon));
            if connected()? < NODES {
                last_lost = Some(moved.elapsed().as_secs_f64());
            }
            thread::sleep(Duration::from_millis(500));
        }
        back.extend(last_lost);
    }
    let (own, all) = cpu();
    let part = |seconds: f64| 100.0 * seconds / began.elapsed().as_secs_f64();
    let (own, all) = (part(own - before.0), part(all - before.1));
    starts.retain(|(_, at)| *at > first_s);
    starts.sort_unstable();
    starts.dedup();
    let mut seconds: Vec<u64> = starts.iter().map(|(_, at)| *at).collect();
    seconds.sort_unstable();
    let most = seconds.chunk_by(|one, other| one == other).map(<[_]>::len);
    Ok(row(
        "200 nodes whose connections all break once a minute",
        format!(
            "at most {} connections begun in a second, {own:.0} % of a core ({:.0} % with its `ssh`), \
             all back after {:.0} s",
            most.max().unwrap_or(0),
            all,
            median(back)
        ),
        "4, 20 %",
    ))
}

fn printing(programs: &Programs, _: Duration) -> Result<Vec<Row>, String> {
    const RATE: usize = 100;
    const SECONDS: usize = 120;
    let floor = programs.path("floor").display().to_string();
    // A job opens a pipe before it prints, which waits for a writer.
    let go = programs.scratch("go")?.join("pipe");
    let command = format!(
        ": < {}; exec {floor} metrics {RATE} {SECONDS}",
        go.display()
    );
    let stage = large(programs, "printing", LIVE, &command)?;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &go, mode).map_err(|error| error.to_string())?;
    stage.ok(&["start", "all"])?;
    live(&stage, LIVE)?;
    let writer = fs::OpenOptions::new().write(true).open(&go);
    let writer = writer.map_err(|error| format!("{}: {error}", go.display()))?;
    let daemon = stage.daemon()?;
    let (before, began) = (cpu_seconds(daemon), Instant::now());
    stage.ok(&["wait", "all"])?;
    drop(writer);
    let share = (cpu_seconds(daemon) - before) / began.elapsed().as_secs_f64();
    let list = document(&stage, &["status", "all", "--json"])?;
    let all = list["experiments"].as_array().cloned().unwrap_or_default();
    let counts = all
        .iter()
        .filter_map(|one| one["metrics"]["loss"]["count"].as_u64());
    let printed = LIVE * RATE * SECONDS;
    let kept: u64 = counts.sum();
    Ok(row(
        "1000 runs that print 100 lines a second",
        format!(
            "{} of {printed} points lost, the daemon {:.0} % of a core",
            (printed as u64).saturating_sub(kept),
            share * 100.0
        ),
        "0, 50 %",
    ))
}

fn points(programs: &Programs, _: Duration) -> Result<Vec<Row>, String> {
    const LINES: usize = 1_111_112;
    const LOG: u64 = 10_000_000_000;
    let stage = BenchHome::new(programs, "points")?;
    let floor = programs.path("floor").display().to_string();
    let took = stage.folder().join("took").display().to_string();
    let yaml = format!(
        "collection: c
outputs: []
+points: {{command: '{floor} flood {LINES} {took}'}}
+log: {{command: [sh, -c, 'yes a line of a log that holds no number | head -c {LOG}']}}
"
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.ok(&["start", "all"])?;
    stage.ok(&["wait", "all"])?;
    let metrics = stage.ok(&["metrics", "points"])?.1;
    let logs = stage.ok(&["logs", "-n", "10", "log"])?.1;
    Ok(row(
        "10 million points: `metrics`; a log of 10 GB: `logs -n 10`",
        format!(
            "{:.2} s; {:.2} s",
            metrics.as_secs_f64(),
            logs.as_secs_f64()
        ),
        "1 s; 1 s",
    ))
}

/// Runs come and go and neromum dies, for an hour: the second quarter beside the last.
fn hour(programs: &Programs, longest: Duration) -> Result<Vec<Row>, String> {
    const RUNS: usize = 20;
    const ROUNDS_PER_KILL: usize = 10;
    // What follows from a round is over then: its folders are removed.
    const BETWEEN: Duration = Duration::from_secs(5);
    let stage = large(
        programs,
        "hour",
        RUNS,
        "echo loss 3; sleep 0.2; echo loss 2",
    )?;
    let mut samples: Vec<[f64; 7]> = Vec::new();
    let began = Instant::now();
    while began.elapsed() < longest {
        stage.ok(&["restart", "all"])?;
        stage.ok(&["wait", "all"])?;
        let (daemon, agents) = (stage.daemon()?, stage.agents("serve"));
        let agent = *agents.first().ok_or("no neromum serves")?;
        let files = files(&stage.folder().join("h"))?;
        samples.push([
            mib(daemon)?,
            count(daemon, "fd")?,
            count(daemon, "task")?,
            mib(agent)?,
            count(agent, "fd")?,
            count(agent, "task")?,
            files,
        ]);
        if samples.len().is_multiple_of(ROUNDS_PER_KILL) {
            kill(&stage, "neromum")?;
        }
        thread::sleep(BETWEEN);
    }
    let quarter = samples.len() / 4;
    let middle = |part: &[[f64; 7]], which: usize| {
        median(part.iter().map(|sample| sample[which]).collect::<Vec<_>>())
    };
    let names = [
        "daemon MiB",
        "descriptors",
        "threads",
        "neromum MiB",
        "descriptors",
        "threads",
        "files of the home",
    ];
    let told = names.iter().enumerate().map(|(which, name)| {
        let early = middle(&samples[quarter..2 * quarter], which);
        let late = middle(&samples[3 * quarter..], which);
        format!("{name} {early:.1} → {late:.1}")
    });
    Ok(row(
        "an hour of runs and kills, second quarter → last",
        format!(
            "{} rounds; {}",
            samples.len(),
            told.collect::<Vec<_>>().join(", ")
        ),
        "level",
    ))
}

/// A home with so many experiments of one command, and room for many runs.
fn large(
    programs: &Programs,
    name: &str,
    count: usize,
    command: &str,
) -> Result<BenchHome, String> {
    let stage = BenchHome::new(programs, name)?;
    configure(&stage, &format!("nodes: {{local: {{cpus: {LIVE}}}}}\n"))?;
    let yaml = format!(
        "collection: c
keep: 0
outputs: []
+r: {{command: [sh, -c, '{command}'], parameters: {{i: {{range: [0, {count}, 1]}}}}}}
"
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    Ok(stage)
}

fn configure(stage: &BenchHome, text: &str) -> Result<(), String> {
    let home = stage.folder().join("h");
    let written =
        fs::create_dir_all(&home).and_then(|()| fs::write(home.join("config.yaml"), text));
    written.map_err(|error| format!("{}: {error}", home.display()))
}

fn document(stage: &BenchHome, words: &[&str]) -> Result<Value, String> {
    let printed = stage.ok(words)?.0.stdout;
    serde_json::from_slice(&printed).map_err(|error| error.to_string())
}

/// Waits until it is so, and asks once a second.
fn until(what: &str, is_so: impl Fn() -> Result<bool, String>) -> Result<(), String> {
    let began = Instant::now();
    while !is_so()? {
        if began.elapsed() > PATIENCE {
            return Err(format!("waited in vain for {what}"));
        }
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// Waits until so many runs have a watcher.
fn live(stage: &BenchHome, count: usize) -> Result<(), String> {
    until("all runs to be live", || {
        let processes = stage.processes();
        Ok(processes
            .values()
            .filter(|kind| **kind == "watcher")
            .count()
            >= count)
    })
}

/// The share of a core that a process takes meanwhile.
fn share(pid: i32, time: Duration) -> f64 {
    let (before, began) = (cpu_seconds(pid), Instant::now());
    thread::sleep(time);
    (cpu_seconds(pid) - before) / began.elapsed().as_secs_f64()
}

/// The daemon's memory when all results are home, and what large changes freed has gone back.
fn at_rest_mib(stage: &BenchHome) -> Result<f64, String> {
    let daemon = stage.daemon()?;
    until("the daemon rests", || {
        let before = cpu_seconds(daemon);
        thread::sleep(Duration::from_secs(2));
        Ok(cpu_seconds(daemon) - before < IDLE_S)
    })?;
    mib(daemon)
}

/// Memory that a process has written, in MiB.
fn mib(pid: i32) -> Result<f64, String> {
    let kib = written_kib(pid).ok_or_else(|| format!("process {pid} has ended"))?;
    Ok(kib / 1024.0)
}

/// How many entries a folder of a process has.
fn count(pid: i32, what: &str) -> Result<f64, String> {
    let entries = fs::read_dir(format!("/proc/{pid}/{what}")).map_err(|error| error.to_string())?;
    Ok(entries.count() as f64)
}

/// Files below a home but for results, of which each run leaves some.
fn files(folder: &Path) -> Result<f64, String> {
    let mut all = 0.0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let is_results = entry.file_name() == "results";
            all += if is_results {
                0.0
            } else {
                files(&entry.path())?
            };
        } else {
            all += 1.0;
        }
    }
    Ok(all)
}

fn uptime_s() -> Result<u64, String> {
    let text = fs::read_to_string("/proc/uptime").map_err(|error| error.to_string())?;
    let first = text.split('.').next().and_then(|first| first.parse().ok());
    first.ok_or_else(|| format!("/proc/uptime: {text}"))
}

/// The connections of ssh that a daemon has now: process, and the second of the machine's uptime
/// in which it began.
fn connections(daemon: i32) -> Vec<(i32, u64)> {
    let children = fs::read_dir(format!("/proc/{daemon}/task"));
    let tasks = children.into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let mut found = Vec::new();
    for pid in lists.collect::<Vec<_>>().join(" ").split_whitespace() {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_master = line.split(|byte| *byte == 0).any(|word| word == b"-M");
        if let (true, Ok(pid)) = (is_master, pid.parse()) {
            found.extend(started_s(pid).map(|at| (pid, at)));
        }
    }
    found
}
