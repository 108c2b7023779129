//! Another file in the place of a database: an older copy, or none, as the hint of a
//! damaged one says.

use nero_journal::v1::{self as journal, RecordKind};
use nero_wire::v1;

use super::stories::{TWO, begun};
use super::{Rig, select};
use nero_home::ledger::Audience;

/// The points of experiment 1.
async fn points(rig: &Rig) -> Vec<f64> {
    let request = v1::MetricsRequest {
        selection: select("1"),
        names: Vec::new(),
        ..v1::MetricsRequest::default()
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

/// A daemon with points of a run that its node was told to forget, the copy of
/// `series.db` from before the last point, and the run's token.
async fn told(rig: Rig, token: &[u8]) -> (Rig, Vec<u8>) {
    rig.mum
        .record(token, RecordKind::Metrics, &losses(&[1.0, 2.0]));
    rig.until(1, "had metrics", |view| !view.metrics.is_empty())
        .await;
    let home = rig.home.clone();
    let (base, fakes) = rig.stop().await;
    let older = std::fs::read(home.series_db()).unwrap();
    let rig = Rig::over(base, fakes);
    rig.mum.record(token, RecordKind::Metrics, &losses(&[3.0]));
    rig.mum.end(token, 0, b"");
    rig.state(1, "finished").await;
    rig.mum.closed(token).await;
    assert_eq!(points(&rig).await, [1.0, 2.0, 3.0]);
    (rig, older)
}

/// Puts another file in the place of `series.db`, or none.
async fn replaced(rig: Rig, series: Option<&[u8]>) -> Rig {
    let home = rig.home.clone();
    let (base, fakes) = rig.stop().await;
    match series {
        Some(bytes) => std::fs::write(home.series_db(), bytes).unwrap(),
        None => std::fs::remove_file(home.series_db()).unwrap(),
    }
    Rig::over(base, fakes)
}

/// Waits until nothing is to come of runs whose points were asked for again.
async fn all_asked_again(rig: &Rig) {
    let mut states = rig.man.ledger.watch(Audience::Everyone);
    let over = states.wait_for(|state| {
        state
            .experiments
            .iter()
            .all(|one| one.runs.iter().all(|run| !run.asks_for_points()))
    });
    tokio::time::timeout(super::DEADLINE, over)
        .await
        .unwrap()
        .unwrap();
}

async fn missing(rig: &Rig) -> String {
    let show = v1::ShowRequest {
        what: "1".to_owned(),
        zone: String::new(),
    };
    rig.man.show(show).await.unwrap().missing
}

#[tokio::test]
async fn points_of_an_ended_run_come_again_into_another_series_db_once() {
    let (rig, token) = begun(TWO).await;
    let (mut rig, older) = told(rig, &token).await;
    for series in [None, Some(older.as_slice()), None] {
        rig = replaced(rig, series).await;
        for _ in 0..2 {
            all_asked_again(&rig).await;
            assert_eq!(points(&rig).await, [1.0, 2.0, 3.0]);
            assert_eq!(rig.view(1).await.metrics[0].count, 3);
            assert_eq!(missing(&rig).await, "");
            rig = rig.restart().await;
        }
    }
    rig.stop().await;
}

#[tokio::test]
async fn points_that_no_node_has_any_more_are_told_to_be_missing() {
    let (rig, token) = begun(TWO).await;
    let (rig, older) = told(rig, &token).await;
    rig.mum.forget(&token);
    let mut rig = rig;
    for (series, lacking) in [(None, "3 of its 3"), (Some(older.as_slice()), "1 of its 3")] {
        rig = replaced(rig, series).await;
        let said = missing(&rig).await;
        assert!(said.contains(lacking), "{said}");
        let request = v1::MetricsRequest {
            selection: select("1"),
            names: Vec::new(),
            ..v1::MetricsRequest::default()
        };
        let notes = rig.man.metrics(request).await.unwrap().notes;
        assert!(notes.iter().any(|note| note.contains(lacking)), "{notes:?}");
        assert!(
            !notes.iter().any(|note| note.contains("no metric")),
            "{notes:?}"
        );
        assert_eq!(rig.view(1).await.state, "finished");
    }
    rig.stop().await;
}
