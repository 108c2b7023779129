//! The facts of a run from its segments, and parts that are refused.

use nero_journal::Writer;
use nero_journal::v1::{self, RecordKind};
use nero_model::{EndReason, Phase, RunToken};

use crate::fold::outcome::judge;
use crate::fold::records::tests::{Builder, Folder, metrics, segments, whole};
use crate::fold::records::{FoldOutput, FoldResult, Journal};
use crate::fold::run::Dispatch;

#[test]
fn a_run_is_folded_from_its_segments() {
    let folder = whole(&segments(3));
    let outcome = judge(&Dispatch::default(), &folder.journal);
    assert_eq!(outcome.phase, Phase::Crashed);
    assert_eq!(outcome.reason, Some(EndReason::Exited { code: 3 }));
    let loss = &folder.journal.metrics["loss"];
    assert_eq!(
        (loss.last, loss.min, loss.max, loss.count),
        (2.0, 2.0, 3.0, 3)
    );
    let acc = &folder.journal.metrics["acc"];
    assert!(acc.last.is_nan() && acc.max == 0.3 && acc.count == 4);
    assert_eq!(folder.journal.sample.as_ref().unwrap().rss_bytes, 20);
    assert_eq!(
        folder.journal.warnings(),
        ["rule `loss > 1` (loss = 2)", "one", "two"]
    );
    assert_eq!(folder.taken.points.len(), 7);
    assert_eq!(folder.taken.samples.len(), 2);
}

#[test]
fn a_start_whose_record_cannot_be_decoded_has_no_time() {
    let foreign = v1::Notice::of("x");
    let segment = Builder::new(Writer::Shim, 1, 1, 1).with(RecordKind::JobStarted, &foreign);
    let journal = whole(&[segment]).journal;
    assert_eq!(journal.damaged_records, 1);
    let start = &journal.incarnations[&1];
    assert_eq!((start.started_ms, &start.started), (None, &None));
}

#[test]
fn the_newest_progress_of_the_newest_start_counts() {
    let progress = |done, ran_ms| v1::Progress {
        done,
        ran_ms,
        left_ms: Some(ran_ms * 2),
        source: 1,
    };
    let tells = |id, incarnation, told: &[v1::Progress]| {
        let made_ns = u64::from(id) * 1_000_000_000;
        let begin = Builder::new(Writer::Watcher, id, incarnation, made_ns);
        let kind = RecordKind::Progress;
        told.iter()
            .fold(begin, |builder, one| builder.with(kind, one))
    };
    let starts = |id, incarnation| {
        Builder::new(Writer::Shim, id, incarnation, u64::from(id))
            .with(RecordKind::JobStarted, &v1::JobStarted::default())
    };
    let first = [
        starts(1, 1),
        tells(
            2,
            1,
            &[progress(0.5, 10), progress(0.75, 20), progress(7.0, 30)],
        ),
    ];
    let folder = whole(&first);
    let told = folder.journal.progress().unwrap();
    assert_eq!((told.done, told.ran_ms, told.left_ms), (0.75, 20, Some(40)));
    // The next start has told nothing yet.
    let [one, two] = first;
    let mut all = vec![starts(3, 2), one, two];
    assert_eq!(whole(&all).journal.progress(), None);
    all.insert(1, tells(4, 2, &[progress(0.25, 5)]));
    assert_eq!(whole(&all).journal.progress().unwrap().done, 0.25);
    all.reverse();
    assert_eq!(whole(&all).journal.progress().unwrap().done, 0.25);
}

#[test]
fn facts_survive_their_stored_form() {
    let folder = whole(&segments(0));
    let json = serde_json::to_string(&folder.journal).unwrap();
    let back: Journal = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), json);
    assert_eq!(back.segments, folder.journal.segments);
}

#[test]
fn parts_that_do_not_fit_are_told_apart() {
    let segments = segments(0);
    let mut folder = Folder::default();
    let shim = &segments[0];
    assert_eq!(folder.take(&shim.part(1, 2)), FoldResult::Gap);
    assert_eq!(folder.take(&shim.part(0, 2)), FoldResult::Took);
    assert_eq!(folder.take(&shim.part(0, 2)), FoldResult::Nothing);
    // The same name with other content.
    let other = Builder::new(Writer::Shim, 1, 1, 100)
        .with(
            RecordKind::Claimed,
            &v1::Claimed {
                time_limit_ms: 9,
                ..v1::Claimed::default()
            },
        )
        .with(RecordKind::JobStarted, &v1::JobStarted::default())
        .with(RecordKind::JobStarted, &v1::JobStarted::default());
    assert_eq!(folder.take(&other.part(0, 4)), FoldResult::Mismatch);
    // A part of another run, or of no segment at all.
    let mut strange = shim.part(0, 2);
    strange.token = RunToken::from_bytes([8; 16]);
    assert_eq!(folder.take(&strange), FoldResult::Refused);
    let mut garbage = shim.part(0, 2);
    garbage.data = b"garbage";
    assert_eq!(folder.take(&garbage), FoldResult::Refused);
}

#[test]
fn the_series_may_lag_behind_the_facts_and_catch_up() {
    let segments = segments(0);
    let mut folder = whole(&segments);
    let (facts, points) = (folder.journal.clone(), folder.points());
    // The database of series was lost: all parts come again.
    folder.series.clear();
    folder.taken = FoldOutput::default();
    for segment in &segments {
        folder.take(&segment.part(0, segment.cuts.len()));
    }
    assert_eq!(format!("{facts:?}"), format!("{:?}", folder.journal));
    assert_eq!(points, folder.points());
}

#[test]
fn points_of_a_later_start_have_a_later_generation() {
    let mut folder = Folder::default();
    let mut generations = Vec::new();
    for (id, incarnation) in [(1, 2), (2, 1)] {
        let segment = Builder::new(Writer::Watcher, id, incarnation, 1)
            .with(RecordKind::Metrics, &metrics(&["loss"], &[0], &[0.5]));
        folder.take(&segment.part(0, segment.cuts.len()));
        generations.extend(folder.taken.points.last().map(|point| point.generation));
    }
    assert!(generations[0] > generations[1], "{generations:?}");
}

#[test]
fn the_times_of_a_rule_s_newest_firings_are_kept_each_once() {
    let fired = |times| v1::RuleFired {
        rule: 9,
        times,
        ..v1::RuleFired::default()
    };
    let mut first = Builder::new(Writer::Watcher, 3, 1, 1_000);
    for times in 1..=150 {
        first = first.with(RecordKind::RuleFired, &fired(times));
    }
    // The watcher that took over tells the last one once more.
    let second = Builder::new(Writer::Watcher, 4, 1, 40_000_000)
        .with(RecordKind::RuleFired, &fired(150))
        .with(RecordKind::RuleFired, &fired(151));
    let facts = |segments: &[Builder]| whole(segments).journal.rules[&9].clone();
    let mut segments = [first, second];
    let told = facts(&segments);
    assert_eq!((told.fired, told.firings.len()), (151, 100));
    assert_eq!(told.firings.first_key_value().unwrap().0, &52);
    segments.reverse();
    assert_eq!(told, facts(&segments));
}
