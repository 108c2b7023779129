//! Wall time, in milliseconds since 1970, and the boot clock of this machine.

use std::time::{SystemTime, UNIX_EPOCH};

use nero_journal::Clocks;
use nero_model::{ids::hex, process};

use nero_life::now::{Moment, Tick};

/// Tells the time. Passed along, so that no other code asks the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// How far the wall clock was set ahead.
    #[cfg(test)]
    ahead_ms: Option<&'static std::sync::atomic::AtomicI64>,
    /// Time that passed at once, on both clocks.
    #[cfg(test)]
    passed_ms: Option<&'static std::sync::atomic::AtomicI64>,
}

impl Clock {
    /// The machine's clock.
    pub(crate) fn system() -> Self {
        Self::default()
    }

    /// A clock whose wall time was set: `ahead_ms` later, or earlier.
    #[cfg(test)]
    pub(crate) fn stepped(ahead_ms: i64) -> Self {
        let ahead_ms = Box::leak(Box::new(ahead_ms.into()));
        Self {
            ahead_ms: Some(ahead_ms),
            passed_ms: Some(Box::leak(Box::default())),
        }
    }

    /// Sets the wall time of a stepped clock again.
    #[cfg(test)]
    pub(crate) fn step(self, ahead_ms: i64) {
        let ahead = self.ahead_ms.expect("a stepped clock");
        ahead.store(ahead_ms, std::sync::atomic::Ordering::SeqCst);
    }

    /// Lets time pass at once on a stepped clock.
    #[cfg(test)]
    pub(crate) fn pass(self, ms: i64) {
        let passed = self.passed_ms.expect("a stepped clock");
        passed.fetch_add(ms, std::sync::atomic::Ordering::SeqCst);
    }

    #[cfg(test)]
    fn ahead_ms(self) -> i64 {
        let ahead = self.ahead_ms;
        let ahead_ms = ahead.map_or(0, |ahead| ahead.load(std::sync::atomic::Ordering::SeqCst));
        ahead_ms + self.passed_ms()
    }

    #[cfg(test)]
    fn passed_ms(self) -> i64 {
        let passed = self.passed_ms;
        passed.map_or(0, |passed| passed.load(std::sync::atomic::Ordering::SeqCst))
    }

    #[cfg(not(test))]
    const fn passed_ms(self) -> i64 {
        0
    }

    #[cfg(not(test))]
    const fn ahead_ms(self) -> i64 {
        0
    }

    /// Now.
    pub(crate) fn now_ms(self) -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
                ms.saturating_add(self.ahead_ms())
            })
    }

    /// Milliseconds since this machine was started, sleep included.
    pub(crate) fn boot_ms(self) -> i64 {
        let boot_ms = i64::try_from(Clocks::now().mono_ns / 1_000_000).unwrap_or(i64::MAX);
        boot_ms.saturating_add(self.passed_ms())
    }

    /// Now, on the boot clock. If the kernel does not name the boot, a name of
    /// our own stands for it.
    pub(crate) fn tick(self) -> Tick {
        Tick {
            boot: hex(&process::boot_id().unwrap_or_default()),
            ms: self.boot_ms(),
        }
    }

    /// Now, on both clocks.
    pub(crate) fn moment(self) -> Moment {
        Moment {
            ms: self.now_ms(),
            tick: self.tick(),
        }
    }
}
