//! How long to wait before the next try: full jitter below a limit that
//! doubles, and the turn of a connection among those of all nodes. Where a
//! network is back, or this machine wakes, all connect, and a gateway before
//! them refuses what comes at once.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The first and the last limit, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    first_ms: u64,
    last_ms: u64,
}

impl Pace {
    /// Of this machine: neromum is started anew in no time.
    pub(super) const LOCAL: Self = Self {
        first_ms: 100,
        last_ms: 30_000,
    };
    /// Of a network: for ever, and without a burst when many wake at once.
    pub(super) const REMOTE: Self = Self {
        first_ms: 2000,
        last_ms: 300_000,
    };
}

/// Counts tries.
#[derive(Debug)]
pub(super) struct Backoff {
    pace: Pace,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, failures: 0 }
    }

    /// A try succeeded, or something changed that makes success likely.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// How long to wait now that a try failed.
    pub(super) fn next(&mut self) -> Duration {
        let limit = self.limit_ms();
        self.failures = self.failures.saturating_add(1);
        let random = u64::from_le_bytes(nero_model::ids::random());
        Duration::from_millis(random % limit + 1)
    }

    fn limit_ms(&self) -> u64 {
        self.pace
            .first_ms
            .saturating_mul(1 << self.failures.min(20))
            .min(self.pace.last_ms)
    }
}

/// Connections that begin at once, and in each second behind them. `sshd` refuses some of more than
/// ten that have not logged in, unless its `MaxStartups` says otherwise.
const A_SECOND: u32 = 4;

/// Turns of connections to other machines, a quarter of a second apart; holds the next one to give.
#[derive(Debug, Default)]
pub struct ConnectionTurns(Mutex<Option<Instant>>);

impl ConnectionTurns {
    /// Returns when one more connection may begin.
    pub(super) async fn next(&self) {
        let pause = Duration::from_secs(1) / A_SECOND;
        let now = Instant::now();
        let next_turn = {
            let mut next_turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let before = next_turn.unwrap_or(now).max(now);
            *next_turn = Some(before + pause);
            before
        };
        let ahead = pause * (A_SECOND - 1);
        sleep_until(next_turn.checked_sub(ahead).unwrap_or(now)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(pace: Pace) -> Vec<u64> {
        let mut backoff = Backoff::new(pace);
        (0..10)
            .map(|_| {
                let limit = backoff.limit_ms();
                assert!(backoff.next() <= Duration::from_millis(limit));
                limit
            })
            .collect()
    }

    #[test]
    fn waits_grow_to_the_limit_and_begin_again() {
        let local = limits(Pace::LOCAL);
        assert_eq!(local[..3], [100, 200, 400]);
        assert_eq!(local[9], 30_000);
        let remote = limits(Pace::REMOTE);
        assert_eq!(remote[..3], [2000, 4000, 8000]);
        assert_eq!(remote[9], 300_000);
        let mut backoff = Backoff::new(Pace::REMOTE);
        backoff.next();
        backoff.reset();
        assert_eq!(backoff.limit_ms(), 2000);
    }

    #[tokio::test(start_paused = true)]
    async fn four_connections_begin_at_once_and_four_in_each_second_behind() {
        let turns = ConnectionTurns::default();
        for round in 0..2 {
            let began = Instant::now();
            let mut at_ms = Vec::new();
            for _ in 0..8 {
                turns.next().await;
                at_ms.push(began.elapsed().as_millis());
            }
            assert_eq!(at_ms, [0, 0, 0, 0, 250, 500, 750, 1000], "round {round}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}
