//! Files of earlier builds are read by this one. Add a pair with each version:
//! `cargo run -p nero-store --example make_golden_store`.

use std::fs;
use std::path::PathBuf;

use nero_store::{Store, StoredState};

use crate::rig::{filled, home};

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn version_1_is_read() {
    is_read("state-v1.db", "series-v1.db");
}

#[test]
fn version_3_is_read() {
    is_read("state-v3.db", "state-v3.series.db");
}

#[test]
fn version_4_is_read_with_the_cells_that_were_written() {
    let old = is_read("state-v4.db", "state-v4.series.db");
    let folder = tempfile::tempdir().unwrap();
    let new = filled(&home(folder.path()), 2);
    for experiment in new.read_all().unwrap().experiments {
        for is_newest in [true, false] {
            let cells = old.cells(experiment.id, is_newest).unwrap();
            assert_eq!(cells.len(), if is_newest { 1 } else { 2 });
            assert_eq!(cells, new.cells(experiment.id, is_newest).unwrap());
            assert_eq!(cells.last().map(|cell| cell.part), Some(1));
        }
    }
}

#[test]
fn version_5_is_read_with_notices_and_deliveries() {
    let old = is_read("state-v5.db", "state-v5.series.db");
    let folder = tempfile::tempdir().unwrap();
    let new = filled(&home(folder.path()), 2);
    let (was, is) = (old.read_all().unwrap(), new.read_all().unwrap());
    assert_eq!(was, is);
    assert_eq!((is.notices.len(), is.deliveries.len()), (2, 2));
    for (delivery, _) in was.deliveries {
        let letter = old.letter(delivery).unwrap();
        assert!(letter.is_some());
        assert_eq!(letter, new.letter(delivery).unwrap());
    }
}

#[test]
fn version_6_is_read() {
    is_read("state-v6.db", "state-v6.series.db");
}

#[test]
fn version_7_is_read() {
    is_read("state-v7.db", "state-v7.series.db");
}

#[test]
fn version_8_is_read() {
    is_read("state-v8.db", "state-v8.series.db");
}

#[test]
fn version_2_of_metrics_is_read() {
    is_read("state-v8-2.db", "state-v8-2.series.db");
}

fn is_read(state: &str, series: &str) -> Store {
    let folder = tempfile::tempdir().unwrap();
    let old = home(&folder.path().join("old"));
    fs::create_dir_all(&old.data).unwrap();
    fs::copy(golden().join(state), old.state_db()).unwrap();
    fs::copy(golden().join(series), old.series_db()).unwrap();
    let new = filled(&home(&folder.path().join("new")), 2);
    let old = Store::open(&old).unwrap();
    // Files before version 5 have no mail.
    let without_mail = |store: &Store| StoredState {
        notices: Vec::new(),
        deliveries: Vec::new(),
        ..store.read_all().unwrap()
    };
    assert_eq!(without_mail(&old), without_mail(&new));
    for run in new.read_all().unwrap().runs {
        let key = run.run.key;
        assert_eq!(old.spec(key).unwrap(), new.spec(key).unwrap());
        assert_eq!(old.samples(key).unwrap(), new.samples(key).unwrap());
        let series = old.series(key).unwrap();
        assert_eq!(series, new.series(key).unwrap());
        for series in &series {
            assert_eq!(old.points(series).unwrap(), new.points(series).unwrap());
        }
    }
    old
}
