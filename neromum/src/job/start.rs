//! A start of a task: its record with the beat, the proof that earlier starts are
//! over, and its end.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nero_cluster::submission::{Files, News, Plan, StartId, sync_folder};
use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{TaskLeft, TaskStart};
use nero_node::lease::files::{modified, server_time, since};
use nero_node::lease::host::Hosts;
use nero_node::lease::{BEAT, Eye};
use nero_node_core::lease::{OLD_BEATS, ProcessPlace};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::args::Grant;
use crate::run::{RunError, at};

/// Number of beats for which a start waits until earlier ones are over.
const PATIENCE_BEATS: u32 = 40;
/// Interval of looks for a request to leave, and at earlier starts.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// This start of the task.
#[derive(Debug)]
pub struct Start {
    files: Files,
    id: StartId,
    eye: Eye,
    /// The scheduler's id of the task; empty when the command line gave none.
    job: String,
    beat: Duration,
    /// Told by the thread of the beat.
    leave: Arc<Notify>,
}

/// What was found out about earlier starts of the task.
#[derive(Debug, PartialEq, Eq)]
pub enum EarlierStarts {
    /// All of them are over, by these proofs.
    Over(HashMap<u32, String>),
    /// One of them may live, although it was asked to leave.
    MayLive(String),
    /// One of them lives, and belongs to another job of the same submission.
    OtherJob(String),
    /// This start has to leave before it knows.
    Untold,
}

/// An earlier start, as seen from here.
#[derive(Clone, Copy, Debug)]
struct EarlierStart {
    left: bool,
    /// Whether it belongs to another job of the scheduler. A start after a requeue
    /// has the same job.
    other_job: bool,
    place: ProcessPlace,
    beat_at: Option<SystemTime>,
    beat_age: Option<Duration>,
    beat: Duration,
}

/// The proof that a start is over; `None`: it may live.
fn proof(seen: EarlierStart) -> Option<String> {
    let still = seen.beat_age.filter(|age| *age >= seen.beat * OLD_BEATS);
    match (seen.left, seen.place, still) {
        (true, _, _) => Some("it left in order".to_owned()),
        (false, ProcessPlace::Dead, _) => Some("its process on this host is gone".to_owned()),
        // A process that is stopped and lives here may go on, and so may its jobs.
        (false, ProcessPlace::Here, _) => None,
        (false, ProcessPlace::Elsewhere, Some(age)) => {
            Some(format!("its beat stands still for {} s", age.as_secs()))
        }
        (false, ProcessPlace::Elsewhere, None) => None,
    }
}

