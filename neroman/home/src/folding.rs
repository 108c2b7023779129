//! Journal bytes on their way into both databases.
//!
//! Facts and points are folded from the same parts and kept in two files, each
//! with its own positions. Called by the ledger's thread only.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use nero_journal::SegmentId;
use nero_model::{RunId, RunToken};

use crate::keep::{Batch, Databases, RunFolded, SeriesPosition};
use nero_life::change::Change;
use nero_life::fold::{FoldOutput, FoldResult, Part, Position, emptied, fold, holds_series};
use nero_life::journal::Journal;
use nero_life::state::State;

/// Bytes of one segment, owned.
#[derive(Clone, Debug)]
pub struct OwnedPart {
    pub token: RunToken,
    pub incarnation: u32,
    pub segment: SegmentId,
    pub offset: u64,
    pub data: Bytes,
    pub chain: u32,
}

impl OwnedPart {
    fn view(&self) -> Part<'_> {
        Part {
            token: self.token,
            incarnation: self.incarnation,
            segment: self.segment,
            offset: self.offset,
            data: &self.data,
            chain: self.chain,
        }
    }
}

/// The positions of both databases in a segment; the node sends again from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    pub incarnation: u32,
    pub segment: SegmentId,
    pub at: Position,
}

/// The outcome of folding parts.
#[derive(Debug, Default)]
pub struct PartsOutcome {
    /// Bytes before some part are missing: follow again from our positions.
    pub gap: bool,
    /// Runs whose parts do not match what was folded before; their journals were
    /// emptied.
    pub anew: Vec<RunId>,
    /// Number of invalid parts.
    pub refused: usize,
}

/// The folds that are not committed, and the positions of the series.
#[derive(Debug, Default)]
pub(crate) struct PendingFolds {
    journals: HashMap<RunId, Journal>,
    fresh: HashMap<RunId, RunFolded>,
    /// Positions of the series in the segments of recent runs, everything folded so
    /// far included.
    series: HashMap<RunId, SeriesPosition>,
    /// Journals that are folded a second time, for their points alone: the facts of
    /// these runs are known, and counted once.
    again: HashMap<RunId, Journal>,
}

impl PendingFolds {
    /// Folds one part over a working state.
    pub(crate) fn part(
        &mut self,
        work: &State,
        keep: &Databases,
        part: &OwnedPart,
        outcome: &mut PartsOutcome,
    ) {
        let Some(id) = work.by_token(&part.token) else {
            outcome.refused += 1;
            return;
        };
        let Some(run) = work.run(id) else { return };
        if run.asks_for_points() {
            self.points_again(keep, id, part, outcome);
            return;
        }
        if !run.takes_records() {
            return;
        }
        let name = part.segment.to_string();
        let stood = self.series_of(keep, id).of(part.segment);
        let journal = self
            .journals
            .entry(id)
            .or_insert_with(|| (*run.journal).clone());
        let mut position = stood.unwrap_or_else(|| at(journal, &name));
        let series_from = position;
        // A reported end stays, also when it is judged anew at the next start.
        let proves = |journal: &Journal| run.has_its_end_from(journal);
        let told = proves(journal).then(|| journal.incarnations.clone());
        let facts_from = at(journal, &name);
        let overflowed = journal.overflows;
        let fresh = self.fresh.entry(id).or_default();
        let mut dropped = FoldOutput::default();
        let taken = match stood {
            Some(_) => &mut fresh.taken,
            None => &mut dropped,
        };
        let folded = fold(journal, &part.view(), &mut position, taken);
        fresh.taken.notables.append(&mut dropped.notables);
        match folded {
            FoldResult::Nothing | FoldResult::Took => {
                if let Some(told) = told
                    && !proves(journal)
                {
                    tracing::warn!(run = %id, segment = %part.segment, "records would change an end that was told");
                    journal.incarnations = told;
                }
                fresh.facts |= facts_from != at(journal, &name);
                if journal.segments.get(&name).is_some_and(holds_series)
                    && let Some(SeriesPosition::At(series)) = self.series.get_mut(&id)
                {
                    moved(&mut fresh.series, part, series_from, position);
                    series.insert(part.segment, position);
                }
            }
            FoldResult::Gap => outcome.gap = true,
            FoldResult::Full if overflowed => outcome.refused += 1,
            FoldResult::Full => {
                tracing::warn!(run = %id, "more segments than are kept of a run");
                fresh.facts = true;
                outcome.refused += 1;
            }
            FoldResult::Refused => {
                tracing::warn!(run = %id, segment = %part.segment, "no part of a segment");
                outcome.refused += 1;
            }
            FoldResult::Mismatch => {
                tracing::warn!(run = %id, segment = %part.segment, "journal differs, folding anew");
                *journal = emptied(told);
                *fresh = RunFolded {
                    anew: true,
                    ..RunFolded::default()
                };
                self.series.insert(id, SeriesPosition::default());
                outcome.anew.push(id);
            }
        }
    }

