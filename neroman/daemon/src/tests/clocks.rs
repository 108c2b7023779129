//! Wall clocks that step, and those of other machines: how long a live run goes
//! on is told by boot clocks.

use std::sync::Arc;

use nero_wire::v1;

use super::nodes::{BOTH, lose, running_on, start_on};
use super::stories::TWO;
use super::{Rig, nodes, select};
use nero_home::clock::Clock;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// What a selector picks.
async fn picked(rig: &Rig, text: &str) -> Vec<u64> {
    let request = v1::ListRequest {
        selection: select(text),
        settle: false,
        ..v1::ListRequest::default()
    };
    let reply = rig.man.list(request).await.unwrap();
    reply.experiments.iter().map(|view| view.id).collect()
}

#[tokio::test]
async fn a_list_holds_the_facts_that_were_asked_for_where_they_are_known() {
    let rig = Rig::new();
    rig.write(TWO);
    rig.add().await;
    let request = v1::ListRequest {
        selection: select("1"),
        facts: ["command", "params", "tmod", "waittime", "nonsense"]
            .map(str::to_owned)
            .into(),
        ..v1::ListRequest::default()
    };
    let view = rig.man.list(request).await.unwrap().experiments.remove(0);
    let names: Vec<&str> = view.facts.iter().map(|fact| fact.name.as_str()).collect();
    assert_eq!(names, ["command", "params", "tmod"], "{:?}", view.facts);
    let command = view.facts[0].value.as_ref();
    assert!(
        matches!(command, Some(v1::fact_value::Value::Text(text)) if !text.is_empty()),
        "{command:?}"
    );
    // Only what was asked for travels.
    assert!(rig.view(1).await.facts.is_empty());
}

#[tokio::test]
async fn no_step_of_a_clock_changes_how_old_a_live_run_is() {
    let rig = Rig::new();
    rig.write(TWO);
    rig.mum.has_cpus(8.0);
    // Its wall clock is years behind ours; it was started 6 s before.
    rig.mum.describe(|about| {
        // The boot that its journals name.
        about.boot_id = nero_model::ids::hex(&[1; 16]);
        about.boot_ms = 6000;
    });
    rig.add().await;
    rig.start("1").await;
    let token = rig.mum.token(1, 1).await;
    rig.mum.begin(&token);
    let mut rig = rig;
    for step_ms in [0, DAY_MS, -DAY_MS, 365 * DAY_MS] {
        let (base, fakes) = rig.stop().await;
        rig = Rig::at(Clock::stepped(step_ms), base, Arc::clone(&fakes));
        let young = |view: &v1::ExperimentView| {
            view.state == "running" && view.runtime_s.is_some_and(|s| (6.0..600.0).contains(&s))
        };
        rig.until(1, "was as old as it is", young).await;
        assert_eq!(
            picked(&rig, "runtime > 2h").await,
            [] as [u64; 0],
            "{step_ms}"
        );
        assert_eq!(
            picked(&rig, "runtime > 5s && tstart < 1h").await,
            [1],
            "{step_ms}"
        );
        assert_eq!(picked(&rig, "running && tsub < 1h").await, [1], "{step_ms}");
        assert_eq!(picked(&rig, "tmod < 1h && id == 1").await, [1], "{step_ms}");
        assert_eq!(
            picked(&rig, "waittime > 2h").await,
            [] as [u64; 0],
            "{step_ms}"
        );
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_node_on_this_machine_is_never_ahead_or_behind() {
    let rig = nodes::both((4.0, 4.0));
    rig.add().await;
    let there_ms = Clock::system().now_ms() - DAY_MS;
    let other = nero_model::ids::hex(&[1; 16]);
    for (name, boot) in [("alpha", rig.man.clock.tick().boot), ("beta", other)] {
        rig.node(name).describe(|about| {
            about.boot_id.clone_from(&boot);
            about.clock_ms = there_ms;
        });
    }
    start_on(&rig, "1", "alpha").await.unwrap();
    start_on(&rig, "2", "beta").await.unwrap();
    let alpha = rig.until_node("alpha", |node| node.cpus > 0.0).await;
    assert_eq!(alpha.clock_offset_s, 0.0);
    let beta = rig.until_node("beta", |node| node.cpus > 0.0).await;
    assert!((beta.clock_offset_s + 86_400.0).abs() < 60.0, "{beta:?}");
    rig.stop().await;
}

/// Two nodes, under a clock that can be set.
async fn both() -> Rig {
    let rig = Rig::configured_at(Clock::stepped(0), BOTH);
    rig.node("alpha").has_cpus(4.0);
    rig.node("beta").has_cpus(1.0);
    rig.write("collection: lab\ncommand: echo\n");
    rig.add().await;
    rig
}

#[tokio::test]
async fn a_clock_set_back_keeps_no_run_on_a_node_that_cannot_take_it() {
    for step_ms in [-DAY_MS, DAY_MS] {
        let rig = both().await;
        rig.node("alpha").defer("no room on alpha");
        start_on(&rig, "1", "both").await.unwrap();
        let defer = |view: &v1::ExperimentView| view.waiting_for.contains("no room on alpha");
        rig.until(1, "was put off", defer).await;
        rig.man.clock.step(step_ms);
        rig.node("beta").token(1, 1).await;
        rig.stop().await;
    }
}

#[tokio::test]
async fn a_clock_set_back_keeps_no_run_on_a_node_that_is_away() {
    for step_ms in [-DAY_MS, DAY_MS] {
        let rig = both().await;
        rig.node("alpha").ponder(true);
        start_on(&rig, "1", "both").await.unwrap();
        rig.until(1, "was placed", |view| view.node == "alpha")
            .await;
        lose(&rig, "alpha").await;
        rig.man.clock.step(step_ms);
        rig.node("beta").token(1, 1).await;
        rig.stop().await;
    }
}

#[tokio::test]
async fn no_step_of_a_clock_changes_the_runtime_of_a_run_whose_node_is_away() {
    let mut rig = both().await;
    let token = running_on(&rig, "alpha").await;
    rig.node("alpha").sampled_at(&token, 5000);
    let sampled = |view: &v1::ExperimentView| view.cpu_cores.is_some();
    rig.until(1, "was measured", sampled).await;
    lose(&rig, "alpha").await;
    // What an earlier daemon left is all that the next ones know of the node.
    rig.node("alpha").stall(true);
    for step_ms in [0, DAY_MS, -DAY_MS] {
        rig.man.clock.step(step_ms);
        assert_eq!(rig.view(1).await.runtime_s, Some(5.0), "{step_ms}");
        let (base, fakes) = rig.stop().await;
        rig = Rig::at(Clock::stepped(step_ms), base, fakes);
        assert_eq!(rig.view(1).await.runtime_s, Some(5.0), "{step_ms}");
    }
    rig.stop().await;
}
