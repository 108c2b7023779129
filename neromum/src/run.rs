//! The order in which neromum starts and stops.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use nero_cluster::submission::{Files, PlanError};
use nero_model::paths::{NodePaths, make_private, make_socket_folder};
use nero_node::agent::{Agent, AgentHandle, Bare, Driver, End, Placer, Setup};
use nero_node::cards::Cards;
use nero_node::launch::bare::Launcher;
use nero_node::launch::orders::{Orders, Watcher};
use nero_node::lease::{self, HeldEpoch};
use nero_node::ledger::{Intent, Ledger, LedgerState};
use nero_node::staging::environment::Base;
use nero_node::staging::store::Store;
use nero_node::{config, watch};
use nero_node_core::capacity::Capacity;
use nero_warden::Kind;
use nero_wire::hello;
use nero_wire::listen::{OwnerOnly, Rebind};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::args::Options;
use crate::cluster::{Cluster, Scheduler};
use crate::log::Log;
use crate::relay::addresses::Listen;
use crate::relay::door::Keeper;
use crate::service::{Service, ServiceSetup};
use crate::warden::front::Front;
use crate::{build_id, lead, purge};

/// neromum's socket, in [`NodePaths::sockets`].
pub const SOCKET: &str = "mum.sock";

/// Reason why neromum ended other than in order.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file or folder of its own cannot be made or read.
    #[error("cannot use {what}")]
    Io {
        /// The file or folder.
        what: String,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] nero_node::ledger::LedgerError),
    /// No lease can be made where several hosts share the root.
    #[error(transparent)]
    Lease(#[from] lead::BeginError),
    /// There is no authority by which to recognise other hosts' neromums.
    #[error("other hosts cannot be let in")]
    Authority(#[from] crate::relay::authority::AuthorityError),
    /// Runs are at a scheduler, and this neromum was given none. It would take them for
    /// runs that wait here, and start them beside their jobs.
    #[error(
        "{runs} runs of this node may be in the queue of its scheduler: set `warden:` of the node back until they have ended"
    )]
    NoScheduler {
        /// Number of runs in submissions that are not over.
        runs: usize,
    },
    /// The plan of a submission that is not over. Without it the runs would be
    /// submitted a second time.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Another neromum of this node uses the other kind of leadership.
    #[error(
        "a neromum that {how} serves this node; it leaves when nothing is left to do, or when it is told to stop"
    )]
    LedOtherwise {
        /// The other way.
        how: &'static str,
    },
    /// The disk refused a record that must be durable.
    #[error("the ledger cannot be written any more")]
    Broken(#[source] io::Error),
}

/// Names the file or folder that cannot be used.
pub fn at(what: &Path) -> impl FnOnce(io::Error) -> RunError {
    let what = what.display().to_string();
    move |source| RunError::Io { what, source }
}

