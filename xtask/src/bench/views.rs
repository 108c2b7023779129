//! The views of very many experiments: how long a person waits for them, and what they cost.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::listing::EXPERIMENTS;
use super::programs::Programs;
use super::stage::{BenchHome, cpu_seconds, switches, written_kib};
use super::{Row, median, monotonic, quantile};

/// Runs that are live beside the experiments which were never started.
const LIVE: usize = 100;
/// Points of the long curve.
const POINTS: usize = 600_000;
/// How long a view that does not change is looked at.
const REST: Duration = Duration::from_secs(10);

/// Windows of the page: sorted, filtered, far down.
const WINDOWS: [&str; 6] = [
    "sort=-i",
    "sort=abs(i-777)",
    "sort=-ns",
    "sel=i+%3E+50000+%26%26+defined",
    "sel=*_i-9988%3F",
    "offset=77777",
];

/// Time, CPU and memory of `top`, `status --watch` and `web`.
pub fn views(programs: &Programs, rounds: usize, _: usize) -> Result<Vec<Row>, String> {
    let stage = many(programs, EXPERIMENTS, "views")?;
    let daemon = stage.daemon()?;
    let whole = whole(&stage, rounds)?;
    let mut rows = vec![
        first_frames(&stage, rounds, whole)?,
        keys(&stage)?,
        first_rows(&stage, rounds, whole)?,
    ];
    let page = Page::open(&stage)?;
    rows.push(windows(&page, daemon, rounds)?);
    rows.push(curve(&page, daemon, rounds)?);
    rows.push(printed(
        &stage,
        &page,
        "printed line until the page has it, 100 000 experiments",
    )?);
    rows.push(Row {
        what: "memory of `web`, 100 000 experiments",
        ours: format!("{:.0} MiB written", written(page.child.id())? / 1024.0),
        beside: "-".to_owned(),
        goal: "40 MiB",
    });
    rows.push(many_views(&stage, &page, daemon)?);
    drop(page);
    stage.ok(&["daemon", "stop"])?;
    let stage = many(programs, 2000, "fewer")?;
    let page = Page::open(&stage)?;
    rows.push(printed(
        &stage,
        &page,
        "printed line until the page has it, 2000 experiments",
    )?);
    rows.push(followed(&stage, &page)?);
    Ok(rows)
}

/// A home with so many experiments, live ones among them, and one with a long curve.
fn many(programs: &Programs, count: usize, name: &str) -> Result<BenchHome, String> {
    let stage = BenchHome::new(programs, name)?;
    let defined = count - LIVE - 12;
    let floor = programs.path("floor").display().to_string();
    let took = stage.folder().join("took").display().to_string();
    let yaml = format!(
        "collection: c
resources: {{cpus: 0.001}}
+t: {{command: /bin/true, parameters: {{i: {{range: [0, {defined}, 1]}}}}}}
+live: {{command: sleep 10000, parameters: {{n: {{range: [0, {LIVE}, 1]}}}}}}
+long: {{command: {floor} flood {POINTS} {took}, outputs: []}}
+clock: {{command: {floor} clock 400 50}}
+ten: {{command: {floor} clock 40 1000, parameters: {{m: {{range: [0, 10, 1]}}}}}}
"
    );
    let folder = stage.experiment("e", &yaml)?;
    stage.ok(&["add", &folder.display().to_string()])?;
    stage.ok(&["start", "c/live*,c/long"])?;
    stage.ok(&["wait", "c/long"])?;
    Ok(stage)
}

/// Seconds of `status --json` of them all, which the others are compared with.
fn whole(stage: &BenchHome, rounds: usize) -> Result<f64, String> {
    let mut took = Vec::new();
    for _ in 0..rounds {
        took.push(stage.ok(&["status", "--json"])?.1.as_secs_f64());
    }
    Ok(median(took))
}

/// A view in a terminal of 80 columns, which `script` holds.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    output: Receiver<Vec<u8>>,
}

