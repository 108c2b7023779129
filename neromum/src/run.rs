//! The order in which neromum starts and stops.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nero_model::paths::{NodePaths, make_private};
use nero_wire::listen::OwnerOnly;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::agent::{Agent, AgentHandle, End, Mailboxes, Message, Placer, Setup};
use crate::args::Options;
use crate::core::capacity::Capacity;
use crate::ledger::Ledger;
use crate::service::Service;
use crate::staging::environment::Base;
use crate::staging::store::Store;
use crate::warden::bare::Launcher;
use crate::{build_id, config};

/// neromum's socket, in [`NodePaths::sockets`].
pub const SOCKET: &str = "mum.sock";

/// Why neromum ended other than in order.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Something of its own cannot be made or read.
    #[error("cannot use {what}")]
    Io {
        /// What.
        what: String,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] crate::ledger::LedgerError),
    /// The disk refused what must be durable.
    #[error("the ledger cannot be written any more")]
    Broken(#[source] io::Error),
}

fn at(what: &Path) -> impl FnOnce(io::Error) -> RunError {
    let what = what.display().to_string();
    move |source| RunError::Io { what, source }
}

/// Serves until there is nothing to do, or somebody says stop.
///
/// # Errors
/// See [`RunError`]; when another one serves there, that is no error.
pub fn serve(options: &Options) -> Result<(), RunError> {
    if options.own_session {
        // Fails only for a leader of a group, which has what it needs.
        let _ = rustix::process::setsid();
    }
    let paths = NodePaths::new(&options.root, &options.deployment, &options.node);
    make_private(&paths.mum()).map_err(at(&paths.mum()))?;
    let Some(_lock) = lock(&paths.mum().join("lock"))? else {
        return Ok(());
    };
    begin_log(&paths)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .thread_keep_alive(std::time::Duration::from_secs(2))
        .build()
        .map_err(at(Path::new("the runtime")))?;
    let served = runtime.block_on(serve_locked(options, paths));
    // Whatever still copies a tree for a run is not waited for: the next start
    // builds it anew.
    runtime.shutdown_background();
    served
}

async fn serve_locked(options: &Options, paths: NodePaths) -> Result<(), RunError> {
    let sockets = paths.sockets();
    make_private(&sockets).map_err(at(&sockets))?;
    let socket = sockets.join(SOCKET);
    let programs = Programs::beside_own()?;
    tracing::info!(build = programs.build, pid = std::process::id(), "starting");
    let (ledger, state) = Ledger::open(&paths.mum().join("ledger"), options.deployment)?;
    Store::new(&paths).sweep();
    let capacity = Capacity::new(options.cpus.unwrap_or_else(cpus), options.memory);
    let setup = setup(options, &paths, &programs, &socket)?;
    let (agent, handle, boxes) = Agent::new(setup, capacity, ledger, state);
    // Bound only now: whoever connects is answered with everything known.
    let listener = OwnerOnly::bind(&socket).map_err(at(&socket))?;
    let placer = Placer {
        paths,
        deployment: options.deployment,
        capacity,
    };
    let service = Service::new(handle.clone(), placer, programs.build, options.memory);
    let end = serve_agent(agent, handle, boxes, service, listener).await?;
    // While the lock is held, the name is ours.
    let _ = std::fs::remove_file(&socket);
    match end {
        End::Orderly => {
            tracing::info!("ended in order");
            Ok(())
        }
        End::Broken(error) => Err(RunError::Broken(error)),
    }
}

/// Runs agent, service and signals side by side until the agent ends.
async fn serve_agent(
    agent: Agent,
    handle: AgentHandle,
    boxes: Mailboxes,
    service: Service,
    listener: OwnerOnly,
) -> Result<End, RunError> {
    let signals = Path::new("signals");
    let mut terminate = signal(SignalKind::terminate()).map_err(at(signals))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(at(signals))?;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut serving = tokio::spawn(service.serve(listener, async move {
        // A dropped sender stops it as well.
        let _ = stopped.await;
    }));
    let mut agent = std::pin::pin!(agent.run(handle.clone(), boxes));
    let mut told = false;
    let end = loop {
        tokio::select! {
            end = &mut agent => break end,
            served = &mut serving => {
                tracing::error!(?served, "the socket is not served any more");
                let told = handle.tell(Message::Stop);
                tokio::select! { end = &mut agent => break end, _ = told => {} }
                break agent.await;
            }
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if told {
            tracing::warn!("told to stop twice: leaving at once");
            return Ok(End::Orderly);
        }
        told = true;
        tracing::info!("told to stop by a signal");
        handle.tell_now(Message::Stop);
    };
    // The agent has ended its followers; calls in flight get a moment.
    let _ = stop.send(());
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), serving).await;
    Ok(end)
}

/// The programs that lie beside this one.
struct Programs {
    build: String,
    shim: PathBuf,
    watcher: PathBuf,
    launcher_build: String,
}

impl Programs {
    fn beside_own() -> Result<Self, RunError> {
        let own = std::env::current_exe().map_err(at(Path::new("the path of this program")))?;
        let folder = own.parent().unwrap_or(Path::new("/")).to_path_buf();
        let shim = folder.join("nerokid-shim");
        Ok(Self {
            build: build_id::build(&own),
            // Without it nothing starts, which the node's hold then says.
            launcher_build: build_id::content(&shim).unwrap_or_else(|_| "none".to_owned()),
            watcher: folder.join("nerokid"),
            shim,
        })
    }
}

fn setup(
    options: &Options,
    paths: &NodePaths,
    programs: &Programs,
    socket: &Path,
) -> Result<Setup, RunError> {
    let name = format!("launcher-{}.sock", programs.launcher_build);
    Ok(Setup {
        paths: paths.clone(),
        base: Base::of_node(),
        boot_id: nero_model::process::boot_id().map_err(at(Path::new("/proc")))?,
        min_free: options.min_free,
        leave_after: options.leave_after,
        launcher: Launcher {
            socket: socket.with_file_name(name),
            program: Some(programs.shim.clone()),
            log: paths.mum().join("launcher.log"),
            build: programs.build.clone(),
        },
        watcher: programs.watcher.clone(),
        socket: socket.to_path_buf(),
    })
}

fn cpus() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}

/// Takes the lock that makes this the only neromum here; none when another has
/// it.
fn lock(path: &Path) -> Result<Option<File>, RunError> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(at(path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(error)) => Err(at(path)(error)),
    }
}

/// Opens the log; one that has grown large is kept once and begun anew.
fn begin_log(paths: &NodePaths) -> Result<(), RunError> {
    let path = paths.mum().join("log");
    if std::fs::metadata(&path).is_ok_and(|found| found.len() > config::LOG_BYTES_MAX) {
        std::fs::rename(&path, path.with_extension("old")).map_err(at(&path))?;
    }
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)
        .map_err(at(&path))?;
    let logged = tracing_subscriber::fmt()
        .with_writer(std::sync::Mutex::new(file))
        .with_ansi(false)
        .with_target(false)
        .with_max_level(tracing::Level::INFO)
        .try_init();
    if let Err(error) = logged {
        eprintln!("neromum: no log: {error}");
    }
    Ok(())
}
