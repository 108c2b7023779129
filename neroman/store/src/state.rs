//! The tables of `state.db`: how each row type is written and read.
//!
//! A row is its key and the caller's encoded form. Schema and checksums of version 1
//! have columns besides which repeat parts of that form, and tables that hold
//! nothing; no build reads these. New rows leave them empty, and every start
//! verifies those of older builds with the rest.

mod tables;

use nero_journal::SegmentId;
use nero_model::{ExperimentId, RequestId, RunId, RunToken};

use crate::db::Db;
use crate::error::StoreError;
use crate::row::{
    At, CellRow, Event, Experiment, Position, Request, Rule, RuleId, Run, RunKey, RunRow, Source,
    SourceId, StoredState,
};
use crate::table::{Cells, Table, cell};

pub(crate) use tables::{
    ALL, CELL, DELIVERY, EVENT, EXPERIMENT, LETTER, META, NODE, NOTICE, REQUEST, RULE, RULE_STATE,
    RUN, RUN_DESK, RUN_FACTS, RUN_SPEC, SEGMENT, SOURCE, meta,
};

/// What a column of text contains that no build reads.
const UNUSED: &str = "";
/// The same, for a phase: older builds insist on a word that they know.
const UNUSED_PHASE: &str = "queued";

/// Reads everything that a daemon needs, every row verified.
pub(crate) fn read_all(db: &Db) -> Result<StoredState, StoreError> {
    // One transaction, so that all tables are of one moment.
    let tx =
        rusqlite::Transaction::new_unchecked(&db.conn, rusqlite::TransactionBehavior::Deferred)
            .map_err(|error| db.failed(error))?;
    let loaded = StoredState {
        sources: SOURCE.all(db, source)?,
        experiments: EXPERIMENT.all(db, experiment)?,
        runs: runs(db)?,
        rules: RULE.all(db, rule)?,
        notices: NOTICE.all(db, numbered)?,
        deliveries: DELIVERY.all(db, numbered)?,
        last: get_meta(db, meta::LAST)?.map_or_else(Vec::new, |bytes| {
            let (numbers, _) = bytes.as_chunks::<8>();
            numbers
                .iter()
                .map(|number| ExperimentId(u64::from_le_bytes(*number)))
                .collect()
        }),
    };
    for table in [&META, &REQUEST, &SEGMENT, &RULE_STATE, &NODE, &LETTER] {
        table.verify(db)?;
    }
    tx.finish().map_err(|error| db.failed(error))?;
    Ok(loaded)
}

fn numbered(cells: &Cells<'_>) -> Option<(u64, Vec<u8>)> {
    Some((cells.unsigned(0)?, cells.bytes(1)?.to_vec()))
}

/// Adds a row of a table with a number and bytes, or replaces the one with its number.
pub(crate) fn put_numbered(
    db: &Db,
    table: &Table,
    id: u64,
    content: &[u8],
) -> Result<(), StoreError> {
    table.upsert(db, &[cell::unsigned(id), cell::bytes(content)])
}

/// The bytes of a delivery, until it came to its end.
pub(crate) fn letter(db: &Db, delivery: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let found = LETTER.get(db, &[cell::unsigned(delivery)], numbered)?;
    Ok(found.map(|(_, bytes)| bytes))
}

/// The three tables of runs hold the same keys in the same order.
fn runs(db: &Db) -> Result<Vec<RunRow>, StoreError> {
    let made = RUN.all(db, run)?;
    let encoded =
        |table: &Table, at| table.all(db, |cells| Some((cells.int(0)?, cells.bytes(at)?.to_vec())));
    let (dispatches, known) = (encoded(&RUN_DESK, 2)?, encoded(&RUN_FACTS, 5)?);
    let unlike = |table: &Table| StoreError::DamagedTable {
        path: db.path.clone(),
        table: table.name,
    };
    if dispatches.len() != made.len() {
        return Err(unlike(&RUN_DESK));
    }
    if known.len() != made.len() {
        return Err(unlike(&RUN_FACTS));
    }
    made.into_iter()
        .zip(dispatches)
        .zip(known)
        .map(|((run, (dispatch_key, dispatch)), (facts_key, facts))| {
            if dispatch_key != run.key.0 {
                return Err(unlike(&RUN_DESK));
            }
            if facts_key != run.key.0 {
                return Err(unlike(&RUN_FACTS));
            }
            Ok(RunRow {
                run,
                dispatch,
                facts,
            })
        })
        .collect()
}

