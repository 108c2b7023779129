//! The order in which the daemon starts and stops.

use std::fs::{File, OpenOptions};
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use nero_model::{Holder, Home, paths};
use nero_wire::v1::man_server::ManServer;
use rustix::fs::{FlockOperation, flock};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tonic::transport::Server;

use crate::cells::{self, Books, Desk};
use crate::door::Door;
use crate::error::DaemonError;
use crate::log;
use crate::mail::{self, MailDesk};
use crate::processing::{self, Modules};
use crate::service::{CurveCache, Man, WalkRest};
use nero_home::clock::Clock;
use nero_home::keep::{Databases, LoadError};
use nero_home::ledger::{Ledger, LedgerThread, Listener};
use nero_home::upkeep;
use nero_life::state::State;
use nero_link::config_file::{ConfigFile, STAMP_AGE_MAX};
use nero_link::node::{Inboxes, Nodes, Settings, Setup};
use nero_link::outside::{Agents, Freezer, NodeAccess};

/// A connection without work is closed after this long.
const NODE_IDLE: Duration = Duration::from_secs(300);
/// After this long out of reach a node loses the runs that it never got.
const NODE_AWAY: Duration = Duration::from_secs(30);
/// How long calls in flight may take once the daemon is to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// Calls of one connection at a time; more wait.
const CALLS_MAX: usize = 64;
/// Limit of a client's message: a selector of thousands of ids and an
/// environment fit many times.
const REQUEST_BYTES_MAX: usize = nero_model::MESSAGE_BYTES_MAX;
/// Limit of a reply: a list of 100 000 experiments fits.
const ANSWER_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Why a daemon ended.
#[derive(Debug)]
pub enum ServeOutcome {
    /// It was told to stop.
    Stopped,
    /// Another daemon of this home has the lock: this one did nothing. Contains
    /// that daemon, if it recorded itself.
    Held(Option<Holder>),
}

