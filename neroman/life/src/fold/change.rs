//! The changes that decisions return. The ledger writes changes in one
//! transaction and applies them to the state; loading the database applies
//! them, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use nero_format::{Definition, RuleDef};
use nero_model::{DeploymentId, ExperimentId, RunId};

use super::experiment::{Experiment, Origin, PersonalMarks};
use super::run::Run;
use crate::facts::cells::CellRecord;
use crate::facts::dispatch::Dispatch;
use crate::facts::journal::Journal;
use crate::facts::mail::post::PostChange;
use crate::facts::nodes::{NodeLedger, RestoreState};
use crate::facts::now::Tick;
use crate::facts::run_record::RunRecord;

/// One change of the state.
#[derive(Clone, Debug)]
pub enum Change {
    /// A source, new or read again.
    Origin(Arc<Origin>),
    /// An experiment, new or changed; its runs stay.
    Experiment(Arc<ExperimentRecord>),
    /// A rule that runs may have in force.
    Rule(Arc<Rule>),
    /// A new run.
    Run(Arc<NewRun>),
    /// The stored facts of a run outside its journal.
    Dispatch {
        run: RunId,
        dispatch: Box<Dispatch>,
        /// The rules in force, when they changed.
        rules: Option<Arc<[u64]>>,
    },
    /// The folded journal of a run.
    Journal { run: RunId, journal: Arc<Journal> },
    /// A line of an experiment's history.
    Event {
        experiment: ExperimentId,
        run: Option<u32>,
        at_ms: i64,
        text: String,
    },
    /// What is about to be written into cells of tables, or why cells are left.
    Cells(Arc<[CellRecord]>),
    /// This neroman takes over from a lost one, with its identity.
    Adopted {
        deployment: DeploymentId,
        tenure: u64,
    },
    /// The experiments that `last` names from now on.
    Last(Arc<[ExperimentId]>),
    /// Notices for people, and their deliveries.
    Post(Arc<PostChange>),
    /// What is still to be learnt after this home was restored from a backup.
    Restored(Arc<RestoreState>),
    /// The ledgers with which the nodes answered last.
    Ledgers(Arc<BTreeMap<String, NodeLedger>>),
}

/// What a change is of. Who waits for changes of the state is woken by these kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A source of experiments.
    Source,
    /// An experiment without its runs.
    Experiment,
    Rule,
    /// A run that is new.
    Run,
    /// What neroman did about a run.
    Dispatch,
    /// What a node recorded about a run.
    Journal,
    /// Notices and their deliveries.
    Notices,
    /// What nodes told: their ledgers, and their runs after a restore.
    Nodes,
    /// What `last` names.
    Last,
    /// What is only read from the database: histories, cells, the identity.
    Stored,
}

impl ChangeKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Source,
        Self::Experiment,
        Self::Rule,
        Self::Run,
        Self::Dispatch,
        Self::Journal,
        Self::Notices,
        Self::Nodes,
        Self::Last,
        Self::Stored,
    ];
}

/// A set of kinds of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeKinds(u16);

impl ChangeKinds {
    /// The set of these kinds.
    pub const fn of(kinds: &[ChangeKind]) -> Self {
        let (mut bits, mut next) = (0, 0);
        while next < kinds.len() {
            bits |= 1 << kinds[next] as u16;
            next += 1;
        }
        Self(bits)
    }

    /// Adds all kinds of the other set.
    pub fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// Whether both sets have a kind in common.
    pub fn meets(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

impl Change {
    /// What it is of.
    pub fn kind(&self) -> ChangeKind {
        match self {
            Self::Origin(_) => ChangeKind::Source,
            Self::Experiment(_) => ChangeKind::Experiment,
            Self::Rule(_) => ChangeKind::Rule,
            Self::Run(_) => ChangeKind::Run,
            Self::Dispatch { .. } => ChangeKind::Dispatch,
            Self::Journal { .. } => ChangeKind::Journal,
            Self::Post(_) => ChangeKind::Notices,
            Self::Restored(_) | Self::Ledgers(_) => ChangeKind::Nodes,
            Self::Last(_) => ChangeKind::Last,
            Self::Event { .. } | Self::Cells(_) | Self::Adopted { .. } => ChangeKind::Stored,
        }
    }

    /// The run that it changes; `None` for all but what happened to a run.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Dispatch { run, .. } | Self::Journal { run, .. } => Some(*run),
            Self::Origin(_)
            | Self::Experiment(_)
            | Self::Rule(_)
            | Self::Run(_)
            | Self::Event { .. }
            | Self::Cells(_)
            | Self::Adopted { .. }
            | Self::Last(_)
            | Self::Post(_)
            | Self::Restored(_)
            | Self::Ledgers(_) => None,
        }
    }

