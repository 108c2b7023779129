//! What a build of version 3 of `state.db` makes of this one's files: it refuses them by their
//! version, and reads the copy that the migration made, so that a person can go back to it. The
//! reader is what that build did; it never changes.

use std::path::Path;

use crc32c::{crc32c, crc32c_append};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use nero_store::Store;

use crate::rig::home;

/// What the older build insists on in a column.
#[derive(Clone, Copy, Debug)]
enum Column {
    Int,
    MaybeInt,
    Text,
    Bytes,
    /// So many bytes.
    Exact(usize),
    MaybeExact(usize),
    /// One of [`PHASES`].
    Phase,
}

use Column::{Bytes, Exact, Int, MaybeExact, MaybeInt, Phase, Text};

const PHASES: [&str; 11] = [
    "queued",
    "staging",
    "submitted",
    "pending",
    "running",
    "ending",
    "finished",
    "crashed",
    "aborted",
    "timeout",
    "lost",
];

/// The tables with the names of their columns, and what is read from each.
const TABLES: &[(&str, &[(&str, Column)])] = &[
    ("meta", &[("key", Text), ("value", Bytes)]),
    (
        "source",
        &[
            ("id", Int),
            ("path", Text),
            ("kind", Text),
            ("file", Text),
            ("folder", Text),
            ("digest", Text),
            ("mtime_ns", Int),
            ("kept", Bytes),
        ],
    ),
    (
        "experiment",
        &[
            ("id", Int),
            ("collection", Text),
            ("name", Text),
            ("definition", Text),
            ("fingerprint", Text),
            ("source", MaybeInt),
            ("path", Text),
            ("created_ms", Int),
            ("modified_ms", Int),
            ("hidden_ms", MaybeInt),
            ("gone", Int),
            ("kept", Bytes),
        ],
    ),
    (
        "run",
        &[
            ("key", Int),
            ("experiment", Int),
            ("number", Int),
            ("token", Exact(16)),
            ("node", Text),
            ("tree", MaybeExact(32)),
            ("created_ms", Int),
            ("made", Bytes),
        ],
    ),
    ("run_spec", &[("run", Int), ("spec", Bytes)]),
    (
        "run_desk",
        &[("run", Int), ("wish_ms", MaybeInt), ("desk", Bytes)],
    ),
    (
        "run_facts",
        &[
            ("run", Int),
            ("phase", Phase),
            ("submitted_ms", MaybeInt),
            ("started_ms", MaybeInt),
            ("ended_ms", MaybeInt),
            ("facts", Bytes),
        ],
    ),
    (
        "rule",
        &[
            ("id", Int),
            ("version", Int),
            ("experiment", MaybeInt),
            ("action", Text),
            ("text", Text),
            ("author", Text),
            ("origin", Text),
            ("repeat_ms", Int),
            ("active", Int),
            ("created_ms", Int),
        ],
    ),
    (
        "request",
        &[("id", Exact(16)), ("at_ms", Int), ("reply", Bytes)],
    ),
    (
        "event",
        &[
            ("id", Int),
            ("experiment", Int),
            ("run", MaybeInt),
            ("at_ms", Int),
            ("text", Text),
        ],
    ),
];

/// Feeds a value into a checksum: its type, its length and its bytes.
fn digest(crc: u32, value: ValueRef<'_>) -> u32 {
    let tagged = |tag: u8, number: u64| {
        let head = crc32c_append(crc, &[tag]);
        crc32c_append(head, &number.to_le_bytes())
    };
    match value {
        ValueRef::Null => crc32c_append(crc, &[0]),
        ValueRef::Integer(number) => tagged(1, number.cast_unsigned()),
        ValueRef::Real(number) => tagged(2, number.to_bits()),
        ValueRef::Text(bytes) => crc32c_append(tagged(3, bytes.len() as u64), bytes),
        ValueRef::Blob(bytes) => crc32c_append(tagged(4, bytes.len() as u64), bytes),
    }
}

fn is_taken(column: Column, value: ValueRef<'_>) -> bool {
    match (column, value) {
        (Int, ValueRef::Integer(_))
        | (MaybeInt, ValueRef::Integer(_) | ValueRef::Null)
        | (MaybeExact(_), ValueRef::Null)
        | (Bytes, ValueRef::Blob(_)) => true,
        (Text, ValueRef::Text(text)) => std::str::from_utf8(text).is_ok(),
        (Phase, ValueRef::Text(text)) => PHASES.iter().any(|phase| phase.as_bytes() == text),
        (Exact(length) | MaybeExact(length), ValueRef::Blob(bytes)) => bytes.len() == length,
        _ => false,
    }
}

/// Reads a row as the older build does; returns its checksum.
fn read(table: &str, columns: &[(&str, Column)], row: &Row<'_>) -> i64 {
    let mut crc = crc32c(table.as_bytes());
    for (at, (name, column)) in columns.iter().enumerate() {
        let value = row.get_ref(at).unwrap();
        assert!(is_taken(*column, value), "{table}.{name}: {value:?}");
        crc = digest(crc, value);
    }
    let stored: i64 = row.get(columns.len()).unwrap();
    assert_eq!(stored, i64::from(crc), "{table}");
    stored
}

#[test]
fn a_build_of_version_3_reads_the_copy_from_before_the_migration() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    std::fs::create_dir_all(&home.data).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::copy(golden.join("state-v3.db"), home.state_db()).unwrap();
    std::fs::copy(golden.join("state-v3.series.db"), home.series_db()).unwrap();
    let store = Store::open(&home).unwrap();
    assert_eq!(store.opened().migrated_from, Some(3));
    drop(store);
    let version = |conn: &Connection| -> i64 {
        conn.pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap()
    };
    // An older build refuses what is newer than it knows.
    let migrated = Connection::open(home.state_db()).unwrap();
    assert_eq!(version(&migrated), 8);
    let copy = home.data.join("state.db.before-v4");
    let conn = Connection::open(copy).unwrap();
    assert_eq!(version(&conn), 3);
    let mut keys = Vec::new();
    for (table, columns) in TABLES {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let select = format!("SELECT {}, crc FROM {table}", names.join(", "));
        let mut statement = conn.prepare(&select).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, read(table, columns, row))));
        let (first, crcs): (Vec<rusqlite::types::Value>, Vec<i64>) =
            rows.unwrap().map(Result::unwrap).unzip();
        assert!(!crcs.is_empty(), "{table} has rows");
        let sealed: (i64, i64) = conn
            .query_row("SELECT rows, sum FROM seal WHERE tbl = ?", [table], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        assert_eq!(sealed, (crcs.len() as i64, crcs.iter().sum()), "{table}");
        if table.starts_with("run") {
            keys.push(first);
        }
    }
    // A run has a row in each of its tables, or the older build calls them damaged.
    assert!(keys.iter().all(|of_table| *of_table == keys[0]), "{keys:?}");
}
