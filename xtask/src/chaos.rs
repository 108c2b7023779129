//! `cargo xtask chaos`, and what every change must pass of it.

use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::steps::{Steps, execute};

/// Seeds that once failed, one `SEED SECONDS HOSTS` a line, `harsh` behind it where it was.
const LIST: &str = "tests/chaos_seeds.txt";

/// Points of each story that a change must pass.
const POINTS_OF_DAY: &str = "5";

/// Power cuts of each story that a change must pass.
const CUTS_OF_DAY: &str = "4";

/// The chaos that always runs; its seconds and hosts also apply to a new seed.
const FIXED: Chaos = Chaos {
    seed: 1,
    seconds: 60,
    hosts: 2,
    kind: FaultKind::Plain,
};

/// What a change always passes.
const ALWAYS: [Chaos; 2] = [
    FIXED,
    Chaos {
        hosts: 0,
        kind: FaultKind::Slurm,
        ..FIXED
    },
];

/// A chaos.
#[derive(Clone, Copy, Debug)]
pub struct Chaos {
    /// Seed of everything random.
    pub seed: u64,
    /// Time for which faults happen.
    pub seconds: u64,
    /// Number of hosts that are nodes beside `local`.
    pub hosts: u64,
    /// Kind of the faults.
    pub kind: FaultKind,
}

/// Kind of the faults in a chaos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Processes die and stand still, disks are full, hosts crash, networks are cut.
    Plain,
    /// Clocks are set, system calls held, shims stopped, supervisors killed together and inodes taken, too.
    Harsh,
    /// Stored files are damaged, one at a time.
    Damage,
    /// SLURM starts all runs, and its daemons die and stand still.
    Slurm,
    /// All runs are in containers of this runtime, and what belongs to these dies and stands still.
    Containers(&'static str),
}

/// Runtimes of containers that a chaos can have.
pub const RUNTIMES: [&str; 3] = ["docker", "podman", "charliecloud"];

/// A seed that was most likely never tried.
pub fn new_seed() -> u64 {
    // Short enough to be typed.
    (since_1970().as_nanos() / 1000 % 1_000_000_000) as u64
}

fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Builds everything and plays stories: the words are a story, how many points, and a seed; `at`
/// leaves out the points whose text does not hold it.
pub fn steps(steps: &Steps, words: [&str; 3], at: Option<String>) -> Result<(), String> {
    execute(steps.build(&["-p", "nero-tests", "--bins"]))?;
    let [story, points, seed] = words;
    println!("cargo xtask steps {story} --points {points} --seed {seed}");
    let mut command = steps_command(steps, words);
    command.args(at);
    execute(command)
}

/// Builds everything and cuts the power of stories: the words are a story, how often, and a seed.
pub fn cuts(steps: &Steps, words: [&str; 3]) -> Result<(), String> {
    execute(steps.build(&["-p", "nero-tests", "--bins"]))?;
    let [story, cuts, seed] = words;
    println!("cargo xtask steps {story} --cuts {cuts} --seed {seed}");
    let mut command = steps_command(steps, words);
    command.arg("--cuts");
    execute(command)
}

fn steps_command(steps: &Steps, words: [&str; 3]) -> Command {
    let mut command = Command::new(steps.target().join("debug/nero-steps"));
    command.args(words);
    command
}

/// Builds everything and runs one chaos.
pub fn run(steps: &Steps, release: bool, chaos: Chaos) -> Result<(), String> {
    let mut more = vec!["-p", "nero-tests", "--bins"];
    if release {
        more.push("--release");
    }
    execute(steps.build(&more))?;
    execute(command(steps, release, chaos))
}

/// Builds everything and runs every kind of chaos, and every seed that once failed.
pub fn all(steps: &mut Steps) -> Result<(), String> {
    let is_built = steps.attempt_command("build", steps.build(&["-p", "nero-tests", "--bins"]));
    if is_built {
        let mut list = ALWAYS.to_vec();
        steps.attempt("seeds that once failed", |steps| {
            list.extend(in_turn(steps)?);
            Ok(())
        });
        list.extend(RUNTIMES.map(in_containers));
        attempt(steps, &list);
    }
    steps.outcome()
}

/// Runs the chaos that a change must pass: the fixed seed, the same over SLURM, and one of
/// the others by the day.
pub fn of_day(steps: &mut Steps) {
    let mut list = ALWAYS.to_vec();
    steps.attempt("chaos of the day", |steps| {
        let others = in_turn(steps)?;
        let day = since_1970().as_secs() / (24 * 60 * 60);
        list.push(others[usize::try_from(day).unwrap_or(0) % others.len()]);
        Ok(())
    });
    attempt(steps, &list);
    let day = (since_1970().as_secs() / (24 * 60 * 60)).to_string();
    let command = steps_command(steps, ["all", POINTS_OF_DAY, &day]);
    steps.attempt_command(&format!("steps, seed {day}"), command);
    let mut command = steps_command(steps, ["all", CUTS_OF_DAY, &day]);
    command.arg("--cuts");
    steps.attempt_command(&format!("power cuts, seed {day}"), command);
}

fn attempt(steps: &mut Steps, list: &[Chaos]) {
    for chaos in list {
        let name = format!("chaos, seed {}, {:?}", chaos.seed, chaos.kind);
        let command = command(steps, false, *chaos);
        steps.attempt_command(&name, command);
    }
}

/// A new seed with runs in containers of this runtime. Few seeds of it were played yet: it is no part
/// of what a change must pass.
fn in_containers(runtime: &'static str) -> Chaos {
    Chaos {
        seed: new_seed(),
        hosts: 0,
        kind: FaultKind::Containers(runtime),
        ..FIXED
    }
}

/// A new seed of each kind that does not always run, and the seeds that once failed.
fn in_turn(steps: &Steps) -> Result<Vec<Chaos>, String> {
    let path = steps.root().join(LIST);
    let list = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let of_kind = |kind| Chaos {
        seed: new_seed(),
        kind,
        ..FIXED
    };
    let mut chaos = vec![of_kind(FaultKind::Harsh), of_kind(FaultKind::Damage)];
    for line in list
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        chaos.push(
            listed(line)
                .ok_or_else(|| format!("{LIST}: not SEED SECONDS HOSTS [harsh]: {line}"))?,
        );
    }
    Ok(chaos)
}

fn listed(line: &str) -> Option<Chaos> {
    let mut words = line.split_whitespace();
    let mut number = || words.next()?.parse().ok();
    Some(Chaos {
        seed: number()?,
        seconds: number()?,
        hosts: number()?,
        kind: match words.next() {
            None => FaultKind::Plain,
            Some("harsh") => FaultKind::Harsh,
            Some(_) => return None,
        },
    })
}

fn command(steps: &Steps, release: bool, chaos: Chaos) -> Command {
    let profile = if release { "release" } else { "debug" };
    let program = steps.target().join(profile).join("nero-chaos");
    // Everything in a name space of processes ends with its first one.
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("unshare");
        command.args([
            "--pid",
            "--mount",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--",
        ]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    for (name, value) in [
        ("--seed", chaos.seed),
        ("--seconds", chaos.seconds),
        ("--hosts", chaos.hosts),
    ] {
        command.arg(name).arg(value.to_string());
    }
    match chaos.kind {
        FaultKind::Plain => {}
        FaultKind::Harsh => drop(command.arg("--harsh")),
        FaultKind::Damage => drop(command.arg("--damage")),
        FaultKind::Slurm => drop(command.args(["--warden", "slurm"])),
        FaultKind::Containers(runtime) => drop(command.args(["--containers", runtime])),
    }
    command
}
