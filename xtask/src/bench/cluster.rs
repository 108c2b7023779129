//! A real SLURM on this machine: what we add to it, beside its own commands.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::programs::Programs;
use super::stage::{BenchHome, cpu_seconds, written_kib};
use super::{Row, median, monotonic};

/// Runs of the rows whose goals name that number.
const MANY: usize = 1000;
/// Plain submissions in a loop: the time of [`MANY`] is extrapolated from these.
const LOOP: usize = 50;
/// Runs of one task of the packed rows.
const PACK: usize = 50;
/// Longest that anything may take; no measure of speed.
const DEADLINE: Duration = Duration::from_secs(900);

/// A cluster of three nodes in a network of its own, in which the thread that brought it
/// up stays until this value is dropped. Then the cluster ends.
struct Slurm {
    holder: Child,
    folder: tempfile::TempDir,
    network_before: File,
}

impl Slurm {
    /// Brings it up, with so many CPUs on each node, whatever the machine has.
    fn up(root: &Path, cpus: usize) -> Result<Self, String> {
        let folder = tempfile::Builder::new()
            .prefix("nb")
            .tempdir_in("/tmp")
            .map_err(|error| error.to_string())?;
        let mut holder = Command::new("bash")
            .arg(root.join("tests/rig/slurm.sh"))
            .arg("hold")
            .arg(folder.path().join("it"))
            .env("CPUS", cpus.to_string())
            .env("MEMORY", (cpus * 200).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start slurm.sh: {error}"))?;
        let out = holder.stdout.take().ok_or("no pipe")?;
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        if !lines.any(|line| line.starts_with("ready")) {
            return Err("the cluster did not come up; see what slurm.sh said".to_owned());
        }
        let network = |process: &str| File::open(format!("/proc/{process}/ns/net"));
        let entered = network("thread-self").and_then(|before| {
            enter(&network(&holder.id().to_string())?)?;
            Ok(before)
        });
        Ok(Self {
            holder,
            folder,
            network_before: entered.map_err(|error| format!("its network: {error}"))?,
        })
    }

    fn config(&self) -> String {
        self.folder
            .path()
            .join("it/slurm.conf")
            .display()
            .to_string()
    }

    /// A home whose node `local` is its login node.
    fn stage(&self, programs: &Programs, name: &str) -> Result<BenchHome, String> {
        let stage = BenchHome::new(programs, name)?.with("SLURM_CONF", &self.config());
        let home = stage.folder().join("h");
        fs::create_dir_all(&home)
            .and_then(|()| {
                fs::write(
                    home.join("config.yaml"),
                    "nodes: {local: {warden: slurm}}\n",
                )
            })
            .map_err(|error| error.to_string())?;
        stage.warm()?;
        Ok(stage)
    }

    /// Runs one of its commands; returns what it prints and the seconds it took.
    fn run(&self, program: &str, args: &[&str]) -> Result<(String, f64), String> {
        let began = Instant::now();
        let output = Command::new(program)
            .args(args)
            .env("SLURM_CONF", self.config())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{program}: {error}"))?;
        let took = began.elapsed().as_secs_f64();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{program} ended with {}: {said}", output.status));
        }
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), took))
    }

    /// The number of tasks that wait or run.
    fn queued(&self) -> Result<usize, String> {
        let (said, _) = self.run("squeue", &["--noheader", "--array", "--format=%i"])?;
        Ok(said.lines().count())
    }

    fn until_queued(&self, number: usize) -> Result<(), String> {
        until(&format!("{number} tasks in the queue"), || {
            Ok((self.queued()? == number).then_some(()))
        })
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        enter(&self.network_before).expect("root enters any network");
        drop(self.holder.stdin.take());
        // It ends when its standard input does.
        let _ = self.holder.wait();
    }
}

fn enter(network: &File) -> io::Result<()> {
    let kind = Some(LinkNameSpaceType::Network);
    Ok(move_into_link_name_space(network.as_fd(), kind)?)
}

fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>, String>) -> Result<T, String> {
    let began = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if began.elapsed() > DEADLINE {
            return Err(format!("waited for {what}"));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn seconds(values: Vec<f64>) -> String {
    format!("{:.2} s", median(values))
}

/// From `start` to all accepted: a partition that starts nothing takes them.
pub fn accepting(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let slurm = Slurm::up(programs.root(), 8)?;
    let (mut ours, mut loops, mut arrays) = (vec![], vec![], vec![]);
    let wrap = ["--partition=shut", "--output=/dev/null", "--wrap=true"];
    let array = format!("--array=0-{}", MANY - 1);
    for round in 0..rounds {
        let began = Instant::now();
        for _ in 0..LOOP {
            slurm.run("sbatch", &wrap)?;
        }
        loops.push(began.elapsed().as_secs_f64() / LOOP as f64 * MANY as f64);
        slurm.run("scancel", &["--user=root"])?;
        slurm.until_queued(0)?;

        let [partition, output, wrap] = wrap;
        let (_, took) = slurm.run("sbatch", &[partition, output, &array, wrap])?;
        arrays.push(took);
        slurm.run("scancel", &["--user=root"])?;
        slurm.until_queued(0)?;

        let stage = slurm.stage(programs, &format!("accepting{round}"))?;
        let folder = stage.experiment("e", &many("partition: shut"))?;
        stage.ok(&["add", &folder.display().to_string()])?;
        let began = Instant::now();
        stage.ok(&["start", "c/*"])?;
        slurm.until_queued(MANY)?;
        ours.push(began.elapsed().as_secs_f64());
        stage.ok(&["abort", "c/*", "--yes"])?;
        slurm.until_queued(0)?;
    }
    let loops_median = median(loops);
    let (ours_median, arrays_median) = (median(ours), median(arrays));
    Ok(vec![Row {
        what: "SLURM: `start` of 1000 runs until all are accepted",
        ours: format!("{ours_median:.2} s"),
        beside: format!(
            "a loop of sbatch {loops_median:.1} s = {:.0} x ours; one sbatch --array {:.0} ms",
            loops_median / ours_median,
            arrays_median * 1e3
        ),
        goal: "10 x faster than the loop, 100 ms above the array",
    }])
}

fn many(fields: &str) -> String {
    format!(
        "collection: c\n+t:\n  command: /bin/true\n  parameters: {{i: {{range: [0, {MANY}, 1]}}}}\n{fields}\n"
    )
}

/// From `start` to the end of all.
pub fn makespan(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let slurm = Slurm::up(programs.root(), 8)?;
    let array = format!("--array=0-{}", MANY - 1);
    let (mut arrays, mut single, mut packed) = (vec![], vec![], vec![]);
    for round in 0..rounds {
        // `sbatch --wait` looks after 2, 10 and 42 s, and so ends only then.
        let plain = ["--output=/dev/null", &array, "--wrap=true"];
        let began = Instant::now();
        slurm.run("sbatch", &plain)?;
        until("the array to end", || {
            let (said, _) = slurm.run("squeue", &["--noheader", "--format=%i"])?;
            Ok(said.is_empty().then_some(()))
        })?;
        arrays.push(began.elapsed().as_secs_f64());
        let pack = format!("pack: {PACK}");
        for (fields, into) in [("", &mut single), (pack.as_str(), &mut packed)] {
            let stage = slurm.stage(programs, &format!("makespan{round}{}", fields.len()))?;
            let folder = stage.experiment("e", &many(fields))?;
            stage.ok(&["add", &folder.display().to_string()])?;
            let began = Instant::now();
            stage.ok(&["start", "c/*"])?;
            stage.ok(&["wait", "c/*"])?;
            into.push(began.elapsed().as_secs_f64());
        }
    }
    let array = median(arrays);
    let beside = |ours: f64| {
        format!(
            "sbatch --array=0-999 until the queue is empty {array:.1} s; ours = {:.2} x",
            ours / array
        )
    };
    let (single, packed) = (median(single), median(packed));
    Ok(vec![
        Row {
            what: "SLURM: 1000 x true, `start` until `wait` has ended",
            ours: format!("{single:.1} s"),
            beside: beside(single),
            goal: "1.5 x the array",
        },
        Row {
            what: "… with `pack: 50`",
            ours: format!("{packed:.1} s"),
            beside: beside(packed),
            goal: "a third of the array",
        },
    ])
}

/// One run: from the script to its first instruction, from its end to `wait`, and an abort.
pub fn one(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let slurm = Slurm::up(programs.root(), 8)?;
    let stage = slurm.stage(programs, "one")?;
    let floor = programs.path("floor").display().to_string();
    let at = |name: &str| stage.folder().join(name);
    let (script, job, asked) = (at("script"), at("job"), at("asked"));
    let yaml = format!(
        "collection: c\n+s:\n  command: {floor} stamp {} 3000\n  setup: {floor} stamp {} 0\n\
         +a:\n  command: [sh, -c, 'trap \"{floor} stamp {} 0; exit\" TERM; touch {}; \
         while :; do sleep 0.02; done']\n",
        job.display(),
        script.display(),
        asked.display(),
        at("ready").display()
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    let (mut began, mut told, mut aborted, mut memory) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rounds {
        for file in [&script, &job, &asked, &at("ready")] {
            let _ = fs::remove_file(file);
        }
        stage.ok(&["restart", "c/s"])?;
        until("the job to begin", || Ok(job.exists().then_some(())))?;
        let allocations = stage.agents("job");
        memory.extend(allocations.iter().filter_map(|pid| written_kib(*pid)));
        stage.ok(&["wait", "c/s"])?;
        let end = monotonic();
        let (in_script, in_job) = (stamps(&script)?, stamps(&job)?);
        began.push((in_job.0 - in_script.1) as f64 / 1e6);
        told.push((end - in_job.1) as f64 / 1e9);
        stage.ok(&["restart", "c/a"])?;
        until("the job to begin", || {
            Ok(at("ready").exists().then_some(()))
        })?;
        stage.ok(&["status", "c/a"])?;
        let from = monotonic();
        stage.ok(&["abort", "c/a", "--yes"])?;
        until("the job to be asked", || Ok(asked.exists().then_some(())))?;
        aborted.push((stamps(&asked)?.0 - from) as f64 / 1e9);
        // It ends with 1, since the run was aborted.
        let ended = stage.command(&["wait", "c/a"]).output();
        ended.map_err(|error| error.to_string())?;
    }
    let row = |what, ours, goal| Row {
        what,
        ours,
        beside: "-".to_owned(),
        goal,
    };
    Ok(vec![
        row(
            "SLURM: script until the job's first instruction",
            format!("{:.1} ms", median(began)),
            "20 ms",
        ),
        row(
            "`neromum job`, written memory",
            format!("{:.1} MiB", median(memory) / 1024.0),
            "6 MiB",
        ),
        row(
            "SLURM: end of the job until `wait` has ended, by disk",
            seconds(told),
            "15 s",
        ),
        row(
            "SLURM: `abort` until the job's SIGTERM, by disk",
            seconds(aborted),
            "1 s",
        ),
    ])
}

/// The first and the last instruction of a program that left stamps.
fn stamps(path: &Path) -> Result<(i64, i64), String> {
    let read = || {
        let text = fs::read_to_string(path).ok()?;
        let mut all = text.lines().filter_map(|line| line.parse::<i64>().ok());
        Some((all.next()?, all.next()?))
    };
    until(&format!("{}", path.display()), || Ok(read()))
}

/// What following very many live runs by the disk costs.
pub fn watching(programs: &Programs, _: usize, _: usize) -> Result<Vec<Row>, String> {
    const SECONDS: u64 = 30;
    const TASKS: usize = 3;
    let slurm = Slurm::up(programs.root(), MANY / 2)?;
    let stage = slurm.stage(programs, "watching")?;
    let each = MANY.div_ceil(TASKS);
    let yaml = format!(
        "collection: c\n+s:\n  command: sleep 1000\n  parameters: {{i: {{range: [0, {MANY}, 1]}}}}\npack: {each}\nresources: {{exclusive: true}}\n"
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.ok(&["start", "c/*"])?;
    until("all runs to be live", || {
        let (said, _) = stage.ok(&["status", "running", "--csv"])?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        Ok((said.lines().count() > MANY).then_some(()))
    })?;
    let leaders = stage.agents("serve");
    let [leader] = leaders[..] else {
        return Err(format!("{} leaders", leaders.len()));
    };
    let before = cpu_seconds(leader);
    thread::sleep(Duration::from_secs(SECONDS));
    let cpu = (cpu_seconds(leader) - before) / SECONDS as f64;
    let memory = written_kib(leader).unwrap_or(f64::NAN) / 1024.0;
    let operations = file_operations(leader, SECONDS)?;
    stage.ok(&["abort", "c/*", "--yes"])?;
    Ok(vec![Row {
        what: "SLURM: neromum on the login node, 1000 runs live",
        ours: format!(
            "{:.1} % of a core, {memory:.1} MiB written, {operations:.0} file operations/s",
            cpu * 100.0
        ),
        beside: "-".to_owned(),
        goal: "1 %, 30 MiB, 100/s",
    }])
}

/// Calls a second of a process that name a file or list a folder.
fn file_operations(pid: i32, seconds: u64) -> Result<f64, String> {
    let output = Command::new("timeout")
        .args(["-s", "INT", &seconds.to_string()])
        .args([
            "strace",
            "-f",
            "-c",
            "-e",
            "trace=%file,getdents64",
            "-p",
            &pid.to_string(),
        ])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("strace: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let total = said.lines().rfind(|line| line.ends_with("total"));
    let calls = total.and_then(|line| line.split_whitespace().nth(3)?.parse::<f64>().ok());
    // Without a single call there is no table.
    Ok(calls.unwrap_or(0.0) / seconds as f64)
}
