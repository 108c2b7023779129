//! The same over ssh: pushing, starting, and files both ways beside `rsync`.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use super::host::Host;
use super::programs::Programs;
use super::stage::Stage;
use super::{Row, median, monotonic};

/// Files of the tree of small ones, and the bytes of each.
const SMALL: (usize, usize) = (10_000, 2_000);
/// Bytes of the large file.
const LARGE: u64 = 1 << 30;

/// A home whose node `h1` is this host.
pub fn on_host(programs: &Programs, host: &Host, name: &str) -> Result<Stage, String> {
    let stage = Stage::new(programs, name)?.with("NERONET_SSH", &host.ssh());
    stage.ok(&["node", "add", "h1", "h1"])?;
    Ok(stage)
}

/// Cold push and first run, warm start, and a start over a new connection.
pub fn starting(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let mut cold = Vec::new();
    let mut bytes = String::new();
    for round in 0..rounds {
        let host = Host::up(programs.root())?;
        let stage = Stage::new(programs, &format!("cold{round}"))?.with("NERONET_SSH", &host.ssh());
        let folder = stage.experiment("e", "collection: c\n+t:\n  command: /bin/true\n")?;
        stage.ok(&["add", &folder.display().to_string()])?;
        let began = Instant::now();
        let (said, _) = stage.ok(&["node", "add", "h1", "h1"])?;
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

/// Files there and back, beside rsync over the same ssh.
pub fn files(programs: &Programs, _: usize, _: usize) -> Result<Vec<Row>, String> {
    let host = Host::up(programs.root())?;
    let stage = on_host(programs, &host, "sshfiles")?;
    let mut rows = Vec::new();
    for (what_in, what_same, what_out, name) in [
        (
            "ssh: 10 000 small files there, run over",
            "… the same tree again",
            "… 10 000 small results home",
            "small",
        ),
        (
            "ssh: one 1 GB file there, run over",
            "… the same file again",
            "… one 1 GB result home",
            "large",
        ),
    ] {
        let yaml = "collection: c\nnode: h1\n+i:\n  command: /bin/true\n\
                    +o:\n  command: cp -r data out\n  outputs: [{path: 'out/**', max: 2G}]\n";
        let folder = stage.experiment(name, &yaml.replace("c\n", &format!("{name}\n")))?;
        make(&folder.join("data"), name)?;
        stage.ok(&["add", &folder.display().to_string()])?;
        let timed = |words: &[&str]| -> Result<f64, String> {
            let began = Instant::now();
            stage.ok(words)?;
            stage.ok(&["wait", &format!("{name}/i")])?;
            Ok(began.elapsed().as_secs_f64())
        };
        let first = timed(&["start", &format!("{name}/i"), "--big"])?;
        let again = timed(&["restart", &format!("{name}/i"), "--big"])?;
        let from = format!("{}/", folder.join("data").display());
        let rsync = host.rsync(&from, &format!("h1:{name}"))?;
        let rsync_again = host.rsync(&from, &format!("h1:{name}"))?;
        rows.push(row(what_in, first, "rsync, first copy", rsync));
        rows.push(row(what_same, again, "rsync, unchanged", rsync_again));
        let began = Instant::now();
        stage.ok(&["start", &format!("{name}/o"), "--big"])?;
        stage.ok(&["wait", &format!("{name}/o")])?;
        let ran = began.elapsed().as_secs_f64();
        home(&stage, &format!("{name}/o"))?;
        let all = began.elapsed().as_secs_f64();
        let back = stage.folder().join(format!("back-{name}"));
        let rsync = host.rsync(&format!("h1:{name}/"), &back.display().to_string())?;
        rows.push(row(what_out, all - ran, "rsync, first copy", rsync));
    }
    Ok(rows)
}

fn row(what: &'static str, ours: f64, beside: &str, rsync: f64) -> Row {
    Row {
        what,
        ours: format!("{ours:.2} s"),
        beside: format!("{beside} {rsync:.2} s"),
        goal: "rsync's",
    }
}

fn make(folder: &Path, name: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    // Bytes that do not compress, the same in every round.
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    if name == "small" {
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

/// Waits until the results of one experiment are home.
fn home(stage: &Stage, what: &str) -> Result<(), String> {
    let deadline = Instant::now() + std::time::Duration::from_secs(300);
    while Instant::now() < deadline {
        let (said, _) = stage.ok(&["path", what, "--json"])?;
        let said: serde_json::Value =
            serde_json::from_slice(&said.stdout).map_err(|error| error.to_string())?;
        let one = &said["paths"][0];
        if one["path"].is_string() && one["note"].is_null() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Err(format!("the results of {what} did not come home"))
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
