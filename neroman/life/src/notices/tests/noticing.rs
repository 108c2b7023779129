//! Notices come once from their evidence, however often it is folded.

use std::collections::BTreeMap;
use std::sync::Arc;

use nero_journal::SegmentId;
use nero_model::{Phase, RunId};

use crate::facts::journal::{Incarnation, Journal, Key, Sample};
use crate::facts::mail::notice::NoticeKind;
use crate::fold::change::Change;
use crate::fold::records::{Notable, NotableKind};
use crate::fold::state::State;
use crate::notices::decide;
use crate::tests::lab::{Lab, definition, ended, run, running};

/// Runs of experiments, with what is noticed of them.
struct Noticing {
    lab: Lab,
}

impl Noticing {
    fn of_batch(experiments: u64) -> Self {
        let mut lab = Lab::default();
        let names = (1..=experiments).map(|n| definition(&format!("e{n}"), "1"));
        lab.add("/lab", names.collect());
        let ids: Vec<u64> = (1..=experiments).collect();
        lab.start_batch(&ids, false);
        Self { lab }
    }

    /// Takes what happened since a state, as a commit does; returns what is new.
    fn since(
        &mut self,
        before: &State,
        runs: &[RunId],
        notables: &[(RunId, Notable)],
    ) -> Vec<NoticeKind> {
        let mut by_run: BTreeMap<RunId, Vec<Notable>> = BTreeMap::new();
        for (run, notable) in notables {
            by_run.entry(*run).or_default().push(notable.clone());
        }
        let from = self.lab.state.post.next_notice();
        let changes = decide(
            before,
            &self.lab.state,
            runs.iter().copied(),
            &by_run,
            &|_| true,
            1000,
        );
        self.lab.take(changes);
        let notices = self.lab.state.post.notices.range(from..);
        notices.map(|(_, notice)| notice.kind.clone()).collect()
    }

    fn says(&mut self, id: RunId, incarnation: Incarnation) -> Vec<NoticeKind> {
        let before = self.lab.state.clone();
        self.lab.say(id, incarnation);
        self.since(&before, &[id], &[])
    }

    fn journal(&mut self, id: RunId, journal: Journal) -> Vec<NoticeKind> {
        let before = self.lab.state.clone();
        let journal = Arc::new(journal);
        self.lab.take(vec![Change::Journal { run: id, journal }]);
        self.since(&before, &[id], &[])
    }

    fn fires(&mut self, id: RunId, offset: u64) -> Vec<NoticeKind> {
        let before = self.lab.state.clone();
        self.since(&before, &[id], &[(id, fired(offset))])
    }
}

fn fired(offset: u64) -> Notable {
    Notable {
        incarnation: 1,
        segment: SegmentId([7; 8]),
        offset,
        at_ms: 10,
        kind: NotableKind::Fired {
            rule: "loss > 5".to_owned(),
            values: "loss = 6".to_owned(),
            is_asked: false,
        },
    }
}

fn ended_in(run: RunId, phase: Phase) -> NoticeKind {
    NoticeKind::Ended { run, phase }
}

#[test]
fn a_start_and_an_end_are_noticed_once_although_the_journal_is_folded_anew() {
    let id = run(1, 1);
    let mut noticing = Noticing::of_batch(1);
    assert_eq!(
        noticing.says(id, running()),
        [NoticeKind::Started { run: id }]
    );
    assert_eq!(noticing.says(id, running()), []);
    // A mismatch empties the journal, and its records come again.
    assert_eq!(noticing.journal(id, Journal::default()), []);
    assert_eq!(noticing.says(id, running()), []);
    assert_eq!(noticing.says(id, ended(0)), [ended_in(id, Phase::Finished)]);
    assert_eq!(noticing.journal(id, Journal::default()), []);
    assert_eq!(noticing.says(id, running()), []);
    assert_eq!(noticing.says(id, ended(0)), []);
}

#[test]
fn a_start_and_an_end_that_come_together_are_both_noticed() {
    let id = run(1, 1);
    let mut noticing = Noticing::of_batch(1);
    let found = noticing.says(id, ended(3));
    assert_eq!(
        found,
        [
            NoticeKind::Started { run: id },
            ended_in(id, Phase::Crashed)
        ]
    );
}

