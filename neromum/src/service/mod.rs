//! The gRPC edge: wire types in, questions to the agent, answers out. It decides
//! only which peers may call, and their limits.

mod answers;
mod blobs;
mod clean;
mod describe;
mod end;
mod fetch;
mod find_jobs;
mod gpus;
mod hand_over;
mod link;
mod logs;
mod mum;
mod owner;
mod pause;
mod probe;
mod respond;
mod room;
mod script;
mod watchers;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use nero_journal::frame::{self, FrameError, FrameKind};
use nero_model::{DeploymentId, LedgerId, MESSAGE_BYTES_MAX, RunId, RunToken};
use nero_node::agent::{AgentGone, AgentHandle, Placer};
use nero_node::cards::Cards;
use nero_node::clean::Janitor;
use nero_node::config;
use nero_node::containers::Containers;
use nero_node::lease::HeldEpoch;
use nero_node::staging::store::Store;
use nero_wire::hello::HelloError;
use nero_wire::listen::OwnerOnly;
use nero_wire::v1::kids_server::KidsServer;
use nero_wire::v1::mum_server::MumServer;
use nero_wire::v1::{RunRef, RunSpec};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Status};

use crate::warden::front::Front;
pub use describe::{cpus, memory_bytes};
use link::{Link, LinkInfo};

/// State that every call may need.
#[derive(Clone, Debug)]
pub struct Service {
    inner: Arc<ServiceState>,
}

