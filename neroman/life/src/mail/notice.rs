//! Decides notices. Each is made once from its evidence: a run remembers what was noticed of it
//! ([`Noticed`]), and that survives its journal, which may be folded anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nero_journal::SegmentId;
use nero_model::{Phase, RunId, RunToken, ids::hex};
use serde::{Deserialize, Serialize};

use super::post::PostChange;
use crate::change::{Change, dispatch_changed};
use crate::fold::{Notable, NotableKind};
use crate::journal::Journal;
use crate::run::Run;
use crate::state::State;

/// A running job that printed nothing for this long and computes nothing has stalled.
const STALL_MS: u64 = 30 * 60 * 1000;
/// Fewer processors keep no job busy.
const STALL_CORES: f64 = 0.05;

/// Something that a person may be told of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Counts up; not kept beyond the notice.
    #[serde(skip)]
    pub id: u64,
    /// The evidence as text: no two notices have the same.
    pub key: String,
    /// When it happened, by the clock of its machine.
    pub at_ms: i64,
    /// When it was decided, by ours.
    pub decided_ms: i64,
    pub kind: NoticeKind,
    /// Whether webhook and command have it; only mail waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub called: bool,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    Started {
        run: RunId,
    },
    /// The run ended in this phase.
    Ended {
        run: RunId,
        phase: Phase,
    },
    /// A rule that does not end the run fired.
    Fired {
        run: RunId,
        rule: String,
        values: String,
    },
    /// A watcher remarked something.
    Remark {
        run: RunId,
        text: String,
    },
    Stalled {
        run: RunId,
        silent_ms: u64,
    },
    NodeAway {
        node: String,
        since_ms: i64,
        why: String,
    },
    NodeBack {
        node: String,
        since_ms: i64,
    },
    /// Every run of the batch that begins with this run has ended.
    AllDone {
        batch: RunId,
    },
}

impl NoticeKind {
    /// The run that it is about, or the first one of its batch.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Started { run }
            | Self::Ended { run, .. }
            | Self::Fired { run, .. }
            | Self::Remark { run, .. }
            | Self::Stalled { run, .. }
            | Self::AllDone { batch: run } => Some(*run),
            Self::NodeAway { .. } | Self::NodeBack { .. } => None,
        }
    }
}

/// What was noticed of a run, by its evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Noticed {
    /// The newest start.
    #[serde(skip_serializing_if = "is_zero")]
    started: u32,
    /// The newest start with its end. A loss gives way to another end.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<(u32, Phase)>,
    /// The newest start that stalled.
    #[serde(skip_serializing_if = "is_zero")]
    stalled: u32,
    /// Of the first run of a batch: that all have ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    all_done: bool,
    /// The recipients whom its node told of the end while neroman was away.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    relayed: BTreeSet<String>,
    /// Segment → offset of the last record.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    records: BTreeMap<String, u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Noticed {
    /// Whether nothing was noticed.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The recipients whom its node told of the end.
    pub fn relayed(&self) -> &BTreeSet<String> {
        &self.relayed
    }

    /// Whether a record is news, which it is once.
    fn takes(&mut self, segment: SegmentId, offset: u64) -> bool {
        let last = self.records.get(&segment.to_string());
        let is_news = last.is_none_or(|last| *last < offset);
        if is_news {
            self.records.insert(segment.to_string(), offset);
        }
        is_news
    }
}

/// The notices about runs that changed between two states, as changes. `notables`: the records
/// that were folded between them and may concern people. `wants`: whether anybody wants to hear of
/// such a thing now; what nobody wants is neither kept nor remembered.
pub fn decide(
    before: &State,
    after: &State,
    changed: impl IntoIterator<Item = RunId>,
    notables: &BTreeMap<RunId, Vec<Notable>>,
    wants: &dyn Fn(&NoticeKind) -> bool,
    now_ms: i64,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut found = Vec::new();
    let mut ended_batches = Vec::new();
    for id in changed {
        let Some(run) = after.run(id).filter(|run| !run.is_unread()) else {
            continue;
        };
        let earlier = before.run(id);
        let mut noticed = run.dispatch.noticed.clone();
        let records = notables.get(&id).map_or(&[][..], Vec::as_slice);
        found.extend(of_run(earlier, run, records, wants, &mut noticed));
        let has_ended_now = run.has_ended() && !earlier.is_some_and(Run::has_ended);
        ended_batches.extend(run.made.batch.filter(|_| has_ended_now));
        if noticed != run.dispatch.noticed {
            changes.extend(dispatch_changed(run, |dispatch| dispatch.noticed = noticed));
        }
    }
    ended_batches.sort_unstable();
    ended_batches.dedup();
    for batch in ended_batches {
        let done = all_done(after, batch, &changes);
        if let Some((notice, change)) = done.filter(|((_, _, kind), _)| wants(kind)) {
            found.push(notice);
            changes.push(change);
        }
    }
    changes.extend(notices(after, found, now_ms));
    changes
}

/// The change that a run's node told these recipients of its end, if that is news.
pub fn relayed(run: &Run, to: &[&str]) -> Option<Change> {
    dispatch_changed(run, |dispatch| {
        let to = to.iter().map(|to| (*to).to_owned());
        dispatch.noticed.relayed.extend(to);
    })
}

