//! Wall time, in milliseconds since 1970, and the boot clock of this machine.

use std::time::{SystemTime, UNIX_EPOCH};

use nero_journal::Clocks;
use nero_model::{ids::hex, process};

use crate::core::now::Tick;

/// Tells the time. Passed along, so that nothing else asks the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// How far the wall clock was set ahead; of tests.
    ahead_ms: i64,
}

impl Clock {
    /// The machine's clock.
    pub(crate) fn system() -> Self {
        Self::default()
    }

    /// One whose wall clock was set: `ahead_ms` later, or earlier.
    #[cfg(test)]
    pub(crate) fn stepped(ahead_ms: i64) -> Self {
        Self { ahead_ms }
    }

    /// Now.
    pub(crate) fn now_ms(self) -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
                ms.saturating_add(self.ahead_ms)
            })
    }

    /// Milliseconds since this machine was started, sleep included.
    pub(crate) fn boot_ms(self) -> i64 {
        i64::try_from(Clocks::now().mono_ns / 1_000_000).unwrap_or(i64::MAX)
    }

    /// Now, on the boot clock; none where the kernel does not name it.
    pub(crate) fn tick(self) -> Option<Tick> {
        Some(Tick {
            boot: hex(&process::boot_id().ok()?),
            ms: self.boot_ms(),
        })
    }
}
