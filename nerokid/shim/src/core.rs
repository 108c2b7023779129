//! Decides the next steps of a run whose job was started: a pure state machine.
//!
//! The keeper gives it each event with the time, and carries out the effects
//! that it returns. The shim and the launcher that took over use the same one.
//! It reads no clock, no file, and sends no signal.

use nero_journal::v1::{Paused, Resumed, StopAsked, StopCause};

use crate::clock::MS;
use crate::tree::SignalReport;

/// Time for which strays may outlive the job's main process.
pub const STRAYS_NS: u64 = 10_000 * MS;
/// Shortest and longest pause between two final signals to the whole tree.
const PAUSE_MIN_NS: u64 = MS;
const PAUSE_MAX_NS: u64 = 200 * MS;
/// The pause once nothing has changed for long: the remaining processes hang in
/// the kernel, and their end wakes us by itself.
const PAUSE_HUNG_NS: u64 = 5_000 * MS;
const ROUNDS_UNTIL_HUNG: u32 = 50;
/// Longest pause between two looks for processes of a paused tree that run.
const PAUSED_LOOK_NS: u64 = 5_000 * MS;
/// Time for which the final signal is repeated to processes that we may not
/// signal.
const REFUSED_NS: u64 = 2_000 * MS;

/// Settings of a run, fixed at its launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchSettings {
    /// Time from the polite signal to the final one.
    pub grace_ms: u32,
    /// Treatment of processes that outlive the main process.
    pub strays: Strays,
    /// End of the time limit; `None`: there is no limit.
    pub limit_at_ns: Option<u64>,
    /// Whether the main process is `srun`, which kills its step at once when it is asked
    /// to end: a helper sends such signals to the step.
    pub is_step: bool,
}

/// Signals that `srun` answers by killing its step; others it passes on.
const STEP_ENDS: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Treatment of processes that outlive the job's main process. A cancel request
/// or the time limit ends them in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strays {
    /// They are ended after [`STRAYS_NS`].
    End,
    /// The run goes on until they end.
    Wait,
    /// They go on, and the run ends.
    Leave,
}

impl Strays {
    /// From the two flags of messages and specs.
    pub fn new(wait: bool, leave: bool) -> Self {
        match (leave, wait) {
            (true, _) => Self::Leave,
            (false, true) => Self::Wait,
            (false, false) => Self::End,
        }
    }
}

/// A cancel request, from the control folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cancel {
    /// `n` of `cancel.<n>`.
    pub number: u32,
    /// A `StopCause`, known or not.
    pub cause: i32,
    /// 0: the run's own.
    pub grace_ms: u32,
    /// 0: SIGTERM.
    pub signal: i32,
    /// The rule that asks for it.
    pub rule: u64,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Time passed, nothing else.
    Tick,
    /// A cancel request was found.
    Cancel(Cancel),
    /// The newest pause request asks for a pause.
    Pause {
        /// `n` of `pause.<n>`.
        request: u32,
    },
    /// The newest pause request asks for the end of the pause.
    Resume {
        /// `n` of `pause.<n>`.
        request: u32,
    },
    /// The scheduler wants this start to end; the run may get another one.
    EndStart,
    /// The job's main process ended.
    LeaderEnded,
    /// Nothing of the tree is alive, the main process included.
    Empty,
    /// The final signal went through the tree.
    Swept(SignalReport),
}

/// An action to carry out. The order of effects matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Record that a stop was asked for.
    StopAsked(StopAsked),
    /// Send the signal to the whole tree, and record the number of processes
    /// that got it.
    Signal(i32),
    /// Record that the tree is paused.
    Paused(Paused),
    /// Record that the tree goes on.
    Resumed(Resumed),
    /// Stop every process of the tree.
    Stop,
    /// Let every process of the tree go on.
    Continue,
    /// Send the final signal to the whole tree and answer with `SignalReport`.
    Kill {
        /// Record the number of processes that got it.
        first: bool,
    },
    /// Record the processes that go on, then answer with `Empty`.
    Leave,
    /// Record the end of the main process.
    JobExited,
    /// Record that every process has ended, except those out of reach.
    TreeGone(SignalReport),
}

