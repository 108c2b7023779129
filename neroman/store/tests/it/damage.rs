//! Damaged files: every effective bit flip is noticed, and a refused file stays
//! as it was found.

use std::fs;
use std::path::{Path, PathBuf};

use nero_model::Home;
use nero_store::{Store, StoreError};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::rig::{filled, home};

/// Every row of every table, as SQLite reads it without our checks.
fn dump(path: &Path) -> rusqlite::Result<Vec<Vec<Value>>> {
    let conn = Connection::open(path)?;
    let names: Vec<String> = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for name in names {
        let mut statement = conn.prepare(&format!("SELECT * FROM {name} NOT INDEXED"))?;
        let columns = statement.column_count();
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            rows.push((0..columns).map(|i| row.get(i)).collect::<Result<_, _>>()?);
        }
    }
    Ok(rows)
}

/// Opens the store and reads everything in it.
fn read(home: &Home) -> Result<(), StoreError> {
    let store = Store::open(home)?;
    let loaded = store.read_all()?;
    for run in &loaded.runs {
        store.spec(run.run.key)?;
        for series in store.series(run.run.key)? {
            store.points(&series)?;
        }
    }
    drop(store);
    nero_store::scrub(home).map(drop)
}

/// Flips `count` bits, one at a time, and reads.
fn flip(count: usize, file: impl Fn(&Home) -> PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    drop(filled(&home, 12));
    let path = file(&home);
    let sound = fs::read(&path).unwrap();
    let rows = dump(&path).unwrap();
    let copy = folder.path().join("copy.db");
    // A multiplicative generator: the same flips in every run of the test.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let (mut effective, mut silent) = (0, Vec::new());
    for _ in 0..count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let bit = (state >> 20) as usize % (sound.len() * 8);
        let mut flipped = sound.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&copy, &flipped).unwrap();
        let is_effective = dump(&copy).ok() != Some(rows.clone());
        for suffix in ["-wal", "-shm", "-journal"] {
            let _ = fs::remove_file(format!("{}{suffix}", copy.display()));
        }
        fs::write(&path, &flipped).unwrap();
        let noticed = read(&home);
        effective += usize::from(is_effective);
        if is_effective && noticed.is_ok() {
            silent.push(bit);
        }
        fs::write(&path, &sound).unwrap();
    }
    eprintln!(
        "{effective} of {count} flips changed what SQLite reads; {} silent",
        silent.len()
    );
    assert!(
        effective * 20 > count,
        "the flips hit too little to say anything"
    );
    assert_eq!(silent, [] as [usize; 0]);
    read(&home).unwrap();
}

#[test]
fn no_flipped_fact_is_silent() {
    flip(600, Home::state_db);
}

#[test]
fn no_flipped_metric_is_silent() {
    flip(400, Home::series_db);
}

#[test]
fn a_file_that_is_no_whole_database_is_refused_and_left() {
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change); 14] = [
        ("empty", Vec::clear),
        ("one byte", |bytes| bytes.truncate(1)),
        ("a header and no more", |bytes| bytes.truncate(100)),
        ("one page", |bytes| bytes.truncate(4096)),
        ("half", |bytes| bytes.truncate(bytes.len() / 2)),
        ("the last page gone", |bytes| {
            bytes.truncate(bytes.len() - 4096)
        }),
        // SQLite reads zeros behind the end of the file, so zeros are not missed.
        ("a byte gone", |bytes| while bytes.pop() == Some(0) {}),
        ("all zeros", |bytes| bytes.fill(0)),
        ("the first page zeros", |bytes| bytes[..4096].fill(0)),
        ("the second page zeros", |bytes| bytes[4096..8192].fill(0)),
        ("zeros behind the first page", |bytes| bytes[4096..].fill(0)),
        ("text", |bytes| {
            *bytes = b"hello, this is a letter\n".repeat(99)
        }),
        ("another application", |bytes| {
            bytes[68..72].copy_from_slice(b"GPKG")
        }),
        ("a version of tomorrow", |bytes| {
            bytes[60..64].copy_from_slice(&[0, 0, 0, 99])
        }),
    ];
    for (name, change) in changes {
        for file in [Home::state_db, Home::series_db] {
            let folder = tempfile::tempdir().unwrap();
            let home = home(folder.path());
            drop(filled(&home, 12));
            let mut bytes = fs::read(file(&home)).unwrap();
            change(&mut bytes);
            fs::write(file(&home), &bytes).unwrap();
            let error = read(&home).expect_err(name);
            let path = file(&home);
            assert!(
                error.to_string().contains(path.to_str().unwrap()),
                "{name}: {error}"
            );
            assert!(error.hint().is_some(), "{name}: {error:?}");
            assert!(
                fs::read(&path).unwrap() == bytes,
                "{name}: the file was changed"
            );
        }
    }
}

#[test]
fn the_two_files_must_belong_together() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (
        home(&folder.path().join("1")),
        home(&folder.path().join("2")),
    );
    drop((filled(&one, 1), filled(&other, 1)));
    fs::copy(one.series_db(), other.series_db()).unwrap();
    let error = Store::open(&other).unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    fs::copy(one.series_db(), one.state_db()).unwrap();
    let error = Store::open(&one).unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
}

#[test]
fn a_missing_file_is_not_replaced_by_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    drop(filled(&home, 1));
    fs::remove_file(home.state_db()).unwrap();
    let error = Store::open(&home).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    assert!(!home.state_db().exists());
    fs::create_dir(home.state_db()).unwrap();
    Store::open(&home).unwrap_err();
}

#[test]
fn a_row_that_somebody_took_away_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    drop(filled(&home, 3));
    let conn = Connection::open(home.state_db()).unwrap();
    conn.execute_batch(
        "DROP TRIGGER run_facts_changed; UPDATE run_facts SET phase = 'finished' WHERE run = 2;
         CREATE TRIGGER run_facts_changed AFTER UPDATE ON run_facts BEGIN \
         UPDATE seal SET sum = sum - OLD.crc + NEW.crc WHERE tbl = 'run_facts'; END;",
    )
    .unwrap();
    drop(conn);
    let error = Store::open(&home).unwrap().read_all().unwrap_err();
    assert!(
        matches!(&error, StoreError::DamagedRow { table: "run_facts", row, .. } if row == "2"),
        "{error}"
    );
}
