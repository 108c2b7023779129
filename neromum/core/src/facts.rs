//! Facts from the segments of one incarnation, folded record by record. Only
//! facts that neromum decides by are kept; all other records pass through to
//! neroman.

use nero_model::ProcessId;

/// One record that matters here, as its own type: `core` knows no wire types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A shim holds the claim.
    Claimed {
        /// Identity of the shim; `None` when the record names no process.
        shim: Option<ProcessId>,
        /// The launcher that forked it.
        launcher: Option<ProcessId>,
    },
    /// The job exists.
    JobStarted {
        /// The job's process.
        job: Option<ProcessId>,
        /// When, by the boot clock.
        at_ms: u64,
    },
    /// The job passed its gate; its own record comes before that.
    GatePassed,
    /// The gate closed before any user code ran: it is to be started again.
    GateClosed,
    /// The job could not be executed, or a cancel came first.
    NotStarted,
    /// A stop was asked for.
    StopAsked {
        /// Whether the scheduler wanted it, which ends this start and not the
        /// run.
        by_scheduler: bool,
    },
    /// The job's main process ended.
    LeaderEnded {
        /// Whether its exit code is lost.
        code_unknown: bool,
    },
    /// No process of the run is alive.
    Gone {
        /// Bytes that the job printed, on both streams.
        output_bytes: u64,
    },
    /// The launcher took over.
    TakenOver {
        /// Whether the exit code can still be known.
        is_parent: bool,
        /// The job as the launcher knows it.
        job: Option<ProcessId>,
        /// The launcher that took over.
        launcher: Option<ProcessId>,
    },
    /// A watcher began.
    WatchStarted {
        /// Identity of the watcher.
        watcher: Option<ProcessId>,
    },
    /// A watcher left; `complete` when it read everything.
    WatchEnded {
        /// Whether the run was over and every byte was read.
        complete: bool,
    },
    /// neromum recorded a loss, which no other process could.
    Lost,
}

/// Everything known of one incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The claim exists.
    pub claimed: bool,
    /// Boot id in the claim's header.
    pub boot_id: Option<[u8; 16]>,
    /// The shim.
    pub shim: Option<ProcessId>,
    /// The launcher that forked it.
    pub launcher: Option<ProcessId>,
    /// The job's main process.
    pub job: Option<ProcessId>,
    /// The job exists (or existed), named or not.
    pub started: bool,
    /// When, by the boot clock.
    pub started_ms: Option<u64>,
    /// See [`Fact::GatePassed`].
    pub gate_passed: bool,
    /// See [`Fact::GateClosed`].
    pub gate_closed: bool,
    /// See [`Fact::NotStarted`].
    pub not_started: bool,
    /// Whether a stop was asked for while the job ran.
    pub stop_asked: bool,
    /// Whether the first such stop was the scheduler's.
    pub stopped_by_scheduler: bool,
    /// See [`Fact::LeaderEnded`].
    pub leader_ended: bool,
    /// Whether the exit code is lost.
    pub code_unknown: bool,
    /// See [`Fact::Gone`].
    pub gone: bool,
    /// Bytes printed, once known.
    pub output_bytes: u64,
    /// A launcher looks after the job, and whether as its parent.
    pub taken_over: Option<bool>,
    /// The launcher that took over last.
    pub taker: Option<ProcessId>,
    /// The last watcher that began.
    pub watcher: Option<ProcessId>,
    /// A watcher began at least once.
    pub watched: bool,
    /// A watcher read everything.
    pub watch_complete: bool,
    /// See [`Fact::Lost`].
    pub lost: bool,
}

impl Facts {
    /// Takes one record in.
    pub fn fold(&mut self, fact: Fact) {
        match fact {
            Fact::Claimed { shim, launcher } => {
                self.shim = shim;
                self.launcher = launcher;
            }
            Fact::JobStarted { job, at_ms } => {
                self.started = true;
                self.started_ms = Some(at_ms);
                self.job = job;
            }
            Fact::GatePassed => self.gate_passed = true,
            Fact::GateClosed => self.gate_closed = true,
            Fact::NotStarted => self.not_started = true,
            Fact::StopAsked { by_scheduler } => {
                if !self.stop_asked && !self.leader_ended {
                    self.stop_asked = true;
                    self.stopped_by_scheduler = by_scheduler;
                }
            }
            Fact::LeaderEnded { code_unknown } => {
                self.leader_ended = true;
                self.code_unknown = code_unknown;
            }
            Fact::Gone { output_bytes } => {
                self.gone = true;
                self.output_bytes = output_bytes;
            }
            Fact::TakenOver {
                is_parent,
                job,
                launcher,
            } => {
                self.taken_over = Some(is_parent);
                self.taker = launcher;
                self.job = self.job.or(job);
            }
            Fact::WatchStarted { watcher } => {
                self.watched = true;
                self.watcher = watcher;
            }
            Fact::WatchEnded { complete } => {
                self.watch_complete |= complete;
                self.watcher = None;
            }
            Fact::Lost => self.lost = true,
        }
    }

    /// Whether the record of the job existed and does no longer: the claim was
    /// cut, or its end is zeros.
    pub fn lacks_its_job(&self) -> bool {
        self.gate_passed && !self.started && !self.ended()
    }

    /// Whether the start was claimed and its end is not recorded.
    pub fn goes_on(&self) -> bool {
        self.claimed && !self.ended()
    }

    /// Whether a start that ended tells nothing about the run: the scheduler
    /// wanted its end, or its exit code is lost.
    pub fn may_go_on(&self) -> bool {
        let tells_nothing = self.stopped_by_scheduler || self.code_unknown || self.lost;
        !self.not_started && !self.exited_by_itself() && tells_nothing
    }

    /// Whether the main process ended with a code that is known, and not because
    /// the scheduler wanted it: what the run was to do is done.
    pub fn exited_by_itself(&self) -> bool {
        self.leader_ended && !self.code_unknown && !self.stopped_by_scheduler
    }

    /// Whether no further record of the run's life can come.
    pub fn ended(&self) -> bool {
        self.not_started || self.lost || (self.gone && !self.gate_closed)
    }
}
