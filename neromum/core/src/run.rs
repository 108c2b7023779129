//! A run as the core sees it, and the effects for the agent.

use nero_model::{RunId, RunToken};

use super::capacity::{Needs, NeverFits};
use super::cards::{CardRequest, Share};
use super::turn::Turn;

/// How far a run has come here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The run waits for its turn, CPUs, memory or disk.
    Waiting,
    /// Its folder is being built, or its shim is on the way.
    Starting {
        /// Number of the start.
        incarnation: u32,
        /// Whether the launcher has the launch; from then on only the disk
        /// shows the state.
        launched: bool,
    },
    /// A scheduler has it, or had it last: it neither waits nor can be started
    /// here. `incarnation`: the newest start of it; 0 when there was none.
    Submitted {
        /// Number of the start.
        incarnation: u32,
    },
    /// Its claim exists.
    Running {
        /// Number of the start.
        incarnation: u32,
        /// Whether it goes on without a supervisor of ours.
        unsupervised: bool,
        /// Whether it is on another host of this root, and holds no resources
        /// here.
        elsewhere: bool,
    },
    /// No record of its life can come; a watcher's may.
    Ended {
        /// Number of its last start.
        incarnation: u32,
    },
    /// No record can come.
    Settled {
        /// Number of its last start.
        incarnation: u32,
    },
    /// A file of it cannot be used: it is neither started nor called over.
    Held {
        /// Number of the start, 0 when there was none.
        incarnation: u32,
    },
    /// Cancelled before it was started.
    TakenAway,
    /// It can never start here.
    Refused,
}

impl Stage {
    /// A stage for a claimed run that is looked after here.
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
            // One bad file stops its run, not the node: a held run takes a slot
            // only when a process of it is seen to live, and is running then.
            Self::Waiting
            | Self::Submitted { .. }
            | Self::Held { .. }
            | Self::Ended { .. }
            | Self::Settled { .. }
            | Self::TakenAway
            | Self::Refused => false,
        }
    }

    /// Whether no launcher was told to start the run, or it was refused.
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
            | Self::Submitted { .. }
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

    /// Number of the start that this stage belongs to; 0 when there was none.
    pub fn incarnation(&self) -> u32 {
        match self {
            Self::Starting { incarnation, .. }
            | Self::Submitted { incarnation }
            | Self::Running { incarnation, .. }
            | Self::Held { incarnation }
            | Self::Ended { incarnation }
            | Self::Settled { incarnation } => *incarnation,
            Self::Waiting | Self::TakenAway | Self::Refused => 0,
        }
    }
}

/// The state of a run that decisions need.
#[derive(Clone, Debug)]
pub struct Run {
    /// As people write it.
    pub id: RunId,
    /// Number of its acceptance: among equals, first come, first served.
    pub order: u64,
    /// When it has its turn.
    pub turn: Turn,
    /// When its newest start began, by the boot clock.
    pub began_ms: Option<u64>,
    /// Whether it was paused since it began, so that its time limit tells nothing of its end.
    pub was_paused: bool,
    /// Resources that it takes while it holds a slot.
    pub needs: Needs,
    /// How far it has come.
    pub stage: Stage,
    /// Whether a person or rule asked for its end.
    pub cancelled: bool,
    /// Whether a person asked for a pause of it: it is not started, or its processes
    /// are stopped and its CPUs are given to others.
    pub paused: bool,
    /// Cards that its start got, by their place in the list of those that are given; none
    /// where they are not counted, or its start is an earlier process's.
    pub cards: Vec<u32>,
    /// What it asks of the cards of a bare node.
    pub request: CardRequest,
    /// Parts of them that its newest start got.
    pub shares: Vec<Share>,
    /// Incarnation that its next start makes; earlier ones are over.
    pub next: u32,
    /// Number of failed starts in a row.
    pub vain: u32,
    /// Text for people: the reason why it waits or was refused.
    pub why: String,
    /// Whether that reason does not pass until a person acts.
    pub needs_person: bool,
    /// Whether it began, and its job is in the scheduler's queue again.
    pub waits_again: bool,
}

impl Run {
    /// Resources that it holds now.
    pub fn holds(&self) -> Needs {
        let stopped = self.paused && matches!(self.stage, Stage::Running { .. });
        if !self.stage.holds_slot() {
            Needs::default()
        } else if stopped {
            Needs {
                micro_cpus: 0,
                ..self.needs
            }
        } else {
            self.needs
        }
    }
}

/// The state that a person asks of a run that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseState {
    /// It is held at its scheduler, or its processes are stopped.
    Paused,
    /// It goes on.
    Resumed,
}

/// Work for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Build the work folder and environment, then call
    /// [`Core::prepared`](super::Core::prepared).
    Prepare { token: RunToken, incarnation: u32 },
    /// As `Prepare`, after a pause that grows with `vain`, the number of failed
    /// starts.
    PrepareLater {
        token: RunToken,
        incarnation: u32,
        vain: u32,
    },
    /// Append `JobNotStarted{CANCELLED}`: no user code ran, and none shall.
    SayCancelled { token: RunToken, incarnation: u32 },
    /// Send the launch to the launcher.
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
    /// The run ended: copy its end into the ledger, handle its output.
    KeepEnd { token: RunToken, incarnation: u32 },
    /// The run will not start: record that in the ledger.
    TakeAway { token: RunToken },
    /// Its stage changed: send it to the followers.
    Report { token: RunToken },
    /// Starts fail one after the other: stop starting for a while.
    HoldStarts { why: String },
    /// Its task is over and began no user code: see what became of it.
    Vanished { token: RunToken },
    /// Append how its scheduler ended its task, and `Lost`.
    SayTaskOver { token: RunToken, incarnation: u32 },
}

/// What a cancel request does, by the stage of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelDecision {
    /// It was waiting, or refused; it is taken away.
    NeverStarts,
    /// It was started: make `control/cancel.<n>` and ring its shim.
    Ask,
    /// It had ended.
    Ended,
}

/// Reason why a run is not taken into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// The token is known already.
    #[error("the run is known already")]
    Known,
    /// It can never start.
    #[error(transparent)]
    NeverFits(#[from] NeverFits),
}
