//! The write-ahead logs: what lies in them after `kill -9` is missed when it is
//! damaged, and nothing that a crash leaves is taken for damage.

use std::fs;
use std::path::{Path, PathBuf};

use nero_model::Home;
use nero_store::{Durability, RunKey, Store, StoreError, StoredState};

use crate::rig::{at, filled, fold, home, one};

/// The files of a store that is in use, as `kill -9` leaves them.
fn killed(from: &Home, to: &Path) -> Home {
    let copy = home(to);
    fs::create_dir_all(&copy.data).unwrap();
    for entry in fs::read_dir(&from.data).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        // SQLite makes it anew.
        if entry.file_type().unwrap().is_file() && !name.to_str().unwrap().ends_with("-shm") {
            fs::copy(entry.path(), copy.data.join(name)).unwrap();
        }
    }
    copy
}

fn log(home: &Home, name: &str) -> PathBuf {
    home.data.join(format!("{name}.db-wal"))
}

/// Everything in both files.
fn read(home: &Home) -> Result<(StoredState, Vec<usize>), StoreError> {
    let store = Store::open(home)?;
    let loaded = store.read_all()?;
    let mut points = Vec::new();
    for series in store.all_series()? {
        points.push(store.points(&series)?.len());
    }
    Ok((loaded, points))
}

/// The next number of a sequence that is the same in every run of the test.
fn next(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 20) as usize
}

#[test]
fn no_damage_of_a_log_is_silent() {
    let folder = tempfile::tempdir().unwrap();
    let live = home(&folder.path().join("live"));
    let store = filled(&live, 3);
    let sound = read(&killed(&live, &folder.path().join("sound"))).unwrap();
    let mut state = 0x2545_f491_4f6c_dd1d;
    for name in ["state", "series"] {
        let bytes = fs::read(log(&live, name)).unwrap();
        assert!(bytes.len() > 4096, "nothing lies in the log");
        for count in 0..60 {
            let mut changed = bytes.clone();
            match count {
                0 => changed.clear(),
                1 => changed.fill(0),
                2 => changed.truncate(32),
                3 => changed.truncate(bytes.len() - 1),
                4 => changed.truncate(bytes.len() / 2),
                _ => {
                    let bit = next(&mut state) % (bytes.len() * 8);
                    changed[bit / 8] ^= 1 << (bit % 8);
                }
            }
            let copy = killed(&live, &folder.path().join(format!("{name}{count}")));
            fs::write(log(&copy, name), &changed).unwrap();
            match read(&copy) {
                Ok(read) => assert!(read == sound, "{name} {count}: silently another store"),
                Err(error) => {
                    let path = log(&copy, name);
                    let text = error.to_string();
                    assert!(text.contains(path.to_str().unwrap()), "{count}: {text}");
                    let is_damage = matches!(
                        error,
                        StoreError::Damaged { .. }
                            | StoreError::DamagedRow { .. }
                            | StoreError::DamagedTable { .. }
                            | StoreError::Foreign { .. }
                            | StoreError::Missing { .. }
                            | StoreError::Log { .. }
                    );
                    assert!(error.hint().is_some() && is_damage, "{error:?}");
                    assert!(fs::read(&path).unwrap() == changed, "the log was changed");
                    let again = read(&copy).unwrap_err().to_string();
                    assert_eq!(again, text, "a refused start changed another file");
                }
            }
            fs::remove_dir_all(&copy.data).unwrap();
        }
        let copy = killed(&live, &folder.path().join(format!("{name} gone")));
        fs::remove_file(log(&copy, name)).unwrap();
        let error = read(&copy).unwrap_err();
        assert!(matches!(error, StoreError::Log { .. }), "{error}");
    }
    drop(store);
}

#[test]
fn an_idle_store_needs_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let live = home(&folder.path().join("live"));
    let mut store = filled(&live, 3);
    let before = store.read_all().unwrap();
    store.empty_logs().unwrap();
    for name in ["state", "series"] {
        assert_eq!(fs::metadata(log(&live, name)).unwrap().len(), 0, "{name}");
    }
    let copy = killed(&live, &folder.path().join("copy"));
    for name in ["state", "series"] {
        fs::remove_file(log(&copy, name)).unwrap();
    }
    let (loaded, points) = read(&copy).unwrap();
    assert_eq!((loaded, points.len()), (before, 6));
    // Whether there is room is known by writing.
    assert!(store.has_room().unwrap());
    for name in ["state", "series"] {
        let len = fs::metadata(log(&live, name)).unwrap().len();
        assert!(len > 0, "{name}");
    }
    // The next burst lies in a log again, and is missed without it.
    store
        .write(Durability::Synced, |tx| one(tx, "later"))
        .unwrap();
    let copy = killed(&live, &folder.path().join("later"));
    fs::remove_file(log(&copy, "state")).unwrap();
    let error = read(&copy).unwrap_err();
    assert!(matches!(error, StoreError::Log { .. }), "{error}");
}

#[test]
fn every_moment_of_a_busy_store_can_be_its_last() {
    let folder = tempfile::tempdir().unwrap();
    let live = home(&folder.path().join("live"));
    let mut store = filled(&live, 1);
    for round in 0..40_u64 {
        let durability = match round % 3 {
            0 => Durability::Ordered,
            _ => Durability::Synced,
        };
        store
            .write(durability, |tx| one(tx, &format!("round {round}")))
            .unwrap();
        // Large enough that the log is used again from its beginning.
        let points = if round % 10 == 4 { 60_000 } else { 10 };
        let (from, to) = (at(200 + round), at(201 + round));
        store
            .fold_series(&[fold(RunKey(1), from, to, points)])
            .unwrap();
        if round % 9 == 8 {
            store.empty_logs().unwrap();
        }
        let copy = killed(&live, &folder.path().join(format!("{round}")));
        let (loaded, _) = read(&copy).unwrap_or_else(|error| panic!("{round}: {error}"));
        assert_eq!(loaded.experiments.len() as u64, 2 + round);
        fs::remove_dir_all(&copy.data).unwrap();
    }
}

#[test]
fn a_copy_that_was_put_in_place_is_used_without_the_log_of_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let live = home(&folder.path().join("live"));
    let mut store = filled(&live, 2);
    let copied = nero_store::backup(&live, 1_700_000_000_000).unwrap();
    let before = store.read_all().unwrap();
    store
        .write(Durability::Synced, |tx| one(tx, "later"))
        .unwrap();
    let copy = killed(&live, &folder.path().join("copy"));
    fs::copy(&copied, copy.state_db()).unwrap();
    let error = Store::open(&copy).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("state.db-wal belongs to another file"),
        "{text}"
    );
    fs::remove_file(log(&copy, "state")).unwrap();
    assert_eq!(read(&copy).unwrap().0, before);
}

#[test]
fn a_log_that_cannot_be_used_is_named_itself() {
    for name in [
        "state.db-wal",
        "state.db-shm",
        "series.db-wal",
        "series.db-shm",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        drop(filled(&home, 1));
        let path = home.data.join(name);
        fs::create_dir(&path).unwrap();
        let error = Store::open(&home).unwrap_err();
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
        assert!(error.hint().unwrap().contains(name), "{error:?}");
    }
}