/// Serves until there is nothing to do, or a signal asks to stop.
///
/// # Errors
/// See [`RunError`]; it is no error when another neromum serves there.
pub fn serve(options: &Options) -> Result<(), RunError> {
    if options.own_session {
        // Fails only for a group leader, which already has a session or a
        // shell.
        let _ = rustix::process::setsid();
    }
    let paths = NodePaths::new(&options.root, &options.deployment, &options.node);
    make_private(&paths.mum()).map_err(at(&paths.mum()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .thread_keep_alive(std::time::Duration::from_secs(2))
        .build()
        .map_err(at(Path::new("the runtime")))?;
    let by_lease = options.by_lease(&paths).map_err(at(paths.root()))?;
    let served = runtime.block_on(async {
        if by_lease {
            serve_by_lease(options, paths).await
        } else {
            serve_by_lock(options, paths).await
        }
    });
    // A copy of a tree that is still under way is not waited for: the next
    // start builds it anew.
    runtime.shutdown_background();
    served
}

/// The right to be the only neromum of its node.
struct Seat {
    /// Socket at which it answers.
    socket: PathBuf,
    /// Its epoch; `None` with a file lock.
    held: Option<Arc<HeldEpoch>>,
    /// The file lock; `None` with an epoch.
    lock: Option<Arc<File>>,
    /// The signal after the socket's file was removed.
    hangup: Option<Signal>,
}

async fn serve_by_lock(options: &Options, paths: NodePaths) -> Result<(), RunError> {
    let Some(lock) = lock(&lock_file(&paths))? else {
        return Ok(());
    };
    if lease::leads_here(&paths) {
        return Err(RunError::LedOtherwise {
            how: "holds a lease",
        });
    }
    let lock = Arc::new(lock);
    begin_log(&paths)?;
    // Once caught, the signal is never fatal again: the end of a terminal or
    // connection must not end neromum.
    drop(signal(SignalKind::hangup()).map_err(at(Path::new("signals")))?);
    let sockets = paths.sockets();
    make_socket_folder(&sockets).map_err(at(&sockets))?;
    let seat = Seat {
        socket: sockets.join(SOCKET),
        held: None,
        lock: Some(lock.clone()),
        hangup: None,
    };
    let served = serve_from(options, paths, seat).await;
    // Released last: the next neromum may bind the socket from here on.
    drop(lock);
    served
}

async fn serve_by_lease(options: &Options, paths: NodePaths) -> Result<(), RunError> {
    // Before another process can learn from a lease which process to signal.
    let hangup = signal(SignalKind::hangup()).map_err(at(Path::new("signals")))?;
    if is_led_by_lock(&paths) {
        return Err(RunError::LedOtherwise {
            how: "holds a file lock",
        });
    }
    let build = Programs::beside_own()?.build;
    let Some(begun) = lead::begin::begin(&paths, &options.terms, SOCKET, &build).await? else {
        return Ok(());
    };
    let held = Arc::new(begun.held);
    let keeper = Keeper::new(
        paths.authority(),
        options.deployment,
        &options.node,
        held.epoch(),
        &begun.socket,
    );
    let seat = Seat {
        socket: begun.socket,
        held: Some(held.clone()),
        lock: None,
        hangup: Some(hangup),
    };
    let served = async {
        begin_log(&paths)?;
        let relay = begun.door.addresses();
        tracing::info!(epoch = held.epoch(), why = begun.why, ?relay, "leads");
        let mut serving = begun.door.serve(keeper)?;
        let served = tokio::select! {
            served = serve_from(options, paths, seat) => served,
            never = serving.watch() => match never {},
        };
        serving.close().await;
        served
    };
    let served = served.await;
    held.leave();
    served
}

/// Refuses to lead without a scheduler while runs are at one.
fn has_their_scheduler(kind: Kind, submissions: &[Intent]) -> Result<(), RunError> {
    match (kind, submissions.iter().map(|one| one.tokens.len()).sum()) {
        (Kind::None, runs @ 1..) => Err(RunError::NoScheduler { runs }),
        (Kind::None | Kind::Slurm | Kind::Oge | Kind::Generic, _) => Ok(()),
    }
}

async fn serve_from(options: &Options, paths: NodePaths, seat: Seat) -> Result<(), RunError> {
    let programs = Programs::beside_own()?;
    tracing::info!(build = programs.build, pid = std::process::id(), "starting");
    // A lease does not prove that its process is dead; it may be frozen.
    let alone = seat.held.is_none();
    let (ledger, state) = Ledger::open(&paths.mum().join("ledger"), options.deployment, alone)?;
    purge::withdraw(&paths);
    let identity = ledger.identity();
    has_their_scheduler(options.warden.kind, &state.submissions)?;
    for intent in &state.submissions {
        let files = Files::at(&paths.submission(&intent.submission));
        if !matches!(files.folder().try_exists(), Ok(false)) {
            files.read_plan()?;
        }
    }
    // All of the machine, unless less is configured: runs hold what they ask
    // for.
    let memory = options.memory.or_else(crate::service::memory_bytes);
    let capacity = match options.warden.kind {
        Kind::None => Capacity::new(options.cpus.unwrap_or_else(crate::service::cpus), memory),
        // Its scheduler says what runs get; this host gives them nothing.
        Kind::Slurm | Kind::Oge | Kind::Generic => Capacity::UNBOUNDED,
    };
    for error in &state.damaged {
        let (path, why) = error.file();
        tracing::error!(path = %path.display(), why, "a part of the ledger cannot be used: run folders tell the rest");
    }
    let mut setup = setup(options, &paths, &programs, &seat)?;
    setup.orders.store.sweep();
    let front = Front::new(&options.warden, setup.orders.base.clone()).map(Arc::new);
    let scheduler = front.clone().map(|front| Scheduler {
        front,
        node: options.node.clone(),
        program: programs.own.clone(),
    });
    // This host's ledger does not show which other hosts started runs.
    setup.first_since_boot =
        alone && state.damaged.is_empty() && !state.boot_ids.contains(&setup.boot_id);
    if options.warden.kind == Kind::None {
        let cards = Cards::new(&programs.watcher, options.gpus.clone(), setup.boot_id);
        setup.cards = Some(Arc::new(cards));
    }
    let (orders, boot_id, cards) = (setup.orders.clone(), setup.boot_id, setup.cards.clone());
    let (agent, handle) = match scheduler {
        Some(scheduler) => begin(setup, Cluster::new(scheduler), capacity, ledger, state),
        None => begin(setup, Bare, capacity, ledger, state),
    };
    // Bound only now, so that the first connection already finds the complete
    // state.
    let socket = seat.socket.clone();
    let lock_file = lock_file(&paths);
    let own_paths = paths.clone();
    let (listener, rebind) = OwnerOnly::bind_again(&socket).map_err(at(&socket))?;
    let placer = Placer {
        paths,
        deployment: options.deployment,
        capacity,
        base: orders.base,
        boot_id,
        warden: options.warden.warden(),
    };
    let mut more = options.warden.words();
    if options.terms.listen == Listen::Never {
        more.push("--listen never".to_owned());
    }
    if let Some(gpus) = options.gpus.text() {
        more.push(format!("--gpus {gpus}"));
    }
    let held = seat.held.clone();
    let service = Service::new(
        handle.clone(),
        placer,
        orders.store,
        ServiceSetup {
            build: programs.build,
            ledger: identity,
            gives: hello::gives(options.cpus, options.memory, options.min_free, &more),
            front,
            cards,
            nerokid: programs.watcher.clone(),
        },
        options.memory,
        held.clone(),
    );
    let bells = Bells::new(seat, rebind, lock_file)?;
    let end = serve_agent(agent, handle, service, listener, bells).await?;
    // While we lead, the path is ours.
    if held.is_none_or(|held| held.is_sure()) {
        let _ = std::fs::remove_file(&socket);
    }
    match end {
        End::Orderly => {
            tracing::info!("ended in order");
            purge::obey(&own_paths).map_err(at(own_paths.root()))
        }
        End::Broken(error) => Err(RunError::Broken(error)),
    }
}

/// Events beside those of the agent.
struct Bells {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
    held: Option<Arc<HeldEpoch>>,
    lock: Option<Arc<File>>,
    lock_file: PathBuf,
    rebind: Rebind,
    socket: PathBuf,
}

impl Bells {
    fn new(seat: Seat, rebind: Rebind, lock_file: PathBuf) -> Result<Self, RunError> {
        let signals = Path::new("signals");
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(at(signals))?,
            interrupt: signal(SignalKind::interrupt()).map_err(at(signals))?,
            hangup: seat.hangup,
            held: seat.held,
            lock: seat.lock,
            lock_file,
            rebind,
            socket: seat.socket,
        })
    }

    /// Returns when neromum is to stop; `told`: it was asked to before.
    async fn stop(&mut self, told: bool) {
        let lost = async {
            match &self.held {
                Some(held) if !told => held.lost().await,
                _ => std::future::pending().await,
            }
        };
        // A leader by lease notices that its epochs are gone instead.
        let root_gone = async {
            match &self.lock {
                Some(lock) if !told => watch::removed(lock, &self.lock_file).await,
                _ => std::future::pending().await,
            }
        };
        let hangups = async {
            let Some(hangup) = &mut self.hangup else {
                return std::future::pending().await;
            };
            while hangup.recv().await.is_some() {
                let folder = self.socket.parent().unwrap_or(Path::new("/"));
                let bound = make_socket_folder(folder).and_then(|()| self.rebind.rebind());
                match bound {
                    Ok(()) => tracing::info!("the socket was bound again"),
                    Err(error) => {
                        // The next neromum may find another place for it.
                        tracing::error!(%error, "the socket cannot be bound again: leaving");
                        return;
                    }
                }
            }
        };
        tokio::select! {
            () = lost => tracing::info!("does not lead any more"),
            () = root_gone => tracing::info!("the node's folder was deleted"),
            () = hangups => {}
            _ = self.terminate.recv() => tracing::info!("told to stop by a signal"),
            _ = self.interrupt.recv() => tracing::info!("told to stop by a signal"),
        }
    }
}

