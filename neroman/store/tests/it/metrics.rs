//! Points are folded exactly once and come back bit for bit.

use std::path::Path;

use nero_model::Home;
use nero_store::{Point, RunFold, RunKey, Sample, Series, SeriesCursor, Store, StoreError};
use proptest::prelude::*;

use crate::rig::{at, fold, home};

fn find(store: &Store, run: RunKey, name: &str) -> Series {
    let found = store.series(run).unwrap();
    found
        .into_iter()
        .find(|series| series.name == name)
        .unwrap()
}

#[test]
fn a_fold_that_is_repeated_is_refused_and_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let mut store = Store::open(&home).unwrap();
    let run = RunKey(1);
    let first = fold(run, at(0), at(100), 200);
    store.fold_series(std::slice::from_ref(&first)).unwrap();
    let again = store.fold_series(&[fold(RunKey(2), at(0), at(50), 10), first]);
    assert!(matches!(
        again,
        Err(StoreError::Position { run: RunKey(1), .. })
    ));
    assert!(store.series(RunKey(2)).unwrap().is_empty());
    store
        .fold_series(&[fold(run, at(100), at(200), 200)])
        .unwrap();
    let loss = find(&store, run, "loss");
    assert_eq!(loss.count, 200);
    assert_eq!(store.points(&loss).unwrap().len(), 200);
    assert_eq!(store.series_positions().unwrap()[0].at, at(200));
    assert_eq!(store.samples(run).unwrap().len(), 2);
    drop(store);
    let store = Store::open(&home).unwrap();
    assert_eq!(find(&store, run, "loss"), loss);
}

#[test]
fn values_keep_every_bit_and_extremes_ignore_nan() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&home(folder.path())).unwrap();
    let payload = f64::from_bits(0x7ff8_0000_0000_beef);
    let values = [
        f64::NAN,
        2.0,
        payload,
        -0.0,
        f64::INFINITY,
        0.1,
        -3.5,
        f64::NAN,
    ];
    let points = values.iter().zip(0..).map(|(value, step)| {
        let point = Point {
            step: f64::from(step),
            time_ms: 5,
            value: *value,
            generation: 0,
        };
        (0, point)
    });
    let batch = RunFold {
        run: RunKey(1),
        names: vec!["x".to_owned()],
        points: points.collect(),
        ..RunFold::default()
    };
    store.fold_series(&[batch]).unwrap();
    let series = find(&store, RunKey(1), "x");
    let back = store.points(&series).unwrap();
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let back: Vec<f64> = back.iter().map(|point| point.value).collect();
    assert_eq!(bits(&back), bits(&values));
    assert_eq!((series.min, series.max), (-3.5, f64::INFINITY));
    assert!(series.last.is_nan());
    assert_eq!(series.last_step, 7.0);
}

#[test]
fn points_that_come_late_from_an_earlier_start_are_read_before_those_of_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&home(folder.path())).unwrap();
    for (generation, value) in [(0, 0.0), (1, 1.0), (0, 0.5)] {
        let point = Point {
            step: value,
            time_ms: 5,
            value,
            generation,
        };
        let batch = RunFold {
            run: RunKey(1),
            names: vec!["x".to_owned()],
            points: vec![(0, point)],
            ..RunFold::default()
        };
        store.fold_series(&[batch]).unwrap();
    }
    let series = find(&store, RunKey(1), "x");
    assert_eq!((series.last, series.last_step, series.count), (1.0, 1.0, 3));
    let read = store.points(&series).unwrap();
    let read: Vec<f64> = read.iter().map(|point| point.value).collect();
    assert_eq!(read, [0.0, 0.5, 1.0]);
}

#[test]
fn series_of_many_runs_are_read_in_order_beside_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let mut store = Store::open(&home).unwrap();
    for round in 0..20_u64 {
        let folds: Vec<_> = (1..=10)
            .map(|run| fold(RunKey(run), at(round), at(round + 1), 7))
            .collect();
        store.fold_series(&folds).unwrap();
    }
    let reader = store.series_reader().unwrap();
    for run in 1..=10 {
        let read = reader.read(RunKey(run)).unwrap();
        let lengths: Vec<_> = read
            .iter()
            .map(|(s, points)| (s.name.as_str(), points.len()))
            .collect();
        assert_eq!(lengths, [("acc", 60), ("loss", 80)]);
        let steps: Vec<_> = read[1].1.iter().map(|point| point.step).take(8).collect();
        assert_eq!(steps, [0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0]);
    }
    assert_eq!(store.all_series().unwrap().len(), 20);
    store.forget_series(RunKey(3)).unwrap();
    assert!(reader.read(RunKey(3)).unwrap().is_empty());
    assert_eq!(reader.read(RunKey(4)).unwrap().len(), 2);
    store
        .fold_series(&[fold(RunKey(3), at(0), at(9), 7)])
        .unwrap();
    assert_eq!(nero_store::scrub(&home).unwrap().points, 9 * 140 + 7);
}

#[test]
fn points_of_a_later_generation_follow_those_of_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&home(folder.path())).unwrap();
    let point = |step, generation| {
        (
            0,
            Point {
                step,
                time_ms: 0,
                value: step,
                generation,
            },
        )
    };
    let batch = RunFold {
        run: RunKey(1),
        names: vec!["x".to_owned()],
        points: vec![point(1.0, 0), point(5.0, 1), point(2.0, 0), point(6.0, 1)],
        samples: vec![Sample::default()],
        ..RunFold::default()
    };
    store.fold_series(&[batch]).unwrap();
    let series = find(&store, RunKey(1), "x");
    let steps: Vec<_> = store
        .points(&series)
        .unwrap()
        .iter()
        .map(|p| p.step)
        .collect();
    assert_eq!(steps, [1.0, 2.0, 5.0, 6.0]);
}

