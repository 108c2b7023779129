//! Decides who leads: the next step of a process that looks at the newest lease. A total, pure
//! function of the lease and the tries so far; see `docs/design/shared-homes.md` for the
//! table.

use std::time::Duration;

/// Number of beats after which a silent leader counts as gone.
pub const OLD_BEATS: u32 = 3;
/// Number of beats for which a lease is left alone though its leader cannot be reached, so
/// that two hosts that cannot reach each other do not replace each other again and again.
pub const PING_PONG_BEATS: u32 = 4;
/// Time for a leader that has just begun to make its socket.
pub const SOCKET_PATIENCE: Duration = Duration::from_secs(2);

/// Place of the leader's process, as far as it can be proven from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessPlace {
    /// In our name space, and it lives.
    Here,
    /// It was in our name space, or on a host that has started anew since.
    Dead,
    /// On another host, or in another name space: nothing can be proven.
    Elsewhere,
}

/// The newest lease. Ages are differences of times that the file server gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedLease {
    /// Number of the epoch, from 1.
    pub epoch: u64,
    /// Whether the leader left in order.
    pub left: bool,
    /// Place of the leader's process.
    pub place: ProcessPlace,
    /// Time since its last beat.
    pub beat_age: Duration,
    /// Time since the epoch began.
    pub age: Duration,
    /// Interval of its beats, from the lease.
    pub beat: Duration,
    /// Whether the lease has addresses for other hosts.
    pub listens: bool,
}

impl ObservedLease {
    /// Whether the leader may still act: it did not leave, is not proven dead, and its last
    /// beat is recent.
    pub fn may_act(&self) -> bool {
        !self.left && self.place != ProcessPlace::Dead && !self.is_old()
    }

    fn is_old(&self) -> bool {
        self.beat_age >= self.beat * OLD_BEATS
    }
}

/// Tries with this lease that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedAttempts {
    /// Time for which its socket has not answered.
    pub socket: Option<Duration>,
    /// Whether its process was asked to bind its socket again.
    pub rebind: bool,
    /// Whether its relay did not answer.
    pub relay: bool,
}

/// Reason for a new epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochReason {
    /// There was no leader before.
    First,
    /// The last leader left in order.
    Left,
    /// The last leader is proven dead.
    Dead,
    /// The last leader has been silent for too long.
    Silent,
    /// The last leader cannot be reached from here.
    Unreachable,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begin the next epoch.
    Lead(EpochReason),
    /// Connect to the leader's socket.
    Connect,
    /// Ask the leader to bind its socket again.
    Rebind,
    /// Connect to the leader's host.
    Relay,
    /// Look again in a moment.
    Wait,
}

/// Decides; `seen` is `None` for a folder without leases.
pub fn decide(seen: Option<&ObservedLease>, tried: FailedAttempts) -> Step {
    let Some(seen) = seen else {
        return Step::Lead(EpochReason::First);
    };
    if seen.left {
        return Step::Lead(EpochReason::Left);
    }
    match seen.place {
        ProcessPlace::Dead => Step::Lead(EpochReason::Dead),
        ProcessPlace::Here | ProcessPlace::Elsewhere if seen.is_old() => {
            Step::Lead(EpochReason::Silent)
        }
        ProcessPlace::Here => here(tried),
        ProcessPlace::Elsewhere if seen.listens && !tried.relay => Step::Relay,
        ProcessPlace::Elsewhere if seen.age >= seen.beat * PING_PONG_BEATS => {
            Step::Lead(EpochReason::Unreachable)
        }
        ProcessPlace::Elsewhere => Step::Wait,
    }
}

fn here(tried: FailedAttempts) -> Step {
    match tried.socket {
        // The leader may be reading its ledger; it makes its socket after that.
        Some(since) if since >= SOCKET_PATIENCE && !tried.rebind => Step::Rebind,
        Some(_) | None => Step::Connect,
    }
}
