//! `kill -9` in the middle of commits: every acknowledged row is there, and no
//! transaction is there by half.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use nero_store::{Durability, RunKey, Store, StoreError};

use crate::rig::{at, fold, home, one};

const FOLDER: &str = "NERO_STORE_WRITER";

/// A run that every writer goes on with: its points become full blocks.
const LONG: RunKey = RunKey(1);

/// Where the folds of that run end: at so many of them.
fn folds_of_long_run(store: &Store) -> u64 {
    let positions = store.series_positions().unwrap();
    let long = positions.iter().find(|position| position.run == LONG);
    long.map_or(0, |position| position.at.offset)
}

/// No test by itself: the child that [`acknowledged_rows_survive`] kills.
#[test]
fn writer() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mut store = Store::open(&home(folder.as_ref())).unwrap();
    let begin = store.read_all().unwrap().experiments.len();
    for number in begin.. {
        let key = store
            .write(Durability::Synced, |tx| {
                one(tx, &format!("first {number}"))?;
                one(tx, &format!("second {number}"))
            })
            .unwrap();
        store.fold_series(&[fold(key, at(0), at(10), 30)]).unwrap();
        let folds = folds_of_long_run(&store);
        for folds in folds..folds + 5 {
            let next = fold(LONG, at(folds), at(folds + 1), 30);
            store.fold_series(&[next]).unwrap();
        }
        if number % 7 == 3 {
            store.empty_logs().unwrap();
        }
        let mut out = std::io::stdout();
        if writeln!(out, "told {}", key.0).is_err() {
            return;
        }
    }
}

#[test]
fn acknowledged_rows_survive() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    for round in 0..6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "killed::writer",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = |line: String| {
            line.rsplit_once("told ")
                .map(|(_, key)| key.parse::<i64>().unwrap())
        };
        let mut last = lines
            .by_ref()
            .map_while(Result::ok)
            .filter_map(told)
            .nth(5 + round * 3)
            .expect("the writer writes until it is killed");
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            last = told(line).unwrap_or(last);
        }

        let store = Store::open(&home).unwrap();
        assert!(store.opened().unclean);
        let loaded = store.read_all().unwrap();
        assert!(loaded.runs.last().unwrap().run.key.0 >= last);
        assert_eq!(loaded.experiments.len() % 2, 0, "half a transaction");
        assert_eq!(loaded.experiments.len(), loaded.runs.len());
        assert_eq!(loaded.experiments.len(), loaded.rules.len());
        let folded = store.all_series().unwrap();
        assert_eq!(folded.len() % 2, 0, "half a fold");
        assert!(folded.iter().any(|series| series.run.0 == last));
        nero_store::scrub(&home).unwrap();
        for series in store.series(LONG).unwrap() {
            let points = store.points(&series).unwrap();
            let steps = points.iter().map(|point| point.step);
            assert!(steps.eq((0..points.len()).map(|at| (at % 15) as f64)));
            assert_eq!(points.len() as u64, 15 * folds_of_long_run(&store));
        }
        drop(store);
    }
    assert!(!Store::open(&home).unwrap().opened().unclean);
}

#[test]
fn a_transaction_that_is_dropped_never_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&home(folder.path())).unwrap();
    let undone: Result<(), StoreError> = store.write(Durability::Synced, |tx| {
        one(tx, "never")?;
        Err(StoreError::NoSuchRow {
            table: "x",
            row: String::new(),
        })
    });
    undone.unwrap_err();
    assert_eq!(
        store.read_all().unwrap(),
        nero_store::StoredState::default()
    );
}