#[test]
fn a_reader_goes_on_where_it_was_and_verifies_what_was_added() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let mut store = Store::open(&home).unwrap();
    let reader = store.series_reader().unwrap();
    let mut cursor = SeriesCursor::default();
    let mut read = Vec::new();
    for round in 0..12_u64 {
        // Ranges that grow, and ranges that a neighbour's points end.
        let runs = if round % 4 == 3 { 1..=2 } else { 1..=1 };
        let folds: Vec<_> = runs
            .map(|run| match run {
                1 => fold(RunKey(1), at(round), at(round + 1), 7),
                run => fold(RunKey(run), at(round / 4), at(round / 4 + 1), 7),
            })
            .collect();
        store.fold_series(&folds).unwrap();
        if round % 2 == 0 {
            let series = find(&store, RunKey(1), "loss");
            read.extend(reader.read_on(&series, &mut cursor).unwrap());
            assert_eq!(cursor.count, series.count);
        }
    }
    let series = find(&store, RunKey(1), "loss");
    read.extend(reader.read_on(&series, &mut cursor).unwrap());
    assert_eq!(read, store.points(&series).unwrap());
    assert_eq!(reader.read_on(&series, &mut cursor).unwrap(), []);
    // The daemon remembers pictures by the number of a series, so a series that is folded anew has
    // another number, also after a restart.
    drop(store);
    let mut store = Store::open(&home).unwrap();
    store.forget_series(RunKey(2)).unwrap();
    store.forget_series(RunKey(1)).unwrap();
    store
        .fold_series(&[fold(RunKey(1), at(0), at(20), 140)])
        .unwrap();
    assert_ne!(find(&store, RunKey(1), "loss").id, series.id);
}

/// Folds so many points each time into a series of a run that has folds up to `from`, and reads
/// them: all at once, and behind those that were read before.
fn fold_and_read(home: &Home, mut from: u64, sizes: &[u32]) {
    let run = RunKey(1);
    let mut store = Store::open(home).unwrap();
    let reader = store.series_reader().unwrap();
    let known = store.series(run).unwrap();
    let known = known.iter().find(|series| series.name == "loss");
    let mut points = known.map_or_else(Vec::new, |series| store.points(series).unwrap());
    let mut read = Vec::new();
    let mut cursor = SeriesCursor::default();
    for (round, size) in sizes.iter().enumerate() {
        let new = (0..*size).map(|_| {
            points.push(Point {
                step: points.len() as f64,
                time_ms: 1_700_000_000_000 + points.len() as i64 / 7,
                value: 1.0 / points.len() as f64,
                generation: round as u32 / 10,
            });
            (0, points[points.len() - 1])
        });
        let batch = RunFold {
            names: vec!["loss".to_owned()],
            points: new.collect(),
            ..fold(run, at(from), at(from + 1), 0)
        };
        // Another series beside it, whose number of points is another one.
        let beside = fold(RunKey(2), at(from), at(from + 1), size / 2);
        store.fold_series(&[batch, beside]).unwrap();
        from += 1;
        let series = find(&store, run, "loss");
        if round % 3 == 0 {
            read.extend(reader.read_on(&series, &mut cursor).unwrap());
            assert_eq!(read, points);
        }
        assert_eq!(series.count, points.len() as u64);
        assert_eq!(store.points(&series).unwrap(), points);
    }
    drop(store);
    let store = Store::open(home).unwrap();
    let series = find(&store, run, "loss");
    assert_eq!(store.points(&series).unwrap(), points);
    nero_store::scrub(home).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn points_come_back_however_many_a_fold_brings(
        sizes in proptest::collection::vec(
            prop_oneof![1..5_u32, 1..300_u32, 254..259_u32, 500..1100_u32],
            1..30,
        ),
    ) {
        let folder = tempfile::tempdir().unwrap();
        fold_and_read(&home(&folder.path().join("new")), 0, &sizes);
        // A home of version 1: its points stay where they are, before the new ones.
        let old = home(&folder.path().join("old"));
        std::fs::create_dir_all(&old.data).unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        std::fs::copy(golden.join("state-v8.db"), old.state_db()).unwrap();
        std::fs::copy(golden.join("state-v8.series.db"), old.series_db()).unwrap();
        fold_and_read(&old, 200, &sizes);
    }
}

#[test]
fn a_block_that_is_gone_or_changed_is_missed() {
    for change in [
        "DELETE FROM block WHERE first = 256",
        "UPDATE block SET first = 255 WHERE first = 256",
        "UPDATE block SET points = substr(points, 1, length(points) - 1) WHERE first = 512",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        fold_and_read(&home, 0, &[600, 3]);
        let conn = rusqlite::Connection::open(home.series_db()).unwrap();
        assert_eq!(conn.execute(change, []).unwrap(), 1, "{change}");
        drop(conn);
        let store = Store::open(&home).unwrap();
        let error = store.points(&find(&store, RunKey(1), "loss")).unwrap_err();
        assert!(matches!(error, StoreError::DamagedRow { .. }), "{error}");
        nero_store::scrub(&home).unwrap_err();
    }
}