/// A row of `meta`.
pub(crate) fn get_meta(db: &Db, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    META.get(db, &[cell::text(key)], |cells| {
        cells.bytes(1).map(<[u8]>::to_vec)
    })
}

/// The next number of a kind.
pub(crate) fn counter(db: &Db, key: &str) -> Result<u64, StoreError> {
    get_meta(db, key)?
        .and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)))
        .ok_or_else(|| StoreError::DamagedRow {
            path: db.path.clone(),
            table: META.name,
            row: key.to_owned(),
        })
}

/// Writes a row of `meta`.
pub(crate) fn put_meta(db: &Db, key: &str, value: &[u8]) -> Result<(), StoreError> {
    META.upsert(db, &[cell::text(key), cell::bytes(value)])
}

pub(crate) fn put_source(db: &Db, source: &Source) -> Result<(), StoreError> {
    SOURCE.upsert(
        db,
        &[
            cell::unsigned(source.id.0),
            cell::text(&source.path),
            cell::text(UNUSED),
            cell::text(UNUSED),
            cell::text(UNUSED),
            cell::text(UNUSED),
            cell::int(0),
            cell::bytes(&source.kept),
        ],
    )
}

fn source(cells: &Cells<'_>) -> Option<Source> {
    Some(Source {
        id: SourceId(cells.unsigned(0)?),
        path: cells.text(1)?,
        kept: cells.bytes(7)?.to_vec(),
    })
}

pub(crate) fn put_experiment(db: &Db, row: &Experiment) -> Result<(), StoreError> {
    EXPERIMENT.upsert(
        db,
        &[
            cell::unsigned(row.id.0),
            cell::text(UNUSED),
            cell::text(UNUSED),
            cell::text(&row.definition),
            cell::text(&row.fingerprint),
            cell::maybe(row.source.map(|source| source.0.cast_signed())),
            cell::text(UNUSED),
            cell::int(row.created_ms),
            cell::int(row.modified_ms),
            cell::maybe(row.hidden_ms),
            cell::int(row.gone),
            cell::bytes(&row.kept),
        ],
    )
}

fn experiment(cells: &Cells<'_>) -> Option<Experiment> {
    Some(Experiment {
        id: ExperimentId(cells.unsigned(0)?),
        definition: cells.text(3)?,
        fingerprint: cells.text(4)?,
        source: cells
            .maybe(5)?
            .map(|number| SourceId(number.cast_unsigned())),
        created_ms: cells.int(7)?,
        modified_ms: cells.int(8)?,
        hidden_ms: cells.maybe(9)?,
        gone: cells.int(10)? != 0,
        kept: cells.bytes(11)?.to_vec(),
    })
}

pub(crate) fn insert_run(db: &Db, key: RunKey, run: &Run, spec: &[u8]) -> Result<(), StoreError> {
    RUN.insert(
        db,
        &[
            cell::int(key.0),
            cell::unsigned(run.id.experiment.0),
            cell::int(run.id.number),
            cell::bytes(run.token.as_bytes()),
            cell::text(UNUSED),
            cell::maybe(None),
            cell::int(0),
            cell::bytes(&run.made),
        ],
    )?;
    RUN_SPEC.insert(db, &[cell::int(key.0), cell::bytes(spec)])
}

fn run(cells: &Cells<'_>) -> Option<Run> {
    Some(Run {
        key: RunKey(cells.int(0)?),
        id: RunId {
            experiment: ExperimentId(cells.unsigned(1)?),
            number: cells.small(2)?,
        },
        token: RunToken::from_bytes(cells.exact(3)?),
        made: cells.bytes(7)?.to_vec(),
    })
}

pub(crate) fn spec(db: &Db, run: RunKey) -> Result<Option<Vec<u8>>, StoreError> {
    RUN_SPEC.get(db, &[cell::int(run.0)], |cells| {
        cells.bytes(1).map(<[u8]>::to_vec)
    })
}

pub(crate) fn put_dispatch(db: &Db, run: RunKey, dispatch: &[u8]) -> Result<(), StoreError> {
    RUN_DESK.upsert(
        db,
        &[cell::int(run.0), cell::maybe(None), cell::bytes(dispatch)],
    )
}

pub(crate) fn put_facts(db: &Db, run: RunKey, facts: &[u8]) -> Result<(), StoreError> {
    RUN_FACTS.upsert(
        db,
        &[
            cell::int(run.0),
            cell::text(UNUSED_PHASE),
            cell::maybe(None),
            cell::maybe(None),
            cell::maybe(None),
            cell::bytes(facts),
        ],
    )
}

