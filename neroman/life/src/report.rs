//! Reports of a node about a run that it has, and the changes that follow here.
//! Records of its journal come separately and count more.

use std::collections::BTreeMap;

use nero_model::RunId;

use super::change::Change;
use super::later;
use super::run::{Desk, Handing, Run, Unreadable, Word};
use super::state::State;
use super::withdrawal;

/// The stage of a run on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The run lies there and cannot be read now.
    Held,
    Waiting,
    Starting,
    Running,
    /// Every record except a watcher's was sent.
    Ended,
    /// Every record was sent.
    Settled,
    /// It was cancelled before it was started.
    TakenAway,
    /// The node accepted it, and can never start it.
    Refused,
    /// The node does not know the run.
    Unknown,
}

impl Standing {
    /// Whether nothing more of a closed run comes, whose points were asked for again.
    fn has_sent_all(self) -> bool {
        match self {
            Self::Settled | Self::TakenAway | Self::Refused | Self::Unknown => true,
            Self::Held | Self::Waiting | Self::Starting | Self::Running | Self::Ended => false,
        }
    }
}

/// A node's report about one run; its texts are bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub standing: Standing,
    /// The reason why it waits, was refused or given back, or the records of it
    /// that are gone.
    pub why: String,
    /// Whether its job goes on without a parent of ours.
    pub unsupervised: bool,
    /// The host on which it goes on, if that is not its neromum's host.
    pub host: String,
    /// Whether its job made no file and changed none.
    pub made_nothing: bool,
    /// Whether the node has no usable spec of it.
    pub send_spec: bool,
    /// The files of the run that the node cannot use.
    pub unreadable: Vec<Unreadable>,
}

/// A report that contradicts the known state of the run; it is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// The node does not know a run that it started.
    Forgotten,
    /// The node calls a run that was started never started.
    NeverStarted,
}

/// Records a node's report about a run.
pub(crate) fn heard(
    run: &Run,
    desk: &mut Desk,
    report: &Report,
    now_ms: i64,
) -> Option<Contradiction> {
    if report.standing != Standing::Unknown {
        desk.unknown_ms = None;
    }
    desk.send_spec = report.send_spec;
    desk.unreadable.clone_from(&report.unreadable);
    if report.standing == Standing::Held {
        // A held run cannot be read now: the report has no other news.
        desk.why.clone_from(&report.why);
        return None;
    }
    desk.unsupervised = report.unsupervised;
    desk.far_host.clone_from(&report.host);
    match report.standing {
        Standing::Waiting | Standing::Starting => {
            desk.handing = Handing::Pending;
            desk.why.clone_from(&report.why);
            later::taken(desk, run.node_word());
        }
        Standing::Running => {
            desk.handing = Handing::Pending;
            desk.withdraw = None;
            desk.why.clear();
        }
        Standing::Ended => {
            desk.ended_told = true;
            desk.made_nothing = report.made_nothing;
            desk.withdraw = None;
        }
        Standing::Settled => {
            desk.withdraw = None;
            desk.ended_told = true;
            desk.made_nothing = report.made_nothing;
            desk.settled = true;
            desk.missing.clone_from(&report.why);
            desk.handing = Handing::Pending;
        }
        // The node is asked for its promise, which is more precise.
        Standing::Unknown | Standing::TakenAway
            if desk.leaves() && run.journal.incarnations.is_empty() => {}
        Standing::Unknown => {
            // A node that lost the run lost the cancel with it.
            if let Some(cancel) = &mut desk.wish {
                cancel.delivered = false;
            }
            let live = run.phase().is_live();
            let began = !run.journal.incarnations.is_empty();
            if live && !began && desk.wish.is_some() {
                // It is being cancelled, and no node has it.
                desk.word = Some(Word::TakenAway {
                    who: desk.who(),
                    at_ms: now_ms,
                });
            } else if live && !began {
                desk.handing = Handing::Queued;
                desk.offered = false;
                desk.rules_delivered = 0;
                desk.why.clone_from(&report.why);
                later::taken(desk, run.node_word());
            } else if live {
                desk.unknown_ms = Some(now_ms);
                return Some(Contradiction::Forgotten);
            }
        }
        // The run's journal counts more than any report.
        Standing::TakenAway | Standing::Refused if has_run(run) => {
            return Some(Contradiction::NeverStarted);
        }
        Standing::TakenAway => {
            desk.word = Some(Word::TakenAway {
                who: desk.who(),
                at_ms: now_ms,
            });
        }
        Standing::Refused => withdrawal::refused(run, desk, report.why.clone(), now_ms),
        Standing::Held => {}
    }
    None
}

