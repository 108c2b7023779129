//! Mail: how soon it leaves, what many events cost, and that it rests.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use super::programs::Programs;
use super::stage::{BenchHome, cpu_seconds, switches};
use super::{Row, median, monotonic, quantile};

/// The longest wait for one mail.
const PATIENCE: Duration = Duration::from_secs(60);
/// Events at once.
const EVENTS: usize = 1000;

/// Measures mail through a server that takes everything.
pub fn mail(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let mut rows = vec![latency(programs, rounds)?];
    rows.push(load(programs, rounds)?);
    rows.push(rest(programs)?);
    Ok(rows)
}

/// A mail server: the moments at which it was asked to take a message.
struct MailSink {
    port: u16,
    asked: Receiver<i64>,
}

impl MailSink {
    fn start() -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?;
        let (tx, asked) = mpsc::channel();
        // It ends with this process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A connection that breaks off is the daemon's to notice.
                let _ = serve(stream, &tx);
            }
        });
        Ok(Self {
            port: port.port(),
            asked,
        })
    }

    fn config(&self, notify: &str) -> String {
        format!(
            "user: {{email: ada@example.org}}\nmail: {{smtp: '127.0.0.1:{}', security: none}}\nnotify: {notify}\n",
            self.port
        )
    }
}

fn serve(stream: TcpStream, asked: &Sender<i64>) -> std::io::Result<()> {
    let mut answer = stream.try_clone()?;
    let mut lines = BufReader::new(stream).lines();
    answer.write_all(b"220 bench\r\n")?;
    while let Some(line) = lines.next() {
        let line = line?;
        let word = line.split([' ', ':']).next().unwrap_or_default();
        match word.to_ascii_uppercase().as_str() {
            "DATA" => {
                // A bench that ended needs no more figures.
                let _ = asked.send(monotonic());
                answer.write_all(b"354 go\r\n")?;
                while lines.next().transpose()?.is_some_and(|line| line != ".") {}
                answer.write_all(b"250 taken\r\n")?;
            }
            "QUIT" => return answer.write_all(b"221 bye\r\n"),
            _ => answer.write_all(b"250 fine\r\n")?,
        }
    }
    Ok(())
}

fn configure(stage: &BenchHome, config: &str) -> Result<(), String> {
    let home = stage.folder().join("h");
    fs::create_dir_all(&home)
        .and_then(|()| fs::write(home.join("config.yaml"), config))
        .map_err(|error| error.to_string())
}

/// From the last instruction of a job that fails, with a line on standard error, to DATA.
fn latency(programs: &Programs, rounds: usize) -> Result<Row, String> {
    let sink = MailSink::start()?;
    let stage = BenchHome::new(programs, "mail")?;
    configure(&stage, &sink.config("{events: [crashed], limit: 3600}"))?;
    stage.warm()?;
    let (floor, stamp) = (programs.path("floor"), stage.folder().join("stamp"));
    let command = format!(
        "sh -c 'echo bad >&2; {} stamp {} 0; exit 3'",
        floor.display(),
        stamp.display()
    );
    let mut took = Vec::new();
    // Each in a collection of its own: the next letter of a thread waits.
    for number in 0..rounds * 20 {
        let yaml = format!("collection: c{number}\n+s{number}:\n  command: {command}\n");
        let folder = stage.experiment(&format!("e{number}"), &yaml)?;
        stage.ok(&["start", &folder.display().to_string()])?;
        let asked = sink.asked.recv_timeout(PATIENCE);
        let asked = asked.map_err(|_| "a crash was not told".to_owned())?;
        took.push((asked - last_stamp(&stamp)?) as f64 / 1e9);
    }
    Ok(Row {
        what: "a job fails until DATA of the mail with its last lines, p50 and p99",
        ours: format!(
            "{:.0} ms, {:.0} ms ({} mails)",
            median(took.clone()) * 1e3,
            quantile(took.clone(), 0.99) * 1e3,
            took.len()
        ),
        beside: "-".to_owned(),
        goal: "300 ms, 2 s",
    })
}

fn last_stamp(path: &Path) -> Result<i64, String> {
    let stamps = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let last = stamps.lines().rev().find_map(|line| line.parse().ok());
    last.ok_or_else(|| "the job left no stamp".to_owned())
}

/// CPU time of the daemon for many runs that start and end, with and without mail about each.
fn load(programs: &Programs, rounds: usize) -> Result<Row, String> {
    let sink = MailSink::start()?;
    let told = sink.config("{events: [started, finished, done]}");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    // In turns: what else the machine does then disturbs both alike.
    for round in 0..rounds {
        without.push(many(programs, &format!("quiet{round}"), "{}\n")?);
        with.push(many(programs, &format!("told{round}"), &told)?);
    }
    let (with, without) = (median(with), median(without));
    Ok(Row {
        what: "CPU of the daemon for 1000 runs, each told as started and finished",
        ours: format!("{with:.2} s, {:+.1} %", (with / without - 1.0) * 100.0),
        beside: format!("without mail {without:.2} s"),
        goal: "5 % more",
    })
}

fn many(programs: &Programs, name: &str, config: &str) -> Result<f64, String> {
    let stage = BenchHome::new(programs, name)?;
    configure(&stage, config)?;
    let yaml = format!(
        "collection: c\n+t:\n  command: /bin/true\n  parameters: {{i: {{range: [1, {EVENTS}, 1]}}}}\n"
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.warm()?;
    let before = daemon_cpu(&stage);
    stage.ok(&["start", "c/*"])?;
    stage.ok(&["wait", "c/*"])?;
    Ok(daemon_cpu(&stage) - before)
}

fn daemons(stage: &BenchHome) -> Vec<i32> {
    let all = stage.processes().into_iter();
    let daemons = all.filter(|(_, kind)| *kind == "neroman daemon");
    daemons.map(|(pid, _)| pid).collect()
}

fn daemon_cpu(stage: &BenchHome) -> f64 {
    daemons(stage).into_iter().map(cpu_seconds).sum()
}

/// Wake-ups of a daemon that has told everything.
fn rest(programs: &Programs) -> Result<Row, String> {
    const SECONDS: u64 = 10;
    let sink = MailSink::start()?;
    let mut wakes = Vec::new();
    for (name, config) in [
        ("asleep", "{}\n".to_owned()),
        (
            "listening",
            sink.config("{events: [finished], digest: 1h, quiet: 03:00-03:01}"),
        ),
    ] {
        let stage = BenchHome::new(programs, name)?;
        configure(&stage, &config)?;
        stage.warm()?;
        // This measures rest, so the mail about the run must be out.
        thread::sleep(Duration::from_secs(5));
        let count = || {
            daemons(&stage)
                .into_iter()
                .filter_map(switches)
                .sum::<f64>()
        };
        let before = count();
        thread::sleep(Duration::from_secs(SECONDS));
        wakes.push((count() - before) / SECONDS as f64);
    }
    Ok(Row {
        what: "wake-ups of a daemon with mail while nothing happens",
        ours: format!("{:.1}/s", wakes[1]),
        beside: format!("without mail {:.1}/s", wakes[0]),
        goal: "none of mail's",
    })
}