/// At most four effects follow from one input.
pub type Effects = [Option<Effect>; 4];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The main process lives.
    Running,
    /// It ended; others may live.
    Strays {
        since_ns: u64,
        until_ns: Option<u64>,
    },
    /// The run is over.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ladder {
    /// No end is asked for.
    Calm,
    /// The polite signal was sent.
    Asked { kill_at_ns: u64 },
    /// Final signals, until no process is left.
    Killing {
        since_ns: u64,
        next_at_ns: u64,
        pause_ns: u64,
        unchanged: u32,
        fingerprint: u64,
    },
}

/// A pause in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    request: u32,
    since_ns: u64,
    /// A process may have been forked while the tree was being stopped.
    next_at_ns: u64,
    look_ns: u64,
}

impl Pause {
    fn new(request: u32, now_ns: u64) -> Self {
        Self {
            request,
            since_ns: now_ns,
            next_at_ns: now_ns + PAUSE_MIN_NS,
            look_ns: PAUSE_MIN_NS,
        }
    }
}

/// The state of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    plan: LaunchSettings,
    stage: Stage,
    ladder: Ladder,
    pause: Option<Pause>,
    /// Time of the pauses that are over.
    paused_ns: u64,
    limit_used: bool,
    for_strays: bool,
}

impl Core {
    /// The job has been started.
    pub fn new(plan: LaunchSettings) -> Self {
        Self {
            plan,
            stage: Stage::Running,
            ladder: Ladder::Calm,
            pause: None,
            paused_ns: 0,
            limit_used: false,
            for_strays: false,
        }
    }

    /// Takes over the time that the job was paused under a predecessor, and the
    /// request of a pause that is in force.
    pub fn paused_before(&mut self, paused_ns: u64, request: Option<u32>, now_ns: u64) {
        self.paused_ns = paused_ns;
        self.pause = request.map(|request| Pause::new(request, now_ns));
    }

    /// The time for which the job has been paused so far.
    pub fn paused_ns(&self, now_ns: u64) -> u64 {
        let present = self
            .pause
            .map_or(0, |pause| now_ns.saturating_sub(pause.since_ns));
        self.paused_ns + present
    }

    /// A run whose main process had ended, with its record written, before this
    /// process took over.
    pub fn after_exit(plan: LaunchSettings, now_ns: u64) -> Self {
        let mut core = Self::new(plan);
        core.begin_strays(now_ns);
        core
    }

    /// A run without anything left to do.
    pub fn over() -> Self {
        let mut core = Self::new(LaunchSettings {
            grace_ms: 0,
            strays: Strays::End,
            limit_at_ns: None,
            is_step: false,
        });
        core.stage = Stage::Gone;
        core
    }

    /// The settings fixed at the launch.
    pub fn plan(&self) -> LaunchSettings {
        self.plan
    }

    /// Continues a stop of a predecessor that is dead: it had recorded the stop
    /// and sent the polite signal.
    pub fn stop_under_way(&mut self, kill_at_ns: u64) {
        self.ladder = Ladder::Asked { kill_at_ns };
    }

    /// Whether the run is over.
    pub fn is_gone(&self) -> bool {
        self.stage == Stage::Gone
    }

    /// Whether the main process is known to have ended.
    pub fn leader_ended(&self) -> bool {
        !matches!(self.stage, Stage::Running)
    }

    /// For how long processes have outlived the main one; none before it ended.
    pub fn strays_ns(&self, now_ns: u64) -> Option<u64> {
        match self.stage {
            Stage::Strays { since_ns, .. } => Some(now_ns.saturating_sub(since_ns)),
            Stage::Running | Stage::Gone => None,
        }
    }

    /// Whether signals are sent because processes outlived the main one.
    pub fn ends_strays(&self) -> bool {
        self.for_strays
    }

    /// Whether a process that ends now counts as a stray that we killed.
    pub fn kills_strays(&self, by_sigkill: bool) -> bool {
        match (self.stage, self.ladder) {
            (Stage::Running | Stage::Gone, _) | (Stage::Strays { .. }, Ladder::Calm) => false,
            (Stage::Strays { .. }, Ladder::Asked { .. }) => self.for_strays,
            (Stage::Strays { .. }, Ladder::Killing { .. }) => self.for_strays || by_sigkill,
        }
    }

    /// Time for the next `Tick` if no event comes before; `None`: no tick is
    /// needed.
    pub fn wake_at_ns(&self) -> Option<u64> {
        match (self.stage, self.ladder) {
            (Stage::Gone, _) => None,
            (_, Ladder::Asked { kill_at_ns }) => Some(kill_at_ns),
            (_, Ladder::Killing { next_at_ns, .. }) => Some(next_at_ns),
            (_, Ladder::Calm) if self.pause.is_some() => self.pause.map(|pause| pause.next_at_ns),
            (Stage::Running, Ladder::Calm) => self.limit(),
            (Stage::Strays { until_ns, .. }, Ladder::Calm) => match (until_ns, self.limit()) {
                (Some(until), Some(limit)) => Some(until.min(limit)),
                (one, other) => one.or(other),
            },
        }
    }

