//! The states of a run and how it may end.
//!
//! Stored is a [`Phase`]; shown is one [`StateWord`], which adds what silence
//! and holds mean (see `docs/design/runs.md`, "States").

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How far a run has come. Up to `Submitted` it belongs to neroman, from there
/// on to the run's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Accepted and on disk, not sent yet.
    Queued,
    /// Its files travel to the node.
    Staging,
    /// Handed to the node.
    Submitted,
    /// The node has it and waits for room.
    Pending,
    /// Its job was started.
    Running,
    /// Its main process ended, or was asked to; something of it may be alive.
    Ending,
    /// Ended with exit code 0.
    Finished,
    /// Any other end by itself: exit code, signal, could not be started.
    Crashed,
    /// Ended by a person, a rule, or its scheduler.
    Aborted,
    /// Ended by a time limit.
    Timeout,
    /// Nothing can tell how it ended, or whether it did.
    Lost,
}

impl Phase {
    /// Every phase, in the order of a life.
    pub const ALL: [Self; 11] = [
        Self::Queued,
        Self::Staging,
        Self::Submitted,
        Self::Pending,
        Self::Running,
        Self::Ending,
        Self::Finished,
        Self::Crashed,
        Self::Aborted,
        Self::Timeout,
        Self::Lost,
    ];

    /// The word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Staging => "staging",
            Self::Submitted => "submitted",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Ending => "ending",
            Self::Finished => "finished",
            Self::Crashed => "crashed",
            Self::Aborted => "aborted",
            Self::Timeout => "timeout",
            Self::Lost => "lost",
        }
    }

    /// Whether this is an end: nothing of the run goes on.
    pub const fn is_end(self) -> bool {
        matches!(
            self,
            Self::Finished | Self::Crashed | Self::Aborted | Self::Timeout | Self::Lost
        )
    }

    /// Whether the run is live: queued … ending.
    pub const fn is_live(self) -> bool {
        !self.is_end()
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no phase.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no phase of a run")]
pub struct UnknownPhase(String);

impl FromStr for Phase {
    type Err = UnknownPhase;

    fn from_str(text: &str) -> Result<Self, UnknownPhase> {
        Self::ALL
            .into_iter()
            .find(|phase| phase.as_str() == text)
            .ok_or_else(|| UnknownPhase(text.to_owned()))
    }
}

/// The one word shown for an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateWord {
    /// It never ran.
    Defined,
    /// Its processes are stopped, or it is kept from being started.
    Paused,
    /// The phase of the newest run.
    Phase(Phase),
}

impl StateWord {
    /// Every state, in the order of a life; a pause may come at any time.
    pub const ALL: [Self; 13] = {
        let mut all = [Self::Defined; 13];
        let mut at = 0;
        while at < Phase::ALL.len() {
            all[at + 1] = Self::Phase(Phase::ALL[at]);
            at += 1;
        }
        all[12] = Self::Paused;
        all
    };

    /// The word itself.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Defined => "defined",
            Self::Paused => "paused",
            Self::Phase(phase) => phase.as_str(),
        }
    }
}

impl fmt::Display for StateWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for StateWord {
    type Err = UnknownPhase;

    fn from_str(text: &str) -> Result<Self, UnknownPhase> {
        match text {
            "defined" => Ok(Self::Defined),
            "paused" => Ok(Self::Paused),
            other => other.parse().map(Self::Phase),
        }
    }
}

/// Reason of a run's end. Exit code, signal, time limit, failure to start and
/// loss are different outcomes and stay different up to the screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EndReason {
    /// The main process ended with this code.
    Exited { code: i32 },
    /// The main process was ended by this signal, not by us.
    Signalled { signal: i32, core_dumped: bool },
    /// A write failed for want of space (exit code given).
    DiskFull { code: i32 },
    /// The kernel ended processes of its cgroup for memory meanwhile. SIGKILL ended the job (code
    /// 0), or a process whose shell then ended with this code.
    OutOfMemory {
        #[serde(default)]
        code: i32,
    },
    /// The program could not be executed.
    NotStarted { stage: String, errno: i32 },
    /// A person asked for it.
    ByPerson { who: String },
    /// A rule asked for it.
    ByRule {
        rule: u64,
        text: String,
        values: String,
    },
    /// A time limit ran out.
    TimeLimit { limit_ms: u64 },
    /// Its scheduler ended its task.
    ByScheduler {
        /// "SLURM", or "SLURM by root" with who cancelled it there; empty: not told.
        scheduler: String,
        how: TaskEnd,
    },
    /// It was taken away before it was started.
    TakenAway { who: String },
    /// It ended and nothing could see its code.
    CodeUnknown,
    /// The node was started anew while it ran.
    Rebooted,
    /// A person decided that its node will never answer again.
    NodeGone { who: String },
    /// A reason that a node sent and this build does not know.
    Other { text: String },
}

