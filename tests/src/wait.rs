//! Waiting for a condition, never for a time.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

use crate::late;

/// Time after which a test gives up. Generous: it is no measure of speed, and
/// busy machines are slow.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Pause between two looks at a condition.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until `look` returns a value. `Err` contains the state seen instead.
///
/// # Panics
/// When the deadline passes; the message has the last state seen.
#[track_caller]
pub fn until<T, S: Debug>(what: &str, look: impl FnMut() -> Result<T, S>) -> T {
    // On a disk that is late by hand, an end may take many looks, one after the other.
    until_within(DEADLINE + late::delay_by_hand() * 20, what, look)
}

/// As [`until`], for what takes minutes by itself.
///
/// # Panics
/// When the deadline passes; the message has the last state seen.
#[track_caller]
pub fn until_within<T, S: Debug>(
    deadline: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<T, S>,
) -> T {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if began.elapsed() > deadline => {
                panic!("waited {deadline:?} for {what}; last seen: {seen:#?}")
            }
            Err(_) => thread::sleep(LOOK),
        }
    }
}
