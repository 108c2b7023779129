//! An older copy of the facts, put in place as the hint of a damaged one says.

use nero_journal::v1::{self as journal, RecordKind};
use nero_wire::v1;

use super::stories::{TWO, begun};
use super::{Rig, select};

/// The points of experiment 1.
async fn points(rig: &Rig) -> Vec<f64> {
    let request = v1::MetricsRequest {
        selection: select("1"),
        names: Vec::new(),
    };
    let series = rig.man.metrics(request).await.unwrap().series;
    series.into_iter().flat_map(|one| one.values).collect()
}

fn losses(values: &[f64]) -> journal::Metrics {
    journal::Metrics {
        names: vec!["loss".to_owned()],
        series: vec![0; values.len()],
        steps: values.to_vec(),
        values: values.to_vec(),
        mono_ms: vec![1; values.len()],
        ..journal::Metrics::default()
    }
}

#[tokio::test]
async fn an_older_copy_of_the_facts_doubles_no_point() {
    let (rig, token) = begun(TWO).await;
    rig.mum
        .record(&token, RecordKind::Metrics, &losses(&[1.0, 2.0]));
    rig.until(1, "had metrics", |view| !view.metrics.is_empty())
        .await;
    let copy = nero_store::backup(&rig.home, 1_700_000_000_000).unwrap();
    rig.mum.record(&token, RecordKind::Metrics, &losses(&[3.0]));
    rig.mum.end(&token, 0, b"");
    rig.state(1, "finished").await;
    rig.mum.closed(&token).await;
    assert_eq!(points(&rig).await, [1.0, 2.0, 3.0]);

    let home = rig.home.clone();
    let (base, fakes) = rig.stop().await;
    std::fs::copy(&copy, home.state_db()).unwrap();
    fakes.mum(nero_config::LOCAL).unclose(&token);
    let rig = Rig::over(base, fakes);
    let view = rig.state(1, "finished").await;
    assert_eq!(view.metrics[0].count, 3);
    rig.mum.closed(&token).await;
    assert_eq!(points(&rig).await, [1.0, 2.0, 3.0]);
    rig.stop().await;
}
