//! A store below a folder of its own, and rows to put into it.

use std::path::Path;

use nero_journal::SegmentId;
use nero_model::{ExperimentId, Home, RequestId, RunId, RunToken};
use nero_store::{
    Advance, At, CellRow, Event, Experiment, Point, Request, Rule, Run, RunFold, RunKey, Sample,
    Source, Store, StoreError, Tx,
};

pub(crate) fn home(folder: &Path) -> Home {
    Home::below(folder)
}

/// Sixteen bytes that follow from a number.
pub(crate) fn bytes(number: u64) -> [u8; 16] {
    let mut bytes = [7; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

pub(crate) fn experiment(id: ExperimentId, name: &str) -> Experiment {
    Experiment {
        id,
        definition: format!("{{\"name\":\"{name}\",\"argv\":[\"python\",\"train.py\"]}}"),
        fingerprint: format!("print of {name}"),
        source: None,
        created_ms: 1_700_000_000_000,
        modified_ms: 1_700_000_000_001,
        hidden_ms: None,
        gone: false,
        kept: b"own".to_vec(),
    }
}

pub(crate) fn run(experiment: ExperimentId, number: u32) -> Run {
    let id = RunId { experiment, number };
    Run {
        key: RunKey::default(),
        id,
        token: RunToken::from_bytes(bytes(experiment.0 * 1000 + u64::from(number))),
        made: br#"{"git":"0123456789abcdef"}"#.to_vec(),
    }
}

/// One experiment with a run and everything that belongs to both.
pub(crate) fn one(tx: &mut Tx<'_>, name: &str) -> Result<RunKey, StoreError> {
    let source = tx.new_source()?;
    tx.put_source(&Source {
        id: source,
        path: format!("/home/ann/{name}"),
        kept: Vec::new(),
    })?;
    let id = tx.new_experiment()?;
    tx.put_experiment(&Experiment {
        source: Some(source),
        ..experiment(id, name)
    })?;
    let run = run(id, 1);
    let key = tx.insert_run(&run, format!("spec of {name}").as_bytes())?;
    tx.put_dispatch(key, b"desk")?;
    tx.put_facts(key, format!("facts of {name}").as_bytes())?;
    let rule = tx.new_rule()?;
    tx.put_rule(&Rule {
        id: rule,
        action: "abort".to_owned(),
        argument: String::new(),
        text: "loss > 10".to_owned(),
        repeat_ms: 0,
        author: "ann".to_owned(),
        origin: "neronet.yaml:7:3".to_owned(),
    })?;
    tx.insert_event(&Event {
        experiment: id,
        run: Some(1),
        at_ms: 6,
        text: "started on local".to_owned(),
    })?;
    for part in 0..2 {
        tx.put_cell(&CellRow {
            experiment: id,
            heading: "Test/10ep".to_owned(),
            part,
            content: format!("values {part} of {name}").into_bytes(),
        })?;
    }
    tx.put_notice(id.0, format!("notice of {name}").as_bytes())?;
    tx.put_delivery(id.0, format!("delivery of {name}").as_bytes())?;
    tx.put_letter(id.0, format!("letter of {name}").as_bytes())?;
    tx.insert_request(&Request {
        id: RequestId::from_bytes(bytes(id.0)),
        at_ms: 7,
        reply: id.0.to_le_bytes().to_vec(),
    })?;
    tx.set_last(&[id])?;
    Ok(key)
}

/// A fold of two series and a sample for a run.
pub(crate) fn fold(run: RunKey, from: At, to: At, points: u32) -> RunFold {
    RunFold {
        run,
        advances: vec![Advance {
            incarnation: 1,
            segment: SegmentId([2; 8]),
            from,
            to,
        }],
        names: vec!["loss".to_owned(), "acc".to_owned()],
        points: (0..points)
            .map(|index| {
                (
                    index % 2,
                    Point {
                        step: f64::from(index / 2),
                        time_ms: 1_700_000_000_000 + i64::from(index),
                        value: 1.0 / f64::from(index + 1),
                        generation: 0,
                    },
                )
            })
            .collect(),
        samples: vec![Sample {
            time_ms: from.offset as i64,
            incarnation: 1,
            cpu_cores: 1.5,
            rss_bytes: 4096,
            ..Sample::default()
        }],
    }
}

pub(crate) fn at(offset: u64) -> At {
    At {
        offset,
        chain: offset as u32,
    }
}

/// A store with `count` experiments, each with a run and metrics.
pub(crate) fn filled(home: &Home, count: usize) -> Store {
    let mut store = Store::open(home).unwrap();
    let keys = store
        .write(nero_store::Durability::Synced, |tx| {
            (0..count)
                .map(|index| one(tx, &format!("experiment-{index}")))
                .collect::<Result<Vec<_>, StoreError>>()
        })
        .unwrap();
    for key in keys {
        store.fold_series(&[fold(key, at(0), at(100), 40)]).unwrap();
        store
            .fold_series(&[fold(key, at(100), at(200), 6)])
            .unwrap();
    }
    store
}
