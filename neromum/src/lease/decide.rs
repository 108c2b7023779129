//! Who leads: what a process that looks at the newest lease is to do. A total,
//! pure function of what was seen and tried; see `docs/design/shared-homes.md`, for the table.

use std::time::Duration;

/// Beats after which a silent leader is taken for gone.
pub const OLD_BEATS: u32 = 3;
/// Beats for which a lease is left alone though its leader cannot be reached,
/// so that two that cannot reach each other do not take turns all the time.
pub const PING_PONG_BEATS: u32 = 4;
/// How long a leader that has just begun may take until its socket is there.
pub const SOCKET_PATIENCE: Duration = Duration::from_secs(2);

/// Where the leader's process is, as far as can be proven from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In our name space, and it lives.
    Here,
    /// It was in our name space, or on a host that has started anew since.
    Dead,
    /// On another host, or in another name space: nothing can be proven.
    Elsewhere,
}

/// The newest lease. Ages are differences of times that the file server gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its number, from 1.
    pub epoch: u64,
    /// Its process left in order.
    pub left: bool,
    /// Where its process is.
    pub place: Place,
    /// Since its last beat.
    pub beat_age: Duration,
    /// Since it began.
    pub age: Duration,
    /// Between two beats, as it says.
    pub beat: Duration,
    /// It says where it can be reached from other hosts.
    pub listens: bool,
}

impl Seen {
    /// Whether its process may still do something: it did not leave, is not
    /// proven dead, and was heard of lately.
    pub fn may_act(&self) -> bool {
        !self.left && self.place != Place::Dead && !self.is_old()
    }

    fn is_old(&self) -> bool {
        self.beat_age >= self.beat * OLD_BEATS
    }
}

/// What was tried in vain with this very lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// For how long its socket has not answered.
    pub socket: Option<Duration>,
    /// Its process was asked to bind its socket again.
    pub rebind: bool,
    /// Its relay did not answer.
    pub relay: bool,
}

/// Why a new epoch is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// Nobody ever led.
    First,
    /// The last one left in order.
    Left,
    /// The last one is proven dead.
    Dead,
    /// The last one has been silent for too long.
    Silent,
    /// The last one cannot be reached from here.
    Unreachable,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begin the next epoch.
    Lead(Because),
    /// Connect to the leader's socket.
    Connect,
    /// Ask the leader to bind its socket again.
    Rebind,
    /// Connect to the leader's host.
    Relay,
    /// Look again in a moment.
    Wait,
}

/// Decides; none stands for a folder without leases.
pub fn decide(seen: Option<&Seen>, tried: Tried) -> Step {
    let Some(seen) = seen else {
        return Step::Lead(Because::First);
    };
    if seen.left {
        return Step::Lead(Because::Left);
    }
    match seen.place {
        Place::Dead => Step::Lead(Because::Dead),
        Place::Here | Place::Elsewhere if seen.is_old() => Step::Lead(Because::Silent),
        Place::Here => here(tried),
        Place::Elsewhere if seen.listens && !tried.relay => Step::Relay,
        Place::Elsewhere if seen.age >= seen.beat * PING_PONG_BEATS => {
            Step::Lead(Because::Unreachable)
        }
        Place::Elsewhere => Step::Wait,
    }
}

fn here(tried: Tried) -> Step {
    match tried.socket {
        // It may be reading its ledger: its socket comes after that.
        Some(since) if since >= SOCKET_PATIENCE && !tried.rebind => Step::Rebind,
        Some(_) | None => Step::Connect,
    }
}