    fn limit(&self) -> Option<u64> {
        let limit = self.plan.limit_at_ns.filter(|_| !self.limit_used);
        limit.map(|limit| limit.saturating_add(self.paused_ns))
    }

    /// Moves to the next state and returns the effects.
    pub fn step(&mut self, input: Input, now_ns: u64) -> Effects {
        if self.stage == Stage::Gone {
            return [None; 4];
        }
        match input {
            Input::Tick => self.tick(now_ns),
            Input::Cancel(cancel) => self.cancel(cancel, now_ns),
            Input::Pause { request } => self.pause(request, now_ns),
            Input::Resume { request } => self.resume(request, now_ns),
            Input::EndStart => self.ask(self.stop_for(StopCause::Warden), now_ns),
            Input::LeaderEnded => match self.stage {
                Stage::Running => {
                    self.begin_strays(now_ns);
                    [Some(Effect::JobExited), None, None, None]
                }
                Stage::Strays { .. } | Stage::Gone => [None; 4],
            },
            Input::Empty => match self.stage {
                // The core must see the end of the main process first.
                Stage::Running | Stage::Gone => [None; 4],
                Stage::Strays { .. } => self.gone(SignalReport::default()),
            },
            Input::Swept(swept) => self.swept(swept, now_ns),
        }
    }

    /// A tree that is being ended is not stopped: it could not act on its signal.
    fn pause(&mut self, request: u32, now_ns: u64) -> Effects {
        if self.pause.is_some() || self.ladder != Ladder::Calm {
            return [None; 4];
        }
        self.pause = Some(Pause::new(request, now_ns));
        let record = Effect::Paused(Paused { request });
        [Some(record), Some(Effect::Stop), None, None]
    }

    fn resume(&mut self, request: u32, now_ns: u64) -> Effects {
        if self.ladder != Ladder::Calm {
            return [None; 4];
        }
        let record = self.end_pause(Some(request), now_ns);
        // A predecessor may have died when it had recorded the end of the pause.
        [record, Some(Effect::Continue), None, None]
    }

    /// Ends a pause; returns the record of that. A stop ends it without a request.
    fn end_pause(&mut self, request: Option<u32>, now_ns: u64) -> Option<Effect> {
        let pause = self.pause.take()?;
        let present_ns = now_ns.saturating_sub(pause.since_ns);
        self.paused_ns += present_ns;
        if let Stage::Strays {
            until_ns: Some(until_ns),
            ..
        } = &mut self.stage
        {
            *until_ns += present_ns;
        }
        Some(Effect::Resumed(Resumed {
            request: request.unwrap_or(pause.request),
            paused_ms: self.paused_ns / MS,
        }))
    }

    /// Stops what runs of a paused tree once more.
    fn paused_tick(&mut self, now_ns: u64) -> Effects {
        let Some(pause) = self
            .pause
            .as_mut()
            .filter(|pause| pause.next_at_ns <= now_ns)
        else {
            return [None; 4];
        };
        pause.look_ns = (pause.look_ns * 2).min(PAUSED_LOOK_NS);
        pause.next_at_ns = now_ns + pause.look_ns;
        [Some(Effect::Stop), None, None, None]
    }

    fn begin_strays(&mut self, now_ns: u64) {
        let until_ns = match self.plan.strays {
            Strays::End => Some(now_ns + STRAYS_NS),
            Strays::Wait => None,
            Strays::Leave => Some(now_ns),
        };
        self.stage = Stage::Strays {
            since_ns: now_ns,
            until_ns,
        };
    }

    fn tick(&mut self, now_ns: u64) -> Effects {
        match self.ladder {
            Ladder::Asked { kill_at_ns } if kill_at_ns <= now_ns => self.kill(now_ns),
            Ladder::Killing { next_at_ns, .. } if next_at_ns <= now_ns => {
                [Some(Effect::Kill { first: false }), None, None, None]
            }
            Ladder::Asked { .. } | Ladder::Killing { .. } => [None; 4],
            Ladder::Calm if self.pause.is_some() => self.paused_tick(now_ns),
            Ladder::Calm => self.calm_tick(now_ns),
        }
    }

