//! Times: for waiting, and start times of children without reading `/proc`.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;

/// Nanoseconds that the machine has been awake: the clock of every deadline,
/// so that a laptop's sleep uses up no time limit.
pub fn now_ns() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Nanoseconds since boot, sleep included: the clock of start times.
pub fn boot_ns() -> u64 {
    nanos(ClockId::Boottime)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The start time, in clock ticks, of a process that was forked between two
/// readings of [`boot_ns`]; none when a tick lies between them. The kernel
/// takes the same clock at the fork, so this is not an estimate.
pub fn ticks_between(before_ns: u64, after_ns: u64, ticks_per_second: i64) -> Option<u64> {
    let tick_ns = 1_000_000_000 / u64::try_from(ticks_per_second).ok().filter(|n| *n > 0)?;
    (before_ns / tick_ns == after_ns / tick_ns).then_some(before_ns / tick_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_between_the_readings_leaves_it_open() {
        assert_eq!(ticks_between(10_000_000, 19_999_999, 100), Some(1));
        assert_eq!(ticks_between(19_999_999, 20_000_000, 100), None);
        assert_eq!(ticks_between(1, 2, 0), None);
    }

    #[test]
    fn the_kernel_says_the_same() {
        let mut known = 0;
        for _ in 0..50 {
            let before = boot_ns();
            let mut child = std::process::Command::new("true").spawn().unwrap();
            let after = boot_ns();
            let pid = child.id() as i32;
            let stat = nero_model::process::Stat::read(pid).unwrap();
            if let Some(ticks) = ticks_between(before, after, crate::sys::ticks_per_second()) {
                assert_eq!(ticks, stat.start_ticks);
                known += 1;
            }
            child.wait().unwrap();
        }
        assert!(known > 0);
    }
}
