//! The time that a scheduler is asked for.

/// Time that the scheduler gives a run beyond its own limit and its grace: our limit
/// ends it, with exact records, and the scheduler's is never reached.
pub const MARGIN_S: u64 = 60;

/// The limit, in seconds, that a scheduler is asked for when a run's own limit and
/// grace are these.
pub fn limit_s(time_ms: u64, grace_ms: u64) -> u64 {
    time_ms.saturating_add(grace_ms).div_ceil(1000) + MARGIN_S
}