impl Terminal {
    fn start(stage: &BenchHome, words: &str) -> Result<Self, String> {
        let neroman = stage.command(&[]);
        let line = format!(
            "stty cols 80 rows 24; exec {} {words}",
            neroman.get_program().display()
        );
        let mut script = Command::new("script");
        script
            .args(["-qfec", &line, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for (name, value) in neroman.get_envs() {
            script.envs(value.map(|value| (name, value)));
        }
        script
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8");
        let mut script = script.spawn().map_err(|error| format!("script: {error}"))?;
        let (keys, output) = (script.stdin.take(), script.stdout.take());
        let (Some(keys), Some(output)) = (keys, output) else {
            return Err("no pipe".to_owned());
        };
        Ok(Self {
            script,
            keys,
            output: pieces(output),
        })
    }

    /// What was printed until this word came.
    fn until(&self, word: &str) -> Result<(), String> {
        let (mut seen, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let piece = self.output.recv_timeout(left);
            seen.extend(
                piece.map_err(|_| format!("no {word:?}: {}", String::from_utf8_lossy(&seen)))?,
            );
            if String::from_utf8_lossy(&seen).contains(word) {
                return Ok(());
            }
        }
    }

    /// Takes what is printed until nothing came for this long.
    fn rest(&self, still: Duration) {
        while self.output.recv_timeout(still).is_ok() {}
    }

    fn press(&mut self, keys: &str) -> Result<(), String> {
        self.keys
            .write_all(keys.as_bytes())
            .map_err(|error| error.to_string())
    }

    /// The process of the view.
    fn view(&self) -> Result<u32, String> {
        let script = self.script.id();
        let children = std::fs::read_to_string(format!("/proc/{script}/task/{script}/children"));
        let children = children.map_err(|error| error.to_string())?;
        let first = children
            .split_whitespace()
            .next()
            .and_then(|pid| pid.parse().ok());
        first.ok_or_else(|| "the view has ended".to_owned())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// What a process prints, piece by piece.
fn pieces(mut output: ChildStdout) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut piece = vec![0; 1 << 16];
        while let Ok(count @ 1..) = output.read(&mut piece) {
            if sender.send(piece[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

fn first_frames(stage: &BenchHome, rounds: usize, whole: f64) -> Result<Row, String> {
    let mut told = Vec::new();
    for (words, row) in [("top", "t_i-"), ("status --watch", "live_n-")] {
        let (mut took, mut memory) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let began = Instant::now();
            let terminal = Terminal::start(stage, words)?;
            terminal.until(row)?;
            took.push(began.elapsed().as_secs_f64());
            memory.push(written(terminal.view()?)? / 1024.0);
        }
        let (took, memory) = (median(took), median(memory));
        told.push(format!(
            "`{words}` {:.0} ms = 1/{:.0}, {memory:.0} MiB",
            took * 1e3,
            whole / took
        ));
    }
    Ok(Row {
        what: "first rows in a terminal, 100 000 experiments",
        ours: told.join("; "),
        beside: format!("`status --json` {:.0} ms", whole * 1e3),
        goal: "1/8 of it, 30 MiB",
    })
}

fn keys(stage: &BenchHome) -> Result<Row, String> {
    let mut terminal = Terminal::start(stage, "top")?;
    terminal.until("t_i-")?;
    terminal.rest(Duration::from_millis(500));
    let mut took = Vec::new();
    for round in 0..300 {
        let began = Instant::now();
        terminal.press(if round % 40 < 20 { "j" } else { "k" })?;
        match terminal.output.recv_timeout(Duration::from_secs(5)) {
            Ok(_) => took.push(began.elapsed().as_secs_f64()),
            Err(RecvTimeoutError::Timeout) => return Err("a key had no frame".to_owned()),
            Err(RecvTimeoutError::Disconnected) => return Err("the view has ended".to_owned()),
        }
        terminal.rest(Duration::from_millis(20));
    }
    Ok(Row {
        what: "a key in `top` until its frame",
        ours: format!(
            "p50 {:.1} ms, p99 {:.1} ms",
            median(took.clone()) * 1e3,
            quantile(took, 0.99) * 1e3
        ),
        beside: "-".to_owned(),
        goal: "p99 16 ms",
    })
}

/// `neroman web` and somebody who is logged in.
struct Page {
    child: Child,
    port: u16,
    cookie: String,
}

impl Page {
    fn open(stage: &BenchHome) -> Result<Self, String> {
        let mut child = stage.spawn(&["web"])?;
        let mut address = String::new();
        let output = child.stdout.take().ok_or("no pipe")?;
        BufReader::new(output)
            .read_line(&mut address)
            .map_err(|error| error.to_string())?;
        let parts = address
            .trim()
            .strip_prefix("http://127.0.0.1:")
            .and_then(|rest| rest.split_once("/#token="));
        let (port, token) = parts.ok_or_else(|| format!("no address: {address}"))?;
        let port = port.parse().map_err(|_| format!("no port: {address}"))?;
        let mut page = Self {
            child,
            port,
            cookie: String::new(),
        };
        let head = format!(
            "POST /login HTTP/1.1\r\nOrigin: http://127.0.0.1:{port}\r\nX-Neroman: 1\r\nContent-Length: {}",
            token.len()
        );
        let answer = page.ask(&head, token)?;
        let cookie = answer
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie
            .and_then(|cookie| cookie.split(';').next())
            .ok_or(answer.clone())?;
        page.cookie = cookie.to_owned();
        Ok(page)
    }

    fn send(&self, head: &str, body: &str) -> Result<TcpStream, String> {
        let (port, cookie) = (self.port, &self.cookie);
        let mut stream =
            TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        let request = format!(
            "{head}\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n{body}"
        );
        stream
            .write_all(request.as_bytes())
            .map_err(|error| error.to_string())?;
        Ok(stream)
    }

    fn ask(&self, head: &str, body: &str) -> Result<String, String> {
        let mut answer = Vec::new();
        self.send(head, body)?
            .read_to_end(&mut answer)
            .map_err(|error| error.to_string())?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if answer.starts_with("HTTP/1.1 20") {
            return Ok(answer);
        }
        Err(answer)
    }

    /// The answer for a path, and the seconds that it took.
    fn get(&self, path: &str) -> Result<(String, f64), String> {
        let began = Instant::now();
        let answer = self.ask(&format!("GET {path} HTTP/1.1"), "")?;
        Ok((answer, began.elapsed().as_secs_f64()))
    }

    /// A stream of a window.
    fn live(&self, query: &str) -> Result<BufReader<TcpStream>, String> {
        self.send(&format!("GET /live?{query} HTTP/1.1"), "")
            .map(BufReader::new)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn first_rows(stage: &BenchHome, rounds: usize, whole: f64) -> Result<Row, String> {
    let mut took = Vec::new();
    for _ in 0..rounds {
        let page = Page::open(stage)?;
        took.push(page.get("/api/window?count=50")?.1);
    }
    let took = median(took);
    Ok(Row {
        what: "first rows of `web`, 100 000 experiments",
        ours: format!("{:.0} ms = 1/{:.0}", took * 1e3, whole / took),
        beside: format!("`status --json` {:.0} ms", whole * 1e3),
        goal: "1/5 of it",
    })
}

fn windows(page: &Page, daemon: i32, rounds: usize) -> Result<Row, String> {
    let mut slowest = (0.0, 0.0, "");
    for query in WINDOWS {
        let path = format!("/api/window?count=50&{query}");
        let (mut took, before) = (Vec::new(), cpu_seconds(daemon));
        for _ in 0..rounds {
            took.push(page.get(&path)?.1);
        }
        let cpu = (cpu_seconds(daemon) - before) / rounds as f64;
        let took = median(took);
        if took > slowest.0 {
            slowest = (took, cpu, query);
        }
    }
    let (took, cpu, query) = slowest;
    Ok(Row {
        what: "sort, filter or jump among 100 000",
        ours: format!(
            "{:.0} ms (`{query}`), {:.0} ms of the daemon's CPU",
            took * 1e3,
            cpu * 1e3
        ),
        beside: "-".to_owned(),
        goal: "150 ms, 80 ms of CPU",
    })
}

fn curve(page: &Page, daemon: i32, rounds: usize) -> Result<Row, String> {
    let web = i32::try_from(page.child.id()).map_err(|error| error.to_string())?;
    let cpu = || cpu_seconds(daemon) + cpu_seconds(web);
    // As the page of a run asks: by its number.
    let path = &format!("/plot.svg?sel={}&y=a&width=900", EXPERIMENTS - 1);
    let (before, (_, first)) = (cpu(), page.get(path)?);
    let cost = cpu() - before;
    let before = cpu();
    let rounds = rounds * 10;
    for _ in 0..rounds {
        page.get(path)?;
    }
    let later = (cpu() - before) / rounds as f64;
    let (mut parts, before) = (Vec::new(), cpu());
    for round in 0..rounds {
        parts.push(page.get(&format!("{path}&from={}", round * 1000))?.1);
    }
    let part = (cpu() - before) / rounds as f64;
    Ok(Row {
        what: "a curve of 600 000 points",
        ours: format!(
            "first {:.0} ms, {:.0} ms of CPU; later ones {:.1} ms of CPU; a part of it {:.0} ms, \
             {:.0} ms of CPU",
            first * 1e3,
            cost * 1e3,
            later * 1e3,
            median(parts) * 1e3,
            part * 1e3
        ),
        beside: "-".to_owned(),
        goal: "400 ms of CPU, then 5 ms",
    })
}

/// How late the stream of a page has the metric that a job prints.
fn printed(stage: &BenchHome, page: &Page, what: &'static str) -> Result<Row, String> {
    stage.ok(&["restart", "c/clock"])?;
    let mut stream = page.live("count=50&sort=-id")?;
    let (mut late, mut last) = (Vec::new(), 0);
    let began = Instant::now();
    let mut line = String::new();
    while began.elapsed() < Duration::from_secs(12) {
        line.clear();
        stream
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        let seen = monotonic();
        let value = line
            .split_once("\"ns\":{\"last\":")
            .and_then(|(_, rest)| rest.split(['.', ',']).next());
        let Some(value) = value.and_then(|value| value.parse::<i64>().ok()) else {
            continue;
        };
        if value != last {
            (last, _) = (value, late.push((seen - value) as f64 / 1e9));
        }
    }
    stage.ok(&["wait", "c/clock"])?;
    Ok(Row {
        what,
        ours: format!(
            "p50 {:.0} ms, p99 {:.0} ms",
            median(late.clone()) * 1e3,
            quantile(late, 0.99) * 1e3
        ),
        beside: "-".to_owned(),
        goal: "p50 100 ms with 2000, 800 ms with 100 000",
    })
}

/// What crosses a line that a person reaches this machine by, while they watch ten runs that print
/// once a second.
fn followed(stage: &BenchHome, page: &Page) -> Result<Row, String> {
    stage.ok(&["start", "c/ten*"])?;
    let terminal = Terminal::start(stage, "top 'c/ten*'")?;
    terminal.until("ten_m-")?;
    let query = "sel=c/ten*&count=50";
    let head = format!("GET /live?{query} HTTP/1.1\r\nAccept-Encoding: gzip");
    let mut stream = page.send(&head, "")?;
    thread::sleep(Duration::from_secs(5));
    let bytes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&bytes);
    thread::spawn(move || {
        let mut piece = [0; 1 << 14];
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            counted.fetch_add(count, Ordering::Relaxed);
        }
    });
    terminal.rest(Duration::ZERO);
    let before = bytes.load(Ordering::Relaxed);
    thread::sleep(REST);
    let shown: usize = terminal.output.try_iter().map(|piece| piece.len()).sum();
    let sent = bytes.load(Ordering::Relaxed) - before;
    let kib = |bytes: usize| bytes as f64 / REST.as_secs_f64() / 1024.0;
    Ok(Row {
        what: "ten followed runs that print once a second",
        ours: format!(
            "`top` {:.1} kB/s; the page's stream {:.1} kB/s",
            kib(shown),
            kib(sent)
        ),
        beside: "-".to_owned(),
        goal: "4 kB/s",
    })
}

/// What ten views together take while a run reports ten times a second, and while nothing changes.
fn many_views(stage: &BenchHome, page: &Page, daemon: i32) -> Result<Row, String> {
    let mut terminals = Vec::new();
    for _ in 0..5 {
        terminals.push(Terminal::start(stage, "top")?);
    }
    let streams: Result<Vec<_>, _> = (0..5)
        .map(|at| page.live(&format!("count=50&offset={at}")))
        .collect();
    for stream in streams? {
        thread::spawn(move || stream.lines().map_while(Result::ok).count());
    }
    let mut all = vec![
        daemon,
        i32::try_from(page.child.id()).map_err(|error| error.to_string())?,
    ];
    for terminal in &terminals {
        terminal.until("t_i-")?;
        all.push(i32::try_from(terminal.view()?).map_err(|error| error.to_string())?);
    }
    let cpu = || all.iter().map(|pid| cpu_seconds(*pid)).sum::<f64>();
    let wakes = || {
        all[1..]
            .iter()
            .filter_map(|pid| switches(*pid))
            .sum::<f64>()
    };
    stage.ok(&["restart", "c/clock"])?;
    let before = cpu();
    thread::sleep(REST);
    let busy = (cpu() - before) / REST.as_secs_f64();
    stage.ok(&["wait", "c/clock"])?;
    stage.ok(&["abort", "c/live*", "--yes"])?;
    // It ends with 1, since those runs were aborted.
    let waited = stage.command(&["wait", "c/live*"]).output();
    waited.map_err(|error| error.to_string())?;
    // This measures rest, so what the ends changed must have been shown.
    thread::sleep(Duration::from_secs(20));
    let (before, woken) = (cpu(), wakes());
    thread::sleep(REST);
    let seconds = REST.as_secs_f64();
    Ok(Row {
        what: "ten views of 100 000 experiments",
        ours: format!(
            "{:.0} % of a core with 101 runs live; at rest {:.1} %, {:.1} wake-ups/s of the ten",
            busy * 100.0,
            (cpu() - before) / seconds * 100.0,
            (wakes() - woken) / seconds
        ),
        beside: "-".to_owned(),
        goal: "10 % of a core, none at rest",
    })
}

fn written(pid: u32) -> Result<f64, String> {
    let pid = i32::try_from(pid).map_err(|error| error.to_string())?;
    written_kib(pid).ok_or_else(|| "the view has ended".to_owned())
}
