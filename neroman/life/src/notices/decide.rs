//! Decides notices. Each is made once from its evidence: a run remembers what was noticed of it
//! ([`NoticeFacts`]), and that survives its journal, which may be folded anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use nero_model::{Phase, RunId};

use crate::facts::journal::Journal;
use crate::facts::mail::notice::{FoundNotice, Notice, NoticeFacts, NoticeKind, key};
use crate::facts::mail::post::PostChange;
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::records::{Notable, NotableKind};
use crate::fold::run::Run;
use crate::fold::state::State;

/// A running job that printed nothing for this long and computes nothing has stalled.
const STALL_MS: u64 = 30 * 60 * 1000;
/// Fewer processors keep no job busy.
const STALL_CORES: f64 = 0.05;

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
    noticed: &mut NoticeFacts,
) -> Vec<FoundNotice> {
    let run = after.made.id;
    let mut found = Vec::new();
    let newest = after.journal.newest();
    let start = newest.map_or(0, |(number, _)| number);
    let key_of = |word: &str| key(&after.made.token, start, word);
    if let Some((_, incarnation)) = newest
        && let Some(at_ms) = incarnation.started_ms
        && start > noticed.started
        && !before.is_some_and(|before| started(&before.journal, start))
        && wants(&NoticeKind::Started { run })
    {
        noticed.started = start;
        found.push((key_of("started"), at_ms, NoticeKind::Started { run }));
    }
    for record in records {
        let word = format!("{}/{}", record.segment, record.offset);
        let key = key(&after.made.token, record.incarnation, &word);
        let kind = match record.kind.clone() {
            NotableKind::Fired {
                rule,
                values,
                is_asked,
            } => NoticeKind::Fired {
                run,
                rule,
                values,
                is_asked,
            },
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
            key_of("stalled"),
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
        found.push((key_of(phase.as_str()), at_ms, kind));
    }
    found
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
    for run in state.batch_runs(batch) {
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
