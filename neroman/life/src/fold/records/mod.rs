//! Folds journal records into the facts of a run.
//!
//! A part is folded once, however often and in whatever pieces it comes: positions
//! tell what was folded, chain values whether the part belongs there. The result
//! does not depend on the order in which segments come.

mod apply;
mod job;
mod log_positions;
mod notable;
mod observation;
mod rule;
mod text;

use nero_journal::{HEADER_BYTES, Header, Reader, Record, SegmentId, Writer, v1};
use nero_model::RunToken;

use self::apply::apply;
use self::log_positions::LogPositions;
pub use self::notable::{Notable, NotableKind};
use crate::facts::journal::{Incarnation, Journal, Key, LogsRead, Segment};
use crate::facts::sorted::SortedMap;

/// Most segments of watchers that are kept for one run, and most of all other
/// writers: however many watchers a job has, its end is still received.
pub(super) const SEGMENTS_MAX: usize = 4096;
/// Bytes of one segment.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub token: RunToken,
    pub incarnation: u32,
    pub segment: SegmentId,
    /// Of the first byte; at 0 the part contains the header.
    pub offset: u64,
    /// Whole records.
    pub data: &'a [u8],
    /// Chain value before the data.
    pub chain: u32,
}

/// The position of one of the two databases in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Position {
    pub offset: u64,
    pub chain: u32,
}

/// A point of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub name: String,
    pub step: f64,
    pub value: f64,
    pub at_ms: i64,
    /// Grows with each incarnation of the run, and when a step falls back.
    pub generation: u32,
}

/// A measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub incarnation: u32,
    pub at_ms: i64,
    pub sample: v1::Sample,
}

/// The entries for the database of series, and the records that may concern people.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoldOutput {
    pub points: Vec<Point>,
    pub samples: Vec<Measurement>,
    /// Of records that became facts just now.
    pub notables: Vec<Notable>,
}

/// The result of folding a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldResult {
    /// Everything in it was known.
    Nothing,
    /// Something was new.
    Took,
    /// Bytes before it are missing: it must be asked for again.
    Gap,
    /// It does not continue what was folded: the run is folded anew.
    Mismatch,
    /// It is no part of such a segment; nothing was taken.
    Refused,
    /// The run has the most segments that are kept; nothing was taken.
    Full,
}

/// The journal of a run before it is folded anew. The starts of a run that has ended
/// stay: they prove the end that was reported, also to a daemon that dies before the
/// records come again.
pub fn emptied(ended: Option<SortedMap<u32, Box<Incarnation>>>) -> Journal {
    let mut incarnations = ended.unwrap_or_default();
    for one in incarnations.values_mut() {
        // The one fact of a start that is a count.
        one.taken_over = 0;
    }
    Journal {
        incarnations,
        ..Journal::default()
    }
}

/// Folds a part. `series` is the position of the other database in the segment;
/// entries behind it are appended to `taken`, and it moves on.
pub fn fold(
    journal: &mut Journal,
    part: &Part<'_>,
    series: &mut Position,
    taken: &mut FoldOutput,
) -> FoldResult {
    let (records, first) = match open_part(journal, part) {
        Ok(records) => records,
        Err(folded) => return folded,
    };
    let id = part.segment.to_string();
    let Some(mut segment) = journal.segments.get(&id).cloned() else {
        // A request for the missing bytes would repeat without end.
        return if journal.overflows {
            FoldResult::Full
        } else {
            FoldResult::Gap
        };
    };
    if !holds_series(&segment) {
        *series = Position::of(&segment);
    } else if series.offset < HEADER_BYTES as u64 {
        // The chain values of a header are known only with the header.
        *series = if part.offset == 0 {
            first
        } else {
            Position {
                offset: HEADER_BYTES as u64,
                chain: 0,
            }
        };
    }
    if first.offset > segment.offset.min(series.offset) {
        return FoldResult::Gap;
    }
    let mut took = false;
    let mut before = first.chain;
    let mut reader = Reader::new(records, first.offset, first.chain);
    for record in reader.by_ref() {
        let positions = [Position::of(&segment), *series];
        if positions.iter().any(|at| at.contradicts(&record, before)) {
            return FoldResult::Mismatch;
        }
        if record.offset >= segment.offset {
            let key = Key {
                rank: rank(Writer::from_byte(segment.writer)),
                made_ns: segment.made_ns,
                offset: record.offset,
            };
            apply(journal, &mut segment, part.incarnation, key, &record);
            taken.notables.extend(notable::of(part, &record));
            segment.offset = record.end();
            segment.chain = record.chain;
            took = true;
        }
        if record.offset >= series.offset {
            taken.take_series(journal, &segment, part.incarnation, &record);
            series.offset = record.end();
            series.chain = record.chain;
            took = true;
        }
        before = record.chain;
    }
    // The last record ends at our position: it must be the one folded before.
    if reader.offset() == segment.offset && before != segment.chain {
        return FoldResult::Mismatch;
    }
    journal.segments.insert(id, segment);
    if took {
        FoldResult::Took
    } else {
        FoldResult::Nothing
    }
}

