//! Flows of Training Noodles over ssh, beside the original.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::host::Host;
use super::programs::Programs;
use super::stage::BenchHome;
use super::{Row, median, monotonic, quantile};

/// The original and what it needs.
const PACKAGES: [&str; 4] = [
    "training-noodles==1.2.2",
    "oyaml==0.9",
    "PyYAML==6.0.4",
    "setuptools==65.5.0",
];

/// Experiments of the first row.
const EXPERIMENTS: usize = 100;
/// Servers of the second row, a host each; the original is measured with fewer, one after the other.
const PROBED: usize = 20;
const PROBED_THERE: usize = 4;

/// Both programs, and the hosts that they reach.
struct Flows {
    home: BenchHome,
    host: Host,
    packages: PathBuf,
}

impl Flows {
    fn up(programs: &Programs) -> Result<Self, String> {
        let packages = nero_pip::packages(&programs.tool("training-noodles"), &PACKAGES)?;
        let host = Host::up_many(programs.root(), PROBED)?;
        let bin = programs.scratch("flows-bin")?;
        let ssh = bin.join("ssh");
        let real = host.ssh().replacen("ssh", "/usr/bin/ssh", 1);
        let made = fs::write(&ssh, format!("#!/bin/sh\nexec {real} \"$@\"\n"))
            .and_then(|()| fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)));
        made.map_err(|error| format!("{}: {error}", ssh.display()))?;
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", bin.display());
        let home = BenchHome::new(programs, "flows")?
            .with("PATH", &path)
            .with("USER", "bench");
        home.warm()?;
        Ok(Self {
            home,
            host,
            packages,
        })
    }

    fn folder(&self, name: &str, spec: &Value) -> Result<PathBuf, String> {
        let folder = self.home.folder().join(name);
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(folder.join("spec.yml"), spec.to_string()))
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// Seconds of a flow by each program.
    fn ours(&self, folder: &Path) -> Result<f64, String> {
        let mut command = self.home.command(&["noodles", "run", "spec.yml"]);
        timed(command.current_dir(folder))
    }

    fn theirs(&self, folder: &Path) -> Result<f64, String> {
        let known = self.home.command(&[]);
        let mut command = Command::new("python3");
        command
            .arg(self.packages.join("bin/noodles"))
            .args(["run", "spec.yml"])
            .envs(
                known
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("PYTHONPATH", &self.packages)
            .env("PYTHONWARNINGS", "ignore")
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        timed(&mut command)
    }
}

fn timed(command: &mut Command) -> Result<f64, String> {
    let began = Instant::now();
    let ended = command.output().map_err(|error| error.to_string())?;
    let took = began.elapsed().as_secs_f64();
    if ended.status.success() {
        Ok(took)
    } else {
        Err(String::from_utf8_lossy(&ended.stderr).into_owned())
    }
}

fn servers(count: usize) -> Value {
    let one = |at: usize| {
        json!({
            "name": format!("s{at}"),
            "hostname": format!("h{}", at + 1),
            "private_key_path": null,
            "port": null,
            "username": null,
        })
    };
    (0..count).map(one).collect()
}

/// All rows.
pub fn flows(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let flows = Flows::up(programs)?;
    let experiments =
        (0..EXPERIMENTS).map(|at| json!({"name": format!("e{at}"), "commands": {"run": "true"}}));
    let spec = json!({
        "servers": servers(2),
        "round_interval": 0,
        "experiments": experiments.collect::<Vec<_>>(),
    });
    let folder = flows.folder("many", &spec)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(flows.ours(&folder)?);
        theirs.push(flows.theirs(&folder)?);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let many = Row {
        what: "noodles: 100 experiments of `true` on two ssh servers",
        ours: format!("{ours:.2} s = {:.2} x the original", ours / theirs),
        beside: format!("Training Noodles 1.2.2 {theirs:.2} s"),
        goal: "0.1 x",
    };
    Ok(vec![
        many,
        probed(&flows)?,
        rounds_apart(&flows)?,
        late(programs, &flows)?,
    ])
}

