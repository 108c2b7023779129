//! Words of SLURM for states and for reasons of waiting.

use crate::job::{Ended, Reason, State};

/// Reasons that no waiting changes. Reasons of limits that other jobs free again
/// are not among them.
const NEVER_PASS: &[&str] = &[
    "AccountNotAllowed",
    "AssocGrpBillingMinutes",
    "AssocGrpCPUMinutesLimit",
    "AssocGrpGRESMinutes",
    "AssocMaxCpuPerJobLimit",
    "AssocMaxNodePerJobLimit",
    "AssocMaxWallDurationPerJobLimit",
    "BadConstraints",
    "DeadLine",
    "DependencyNeverSatisfied",
    "FedJobLock",
    "InvalidAccount",
    "InvalidQOS",
    "JobArrayTaskLimitExceeded",
    "NodeNotAvail",
    "PartitionConfig",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "QOSGrpBillingMinutes",
    "QOSGrpCPUMinutesLimit",
    "QOSGrpGRESMinutes",
    "QOSMaxCpuPerJobLimit",
    "QOSMaxMemoryPerJob",
    "QOSMaxNodePerJobLimit",
    "QOSMaxWallDurationPerJobLimit",
    "QOSMinCpuNotSatisfied",
    "QOSMinGRES",
    "QOSNotAllowed",
    "ReservationInvalid",
];

/// Reasons that a person has to lift.
const HELD: &[&str] = &[
    "JobHeldAdmin",
    "JobHeldUser",
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
        "COMPLETED" => State::Ended(Ended::Completed),
        "FAILED" => State::Ended(Ended::Failed),
        "CANCELLED" | "REVOKED" => State::Ended(Ended::Cancelled),
        "TIMEOUT" | "DEADLINE" => State::Ended(Ended::TimeLimit),
        "OUT_OF_MEMORY" => State::Ended(Ended::OutOfMemory),
        "NODE_FAIL" | "BOOT_FAIL" | "LAUNCH_FAILED" | "RECONFIG_FAIL" => {
            State::Ended(Ended::HostFailure)
        }
        "PREEMPTED" => State::Ended(Ended::Preempted),
        "REQUEUED" => State::Ended(Ended::Requeued),
        _ => State::Unknown(shown(word)),
    }
}

fn waiting(reason: &str) -> State {
    match HELD.contains(&reason) {
        true => State::Held(why(reason)),
        false => State::Waiting(why(reason)),
    }
}

fn why(reason: &str) -> Reason {
    let word = match reason {
        "None" | "(null)" => "",
        word => word,
    };
    Reason {
        word: shown(word),
        never_passes: NEVER_PASS.contains(&word),
    }
}

/// A foreign word, short and printable.
fn shown(word: &str) -> String {
    let plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
    word.chars().filter(plain).take(80).collect()
}