pub(crate) fn put_position(db: &Db, position: &Position) -> Result<(), StoreError> {
    SEGMENT.upsert(
        db,
        &[
            cell::int(position.run.0),
            cell::bytes(&position.segment.0),
            cell::int(position.incarnation),
            cell::unsigned(position.at.offset),
            cell::int(position.at.chain),
        ],
    )
}

pub(crate) fn position(cells: &Cells<'_>) -> Option<Position> {
    Some(Position {
        run: RunKey(cells.int(0)?),
        segment: SegmentId(cells.exact(1)?),
        incarnation: cells.small(2)?,
        at: At {
            offset: cells.unsigned(3)?,
            chain: cells.small(4)?,
        },
    })
}

pub(crate) fn put_rule(db: &Db, rule: &Rule) -> Result<(), StoreError> {
    let action = match rule.argument.as_str() {
        "" => rule.action.clone(),
        argument => format!("{} {argument}", rule.action),
    };
    RULE.upsert(
        db,
        &[
            cell::unsigned(rule.id.0),
            cell::int(0),
            cell::maybe(None),
            cell::text(&action),
            cell::text(&rule.text),
            cell::text(&rule.author),
            cell::text(&rule.origin),
            cell::unsigned(rule.repeat_ms),
            cell::int(1),
            cell::int(0),
        ],
    )
}

fn rule(cells: &Cells<'_>) -> Option<Rule> {
    let action = cells.text(3)?;
    let (action, argument) = action.split_once(' ').unwrap_or((&action, ""));
    Some(Rule {
        id: RuleId(cells.unsigned(0)?),
        action: action.to_owned(),
        argument: argument.to_owned(),
        repeat_ms: cells.unsigned(7)?,
        text: cells.text(4)?,
        author: cells.text(5)?,
        origin: cells.text(6)?,
    })
}

pub(crate) fn insert_request(db: &Db, request: &Request) -> Result<(), StoreError> {
    REQUEST.insert(
        db,
        &[
            cell::bytes(request.id.as_bytes()),
            cell::int(request.at_ms),
            cell::bytes(&request.reply),
        ],
    )
}

pub(crate) fn request(db: &Db, id: &RequestId) -> Result<Option<Request>, StoreError> {
    REQUEST.get(db, &[cell::bytes(id.as_bytes())], |cells| {
        Some(Request {
            id: RequestId::from_bytes(cells.exact(0)?),
            at_ms: cells.int(1)?,
            reply: cells.bytes(2)?.to_vec(),
        })
    })
}

pub(crate) fn insert_event(db: &Db, id: i64, event: &Event) -> Result<(), StoreError> {
    EVENT.insert(
        db,
        &[
            cell::int(id),
            cell::unsigned(event.experiment.0),
            cell::maybe(event.run.map(i64::from)),
            cell::int(event.at_ms),
            cell::text(&event.text),
        ],
    )
}

pub(crate) fn events(db: &Db, experiment: ExperimentId) -> Result<Vec<Event>, StoreError> {
    EVENT.some(
        db,
        "WHERE experiment = ? ORDER BY id",
        &[cell::unsigned(experiment.0)],
        |cells| {
            Some(Event {
                experiment: ExperimentId(cells.unsigned(1)?),
                run: match cells.maybe(2)? {
                    None => None,
                    Some(number) => Some(number.try_into().ok()?),
                },
                at_ms: cells.int(3)?,
                text: cells.text(4)?,
            })
        },
    )
}

pub(crate) fn put_cell(db: &Db, row: &CellRow) -> Result<(), StoreError> {
    CELL.upsert(
        db,
        &[
            cell::unsigned(row.experiment.0),
            cell::text(&row.heading),
            cell::int(row.part),
            cell::bytes(&row.content),
        ],
    )
}

/// The rows of an experiment's cells, by rising part; with `is_newest` the last part of each cell.
pub(crate) fn cells(
    db: &Db,
    experiment: ExperimentId,
    is_newest: bool,
) -> Result<Vec<CellRow>, StoreError> {
    let tail = if is_newest {
        "WHERE experiment = ? AND part = (SELECT max(part) FROM cell AS other
             WHERE other.experiment = cell.experiment AND other.heading = cell.heading)"
    } else {
        "WHERE experiment = ? ORDER BY heading, part"
    };
    CELL.some(db, tail, &[cell::unsigned(experiment.0)], |cells| {
        Some(CellRow {
            experiment: ExperimentId(cells.unsigned(0)?),
            heading: cells.text(1)?,
            part: cells.small(2)?,
            content: cells.bytes(3)?.to_vec(),
        })
    })
}