#[test]
fn a_loss_that_gives_way_to_an_end_is_followed_by_that_end() {
    use nero_journal::v1::lost;
    let id = run(1, 1);
    let lost = Incarnation {
        lost: Some(Box::new(crate::facts::journal::Lost {
            key: Key::default(),
            reason: lost::Reason::CodeUnknown.into(),
            detail: String::new(),
            at_ms: 9,
        })),
        ..running()
    };
    let mut noticing = Noticing::of_batch(1);
    noticing.says(id, running());
    assert_eq!(noticing.says(id, lost.clone()), [ended_in(id, Phase::Lost)]);
    assert_eq!(noticing.says(id, running()), []);
    assert_eq!(noticing.says(id, lost), [], "the same loss");
    assert_eq!(noticing.says(id, ended(0)), [ended_in(id, Phase::Finished)]);
}

#[test]
fn each_firing_is_noticed_by_its_place_in_the_journal() {
    let id = run(1, 1);
    let mut noticing = Noticing::of_batch(1);
    noticing.says(id, running());
    assert_eq!(noticing.fires(id, 100).len(), 1);
    assert_eq!(noticing.fires(id, 100), [], "folded anew");
    assert_eq!(noticing.fires(id, 200).len(), 1);
    assert_eq!(noticing.fires(id, 100), []);
}

#[test]
fn the_last_end_of_a_batch_brings_the_notice_that_all_is_done() {
    let mut noticing = Noticing::of_batch(3);
    for experiment in 1..=2 {
        let found = noticing.says(run(experiment, 1), ended(0));
        assert_eq!(found.len(), 2, "{found:?}");
    }
    let found = noticing.says(run(3, 1), ended(1));
    let batch = run(1, 1);
    assert_eq!(found.last(), Some(&NoticeKind::AllDone { batch }));
    noticing.journal(run(3, 1), Journal::default());
    assert_eq!(noticing.says(run(3, 1), ended(1)), []);
    // One run is no batch.
    let mut noticing = Noticing::of_batch(1);
    assert_eq!(noticing.says(batch, ended(0)).len(), 2);
}

#[test]
fn a_job_that_is_silent_and_computes_nothing_has_stalled() {
    let id = run(1, 1);
    let mut noticing = Noticing::of_batch(1);
    let sampled = |silent_ms, cpu_cores| {
        let mut journal = Journal::default();
        journal.incarnations.insert(1, running().into());
        journal.sample = Some(Box::new(Sample {
            key: (1, Key::default()),
            at_ms: 50,
            tick: None,
            cpu_cores,
            cpu_ms: 0,
            rss_bytes: 0,
            peak_rss_bytes: 0,
            written_bytes: 0,
            silent_ms,
            gpu: None,
            gpumem_bytes: None,
            gpu_power_w: None,
            gpu_temperature_c: None,
        }));
        journal
    };
    noticing.says(id, running());
    let hour_ms = 3_600_000;
    assert_eq!(
        noticing.journal(id, sampled(hour_ms, 1.0)),
        [],
        "it computes"
    );
    assert_eq!(
        noticing.journal(id, sampled(60_000, 0.0)),
        [],
        "it just printed"
    );
    let silent_ms = hour_ms;
    let stalled = NoticeKind::Stalled { run: id, silent_ms };
    assert_eq!(noticing.journal(id, sampled(hour_ms, 0.0)), [stalled]);
    assert_eq!(noticing.journal(id, sampled(2 * hour_ms, 0.0)), []);
}

#[test]
fn what_was_noticed_is_stored_with_the_run() {
    let id = run(1, 1);
    let mut noticing = Noticing::of_batch(1);
    noticing.fires(id, 100);
    noticing.says(id, ended(0));
    let one = noticing.lab.state.run(id).unwrap();
    let stored = serde_json::to_string(&crate::fold::row::DispatchRow::of(one)).unwrap();
    let kept: crate::fold::row::DispatchRow = serde_json::from_str(&stored).unwrap();
    let again = kept.run((*one.made).clone(), Arc::default(), Arc::default());
    assert_eq!(again.dispatch.noticed, one.dispatch.noticed, "{stored}");
}
