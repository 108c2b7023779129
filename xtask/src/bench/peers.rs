//! How long a new number over peers takes to reach a thousand live runs of one cohort, when
//! one of these runs prints a value.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::Row;
use super::programs::Programs;
use super::stage::{BenchHome, cpu_seconds};

/// Runs with a rule over their peers.
const PEERS: usize = 1000;

/// Until all of them run, or have a number.
const PATIENCE: Duration = Duration::from_secs(300);

/// From one number of a peer to the next in every run, and what that takes.
pub fn peers(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let stage = BenchHome::new(programs, "peers")?;
    let home = stage.folder().join("h");
    fs::create_dir_all(&home)
        .and_then(|()| fs::write(home.join("config.yaml"), "nodes: {local: {cpus: 4096}}\n"))
        .map_err(|error| error.to_string())?;
    let floor = programs.path("floor").display().to_string();
    let yaml = format!(
        "collection: c\ncohort: all\n+t:\n  command: sleep 3000\n  parameters: {{i: {{range: [0, {PEERS}, 1]}}}}\n  \
         rules: [{{warn: loss > median(peers.loss)}}]\n+p:\n  command: {floor} metrics 1 3000\n"
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.ok(&["start", "c/*"])?;
    let (mut controls, began) = (Vec::new(), Instant::now());
    while controls.len() < PEERS {
        if began.elapsed() > PATIENCE {
            return Err(format!("only {} of {PEERS} runs came", controls.len()));
        }
        thread::sleep(Duration::from_millis(500));
        controls = control_folders(&home);
    }
    // The runs that have begun have a number when the first newer one has reached them all.
    next_number(&controls)?;
    let processes = stage.processes();
    let cpu = |kinds: &[&str]| -> f64 {
        let ours = processes.iter().filter(|(_, kind)| kinds.contains(kind));
        ours.map(|(pid, _)| cpu_seconds(*pid)).sum()
    };
    let (daemons, watchers) = (["neroman daemon", "neromum", "launcher"], ["watcher"]);
    let (before, before_watchers) = (cpu(&daemons), cpu(&watchers));
    let (began, mut slowest) = (Instant::now(), 0.0_f64);
    for _ in 0..rounds {
        slowest = slowest.max(next_number(&controls)?);
    }
    let wall = began.elapsed().as_secs_f64();
    let share = (cpu(&daemons) - before) / wall;
    let of_watchers = (cpu(&watchers) - before_watchers) / wall;
    stage.ok(&["abort", "c/*", "--yes"])?;
    Ok(vec![Row {
        what: "a peer's point until 1000 runs have the new number",
        ours: format!(
            "{slowest:.1} s; daemon and neromum {:.1} % of a core",
            share * 100.0
        ),
        beside: format!("{PEERS} watchers together {:.1} %", of_watchers * 100.0),
        goal: "11 s, 5 %",
    }])
}

/// Folders of requests and rules of the runs that have rules.
fn control_folders(home: &Path) -> Vec<PathBuf> {
    let deployments = fs::read_dir(home.join("node")).into_iter().flatten();
    let runs = deployments.flatten().map(|entry| entry.path().join("runs"));
    let runs = runs.filter_map(|runs| fs::read_dir(runs).ok()).flatten();
    let controls = runs.flatten().map(|run| run.path().join("1/control"));
    controls.filter(|folder| newest(folder) > 0).collect()
}

/// The newest set of rules of a run; 0 if it has none.
fn newest(control: &Path) -> u64 {
    let files = fs::read_dir(control).into_iter().flatten().flatten();
    let versions = files.filter_map(|file| {
        let name = file.file_name();
        name.to_str()?.strip_prefix("rules.")?.parse().ok()
    });
    versions.max().unwrap_or(0)
}

/// Seconds until each run has a newer set of rules than now.
fn next_number(controls: &[PathBuf]) -> Result<f64, String> {
    let mut left: Vec<(&PathBuf, u64)> = controls.iter().map(|one| (one, newest(one))).collect();
    let began = Instant::now();
    while !left.is_empty() {
        if began.elapsed() > PATIENCE {
            return Err(format!("{} runs got no new number", left.len()));
        }
        thread::sleep(Duration::from_millis(100));
        left.retain(|(control, before)| newest(control) <= *before);
    }
    Ok(began.elapsed().as_secs_f64())
}
