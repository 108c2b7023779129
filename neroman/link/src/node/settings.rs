//! What the tasks of a node are given.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::backoff::ConnectionTurns;
use crate::results::Places;
use nero_life::state::State;

/// The settings of a driver.
#[derive(Clone, Debug)]
pub struct Settings {
    pub name: String,
    /// Frozen files by content.
    pub store: PathBuf,
    /// The folders of results.
    pub results: Places,
    /// After this long without work the connection is closed.
    pub idle: Duration,
    pub clock: nero_home::clock::Clock,
    /// After this long out of reach, a node loses the runs that it never got,
    /// if another node may take them.
    pub away: Duration,
    /// Whether the node is another machine.
    pub remote: bool,
    /// Turns of connections, which all nodes share.
    pub turns: Arc<ConnectionTurns>,
    /// What runs ask of its scheduler where their experiments ask nothing else.
    pub asks: watch::Receiver<nero_format::SchedulerOptions>,
}

/// The runs of a node that may still get records.
pub fn open_runs(state: &State, node: &str) -> Vec<nero_model::RunId> {
    state
        .active()
        .flat_map(|experiment| experiment.runs.iter())
        .filter(|run| run.open() && run.node() == Some(node))
        .map(|run| run.made.id)
        .collect()
}