/// A notice before it has its number: key, time, kind.
pub type FoundNotice = (String, i64, NoticeKind);

/// The change that adds these notices.
pub fn notices(state: &State, found: Vec<FoundNotice>, now_ms: i64) -> Option<Change> {
    let ids = state.post.next_notice()..;
    let notices: Vec<Notice> = ids
        .zip(found)
        .map(|(id, (key, at_ms, kind))| Notice {
            id,
            key,
            at_ms,
            decided_ms: now_ms,
            kind,
            called: false,
        })
        .collect();
    (!notices.is_empty()).then(|| {
        Change::Post(Arc::new(PostChange {
            notices: notices.into_iter().map(Arc::new).collect(),
            ..PostChange::default()
        }))
    })
}

fn of_run(
    before: Option<&Run>,
    after: &Run,
    records: &[Notable],
    wants: &dyn Fn(&NoticeKind) -> bool,
    noticed: &mut Noticed,
) -> Vec<FoundNotice> {
    let run = after.made.id;
    let mut found = Vec::new();
    let newest = after.journal.newest();
    let start = newest.map_or(0, |(number, _)| number);
    let key = |word: &str| key(&after.made.token, start, word);
    if let Some((_, incarnation)) = newest
        && let Some(at_ms) = incarnation.started_ms
        && start > noticed.started
        && !before.is_some_and(|before| started(&before.journal, start))
        && wants(&NoticeKind::Started { run })
    {
        noticed.started = start;
        found.push((key("started"), at_ms, NoticeKind::Started { run }));
    }
    for record in records {
        let word = format!("{}/{}", record.segment, record.offset);
        let key = self::key(&after.made.token, record.incarnation, &word);
        let kind = match record.kind.clone() {
            NotableKind::Fired { rule, values } => NoticeKind::Fired { run, rule, values },
            NotableKind::Remark(text) => NoticeKind::Remark { run, text },
        };
        if wants(&kind) && noticed.takes(record.segment, record.offset) {
            found.push((key, record.at_ms, kind));
        }
    }
    if let Some(silent_ms) = stalled(after, start)
        && start > noticed.stalled
        && wants(&NoticeKind::Stalled { run, silent_ms })
    {
        noticed.stalled = start;
        let at_ms = after.journal.sample.as_ref().map_or(0, |one| one.at_ms);
        found.push((
            key("stalled"),
            at_ms,
            NoticeKind::Stalled { run, silent_ms },
        ));
    }
    let phase = after.phase();
    let is_news = before.is_none_or(|before| before.phase() != phase);
    let kind = NoticeKind::Ended { run, phase };
    if phase.is_end() && is_news && noticed.ended != Some((start, phase)) && wants(&kind) {
        noticed.ended = Some((start, phase));
        let at_ms = after.outcome.ended_ms.unwrap_or(0);
        found.push((key(phase.word()), at_ms, kind));
    }
    found
}

/// The key of the notice that a rule of the daemon fired.
pub(crate) fn rule_key(run: &Run, rule: u64, times: u32) -> String {
    key(&run.made.token, 0, &format!("rule {rule}/{times}"))
}

fn key(token: &RunToken, start: u32, word: &str) -> String {
    format!("{}/{start}/{word}", hex(token.as_bytes()))
}

fn started(journal: &Journal, start: u32) -> bool {
    let one = journal.incarnations.get(&start);
    one.is_some_and(|one| one.started_ms.is_some())
}

/// For how long the job of a running start has been silent and idle, if it stalls.
fn stalled(run: &Run, start: u32) -> Option<u64> {
    let sample = run.journal.sample.as_ref()?;
    let (_, newest) = run.journal.newest()?;
    let stalls = run.phase() == Phase::Running
        && newest.pause().is_none()
        && sample.key.0 == start
        && sample.silent_ms >= STALL_MS
        && sample.cpu_cores < STALL_CORES;
    stalls.then_some(sample.silent_ms)
}

/// The notice that all runs of a batch have ended, and what its first run remembers of it.
/// Runs that neroman made by itself belong to their batch, too.
fn all_done(state: &State, batch: RunId, changes: &[Change]) -> Option<(FoundNotice, Change)> {
    let count = state.batch(batch);
    let first = state.run(batch)?;
    let is_complete = count.runs > 1 && count.ended == count.runs;
    if !is_complete || first.dispatch.noticed.all_done {
        return None;
    }
    let mut ended_ms = 0;
    for run in crate::batch::members(state, batch) {
        if run.phase().is_live() || run.in_doubt() {
            return None;
        }
        ended_ms = ended_ms.max(run.outcome.ended_ms.unwrap_or(0));
    }
    let mut first = first.clone();
    // What was just noticed of it stays.
    let own = changes.iter().filter(|change| change.run() == Some(batch));
    own.for_each(|change| first.take(change));
    let change = dispatch_changed(&first, |dispatch| dispatch.noticed.all_done = true)?;
    let key = key(&first.made.token, 0, "all done");
    Some(((key, ended_ms, NoticeKind::AllDone { batch }), change))
}
