//! How fast the store is: `cargo run --release -p nero-store --example store_speed`.

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../tests/it/rig.rs"]
mod rig;

use std::time::Instant;

use nero_store::{Durability, Point, RunFold, RunKey, Store, StoreError};

use rig::{at, bytes, experiment, fold, home, run};

fn speed_of_loading() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let mut store = Store::open(&home).unwrap();
    let clock = Instant::now();
    store
        .write(Durability::Synced, |tx| {
            for number in 0..100_000_u64 {
                let id = tx.new_experiment()?;
                let mut row = experiment(id, &format!("experiment {number}"));
                row.definition = row.definition.repeat(16);
                tx.put_experiment(&row)?;
                let key = tx.insert_run(&run(id, 1), &[1; 800])?;
                tx.put_facts(key, &[b'x'; 300])?;
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
    println!(
        "100 000 experiments with runs written: {:?}",
        clock.elapsed()
    );
    drop(store);
    let clock = Instant::now();
    let store = Store::open(&home).unwrap();
    let opened = clock.elapsed();
    let clock = Instant::now();
    let loaded = store.read_all().unwrap();
    println!(
        "open {opened:?}, read_all of {} runs: {:?}",
        loaded.runs.len(),
        clock.elapsed()
    );
    let clock = Instant::now();
    nero_store::backup(&home, 0).unwrap();
    println!("backup: {:?}", clock.elapsed());
}

fn speed_of_folding() {
    for (runs, batch) in [(1_u64, 10_000_u32), (50, 1000), (50, 100), (1000, 2)] {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&home(folder.path())).unwrap();
        let rounds = (1_000_000 / (runs * u64::from(batch))).max(5);
        let folds: Vec<Vec<RunFold>> = (0..rounds)
            .map(|round| {
                (0..runs)
                    .map(|run| fold(RunKey(run as i64 + 1), at(round), at(round + 1), batch))
                    .collect()
            })
            .collect();
        let clock = Instant::now();
        for fold in &folds {
            store.fold_series(fold).unwrap();
        }
        let took = clock.elapsed();
        let points = rounds * runs * u64::from(batch);
        let clock = Instant::now();
        let series = &store.series(RunKey(1)).unwrap()[0];
        let read = store.points(series).unwrap().len();
        println!(
            "{runs} runs × {batch} points a commit: {:.0} points/s; one series of {read} read in {:?}",
            points as f64 / took.as_secs_f64(),
            clock.elapsed(),
        );
    }
}

fn speed_of_commits() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&home(folder.path())).unwrap();
    for durability in [Durability::Synced, Durability::Ordered] {
        let clock = Instant::now();
        for number in 0..500 {
            store
                .write(durability, |tx| {
                    let id = tx.new_experiment()?;
                    tx.put_experiment(&experiment(id, &format!("{durability:?} {number}")))?;
                    tx.insert_run(&run(id, 1), &bytes(number).repeat(50))
                })
                .unwrap();
        }
        println!("{durability:?}: {:?} a commit", clock.elapsed() / 500);
    }
    let point = Point {
        step: 1.0,
        time_ms: 2,
        value: 0.1,
        generation: 0,
    };
    let clock = Instant::now();
    for _ in 0..500 {
        let fold = RunFold {
            run: RunKey(1),
            names: vec!["x".to_owned()],
            points: vec![(0, point)],
            ..RunFold::default()
        };
        store.fold_series(&[fold]).unwrap();
    }
    println!("a fold of one point: {:?}", clock.elapsed() / 500);
}

fn main() {
    speed_of_loading();
    speed_of_folding();
    speed_of_commits();
}
