//! Runs in containers beside the runtimes' own `run`, images, and a set of hosts made ready.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::host::Host;
use super::programs::Programs;
use super::ssh::on_host;
use super::stage::BenchHome;
use super::{Row, files, median};

/// Runs of one image.
const RUNS: usize = 100;
/// Bytes of a large archive.
const ARCHIVE: usize = 200 << 20;
/// Hosts of a set.
const HOSTS: usize = 5;

/// A script of the tests' rig, which ends when this is dropped.
struct Rig(Child);

impl Rig {
    /// Starts it and waits for a line.
    fn hold(command: &mut Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{command:?}: {error}"))?;
        let out = child.stdout.take().ok_or("no pipe")?;
        let rig = Self(child);
        match BufReader::new(out).lines().next() {
            Some(Ok(_)) => Ok(rig),
            _ => Err(format!("{command:?} did not come up")),
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends when its standard input does.
        let _ = self.0.wait();
    }
}

/// Runtimes, their environment, and an image.
struct Runtimes {
    _rig: Rig,
    folder: tempfile::TempDir,
    environment: Vec<(String, String)>,
}

impl Runtimes {
    fn up(root: &Path) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("nb").tempdir();
        let folder = folder.map_err(|error| error.to_string())?;
        let script = root.join("tests/rig/containers.sh");
        let rig = Rig::hold(
            Command::new("bash")
                .arg(&script)
                .arg("hold")
                .arg(folder.path()),
        )?;
        let text =
            fs::read_to_string(folder.path().join("env")).map_err(|error| error.to_string())?;
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = folder.path().join("bin").display().to_string();
        let mut environment = vec![("PATH".to_owned(), format!("{bin}:{path}"))];
        let vars = text.lines().filter_map(|line| line.split_once('='));
        environment.extend(vars.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let runtimes = Self {
            _rig: rig,
            folder,
            environment,
        };
        let image = runtimes.image();
        succeed(Command::new("bash").arg(script).arg("image").arg(&image))?;
        succeed(
            runtimes
                .command("podman")
                .arg("import")
                .arg("-q")
                .args([image.as_path(), "tiny:1".as_ref()]),
        )?;
        succeed(
            runtimes
                .command("docker")
                .arg("import")
                .args([image.as_path(), "tiny:1".as_ref()]),
        )?;
        let root = runtimes.folder.path().join("root");
        fs::create_dir(&root).map_err(|error| error.to_string())?;
        succeed(
            Command::new("tar")
                .arg("-C")
                .arg(&root)
                .arg("-xf")
                .arg(&image),
        )?;
        Ok(runtimes)
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("tiny.tar")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment.iter().cloned());
        command.env("USER", "root").stdin(Stdio::null());
        command
    }

    fn home(&self, programs: &Programs, name: &str) -> Result<BenchHome, String> {
        let stage = BenchHome::new(programs, name)?.with("USER", "root");
        let vars = self.environment.iter();
        Ok(vars.fold(stage, |stage, (name, value)| stage.with(name, value)))
    }

    /// Seconds of the runtime's own `run` of `true`, and of what asks for its end and removes it.
    fn own(&self, runtime: &str) -> Result<(f64, f64), String> {
        if runtime == "charliecloud" {
            let root = self.folder.path().join("root");
            let run = timed(self.command("ch-run").arg(root).args(["--", "/bin/true"]))?;
            return Ok((run, 0.0));
        }
        let run =
            "run --name own --init --network host --pull never --log-driver none tiny:1 /bin/true";
        let run = timed(self.command(runtime).args(run.split(' ')))?;
        let asked = timed(self.command(runtime).args(["inspect", "own"]))?;
        let removed = timed(self.command(runtime).args(["rm", "-f", "own"]))?;
        Ok((run, asked + removed))
    }
}

fn succeed(command: &mut Command) -> Result<(), String> {
    timed(command).map(drop)
}

