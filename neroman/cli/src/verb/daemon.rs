//! `daemon run|start|stop|status|logs|unit`: the process that does the work.

use std::time::{Duration, Instant};

use nero_model::process::{Life, ProcessHandle, ProcessId};
use nero_model::safe::Safe;
use nero_model::{Holder, Home};
use nero_views::{json, object, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{DaemonStatusReply, DaemonStatusRequest, DaemonStopRequest, Selection};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::args::Daemon;
use crate::connect::{READ_DEADLINE, last_lines, lock};
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, home, selection};

/// How long a daemon may take to leave.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

pub async fn run(session: &mut Session, args: &Daemon) -> Result<u8, Stop> {
    match args {
        Daemon::Run { .. } => Err(Fault::usage("`daemon run` stands alone on its line").into()),
        Daemon::Start(_) => start(session).await,
        Daemon::Stop(_) => stop(session).await,
        Daemon::Status(_) => status(session).await,
        Daemon::Logs { lines } => logs(session, *lines),
        Daemon::Unit => unit(session),
    }
}

/// The unit, as the package of Debian has it.
const UNIT: &str = include_str!("../../../../deploy/neronet.service");

/// Prints the unit with the path of this program, and of its home where that is not the usual one.
fn unit(session: &Session) -> Result<u8, Stop> {
    let program = std::env::current_exe()
        .map_err(|error| Fault::failed("cannot find this program").because(&error))?;
    // A link on the PATH stays when an upgrade brings another program.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let links = std::env::split_paths(&path).map(|folder| folder.join("neroman"));
    let mut links = links.filter(|link| link.is_absolute());
    let link = links.find(|link| link.canonicalize().is_ok_and(|found| found == program));
    let program = link.unwrap_or(program);
    let program = program.to_string_lossy();
    if program.contains(['"', '\'', '\\']) {
        return Err(Fault::failed(format!(
            "systemd executes no program of this name: {program}"
        ))
        .hint("install it where no folder has a quote in its name: --prefix DIR")
        .into());
    }
    let mut unit = UNIT.replace("@NEROMAN@", &quoted(&program));
    // An empty value is none, as for the daemon itself.
    let own = std::env::var("NERONET_HOME").unwrap_or_default();
    if !own.is_empty() {
        let variable = format!("NERONET_HOME={own}");
        let line = format!("[Service]\nEnvironment={}", quoted(&variable));
        unit = unit.replace("[Service]", &line);
    }
    session.out.text(&unit)?;
    Ok(code::OK)
}

/// A word of a unit: systemd reads quotes, escapes and specifiers in it.
fn quoted(word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", word.replace('%', "%%").replace('$', "$$"))
}

/// How a daemon came to its end.
#[derive(Debug)]
pub enum ServeOutcome {
    /// It was told to stop.
    Stopped,
    /// Another daemon of this home has the lock. Which one, where it wrote that
    /// down.
    Held(Option<Holder>),
}

/// Why a daemon cannot start or go on.
#[derive(Debug)]
pub struct ServeError {
    /// What failed.
    pub error: Box<dyn std::error::Error>,
    /// What a person can do about it.
    pub hint: Option<String>,
}

/// Runs the daemon of a home in this process, until it is told to stop.
pub type ServeFunction = fn(Home) -> Result<ServeOutcome, ServeError>;

/// `daemon run`.
pub fn serve(own_session: bool, daemon: ServeFunction) -> Result<u8, Fault> {
    let home = home()?;
    if own_session {
        // Fails only for the leader of a group, which has a session already.
        let _ = rustix::process::setsid();
    }
    let served = daemon(home).map_err(|ServeError { error, hint }| {
        Fault::failed("the daemon cannot go on")
            .because(&*error)
            .maybe_hint(hint)
    })?;
    match served {
        // The client that started this process finds the other daemon by
        // itself.
        ServeOutcome::Held(holder) if !own_session => {
            let who = match holder {
                Some(holder) => format!(
                    "process {} on {}, which answers at {}",
                    holder.process.pid,
                    holder.host,
                    holder.socket.display()
                ),
                None => "a daemon of an earlier version".to_owned(),
            };
            eprintln!("the daemon runs already: {}", Safe::line(&who));
        }
        ServeOutcome::Held(_) | ServeOutcome::Stopped => {}
    }
    Ok(code::OK)
}

async fn start(session: &mut Session) -> Result<u8, Stop> {
    let pid = session.client().await?.hello().pid;
    let fields = || json!({"running": true, "pid": pid});
    let text = || format!("running, process {pid}\n");
    session.out.reply(&[], fields, text)?;
    Ok(code::OK)
}

