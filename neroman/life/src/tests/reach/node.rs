//! A node as far as one run goes: its state there and its records. It moves by
//! itself and answers truly; an answer may get lost.

use crate::facts::journal::{Exit, Incarnation, Journal, Key, Lost, NotStarted, Stop, TreeEnd};
use crate::tests::ended;
use nero_journal::v1::{StopCause, job_not_started, lost};

/// The fence of a node that gets the run with no generation any more.
pub(in crate::tests) const NEVER_AGAIN: u32 = u32::MAX;

/// The state of the run on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::tests) enum There {
    #[default]
    Nothing,
    /// It was accepted and waits.
    Waiting,
    /// It was accepted and can never start.
    Refused,
    /// It was claimed; the records contain its progress.
    Started,
    /// Every record except a watcher's was sent.
    Ended,
    Settled,
    /// It was cancelled before it was started.
    TakenAway,
    /// It was recalled: it never starts there.
    Recalled,
}

/// A record of a run's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::tests) enum Rec {
    Claimed,
    Started,
    /// A person's cancel reached the shim.
    StopAsked,
    Exited,
    TreeGone,
    /// The job never passed its gate; the next start follows.
    GateClosed,
    NotExecuted,
    NotStartedCancelled,
    Rebooted,
    FolderGone,
}

impl Rec {
    /// Whether no record follows in the journal.
    pub(in crate::tests) fn is_last(self) -> bool {
        match self {
            Self::TreeGone
            | Self::NotExecuted
            | Self::NotStartedCancelled
            | Self::Rebooted
            | Self::FolderGone => true,
            Self::Claimed | Self::Started | Self::StopAsked | Self::Exited | Self::GateClosed => {
                false
            }
        }
    }

    /// The records that may follow; `cancelled` if the node was told to end the
    /// run.
    pub(in crate::tests) fn next(self, cancelled: bool) -> Vec<Self> {
        match self {
            Self::Claimed if cancelled => vec![Self::NotStartedCancelled],
            Self::Claimed => vec![Self::Started, Self::GateClosed, Self::NotExecuted],
            Self::Started if cancelled => vec![Self::StopAsked, Self::Exited],
            Self::Started => vec![Self::Exited, Self::Rebooted, Self::FolderGone],
            Self::StopAsked => vec![Self::Exited],
            Self::Exited => vec![Self::TreeGone, Self::Rebooted],
            Self::GateClosed => vec![Self::Claimed],
            Self::TreeGone
            | Self::NotExecuted
            | Self::NotStartedCancelled
            | Self::Rebooted
            | Self::FolderGone => Vec::new(),
        }
    }
}

/// A hand-over that is on its way, and whose answer the daemon waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::tests) struct Request {
    pub generation: u32,
    /// Whether it only brings the spec of a run that the node has.
    pub again: bool,
    /// Whether it only asks for a run that can never be sent.
    pub question: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::tests) struct Node {
    pub there: There,
    /// The generation of the run that lies there.
    pub generation: u32,
    pub records: Vec<Rec>,
    /// Whether it was told to end the run.
    pub cancelled: bool,
    /// Whether it was told to keep the run from starting.
    pub held: bool,
    /// No run of this generation or an earlier one is accepted any more.
    pub fence: u32,
    pub request: Option<Request>,
    /// The generation of a hand-over that lost its connection and may still come in.
    pub late: Option<u32>,
    /// The generation that it gave back; its report is on its way.
    pub gave_back: Option<u32>,
}

impl Node {
    /// Whether a job of the run was started here.
    pub(in crate::tests) fn ran(&self) -> bool {
        self.records.contains(&Rec::Started)
    }

    /// Whether the run waits or goes on here, or may come to do so.
    pub(in crate::tests) fn may_run(&self) -> bool {
        let request = self
            .request
            .filter(|request| !request.again && !request.question);
        let comes = request.map(|request| request.generation).max(self.late);
        let comes = comes.is_some_and(|generation| generation > self.fence);
        let lies = match self.there {
            There::Waiting | There::Started => true,
            There::Nothing => comes,
            There::Refused | There::Ended | There::Settled | There::TakenAway | There::Recalled => {
                false
            }
        };
        lies && !self.cancelled
    }

    /// The connection is lost: the hand-over on its way may come in late, a report
    /// never.
    pub(in crate::tests) fn hang_up(&mut self) {
        self.gave_back = None;
        let request = self
            .request
            .take()
            .filter(|request| !request.again && !request.question);
        let late = request.map(|request| request.generation).max(self.late);
        self.late = late.filter(|generation| *generation > self.fence);
    }

