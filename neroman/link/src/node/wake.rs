//! Noticing that this machine slept: connections that were open then are
//! likely dead, and a network that was away may be back.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Between two looks. The system gives no notice to an unprivileged process;
/// the looks go on only while a node elsewhere is connected or out of reach.
const EVERY: Duration = Duration::from_secs(5);
/// A sleep shorter than this breaks no connection.
const SLEPT: Duration = Duration::from_secs(3);
/// A timer that is this late was held up by a frozen machine.
const LATE: Duration = Duration::from_secs(10);

/// Returns once the machine has slept, or stood still.
pub(super) async fn resumed() {
    let mut before = asleep();
    loop {
        let asked = Instant::now();
        tokio::time::sleep(EVERY).await;
        let now = asleep();
        if was_away(now.saturating_sub(before), asked.elapsed()) {
            return;
        }
        before = now;
    }
}

/// Whether the machine was away, from the growth of its sleep time and the
/// length of one pause.
fn was_away(slept: Duration, pause: Duration) -> bool {
    slept >= SLEPT || pause >= EVERY + LATE
}

/// How long this machine has slept since its start.
fn asleep() -> Duration {
    let read = |clock| {
        let time = clock_gettime(clock);
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or(0),
            u32::try_from(time.tv_nsec).unwrap_or(0),
        )
    };
    // Monotonic first: a moment between the two calls never looks like negative
    // sleep.
    let awake = read(ClockId::Monotonic);
    read(ClockId::Boottime).saturating_sub(awake)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_lid_and_a_frozen_machine_are_noticed() {
        assert!(!was_away(Duration::from_millis(1), EVERY));
        assert!(was_away(Duration::from_secs(60), EVERY));
        assert!(was_away(Duration::ZERO, Duration::from_secs(16)));
    }
}
