//! From a login node to a worker of Python calls in a job of a scheduler, which offers no way to
//! its hosts itself: a door beside the worker, in front of its Unix socket, and the caller of it.

use std::io;
use std::path::{Path, PathBuf};

use nero_cluster::submission::{Files, Plan, PlanError};
use nero_model::RunToken;
use nero_node::lease::host::Host;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::addresses::{Listen, inside};
use super::authority::{Authority, AuthorityError};
use super::call::call;
use super::door::{Door, Keeper, OpenDoor};
use crate::dial::ends::{Output, Requests};

/// Stands in certificates where a leader has its node: no node has this name.
const NODE: &str = "a worker";

/// A worker to be reached from other hosts of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Folder of the submission that its job belongs to.
    pub submission: PathBuf,
    /// Its socket.
    pub socket: PathBuf,
}

/// A worker's door, as its `neromum door` printed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerDoor {
    /// Folder of the submission.
    pub submission: PathBuf,
    /// Number in the certificate of the door.
    pub number: u64,
    /// `address:port` of each of its sockets.
    pub addresses: Vec<String>,
}

/// Reason why there is no way to a worker.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The plan of the submission cannot be used.
    #[error(transparent)]
    Plan(PlanError),
    /// Certificates cannot be made.
    #[error("cannot prove who calls")]
    Authority(#[source] AuthorityError),
    /// The host has no address inside of its cluster.
    #[error("{host} has no address inside of its cluster, so nobody reaches its worker")]
    NoAddress {
        /// Its name.
        host: String,
    },
    /// No address leads to the worker.
    #[error("no worker answers")]
    Unreachable(#[source] io::Error),
    /// Standard input or output cannot be used.
    #[error("cannot {what}")]
    Io {
        /// The action that failed.
        what: &'static str,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> WorkerError {
    move |source| WorkerError::Io { what, source }
}

/// Prints the number and the addresses of the door on one line, and serves it until standard
/// input ends.
///
/// # Errors
/// See [`WorkerError`].
pub fn serve(worker: &Worker) -> Result<(), WorkerError> {
    within(async {
        let host = Host::own().name;
        let door = Door::open(&inside(Listen::Auto, &host).await).await;
        let plan = plan(&worker.submission)?;
        let number = number();
        let line = format!("{number} {}\n", door.addresses().join(" "));
        let mut serving = served(door, &plan, number, &worker.socket, host)?;
        let mut output = Output::stdout().map_err(failed("write to stdout"))?;
        let written = async {
            output.write_all(line.as_bytes()).await?;
            output.flush().await
        };
        written.await.map_err(failed("write to stdout"))?;
        let mut input = Requests::stdin().map_err(failed("read stdin"))?;
        let ended = async { while input.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {} };
        tokio::select! {
            () = ended => Ok(()),
            never = serving.watch() => match never {},
        }
    })
}

/// Joins standard input and output to the worker behind a door.
///
/// # Errors
/// See [`WorkerError`].
pub fn join(called: &WorkerDoor) -> Result<(), WorkerError> {
    within(async {
        let plan = plan(&called.submission)?;
        let authority = authority(&plan)?;
        let stream = call(&authority, &called.addresses, NODE, called.number)
            .await
            .map_err(WorkerError::Unreachable)?;
        let input = Requests::stdin().map_err(failed("read stdin"))?;
        let output = Output::stdout().map_err(failed("write to stdout"))?;
        let joined = crate::dial::join(stream, input, output).await;
        joined.map_err(failed("pass bytes on"))
    })
}

/// Runs one of the two to its end.
fn within(work: impl Future<Output = Result<(), WorkerError>>) -> Result<(), WorkerError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed("begin"))?;
    let done = runtime.block_on(work);
    // Where standard input is a file or a terminal, a thread may still wait for it.
    runtime.shutdown_background();
    done
}

fn served(
    door: Door,
    plan: &Plan,
    number: u64,
    socket: &Path,
    host: String,
) -> Result<OpenDoor, WorkerError> {
    if door.addresses().is_empty() {
        return Err(WorkerError::NoAddress { host });
    }
    let ca = plan.paths().authority();
    let keeper = Keeper::new(ca, plan.deployment, NODE, number, socket);
    door.serve(keeper).map_err(WorkerError::Authority)
}

fn plan(submission: &Path) -> Result<Plan, WorkerError> {
    Files::at(submission).read_plan().map_err(WorkerError::Plan)
}

fn authority(plan: &Plan) -> Result<Authority, WorkerError> {
    let folder = plan.paths().authority();
    Authority::open(&folder, plan.deployment).map_err(WorkerError::Authority)
}

/// Another number for each door: one that took the address of an ended one is not mistaken for it.
fn number() -> u64 {
    let random = RunToken::random().to_vec();
    u64::from_be_bytes(random[..8].try_into().expect("it has 16 bytes"))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use nero_model::{DeploymentId, SubmissionId};
    use tokio::net::UnixListener;

    use super::*;

    fn planned(root: &Path) -> Plan {
        Plan {
            adopted: None,
            submission: SubmissionId::random(),
            deployment: DeploymentId::random(),
            node: "cluster".to_owned(),
            root: root.to_path_buf(),
            beat: std::time::Duration::from_secs(15),
            tasks: Vec::new(),
            at_once: None,
        }
    }

    #[tokio::test]
    async fn a_worker_is_reached_by_its_own_deployment_alone() {
        let root = tempfile::tempdir().unwrap();
        let plan = planned(root.path());
        let socket = root.path().join("worker");
        let worker = UnixListener::bind(&socket).unwrap();
        let door = Door::open(&[IpAddr::from([127, 0, 0, 1])]).await;
        let addresses = door.addresses();
        let _serving = served(door, &plan, 7, &socket, "h".to_owned()).unwrap();
        let own = authority(&plan).unwrap();
        let mut stream = call(&own, &addresses, NODE, 7).await.unwrap();
        let (mut inside, _) = worker.accept().await.unwrap();
        inside.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        // An earlier door at this address, a leader, and another deployment.
        assert!(call(&own, &addresses, NODE, 6).await.is_err());
        assert!(call(&own, &addresses, "cluster", 7).await.is_err());
        let other = DeploymentId::random();
        let stranger = Authority::open(&root.path().join("other"), other).unwrap();
        assert!(call(&stranger, &addresses, NODE, 7).await.is_err());
    }

    #[tokio::test]
    async fn a_host_without_an_address_is_named() {
        let root = tempfile::tempdir().unwrap();
        let plan = planned(root.path());
        let nowhere = served(
            Door::open(&[]).await,
            &plan,
            7,
            Path::new("/s"),
            "n7".to_owned(),
        );
        assert!(nowhere.unwrap_err().to_string().contains("n7 has no"));
    }
}
