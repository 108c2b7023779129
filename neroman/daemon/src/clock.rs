//! Wall time, in milliseconds since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time. Passed along, so that nothing else asks the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock;

impl Clock {
    /// The machine's clock.
    pub(crate) fn system() -> Self {
        Self
    }

    /// Now.
    pub(crate) fn now_ms(self) -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            })
    }
}
