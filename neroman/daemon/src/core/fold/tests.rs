//! Folding: any cut, order of segments and repeat of parts gives the same.

use std::collections::HashMap;

use nero_journal::v1::{self, RecordKind};
use nero_journal::{Encoder, HEADER_BYTES, SegmentId, Writer, encode_header};
use nero_model::{EndReason, Phase, RunToken};
use proptest::prelude::*;
use proptest::sample::Index;

use super::apply::NAMES_MAX;
use super::*;
use crate::core::outcome::judge;
use crate::core::run::{Desk, Handing};

const TOKEN: [u8; 16] = [7; 16];

/// A segment under construction.
struct Builder {
    bytes: Vec<u8>,
    encoder: Encoder,
    /// Offsets between records, the header's end first, with chain values.
    cuts: Vec<(usize, u32)>,
    id: SegmentId,
    incarnation: u32,
    clock_ns: u64,
}

impl Builder {
    fn new(writer: Writer, id: u8, incarnation: u32, made_ns: u64) -> Self {
        Self::named(writer, SegmentId([id; 8]), incarnation, made_ns)
    }

    fn named(writer: Writer, id: SegmentId, incarnation: u32, made_ns: u64) -> Self {
        let mut head = [0; HEADER_BYTES];
        let wall = 1_000_000_000_000_000 + made_ns as i64;
        let encoder = encode_header(
            &mut head,
            writer,
            id,
            &TOKEN,
            incarnation,
            &[1; 16],
            wall,
            made_ns,
        );
        Self {
            bytes: head.to_vec(),
            cuts: vec![(HEADER_BYTES, encoder.chain)],
            encoder,
            id,
            incarnation,
            clock_ns: made_ns,
        }
    }

    fn with(mut self, kind: RecordKind, message: &impl prost::Message) -> Self {
        let mut out = vec![0; message.encoded_len() + 64];
        self.clock_ns += 1_000_000;
        let length = self
            .encoder
            .record(
                &mut out,
                kind as i32,
                1_000_000_000_000_000 + self.clock_ns as i64,
                self.clock_ns,
                message,
            )
            .unwrap();
        self.bytes.extend_from_slice(&out[..length]);
        self.cuts.push((self.bytes.len(), self.encoder.chain));
        self
    }

    /// The part from one cut to another; cut 0 is the beginning of the file.
    fn part(&self, from: usize, to: usize) -> Part<'_> {
        let (offset, chain) = match from {
            0 => (0, 0),
            other => self.cuts[other - 1],
        };
        Part {
            token: RunToken::from_bytes(TOKEN),
            incarnation: self.incarnation,
            segment: self.id,
            offset: offset as u64,
            data: &self.bytes[offset..self.cuts[to - 1].0],
            chain,
        }
    }
}

#[derive(Default)]
struct Folder {
    journal: Journal,
    series: HashMap<SegmentId, Position>,
    taken: Taken,
}

impl Folder {
    fn take(&mut self, part: &Part<'_>) -> Folded {
        let series = self.series.entry(part.segment).or_default();
        fold(&mut self.journal, part, series, &mut self.taken)
    }

    /// Points by series, in the order in which they were taken.
    fn points(&self) -> HashMap<String, Vec<(u64, u64)>> {
        let mut all: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
        for point in &self.taken.points {
            all.entry(point.name.clone())
                .or_default()
                .push((point.step.to_bits(), point.value.to_bits()));
        }
        for points in all.values_mut() {
            points.sort_unstable();
        }
        all
    }
}

fn metrics(names: &[&str], series: &[u32], values: &[f64]) -> v1::Metrics {
    v1::Metrics {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        series: series.to_vec(),
        steps: (0..values.len()).map(|step| step as f64).collect(),
        values: values.to_vec(),
        mono_ms: vec![5; values.len()],
        ..v1::Metrics::default()
    }
}

