//! Files over ssh, to the node and back, compared with `rsync` over the same
//! ssh.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::host::Host;
use super::programs::Programs;
use super::ssh::on_host;
use super::stage::BenchHome;
use super::{Row, median, monotonic};

/// Number of files of the tree of small ones, and the bytes of each.
const SMALL: (usize, usize) = (10_000, 2_000);
/// Bytes of the large file.
const LARGE: u64 = 1 << 30;
/// Limit of the memory that is allocated before the large file travels, so that
/// it is ready for the copies of the file.
const IN_HAND_MAX: usize = 9 << 30;
/// Most rounds: each writes some gigabytes.
const ROUNDS_MAX: usize = 5;

/// A kind of files, with the names of its rows.
struct FileSet {
    name: &'static str,
    /// One large file, or many small ones.
    is_large: bool,
    first: &'static str,
    frozen: &'static str,
    again: &'static str,
    /// `None` where it is not measured on its own; see [`measure`].
    run: Option<&'static str>,
    home: &'static str,
}

const KINDS: [FileSet; 2] = [
    FileSet {
        name: "small",
        is_large: false,
        first: "ssh: 10 000 small files frozen and on the node",
        frozen: "… of that until they were frozen, synced",
        again: "… the same tree again",
        run: Some("… a work folder of them made, run over"),
        home: "… 10 000 small results home after the job's end",
    },
    FileSet {
        name: "large",
        is_large: true,
        first: "ssh: one 1 GB file frozen and on the node, run over",
        frozen: "… of that until it was frozen, synced",
        again: "… the same file again, run over",
        run: None,
        home: "… one 1 GB result home after the job's end",
    },
];

/// Seconds of all rounds: ours beside rsync's.
#[derive(Default)]
struct Times {
    first: Vec<(f64, f64)>,
    frozen: Vec<f64>,
    again: Vec<(f64, f64)>,
    run: Vec<f64>,
    home: Vec<(f64, f64)>,
}

/// Measures both kinds.
pub fn files(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for kind in KINDS {
        let mut times = Times::default();
        for round in 0..rounds.min(ROUNDS_MAX) {
            measure(programs, &kind, round, &mut times)?;
        }
        rows.push(beside(kind.first, &times.first, "rsync, first copy"));
        rows.push(alone(kind.frozen, times.frozen));
        rows.push(beside(kind.again, &times.again, "rsync, unchanged"));
        rows.extend(kind.run.map(|run| alone(run, times.run)));
        rows.push(beside(kind.home, &times.home, "rsync, first copy"));
    }
    Ok(rows)
}

fn beside(what: &'static str, times: &[(f64, f64)], rsync: &str) -> Row {
    let ours = median(times.iter().map(|both| both.0).collect());
    let theirs = median(times.iter().map(|both| both.1).collect());
    Row {
        what,
        ours: format!("{ours:.2} s"),
        beside: format!("{rsync} {theirs:.2} s"),
        goal: "rsync's",
    }
}

fn alone(what: &'static str, times: Vec<f64>) -> Row {
    Row {
        what,
        ours: format!("{:.2} s", median(times)),
        beside: "-".to_owned(),
        goal: "-",
    }
}

/// One round, on a host and a home of its own. The node has room for one run.
/// With small files, `hold` takes that room while they travel: a run whose
/// files have arrived waits, so that its work folder, in which each file is
/// made anew, is measured on its own. Asking again and again for that moment
/// takes time from the measurement, so with the large file, whose work folder
/// costs nothing, we only wait for the end of its run.
fn measure(
    programs: &Programs,
    kind: &FileSet,
    round: usize,
    times: &mut Times,
) -> Result<(), String> {
    let name = kind.name;
    let host = Host::up(programs.root())?;
    let stage = on_host(programs, &host, &format!("{name}{round}"))?;
    stage.ok(&["config", "set", "nodes.h1.cpus", "1"])?;
    let floor = host.program(programs, "floor")?;
    let stamp = host.common().join("stamp");
    let yaml = format!(
        "collection: {name}\nnode: h1\n+hold:\n  command: sleep 1000\n  files: []\n\
         +i:\n  command: /bin/true\n\
         +o:\n  command: sh -c 'cp -rL data out && {} stamp {} 0'\n  \
         outputs: [{{path: 'out/**', max: 2G}}]\n",
        floor.display(),
        stamp.display()
    );
    let folder = stage.experiment(name, &yaml)?;
    make(&folder.join("data"), kind)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    let (hold, empty, full) = (
        format!("{name}/hold"),
        format!("{name}/i"),
        format!("{name}/o"),
    );
    let there = |verb: &str| -> Result<(f64, f64, Option<f64>), String> {
        let waits = kind.run.is_some();
        if waits {
            stage.ok(&["restart", &hold])?;
            until(&stage, &hold, &["running"])?;
        }
        level(kind);
        let began = Instant::now();
        stage.ok(&[verb, &empty, "--big"])?;
        let frozen = began.elapsed().as_secs_f64();
        if !waits {
            stage.ok(&["wait", &empty])?;
            return Ok((began.elapsed().as_secs_f64(), frozen, None));
        }
        until(&stage, &empty, &["submitted", "pending"])?;
        let there = began.elapsed().as_secs_f64();
        stage.ok(&["abort", &hold])?;
        until(&stage, &hold, &["aborted"])?;
        let began = Instant::now();
        stage.ok(&["wait", &empty])?;
        Ok((there, frozen, Some(began.elapsed().as_secs_f64())))
    };
    let (from, remote) = (
        format!("{}/", folder.join("data").display()),
        format!("h1:{name}"),
    );
    let rsync = || {
        level(kind);
        host.rsync(&from, &remote)
    };
    let ((first, frozen, _), theirs) = in_turn(round, || there("start"), rsync)?;
    times.first.push((first, theirs));
    times.frozen.push(frozen);
    let (again, _, run) = there("restart")?;
    times.again.push((again, host.rsync(&from, &remote)?));
    times.run.extend(run);

    let ours = || -> Result<f64, String> {
        level(kind);
        stage.ok(&["start", &full, "--big"])?;
        stage.ok(&["wait", &full])?;
        home(&stage, &full)?;
        let ended = fs::read_to_string(&stamp).map_err(|error| error.to_string())?;
        let ended: Option<i64> = ended.lines().find_map(|line| line.parse().ok());
        Ok((monotonic() - ended.ok_or("the job left no stamp")?) as f64 / 1e9)
    };
    let back = stage.folder().join(format!("back-{name}"));
    let rsync = || {
        level(kind);
        host.rsync(&format!("{remote}/"), &back.display().to_string())
    };
    times.home.push(in_turn(round, ours, rsync)?);
    Ok(())
}

