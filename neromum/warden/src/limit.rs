//! The time that a scheduler is asked for.

/// Time that the scheduler gives a run beyond its own limit and its grace: our limit
/// ends it, with exact records, and the scheduler's is never reached.
pub const MARGIN_S: u64 = 60;

/// The limit, in seconds, that a scheduler is asked for when a run's own limit and
/// grace are these.
pub fn limit_s(time_ms: u64, grace_ms: u64) -> u64 {
    time_ms.saturating_add(grace_ms).div_ceil(1000) + MARGIN_S
}

/// The limit of a task whose runs may go one after the other, when that of one run is
/// `limit_s`; 0: none.
pub fn of_pack_s(limit_s: u64, runs: u32) -> u64 {
    match limit_s.checked_sub(MARGIN_S) {
        Some(each) => each.saturating_mul(runs.into()).saturating_add(MARGIN_S),
        None => limit_s,
    }
}
