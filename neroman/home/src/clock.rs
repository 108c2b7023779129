//! Wall time, in milliseconds since 1970, and the boot clock of this machine.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use nero_journal::Clocks;
use nero_model::{ids::hex, process};

use nero_life::now::{Moment, Tick};

/// Tells the time. Passed along, so that no other code asks the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Of a clock of a test.
    shift: Option<&'static ClockShift>,
}

/// How far a test moved a clock.
#[derive(Debug, Default)]
struct ClockShift {
    /// How far the wall clock was set ahead.
    ahead_ms: AtomicI64,
    /// Time that passed at once, on both clocks.
    passed_ms: AtomicI64,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock for tests whose wall time was set: `ahead_ms` later, or earlier.
    pub fn stepped(ahead_ms: i64) -> Self {
        let shift = ClockShift {
            ahead_ms: ahead_ms.into(),
            ..ClockShift::default()
        };
        Self {
            shift: Some(Box::leak(Box::new(shift))),
        }
    }

    /// Sets the wall time of a stepped clock again.
    ///
    /// # Panics
    /// When it is the machine's clock.
    pub fn step(self, ahead_ms: i64) {
        let shift = self.shift.expect("a stepped clock");
        shift.ahead_ms.store(ahead_ms, Ordering::SeqCst);
    }

    /// Lets time pass at once on a stepped clock.
    ///
    /// # Panics
    /// When it is the machine's clock.
    pub fn pass(self, ms: i64) {
        let shift = self.shift.expect("a stepped clock");
        shift.passed_ms.fetch_add(ms, Ordering::SeqCst);
    }

    fn passed_ms(self) -> i64 {
        self.shift
            .map_or(0, |shift| shift.passed_ms.load(Ordering::SeqCst))
    }

    fn ahead_ms(self) -> i64 {
        let ahead_ms = self
            .shift
            .map(|shift| shift.ahead_ms.load(Ordering::SeqCst));
        ahead_ms.unwrap_or(0) + self.passed_ms()
    }

    /// The wall time now, in milliseconds since 1970.
    pub fn now_ms(self) -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
                ms.saturating_add(self.ahead_ms())
            })
    }

    /// Milliseconds since this machine was started, sleep included.
    pub fn boot_ms(self) -> i64 {
        let boot_ms = i64::try_from(Clocks::now().mono_ns / 1_000_000).unwrap_or(i64::MAX);
        boot_ms.saturating_add(self.passed_ms())
    }

    /// Now, on the boot clock. If the kernel does not name the boot, a name of
    /// our own stands for it.
    pub fn tick(self) -> Tick {
        Tick {
            boot: hex(&process::boot_id().unwrap_or_default()),
            ms: self.boot_ms(),
        }
    }

    /// Now, on both clocks.
    pub fn moment(self) -> Moment {
        Moment {
            ms: self.now_ms(),
            tick: self.tick(),
        }
    }
}
