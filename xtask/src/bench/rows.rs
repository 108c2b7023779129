//! The measurements, row by row.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::hyperqueue::HyperQueue;
use super::programs::Programs;
use super::stage::{BenchHome, switches, written_kib};
use super::{
    Row, cluster, containers, files, flows, growth, listing, mail, median, monotonic, parsing,
    peers, picture, printing, ssh, table, views, watching, workbook,
};

type Measure = fn(&Programs, usize, usize) -> Result<Vec<Row>, String>;

/// Every row: its name and how it is measured.
pub const ALL: &[(&str, Measure)] = &[
    ("overhead per job", overhead),
    ("start and wait latency", latency),
    ("print to client", printing::here),
    ("memory and wake-ups", at_rest),
    ("restart after kill -9", restart),
    ("list of very many", listing::listing),
    ("growth", growth::growth),
    ("views of very many", views::views),
    ("a large workbook", table::table),
    ("starting over ssh", ssh::starting),
    ("print to client over ssh", printing::over_ssh),
    ("files over ssh", files::files),
    ("accepted by SLURM", cluster::accepting),
    ("makespan on SLURM", cluster::makespan),
    ("one run on SLURM", cluster::one),
    ("watching on SLURM", cluster::watching),
    ("workbook in place", workbook::workbook),
    ("a plot as PNG", picture::picture),
    ("mail", mail::mail),
    ("lines read for metrics", parsing::parsing),
    ("selectors over very many", listing::selecting),
    ("rules with windows", watching::windows),
    ("points as fast as they come", watching::flood),
    ("a number of peers", peers::peers),
    ("back-test", watching::backtest),
    ("flows over ssh", flows::flows),
    ("containers", containers::containers),
    ("archive over ssh", containers::archive),
    ("infra", containers::infra),
];

fn overhead(programs: &Programs, rounds: usize, runs: usize) -> Result<Vec<Row>, String> {
    let mut rows = overhead_at(
        programs,
        [
            "total CPU per tiny job",
            "… with 5000 waiting",
            "wall per tiny job, two at a time",
        ],
        rounds,
        runs,
    )?;
    if let Some(memory) = programs.on_tmpfs() {
        let names = [
            "total CPU per tiny job, on tmpfs",
            "… with 5000 waiting, on tmpfs",
            "wall per tiny job, two at a time, on tmpfs",
        ];
        let on_tmpfs = overhead_at(&memory, names, rounds, runs);
        memory.clear();
        rows.extend(on_tmpfs?);
    }
    Ok(rows)
}

/// Runs of the row with a long queue.
const MANY: usize = 5000;