/// Asks the daemon to leave and returns when its process is gone.
async fn stop(session: &mut Session) -> Result<u8, Stop> {
    let home = home()?;
    let Some(pid) = session.running().await?.map(|client| client.hello().pid) else {
        say_stopped(session, None)?;
        return Ok(code::OK);
    };
    // The lock keeps other clients from starting a new daemon while the old one
    // leaves.
    let _lock = lock(&home.start_lock()).await?;
    let process = ProcessId::of(pid).ok();
    if let Some(client) = session.running().await? {
        client
            .once(DaemonStopRequest {}, ManClient::daemon_stop)
            .await?;
    }
    session.hang_up();
    if let Some(process) = process {
        let gone = tokio::task::spawn_blocking(move || is_gone(&process));
        match gone.await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => {
                let after = STOP_DEADLINE.as_secs();
                let what = format!(
                    "the daemon (process {pid}) was told to leave and has not after {after} s"
                );
                let hint = "`neroman daemon logs` shows what it does";
                return Err(Fault::no_daemon(what).hint(hint).into());
            }
            Ok(Err(error)) => return Err(unseen(&error).into()),
            Err(error) => return Err(unseen(&error).into()),
        }
    }
    say_stopped(session, Some(pid))?;
    Ok(code::OK)
}

fn unseen(error: &dyn std::error::Error) -> Fault {
    Fault::no_daemon("cannot see the daemon leave").because(error)
}

/// Waits for the end of a process; false: it has not ended in time.
fn is_gone(process: &ProcessId) -> rustix::io::Result<bool> {
    let Some(handle) = ProcessHandle::open(process) else {
        return Ok(true);
    };
    let Some(descriptor) = handle.descriptor() else {
        // Before Linux 5.3 nothing tells of the end of a process that is no child.
        let until = Instant::now() + STOP_DEADLINE;
        while matches!(process.life(), Ok(Life::Alive)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        return Ok(!matches!(process.life(), Ok(Life::Alive)));
    };
    let deadline = Timespec {
        tv_sec: i64::try_from(STOP_DEADLINE.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: 0,
    };
    let mut wanted = [PollFd::new(&descriptor, PollFlags::IN)];
    loop {
        match poll(&mut wanted, Some(&deadline)) {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map(|ready| ready > 0),
        }
    }
}

fn say_stopped(session: &Session, pid: Option<i32>) -> Result<(), Stop> {
    let fields = || json!({"running": false, "stopped_pid": pid});
    let text = pid.map_or("was not running\n", |_| "stopped; jobs go on\n");
    session.out.reply(&[], fields, || text.to_owned())
}

/// Shows the daemon without starting one. Exit code 3 when none runs.
async fn status(session: &mut Session) -> Result<u8, Stop> {
    let Some(client) = session.running().await? else {
        let fields = || json!({"running": false});
        session.out.reply(&[], fields, || "not running\n".into())?;
        return Ok(code::NO_DAEMON);
    };
    let Selection {
        zone, utc_offset_s, ..
    } = selection(&[]);
    let asked = DaemonStatusRequest { zone, utc_offset_s };
    let reply = client
        .call(READ_DEADLINE, asked, ManClient::daemon_status)
        .await?;
    let fields = || as_json(&reply);
    session
        .out
        .reply(&reply.notes, fields, || as_text(&reply))?;
    Ok(code::OK)
}

fn logs(session: &Session, lines: usize) -> Result<u8, Stop> {
    let path = home()?.daemon_log();
    let tail = last_lines(&path, 0, lines)
        .map_err(|error| Fault::cannot("read", &path).because(&error))?;
    session.out.raw(&tail)?;
    Ok(code::OK)
}

/// The lines for eyes.
pub fn as_text(reply: &DaemonStatusReply) -> String {
    let hello = reply.hello.clone().unwrap_or_default();
    let connected = reply.nodes.iter().filter(|node| node.connected).count();
    let since = text::local_time(reply.started_ms);
    let experiments = text::plural(reply.experiments, "experiment") + &hidden(reply);
    let (runs, live, nodes) = (
        text::plural(reply.runs, "run"),
        reply.live,
        reply.nodes.len(),
    );
    let process = format!(
        "process {}, version {}, since {since}",
        hello.pid, hello.build
    );
    let rows = [
        ("running", process),
        ("has", format!("{experiments}, {runs}, {live} live")),
        ("nodes", format!("{connected} of {nodes} connected")),
        ("home", reply.home.clone()),
        ("socket", reply.socket.clone()),
        ("database", reply.database.clone()),
        ("log", reply.log.clone()),
    ];
    rows.iter()
        .map(|(name, value)| format!("{name:<10}{}\n", Safe::line(value)))
        .collect()
}

/// The experiments that `status` leaves out: ` (5 gone, 40 removed)`.
fn hidden(reply: &DaemonStatusReply) -> String {
    match (reply.gone, reply.removed) {
        (0, 0) => String::new(),
        (gone, 0) => format!(" ({gone} gone)"),
        (0, removed) => format!(" ({removed} removed)"),
        (gone, removed) => format!(" ({gone} gone, {removed} removed)"),
    }
}

fn as_json(reply: &DaemonStatusReply) -> serde_json::Value {
    let hello = reply.hello.clone().unwrap_or_default();
    object!(reply =>
        running: true, pid: hello.pid, build: hello.build, protocol_lowest: hello.protocol_lowest,
        protocol_highest: hello.protocol_highest,
        deployment: nero_model::DeploymentId::from_slice(&hello.deployment).map(|id| id.to_string()),
        started_at: text::iso_time(reply.started_ms),
        home, socket, database, log, experiments, gone, removed, runs, live,
        nodes: reply.nodes.iter().map(json::node).collect::<Vec<_>>(),
        notes,
    )
}
