//! How long to wait before the next try: full jitter below a limit that
//! doubles.

use std::time::Duration;

const FIRST_MS: u64 = 100;
const LAST_MS: u64 = 30_000;

/// Counts tries.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// A try succeeded.
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
        FIRST_MS
            .saturating_mul(1 << self.failures.min(20))
            .min(LAST_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_limit_and_begin_again() {
        let mut backoff = Backoff::default();
        let limits: Vec<u64> = (0..10)
            .map(|_| {
                let limit = backoff.limit_ms();
                assert!(backoff.next() <= Duration::from_millis(limit));
                limit
            })
            .collect();
        assert_eq!(limits[..3], [100, 200, 400]);
        assert_eq!(limits[9], LAST_MS);
        backoff.reset();
        assert_eq!(backoff.limit_ms(), FIRST_MS);
    }
}
