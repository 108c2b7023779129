//! Keeps the aggregates over peers that rules name up to date: reads the points that are
//! needed, and records new numbers. The drivers of nodes send them.

use std::sync::Arc;
use std::time::Duration;

use nero_life::cohort::{CohortUpdate, Cohorts};
use nero_life::now::PresentTime;
use nero_life::state::State;
use nero_model::Home;
use tokio::time::Instant;

use crate::blocking::blocking;
use crate::pasts;
use nero_home::clock::Clock;
use nero_home::failure::Failure;
use nero_home::ledger::{Audience, LatePolicy, Ledger};

/// The least time between two looks at all cohorts.
const PAUSE: Duration = Duration::from_millis(500);
/// A look takes at most one part in so many of the daemon's time.
const LOOKS_SHARE: u32 = 20;
/// The pause after a failure, and the longest one.
const AGAIN: Duration = Duration::from_secs(10);

/// Folds cohorts until the daemon stops.
pub(crate) async fn run(ledger: Ledger, home: Home, clock: Clock) {
    let mut states = ledger.watch(Audience::Peers);
    states.mark_changed();
    let mut cohorts = Cohorts::default();
    let mut due: Option<Instant> = None;
    loop {
        tokio::select! {
            changed = states.changed() => if changed.is_err() { return },
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
        let state = states.state();
        let began = Instant::now();
        due = match update_numbers(&ledger, &home, clock, &mut cohorts, state).await {
            Ok(wait) => wait.map(|wait| Instant::now() + wait),
            Err(failure) => {
                tracing::warn!(%failure, "rules over peers keep their last numbers for now");
                // What was kept may be half of a look.
                cohorts = Cohorts::default();
                Some(Instant::now() + AGAIN)
            }
        };
        let pause = began.elapsed() * LOOKS_SHARE;
        tokio::time::sleep(pause.clamp(PAUSE, AGAIN / 2)).await;
    }
}

/// Updates the numbers once; returns after which time a number may be sent that came too soon.
async fn update_numbers(
    ledger: &Ledger,
    home: &Home,
    clock: Clock,
    cohorts: &mut Cohorts,
    state: Arc<State>,
) -> Result<Option<Duration>, Failure> {
    let mut taken = std::mem::take(cohorts);
    let seen = Arc::clone(&state);
    let (taken, wanted) = blocking(move || {
        let wanted = taken.wanted(&seen);
        (taken, wanted)
    })
    .await?;
    let pasts = pasts::read(ledger, home, &state, wanted).await?;
    let now = PresentTime {
        ms: clock.now_ms(),
        pasts,
        ..PresentTime::default()
    };
    let (taken, CohortUpdate { inputs, due_ms }) = blocking(move || {
        let mut taken = taken;
        let folded = taken.fold(&state, &now);
        (taken, folded)
    })
    .await?;
    *cohorts = taken;
    if !inputs.is_empty() {
        let late = LatePolicy::Passes("it ended, or is being ended");
        ledger.happened(false, inputs, late).await?;
    }
    let wait_ms = due_ms.map(|due_ms| due_ms.saturating_sub(clock.now_ms()).max(0));
    Ok(wait_ms.map(|wait_ms| Duration::from_millis(wait_ms.unsigned_abs())))
}
