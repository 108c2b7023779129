//! Watchers: what a job prints gives the same points in pieces, and when a watcher dies behind
//! any record; a window that is folded keeps its extremes.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use nero_journal::v1::{Metrics, RecordKind};
use nero_metrics::finder::{Finder, FinderOptions};
use nerokid::core::history::History;
use nerokid::core::intake::{Begin, BegunLog, Intake};
use nerokid::core::log::Log;
use nerokid::core::record::Record;
use prost::Message as _;

use crate::Choices;

/// More points than a run may print before they are folded.
const SPENT_POINTS: u64 = 2_000_000;
/// Of a longer log the beginning alone is watched in pieces.
const PIECES_BYTES_MAX: usize = 8 << 10;

/// The metric; step, value and generation, as bits.
type Point = (Rc<str>, [u64; 3]);

/// A watcher of one log, with what it wrote.
struct Watcher {
    intake: Intake,
    records: Vec<Record>,
}

impl Watcher {
    fn begin(history: History, spent: u64, log: &[u8]) -> Self {
        let position = history.positions[0];
        let text = |header: u64| &log[header as usize..position.offset as usize];
        let texts = [position.former, position.table].map(|table| Some(text(table?.header)));
        let mut finder = Finder::new(&FinderOptions::default()).0;
        let stdout = BegunLog {
            position,
            size: log.len() as u64,
            context: position.context(&mut finder, texts),
            ..BegunLog::default()
        };
        let begin = Begin {
            logs: vec![stdout, BegunLog::default()],
            series: history.series,
            kept: history.kept + spent,
        };
        let intake = Intake::new(begin, finder, 0, 0);
        Self { intake, records: Vec::new() }
    }

    fn read(&mut self, piece: &[u8]) {
        self.intake.feed(Log::Stdout, piece, 0, &mut self.records, |_, _| {});
        self.intake.mark(&mut self.records);
    }

    fn end(mut self) -> Vec<Record> {
        self.intake.finish(Log::Stdout, 0, &mut self.records, |_, _| {});
        self.intake.close_window(&mut self.records);
        self.intake.mark(&mut self.records);
        self.records
    }
}

pub fn law(bytes: &[u8]) {
    let (log, choices) = crate::parts(bytes);
    let mut choices = Choices(choices);
    Watcher::begin(History::default(), 0, log).read(log);
    let log = &log[..log.len().min(PIECES_BYTES_MAX)];
    let mut watcher = Watcher::begin(History::default(), 0, log);
    watcher.read(log);
    let whole = points(&watcher.end());
    assert!(whole == after_deaths(log, &mut choices), "after deaths there are other points");
    assert!(whole == beside_folding(log, &mut choices), "in pieces there are other points");
}

/// The points by several watchers, all but the last of which die with records unwritten.
fn after_deaths(log: &[u8], choices: &mut Choices<'_>) -> Vec<Point> {
    let mut segments: Vec<Vec<Record>> = Vec::new();
    for number in 0..4 {
        let history = history(&segments);
        let mut rest = &log[history.positions[0].offset as usize..];
        let mut watcher = Watcher::begin(history, 0, log);
        if number == 3 {
            watcher.read(rest);
            segments.push(watcher.end());
            break;
        }
        for _ in 0..choices.below(4) {
            let length = rest.len() * usize::from(choices.byte()) / 256;
            watcher.read(rest.split_off(..length).unwrap_or_default());
        }
        watcher.records.truncate(choices.below(watcher.records.len() + 1));
        segments.push(watcher.records);
    }
    segments.iter().flat_map(|records| points(records)).collect()
}

/// The points in pieces, beside a watcher that folds all of them, in windows.
fn beside_folding(log: &[u8], choices: &mut Choices<'_>) -> Vec<Point> {
    let mut folding = Watcher::begin(History::default(), SPENT_POINTS, log);
    let mut exact = Watcher::begin(History::default(), 0, log);
    let (mut ends, mut rest) = (Vec::new(), log);
    while !rest.is_empty() {
        let piece = choices.piece(200, &mut rest);
        folding.read(piece);
        exact.read(piece);
        if choices.byte() % 4 == 3 {
            folding.intake.close_window(&mut folding.records);
            ends.push(points(&exact.records).len());
        }
    }
    let (folded, exact) = (folding.end(), points(&exact.end()));
    ends.push(exact.len());
    let begins = std::iter::once(0).chain(ends.clone());
    let windows = begins.zip(ends).map(|(begin, end)| &exact[begin..end]);
    let extremes: Vec<Point> = windows.flat_map(extremes).collect();
    assert!(points(&folded) == extremes, "folded, a window lacks its extremes");
    let counted = folded.iter().map(|record| match record {
        Record::Folded(folded) => folded.points as usize,
        _ => 0,
    });
    assert_eq!(counted.sum::<usize>(), exact.len(), "points are folded uncounted");
    exact
}

/// What a watcher knows that begins behind these segments.
fn history(segments: &[Vec<Record>]) -> History {
    let mut history = History::default();
    for records in segments {
        history.begin_segment(false);
        for metrics in records.iter().filter_map(metrics) {
            let (kind, payload) = (RecordKind::Metrics as u16, &metrics.encode_to_vec()[..]);
            let (offset, sequence, mono_ns, wall_ns, chain) = (0, 0, 9, 9, 0);
            let record = nero_journal::Record { offset, sequence, kind, mono_ns, wall_ns, payload, chain };
            history.fold(&record);
        }
    }
    history
}

fn metrics(record: &Record) -> Option<&Metrics> {
    match record {
        Record::Metrics(metrics) => Some(metrics),
        _ => None,
    }
}

/// The points of a segment.
fn points(records: &[Record]) -> Vec<Point> {
    let (mut names, mut points) = (Vec::new(), Vec::new());
    for metrics in records.iter().filter_map(metrics) {
        names.extend(metrics.names.iter().map(|name| Rc::from(&**name)));
        for (at, series) in metrics.series.iter().enumerate() {
            let generation = metrics.generation.get(at).copied().unwrap_or_default();
            let bits =
                [metrics.steps[at].to_bits(), metrics.values[at].to_bits(), generation.into()];
            points.push((Rc::clone(&names[*series as usize]), bits));
        }
    }
    points
}

/// Lowest, highest and last point of each metric.
fn extremes(points: &[Point]) -> Vec<Point> {
    let mut series: BTreeMap<&str, Vec<(f64, usize)>> = BTreeMap::new();
    for (at, (name, [_, value, _])) in points.iter().enumerate() {
        series.entry(name).or_default().push((f64::from_bits(*value), at));
    }
    let kept = series.values().flat_map(|all| {
        let numbers = || all.iter().filter(|(value, _)| !value.is_nan());
        let order = |one: &&(f64, usize), other: &&(f64, usize)| {
            one.0.partial_cmp(&other.0).expect("both are numbers")
        };
        let (lowest, highest) = (numbers().min_by(order), numbers().rev().max_by(order));
        lowest.into_iter().chain(highest).chain(all.last()).map(|(_, at)| *at)
    });
    let kept: BTreeSet<usize> = kept.collect();
    kept.into_iter().map(|at| points[at].clone()).collect()
}
