//! A run as the core sees it, and what it asks the agent to do.

use nero_model::{RunId, RunToken};

use super::capacity::{Needs, NeverFits};

/// How far a run has come here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// For its turn, CPUs, memory or disk.
    Waiting,
    /// Its folder is being built, or its shim is on the way.
    Starting {
        /// Which start this is.
        incarnation: u32,
        /// Whether the launcher was told; from then on only the disk knows.
        launched: bool,
    },
    /// Its claim exists.
    Running {
        /// Which start this is.
        incarnation: u32,
        /// It goes on without a parent of ours.
        unsupervised: bool,
        /// On another host of this root, whose CPUs and memory it takes.
        elsewhere: bool,
    },
    /// No record of its life can follow; a watcher's may.
    Ended {
        /// Its last start.
        incarnation: u32,
    },
    /// Nothing more comes.
    Settled {
        /// Its last start.
        incarnation: u32,
    },
    /// A file of it cannot be used: it is neither started nor called over.
    Held {
        /// Which start this is, 0 when there was none.
        incarnation: u32,
    },
    /// Cancelled before it was started.
    TakenAway,
    /// It can never start here.
    Refused,
}

impl Stage {
    /// Claimed, and looked after here.
    pub fn running(incarnation: u32) -> Self {
        Self::Running {
            incarnation,
            unsupervised: false,
            elsewhere: false,
        }
    }

    /// Whether the run holds CPUs and memory.
    pub fn holds_slot(&self) -> bool {
        match self {
            Self::Running { elsewhere, .. } => !elsewhere,
            Self::Starting { .. } => true,
            // One bad file stops its run, not its node: a held run takes a slot
            // only where something of it is seen to live, and runs then.
            Self::Waiting
            | Self::Held { .. }
            | Self::Ended { .. }
            | Self::Settled { .. }
            | Self::TakenAway
            | Self::Refused => false,
        }
    }

    /// Whether nobody was told to start it, or it was refused.
    pub fn is_unstarted(&self) -> bool {
        let first = Self::Starting {
            incarnation: 1,
            launched: false,
        };
        matches!(self, Self::Waiting | Self::Refused) || *self == first
    }

    /// Whether nothing of the run can change any more.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Settled { .. } | Self::TakenAway | Self::Refused => true,
            Self::Waiting
            | Self::Starting { .. }
            | Self::Running { .. }
            | Self::Held { .. }
            | Self::Ended { .. } => false,
        }
    }

    /// Whether it goes on on another host of this root.
    pub fn is_elsewhere(&self) -> bool {
        matches!(
            self,
            Self::Running {
                elsewhere: true,
                ..
            }
        )
    }

    /// The start that this stage is about; 0 when there was none.
    pub fn incarnation(&self) -> u32 {
        match self {
            Self::Starting { incarnation, .. }
            | Self::Running { incarnation, .. }
            | Self::Held { incarnation }
            | Self::Ended { incarnation }
            | Self::Settled { incarnation } => *incarnation,
            Self::Waiting | Self::TakenAway | Self::Refused => 0,
        }
    }
}

/// One run, as far as deciding needs it.
#[derive(Clone, Debug)]
pub struct Run {
    /// As people write it.
    pub id: RunId,
    /// Place in the queue: first come, first served.
    pub order: u64,
    /// What it takes while it holds a slot.
    pub needs: Needs,
    /// How far it has come.
    pub stage: Stage,
    /// Somebody asked for its end.
    pub cancelled: bool,
    /// Starts that came to nothing in a row.
    pub vain: u32,
    /// What a reader should know: why it waits or was refused.
    pub why: String,
}

/// What the agent is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Build the work folder and environment, then say [`Core::prepared`](super::Core::prepared).
    Prepare { token: RunToken, incarnation: u32 },
    /// As `Prepare`, after a pause that grows with `vain`, the number of starts
    /// that came to nothing.
    PrepareLater {
        token: RunToken,
        incarnation: u32,
        vain: u32,
    },
    /// Append `JobNotStarted{CANCELLED}`: no user code ran, and none shall.
    SayCancelled { token: RunToken, incarnation: u32 },
    /// Tell the launcher.
    Launch { token: RunToken, incarnation: u32 },
    /// Ask the launcher to look after a run that goes on.
    Guard { token: RunToken, incarnation: u32 },
    /// Close the gate of a dead shim and append `JobNotStarted{GATE}`.
    SayGateClosed { token: RunToken, incarnation: u32 },
    /// Append `Lost`.
    SayLost {
        token: RunToken,
        incarnation: u32,
        rebooted: bool,
    },
    /// The run ended: copy its end into the ledger, see to its output.
    KeepEnd { token: RunToken, incarnation: u32 },
    /// The run will not start: write so into the ledger.
    TakeAway { token: RunToken },
    /// Its stage changed: tell whoever follows.
    Report { token: RunToken },
    /// Starts fail one after the other: hold the node for a while.
    HoldStarts { why: String },
}

/// What a cancel comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It was waiting, or refused; it is taken away.
    NeverStarts,
    /// It was started: `control/cancel.<n>` is to be made and its shim rung.
    Ask,
    /// It had ended.
    Ended,
}

/// Why a run is not taken into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// The token is known already.
    #[error("the run is known already")]
    Known,
    /// It can never start.
    #[error(transparent)]
    NeverFits(#[from] NeverFits),
}
