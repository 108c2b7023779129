use super::*;
use crate::migrate::{STATE, Step};
use crate::state;

const FIRST: Kind = Kind { raises: 0, ..STATE };
const NEXT: Kind = Kind {
    application: STATE.application,
    steps: &[STATE.steps[0], |conn| {
        conn.execute_batch("CREATE TABLE more (id INTEGER PRIMARY KEY)")
    }],
    raises: 0,
};
const FAILS: Step = |conn| conn.execute_batch("CREATE TABLE more (id INTEGER); SELECT nothing");
const BAD: Kind = Kind {
    application: STATE.application,
    steps: &[STATE.steps[0], FAILS],
    raises: 0,
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

#[test]
fn a_raised_file_is_refused_by_builds_that_know_less() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(folder.path());
    let raise = || {
        let (db, found) = Db::open(&path, STATE, false, None).unwrap();
        assert_eq!(found.migrated_from, None);
        let tx = db.begin(true).unwrap();
        db.raise(STATE).unwrap();
        (db.identify(STATE).unwrap(), tx.commit().unwrap())
    };
    drop(Db::open(&path, FIRST, false, None).unwrap());
    assert_eq!((raise().0, raise().0), (2, 2));
    let error = Db::open(&path, FIRST, false, None).unwrap_err();
    assert!(
        matches!(error, StoreError::TooNew { found: 2, .. }),
        "{error}"
    );
    let (db, _) = Db::open(&path, STATE, false, None).unwrap();
    assert_eq!(state::get_meta(&db, "own x").unwrap().unwrap(), b"kept");
    Db::open_to_read(&path, STATE).unwrap();
}

#[test]
fn a_raise_goes_with_its_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(folder.path());
    let (db, _) = Db::open(&path, STATE, false, None).unwrap();
    let tx = db.begin(true).unwrap();
    db.raise(STATE).unwrap();
    drop(tx);
    assert_eq!(db.identify(STATE).unwrap(), 1);
}

#[test]
fn other_tables_than_those_that_were_made_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(folder.path());
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("DROP TRIGGER meta_added").unwrap();
    drop(conn);
    let error = Db::open(&path, FIRST, false, None).unwrap_err();
    assert!(error.is_damage(), "{error}");
}