    /// Folds a part of a closed run for its points alone.
    fn points_again(
        &mut self,
        keep: &Databases,
        id: RunId,
        part: &OwnedPart,
        outcome: &mut PartsOutcome,
    ) {
        let Some(mut position) = self.series_of(keep, id).of(part.segment) else {
            return;
        };
        let from = position;
        let journal = self.again.entry(id).or_default();
        let fresh = self.fresh.entry(id).or_default();
        let folded = fold(journal, &part.view(), &mut position, &mut fresh.taken);
        // The facts of this run are known, and so are these.
        fresh.taken.notables.clear();
        match folded {
            FoldResult::Nothing | FoldResult::Took => {
                let segment = journal.segments.get(&part.segment.to_string());
                if segment.is_some_and(holds_series)
                    && let Some(SeriesPosition::At(series)) = self.series.get_mut(&id)
                {
                    moved(&mut fresh.series, part, from, position);
                    series.insert(part.segment, position);
                }
            }
            FoldResult::Gap => outcome.gap = true,
            FoldResult::Refused | FoldResult::Full => outcome.refused += 1,
            FoldResult::Mismatch => {
                *fresh = RunFolded {
                    anew: true,
                    ..RunFolded::default()
                };
                self.again.remove(&id);
                self.series.insert(id, SeriesPosition::default());
                outcome.anew.push(id);
            }
        }
    }

    fn series_of(&mut self, keep: &Databases, id: RunId) -> &SeriesPosition {
        self.series
            .entry(id)
            .or_insert_with(|| keep.series_stood(id))
    }

    /// The changes since the last call; the points go directly into the batch.
    pub(crate) fn changes(&mut self, batch: &mut Batch) -> Vec<Change> {
        let journals = std::mem::take(&mut self.journals);
        let mut changes = Vec::with_capacity(journals.len());
        for (run, journal) in journals {
            let Some(folded) = self.fresh.remove(&run) else {
                continue;
            };
            if !folded.facts && folded.series.is_empty() && !folded.anew {
                continue;
            }
            batch.folded(run, folded);
            changes.push(Change::Journal {
                run,
                journal: Arc::new(journal),
            });
        }
        // The rest was folded for its points alone.
        for (run, folded) in self.fresh.drain() {
            if !folded.series.is_empty() || folded.anew {
                batch.folded(run, folded);
            }
        }
        changes
    }

    /// The positions from which the node has to send, segment by segment.
    pub(crate) fn stands(&mut self, state: &State, keep: &Databases, id: RunId) -> Vec<Stand> {
        let Some(run) = state.run(id) else {
            return Vec::new();
        };
        if run.asks_for_points() {
            // The names of series are known only from the first record on.
            self.again.remove(&id);
            return Vec::new();
        }
        let journal = Arc::clone(&run.journal);
        let series = self.series_of(keep, id);
        let mut stands = Vec::new();
        for (name, segment) in &journal.segments {
            let Some(id) = segment_id(name) else { continue };
            let facts = Position {
                offset: segment.offset,
                chain: segment.chain,
            };
            let points = series.of(id).unwrap_or(facts);
            let lower = if holds_series(segment) && points.offset < facts.offset {
                points
            } else {
                facts
            };
            // A position inside the header is no place to continue.
            if lower.offset >= nero_journal::HEADER_BYTES as u64 {
                stands.push(Stand {
                    incarnation: segment.incarnation,
                    segment: id,
                    at: lower,
                });
            }
        }
        stands
    }

    /// Marks the folds as committed to both databases.
    pub(crate) fn committed(&mut self) {
        /// How many runs' positions are kept in memory; beyond, they are read again.
        const REMEMBERED: usize = 50_000;
        if self.series.len() > REMEMBERED {
            self.series.clear();
        }
    }

    /// Forgets these runs: no more records come.
    pub(crate) fn closed(&mut self, runs: &[RunId]) {
        for run in runs {
            self.again.remove(run);
            self.series.remove(run);
        }
    }

    /// Drops all folds that were not committed; positions are read again.
    pub(crate) fn forget(&mut self) {
        self.journals.clear();
        self.fresh.clear();
        self.series.clear();
        self.again.clear();
    }
}

impl SeriesPosition {
    /// The position of the series in a segment; `None` if they take nothing of it.
    fn of(&self, segment: SegmentId) -> Option<Position> {
        match self {
            Self::At(positions) => Some(positions.get(&segment).copied().unwrap_or_default()),
            Self::Complete => None,
        }
    }
}

fn at(journal: &Journal, segment: &str) -> Position {
    journal
        .segments
        .get(segment)
        .map_or_else(Position::default, |segment| Position {
            offset: segment.offset,
            chain: segment.chain,
        })
}

fn moved(
    moves: &mut HashMap<SegmentId, (u32, Position, Position)>,
    part: &OwnedPart,
    from: Position,
    to: Position,
) {
    if from == to {
        return;
    }
    moves
        .entry(part.segment)
        .and_modify(|held| held.2 = to)
        .or_insert((part.incarnation, from, to));
}

/// The segment id in a name.
pub(crate) fn segment_id(name: &str) -> Option<SegmentId> {
    u64::from_str_radix(name, 16)
        .ok()
        .filter(|_| name.len() == 16)
        .map(|number| SegmentId(number.to_be_bytes()))
}
