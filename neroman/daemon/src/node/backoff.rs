//! How long to wait before the next try: full jitter below a limit that
//! doubles.

use std::time::Duration;

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
}
