//! Reading returns what was written; forbidden writes are refused.

use nero_model::{ExperimentId, RequestId};
use nero_store::{At, Durability, RunKey, Store, StoreError, StoredState};

use crate::rig::{at, bytes, experiment, filled, fold, home, one, run};

fn read(store: &Store) -> StoredState {
    store.read_all().unwrap()
}

/// The names that the experiments were made with.
fn prints(store: &Store) -> Vec<String> {
    let prints = read(store).experiments.into_iter().map(|e| e.fingerprint);
    prints.map(|print| print.replace("print of ", "")).collect()
}

#[test]
fn everything_comes_back_after_closing() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let store = filled(&home, 3);
    let (before, deployment) = (read(&store), store.deployment());
    assert!(store.opened().new);
    drop(store);
    let store = Store::open(&home).unwrap();
    assert!(!store.opened().new && !store.opened().unclean);
    assert_eq!(store.deployment(), deployment);
    let loaded = read(&store);
    assert_eq!(loaded, before);
    assert_eq!(loaded.experiments.len(), 3);
    assert_eq!(loaded.last, [ExperimentId(3)]);
    assert_eq!(loaded.runs[1].facts, b"facts of experiment-1");
    assert_eq!(loaded.runs[1].dispatch, b"desk");
    assert_eq!(store.spec(RunKey(2)).unwrap(), b"spec of experiment-1");
    assert_eq!(store.events(ExperimentId(2)).unwrap()[0].run, Some(1));
    let request = store
        .request(&RequestId::from_bytes(bytes(2)))
        .unwrap()
        .unwrap();
    assert_eq!(request.reply, 2_u64.to_le_bytes());
    assert_eq!(nero_store::scrub(&home).unwrap().points, 3 * 46);
    assert!(matches!(
        store.spec(RunKey(9)),
        Err(StoreError::NoSuchRow { .. })
    ));
}

#[test]
fn numbers_are_never_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let mut store = filled(&home, 2);
    store
        .write(Durability::Synced, |tx| {
            assert!(tx.delete_experiment(ExperimentId(2))?);
            tx.delete_run(RunKey(2))
        })
        .unwrap();
    drop(store);
    let mut store = Store::open(&home).unwrap();
    let key = store
        .write(Durability::Synced, |tx| one(tx, "again"))
        .unwrap();
    assert_eq!(key, RunKey(3));
    let numbers: Vec<_> = read(&store).experiments.iter().map(|e| e.id.0).collect();
    assert_eq!(numbers, [1, 3]);
    // A number of a rolled back transaction was never reported, so it is given
    // again.
    let error = store
        .write(Durability::Synced, |tx| {
            assert_eq!(tx.new_experiment()?, ExperimentId(4));
            Err::<(), _>(tx.insert_run(&run(ExperimentId(1), 1), b"").unwrap_err())
        })
        .unwrap_err();
    assert!(matches!(error, StoreError::Twice { .. }), "{error}");
    let next = store.write(Durability::Ordered, |tx| tx.new_experiment());
    assert_eq!(next.unwrap(), ExperimentId(4));
}

#[test]
fn a_part_that_fails_leaves_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let mut store = filled(&home, 1);
    let read_run = read(&store).runs[0].run.clone();
    store
        .write(Durability::Synced, |tx| {
            one(tx, "kept")?;
            let failed = tx.attempt(|tx| {
                let id = tx.new_experiment()?;
                tx.put_experiment(&experiment(id, "undone"))?;
                tx.insert_run(&read_run, b"spec").map(drop)
            });
            assert!(
                matches!(&failed, Err(StoreError::Twice { .. })),
                "{failed:?}"
            );
            one(tx, "kept too").map(drop)
        })
        .unwrap();
    assert_eq!(prints(&store), ["experiment-0", "kept", "kept too"]);
}

