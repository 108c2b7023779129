//! The list of very many experiments.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::programs::Programs;
use super::stage::BenchHome;
use super::{Row, median};

/// How many experiments are listed.
pub const EXPERIMENTS: usize = 100_000;

/// `status --json` of them: time, and the most memory of the command.
pub fn listing(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let stage = many(programs, "listing")?;
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

/// A home with so many experiments.
pub fn many(programs: &Programs, name: &str) -> Result<BenchHome, String> {
    let stage = BenchHome::new(programs, name)?;
    let yaml = format!(
        "collection: c\n+t:\n  command: /bin/true\n  parameters: {{i: {{range: [0, {EXPERIMENTS}, 1]}}}}\n"
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    Ok(stage)
}

/// Selectors that pick few of many: names, facts, parameters, patterns, windows.
const SELECTORS: [&str; 6] = [
    "t_i-77777",
    "*_i-9999?",
    "i > 99990 && defined",
    "name =~ 'i-9999\\d$' && !running && tmod < 30d",
    "live || finished && exit != 0",
    "live && i > 5 || id > 99990 && crashed",
];

/// `status` of selectors over them: the whole command, and the selection alone.
pub fn selecting(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let stage = many(programs, "selecting")?;
    let mut slowest = (0.0, "");
    for text in SELECTORS {
        let mut took = Vec::new();
        for _ in 0..rounds {
            took.push(stage.ok(&["status", "--json", text])?.1.as_secs_f64());
        }
        let took = median(took);
        if took > slowest.0 {
            slowest = (took, text);
        }
    }
    let (took, text) = slowest;
    let completed = completing(&stage, rounds)?;
    let alone = alone(programs)?;
    Ok(vec![
        completed,
        Row {
            what: "a selector over 100 000 experiments",
            ours: format!("{:.0} ms the whole command (`{text}`)", took * 1e3),
            beside: format!("{alone:.1} ms the selection alone, of the slowest"),
            goal: "150 ms, the selection 50 ms",
        },
    ])
}

/// What a person may have typed when pressing the tabulator.
const BEGUN: [&str; 5] = ["", "t_", "t_i-77", "5", "i > 5 && i"];

/// What a shell waits for the words that begin so.
fn completing(stage: &BenchHome, rounds: usize) -> Result<Row, String> {
    let mut slowest = (0.0, "");
    for text in BEGUN {
        let mut took = Vec::new();
        for _ in 0..rounds {
            let mut asking = stage.command(&["--", "neroman", "abort", text]);
            asking
                .env("NERONET_COMPLETE", "bash")
                .env("_CLAP_COMPLETE_INDEX", "2");
            let began = Instant::now();
            let answer = asking.output().map_err(|error| error.to_string())?;
            took.push(began.elapsed().as_secs_f64());
            if answer.stdout.is_empty() {
                return Err(format!("no word for `{text}`"));
            }
        }
        let took = median(took);
        if took > slowest.0 {
            slowest = (took, text);
        }
    }
    Ok(Row {
        what: "completing a word among 100 000 experiments",
        ours: format!("{:.0} ms (`{}`)", slowest.0 * 1e3, slowest.1),
        beside: "-".to_owned(),
        goal: "50 ms",
    })
}

/// Milliseconds of the slowest selector of `selector_speed`, without a daemon.
fn alone(programs: &Programs) -> Result<f64, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--release", "--locked", "-q", "-p", "nero-selector"]);
    cargo.args(["--example", "selector_speed"]);
    let output = cargo
        .current_dir(programs.root())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let figures = printed
        .lines()
        .filter_map(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    figures
        .reduce(f64::max)
        .ok_or_else(|| "no figures".to_owned())
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