fn overhead_at(
    programs: &Programs,
    [cpu_name, queue_name, wall_name]: [&'static str; 3],
    rounds: usize,
    runs: usize,
) -> Result<Vec<Row>, String> {
    let (mut ours, mut bare, mut theirs) = (Costs::default(), Costs::default(), Costs::default());
    let (mut inodes, mut queue) = (Costs::default(), Costs::default());
    let hyperqueue = HyperQueue::find(programs);
    let mut without = None;
    // In turns: what else the machine does then disturbs all alike. Nothing is deleted between:
    // a file system that is still busy with that makes new files slowly.
    for round in 0..rounds {
        bare.add(floor(programs, runs, None)?, runs);
        let folder = programs.scratch(&format!("inodes{round}"))?;
        inodes.add(floor(programs, runs, Some(&folder))?, runs);
        ours.add(tiny_jobs(programs, round, runs)?, runs);
        let scratch = programs.scratch(&format!("hyperqueue{round}"))?;
        match hyperqueue.tasks(programs, &scratch, runs) {
            Ok(costs) => theirs.add(costs, runs),
            Err(why) => without = Some(why),
        }
    }
    queue.add(tiny_jobs(programs, rounds, MANY)?, MANY);
    let (wall, cpu) = ours.medians();
    let (bare_wall, bare_cpu) = bare.medians();
    let (their_wall, their_cpu) = theirs.medians();
    let (_, inodes_cpu) = inodes.medians();
    let (_, queue_cpu) = queue.medians();
    let beside = |floor: f64, measured: String| {
        let measured = without
            .as_ref()
            .map_or(measured, |why| format!("not measured: {why}"));
        format!(
            "C fork+exec loop {:.2} ms; {}: {measured}",
            floor * 1e3,
            HyperQueue::name()
        )
    };
    Ok(vec![
        Row {
            what: cpu_name,
            ours: format!(
                "{:.2} ms = {:.2} x the loop, {:.2} x one with as many inodes",
                cpu * 1e3,
                cpu / bare_cpu,
                cpu / inodes_cpu
            ),
            beside: beside(
                bare_cpu,
                format!("{:.2} ms, ours = {:.2} x", their_cpu * 1e3, cpu / their_cpu),
            ),
            goal: "1.7 x the loop on tmpfs, 1.8 x on disk, 0.9 x HyperQueue",
        },
        Row {
            what: queue_name,
            ours: format!(
                "{:.2} ms = {:.2} x the loop",
                queue_cpu * 1e3,
                queue_cpu / bare_cpu
            ),
            beside: "-".to_owned(),
            goal: "0.05 x more",
        },
        Row {
            what: wall_name,
            ours: format!(
                "{:.2} ms = {:.2} x the loop, {:.0} jobs/s",
                wall * 1e3,
                wall / bare_wall,
                1.0 / wall
            ),
            beside: beside(
                bare_wall,
                format!(
                    "{:.2} ms, {:.0} jobs/s, ours = {:.2} x",
                    their_wall * 1e3,
                    1.0 / their_wall,
                    their_wall / wall
                ),
            ),
            goal: "1.5 x the throughput of HyperQueue",
        },
    ])
}

/// Seconds per job of every round.
#[derive(Default)]
struct Costs {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

impl Costs {
    /// Adds a round: seconds on the clock and of CPU for all its jobs.
    fn add(&mut self, (wall, cpu): (f64, f64), runs: usize) {
        self.wall.push(wall / runs as f64);
        self.cpu.push(cpu / runs as f64);
    }

    fn medians(self) -> (f64, f64) {
        (median(self.wall), median(self.cpu))
    }
}

/// Runs of `/bin/true` on a fresh home.
fn tiny_jobs(programs: &Programs, round: usize, runs: usize) -> Result<(f64, f64), String> {
    let stage = BenchHome::new(programs, &format!("overhead{round}"))?;
    let yaml = format!(
        "collection: c\n+t:\n  command: /bin/true\n  parameters: {{i: {{range: [0, {runs}, 1]}}}}\n"
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.warm()?;
    let before = stage.cpu() + children_cpu();
    let began = Instant::now();
    stage.ok(&["start", "c/*"])?;
    stage.ok(&["wait", "c/*"])?;
    let wall = began.elapsed().as_secs_f64();
    Ok((wall, stage.cpu() + children_cpu() - before))
}

/// The loop alone; with a folder it makes as many inodes there as runs do.
fn floor(programs: &Programs, runs: usize, folder: Option<&Path>) -> Result<(f64, f64), String> {
    let before = children_cpu();
    let began = Instant::now();
    let status = Command::new(programs.path("floor"))
        .args(["loop", &runs.to_string(), "2"])
        .args(folder)
        .status()
        .map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("the fork loop ended with {status}"));
    }
    Ok((began.elapsed().as_secs_f64(), children_cpu() - before))
}

/// After so long the log of the database is empty.
const REST: Duration = Duration::from_millis(2200);

fn latency(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let stage = BenchHome::new(programs, "latency")?;
    let stamp = stage.folder().join("stamp");
    let yaml = format!(
        "collection: c\n+s:\n  command: {} stamp {} 50\n",
        programs.path("floor").display(),
        stamp.display()
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.warm()?;
    let (mut returned, mut first, mut told) = (vec![], vec![], vec![]);
    for _ in 0..rounds * 10 {
        let began = monotonic();
        let (_, took) = stage.ok(&["restart", "c/s"])?;
        returned.push(took.as_secs_f64());
        stage.ok(&["wait", "c/s"])?;
        let end = monotonic();
        let stamps = fs::read_to_string(&stamp).map_err(|error| error.to_string())?;
        let mut stamps = stamps.lines().filter_map(|line| line.parse::<i64>().ok());
        let (Some(one), Some(two)) = (stamps.next(), stamps.next()) else {
            return Err("the job left no stamps".to_owned());
        };
        first.push((one - began) as f64 / 1e9);
        told.push((end - two) as f64 / 1e9);
    }
    let mut rested = Vec::new();
    for _ in 0..rounds * 2 {
        thread::sleep(REST);
        rested.push(stage.ok(&["restart", "c/s"])?.1.as_secs_f64());
        stage.ok(&["wait", "c/s"])?;
    }
    let spawn = spawn_cost()?;
    let row = |what, values: Vec<f64>, goal| Row {
        what,
        ours: format!("{:.2} ms", median(values) * 1e3),
        beside: format!(
            "spawn and wait of /bin/true {:.2} ms, included",
            spawn * 1e3
        ),
        goal,
    };
    Ok(vec![
        row(
            "`neroman restart` of one run returns, durable",
            returned,
            "4 ms",
        ),
        row("… after two quiet seconds", rested, "4 ms"),
        row("… until the job's first instruction", first, "6 ms"),
        row(
            "job exit until `neroman wait` has ended",
            told,
            "one sync + 1.2 ms",
        ),
    ])
}

fn spawn_cost() -> Result<f64, String> {
    let mut all = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        Command::new("/bin/true")
            .status()
            .map_err(|error| error.to_string())?;
        all.push(began.elapsed().as_secs_f64());
    }
    Ok(median(all))
}

fn at_rest(programs: &Programs, _: usize, _: usize) -> Result<Vec<Row>, String> {
    const JOBS: usize = 20;
    const SECONDS: u64 = 10;
    let stage = BenchHome::new(programs, "rest")?;
    let config = stage.folder().join("h");
    fs::create_dir_all(&config)
        .and_then(|()| fs::write(config.join("config.yaml"), "nodes: {local: {cpus: 64}}\n"))
        .map_err(|error| error.to_string())?;
    let yaml = format!(
        "collection: c\n+s:\n  command: sleep 300\n  parameters: {{i: {{range: [0, {JOBS}, 1]}}}}\n"
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.ok(&["start", "c/*"])?;
    let count = |kind: &str| {
        stage
            .processes()
            .values()
            .filter(|found| **found == kind)
            .count()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while count("watcher") < JOBS {
        if Instant::now() > deadline {
            return Err(format!("only {} of {JOBS} watchers came", count("watcher")));
        }
        thread::sleep(Duration::from_millis(50));
    }
    // This measures rest, so the start must be over.
    thread::sleep(Duration::from_secs(3));
    let processes = stage.processes();
    let before: Vec<_> = processes.keys().map(|pid| (*pid, switches(*pid))).collect();
    thread::sleep(Duration::from_secs(SECONDS));
    let mut rows = Vec::new();
    for (what, kind, goal) in [
        (
            "neroman daemon, 20 runs live",
            "neroman daemon",
            "3 wake-ups/s",
        ),
        ("neromum, 20 runs live", "neromum", "-"),
        ("launcher", "launcher", "-"),
        ("shim", "shim", "0.5 MiB, no wake-ups"),
        ("watcher", "watcher", "3 MiB, sampling only"),
    ] {
        let of_kind = |pid: &i32| processes.get(pid) == Some(&kind);
        let memory: Vec<f64> = processes
            .keys()
            .filter(|p| of_kind(p))
            .filter_map(|p| written_kib(*p))
            .collect();
        let wakes: Vec<f64> = before
            .iter()
            .filter(|(pid, _)| of_kind(pid))
            .filter_map(|(pid, then)| Some((switches(*pid)? - (*then)?) / SECONDS as f64))
            .collect();
        rows.push(Row {
            what,
            ours: format!(
                "{:.2} MiB written, {:.1} wake-ups/s",
                median(memory) / 1024.0,
                median(wakes)
            ),
            beside: "-".to_owned(),
            goal,
        });
    }
    stage.ok(&["abort", "c/*", "--yes"])?;
    Ok(rows)
}

fn restart(programs: &Programs, rounds: usize, runs: usize) -> Result<Vec<Row>, String> {
    let stage = BenchHome::new(programs, "restart")?;
    let yaml = format!(
        "collection: c\n+t:\n  command: /bin/true\n  parameters: {{i: {{range: [0, {runs}, 1]}}}}\n"
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.ok(&["start", "c/*"])?;
    stage.ok(&["wait", "c/*"])?;
    let mut rows = Vec::new();
    for (what, kind) in [
        ("first answer after kill -9 of neroman", "neroman daemon"),
        ("first run after kill -9 of neromum", "neromum"),
    ] {
        let mut took = Vec::new();
        for _ in 0..rounds {
            kill(&stage, kind)?;
            let began = Instant::now();
            if kind == "neromum" {
                stage.ok(&["restart", "1"])?;
                stage.ok(&["wait", "1"])?;
            } else {
                stage.ok(&["status", "1"])?;
            }
            took.push(began.elapsed().as_secs_f64());
        }
        rows.push(Row {
            what,
            ours: format!("{:.0} ms with {runs} runs", median(took) * 1e3),
            beside: "-".to_owned(),
            goal: "1 s with 100 000 runs, 2 s with 10 000 folders",
        });
    }
    Ok(rows)
}

/// Kills all processes of this kind, and waits until they are gone.
pub fn kill(stage: &BenchHome, kind: &str) -> Result<(), String> {
    for (pid, found) in stage.processes() {
        if found != kind {
            continue;
        }
        if let Some(raw) = Pid::from_raw(pid) {
            kill_process(raw, Signal::KILL).map_err(|error| error.to_string())?;
        }
        while Path::new(&format!("/proc/{pid}/exe")).exists() {
            thread::yield_now();
        }
    }
    Ok(())
}

/// CPU seconds of the children that this process has waited for.
fn children_cpu() -> f64 {
    // SAFETY: rusage is plain numbers, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
