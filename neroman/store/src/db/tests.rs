use super::*;
use crate::migrate::{Migration, STATE};
use crate::state;

const FIRST: Schema = Schema {
    steps: STATE.steps.split_at(1).0,
    ..STATE
};
const NEXT: Schema = Schema {
    application: STATE.application,
    copied_bytes_max: u64::MAX,
    steps: &[STATE.steps[0], |conn| {
        conn.execute_batch("CREATE TABLE more (id INTEGER PRIMARY KEY)")
    }],
};
const FAILS: Migration =
    |conn| conn.execute_batch("CREATE TABLE more (id INTEGER); SELECT nothing");
const BAD: Schema = Schema {
    application: STATE.application,
    copied_bytes_max: u64::MAX,
    steps: &[STATE.steps[0], FAILS],
};

fn made(folder: &Path) -> PathBuf {
    let path = folder.join("state.db");
    Db::create(&path, FIRST, |db| state::put_meta(db, "own x", b"kept")).unwrap();
    path
}

#[test]
fn a_step_copies_the_old_file_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(folder.path());
    let (db, found) = Db::open(&path, NEXT, false, None).unwrap();
    assert_eq!(found.migrated_from, Some(1));
    assert_eq!(state::get_meta(&db, "own x").unwrap().unwrap(), b"kept");
    drop(db);
    let copy = folder.path().join("state.db.before-v2");
    let (old, found) = Db::open(&copy, FIRST, true, None).unwrap();
    assert_eq!(found.migrated_from, None);
    assert_eq!(state::get_meta(&old, "own x").unwrap().unwrap(), b"kept");
    assert_eq!(
        Db::open(&path, NEXT, false, None).unwrap().1.migrated_from,
        None
    );
}

#[test]
fn a_file_that_is_too_large_for_a_copy_takes_the_step_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(folder.path());
    let large = Schema {
        copied_bytes_max: 0,
        ..NEXT
    };
    let (db, found) = Db::open(&path, large, false, None).unwrap();
    assert_eq!(found.migrated_from, Some(1));
    assert_eq!(state::get_meta(&db, "own x").unwrap().unwrap(), b"kept");
    assert!(!folder.path().join("state.db.before-v2").exists());
}

#[test]
fn a_step_that_fails_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(folder.path());
    let before = fs::read(&path).unwrap();
    Db::open(&path, BAD, false, None).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), before);
    Db::open(&path, FIRST, false, None).unwrap();
}

#[test]
fn a_newer_file_is_refused_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(folder.path());
    drop(Db::open(&path, NEXT, false, None).unwrap());
    let before = fs::read(&path).unwrap();
    let error = Db::open(&path, FIRST, false, None).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::TooNew {
                found: 2,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// Builds that knew versions 1 and 2 gave a file of the same tables version 2
/// when it held rows that version 1 lacks.
#[test]
fn files_of_both_earlier_versions_become_the_present_one() {
    for version in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let path = made(folder.path());
        let conn = Connection::open(&path).unwrap();
        conn.pragma_update(None, "user_version", version).unwrap();
        drop(conn);
        let (db, found) = Db::open(&path, STATE, false, None).unwrap();
        assert_eq!(found.migrated_from, Some(version));
        assert_eq!(state::get_meta(&db, "own x").unwrap().unwrap(), b"kept");
        drop(db);
        let error = Db::open(&path, FIRST, false, None).unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::TooNew {
                    found: 8,
                    known: 1,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn other_tables_than_those_that_were_made_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(folder.path());
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("DROP TRIGGER meta_added").unwrap();
    drop(conn);
    let error = Db::open(&path, FIRST, false, None).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Damaged { .. } | StoreError::Missing { .. }
        ),
        "{error:?}"
    );
}
