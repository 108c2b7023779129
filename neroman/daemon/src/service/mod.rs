//! What each call of the service does: `edge` has the list of the calls. Wire types end here.

mod admin;
mod change;
mod edge;
pub(crate) mod experiments;
pub(crate) mod files;
mod nodes;
mod runs;
mod select;
mod views;

use std::sync::Arc;

use nero_model::{DeploymentId, Home};
use nero_wire::{hello, v1};
use tokio::sync::watch::Receiver;
use tokio::sync::{Notify, mpsc};
use tonic::Status;

use crate::blocking::blocking;
use crate::cells::Books;
use crate::processing::Modules;
use nero_home::clock::Clock;
use nero_home::failure::Failure;
use nero_home::ledger::Ledger;
use nero_life::now::PresentTime;
use nero_link::node::Nodes;
use nero_link::outside::{Agents, Freezer};
pub(crate) use views::metrics::CurveCache;
pub(crate) use views::window::WalkRest;

/// The service of the daemon. Cheap to clone: every call has its own.
#[derive(Clone, Debug)]
pub(crate) struct Man {
    pub ledger: Ledger,
    pub nodes: Nodes,
    pub agents: Agents,
    pub books: Books,
    pub home: Home,
    pub deployment: DeploymentId,
    pub clock: Clock,
    pub freezer: Freezer,
    pub modules: Modules,
    /// Between the walks for windows.
    pub walks: WalkRest,
    /// Thinned curves of the last pictures that views asked for.
    pub curves: CurveCache,
    /// Held while rows are added to a file.
    pub rows: Arc<tokio::sync::Mutex<()>>,
    pub started_ms: i64,
    /// Rung by `DaemonStop`.
    pub stop: Arc<Notify>,
    /// True once the daemon is leaving: streams end then.
    pub leaving: Receiver<bool>,
}

/// Receives the messages of a streaming call.
pub(crate) type Sink<T> = mpsc::Sender<Result<T, Status>>;

/// What a call answers whose wait for news ended with the daemon.
pub(crate) fn leaving<E>(_: E) -> Failure {
    Failure::daemon("the daemon is leaving")
}

impl Man {
    fn greeted(&self, hello: &v1::Hello) -> Result<v1::Hello, Failure> {
        hello::check(hello, v1::Role::Client, None).map_err(|error| {
            let failure = Failure::daemon("cannot speak to this client").caused_by(&error);
            failure.hint(
                "use the neroman that started the daemon, or end it with that one: \
                     `neroman daemon stop`",
            )
        })?;
        self.bring_agent(&hello.ssh_auth_sock);
        Ok(self.hello())
    }

    /// Remembers a client's ssh agent; nodes that wait for an agent are tried
    /// again.
    fn bring_agent(&self, sock: &str) {
        if !sock.is_empty() && self.agents.socks.bring(std::path::Path::new(sock)) {
            self.nodes.agent_came();
        }
    }

    /// The present moment on all known clocks.
    fn now(&self) -> PresentTime {
        self.nodes.known().now(self.clock)
    }

    fn hello(&self) -> v1::Hello {
        // Clients compare this with their own `ssh` command, and report a
        // difference.
        let ssh = std::env::var_os(nero_ssh::SSH_VARIABLE).unwrap_or_default();
        v1::Hello {
            capabilities: vec![
                format!("ssh={}", ssh.to_string_lossy()),
                hello::LIST_PARTS.to_owned(),
                hello::PLOTS.to_owned(),
                hello::ALL_RUNS.to_owned(),
                hello::EDITS.to_owned(),
            ],
            ..hello::own(v1::Role::Neroman, "", Some(self.deployment))
        }
    }
}

/// `1 run`, `2 runs`.
pub(crate) fn counted(count: u64, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