/// A run with all sorts of writers: its shim was killed, the launcher went on.
fn segments(code: i32) -> Vec<Builder> {
    let sample = |rss_bytes| v1::Sample {
        rss_bytes,
        ..v1::Sample::default()
    };
    let shim = Builder::new(Writer::Shim, 1, 1, 100)
        .with(RecordKind::Claimed, &v1::Claimed::default())
        .with(RecordKind::JobStarted, &v1::JobStarted::default());
    let launcher = Builder::new(Writer::Launcher, 2, 1, 50_000_000)
        .with(RecordKind::TakenOver, &v1::TakenOver::default())
        .with(
            RecordKind::JobExited,
            &v1::JobExited {
                code,
                run_ms: 70,
                ..v1::JobExited::default()
            },
        )
        .with(RecordKind::TreeGone, &v1::TreeGone::default());
    let first = Builder::new(Writer::Watcher, 3, 1, 1_000)
        .with(RecordKind::WatchStarted, &v1::WatchStarted::default())
        .with(
            RecordKind::Metrics,
            &metrics(&["loss", "acc"], &[0, 1, 0], &[3.0, 0.1, 2.5]),
        )
        .with(RecordKind::Sample, &sample(10))
        .with(RecordKind::Notice, &v1::Notice { text: "one".into() });
    let second = Builder::new(Writer::Watcher, 4, 1, 40_000_000)
        .with(
            RecordKind::Metrics,
            &metrics(&["acc"], &[0, 0], &[0.2, 0.3]),
        )
        .with(
            RecordKind::Metrics,
            &metrics(&["loss"], &[1, 0], &[2.0, f64::NAN]),
        )
        .with(
            RecordKind::RuleFired,
            &v1::RuleFired {
                rule: 9,
                action: "warn".into(),
                text: "loss > 1".into(),
                values: "loss = 2".into(),
                times: 1,
                ..v1::RuleFired::default()
            },
        )
        .with(RecordKind::Sample, &sample(20))
        .with(RecordKind::Notice, &v1::Notice { text: "two".into() });
    vec![shim, launcher, first, second]
}

fn whole(segments: &[Builder]) -> Folder {
    let mut folder = Folder::default();
    for segment in segments {
        let part = segment.part(0, segment.cuts.len());
        assert_eq!(folder.take(&part), Folded::Took);
    }
    folder
}

#[test]
fn a_run_is_folded_from_its_segments() {
    let folder = whole(&segments(3));
    let outcome = judge(&Desk::default(), &folder.journal);
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
fn facts_survive_their_stored_form() {
    let folder = whole(&segments(0));
    let json = serde_json::to_string(&folder.journal).unwrap();
    let back: Journal = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), json);
    assert_eq!(back.segments, folder.journal.segments);
}

#[test]
fn what_does_not_belong_is_told_apart() {
    let segments = segments(0);
    let mut folder = Folder::default();
    let shim = &segments[0];
    assert_eq!(folder.take(&shim.part(1, 2)), Folded::Gap);
    assert_eq!(folder.take(&shim.part(0, 2)), Folded::Took);
    assert_eq!(folder.take(&shim.part(0, 2)), Folded::Nothing);
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
    assert_eq!(folder.take(&other.part(0, 4)), Folded::Mismatch);
    // Of another run, or no segment at all.
    let mut strange = shim.part(0, 2);
    strange.token = RunToken::from_bytes([8; 16]);
    assert_eq!(folder.take(&strange), Folded::Refused);
    let mut garbage = shim.part(0, 2);
    garbage.data = b"garbage";
    assert_eq!(folder.take(&garbage), Folded::Refused);
}

/// A watcher that tells these series.
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
        assert_eq!(folder.take(&one.part(0, 2)), Folded::Took);
    }
    assert!(folder.journal.warnings().is_empty());
    let more = watcher(number(SEGMENTS_MAX), &["loss"]);
    assert_eq!(folder.take(&more.part(0, 2)), Folded::Full);
    assert_eq!(folder.take(&more.part(2, 3)), Folded::Full);
    let first = watcher(number(0), &["loss"]);
    assert_eq!(folder.take(&first.part(2, 3)), Folded::Took);
    for other in &segments(0)[..2] {
        assert_eq!(folder.take(&other.part(0, other.cuts.len())), Folded::Took);
    }
    let kept = &folder.journal;
    assert_eq!(kept.segments.len(), SEGMENTS_MAX + 2);
    assert_eq!(judge(&Desk::default(), kept).phase, Phase::Finished);
    assert_eq!(kept.metrics["loss"].count, SEGMENTS_MAX as u64 + 1);
    let told = "its node tells more of it than is kept: points may be missing";
    assert_eq!(kept.warnings(), [told]);
}