#[test]
fn experiments_of_several_sources_may_have_one_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(&home(folder.path()), 1);
    store
        .write(Durability::Synced, |tx| {
            let id = tx.new_experiment()?;
            tx.put_experiment(&experiment(id, "experiment-0"))
        })
        .unwrap();
    assert_eq!(prints(&store), ["experiment-0", "experiment-0"]);
}

#[test]
fn the_number_of_a_deleted_experiment_counts_as_given() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(&home(folder.path()), 2);
    let given = store.experiments_given().unwrap();
    let newest = read(&store).experiments.last().unwrap().id;
    assert_eq!(newest.0, given);
    store
        .write(Durability::Synced, |tx| tx.delete_experiment(newest))
        .unwrap();
    assert_eq!(store.experiments_given().unwrap(), given);
}

#[test]
fn a_fold_that_does_not_follow_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(&home(folder.path()), 1);
    let mut advance = |from, to| store.fold_series(&[fold(RunKey(1), from, to, 2)]);
    for wrong in [
        at(100),
        at(300),
        At {
            offset: 200,
            chain: 1,
        },
        At::default(),
    ] {
        let refused = advance(wrong, at(400)).unwrap_err();
        assert!(
            matches!(refused, StoreError::Position { stored, expected, .. }
                if stored == at(200) && expected == wrong),
            "{refused}"
        );
    }
    advance(at(200), at(400)).unwrap();
    assert_eq!(store.series_positions().unwrap()[0].at, at(400));
}

#[test]
fn old_answers_are_forgotten_and_own_values_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(&home(folder.path()), 2);
    let forgotten = store.write(Durability::Ordered, |tx| {
        tx.set_meta("greeting", b"hello")?;
        assert_eq!(tx.forget_requests_before(7)?, 0);
        tx.forget_requests_before(8)
    });
    assert_eq!(forgotten.unwrap(), 2);
    assert_eq!(store.meta("greeting").unwrap().unwrap(), b"hello");
    assert_eq!(store.meta("nothing").unwrap(), None);
    store.read_all().unwrap();
}

#[test]
fn seven_copies_are_kept_and_can_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let store = filled(&home, 2);
    let hour = 3_600_000;
    let copied: Vec<_> = (0..9)
        .map(|n| nero_store::backup(&home, 1_795_228_412_000 + n * hour).unwrap())
        .collect();
    let copies = std::fs::read_dir(nero_store::backup_folder(&home)).unwrap();
    assert_eq!(copies.count(), 7);
    let other = tempfile::tempdir().unwrap();
    let restored = crate::rig::home(other.path());
    std::fs::create_dir_all(&restored.data).unwrap();
    std::fs::copy(&copied[8], restored.state_db()).unwrap();
    let copy = Store::open(&restored).unwrap();
    assert!(copy.opened().series_new);
    assert_eq!(read(&copy), read(&store));
}

#[test]
fn an_older_copy_gives_no_run_the_metrics_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let mut store = filled(&home, 1);
    let copy = nero_store::backup(&home, 0).unwrap();
    let lost = store
        .write(Durability::Synced, |tx| one(tx, "lost"))
        .unwrap();
    store.fold_series(&[fold(lost, at(0), at(9), 4)]).unwrap();
    drop(store);
    std::fs::copy(copy, home.state_db()).unwrap();
    let mut store = Store::open(&home).unwrap();
    let next = store.write(Durability::Synced, |tx| one(tx, "next"));
    assert_eq!(next.unwrap(), RunKey(lost.0 + 1));
}

#[test]
fn a_large_number_is_counted_as_given_in_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(&home(folder.path()), 2);
    let next = store.write(Durability::Synced, |tx| {
        tx.give_experiments(ExperimentId(9_999_999))?;
        // A smaller one changes nothing.
        tx.give_experiments(ExperimentId(3))?;
        tx.new_experiment()
    });
    assert_eq!(next.unwrap(), ExperimentId(10_000_000));
}