fn timed(command: &mut Command) -> Result<f64, String> {
    let began = Instant::now();
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let took = began.elapsed().as_secs_f64();
    if output.status.success() {
        return Ok(took);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{command:?} ended with {}: {said}", output.status))
}

/// A run in a container, and its abort, with each runtime.
pub fn containers(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let runtimes = Runtimes::up(programs.root())?;
    let mut rows = Vec::new();
    for (runtime, run, abort) in [
        (
            "charliecloud",
            "charliecloud: a run of `true`",
            "… an abort of `sleep`",
        ),
        ("podman", "podman: a run of `true`", "… an abort of `sleep`"),
        ("docker", "docker: a run of `true`", "… an abort of `sleep`"),
    ] {
        let stage = runtimes.home(programs, runtime)?;
        let image = runtimes.image();
        let container = format!(
            "container: {{image: {}, runtime: {runtime}}}",
            image.display()
        );
        let folder = stage.experiment(
            "e",
            &format!(
                "collection: c\n+t:\n  command: /bin/true\n  {container}\n\
                 +s:\n  command: [sleep, '300']\n  {container}\n+b:\n  command: /bin/true\n"
            ),
        )?;
        stage.ok(&["add", &folder.display().to_string()])?;
        let once = |name: &str| -> Result<f64, String> {
            let began = Instant::now();
            stage.ok(&["restart", name])?;
            stage.ok(&["wait", name])?;
            Ok(began.elapsed().as_secs_f64())
        };
        let (mut ours, mut bare, mut own, mut after, mut aborts) =
            (vec![], vec![], vec![], vec![], vec![]);
        once("c/t")?;
        once("c/b")?;
        for _ in 0..rounds * 3 {
            ours.push(once("c/t")?);
            bare.push(once("c/b")?);
            let (run, end) = runtimes.own(runtime)?;
            own.push(run);
            after.push(end);
        }
        for _ in 0..rounds {
            stage.ok(&["restart", "c/s"])?;
            files::until(&stage, "c/s", &["running"])?;
            // The client is there before its container is.
            std::thread::sleep(std::time::Duration::from_secs(3));
            let began = Instant::now();
            stage.ok(&["abort", "c/s", "--yes"])?;
            files::until(&stage, "c/s", &["aborted"])?;
            aborts.push(began.elapsed().as_secs_f64());
        }
        let (ours, bare) = (median(ours), median(bare));
        let (own, after) = (median(own), median(after));
        rows.push(Row {
            what: run,
            ours: format!(
                "{:.0} ms = its own and a run without one + {:.0} ms",
                ours * 1e3,
                (ours - own - bare) * 1e3
            ),
            beside: format!(
                "its own {:.0} ms, a run without one {:.0} ms, inspect and rm {:.0} ms",
                own * 1e3,
                bare * 1e3,
                after * 1e3
            ),
            goal: "+ inspect and rm; + 10 ms with charliecloud",
        });
        rows.push(Row {
            what: abort,
            ours: format!("{:.2} s", median(aborts)),
            beside: "-".to_owned(),
            goal: "1 s",
        });
    }
    rows.push(one_transfer(programs, &runtimes)?);
    Ok(rows)
}

/// Many runs of an image of a registry.
fn one_transfer(programs: &Programs, runtimes: &Runtimes) -> Result<Row, String> {
    let folder = runtimes.folder.path().join("registry");
    fs::create_dir(&folder).map_err(|error| error.to_string())?;
    let mut script = Command::new("python3");
    script.arg(programs.root().join("tests/rig/registry.py"));
    let mut registry = script
        .arg(&folder)
        .arg(runtimes.image())
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let port = loop {
        match fs::read_to_string(folder.join("port")) {
            Ok(port) if !port.is_empty() => break port,
            _ => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    };
    let image = format!("127.0.0.1:{}/lab/ok:1", port.trim());
    let stage = runtimes.home(programs, "transfer")?;
    let yaml = format!(
        "collection: c\n+t:\n  command: /bin/true\n  resources: {{cpus: 0.5}}\n  \
         container: {{image: '{image}', runtime: docker}}\n  parameters: {{i: {{range: [0, {RUNS}, 1]}}}}\n"
    );
    let e = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &e.display().to_string()])?;
    let began = Instant::now();
    stage.ok(&["start", "c/*"])?;
    stage.ok(&["wait", "c/*"])?;
    let took = began.elapsed().as_secs_f64();
    let asked = fs::read_to_string(folder.join("requests")).unwrap_or_default();
    let blobs = asked
        .lines()
        .filter(|line| line.contains("/lab/ok/blobs/"))
        .count();
    drop(registry.stdin.take());
    // It ends when its standard input does.
    let _ = registry.wait();
    Ok(Row {
        what: "docker: 100 runs of one image of a registry",
        ours: format!("{took:.1} s, {blobs} blobs asked for"),
        beside: "the image has 2".to_owned(),
        goal: "one transfer",
    })
}

