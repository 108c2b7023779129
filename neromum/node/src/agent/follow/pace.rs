//! When changes leave for the followers: at once after a rest, else together.

use tokio::time::{Duration, Instant};

use crate::config;

/// What decides how long changes gather.
#[derive(Debug, Default)]
pub(super) struct NewsPace {
    /// Time at which changes were sent last; `None` when they must not wait.
    sent: Option<Instant>,
    /// Whether more than news of watchers waits to be sent.
    pub(super) state_changed: bool,
}

impl NewsPace {
    /// Time until which changes gather; `None` when they are sent now.
    pub(super) fn gather_until(&mut self, now: Instant, runs_wait: bool) -> Option<Instant> {
        let pause = match (self.state_changed, runs_wait) {
            (false, _) => config::NEWS_GROUP,
            (true, true) => config::SYNC_GROUP,
            (true, false) => Duration::ZERO,
        };
        let until = self.sent.map(|sent| sent + pause);
        let until = until.filter(|until| *until > now);
        if until.is_none() {
            *self = Self {
                sent: Some(now),
                state_changed: false,
            };
        }
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn news_of_watchers_gather_and_changes_of_state_leave_at_once() {
        let (mut pace, start) = (NewsPace::default(), Instant::now());
        let mut sent = |at: u64, state: bool, runs_wait: bool| {
            pace.state_changed |= state;
            pace.gather_until(start + ms(at), runs_wait)
        };
        assert_eq!(sent(0, false, false), None, "the first after a rest");
        for at in 1..50 {
            let gathered = sent(at, false, false);
            assert_eq!(gathered, Some(start + config::NEWS_GROUP), "at {at} ms");
        }
        assert_eq!(sent(50, false, false), None, "all that gathered");
        assert_eq!(sent(51, true, false), None, "a run ended");
        assert_eq!(sent(52, true, true), Some(start + ms(71)), "others wait");
        assert_eq!(sent(71, false, true), None);
        assert_eq!(sent(72, false, true), Some(start + ms(121)));
    }
}
