//! One watcher at work: looks, lets `core` decide, writes, sends, waits.
//!
//! Everything happens in turns. A turn is synchronous and bounded; between two
//! turns the watcher sleeps until a file changes, the shim ends, neromum sends
//! a command, or a time has come.

mod acts;
mod begin;
mod end;
mod files;
mod past;
mod turn;

use std::fs::File;
use std::io;
use std::path::PathBuf;

use nero_journal::{Clocks, WriteError};

use crate::core::facts::{Moment, RunFacts, Sight};
use crate::core::intake::Intake;
use crate::core::progress::Tracker;
use crate::core::record::Record;
use crate::core::rules::{RequestedEffect, Rules};
use crate::events::alarm::Alarm;
use crate::events::link::{Link, LinkEvent};
use crate::events::pace::Pace;
use crate::events::wake::{Wake, Waker};
use crate::folder::journal::Journal;
use crate::folder::life::{Contact, Life};
use crate::folder::place::{PlaceError, WatchedStart};
use crate::gpus::own::OwnCards;
use crate::helper::Hosts;
use crate::output::tail::Tail;
use crate::processes::marked::MarkedProcesses;
use crate::processes::sample::{Procfs, Sampler};
use acts::Acts;
use files::MetricFile;

/// Pause before a record that the disk refused is tried again.
const RETRY_MS: u64 = 250;
/// Time for which a run without shim and job may lack a record of its end.
const SILENT_MAX_MS: u64 = 5_000;
/// Interval of looks at such a run.
const SILENT_LOOK_MS: u64 = 250;
/// Time in which a supervisor records what it was asked for.
const HEARD_MAX_MS: u64 = 5_000;
/// Interval in which it is rung again meanwhile.
const RING_AGAIN_MS: u64 = 1_000;
/// Interval of looks at commands of rules.
const ACTS_LOOK_MS: u64 = 200;
/// Interval of looks into a control folder whose changes are not reported.
const CONTROL_LOOK_MS: u64 = 10_000;

/// Reason why a run was not watched to its end.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The folder cannot be used.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The claim cannot be read.
    #[error("cannot read what was written of the run in {folder}")]
    Read {
        /// The incarnation's folder.
        folder: PathBuf,
        /// Error of the file system.
        #[source]
        source: io::Error,
    },
    /// The watcher's segment cannot be begun.
    #[error("cannot begin a segment in {folder}")]
    Segment {
        /// The incarnation's folder.
        folder: PathBuf,
        /// Error of the file system.
        #[source]
        source: io::Error,
    },
    /// A log cannot be read.
    #[error("cannot read {path}")]
    Log {
        /// The log.
        path: PathBuf,
        /// Error of the file system.
        #[source]
        source: io::Error,
    },
    /// A record cannot be written, ever.
    #[error("cannot write a record")]
    Write(#[from] WriteError),
    /// The disk took no record for a minute after the run's end.
    #[error("the disk of {folder} takes no records")]
    Stuck {
        /// The incarnation's folder.
        folder: PathBuf,
    },
    /// The run to settle has not ended.
    #[error("the run in {folder} has not ended")]
    Alive {
        /// The incarnation's folder.
        folder: PathBuf,
    },
}

impl WatchError {
    /// Whether the disk has no room, or the user's quota is used up.
    #[must_use]
    pub fn is_for_want_of_room(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        let mut kinds = std::iter::from_fn(|| {
            let here = cause?;
            cause = here.source();
            Some(here.downcast_ref::<io::Error>().map(io::Error::kind))
        });
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, Self::Stuck { .. })
            || kinds.any(|kind| kind.is_some_and(|kind| full.contains(&kind)))
    }
}

/// Ways in which a watcher ends well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// Every byte of output was evaluated.
    Complete,
    /// A former watcher evaluated every byte.
    Already,
    /// Another process watches.
    ByAnother,
}