/// Runs both, in another order every round: the first one finds the machine in
/// another state than the second.
fn in_turn<A, B>(
    round: usize,
    ours: impl FnOnce() -> Result<A, String>,
    theirs: impl FnOnce() -> Result<B, String>,
) -> Result<(A, B), String> {
    if round.is_multiple_of(2) {
        let ours = ours()?;
        return Ok((ours, theirs()?));
    }
    let theirs = theirs()?;
    Ok((ours()?, theirs))
}

/// Gives either side the same memory: a virtual machine gives back memory that
/// is unused for some seconds, and the next writer waits for it.
fn level(kind: &FileSet) {
    if kind.is_large {
        // Flushed, so that neither side writes for the other. Without this the
        // times are worse.
        let _ = Command::new("sync").status();
        let bytes = (available() / 2).min(IN_HAND_MAX);
        drop(std::hint::black_box(vec![1u8; bytes]));
    }
}

/// Bytes of memory that the kernel reports as available.
fn available() -> usize {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0usize).saturating_mul(1024)
}

/// Waits until an experiment is in one of these states.
pub fn until(stage: &BenchHome, what: &str, states: &[&str]) -> Result<(), String> {
    looked_at(stage, &["status", what, "--json"], |said| {
        let state = said["experiments"][0]["state"].as_str();
        state.is_some_and(|state| states.contains(&state))
    })
    .map_err(|why| format!("{what} is not {}: {why}", states.join(" or ")))
}

/// Waits until the results of one experiment are home.
fn home(stage: &BenchHome, what: &str) -> Result<(), String> {
    looked_at(stage, &["path", what, "--json"], |said| {
        let one = &said["paths"][0];
        one["path"].is_string() && one["note"].is_null()
    })
    .map_err(|why| format!("the results of {what} did not come home: {why}"))
}

/// Asks until the reply fits. Each question takes time from the measurement, so
/// a long wait asks rarely.
fn looked_at(
    stage: &BenchHome,
    words: &[&str],
    is_so: impl Fn(&Value) -> bool,
) -> Result<(), String> {
    let began = Instant::now();
    loop {
        // `path` exits with 1 while there is nothing at home.
        let output = stage.command(words).output();
        let output = output.map_err(|error| error.to_string())?;
        let said: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
        if is_so(&said) {
            return Ok(());
        }
        if began.elapsed() > Duration::from_secs(300) {
            return Err(said.to_string());
        }
        let pause = began.elapsed() / 50;
        std::thread::sleep(pause.clamp(Duration::from_millis(5), Duration::from_millis(100)));
    }
}

fn make(folder: &Path, kind: &FileSet) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    // Bytes that do not compress, the same in every round.
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    if !kind.is_large {
        let mut bytes = vec![0; SMALL.1];
        for index in 0..SMALL.0 {
            let below = folder.join(format!("d{}", index / 500));
            fs::create_dir_all(&below).map_err(failed)?;
            noise.fill(&mut bytes);
            fs::write(below.join(format!("f{index}")), &bytes).map_err(failed)?;
        }
        return Ok(());
    }
    let mut file = fs::File::create(folder.join("big")).map_err(failed)?;
    let mut bytes = vec![0; 1 << 20];
    for _ in 0..LARGE >> 20 {
        noise.fill(&mut bytes);
        file.write_all(&bytes).map_err(failed)?;
    }
    Ok(())
}

/// xorshift64: fast, and no file compresses.
struct Noise(u64);

impl Noise {
    fn fill(&mut self, bytes: &mut [u8]) {
        for eight in bytes.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            eight.copy_from_slice(&self.0.to_le_bytes()[..eight.len()]);
        }
    }
}
