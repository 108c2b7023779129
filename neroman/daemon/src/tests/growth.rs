//! What a call costs does not grow with the experiments that it does not concern: counts of walked
//! rows, not times.

use std::sync::atomic::Ordering;

use nero_journal::v1::{self as journal, RecordKind};
use nero_life::fold::shelf::WALKED;
use nero_wire::v1;

use super::stories::added;
use super::{Rig, select};

/// No call here concerns more than two of them.
const COUNT: usize = 500;

/// What was done since this was called last met few of the others.
#[track_caller]
fn met_no_others(what: &str) {
    let walked = WALKED.swap(0, Ordering::Relaxed);
    assert!(walked < COUNT / 5, "{what} walks over {walked} rows");
}

/// Hands a run over and ends it.
async fn to_its_end(rig: &Rig, experiment: u64, run: u32) {
    let token = rig.mum.token(experiment, run).await;
    rig.mum.begin(&token);
    rig.mum.end(&token, 0, b"1\n");
    rig.state(experiment, "finished").await;
    rig.mum.closed(&token).await;
}

#[tokio::test]
async fn requests_about_one_experiment_walk_over_no_others() {
    // Other tests of one process walk, too.
    if std::env::var_os("NEXTEST").is_none() {
        return;
    }
    let rig = added(&format!(
        "collection: lab\ncommand: echo {{x}}\nparameters: {{x: {{range: [1, {COUNT}, 1]}}}}\n"
    ))
    .await;
    rig.start("7").await;
    to_its_end(&rig, 7, 1).await;
    let name = rig.view(7).await.name;
    WALKED.store(0, Ordering::Relaxed);
    for text in ["7", &name] {
        let request = v1::ListRequest {
            selection: select(text),
            ..v1::ListRequest::default()
        };
        assert_eq!(rig.man.list(request).await.unwrap().experiments.len(), 1);
        met_no_others(&format!("a list of {text}"));
    }
    rig.wait("7", true).await;
    met_no_others("a wait");
    rig.restart_runs("7").await;
    to_its_end(&rig, 7, 2).await;
    met_no_others("a restart, up to the end");
    rig.start("8").await;
    let token = rig.mum.token(8, 1).await;
    rig.mum.begin(&token);
    rig.state(8, "running").await;
    met_no_others("a start");
    let metrics = journal::Metrics {
        names: vec!["loss".to_owned()],
        series: vec![0],
        steps: vec![1.0],
        values: vec![0.5],
        mono_ms: vec![1],
        ..journal::Metrics::default()
    };
    rig.mum.record(&token, RecordKind::Metrics, &metrics);
    rig.until(8, "had a point", |view| !view.metrics.is_empty())
        .await;
    met_no_others("a point of a live run");
    rig.mum.cut(false);
    let next = journal::Metrics {
        steps: vec![2.0],
        values: vec![0.25],
        ..metrics
    };
    rig.mum.record(&token, RecordKind::Metrics, &next);
    rig.until(8, "had a second point", |view| view.metrics[0].last == 0.25)
        .await;
    met_no_others("a node that connects anew");
    rig.abort("8").await;
    rig.mum.cancelled(&token).await;
    met_no_others("an abort");
    rig.stop().await;
}