/// One watcher.
#[derive(Debug)]
pub struct Watch {
    place: WatchedStart,
    life: Life,
    facts: RunFacts,
    intake: Intake,
    progress: Tracker,
    rules: Rules,
    /// What recorded firings ask for and that is not yet written as a request.
    asked: Vec<RequestedEffect>,
    /// Commands of recorded firings.
    acts: Acts,
    /// Highest version of rules that was refused.
    rules_refused: u64,
    /// Of both logs.
    tails: Vec<Tail>,
    files: Vec<MetricFile>,
    journal: Journal,
    sampler: Sampler,
    procfs: Procfs,
    hosts: Hosts,
    /// Processes of its container that are no descendants of its supervisor.
    of_daemon: Option<MarkedProcesses>,
    /// The run's cards, where the node gave it some.
    cards: Option<OwnCards>,
    waker: Waker,
    pace: Pace,
    alarm: Alarm,
    link: Option<Link>,
    /// Records that are decided and not yet written.
    out: Vec<Record>,
    block: Vec<u8>,
    now: Moment,
    sample_due_ms: u64,
    silent_since_ms: Option<u64>,
    look_at_life: bool,
    look_at_rules: bool,
    /// Time of the next look into `control/` without a report.
    control_due_ms: u64,
    /// The newest cancel request and the newest pause request for which the
    /// supervisor was rung.
    passed_on: [u32; 2],
    /// Since when requests lie there that the supervisor has not recorded.
    unheard: Option<UnseenRequests>,
    /// The newest step on neroman's machine that the job waited for; 0: none yet.
    step_asked: u32,
    /// Lock file: no other watcher can begin while it is open.
    _lock: File,
}

/// Requests of `control/` that the records of the run do not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnseenRequests {
    since_ms: u64,
    rung_ms: u64,
    /// Whether it was told.
    is_told: bool,
}

/// Both clocks, in ms.
fn now() -> Moment {
    let clocks = Clocks::now();
    Moment {
        mono_ms: clocks.mono_ns / 1_000_000,
        wall_ms: clocks.wall_ns / 1_000_000,
    }
}

/// Watches a live run until it is over.
///
/// # Errors
/// See [`WatchError`]; the launcher tries again.
pub async fn watch(
    place: WatchedStart,
    socket: Option<PathBuf>,
    cards: Option<OwnCards>,
) -> Result<WatchEnd, WatchError> {
    match Watch::begin(place, cards, false)? {
        Ok(mut watch) => {
            watch.dial(socket);
            watch.live().await
        }
        Err(done) => Ok(done),
    }
}

/// Does the work of a watcher for a run that has ended.
///
/// # Errors
/// See [`WatchError`].
pub async fn settle(place: WatchedStart) -> Result<WatchEnd, WatchError> {
    match Watch::begin(place, None, true)? {
        Ok(watch) => watch.end().await,
        Err(done) => Ok(done),
    }
}

impl Watch {
    /// Works in turns until the run is over.
    async fn live(mut self) -> Result<WatchEnd, WatchError> {
        loop {
            self.now = now();
            if self.look_at_life && self.is_over()? {
                return self.end().await;
            }
            if self.turn()? {
                tokio::task::yield_now().await;
                continue;
            }
            let wake = self.wait().await;
            self.note(wake);
        }
    }

    /// Whether the run is over, or has lacked a record of its end for too long.
    fn is_over(&mut self) -> Result<bool, WatchError> {
        let life = Life::read(&self.place.folder);
        self.life = life.map_err(|source| WatchError::Read {
            folder: self.place.folder.clone(),
            source,
        })?;
        self.look_at_life = false;
        self.facts_of_life();
        self.waker.follow(&self.place, &self.life);
        match self.life.contact() {
            Contact::Over => return Ok(true),
            Contact::Alive | Contact::Unknown => self.silent_since_ms = None,
            // No process of an adopted job is known: its end is a record of neromum.
            Contact::Silent if self.place.spec.adopted.is_some() => {}
            Contact::Silent => {
                let since = *self.silent_since_ms.get_or_insert(self.now.mono_ms);
                return Ok(self.now.mono_ms >= since + SILENT_MAX_MS);
            }
        }
        Ok(false)
    }

