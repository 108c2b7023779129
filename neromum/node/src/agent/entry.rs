//! The agent's knowledge of one run, beside the state in the core.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nero_model::{RunId, RunToken};
use nero_node_core::facts::Facts;
use nero_wire::v1::{Tree, WatcherCommand};
use tokio::sync::{mpsc, oneshot};

use super::calls::Milestone;
use crate::launch::bare;
use crate::runs::segments::Seg;
use crate::runs::unreadable::Unreadable;

/// The agent's knowledge of a run, beside the state in the core.
#[derive(Debug)]
pub struct Entry {
    /// The run.
    pub id: RunId,
    /// The last hand-over of it by neroman; 0: not known.
    pub(super) generation: u32,
    /// Newest incarnation looked at; 0 when there is none.
    pub incarnation: u32,
    /// Facts from its segments.
    pub facts: Facts,
    /// All segments of all incarnations.
    pub segments: Vec<Seg>,
    /// Its files that could not be used at the last look, by start; 0: files of
    /// the run as a whole.
    pub unreadable: BTreeMap<u32, Vec<Unreadable>>,
    /// A file that the last look found unusable, until a look a while later finds it so again:
    /// some file servers show sizes and names late. With the start, and the time of the first
    /// such look.
    pub(super) suspect: Option<(u32, PathBuf, tokio::time::Instant)>,
    /// The records of its end, until the ledger has them.
    pub ends: Vec<nero_journal::v1::ledger_exited::Copy>,
    /// Whether the ledger had its end already when neromum started.
    pub(super) kept: bool,
    /// Whether its end (or that of its main process) is not synced yet:
    /// followers do not see it until then.
    pub unsynced: bool,
    /// The launcher that looks after the run.
    pub(super) tracked: Option<bare::LinkId>,
    /// The host on which it was claimed, when that is another one.
    pub(super) elsewhere: Option<String>,
    /// Whether it runs in a task of this node's scheduler.
    pub(super) at_scheduler: bool,
    /// Whether its job is there already, and is to be adopted.
    pub adopted: bool,
    /// Whether it was recalled: another node may have it.
    pub(super) recalled: bool,
    /// Number of waits in vain for its watcher's last records.
    pub(super) waits: u8,
    /// The run whose checkpoints it begins with.
    pub(super) earlier: Option<RunToken>,
    /// Whether it has rules, so that a watcher must see its output.
    pub(super) rules: bool,
    /// `control/` may hold cancel requests up to this number.
    pub cancels: u32,
    /// The attached watcher.
    pub(super) watcher: Option<AttachedWatcher>,
    /// Whether a stop of its shim or launcher was noted.
    pub(super) stop_noted: bool,
    /// Number of tries to settle it so far.
    pub(super) settle_tries: u8,
    /// Number of tries that failed for a lasting reason.
    pub(super) settle_failures: u8,
    /// Description of lost records; empty: none is lost.
    pub(super) missing: String,
    /// Whether this process made its folder: no other one can have launched it.
    pub(super) fresh: bool,
    /// Time of its launch.
    pub(super) launched: Option<tokio::time::Instant>,
    /// Callers that wait for its start or end.
    pub(super) waiters: Vec<(Milestone, oneshot::Sender<()>)>,
    /// Tree from which its work folder was built, until it ends; `None` when the
    /// tree is large, or another process built the folder.
    pub(super) code: Option<Tree>,
    /// Whether it ended and left its work folder as it was built.
    pub(super) made_nothing: bool,
    /// The start for whose hosts this process saw to helpers, and whether it has some.
    pub helpers: Option<(u32, bool)>,
    /// Number of changes of its state.
    pub(super) version: u32,
}

impl Entry {
    /// The entry of a run whose id alone is known yet.
    pub fn new(id: RunId) -> Self {
        Self {
            id,
            generation: 0,
            incarnation: 0,
            facts: Facts::default(),
            segments: Vec::new(),
            unreadable: BTreeMap::new(),
            suspect: None,
            ends: Vec::new(),
            missing: String::new(),
            kept: false,
            unsynced: false,
            tracked: None,
            elsewhere: None,
            at_scheduler: false,
            adopted: false,
            recalled: false,
            waits: 0,
            earlier: None,
            rules: false,
            cancels: 0,
            watcher: None,
            stop_noted: false,
            settle_tries: 0,
            settle_failures: 0,
            fresh: false,
            launched: None,
            waiters: Vec::new(),
            code: None,
            made_nothing: false,
            helpers: None,
            version: 0,
        }
    }

    /// Makes `incarnation` the current start, if it is newer. Facts of the start
    /// before do not apply to it.
    pub(super) fn begin(&mut self, incarnation: u32) {
        if incarnation > self.incarnation {
            self.incarnation = incarnation;
            self.facts = Facts::default();
            self.ends.clear();
            // An end that was held back is none of the run.
            self.unsynced = false;
        }
    }
}

/// An attached watcher.
#[derive(Debug)]
pub struct AttachedWatcher {
    pub(super) id: u64,
    pub(super) commands: mpsc::Sender<WatcherCommand>,
}
