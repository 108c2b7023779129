//! Folding: journals as nodes send them, built record by record.

mod bounds;
mod cuts;
mod ends;
mod facts;
mod kinds;

use std::collections::HashMap;

use nero_journal::v1::{self, RecordKind};
use nero_journal::{Encoder, HEADER_BYTES, SegmentId, Writer, encode_header};
use nero_model::RunToken;

use super::*;

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
    taken: FoldOutput,
}

impl Folder {
    fn take(&mut self, part: &Part<'_>) -> FoldResult {
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
        .with(RecordKind::Notice, &v1::Notice::of("one"));
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
        .with(RecordKind::Notice, &v1::Notice::of("two"));
    vec![shim, launcher, first, second]
}

fn whole(segments: &[Builder]) -> Folder {
    let mut folder = Folder::default();
    for segment in segments {
        let part = segment.part(0, segment.cuts.len());
        assert_eq!(folder.take(&part), FoldResult::Took);
    }
    folder
}