/// Records that its node answers that it does not know the run.
pub(crate) fn unknown(run: &Run, desk: &mut Desk, now_ms: i64) {
    let report = Report {
        standing: Standing::Unknown,
        why: String::new(),
        unsupervised: false,
        host: String::new(),
        made_nothing: false,
        send_spec: false,
        unreadable: Vec::new(),
    };
    // The same contradiction comes as a report, and is logged then.
    heard(run, desk, &report, now_ms);
}

/// What reports of a node change of the runs that are on it still, and which of them
/// contradict what is known. A run may be reported twice: the later report counts on
/// top of the earlier one.
pub fn said(
    state: &State,
    node: &str,
    reports: &[(RunId, Report)],
    now_ms: i64,
) -> (Vec<Change>, Vec<(RunId, Contradiction)>) {
    let mut desks: BTreeMap<RunId, Desk> = BTreeMap::new();
    let (mut events, mut contradictions) = (Vec::new(), Vec::new());
    for (id, report) in reports {
        let here = |run: &&Run| run.open() && run.node() == Some(node);
        let Some(run) = state.run(*id).filter(here) else {
            continue;
        };
        let desk = desks.entry(*id).or_insert_with(|| run.desk.clone());
        if run.desk.closed {
            desk.points_again &= !report.standing.has_sent_all();
            continue;
        }
        let contradiction = heard(run, desk, report, now_ms);
        contradictions.extend(contradiction.map(|one| (*id, one)));
        if report.standing == Standing::Unknown && !report.why.is_empty() {
            let why = &report.why;
            events.push(Change::Event {
                experiment: id.experiment,
                run: Some(id.number),
                at_ms: now_ms,
                text: format!("{id}: given back by {node}, and sent there again: {why}"),
            });
        }
    }
    let changed = |(run, desk): (RunId, Desk)| {
        let differs = state.run(run).is_some_and(|known| known.desk != desk);
        differs.then(|| Change::Desk {
            run,
            desk: Box::new(desk),
            rules: None,
        })
    };
    let changes = desks.into_iter().filter_map(changed).chain(events);
    (changes.collect(), contradictions)
}

/// Whether its job was started, by the newest start in its journal.
fn has_run(run: &Run) -> bool {
    let newest = run.journal.newest();
    newest.is_some_and(|(_, one)| one.started_ms.is_some() && one.not_started.is_none())
}

/// A run that a node reports although it is no longer the node's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// The run is over: the node missed that it may forget the run.
    Over,
    /// The node goes on with it: it got there after it was ended here, or was
    /// given up.
    Live,
}

/// The meaning of a report for a run that is ended or closed here, or elsewhere
/// now.
pub fn stray(run: &Run, node: &str, standing: Standing) -> Option<Stray> {
    let elsewhere = run.node() != Some(node);
    match standing {
        Standing::Settled | Standing::TakenAway | Standing::Refused
            if elsewhere || run.desk.closed =>
        {
            Some(Stray::Over)
        }
        // If only its records ended the run, the report may be older than they
        // are.
        Standing::Waiting | Standing::Starting | Standing::Running
            if elsewhere || run.desk.word.is_some() =>
        {
            Some(Stray::Live)
        }
        Standing::Waiting
        | Standing::Starting
        | Standing::Running
        | Standing::Ended
        | Standing::Settled
        | Standing::TakenAway
        | Standing::Refused
        | Standing::Unknown
        | Standing::Held => None,
    }
}
