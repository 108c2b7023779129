//! Records by their subject: a reader matches the few kinds that it needs, not the list of all.
//!
//! A new kind of record is one line in the table below. The compiler then asks the readers of its
//! group for an arm, and nobody else.

use std::fmt;
use std::marker::PhantomData;

use crate::v1::{self, RecordKind, ledger_exited};
use crate::{Clocks, Record};

/// A message that is the payload of one kind of records.
pub trait RecordMessage: prost::Message + Default {
    /// The kind of its records.
    const KIND: RecordKind;
}

/// The encoded message of a record.
pub struct Payload<'a, M> {
    bytes: &'a [u8],
    message: PhantomData<fn() -> M>,
}

impl<M: RecordMessage> Payload<'_, M> {
    /// Decodes the message.
    ///
    /// # Errors
    /// When the bytes are no such message: another build wrote them.
    pub fn decode(&self) -> Result<M, prost::DecodeError> {
        M::decode(self.bytes)
    }
}

impl<M> fmt::Debug for Payload<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

impl v1::Notice {
    /// A notice for people, which keeps nothing from happening.
    pub fn of(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            holds_end: false,
        }
    }
}

/// Declares the enum of each group, the kind of each message, and `content_of`.
macro_rules! records {
    ($(
        $(#[$group_doc:meta])*
        $arm:ident: $group:ident {
            $( $(#[$doc:meta])* $name:ident, )*
        }
    )*) => {
        /// A record's message, by its subject.
        #[derive(Debug)]
        pub enum Content<'a> {
            $( $(#[$group_doc])* $arm($group<'a>), )*
            /// A kind that this build does not know.
            Unknown(u16),
        }

        $(
            $(#[$group_doc])*
            #[derive(Debug)]
            pub enum $group<'a> {
                $( $(#[$doc])* $name(Payload<'a, v1::$name>), )*
            }

            $(
                impl RecordMessage for v1::$name {
                    const KIND: RecordKind = RecordKind::$name;
                }
            )*
        )*

        fn content_of(kind: u16, bytes: &[u8]) -> Content<'_> {
            match RecordKind::try_from(i32::from(kind)) {
                $($(
                    Ok(RecordKind::$name) => {
                        Content::$arm($group::$name(Payload { bytes, message: PhantomData }))
                    }
                )*)*
                Ok(RecordKind::Unspecified) | Err(_) => Content::Unknown(kind),
            }
        }
    };
}

records! {
    /// The life of a start's job, from its claim to its end.
    Job: JobRecord {
        /// A shim claimed the start.
        Claimed,
        /// The job exists.
        JobStarted,
        /// There is no job, and never was.
        JobNotStarted,
        /// A stop was asked for.
        StopAsked,
        /// A signal went through the job's tree.
        SignalSent,
        /// The job's main process ended.
        JobExited,
        /// No process of the job is alive.
        TreeGone,
        /// The job is paused.
        Paused,
        /// The job goes on after a pause.
        Resumed,
        /// A launcher took over from a dead shim.
        TakenOver,
        /// It is not known how the job ended.
        Lost,
        /// The scheduler ended the task of the start.
        TaskOver,
        /// What the scheduler gave the task of the start.
        Granted,
    }
    /// The beginning and the end of a watcher.
    Watch: WatchRecord {
        /// A watcher began.
        WatchStarted,
        /// A watcher left.
        WatchEnded,
    }
    /// What a watcher read from the job's output or measured of its processes.
    Observation: ObservationRecord {
        /// Points of series.
        Metrics,
        /// Points were folded, since there were too many.
        MetricsFolded,
        /// Resources that the job's tree uses.
        Sample,
        /// How far the job has come.
        Progress,
        /// The job truncated a log.
        LogTruncated,
        /// The job waits for a step on neroman's machine.
        StepAsked,
        /// A sentence for people.
        Notice,
    }
    /// Rules of a run, and what they did.
    Rule: RuleRecord {
        /// A set of rules is in force.
        RulesApplied,
        /// A set of rules was refused.
        RulesRefused,
        /// A loosely written name was bound.
        RuleBound,
        /// A rule fired.
        RuleFired,
        /// Since when the conditions of a rule hold.
        RuleHeld,
        /// The command of a firing ended.
        RuleRan,
    }
    /// neromum's own ledger.
    Ledger: LedgerRecord {
        /// A run was taken over from neroman.
        LedgerAccepted,
        /// A waiting run was cancelled.
        LedgerTakenAway,
        /// A started run is to be cancelled.
        LedgerCancelAsked,
        /// Copies of the records of a run's end.
        LedgerExited,
        /// neroman has everything of these runs.
        LedgerClosed,
        /// The answer to a call.
        LedgerAnswered,
        /// A submission is about to go to its scheduler.
        LedgerSubmission,
        /// A scheduler's answer to a submission.
        LedgerSubmitted,
        /// The scheduler ended a run's task before the run began.
        LedgerRefused,
        /// The cards of a start.
        LedgerCards,
    }
}

impl<'a> Record<'a> {
    /// The record's message, by its subject.
    pub fn content(&self) -> Content<'a> {
        content_of(self.kind, self.payload)
    }

    /// The time of the record.
    pub fn clocks(&self) -> Clocks {
        Clocks {
            wall_ns: self.wall_ns,
            mono_ns: self.mono_ns,
        }
    }

    /// The record's message if it is an `M`; `None` for another kind, and for a payload that is
    /// no such message.
    pub fn message<M: RecordMessage>(&self) -> Option<M> {
        self.is(M::KIND).then(|| self.decode().ok())?
    }
}

impl ledger_exited::Copy {
    /// A copy of a record with this message, written at this time.
    pub fn new<M: RecordMessage>(at: Clocks, message: &M) -> Self {
        Self {
            kind: M::KIND as u32,
            payload: message.encode_to_vec(),
            wall_ns: at.wall_ns,
            mono_ns: at.mono_ns,
        }
    }

    /// Whether the copied record's message is an `M`.
    pub fn is<M: RecordMessage>(&self) -> bool {
        self.kind == M::KIND as u32
    }
}