    fn sight(&self) -> Sight<'_> {
        Sight {
            facts: &self.facts,
            series: self.intake.series(),
            now: self.now,
        }
    }

    fn facts_of_life(&mut self) {
        self.facts.started = self.life.started();
        self.facts.ending = self.life.ending;
        let resumed = self.life.known.resumed;
        self.facts.paused_ms = resumed.map_or(0, |end| end.paused_ms);
        self.facts.resumed_ms = resumed.map_or(0, |end| end.mono_ns / 1_000_000);
        self.facts.paused_since = self.life.paused_since();
        self.facts.exited = self.life.exited.clone();
        self.facts.granted_until_ms = self.life.granted_until_ms;
        if self.life.known.time_limit_ms > 0 {
            self.facts.time_limit_ms = self.life.known.time_limit_ms;
        }
    }

    /// Time of the next turn without an event.
    fn due_ms(&self) -> u64 {
        let now_ms = self.now.mono_ms;
        if self.journal.is_stuck() || !self.asked.is_empty() {
            return now_ms + RETRY_MS;
        }
        let sight = Sight {
            facts: &self.facts,
            series: self.intake.series(),
            now: self.now,
        };
        let horizon_ms = self.sample_due_ms.saturating_sub(now_ms);
        let others = [
            (!self.acts.is_empty()).then_some(now_ms + ACTS_LOOK_MS),
            self.intake.window_due_ms(),
            self.waker.look_due_ms(now_ms),
            self.silent_since_ms.map(|_| now_ms + SILENT_LOOK_MS),
            self.unheard_due_ms(),
            self.rules.due_ms(&sight, horizon_ms),
        ];
        let first = others.into_iter().flatten().min();
        first.map_or(self.sample_due_ms, |due| due.min(self.sample_due_ms))
    }

    /// Sleeps until the next turn.
    async fn wait(&mut self) -> Wake {
        let due_ms = self.due_ms();
        let pause_ms = self.pace.pause_ms(self.now.mono_ms);
        let link = async {
            match &mut self.link {
                Some(link) => link.event().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = link => Wake::Link(event),
            wake = self.waker.wake(pause_ms, self.journal.is_stuck()) => wake,
            () = self.alarm.until(due_ms) => Wake::Time,
        }
    }

    fn note(&mut self, wake: Wake) {
        match wake {
            Wake::Changed(changes) => {
                self.pace.spend(now().mono_ms);
                self.look_at_life |= changes.life || changes.folder;
                self.look_at_rules |= changes.control;
                if changes.folder {
                    self.check_names();
                }
                if changes.files {
                    self.check_files();
                }
            }
            Wake::Ended => self.look_at_life = true,
            Wake::Time => {
                self.look_at_life |= self.silent_since_ms.is_some() || self.waker.is_blind();
                self.look_into_control_when_due();
            }
            Wake::Link(Some(LinkEvent::Up(sender))) => self.journal.send_to(Some(sender)),
            Wake::Link(Some(LinkEvent::Down)) => self.journal.send_to(None),
            Wake::Link(Some(LinkEvent::Rules)) => self.look_at_rules = true,
            Wake::Link(None) => self.link = None,
        }
    }

    /// Looks into `control/` at times: a file system that other hosts share
    /// does not report their files.
    fn look_into_control_when_due(&mut self) {
        let now_ms = now().mono_ms;
        if !self.waker.hears_control() && self.control_due_ms <= now_ms {
            self.control_due_ms = now_ms + CONTROL_LOOK_MS;
            self.look_at_rules = true;
        }
    }

    fn check_names(&mut self) {
        for tail in &mut self.tails {
            tail.check_name();
        }
    }

    /// Looks which files of metrics there are by now.
    fn check_files(&mut self) {
        self.waker.follow_files(&self.place);
        for file in &mut self.files {
            file.check();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_told_from_one_that_fails() {
        let segment = |kind: io::ErrorKind| WatchError::Segment {
            folder: PathBuf::from("/run"),
            source: kind.into(),
        };
        assert!(segment(io::ErrorKind::StorageFull).is_for_want_of_room());
        assert!(segment(io::ErrorKind::QuotaExceeded).is_for_want_of_room());
        assert!(!segment(io::ErrorKind::PermissionDenied).is_for_want_of_room());
        let lock = PlaceError::Lock {
            path: PathBuf::from("/run/watch.lock"),
            source: io::ErrorKind::StorageFull.into(),
        };
        assert!(WatchError::from(lock).is_for_want_of_room());
        let stuck = WatchError::Stuck {
            folder: PathBuf::from("/run"),
        };
        assert!(stuck.is_for_want_of_room());
    }
}