    /// Takes the run in.
    pub(in crate::tests) fn accept(&mut self, generation: u32) {
        if self.there == There::Nothing {
            self.there = There::Waiting;
            self.generation = generation;
        }
    }

    /// Accepts no hand-over until this generation any more.
    pub(in crate::tests) fn raise_fence(&mut self, generation: u32) {
        self.fence = self.fence.max(generation);
        self.late = self.late.filter(|late| *late > self.fence);
    }

    /// The states that the node may reach by itself.
    pub(in crate::tests) fn moves(&self) -> Vec<Self> {
        let mut moves = Vec::new();
        let becomes = |there| Self {
            there,
            ..self.clone()
        };
        match self.there {
            There::Waiting => {
                moves.push(becomes(There::Refused));
                // Its files are damaged there: they are needed once more.
                let mut gives_back = becomes(There::Nothing);
                gives_back.raise_fence(self.generation);
                gives_back.gave_back = Some(self.generation);
                gives_back.generation = 0;
                gives_back.held = false;
                moves.push(gives_back);
                if !self.held {
                    moves.push(Self {
                        records: vec![Rec::Claimed],
                        ..becomes(There::Started)
                    });
                }
            }
            There::Started => {
                let last = self.records.last().copied().unwrap_or(Rec::Claimed);
                let gates = self.records.contains(&Rec::GateClosed);
                for next in last.next(self.cancelled) {
                    if next == Rec::GateClosed && gates {
                        continue;
                    }
                    let mut moved = self.clone();
                    moved.records.push(next);
                    moves.push(moved);
                }
                if last.is_last() {
                    moves.push(becomes(There::Ended));
                }
            }
            There::Ended => moves.push(becomes(There::Settled)),
            There::Nothing
            | There::Refused
            | There::Settled
            | There::TakenAway
            | There::Recalled => {}
        }
        moves
    }
}

/// The journal of these records.
pub(in crate::tests) fn journal(records: &[Rec]) -> Journal {
    let mut journal = Journal::default();
    let mut start = 1;
    for (offset, record) in records.iter().enumerate() {
        add(&mut journal, start, offset, *record, Some(0));
        start += u32::from(*record == Rec::GateClosed);
    }
    journal
}

/// Adds a record of the start number `start` to the run's journal. `code` is the exit code of its
/// job; `None` if no process saw the exit.
pub(in crate::tests) fn add(
    journal: &mut Journal,
    start: u32,
    offset: usize,
    record: Rec,
    code: Option<i32>,
) {
    let key = Key {
        rank: 0,
        made_ns: 0,
        offset: offset as u64,
    };
    let one: &mut Incarnation = journal.incarnations.get_or_default(start);
    let not_started = |stage: job_not_started::Stage| {
        Some(Box::new(NotStarted {
            program: String::new(),
            key,
            stage: stage.into(),
            errno: 0,
            at_ms: 5,
        }))
    };
    let lost = |reason: lost::Reason| {
        Some(Box::new(Lost {
            key,
            reason: reason.into(),
            detail: String::new(),
            at_ms: 9,
        }))
    };
    match record {
        Rec::Claimed => {}
        Rec::Started => one.started_ms = Some(5),
        Rec::StopAsked => {
            one.stop = Some(Box::new(Stop {
                key,
                cause: StopCause::Person.into(),
                rule: 0,
                at_ms: 6,
            }));
        }
        Rec::Exited => {
            let code_unknown = code.is_none();
            let exit = ended(code.unwrap_or_default()).exit;
            one.exit = exit.map(|exit| Exit {
                key,
                code_unknown,
                ..exit
            });
        }
        Rec::TreeGone => {
            let stdout_bytes = 1;
            one.gone = ended(0).gone.map(|gone| TreeEnd {
                key,
                stdout_bytes,
                ..gone
            });
        }
        Rec::GateClosed => one.not_started = not_started(job_not_started::Stage::Gate),
        Rec::NotExecuted => one.not_started = not_started(job_not_started::Stage::Exec),
        Rec::NotStartedCancelled => {
            one.not_started = not_started(job_not_started::Stage::Cancelled);
        }
        Rec::Rebooted => one.lost = lost(lost::Reason::Rebooted),
        Rec::FolderGone => one.lost = lost(lost::Reason::FolderGone),
    }
}
