//! What the agent knows of one run, beside what the core decides by.

use std::collections::BTreeMap;

use nero_model::{RunId, RunToken};
use nero_wire::v1::Tree;
use tokio::sync::oneshot;

use super::Until;
use super::segments::Seg;
use super::unreadable::Unreadable;
use crate::core::facts::Facts;
use crate::warden::bare;

/// Beside what the core decides by: what is known of a run.
#[derive(Debug)]
pub struct Entry {
    pub(super) id: RunId,
    /// Newest incarnation looked at; 0 when there is none.
    pub(super) incarnation: u32,
    /// What its segments say.
    pub(super) facts: Facts,
    /// All segments of all incarnations.
    pub(super) segments: Vec<Seg>,
    /// Its files that could not be used when they were looked at last, by start;
    /// 0: those of the run as a whole.
    pub(super) unreadable: BTreeMap<u32, Vec<Unreadable>>,
    /// The records with which it ended, until the ledger has them.
    pub(super) ends: Vec<nero_journal::v1::ledger_exited::Copy>,
    /// The ledger had its end already when neromum started.
    pub(super) kept: bool,
    /// Its end (or that of its main process) is not synced yet: followers do
    /// not see it.
    pub(super) unsynced: bool,
    /// Some launcher said that it looks after the run.
    pub(super) tracked: Option<bare::LinkId>,
    /// The host on which it was claimed, when that is another one.
    pub(super) elsewhere: Option<String>,
    /// It was withdrawn: another node may have it.
    pub(super) withdrawn: bool,
    /// How often its watcher's last words were waited for in vain.
    pub(super) waits: u8,
    /// The run whose checkpoints it begins with.
    pub(super) earlier: Option<RunToken>,
    /// It has rules, so that a watcher must see its output.
    pub(super) rules: bool,
    /// `control/` may hold wishes up to this number.
    pub(super) cancels: u32,
    /// The attached watcher.
    pub(super) kid: Option<super::kids::Kid>,
    /// A stop of its shim or launcher was noted.
    pub(super) stop_noted: bool,
    /// Tries of settling so far.
    pub(super) settle_tries: u8,
    /// Those of them that failed for a reason that does not pass by itself.
    pub(super) settle_failures: u8,
    /// What of its records is gone, in words; empty: nothing.
    pub(super) missing: String,
    /// When it was launched.
    pub(super) launched: Option<tokio::time::Instant>,
    /// Whoever waits for its start or end.
    pub(super) waiters: Vec<(Until, oneshot::Sender<()>)>,
    /// What its work folder was built of, until it ends; none when that is much,
    /// or was built by another process.
    pub(super) code: Option<Tree>,
    /// It ended, and left its work folder as it was built.
    pub(super) made_nothing: bool,
    /// Its state changed this often.
    pub(super) version: u32,
}

impl Entry {
    pub(super) fn new(id: RunId) -> Self {
        Self {
            id,
            incarnation: 0,
            facts: Facts::default(),
            segments: Vec::new(),
            unreadable: BTreeMap::new(),
            ends: Vec::new(),
            missing: String::new(),
            kept: false,
            unsynced: false,
            tracked: None,
            elsewhere: None,
            withdrawn: false,
            waits: 0,
            earlier: None,
            rules: false,
            cancels: 0,
            kid: None,
            stop_noted: false,
            settle_tries: 0,
            settle_failures: 0,
            launched: None,
            waiters: Vec::new(),
            code: None,
            made_nothing: false,
            version: 0,
        }
    }

    /// From now on it is this incarnation that counts, if it is a newer one:
    /// what became of the one before says nothing of it.
    pub(super) fn begin(&mut self, incarnation: u32) {
        if incarnation > self.incarnation {
            self.incarnation = incarnation;
            self.facts = Facts::default();
            self.ends.clear();
        }
    }
}