    fn calm_tick(&mut self, now_ns: u64) -> Effects {
        if self.limit().is_some_and(|limit| limit <= now_ns) {
            self.limit_used = true;
            return self.ask(self.stop_for(StopCause::TimeLimit), now_ns);
        }
        match self.stage {
            Stage::Strays {
                until_ns: Some(until),
                ..
            } if until <= now_ns => {
                if self.plan.strays == Strays::Leave {
                    return [Some(Effect::Leave), None, None, None];
                }
                self.for_strays = true;
                self.ladder = Ladder::Asked {
                    kill_at_ns: now_ns + u64::from(self.plan.grace_ms) * MS,
                };
                [Some(Effect::Signal(libc::SIGTERM)), None, None, None]
            }
            Stage::Strays { .. } | Stage::Running | Stage::Gone => [None; 4],
        }
    }

    fn cancel(&mut self, cancel: Cancel, now_ns: u64) -> Effects {
        let asked = StopAsked {
            cause: cancel.cause,
            cancel: cancel.number,
            grace_ms: match cancel.grace_ms {
                0 => self.plan.grace_ms,
                own => own,
            },
            signal: match cancel.signal {
                signal @ 1..=64 => signal,
                _ => libc::SIGTERM,
            },
            rule: cancel.rule,
        };
        self.ask(asked, now_ns)
    }

    /// A stop without a request in the control folder.
    fn stop_for(&self, cause: StopCause) -> StopAsked {
        StopAsked {
            cause: cause as i32,
            cancel: 0,
            grace_ms: self.plan.grace_ms,
            signal: libc::SIGTERM,
            rule: 0,
        }
    }

    fn ask(&mut self, asked: StopAsked, now_ns: u64) -> Effects {
        let record = Some(Effect::StopAsked(asked));
        if matches!(self.ladder, Ladder::Killing { .. }) {
            return [record, None, None, None];
        }
        let resumed = self.end_pause(None, now_ns);
        if asked.signal == libc::SIGKILL {
            let [kill, ..] = self.kill(now_ns);
            return [resumed, record, kill, None];
        }
        let mut kill_at_ns = now_ns + u64::from(asked.grace_ms) * MS;
        if let Ladder::Asked { kill_at_ns: sooner } = self.ladder {
            kill_at_ns = kill_at_ns.min(sooner);
        }
        self.ladder = Ladder::Asked { kill_at_ns };
        let is_steps = self.plan.is_step && STEP_ENDS.contains(&asked.signal);
        if is_steps && self.stage == Stage::Running {
            return [resumed, record, resumed.map(|_| Effect::Continue), None];
        }
        // The signal goes with SIGCONT, so that a stopped process can act on it.
        [resumed, record, Some(Effect::Signal(asked.signal)), None]
    }

    fn kill(&mut self, now_ns: u64) -> Effects {
        self.ladder = Ladder::Killing {
            since_ns: now_ns,
            next_at_ns: now_ns + PAUSE_MIN_NS,
            pause_ns: PAUSE_MIN_NS,
            unchanged: 0,
            fingerprint: 0,
        };
        [Some(Effect::Kill { first: true }), None, None, None]
    }

    fn swept(&mut self, swept: SignalReport, now_ns: u64) -> Effects {
        let Ladder::Killing {
            since_ns,
            next_at_ns,
            pause_ns,
            unchanged,
            fingerprint,
        } = &mut self.ladder
        else {
            return [None; 4];
        };
        if swept.fingerprint == *fingerprint {
            *unchanged += 1;
            *pause_ns = if *unchanged > ROUNDS_UNTIL_HUNG {
                PAUSE_HUNG_NS
            } else {
                (*pause_ns * 2).min(PAUSE_MAX_NS)
            };
        } else {
            // New processes: something forks, and must be outrun.
            *unchanged = 0;
            *fingerprint = swept.fingerprint;
            *pause_ns = PAUSE_MIN_NS;
        }
        *next_at_ns = now_ns + *pause_ns;
        let hopeless = swept.alive > 0 && swept.refused == swept.alive;
        if hopeless && now_ns >= *since_ns + REFUSED_NS {
            return self.gone(swept);
        }
        [None; 4]
    }

    fn gone(&mut self, left: SignalReport) -> Effects {
        self.stage = Stage::Gone;
        [Some(Effect::TreeGone(left)), None, None, None]
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