/// What lies between two rounds besides the interval.
fn rounds_apart(flows: &Flows) -> Result<Row, String> {
    const INTERVAL_S: f64 = 0.2;
    let experiments = (0..20)
        .map(|at| json!({"name": format!("e{at}"), "commands": {"run": "date +%s.%N >> times"}}));
    let spec = json!({
        "servers": [{"name": "here"}],
        "round_interval": INTERVAL_S,
        "experiments": experiments.collect::<Vec<_>>(),
    });
    let more = |who: &str, run: &dyn Fn(&Path) -> Result<f64, String>| {
        let folder = flows.folder(who, &spec)?;
        run(&folder)?;
        let times = fs::read_to_string(folder.join("times")).map_err(|error| error.to_string())?;
        let times: Vec<f64> = times.lines().filter_map(|time| time.parse().ok()).collect();
        let pauses = times.windows(2);
        let more: Vec<f64> = pauses
            .map(|two| (two[1] - two[0] - INTERVAL_S) * 1e3)
            .collect();
        Ok::<_, String>(format!(
            "p50 {:.1} ms, p99 {:.1} ms",
            median(more.clone()),
            quantile(more, 0.99)
        ))
    };
    Ok(Row {
        what: "noodles: between two rounds, beyond their interval",
        ours: more("rounds", &|folder| flows.ours(folder))?,
        beside: more("rounds-there", &|folder| flows.theirs(folder))?,
        goal: "50 ms",
    })
}

/// A requirement that takes seconds on each of many servers.
fn probed(flows: &Flows) -> Result<Row, String> {
    let spec = |count: usize| {
        json!({
            "servers": servers(count),
            "round_interval": 0,
            "experiments": [{
                "name": "e",
                "requirements": {"run": [{"cpu_usage": "<=1000"}]},
                "commands": {"run": "true"},
            }],
        })
    };
    let ours = flows.ours(&flows.folder("probed", &spec(PROBED))?)?;
    let theirs = flows.theirs(&flows.folder("probed-there", &spec(PROBED_THERE))?)?;
    Ok(Row {
        what: "noodles: the default `cpu_usage` of 20 ssh servers",
        ours: format!("{ours:.2} s"),
        beside: format!("Training Noodles 1.2.2 of {PROBED_THERE}: {theirs:.2} s"),
        goal: "4 s",
    })
}

/// From a remote line to the local file.
fn late(programs: &Programs, flows: &Flows) -> Result<Row, String> {
    let floor = flows.host.program(programs, "floor")?;
    let spec = json!({
        "servers": servers(1),
        "experiments": [{
            "name": "e",
            "commands": {"run": format!("{} lines 200 10", floor.display())},
            "write_outputs": {"run": {"stdout_to": "out"}},
        }],
    });
    let folder = flows.folder("late", &spec)?;
    let mut command = flows.home.command(&["noodles", "run", "spec.yml"]);
    let mut ran = (command.current_dir(&folder).spawn()).map_err(|error| error.to_string())?;
    let (mut late, mut text) = (Vec::new(), String::new());
    let mut file = None;
    loop {
        let is_over = ran.try_wait().map_err(|error| error.to_string())?.is_some();
        if file.is_none() {
            file = fs::File::open(folder.join("out")).ok();
        }
        if let Some(file) = &mut file {
            // What cannot be read now is read at the next look.
            let _ = file.read_to_string(&mut text);
        }
        let seen = monotonic();
        while let Some((line, rest)) = text.split_once('\n') {
            if let Ok(printed) = line.trim().parse::<i64>() {
                late.push((seen - printed) as f64 / 1e9);
            }
            text = rest.to_owned();
        }
        if is_over {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(Row {
        what: "noodles: a remote line until the local `stdout_to` has it",
        ours: format!(
            "p50 {:.2} ms, p99 {:.2} ms of {}",
            median(late.clone()) * 1e3,
            quantile(late.clone(), 0.99) * 1e3,
            late.len()
        ),
        beside: "the original: at the end of the group".to_owned(),
        goal: "p50 50 ms",
    })
}