/// The records of a part, and the position of the first. The segment of a header is in the
/// journal from then on.
fn open_part<'p>(
    journal: &mut Journal,
    part: &Part<'p>,
) -> Result<(&'p [u8], Position), FoldResult> {
    if part.offset > 0 {
        let (offset, chain) = (part.offset, part.chain);
        return Ok((part.data, Position { offset, chain }));
    }
    let header = Header::parse(part.data).map_err(|_| FoldResult::Refused)?;
    let ours = header.token == *part.token.as_bytes()
        && header.segment == part.segment
        && header.incarnation == part.incarnation;
    if !ours {
        return Err(FoldResult::Refused);
    }
    let id = part.segment.to_string();
    let new = new_segment(&header);
    if !journal.segments.contains_key(&id) && is_full(journal, &new) {
        journal.overflows = true;
        return Err(FoldResult::Full);
    }
    let first = Position::of(&new);
    journal.segments.entry(id).or_insert(new);
    Ok((&part.data[HEADER_BYTES..], first))
}

impl Position {
    /// The position of the facts.
    fn of(segment: &Segment) -> Self {
        Self {
            offset: segment.offset,
            chain: segment.chain,
        }
    }

    /// Whether a record, with the chain value before it, is none that follows here.
    fn contradicts(&self, record: &Record<'_>, chain: u32) -> bool {
        let straddles = record.offset < self.offset && self.offset < record.end();
        straddles || record.offset == self.offset && chain != self.chain
    }
}

impl FoldOutput {
    /// Takes the points or the measurement of a record. What cannot be decoded is counted with
    /// the facts.
    fn take_series(
        &mut self,
        journal: &Journal,
        segment: &Segment,
        incarnation: u32,
        record: &Record<'_>,
    ) {
        if let Some(batch) = record.message() {
            take_points(journal, segment, incarnation, &batch, &mut self.points);
        }
        self.samples
            .extend(record.message().map(|sample| Measurement {
                incarnation,
                at_ms: record.wall_ns / 1_000_000,
                sample,
            }));
    }
}

/// Whether a segment may contain points and measurements; the database of series
/// keeps positions of such segments only.
pub fn holds_series(segment: &Segment) -> bool {
    match Writer::from_byte(segment.writer) {
        Writer::Watcher | Writer::Unknown(_) => true,
        Writer::Shim | Writer::Launcher | Writer::Mum | Writer::Ledger => false,
    }
}

/// Whether a run has the most segments of such writers.
fn is_full(journal: &Journal, new: &Segment) -> bool {
    let alike = |held: &&Segment| holds_series(held) == holds_series(new);
    journal.segments.values().filter(alike).count() >= SEGMENTS_MAX
}

fn new_segment(header: &Header) -> Segment {
    Segment {
        incarnation: header.incarnation,
        writer: header.writer.byte(),
        made_ns: header.mono_ns,
        made_wall_ms: header.wall_ns / 1_000_000,
        boot: nero_model::ids::hex(&header.boot_id),
        offset: HEADER_BYTES as u64,
        chain: header.chain,
        names: Vec::new(),
        read_to: LogsRead::default(),
    }
}

fn rank(writer: Writer) -> u8 {
    match writer {
        Writer::Shim => 0,
        Writer::Launcher => 1,
        Writer::Mum => 2,
        Writer::Watcher => 3,
        Writer::Ledger | Writer::Unknown(_) => 9,
    }
}

/// Bits of a point's generation that count within its incarnation.
pub(crate) const GENERATION_BITS: u32 = 16;

/// The points of a record of metrics; the segment knows the names. An incarnation that
/// was given up may report its last points after the next one's first: the generation
/// keeps them before these.
fn take_points(
    journal: &Journal,
    segment: &Segment,
    incarnation: u32,
    batch: &v1::Metrics,
    points: &mut Vec<Point>,
) {
    let earlier = incarnation
        .saturating_sub(1)
        .min(u32::MAX >> GENERATION_BITS);
    let within = |generation: u32| generation.min((1 << GENERATION_BITS) - 1);
    let told = LogPositions::before(journal, segment, batch);
    for (index, series) in batch.series.iter().enumerate() {
        if told.has(batch, index) {
            continue;
        }
        let (Some(name), Some(&value)) =
            (segment.names.get(*series as usize), batch.values.get(index))
        else {
            continue;
        };
        points.push(Point {
            name: name.clone(),
            step: batch.steps.get(index).copied().unwrap_or(f64::NAN),
            value,
            at_ms: batch.mono_ms.get(index).map_or(segment.made_wall_ms, |ms| {
                segment
                    .made_wall_ms
                    .saturating_add(i64::try_from(*ms).unwrap_or(0))
            }),
            generation: earlier << GENERATION_BITS
                | within(batch.generation.get(index).copied().unwrap_or(0)),
        });
    }
}

#[cfg(test)]
mod tests;
