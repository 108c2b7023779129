//! Orders to a launcher: `Launch` with the folder that it needs, and `Guard` for
//! a run that goes on. They need the node's folders, its files and a spec,
//! wherever the spec came from.

use std::path::PathBuf;

use nero_journal::v1::{Guard, Launch};
use nero_model::paths::NodePaths;
use nero_model::{RunId, RunToken};
use nero_node_core::facts::Facts;
use nero_wire::v1::{RunSpec, Tree};

use crate::config;
use crate::staging::container::ContainerPlan;
use crate::staging::environment::{self, Base};
use crate::staging::store::Store;
use crate::staging::{self, PrepareError, hosts};

/// Makes orders for the runs of one node.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Folders of the node.
    pub paths: NodePaths,
    /// Files that runs begin with.
    pub store: Store,
    /// Environment that jobs begin with.
    pub base: Base,
    /// The watcher of each job.
    pub watcher: Watcher,
}

/// How `nerokid` is called.
#[derive(Clone, Debug)]
pub struct Watcher {
    /// The program.
    pub program: PathBuf,
    /// The socket of the neromum that it reports to; `None`: it reports by disk
    /// alone.
    pub socket: Option<PathBuf>,
}

impl Watcher {
    fn argv(&self) -> Vec<String> {
        let mut argv = vec![self.program.display().to_string()];
        if let Some(socket) = &self.socket {
            argv.extend(["--socket".to_owned(), socket.display().to_string()]);
        }
        argv
    }
}

/// A start whose folder is built.
#[derive(Debug)]
pub struct Start {
    /// The order.
    pub launch: Launch,
    /// Whether the run has rules.
    pub rules: bool,
    /// Tree from which the work folder was built; see [`staging::PreparedStart`].
    pub code: Option<Tree>,
    /// What the order is to become once its cards are known.
    pub contained: Option<Box<ContainerPlan>>,
}

impl Orders {
    /// Builds a run's folder, and the order to start its job there.
    ///
    /// # Errors
    /// When the folder cannot be built.
    pub fn launch(
        &self,
        id: RunId,
        token: RunToken,
        spec: &RunSpec,
        incarnation: u32,
    ) -> Result<Box<Start>, PrepareError> {
        let prepared =
            staging::prepare(&self.paths, &self.store, &self.base, id, spec, incarnation)?;
        let rules = spec.rules.as_ref().map(|set| set.rules.as_slice());
        let rules = rules.unwrap_or_default();
        let monitor = spec.monitor.unwrap_or_default();
        let launch = Launch {
            token: token.to_vec(),
            run_dir: self.paths.run(id).display().to_string(),
            incarnation,
            argv: prepared.argv,
            env: prepared.env,
            work_dir: prepared.work.display().to_string(),
            time_limit_ms: spec.resources.map_or(0, |resources| resources.time_ms),
            grace_ms: grace_ms(spec),
            wait_for_strays: monitor.wait_for_strays,
            leave_strays: monitor.leave_strays,
            watcher: self.watcher.argv(),
            watch_at_once: rules.iter().any(|rule| rule.action == "abort"),
            argv0: prepared.argv0,
            is_step: hosts::is_step(spec),
            is_contained: false,
            cards: Vec::new(),
        };
        Ok(Box::new(Start {
            launch,
            rules: !rules.is_empty(),
            code: prepared.code,
            contained: prepared.contained,
        }))
    }

    /// The program that executes the clients of containers.
    pub fn shim(&self) -> PathBuf {
        self.watcher.program.with_file_name("nerokid-shim")
    }

    /// The order to look after a run that goes on without its launcher. `spec` is
    /// empty when it cannot be read.
    pub fn guard(
        &self,
        id: RunId,
        token: RunToken,
        spec: &RunSpec,
        incarnation: u32,
        facts: &Facts,
    ) -> Guard {
        let run_dir = self.paths.run(id);
        let work = staging::work_folder(&run_dir, incarnation);
        Guard {
            token: token.to_vec(),
            run_dir: run_dir.display().to_string(),
            incarnation,
            shim: facts.shim.map(Into::into),
            job: facts.job.map(Into::into),
            grace_ms: grace_ms(spec),
            watcher: self.watcher.argv(),
            time_limit_ms: spec.resources.map_or(0, |resources| resources.time_ms),
            marks: environment::marks(id, &work),
            is_step: hosts::is_step(spec),
            cards: Vec::new(),
        }
    }
}

/// Time from the polite signal to the final one; 0 in a spec means the default.
pub fn grace_ms(spec: &RunSpec) -> u32 {
    match spec.monitor.as_ref().map_or(0, |monitor| monitor.grace_ms) {
        0 => config::GRACE_MS,
        given => u32::try_from(given).unwrap_or(u32::MAX),
    }
}