/// The agent at work, until its end.
type RunningAgent = Pin<Box<dyn Future<Output = End>>>;

/// The agent beside its driver, and its handle.
fn begin<D: Driver>(
    setup: Setup,
    driver: D,
    capacity: Capacity,
    ledger: Ledger,
    state: LedgerState,
) -> (RunningAgent, AgentHandle) {
    let (agent, handle, boxes) = Agent::new(setup, driver, capacity, ledger, state);
    let running = agent.run(handle.clone(), boxes);
    (Box::pin(async { running.await.0 }), handle)
}

/// Runs agent, service and signals side by side until the agent ends.
async fn serve_agent(
    mut agent: RunningAgent,
    handle: AgentHandle,
    service: Service,
    listener: OwnerOnly,
    mut bells: Bells,
) -> Result<End, RunError> {
    let (stop, stopped) = oneshot::channel::<()>();
    #[expect(clippy::disallowed_methods, reason = "the loop below awaits it")]
    let mut serving = tokio::spawn(service.serve(listener, async move {
        // A dropped sender stops it, too.
        let _ = stopped.await;
    }));
    let mut told = false;
    let end = loop {
        tokio::select! {
            end = &mut agent => break end,
            served = &mut serving => {
                tracing::error!(?served, "the socket is not served any more");
                let told = handle.stop();
                tokio::select! { end = &mut agent => break end, _ = told => {} }
                break agent.await;
            }
            () = bells.stop(told) => {}
        }
        if told {
            tracing::warn!("told to stop twice: leaving at once");
            return Ok(End::Orderly);
        }
        told = true;
        handle.stop_now();
    };
    // The agent has ended its followers; calls in flight get a moment.
    let _ = stop.send(());
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), serving).await;
    Ok(end)
}

