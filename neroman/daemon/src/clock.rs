//! Wall time, in milliseconds since 1970. Tests set it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    fixed: Option<Arc<AtomicI64>>,
}

impl Clock {
    /// The machine's clock.
    pub(crate) fn system() -> Self {
        Self::default()
    }

    /// A clock that stands still until it is set.
    #[cfg(test)]
    pub(crate) fn fixed(now_ms: i64) -> (Self, Arc<AtomicI64>) {
        let hand = Arc::new(AtomicI64::new(now_ms));
        let clock = Self {
            fixed: Some(Arc::clone(&hand)),
        };
        (clock, hand)
    }

    /// Now.
    pub(crate) fn now_ms(&self) -> i64 {
        match &self.fixed {
            Some(hand) => hand.load(Ordering::Relaxed),
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| {
                    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
                }),
        }
    }
}