/// Runs the daemon of this home until it is told to stop. Returns at once if
/// another one runs.
///
/// # Errors
/// When it cannot start, or a part of it failed; everything accepted before is
/// in the database.
pub fn run(home: Home) -> Result<ServeOutcome, DaemonError> {
    let home = &home;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    prepare(home)?;
    let Some(lock) = lock(&home.daemon_lock())? else {
        return Ok(ServeOutcome::Held(Holder::read(&home.daemon_lock())));
    };
    log::begin(&home.daemon_log()).map_err(io_error("open", &home.daemon_log()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(DaemonError::Runtime)?;
    // Two handles of one lock: the other is closed when serving ends, this one
    // last.
    let twin = lock.try_clone();
    let twin = twin.map_err(io_error("use", &home.daemon_lock()))?;
    let outcome = runtime.block_on(serve(home, twin));
    if let Err(error) = &outcome {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::error!(%error, cause = cause.unwrap_or_default(), "daemon failed");
    }
    // Tasks that still read files may be left behind: they write nothing.
    runtime.shutdown_timeout(Duration::from_millis(200));
    drop(lock);
    outcome.map(|()| ServeOutcome::Stopped)
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DaemonError {
    let path = path.to_path_buf();
    move |source| DaemonError::Io { what, path, source }
}

fn prepare(home: &Home) -> Result<(), DaemonError> {
    for folder in [&home.data, &home.state, &home.store()] {
        paths::make_private(folder).map_err(io_error("make", folder))?;
    }
    Ok(())
}

/// Takes the lock of the one daemon; `None` if another daemon has it.
fn lock(path: &Path) -> Result<Option<File>, DaemonError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(io_error("open", path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(io_error("lock", path)(error.into())),
    }
}

/// The running parts, and how they are told to stop.
struct RunningDaemon {
    man: Man,
    thread: LedgerThread,
    nodes: JoinHandle<()>,
    parts: Vec<BackgroundTask>,
    /// Set to true when the daemon is leaving.
    leave: watch::Sender<bool>,
}

/// A task that may be ended at any time, with its name.
type BackgroundTask = (&'static str, JoinHandle<()>);

async fn serve(home: &Home, lock: File) -> Result<(), DaemonError> {
    let mut signals = Signals::new().map_err(DaemonError::Runtime)?;
    let mut running = start(home)?;
    let (incoming, mut door) = Door::open(home, lock)?;
    let man = running.man;
    let (asked, ledger) = (Arc::clone(&man.stop), man.ledger.clone());
    let service = ManServer::new(man)
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(ANSWER_BYTES_MAX);
    let mut leaving = running.leave.subscribe();
    let server = Server::builder()
        .concurrency_limit_per_connection(CALLS_MAX)
        .http2_keepalive_interval(Some(Duration::from_secs(60)))
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, async move {
            // The sender lives in this function, which awaits the server.
            let _ = leaving.wait_for(|stop| *stop).await;
        });
    #[expect(clippy::disallowed_methods, reason = "the loop below awaits it")]
    let mut server = tokio::spawn(server);
    let ledger_gone = ledger.ended();
    tokio::pin!(ledger_gone);
    tracing::info!(version = nero_model::VERSION, "daemon ready");
    let failed = loop {
        tokio::select! {
            biased;
            said = signals.next() => match said {
                SignalRequest::Leave => break None,
                SignalRequest::LookForSocket => door.open_again(),
            },
            () = asked.notified() => break None,
            _ = &mut running.nodes => break Some("node drivers"),
            part = first_end(&mut running.parts) => break Some(part),
            _ = &mut server => break Some("server"),
            () = &mut ledger_gone => break Some("ledger"),
        }
    };
    tracing::info!(failed, "daemon stops");
    // A second signal stops the daemon at once: accepted requests are in the
    // database.
    let orderly = async {
        running.leave.send_replace(true);
        for (_, task) in &running.parts {
            task.abort();
        }
        if failed != Some("server") {
            let _ = tokio::time::timeout(STOP_PATIENCE, &mut server).await;
        }
        if failed != Some("node drivers") {
            let _ = tokio::time::timeout(STOP_PATIENCE, &mut running.nodes).await;
        }
        ledger.stop().await;
    };
    tokio::select! {
        () = orderly => {
            // The last commit; it is short, and no other work is left.
            if running.thread.join().is_err() {
                tracing::error!("the ledger panicked");
            }
        }
        () = signals.leave() => tracing::warn!("leaving at once"),
    }
    door.close();
    tracing::info!("daemon ended");
    match failed {
        None => Ok(()),
        Some(part) => Err(DaemonError::Ended { part }),
    }
}

/// Waits until one of the parts ends; its name.
async fn first_end(parts: &mut [BackgroundTask]) -> &'static str {
    poll_fn(|context| {
        let mut parts = parts.iter_mut();
        let ended = parts.find_map(|(name, task)| {
            let is_ended = Pin::new(task).poll(context).is_ready();
            is_ended.then_some(*name)
        });
        ended.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

fn start(home: &Home) -> Result<RunningDaemon, DaemonError> {
    let clock = Clock::system();
    let (keep, state) = open_databases(home, clock)?;
    let (deployment, tenure, check_owed) = (keep.deployment(), keep.tenure(), keep.check_owed());
    let inboxes = Arc::new(Inboxes::default());
    let rung = Arc::clone(&inboxes);
    let listener: Listener = Arc::new(move |state, rings| rung.ring(state, rings));
    let config = Arc::new(ConfigFile::new(home.config.clone(), STAMP_AGE_MAX));
    let wanted = mail::watching(Arc::clone(&config));
    let (ledger, thread) =
        Ledger::start(keep, state, clock, listener, wanted).map_err(DaemonError::Runtime)?;
    let (leave, stop) = watch::channel(false);
    // A folder that cannot be used is reported when a node is to be reached.
    let usable = |folder: &PathBuf| paths::make_socket_folder(folder).is_ok();
    let sockets = home.socket_folders().into_iter().find(usable);
    let sockets = sockets.unwrap_or_else(|| home.sockets.clone());
    let agents = Agents::new(&sockets.join("ssh"), deployment, tenure);
    let (nodes, driving) = Nodes::new(Setup {
        config,
        contacts: home.contacts(),
        settings: node_settings(home, clock),
        ledger: ledger.clone(),
        inboxes,
        ways: Arc::new(NodeAccess {
            home: home.clone(),
            deployment,
            agents: agents.clone(),
        }),
        stop: stop.clone(),
    });
    if let Ok(config) = nodes.config() {
        agents.end_strangers(&config);
    }
    // Held from now on: an upgrade may replace it.
    if let Err(error) = nero_child::Office::own() {
        tracing::warn!(%error, "tables are not read, workbooks and pictures not made");
    }
    processing::remove_calls(home);
    let man = Man {
        walks: WalkRest::default(),
        curves: CurveCache::default(),
        rows: Arc::default(),
        nodes,
        agents,
        books: Books::default(),
        home: home.clone(),
        deployment,
        started_ms: clock.now_ms(),
        clock,
        freezer: Freezer::new(home),
        modules: Modules {
            ledger: ledger.clone(),
            home: home.clone(),
            turn: Arc::default(),
        },
        ledger,
        stop: Arc::new(Notify::new()),
        leaving: stop,
    };
    #[expect(clippy::disallowed_methods, reason = "`RunningDaemon` is awaited")]
    let nodes = tokio::spawn(driving.run());
    Ok(RunningDaemon {
        parts: start_parts(&man, check_owed),
        man,
        thread,
        nodes,
        leave,
    })
}

/// Opens the databases, and takes over what a restore left.
fn open_databases(home: &Home, clock: Clock) -> Result<(Databases, State), DaemonError> {
    // A database of this daemon would end a restore that can still be begun again.
    if home.restoring().exists() && !home.state_db().exists() {
        return Err(DaemonError::HalfRestored {
            path: home.data.clone(),
        });
    }
    if let Some(doubt) = nero_store::doubt(&home.data) {
        tracing::warn!("{doubt}");
    }
    let (mut keep, state) =
        Databases::open(home, clock.now_ms()).map_err(|source: LoadError| DaemonError::Stored {
            path: home.data.clone(),
            hint: source.hint(),
            source: Box::new(source),
        })?;
    let state = nero_home::restore::begin(home, &mut keep, state)
        .map_err(io_error("take", &home.restored()))?;
    Ok((keep, state))
}

/// What the drivers of all nodes have in common.
fn node_settings(home: &Home, clock: Clock) -> Settings {
    Settings {
        name: String::new(),
        remote: false,
        turns: Arc::default(),
        asks: watch::channel(nero_format::SchedulerOptions::default()).1,
        away: NODE_AWAY,
        store: home.store(),
        results: nero_link::results::Places::of(home),
        idle: NODE_IDLE,
        clock,
    }
}

#[expect(clippy::disallowed_methods, reason = "`RunningDaemon` is awaited")]
fn start_parts(man: &Man, check_owed: bool) -> Vec<BackgroundTask> {
    let (home, ledger, clock) = (&man.home, &man.ledger, man.clock);
    let cells = cells::run(Desk {
        home: home.clone(),
        ledger: ledger.clone(),
        nodes: man.nodes.clone(),
        clock,
        books: man.books.clone(),
    });
    let mail = mail::run(MailDesk {
        home: home.clone(),
        ledger: ledger.clone(),
        nodes: man.nodes.clone(),
        clock,
        deployment: man.deployment,
    });
    let upkeep = upkeep::run(home.clone(), clock, ledger.clone(), check_owed);
    let cohorts = crate::cohorts::run(ledger.clone(), home.clone(), clock);
    vec![
        ("upkeep", tokio::spawn(upkeep)),
        // A write that began comes to its end in its own process.
        ("results in tables", tokio::spawn(cells)),
        // What is being sent is sent once more by the next daemon.
        ("mail", tokio::spawn(mail)),
        // What was being made is made by the next daemon.
        (
            "processors of outputs",
            tokio::spawn(processing::run(man.modules.clone())),
        ),
        // The next daemon folds them anew.
        ("cohorts", tokio::spawn(cohorts)),
        // A node removes what it was asked for, or is asked again.
        (
            "folders that are not kept",
            tokio::spawn(man.clone().remove_not_kept()),
        ),
        // Their supervisors go on, and the next daemon waits for them.
        (
            "commands of rules and steps",
            tokio::spawn(crate::acts::run(man.clone())),
        ),
    ]
}

/// The signals that the daemon handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// The request of a signal.
enum SignalRequest {
    Leave,
    /// A client misses the socket. The end of a terminal sends the same signal,
    /// and the socket is then found in place.
    LookForSocket,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.terminate.recv() => SignalRequest::Leave,
            _ = self.interrupt.recv() => SignalRequest::Leave,
            _ = self.hangup.recv() => SignalRequest::LookForSocket,
        }
    }

    async fn leave(&mut self) {
        while !matches!(self.next().await, SignalRequest::Leave) {}
    }
}
