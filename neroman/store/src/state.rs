//! The tables of `state.db`: how each row type is written and read.

mod tables;

use nero_journal::SegmentId;
use nero_model::{ExperimentId, RequestId, RunId, RunToken};

use crate::db::Db;
use crate::error::StoreError;
use crate::row::{
    At, Desk, Event, Experiment, Facts, Loaded, Node, Position, Request, Rule, RuleId, RuleState,
    Run, RunKey, RunRow, Source, SourceId,
};
use crate::table::{Cells, Table, cell};

pub(crate) use tables::{
    ALL, EVENT, EXPERIMENT, META, NODE, REQUEST, RULE, RULE_STATE, RUN, RUN_DESK, RUN_FACTS,
    RUN_SPEC, SEGMENT, SOURCE, meta,
};

/// Reads everything that a daemon needs, every row verified.
pub(crate) fn read_all(db: &Db) -> Result<Loaded, StoreError> {
    // One transaction, so that all tables are of one moment.
    let tx =
        rusqlite::Transaction::new_unchecked(&db.conn, rusqlite::TransactionBehavior::Deferred)
            .map_err(|error| db.failed(error))?;
    let loaded = Loaded {
        sources: SOURCE.all(db, source)?,
        experiments: EXPERIMENT.all(db, experiment)?,
        runs: runs(db)?,
        positions: SEGMENT.all(db, position)?,
        rules: RULE.all(db, rule)?,
        rule_states: RULE_STATE.all(db, rule_state)?,
        nodes: NODE.all(db, node)?,
        last: get_meta(db, meta::LAST)?.map_or_else(Vec::new, |bytes| {
            let (numbers, _) = bytes.as_chunks::<8>();
            numbers
                .iter()
                .map(|number| ExperimentId(u64::from_le_bytes(*number)))
                .collect()
        }),
    };
    META.verify(db)?;
    REQUEST.verify(db)?;
    tx.finish().map_err(|error| db.failed(error))?;
    Ok(loaded)
}

/// The three tables of runs hold the same keys in the same order.
fn runs(db: &Db) -> Result<Vec<RunRow>, StoreError> {
    let made = RUN.all(db, run)?;
    let desks = RUN_DESK.all(db, |cells| Some((cells.int(0)?, desk(cells)?)))?;
    let known = RUN_FACTS.all(db, |cells| Some((cells.int(0)?, facts(cells)?)))?;
    let unlike = |table: &Table| StoreError::DamagedTable {
        path: db.path.clone(),
        table: table.name,
    };
    if desks.len() != made.len() {
        return Err(unlike(&RUN_DESK));
    }
    if known.len() != made.len() {
        return Err(unlike(&RUN_FACTS));
    }
    made.into_iter()
        .zip(desks)
        .zip(known)
        .map(|((run, (desk_key, desk)), (facts_key, facts))| {
            if desk_key != run.key.0 {
                return Err(unlike(&RUN_DESK));
            }
            if facts_key != run.key.0 {
                return Err(unlike(&RUN_FACTS));
            }
            Ok(RunRow { run, desk, facts })
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
            cell::text(&source.kind),
            cell::text(&source.file),
            cell::text(&source.folder),
            cell::text(&source.digest),
            cell::int(source.mtime_ns),
            cell::bytes(&source.kept),
        ],
    )
}

fn source(cells: &Cells<'_>) -> Option<Source> {
    Some(Source {
        id: SourceId(cells.unsigned(0)?),
        path: cells.text(1)?,
        kind: cells.text(2)?,
        file: cells.text(3)?,
        folder: cells.text(4)?,
        digest: cells.text(5)?,
        mtime_ns: cells.int(6)?,
        kept: cells.bytes(7)?.to_vec(),
    })
}

pub(crate) fn put_experiment(db: &Db, row: &Experiment) -> Result<(), StoreError> {
    EXPERIMENT.upsert(
        db,
        &[
            cell::unsigned(row.id.0),
            cell::text(&row.collection),
            cell::text(&row.name),
            cell::text(&row.definition),
            cell::text(&row.fingerprint),
            cell::maybe(row.source.map(|source| source.0.cast_signed())),
            cell::text(&row.path),
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
        collection: cells.text(1)?,
        name: cells.text(2)?,
        definition: cells.text(3)?,
        fingerprint: cells.text(4)?,
        source: cells
            .maybe(5)?
            .map(|number| SourceId(number.cast_unsigned())),
        path: cells.text(6)?,
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
            cell::text(&run.node),
            run.tree
                .as_ref()
                .map_or(rusqlite::types::ValueRef::Null, |tree| cell::bytes(tree)),
            cell::int(run.created_ms),
            cell::bytes(&run.made),
        ],
    )?;
    RUN_SPEC.insert(db, &[cell::int(key.0), cell::bytes(spec)])
}

