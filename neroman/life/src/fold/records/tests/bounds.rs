//! The limits on facts from a node that sends without end.

use nero_journal::v1::RecordKind;
use nero_journal::{SegmentId, Writer};
use nero_model::Phase;

use crate::fold::outcome::judge;
use crate::fold::records::observation::NAMES_MAX;
use crate::fold::records::tests::{Builder, Folder, metrics, segments};
use crate::fold::records::{FoldResult, SEGMENTS_MAX};
use crate::fold::run::Dispatch;

/// A watcher that sends these series.
fn watcher(number: u64, names: &[&str]) -> Builder {
    let id = SegmentId(number.to_be_bytes());
    Builder::named(Writer::Watcher, id, 1, number)
        .with(RecordKind::Metrics, &metrics(names, &[0], &[1.0]))
        .with(RecordKind::Metrics, &metrics(&[], &[0], &[2.0]))
}

#[test]
fn segments_without_end_are_not_kept_and_the_end_of_the_run_is() {
    let mut folder = Folder::default();
    let number = |index: usize| (1 << 32) + index as u64;
    for index in 0..SEGMENTS_MAX {
        let one = watcher(number(index), &["loss"]);
        assert_eq!(folder.take(&one.part(0, 2)), FoldResult::Took);
    }
    assert!(folder.journal.warnings().is_empty());
    let more = watcher(number(SEGMENTS_MAX), &["loss"]);
    assert_eq!(folder.take(&more.part(0, 2)), FoldResult::Full);
    assert_eq!(folder.take(&more.part(2, 3)), FoldResult::Full);
    let first = watcher(number(0), &["loss"]);
    assert_eq!(folder.take(&first.part(2, 3)), FoldResult::Took);
    for other in &segments(0)[..2] {
        assert_eq!(
            folder.take(&other.part(0, other.cuts.len())),
            FoldResult::Took
        );
    }
    let kept = &folder.journal;
    assert_eq!(kept.segments.len(), SEGMENTS_MAX + 2);
    assert_eq!(judge(&Dispatch::default(), kept).phase, Phase::Finished);
    assert_eq!(kept.metrics["loss"].count, SEGMENTS_MAX as u64 + 1);
    let told =
        "this run has more segments or metric names than neroman keeps: points may be missing";
    assert_eq!(kept.warnings(), [told]);
}

#[test]
fn names_without_end_are_not_kept() {
    let mut folder = Folder::default();
    let names: Vec<String> = (0..5000).map(|index| format!("{index:x}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for number in 0..NAMES_MAX as u64 / 5000 + 2 {
        let one = watcher((1 << 32) + number, &names);
        assert_eq!(folder.take(&one.part(0, 3)), FoldResult::Took);
    }
    let kept = &folder.journal;
    let held: usize = kept.segments.values().map(|one| one.names.len()).sum();
    assert_eq!((held, kept.overflows), (NAMES_MAX, true));
}
