//! One alarm at a moment of the machine's clock, sleep included.
//!
//! The runtime's own timers wake a process several times on the way to a
//! moment some seconds ahead; the kernel's wake it once.

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::os::fd::OwnedFd;
use std::time::Duration;

use nero_journal::Clocks;
use tokio::io::unix::AsyncFd;

use crate::events::readable::register;

/// The alarm.
#[derive(Debug)]
pub struct Alarm {
    /// None when the kernel has no descriptor left: then the runtime's timers do.
    timer: Option<AsyncFd<OwnedFd>>,
    set_ms: Option<u64>,
}

impl Alarm {
    /// An alarm that is not set.
    pub fn new() -> Self {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags).ok();
        Self {
            timer: timer.and_then(|fd| register(fd).ok()),
            set_ms: None,
        }
    }

    /// Sleeps until `due_ms` of the machine's clock.
    pub async fn until(&mut self, due_ms: u64) {
        if self.set_ms != Some(due_ms) {
            self.set(due_ms);
        }
        let Some(timer) = &self.timer else {
            let now_ms = Clocks::now().mono_ns / 1_000_000;
            return tokio::time::sleep(Duration::from_millis(due_ms.saturating_sub(now_ms))).await;
        };
        // It cannot fail while the runtime lives. Waking early costs one look.
        if let Ok(mut ready) = timer.readable().await {
            let mut expirations = [0; 8];
            if rustix::io::read(timer.get_ref(), &mut expirations) != Err(Errno::AGAIN) {
                self.set_ms = None;
            }
            ready.clear_ready();
        }
    }

    fn set(&mut self, due_ms: u64) {
        let Some(timer) = &self.timer else {
            return;
        };
        let never = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let due = Itimerspec {
            it_interval: never,
            // Zero would mean never.
            it_value: Timespec {
                tv_sec: (due_ms / 1000) as i64,
                tv_nsec: (due_ms % 1000 * 1_000_000).max(1) as i64,
            },
        };
        let set = timerfd_settime(timer.get_ref(), TimerfdTimerFlags::ABSTIME, &due);
        self.set_ms = set.is_ok().then_some(due_ms);
    }
}

impl Default for Alarm {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_rings_at_its_moment_and_again_at_the_next() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let now_ms = || Clocks::now().mono_ns / 1_000_000;
        runtime.block_on(async {
            let mut alarm = Alarm::new();
            let due_ms = now_ms() + 20;
            alarm.until(due_ms).await;
            assert!(now_ms() >= due_ms);
            alarm.until(now_ms().saturating_sub(5)).await;
            let later_ms = now_ms() + 3_600_000;
            let early = tokio::time::timeout(Duration::from_millis(5), alarm.until(later_ms));
            assert!(early.await.is_err());
            let due_ms = now_ms() + 20;
            alarm.until(due_ms).await;
            assert!(now_ms() >= due_ms);
        });
    }
}