/// An archive of an image to a node, beside rsync.
pub fn archive(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds.min(3) {
        let host = Host::up(programs.root())?;
        let stage = on_host(programs, &host, &format!("archive{round}"))?;
        let yaml = "collection: c\nnode: h1\n+t:\n  command: /bin/true\n  files: [env.tar]\n";
        let folder = stage.experiment("e", yaml)?;
        let file = folder.join("env.tar");
        let mut bytes = vec![0; ARCHIVE];
        let read = fs::File::open("/dev/urandom")
            .and_then(|mut random| std::io::Read::read_exact(&mut random, &mut bytes));
        read.and_then(|()| fs::write(&file, &bytes))
            .map_err(|error| error.to_string())?;
        stage.ok(&["add", &folder.display().to_string()])?;
        let began = Instant::now();
        stage.ok(&["start", "c/t", "--big"])?;
        stage.ok(&["wait", "c/t"])?;
        ours.push(began.elapsed().as_secs_f64());
        theirs.push(host.rsync(&file.display().to_string(), "h1:env.tar")?);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    Ok(vec![Row {
        what: "ssh: an archive of 200 MB frozen and on the node, run over",
        ours: format!("{ours:.2} s = {:.2} x rsync", ours / theirs),
        beside: format!("rsync {theirs:.2} s"),
        goal: "1.1 x rsync",
    }])
}

/// A set of fresh hosts made ready, beside the slowest of them alone.
pub fn infra(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let (mut all, mut again, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let up = |stage: &BenchHome, hosts: &str| -> Result<f64, String> {
        let words = ["infra", "up", "lab", "-a", hosts, "--warden", "none"];
        Ok(stage.ok(&words)?.1.as_secs_f64())
    };
    for round in 0..rounds.min(3) {
        let hosts = Host::up_many(programs.root(), HOSTS)?;
        let names: Vec<String> = (1..=HOSTS).map(|number| format!("h{number}")).collect();
        let home = |name: String| {
            Ok::<_, String>(BenchHome::new(programs, &name)?.with("NERONET_SSH", &hosts.ssh()))
        };
        let stage = home(format!("infra{round}"))?;
        stage.ok(&["status"])?;
        all.push(up(&stage, &names.join(","))?);
        again.push(up(&stage, &names.join(","))?);
        drop((stage, hosts));
        let hosts = Host::up_many(programs.root(), HOSTS)?;
        let mut slowest = 0.0_f64;
        for name in &names {
            let stage = BenchHome::new(programs, &format!("infra{round}{name}"))?
                .with("NERONET_SSH", &hosts.ssh());
            stage.ok(&["status"])?;
            slowest = slowest.max(up(&stage, name)?);
        }
        alone.push(slowest);
    }
    let (all, again, alone) = (median(all), median(again), median(alone));
    Ok(vec![
        Row {
            what: "ssh: `infra up` of 5 fresh hosts",
            ours: format!("{all:.2} s = {:.2} x the slowest alone", all / alone),
            beside: format!("the slowest alone {alone:.2} s"),
            goal: "1.3 x the slowest alone",
        },
        Row {
            what: "… the same line again",
            ours: format!("{again:.2} s"),
            beside: "-".to_owned(),
            goal: "1 s",
        },
    ])
}