impl Start {
    /// Makes the record of a start, and begins its beat.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn begin(files: &Files, plan: &Plan, grant: &Grant, build: &str) -> Result<Self, RunError> {
        let eye = Eye::own().map_err(at("/proc".as_ref()))?;
        let start = Self::record(files, plan, grant, build, eye)?;
        start.begin_beat()?;
        Ok(start)
    }

    /// Makes the record of a start of this process.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn record(
        files: &Files,
        plan: &Plan,
        grant: &Grant,
        build: &str,
        eye: Eye,
    ) -> Result<Self, RunError> {
        let mut record = TaskStart {
            submission: plan.submission.to_vec(),
            task: grant.task,
            start: 1,
            process: Some(eye.process.into()),
            host: eye.host.name.clone(),
            machine: eye.host.machine.clone(),
            job: grant.job.clone(),
            began_ms: nero_journal::Clocks::now().wall_ns / 1_000_000,
            build: build.to_owned(),
            cpus: grant.cpus.unwrap_or_default(),
            memory_bytes: grant.memory.unwrap_or_default(),
            beat_ms: u32::try_from(plan.beat.as_millis()).unwrap_or(u32::MAX),
        };
        let id = loop {
            let id = StartId {
                task: grant.task,
                number: record.start,
            };
            let path = files.path(News::Began(id));
            match frame::create_synced(FrameKind::TaskStart, &path, &record) {
                Ok(()) => break id,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => record.start += 1,
                Err(error) => return Err(at(&path)(error)),
            }
        };
        sync_folder(&files.starts()).map_err(at(&files.starts()))?;
        Ok(Self {
            files: files.clone(),
            id,
            eye,
            job: grant.job.clone(),
            beat: plan.beat,
            leave: Arc::new(Notify::new()),
        })
    }

    /// This start.
    pub fn id(&self) -> StartId {
        self.id
    }

    /// Name of this host.
    pub fn host(&self) -> &str {
        &self.eye.host.name
    }

    /// Returns when a later start, or the leader, asks this one to leave.
    pub async fn asked_to_leave(&self) {
        self.leave.notified().await;
    }

    /// The beat has a thread of its own, so that a disk that hangs holds up
    /// nothing else.
    fn begin_beat(&self) -> Result<(), RunError> {
        let path = self.files.path(News::Began(self.id));
        let file = File::options().write(true).open(&path).map_err(at(&path))?;
        let request = self.files.path(News::Leave(self.id));
        let (beat, leave) = (self.beat, self.leave.clone());
        let every = LOOK_EVERY.min(beat);
        let beating = std::thread::Builder::new().name("beat".to_owned());
        let beating = beating.spawn(move || {
            let mut last = std::time::Instant::now();
            let mut asked = false;
            loop {
                std::thread::sleep(every);
                if !asked && request.exists() {
                    asked = true;
                    leave.notify_one();
                }
                if last.elapsed() >= beat {
                    last = std::time::Instant::now();
                    if let Err(error) = touch(&file) {
                        tracing::error!(%error, "the beat of this start cannot be renewed");
                    }
                }
            }
        });
        beating.map(drop).map_err(at(&path))
    }

    /// Waits until every earlier start of the task is over; asks those that did
    /// not leave to do so.
    ///
    /// A submission whose answer was lost may be at the scheduler twice. The job
    /// that began first keeps the task: a start of the other one asks nobody to
    /// leave while the first one is seen to live.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn wait_for_earlier(&self) -> Result<EarlierStarts, RunError> {
        let deadline = Instant::now() + self.beat * PATIENCE_BEATS;
        let mut first_beats = HashMap::new();
        loop {
            let (mut over, mut living) = (HashMap::new(), Vec::new());
            // Numbers are taken one after the other, so that each earlier one has a record.
            for number in 1..self.id.number {
                let other = StartId { number, ..self.id };
                let seen = self.look_at(other);
                let proof = proof(seen);
                if proof.is_none() && seen.other_job {
                    let first = *first_beats.entry(other.number).or_insert(seen.beat_at);
                    if seen.place == ProcessPlace::Here || seen.beat_at > first {
                        return Ok(EarlierStarts::OtherJob(format!(
                            "the start {other} of another job of this submission does this task: nothing was started"
                        )));
                    }
                } else if !seen.left {
                    let request = News::Leave(other);
                    let asked = self.files.note(request, false);
                    asked.map_err(at(&self.files.path(request)))?;
                }
                match proof {
                    Some(why) => drop(over.insert(other.number, why)),
                    None => living.push(other.to_string()),
                }
            }
            if living.is_empty() {
                return Ok(EarlierStarts::Over(over));
            }
            if Instant::now() >= deadline {
                let living = living.join(", ");
                return Ok(EarlierStarts::MayLive(format!(
                    "held: the earlier start {living} of this task may live, and did not leave when it was asked to; \
                     nothing was started. End it at the scheduler, then start this task again"
                )));
            }
            tracing::info!(?living, "waits for earlier starts of this task");
            tokio::time::sleep(LOOK_EVERY.min(self.beat)).await;
        }
    }

    fn look_at(&self, other: StartId) -> EarlierStart {
        let path = self.files.path(News::Began(other));
        let record: Option<TaskStart> = frame::read(FrameKind::TaskStart, &path)
            .inspect_err(|error| tracing::warn!(start = %other, %error, "a start's record"))
            .ok();
        let beat = record.as_ref().map_or(0, |record| record.beat_ms);
        let place = record.as_ref().and_then(|record| {
            let process = record.process.as_ref()?.identity()?;
            let none = Hosts::default();
            let (host, machine) = (&record.host, &record.machine);
            Some(self.eye.place(&process, host, machine, &none))
        });
        let now = server_time(&self.files.starts());
        let beat_at = modified(&path);
        let age = beat_at.as_ref().ok().zip(now.ok());
        let job = record.as_ref().map_or("", |record| record.job.as_str());
        EarlierStart {
            left: self.files.path(News::Left(other)).exists(),
            other_job: !job.is_empty() && !self.job.is_empty() && job != self.job,
            place: place.unwrap_or(ProcessPlace::Elsewhere),
            // On a full disk no age is known, so nothing is old.
            beat_age: age.map(|(then, now)| since(*then, now)),
            beat_at: beat_at.ok(),
            beat: match beat {
                0 => BEAT.max(self.beat),
                given => Duration::from_millis(given.into()),
            },
        }
    }

    /// Records that this start left, and that no process of it lives.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn leave(&self, left: &TaskLeft) -> Result<(), RunError> {
        let path = self.files.path(News::Left(self.id));
        let made = frame::create_synced(FrameKind::TaskLeft, &path, left);
        made.and_then(|()| sync_folder(&self.files.starts()))
            .map_err(at(&path))
    }
}

/// Renews the time of a file, on the file server's clock.
fn touch(file: &File) -> io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    Ok(futimens(file, &times)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proof_ends_the_wait_for_an_earlier_start() {
        let beat = Duration::from_secs(15);
        let seen = |left, place, beats: Option<u32>| {
            let beat_age = beats.map(|beats| beat * beats);
            proof(EarlierStart {
                left,
                other_job: false,
                place,
                beat_at: None,
                beat_age,
                beat,
            })
            .is_some()
        };
        for beats in [None, Some(0), Some(2), Some(3), Some(1000)] {
            let still = beats.is_some_and(|beats| beats >= 3);
            for place in [
                ProcessPlace::Here,
                ProcessPlace::Dead,
                ProcessPlace::Elsewhere,
            ] {
                assert!(seen(true, place, beats));
            }
            assert!(seen(false, ProcessPlace::Dead, beats));
            assert!(
                !seen(false, ProcessPlace::Here, beats),
                "it is seen to live"
            );
            assert_eq!(
                seen(false, ProcessPlace::Elsewhere, beats),
                still,
                "{beats:?}"
            );
        }
    }
}
