//! The same over ssh: sending the agents, and starting.

use std::fs;
use std::time::Instant;

use super::host::Host;
use super::programs::Programs;
use super::stage::BenchHome;
use super::{Row, median, monotonic};

/// A home with this host as its node `h1`.
pub fn on_host(programs: &Programs, host: &Host, name: &str) -> Result<BenchHome, String> {
    let stage = BenchHome::new(programs, name)?.with("NERONET_SSH", &host.ssh());
    stage.ok(&["node", "add", "h1", "h1", "--warden", "none"])?;
    Ok(stage)
}

/// Cold push and first run, warm start, and a start over a new connection.
pub fn starting(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let mut cold = Vec::new();
    let mut bytes = String::new();
    for round in 0..rounds {
        let host = Host::up(programs.root())?;
        let stage =
            BenchHome::new(programs, &format!("cold{round}"))?.with("NERONET_SSH", &host.ssh());
        let folder = stage.experiment("e", "collection: c\n+t:\n  command: /bin/true\n")?;
        stage.ok(&["add", &folder.display().to_string()])?;
        let began = Instant::now();
        let (said, _) = stage.ok(&["node", "add", "h1", "h1", "--warden", "none"])?;
        stage.ok(&["start", "all", "--node", "h1"])?;
        stage.ok(&["wait", "all"])?;
        cold.push(began.elapsed().as_secs_f64());
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let sent = said.lines().find(|line| line.contains("sent"));
        bytes = sent.map_or_else(String::new, |line| format!(", {}", line.trim()));
    }
    let mut rows = vec![Row {
        what: "ssh: node added, agents pushed, first run over",
        ours: format!("{:.2} s{bytes}", median(cold)),
        beside: "-".to_owned(),
        goal: "12 MB compressed",
    }];
    rows.extend(warm(programs, rounds)?);
    Ok(rows)
}

fn warm(programs: &Programs, rounds: usize) -> Result<Vec<Row>, String> {
    let host = Host::up(programs.root())?;
    let stage = on_host(programs, &host, "warm")?;
    let floor = host.program(programs, "floor")?;
    let stamp = host.common().join("stamp");
    let yaml = format!(
        "collection: c\nnode: h1\n+s:\n  command: {} stamp {} 50\n",
        floor.display(),
        stamp.display()
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    let once = || -> Result<f64, String> {
        let began = monotonic();
        stage.ok(&["restart", "1"])?;
        stage.ok(&["wait", "1"])?;
        let stamps = fs::read_to_string(&stamp).map_err(|error| error.to_string())?;
        let first = stamps.lines().find_map(|line| line.parse::<i64>().ok());
        Ok((first.ok_or("the job left no stamp")? - began) as f64 / 1e9)
    };
    once()?;
    let warm: Vec<f64> = (0..rounds * 5).map(|_| once()).collect::<Result<_, _>>()?;
    let mut anew = Vec::new();
    for _ in 0..rounds {
        stage.ok(&["daemon", "stop"])?;
        anew.push(once()?);
    }
    let ssh = ssh_cost(&host)?;
    let row = |what, values| Row {
        what,
        ours: format!("{:.0} ms", median(values) * 1e3),
        beside: format!("`ssh h1 true`, new connection {:.0} ms", ssh * 1e3),
        goal: "0.5 s",
    };
    Ok(vec![
        row("ssh: `restart` until the job's first instruction", warm),
        row("… with the daemon and the agent started first", anew),
    ])
}

fn ssh_cost(host: &Host) -> Result<f64, String> {
    let words = host.ssh();
    let mut words = words.split(' ');
    let program = words.next().unwrap_or("ssh");
    let args: Vec<&str> = words.chain(["h1", "true"]).collect();
    let mut all = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        std::process::Command::new(program)
            .args(&args)
            .status()
            .map_err(|error| error.to_string())?;
        all.push(began.elapsed().as_secs_f64());
    }
    Ok(median(all))
}