#[derive(Debug)]
struct ServiceState {
    agent: AgentHandle,
    placer: Placer,
    store: Store,
    build: String,
    /// The share of the node given to runs, as greetings report it.
    gives: String,
    ledger: LedgerId,
    front: Option<Arc<Front>>,
    nerokid: PathBuf,
    deployment: DeploymentId,
    memory_bytes: Option<u64>,
    cpus: f64,
    gpus: gpus::Gpus,
    containers: Arc<Containers>,
    /// Threads that file work may take; the rest are the agent's.
    threads: Arc<Semaphore>,
    owners: owner::Owners,
    janitor: Janitor,
    /// Probes that may be executed at once.
    probes: Semaphore,
    /// Held while one call cleans or measures.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Limit of steps of file work at a time, for all calls together: the runtime has
/// few threads, and syncs of the ledger need one, too.
const FILE_WORK_MAX: usize = 2;

/// What a service reports of this neromum, and the programs and devices that it uses.
#[derive(Debug)]
pub struct ServiceSetup {
    /// Name of its build.
    pub build: String,
    /// The share of the node that it gives to runs.
    pub gives: String,
    /// Its ledger.
    pub ledger: LedgerId,
    /// The node's scheduler.
    pub front: Option<Arc<Front>>,
    /// The cards of this host, where no scheduler gives them.
    pub cards: Option<Arc<Cards>>,
    /// The program that runs commands.
    pub nerokid: PathBuf,
}

impl Service {
    /// For one node.
    pub fn new(
        agent: AgentHandle,
        placer: Placer,
        store: Store,
        setup: ServiceSetup,
        memory_bytes: Option<u64>,
        lease: Option<Arc<HeldEpoch>>,
    ) -> Self {
        let is_shared = setup.front.is_some();
        let containers =
            Containers::new(placer.base.clone(), &placer.paths, store.clone(), is_shared);
        let inner = ServiceState {
            containers: Arc::new(containers),
            janitor: Janitor::new(&placer.paths, &store, lease),
            turn: Arc::default(),
            owners: owner::Owners::new(&placer.paths),
            store,
            deployment: placer.deployment,
            cpus: match setup.front {
                // The scheduler gives CPUs of other hosts.
                Some(_) => cpus(),
                None => nero_node_core::capacity::cpus(placer.capacity.micro_cpus),
            },
            agent,
            placer,
            build: setup.build,
            gives: setup.gives,
            ledger: setup.ledger,
            front: setup.front,
            nerokid: setup.nerokid,
            memory_bytes,
            gpus: gpus::Gpus::new(setup.cards),
            threads: Arc::new(Semaphore::new(FILE_WORK_MAX)),
            probes: Semaphore::new(probe::AT_ONCE),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Serves until `stop` returns; calls in flight are dropped then, but for hand-overs.
    ///
    /// # Errors
    /// When the whole transport fails.
    pub async fn serve(
        self,
        listener: OwnerOnly,
        stop: impl Future<Output = ()>,
    ) -> Result<(), tonic::transport::Error> {
        self.inner.janitor.empty_trash();
        let agent = self.inner.agent.clone();
        let links = listener.map(move |stream| stream.map(|stream| Link::new(stream, &agent)));
        tonic::transport::Server::builder()
            .concurrency_limit_per_connection(32)
            .max_concurrent_streams(64)
            // A round trip over ssh takes long, and a transfer must not wait for
            // each.
            .initial_stream_window_size(2 * 1024 * 1024)
            .initial_connection_window_size(4 * 1024 * 1024)
            .max_frame_size(nero_wire::FRAME_BYTES)
            // Detects a peer that is cut off. Without connections nothing wakes.
            .http2_keepalive_interval(Some(config::KEEP_ALIVE_EVERY))
            .http2_keepalive_timeout(Some(config::KEEP_ALIVE_ANSWER))
            .http2_max_header_list_size(16 * 1024)
            .http2_max_pending_accept_reset_streams(Some(20))
            .http2_max_local_error_reset_streams(Some(1024))
            .add_service(
                MumServer::new(self.clone())
                    .max_decoding_message_size(MESSAGE_BYTES_MAX)
                    .max_encoding_message_size(MESSAGE_BYTES_MAX),
            )
            .add_service(
                KidsServer::new(self)
                    .max_decoding_message_size(MESSAGE_BYTES_MAX)
                    .max_encoding_message_size(MESSAGE_BYTES_MAX),
            )
            .serve_with_incoming_shutdown(links, stop)
            .await
    }

    /// Refuses a call on a connection without hello.
    fn greeted<T>(&self, request: &Request<T>) -> Result<(), Status> {
        match request.extensions().get::<LinkInfo>() {
            Some(link) if link.is_greeted() => Ok(()),
            _ => Err(Status::failed_precondition("say hello first (Greet)")),
        }
    }

    /// The folder of a run, after a check that its spec has the run's token.
    async fn run_dir(&self, run: Option<RunRef>) -> Result<(RunToken, std::path::PathBuf), Status> {
        let run = run.ok_or_else(|| Status::invalid_argument("no run is named"))?;
        let token = RunToken::from_slice(&run.token)
            .ok_or_else(|| Status::invalid_argument("a token has 16 bytes"))?;
        let id = RunId {
            experiment: nero_model::ExperimentId(run.experiment),
            number: run.number,
        };
        let run_dir = self.inner.placer.paths.run(id);
        let path = run_dir.join(nero_model::paths::run::SPEC);
        let read = move || frame::read::<RunSpec>(FrameKind::Spec, &path);
        match self.inner.file_work(read).await? {
            Ok(spec) if spec.token == token.as_bytes() => Ok((token, run_dir)),
            Ok(_) => Err(Status::not_found("another run lies in that folder")),
            // The folder may exist, but cannot be read just now.
            Err(FrameError::Io(error)) if error.kind() != std::io::ErrorKind::NotFound => {
                let what = format!("cannot read what run {id} is");
                Err(io_status(&what, &error))
            }
            Err(FrameError::Io(_)) => {
                Err(Status::not_found(format!("run {id} is not on this node")))
            }
            Err(error @ (FrameError::Damaged | FrameError::Decode(_))) => {
                let spec = run_dir.join(nero_model::paths::run::SPEC);
                Err(Status::not_found(format!(
                    "the spec of run {id} cannot be used, {}: {error}",
                    spec.display()
                )))
            }
        }
    }
}

impl ServiceState {
    /// Waits for the agent's answer. It comes at once, or the agent has a serious
    /// fault.
    async fn answer<T>(
        &self,
        answer: impl Future<Output = Result<T, AgentGone>>,
    ) -> Result<T, Status> {
        tokio::time::timeout(config::CALL_DEADLINE, answer)
            .await
            .map_err(|_| Status::deadline_exceeded("neromum does not get to it; try again"))?
            .map_err(Status::from)
    }

    /// Runs a short step of file work off the reactor, when there is a place.
    async fn file_work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Status> {
        let turn = self.threads.clone().acquire_owned().await;
        off_reactor(move || {
            // Held until the step is over, even if its caller has left.
            let _turn = turn;
            work()
        })
        .await
    }
}

/// The refusal of a peer's hello, with a hint when the protocols differ.
fn not_spoken_to(error: HelloError) -> Status {
    let hint = match &error {
        HelloError::Protocol { .. } => format!(
            "; end this neromum, process {}, to have the other build serve: runs go on",
            std::process::id()
        ),
        HelloError::Deployment | HelloError::Role => String::new(),
    };
    Status::permission_denied(format!("{error}{hint}"))
}

/// Converts an error of the kernel to a status.
fn io_status(what: &str, error: &std::io::Error) -> Status {
    use std::io::ErrorKind;
    let text = format!("{what}: {error}");
    if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        return Status::invalid_argument(format!("{what}: a link lies in its place"));
    }
    match error.kind() {
        ErrorKind::NotFound => Status::not_found(text),
        ErrorKind::InvalidInput | ErrorKind::InvalidData => Status::invalid_argument(text),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Status::resource_exhausted(text),
        _ => Status::internal(text),
    }
}

/// The end of a stream of answers that a task fills: an error if the task
/// panicked, since its reader would take the part that came for the whole.
fn end_of<T>(filling: JoinHandle<()>) -> impl Stream<Item = Result<T, Status>> {
    let failed = |ended: Result<(), JoinError>| {
        let panic = ended.err()?;
        tracing::error!(%panic, "a stream of answers ends early");
        Some(Err(Status::internal("reading files failed")))
    };
    futures_util::stream::once(filling).filter_map(failed)
}

/// Runs file work off the reactor.
async fn off_reactor<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Status::internal("reading files failed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::ReceiverStream;

    #[tokio::test]
    async fn a_stream_whose_task_panics_ends_with_an_error() {
        for panics in [false, true] {
            let (parts, answers) = mpsc::channel(1);
            let filling = tokio::spawn(async move {
                parts.send(Ok(1)).await.unwrap();
                assert!(!panics, "this panic belongs to the test");
            });
            let answers = ReceiverStream::new(answers).chain(end_of(filling));
            let answers: Vec<Result<u8, Status>> = answers.collect().await;
            assert!(matches!(answers[0], Ok(1)));
            assert_eq!(answers[1..].iter().any(Result::is_err), panics);
        }
    }
}
