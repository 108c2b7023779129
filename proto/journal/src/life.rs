//! The life of a start's job, folded from its records by the processes beside the job.
//!
//! A record whose payload cannot be decoded tells its kind alone: no field that comes from a payload
//! changes.

use nero_model::ProcessId;

use crate::{Clocks, JobRecord};

/// The facts that the records of a start tell about its job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobLife {
    /// The shim that claimed the start.
    pub shim: Option<ProcessId>,
    /// The job's time limit; 0: none.
    pub time_limit_ms: u64,
    /// The job's main process.
    pub job: Option<ProcessId>,
    /// The job's start.
    pub started: Option<Clocks>,
    /// The newest pause.
    pub paused: Option<Pause>,
    /// The newest end of a pause.
    pub resumed: Option<PauseEnd>,
    /// The launcher that took over last.
    pub taken_over_by: Option<ProcessId>,
    /// The job's main process, by the launcher that took over.
    pub job_taken_over: Option<ProcessId>,
    /// Whether no job was started.
    pub not_started: bool,
    /// Whether the main process ended.
    pub exited: bool,
    /// Whether no process of the job is alive.
    pub gone: bool,
    /// Whether neromum recorded that the job's end is not known.
    pub lost: bool,
}

/// A pause of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// `n` of `control/pause.<n>`.
    pub request: u32,
    /// Its beginning; of a pause that was recorded twice, the earlier one.
    pub since: Clocks,
}

/// The end of a pause. The greater request is the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PauseEnd {
    /// The request of the pause.
    pub request: u32,
    /// Time of all pauses of the job until then.
    pub paused_ms: u64,
    /// Monotonic time, in ns since boot.
    pub mono_ns: u64,
}

impl JobLife {
    /// Takes the next record, written at `at`.
    pub fn apply(&mut self, record: &JobRecord<'_>, at: Clocks) {
        match record {
            JobRecord::Claimed(claimed) => {
                if let Ok(claimed) = claimed.decode() {
                    self.shim = claimed.shim.and_then(|shim| shim.identity());
                    self.time_limit_ms = claimed.time_limit_ms;
                }
            }
            JobRecord::JobStarted(started) => {
                if let Ok(started) = started.decode() {
                    self.job = started.job.and_then(|job| job.identity());
                    self.started = Some(at);
                }
            }
            JobRecord::Paused(paused) => {
                if let Ok(paused) = paused.decode() {
                    self.pause(paused.request, at);
                }
            }
            JobRecord::Resumed(resumed) => {
                if let Ok(resumed) = resumed.decode() {
                    let end = PauseEnd {
                        request: resumed.request,
                        paused_ms: resumed.paused_ms,
                        mono_ns: at.mono_ns,
                    };
                    self.resumed = self.resumed.max(Some(end));
                }
            }
            JobRecord::TakenOver(taken) => {
                if let Ok(taken) = taken.decode() {
                    self.taken_over_by = taken.launcher.and_then(|launcher| launcher.identity());
                    let job = taken.job.and_then(|job| job.identity());
                    self.job_taken_over = job.or(self.job_taken_over);
                }
            }
            JobRecord::JobNotStarted(_) => self.not_started = true,
            JobRecord::JobExited(_) => self.exited = true,
            JobRecord::TreeGone(_) => self.gone = true,
            JobRecord::Lost(_) => self.lost = true,
            JobRecord::StopAsked(_)
            | JobRecord::SignalSent(_)
            | JobRecord::TaskOver(_)
            | JobRecord::Granted(_) => {}
        }
    }

    fn pause(&mut self, request: u32, since: Clocks) {
        let is_newer = |old: Pause| {
            request > old.request || request == old.request && since.mono_ns < old.since.mono_ns
        };
        if self.paused.is_none_or(is_newer) {
            self.paused = Some(Pause { request, since });
        }
    }

    /// The pause whose end is not recorded.
    pub fn pause_in_force(&self) -> Option<Pause> {
        let ended = self.resumed.map_or(0, |end| end.request);
        self.paused.filter(|pause| pause.request > ended)
    }

    /// Whether nothing of the job is alive, by the records.
    pub fn is_over(&self) -> bool {
        self.not_started || self.gone || self.lost
    }
}