fn run(cells: &Cells<'_>) -> Option<Run> {
    let tree = match cells.raw(5)? {
        rusqlite::types::ValueRef::Null => None,
        _ => Some(cells.exact(5)?),
    };
    Some(Run {
        key: RunKey(cells.int(0)?),
        id: RunId {
            experiment: ExperimentId(cells.unsigned(1)?),
            number: cells.small(2)?,
        },
        token: RunToken::from_bytes(cells.exact(3)?),
        node: cells.text(4)?,
        tree,
        created_ms: cells.int(6)?,
        made: cells.bytes(7)?.to_vec(),
    })
}

pub(crate) fn spec(db: &Db, run: RunKey) -> Result<Option<Vec<u8>>, StoreError> {
    RUN_SPEC.get(db, &[cell::int(run.0)], |cells| {
        cells.bytes(1).map(<[u8]>::to_vec)
    })
}

pub(crate) fn put_desk(db: &Db, run: RunKey, desk: &Desk) -> Result<(), StoreError> {
    RUN_DESK.upsert(
        db,
        &[
            cell::int(run.0),
            cell::maybe(desk.wish_ms),
            cell::bytes(&desk.desk),
        ],
    )
}

fn desk(cells: &Cells<'_>) -> Option<Desk> {
    Some(Desk {
        wish_ms: cells.maybe(1)?,
        desk: cells.bytes(2)?.to_vec(),
    })
}

pub(crate) fn put_facts(db: &Db, run: RunKey, facts: &Facts) -> Result<(), StoreError> {
    RUN_FACTS.upsert(
        db,
        &[
            cell::int(run.0),
            cell::text(facts.phase.word()),
            cell::maybe(facts.submitted_ms),
            cell::maybe(facts.started_ms),
            cell::maybe(facts.ended_ms),
            cell::bytes(&facts.facts),
        ],
    )
}

fn facts(cells: &Cells<'_>) -> Option<Facts> {
    Some(Facts {
        phase: cells.text(1)?.parse().ok()?,
        submitted_ms: cells.maybe(2)?,
        started_ms: cells.maybe(3)?,
        ended_ms: cells.maybe(4)?,
        facts: cells.bytes(5)?.to_vec(),
    })
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
    RULE.upsert(
        db,
        &[
            cell::unsigned(rule.id.0),
            cell::unsigned(rule.version),
            cell::maybe(rule.experiment.map(|id| id.0.cast_signed())),
            cell::text(&rule.action),
            cell::text(&rule.text),
            cell::text(&rule.author),
            cell::text(&rule.origin),
            cell::unsigned(rule.repeat_ms),
            cell::int(rule.active),
            cell::int(rule.created_ms),
        ],
    )
}

fn rule(cells: &Cells<'_>) -> Option<Rule> {
    Some(Rule {
        id: RuleId(cells.unsigned(0)?),
        version: cells.unsigned(1)?,
        experiment: cells
            .maybe(2)?
            .map(|number| ExperimentId(number.cast_unsigned())),
        action: cells.text(3)?,
        text: cells.text(4)?,
        author: cells.text(5)?,
        origin: cells.text(6)?,
        repeat_ms: cells.unsigned(7)?,
        active: cells.int(8)? != 0,
        created_ms: cells.int(9)?,
    })
}

pub(crate) fn put_rule_state(db: &Db, state: &RuleState) -> Result<(), StoreError> {
    RULE_STATE.upsert(
        db,
        &[
            cell::int(state.run.0),
            cell::unsigned(state.rule.0),
            cell::int(state.fired),
            cell::maybe(state.last_fired_ms),
            cell::text(&state.last_values),
            cell::text(&state.bound),
            cell::text(&state.problem),
        ],
    )
}

fn rule_state(cells: &Cells<'_>) -> Option<RuleState> {
    Some(RuleState {
        run: RunKey(cells.int(0)?),
        rule: RuleId(cells.unsigned(1)?),
        fired: cells.small(2)?,
        last_fired_ms: cells.maybe(3)?,
        last_values: cells.text(4)?,
        bound: cells.text(5)?,
        problem: cells.text(6)?,
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

pub(crate) fn put_node(db: &Db, node: &Node) -> Result<(), StoreError> {
    NODE.upsert(
        db,
        &[
            cell::text(&node.name),
            cell::maybe(node.contact_ms),
            cell::bytes(&node.description),
        ],
    )
}

fn node(cells: &Cells<'_>) -> Option<Node> {
    Some(Node {
        name: cells.text(0)?,
        contact_ms: cells.maybe(1)?,
        description: cells.bytes(2)?.to_vec(),
    })
}