#[test]
fn names_without_end_are_not_kept() {
    let mut folder = Folder::default();
    let names: Vec<String> = (0..5000).map(|index| format!("{index:x}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for number in 0..NAMES_MAX as u64 / 5000 + 2 {
        let one = watcher((1 << 32) + number, &names);
        assert_eq!(folder.take(&one.part(0, 3)), Folded::Took);
    }
    let kept = &folder.journal;
    let held: usize = kept.segments.values().map(|one| one.names.len()).sum();
    assert_eq!((held, kept.overflows), (NAMES_MAX, true));
}

#[test]
fn the_series_may_lag_behind_the_facts_and_catch_up() {
    let segments = segments(0);
    let mut folder = whole(&segments);
    let (facts, points) = (folder.journal.clone(), folder.points());
    // The database of series was lost: everything comes again.
    folder.series.clear();
    folder.taken = Taken::default();
    for segment in &segments {
        folder.take(&segment.part(0, segment.cuts.len()));
    }
    assert_eq!(format!("{facts:?}"), format!("{:?}", folder.journal));
    assert_eq!(points, folder.points());
}

/// How each way of ending is judged.
#[test]
fn ends_are_judged_by_their_records() {
    let exited = |code, signal| v1::JobExited {
        code,
        signal,
        ..v1::JobExited::default()
    };
    let stop = |cause: v1::StopCause| v1::StopAsked {
        cause: cause.into(),
        ..v1::StopAsked::default()
    };
    let not = |stage: v1::job_not_started::Stage| v1::JobNotStarted {
        stage: stage.into(),
        errno: 2,
    };
    use v1::job_not_started::Stage;
    let begun = || {
        Builder::new(Writer::Shim, 1, 1, 1)
            .with(
                RecordKind::Claimed,
                &v1::Claimed {
                    time_limit_ms: 5000,
                    ..v1::Claimed::default()
                },
            )
            .with(RecordKind::JobStarted, &v1::JobStarted::default())
    };
    let gone = v1::TreeGone::default();
    let unknown = v1::JobExited {
        code_unknown: true,
        ..v1::JobExited::default()
    };
    let lost = v1::Lost {
        reason: v1::lost::Reason::Rebooted.into(),
        ..v1::Lost::default()
    };
    let table: Vec<(Builder, Phase, &str)> = vec![
        (begun(), Phase::Running, ""),
        (
            begun().with(RecordKind::StopAsked, &stop(v1::StopCause::Person)),
            Phase::Ending,
            "",
        ),
        (
            begun().with(RecordKind::JobExited, &exited(0, 0)),
            Phase::Ending,
            "",
        ),
        (
            begun()
                .with(RecordKind::JobExited, &exited(0, 0))
                .with(RecordKind::TreeGone, &gone),
            Phase::Finished,
            "",
        ),
        (
            begun()
                .with(RecordKind::JobExited, &exited(0, 9))
                .with(RecordKind::TreeGone, &gone),
            Phase::Crashed,
            "killed by SIGKILL",
        ),
        (
            begun()
                .with(RecordKind::StopAsked, &stop(v1::StopCause::Person))
                .with(RecordKind::JobExited, &exited(0, 15))
                .with(RecordKind::TreeGone, &gone),
            Phase::Aborted,
            "aborted",
        ),
        (
            begun()
                .with(RecordKind::StopAsked, &stop(v1::StopCause::Rule))
                .with(RecordKind::JobExited, &exited(0, 15))
                .with(RecordKind::TreeGone, &gone),
            Phase::Aborted,
            "rule `rule 0`",
        ),
        (
            begun()
                .with(RecordKind::StopAsked, &stop(v1::StopCause::TimeLimit))
                .with(RecordKind::JobExited, &exited(0, 15))
                .with(RecordKind::TreeGone, &gone),
            Phase::Timeout,
            "time limit of 5 s reached",
        ),
        // It had ended by itself: what was asked later changes nothing.
        (
            begun()
                .with(RecordKind::JobExited, &exited(4, 0))
                .with(RecordKind::StopAsked, &stop(v1::StopCause::Person))
                .with(RecordKind::TreeGone, &gone),
            Phase::Crashed,
            "exit code 4",
        ),
        (
            begun()
                .with(RecordKind::JobExited, &unknown)
                .with(RecordKind::TreeGone, &gone),
            Phase::Lost,
            "ended, exit code unknown",
        ),
        (
            begun().with(RecordKind::JobNotStarted, &not(Stage::Exec)),
            Phase::Crashed,
            "not started: its program could not be executed: No such file or directory",
        ),
        (
            begun().with(RecordKind::JobNotStarted, &not(Stage::Cancelled)),
            Phase::Aborted,
            "taken away before it was started",
        ),
        // The next start follows.
        (
            begun().with(RecordKind::JobNotStarted, &not(Stage::Gate)),
            Phase::Pending,
            "",
        ),
        (
            begun().with(RecordKind::Lost, &lost),
            Phase::Lost,
            "node was restarted",
        ),
        // What it left behind was still to be waited for.
        (
            begun()
                .with(RecordKind::JobExited, &exited(3, 0))
                .with(RecordKind::Lost, &lost),
            Phase::Crashed,
            "exit code 3",
        ),
    ];
    for (segment, phase, reason) in table {
        let outcome = judge(
            &Desk::default(),
            &whole(std::slice::from_ref(&segment)).journal,
        );
        let said = outcome
            .reason
            .map(|reason| reason.to_string())
            .unwrap_or_default();
        assert_eq!((outcome.phase, said.as_str()), (phase, reason));
        assert_eq!(outcome.ended_ms.is_some(), phase.is_end());
    }
}

#[test]
fn a_run_without_a_journal_is_what_was_done_with_it() {
    for (handing, phase) in [
        (Handing::Queued, Phase::Queued),
        (Handing::Staging, Phase::Staging),
        (Handing::Submitted, Phase::Submitted),
        (Handing::Pending, Phase::Pending),
    ] {
        let desk = Desk {
            handing,
            ..Desk::default()
        };
        assert_eq!(judge(&desk, &Journal::default()).phase, phase);
    }
}

#[test]
fn the_highest_start_counts() {
    let first = Builder::new(Writer::Shim, 1, 1, 1)
        .with(RecordKind::Claimed, &v1::Claimed::default())
        .with(
            RecordKind::JobNotStarted,
            &v1::JobNotStarted {
                stage: v1::job_not_started::Stage::Gate.into(),
                errno: 0,
            },
        );
    let second = Builder::new(Writer::Shim, 2, 2, 9)
        .with(RecordKind::Claimed, &v1::Claimed::default())
        .with(RecordKind::JobStarted, &v1::JobStarted::default());
    let forward = whole(&[first, second]);
    assert_eq!(
        judge(&Desk::default(), &forward.journal).phase,
        Phase::Running
    );
}

proptest! {
    /// Segments in any order among each other, cut anywhere between records,
    /// parts repeated and overlapping: the facts and points are the same.
    #[test]
    fn any_cut_and_repeat_gives_the_same_facts(
        code in 0..3i32,
        steps in proptest::collection::vec((any::<Index>(), any::<Index>(), any::<Index>()), 1..60),
    ) {
        let segments = segments(code);
        let expected = whole(&segments);
        let mut folder = Folder::default();
        for (which, from, to) in &steps {
            let segment = &segments[which.index(segments.len())];
            let cuts = segment.cuts.len();
            let (from, to) = (from.index(cuts), to.index(cuts) + 1);
            if from < to {
                let folded = folder.take(&segment.part(from, to));
                prop_assert!(matches!(folded, Folded::Took | Folded::Nothing | Folded::Gap));
            }
        }
        // Whatever is missing comes in the end, and all of it once more.
        for _ in 0..2 {
            for segment in segments.iter().rev() {
                folder.take(&segment.part(0, segment.cuts.len()));
            }
        }
        // NaN is not equal to itself; its print is.
        prop_assert_eq!(format!("{:?}", &folder.journal), format!("{:?}", &expected.journal));
        prop_assert_eq!(folder.points(), expected.points());
        prop_assert_eq!(folder.taken.samples.len(), expected.taken.samples.len());
    }

    /// Damaged bytes are never folded into other facts than those before them.
    #[test]
    fn a_flipped_byte_folds_a_prefix_at_most(at in any::<Index>(), bit in 0..8u8) {
        let segments = segments(0);
        let segment = &segments[3];
        let mut bytes = segment.bytes.clone();
        bytes[at.index(segment.bytes.len())] ^= 1 << bit;
        let mut folder = Folder::default();
        let part = Part { data: &bytes, ..segment.part(0, segment.cuts.len()) };
        folder.take(&part);
        let known: Vec<usize> = segment.cuts.iter().map(|(at, _)| *at).collect();
        let name = segment.id.to_string();
        if let Some(folded) = folder.journal.segments.get(&name) {
            prop_assert!(known.contains(&(folded.offset as usize)));
            let mut clean = Folder::default();
            let upto = known.iter().position(|at| *at == folded.offset as usize).unwrap();
            clean.take(&segment.part(0, upto + 1));
            prop_assert_eq!(format!("{:?}", &folder.journal), format!("{:?}", &clean.journal));
        }
    }
}