/// The programs beside this one.
pub struct Programs {
    /// Name of the build.
    pub build: String,
    /// Launcher and shim.
    pub shim: PathBuf,
    /// The watcher.
    pub watcher: PathBuf,
    /// This program.
    pub own: PathBuf,
    /// Name of the launcher's build, of which a login node has one; empty in a task.
    launcher_build: String,
}

impl Programs {
    /// Finds them.
    ///
    /// # Errors
    /// When the path of this program cannot be read.
    pub fn beside_own() -> Result<Self, RunError> {
        let own = std::env::current_exe().map_err(at(Path::new("the path of this program")))?;
        let folder = own.parent().unwrap_or(Path::new("/")).to_path_buf();
        let shim = folder.join("nerokid-shim");
        Ok(Self {
            build: build_id::build(&own),
            // Without the shim nothing starts, and the node's hold shows the
            // reason.
            launcher_build: build_id::content(&shim).unwrap_or_else(|_| "none".to_owned()),
            watcher: folder.join("nerokid"),
            shim,
            own,
        })
    }

    /// The same without reading them, which takes longer than a short job: the folder of
    /// a build has its name.
    ///
    /// # Errors
    /// When the path of this program cannot be read.
    pub fn of_task() -> Result<Self, RunError> {
        let own = std::env::current_exe().map_err(at(Path::new("the path of this program")))?;
        let folder = own.parent().unwrap_or(Path::new("/"));
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            build: format!("{}+{name}", nero_model::VERSION),
            launcher_build: String::new(),
            watcher: folder.join("nerokid"),
            shim: folder.join("nerokid-shim"),
            own,
        })
    }
}

