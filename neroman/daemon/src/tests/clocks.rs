//! Wall clocks that step, and those of other machines: how long a live run goes
//! on is told by boot clocks.

use std::sync::Arc;

use nero_wire::v1;

use super::stories::TWO;
use super::{Rig, select};
use crate::clock::Clock;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// What a selector picks.
async fn picked(rig: &Rig, text: &str) -> Vec<u64> {
    let request = v1::ListRequest {
        selection: select(text),
        settle: false,
    };
    let reply = rig.man.list(request).await.unwrap();
    reply.experiments.iter().map(|view| view.id).collect()
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
        assert_eq!(
            picked(&rig, "waittime > 2h").await,
            [] as [u64; 0],
            "{step_ms}"
        );
    }
    rig.stop().await;
}