    /// Whether it asks the run's node to end it, and nothing else is to be done.
    pub fn is_cancel(&self) -> bool {
        matches!(self, Self::Dispatch { dispatch, .. } if dispatch.cancel.is_some() && dispatch.stage.verdict().is_none())
    }
}

impl Run {
    /// Applies a change of this run.
    pub(crate) fn take(&mut self, change: &Change) {
        match change {
            Change::Dispatch {
                dispatch, rules, ..
            } => {
                if let Some(rules) = rules {
                    self.rules = Arc::clone(rules);
                }
                self.update(Some((**dispatch).clone()), None);
            }
            Change::Journal { journal, .. } => self.update(None, Some(Arc::clone(journal))),
            Change::Origin(_)
            | Change::Experiment(_)
            | Change::Rule(_)
            | Change::Run(_)
            | Change::Event { .. }
            | Change::Cells(_)
            | Change::Adopted { .. }
            | Change::Last(_)
            | Change::Post(_)
            | Change::Restored(_)
            | Change::Ledgers(_) => {}
        }
    }
}

/// A change of what neroman did about a run; `None` if nothing differs.
pub(crate) fn dispatch_changed(run: &Run, change: impl FnOnce(&mut Dispatch)) -> Option<Change> {
    let mut dispatch = run.dispatch.clone();
    change(&mut dispatch);
    (dispatch != run.dispatch).then(|| Change::Dispatch {
        run: run.made.id,
        dispatch: Box::new(dispatch),
        rules: None,
    })
}

/// An experiment without its runs.
#[derive(Clone, Debug)]
pub struct ExperimentRecord {
    pub id: ExperimentId,
    pub definition: Arc<Definition>,
    pub fingerprint: Arc<str>,
    pub source: u64,
    pub gone: bool,
    pub hidden_ms: Option<i64>,
    pub created_ms: i64,
    pub modified_ms: i64,
    /// The same moment on our boot clock; none if an earlier build stored it.
    pub modified: Option<Tick>,
    pub extra_rules: Arc<[u64]>,
    pub by_hand: Arc<PersonalMarks>,
}

impl ExperimentRecord {
    /// A new experiment of a source.
    pub fn new(id: ExperimentId, definition: Definition, source: u64, now_ms: i64) -> Self {
        Self {
            id,
            fingerprint: definition.fingerprint().into(),
            definition: Arc::new(definition),
            source,
            gone: false,
            hidden_ms: None,
            created_ms: now_ms,
            modified_ms: now_ms,
            modified: None,
            extra_rules: Arc::default(),
            by_hand: PersonalMarks::default().held(),
        }
    }

    /// An experiment as it is.
    pub fn of(experiment: &Experiment) -> Self {
        Self {
            id: experiment.id,
            definition: Arc::clone(&experiment.definition),
            fingerprint: Arc::clone(&experiment.fingerprint),
            source: experiment.source,
            gone: experiment.gone,
            hidden_ms: experiment.hidden_ms,
            created_ms: experiment.created_ms,
            modified_ms: experiment.modified_ms,
            modified: experiment.modified.clone(),
            extra_rules: Arc::clone(&experiment.extra_rules),
            by_hand: Arc::clone(&experiment.by_hand),
        }
    }
}

/// A run that is being made.
#[derive(Clone, Debug)]
pub struct NewRun {
    pub made: Arc<RunRecord>,
    pub dispatch: Dispatch,
    pub rules: Arc<[u64]>,
    /// The encoded `nero.v1.RunSpec` without rules; opaque here.
    pub spec: Arc<[u8]>,
}

/// A standing rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Rule {
    pub id: u64,
    /// `abort`, `warn`, `notify` ….
    pub action: String,
    /// What the action runs or sends: a command, the name of a signal; empty for the others.
    pub argument: String,
    /// Canonical expression.
    pub text: String,
    /// Pause between two firings while it holds; 0: the default of its place.
    pub repeat_ms: u64,
    pub author: String,
    /// `file:line:column`, or `rule add`.
    pub origin: String,
}

impl Rule {
    /// The rule of a definition, without an id yet.
    pub fn of(rule: &RuleDef, author: &str, origin: &str) -> Self {
        Self {
            id: 0,
            action: rule.action.as_str().to_owned(),
            argument: rule.argument.clone(),
            text: rule.text.clone(),
            repeat_ms: rule.repeat_ms,
            author: author.to_owned(),
            origin: origin.to_owned(),
        }
    }

    /// Whether both are the same but for their ids.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let other = Self {
            id: self.id,
            ..other.clone()
        };
        *self == other
    }
}
