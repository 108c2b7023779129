//! Words of SLURM for states and for reasons of waiting.

use crate::job::{Reason, SchedulerEnd, State};

/// Reasons that no waiting changes, beside those that [`never_passes`] finds by rules.
const NEVER_PASS: &[&str] = &[
    "AccountNotAllowed",
    "BadConstraints",
    "DeadLine",
    "DependencyNeverSatisfied",
    "InvalidAccount",
    "InvalidQOS",
    "MaxMemPerLimit",
    "PartitionConfig",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "QOSNotAllowed",
    "QOSUsageThreshold",
    "RequiresReservation",
    "ReservationDeleted",
];

/// Whether a reason does not pass by waiting. SLURM has one word for each limit, each
/// kind of resource, and association or QOS; limits that other jobs free again pass.
pub fn never_passes(word: &str) -> bool {
    let Some(limit) = ["Assoc", "QOS"].iter().find_map(|of| word.strip_prefix(of)) else {
        return NEVER_PASS.contains(&word);
    };
    // `GrpCPURunMinutesLimit` counts the jobs that run, the others what was used up.
    let is_budget = |limit: &str| {
        limit.contains("Minutes") && !limit.contains("RunMinutes") || limit.starts_with("Wall")
    };
    match (limit.strip_prefix("Max"), limit.strip_prefix("Grp")) {
        (Some(max), _) => max.contains("PerJob") || max.contains("PerNode"),
        (_, Some(group)) => is_budget(group),
        (None, None) => limit.starts_with("Min") || NEVER_PASS.contains(&word),
    }
}

/// Reasons that a person has to lift.
const HELD: &[&str] = &["JobHeldAdmin", "JobHeldUser"];

/// The same, after a failure: no hold of ours is told so.
const HELD_AFTER_FAILURE: &[&str] = &[
    "JobHoldMaxRequeue",
    "JobLaunchFailure",
    "RequeuedHeld",
    "SpecialExit",
    "launch_failed_requeued_held",
    "job_requeued_in_held_state",
];

/// The state of `job_state` (one word, the last of a list, or `CANCELLED by 61001`)
/// and `state_reason`.
pub fn state(word: &str, reason: &str) -> State {
    let first = word.split([' ', '+']).next().unwrap_or_default();
    match first {
        "PENDING" => waiting(reason),
        "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => State::Held(why(reason)),
        "REQUEUE_FED" => State::Waiting(why(reason)),
        "CONFIGURING" | "POWER_UP_NODE" => State::Starting,
        "RUNNING" | "RESIZING" | "SIGNALING" | "UPDATE_DB" | "EXPEDITING" => State::Running,
        "SUSPENDED" | "STOPPED" => State::Suspended,
        "COMPLETING" | "STAGE_OUT" => State::Ending,
        "COMPLETED" => State::Ended(SchedulerEnd::Completed),
        "FAILED" => State::Ended(SchedulerEnd::Failed),
        "CANCELLED" | "REVOKED" => {
            let by = word.split_once(" by ").and_then(|(_, by)| by.parse().ok());
            State::Ended(SchedulerEnd::Cancelled { by })
        }
        "TIMEOUT" | "DEADLINE" => State::Ended(SchedulerEnd::TimeLimit),
        "OUT_OF_MEMORY" => State::Ended(SchedulerEnd::OutOfMemory),
        "NODE_FAIL" | "BOOT_FAIL" | "LAUNCH_FAILED" | "RECONFIG_FAIL" => {
            State::Ended(SchedulerEnd::HostFailure)
        }
        "PREEMPTED" => State::Ended(SchedulerEnd::Preempted),
        "REQUEUED" => State::Ended(SchedulerEnd::Requeued),
        _ => State::Unknown(printable(word)),
    }
}

fn waiting(reason: &str) -> State {
    if HELD_AFTER_FAILURE.contains(&reason) {
        let never_passes = true;
        return State::Held(Reason {
            never_passes,
            ..why(reason)
        });
    }
    if HELD.contains(&reason) {
        State::Held(why(reason))
    } else {
        State::Waiting(why(reason))
    }
}

fn why(reason: &str) -> Reason {
    let word = match reason {
        "None" | "(null)" => "",
        word => word,
    };
    Reason {
        word: printable(word),
        never_passes: never_passes(word),
    }
}

/// A foreign word, short and printable.
fn printable(word: &str) -> String {
    let plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
    word.chars().filter(plain).take(80).collect()
}
