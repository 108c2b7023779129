//! The rate of looks at the logs: at once while the job prints little, in
//! batches while it prints much. The job is never slowed; but a watcher that
//! looked at every change would take processor time from it.

/// Number of looks that may follow one another at once.
const BURST: f64 = 40.0;
/// Looks per second over longer times.
const PER_SECOND: f64 = 40.0;
/// Pause between two looks at a job that prints all the time.
const PAUSE_MS: u64 = 50;

/// A credit of looks.
#[derive(Debug)]
pub struct Pace {
    looks: f64,
    since_ms: u64,
}

impl Pace {
    /// With full credit.
    pub fn new(now_ms: u64) -> Self {
        Self {
            looks: BURST,
            since_ms: now_ms,
        }
    }

    /// Spends the credit of one look, after a log changed.
    pub fn spend(&mut self, now_ms: u64) {
        self.refill(now_ms);
        self.looks = (self.looks - 1.0).max(0.0);
    }

    /// Time for which to ignore changes of the logs.
    pub fn pause_ms(&mut self, now_ms: u64) -> u64 {
        self.refill(now_ms);
        if self.looks >= 1.0 { 0 } else { PAUSE_MS }
    }

    fn refill(&mut self, now_ms: u64) {
        let earned = now_ms.saturating_sub(self.since_ms) as f64 / 1000.0 * PER_SECOND;
        self.looks = (self.looks + earned).min(BURST);
        self.since_ms = self.since_ms.max(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_job_is_answered_at_once_and_a_loud_one_in_batches() {
        let mut pace = Pace::new(0);
        for second in 0..100 {
            pace.spend(second * 100);
            assert_eq!(pace.pause_ms(second * 100), 0, "ten lines a second");
        }
        for _ in 0..100 {
            pace.spend(10_000);
        }
        assert_eq!(pace.pause_ms(10_000), PAUSE_MS);
        assert_eq!(pace.pause_ms(10_030), 0);
    }
}