/// How a scheduler ended the task of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEnd {
    /// Its time was up.
    TimeLimit,
    /// It used more memory than it was given.
    OutOfMemory,
    /// Its host failed.
    HostFailure,
    /// Other jobs took its place.
    Preempted,
    /// A person or an administrator cancelled it there.
    Cancelled,
    /// An abort had not ended it in time, and neromum cancelled its job there.
    Escalated,
    /// Its batch task died.
    Failed,
    /// It did not say.
    Untold,
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exit code {code}"),
            Self::Signalled {
                signal,
                core_dumped,
            } => {
                write!(f, "killed by {}", signal_name(*signal))?;
                if *core_dumped {
                    f.write_str(", core dumped")
                } else {
                    Ok(())
                }
            }
            Self::DiskFull { code } => write!(f, "disk full (exit code {code})"),
            Self::OutOfMemory { code } => {
                f.write_str("out of memory: ")?;
                match code {
                    0 => f.write_str("killed by SIGKILL")?,
                    code => write!(f, "exit code {code}")?,
                }
                f.write_str(
                    "; the kernel's out-of-memory killer ended a process of this cgroup meanwhile",
                )
            }
            Self::NotStarted { stage, errno } => {
                let why = std::io::Error::from_raw_os_error(*errno).to_string();
                write!(f, "not started: {stage}: {}", crate::plain::plain(&why))
            }
            Self::ByPerson { who } if who.is_empty() => f.write_str("aborted"),
            Self::ByPerson { who } => write!(f, "aborted by {who}"),
            Self::ByRule { text, values, .. } if values.is_empty() => write!(f, "rule `{text}`"),
            Self::ByRule { text, values, .. } => write!(f, "rule `{text}` ({values})"),
            Self::TimeLimit { limit_ms } => {
                write!(f, "time limit of {} s reached", *limit_ms as f64 / 1000.0)
            }
            Self::ByScheduler { scheduler, how } => {
                let who = match &**scheduler {
                    "" => "the scheduler",
                    name => name,
                };
                match how {
                    TaskEnd::TimeLimit => write!(f, "time limit of {who} reached"),
                    TaskEnd::OutOfMemory => {
                        write!(
                            f,
                            "out of memory: {who} ended it, which used more than it asked for"
                        )
                    }
                    TaskEnd::HostFailure => write!(f, "its host failed, by {who}'s word"),
                    TaskEnd::Preempted => write!(f, "{who} gave its place to other jobs"),
                    TaskEnd::Cancelled => write!(f, "cancelled at {who}"),
                    TaskEnd::Escalated => write!(
                        f,
                        "aborted: it did not end by itself, so its job was cancelled at {who}"
                    ),
                    TaskEnd::Failed => {
                        write!(f, "{who} says that its job failed; exit code unknown")
                    }
                    TaskEnd::Untold => write!(f, "ended by {who}, which does not tell why"),
                }
            }
            Self::TakenAway { .. } => f.write_str("taken away before it was started"),
            Self::CodeUnknown => f.write_str("ended, exit code unknown"),
            Self::Rebooted => f.write_str("node was restarted"),
            Self::NodeGone { who } if who.is_empty() => f.write_str("node gone: a person said so"),
            Self::NodeGone { who } => write!(f, "node gone: {who} said so"),
            Self::Other { text } => f.write_str(text),
        }
    }
}

/// Names of the signals from 1 on. Linux numbers, which are the same on x86-64 and aarch64.
pub const SIGNALS: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// The usual name of a signal, or its number.
pub fn signal_name(signal: i32) -> String {
    usize::try_from(signal)
        .ok()
        .and_then(|number| number.checked_sub(1))
        .and_then(|index| SIGNALS.get(index))
        .map_or_else(|| format!("signal {signal}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_is_parsed_back_from_its_name() {
        for phase in Phase::ALL {
            assert_eq!(phase.as_str().parse(), Ok(phase));
            assert_ne!(phase.is_end(), phase.is_live());
        }
        assert!("gone".parse::<Phase>().is_err());
        assert_eq!("defined".parse(), Ok(StateWord::Defined));
    }

    #[test]
    fn signals_have_their_names() {
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(15), "SIGTERM");
        assert_eq!(signal_name(31), "SIGSYS");
        assert_eq!(signal_name(40), "signal 40");
        assert_eq!(signal_name(0), "signal 0");
    }
}