fn setup(
    options: &Options,
    paths: &NodePaths,
    programs: &Programs,
    seat: &Seat,
) -> Result<Setup, RunError> {
    let name = format!("launcher-{}.sock", programs.launcher_build);
    Ok(Setup {
        paths: paths.clone(),
        orders: Orders {
            paths: paths.clone(),
            store: Store::new(paths),
            base: Base::of_node(),
            watcher: Watcher {
                program: programs.watcher.clone(),
                socket: Some(seat.socket.clone()),
            },
        },
        boot_id: nero_model::process::boot_id().map_err(at(Path::new("/proc")))?,
        min_free: options.min_free,
        leave_after: options.leave_after,
        launcher: Launcher {
            socket: seat.socket.with_file_name(name),
            program: Some(programs.shim.clone()),
            log: paths.mum().join("launcher.log"),
            build: programs.build.clone(),
            in_allocation: false,
        },
        first_since_boot: false,
        lease: seat.held.clone(),
        cards: None,
    })
}

/// Number of tries to take the lock.
const LOCK_TRIES: u32 = 10;
/// Pause between two tries.
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

fn lock_file(paths: &NodePaths) -> PathBuf {
    paths.mum().join(config::LOCK)
}

/// Whether a neromum without leases leads.
pub fn is_led_by_lock(paths: &NodePaths) -> bool {
    let lock_file = lock_file(paths);
    // The lock is released at once.
    lock_file.exists() && matches!(lock(&lock_file), Ok(None))
}

/// Takes the lock that makes this the only neromum here; `None` when another
/// has it.
fn lock(path: &Path) -> Result<Option<File>, RunError> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(at(path))?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            // A process that a dead neromum was just starting may have the lock
            // until it executes its program.
            Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(std::fs::TryLockError::Error(error)) => return Err(at(path)(error)),
        }
    }
    Ok(None)
}

/// Opens the log.
fn begin_log(paths: &NodePaths) -> Result<(), RunError> {
    let path = paths.mum().join("log");
    log_into(&path).map_err(at(&path))
}

/// Logs into this file.
///
/// # Errors
/// When it cannot be opened.
pub fn log_into(path: &Path) -> io::Result<()> {
    let log = Log::open(path.to_path_buf(), config::LOG_BYTES_MAX)?;
    let logged = tracing_subscriber::fmt()
        .with_writer(std::sync::Mutex::new(log))
        .with_ansi(false)
        .with_target(false)
        .with_max_level(tracing::Level::INFO)
        // tracing would report a lack of room on standard error, which may be a
        // file on the same disk; there it would panic in the task that logs.
        .log_internal_errors(false)
        .try_init();
    if let Err(error) = logged {
        crate::say(&format!("no log: {error}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nero_model::{RunToken, SubmissionId};
    use nero_node::ledger::Answer;

    use super::*;

    #[test]
    fn runs_at_a_scheduler_keep_a_neromum_without_one_from_leading() {
        let open = [Intent {
            submission: SubmissionId::random(),
            tokens: vec![RunToken::random(), RunToken::random()],
            made_ms: 1,
            answer: Answer::Job(7),
        }];
        let refused = has_their_scheduler(Kind::None, &open).unwrap_err();
        assert!(refused.to_string().starts_with("2 runs of this node"));
        assert!(has_their_scheduler(Kind::Slurm, &open).is_ok());
        assert!(has_their_scheduler(Kind::None, &[]).is_ok());
    }
}
