//! Carries out the core's effects, in order.

use nero_journal::gate::{self, Gate};
use nero_journal::v1::{JobNotStarted, Lost, job_not_started, lost, to_launcher};
use nero_journal::{Clocks, RecordMessage};
use nero_model::RunToken;
use nero_model::paths::run::{self as names, ContainerVerb};
use nero_node_core::decide::TrackingState;
use nero_node_core::facts::Fact;
use nero_node_core::{Effect, Stage};

use super::{Agent, Driver, WorkResult};
use crate::config;
use crate::files::made;
use crate::launch::orders::Start;
use crate::runs::{own, segments, spec};
use crate::staging::{self, PrepareError};

/// How often the removal of a container is tried, and the pause between two tries.
const REMOVALS: u32 = 120;
/// See [`REMOVALS`].
const REMOVAL_PAUSE: std::time::Duration = std::time::Duration::from_secs(5);

impl<D: Driver> Agent<D> {
    /// Starts runs that fit, unless the reserve of free disk is touched. Runs
    /// that do not fit get the reason why they wait.
    pub(super) fn start_what_fits(&mut self) {
        let can_start = D::STARTS_HERE && !self.ending && self.launchers.ready();
        if !can_start || self.core.held().is_some() {
            return;
        }
        let now_ms = Clocks::now().mono_ns / 1_000_000;
        if self.core.wants_to_start(now_ms)
            && let Some((why, pause)) = self.must_wait()
        {
            self.core.hold(&why);
            self.timers.starts = Some(tokio::time::Instant::now() + pause);
            return;
        }
        self.core.schedule(now_ms);
    }

    /// Reason why nothing may start now, and the pause until the next look.
    pub fn must_wait(&self) -> Option<(String, std::time::Duration)> {
        if let Some(why) = self.disk_full() {
            return Some((why, config::HOLD_RETRY));
        }
        let lease = self.setup.lease.as_ref();
        let why = lease.and_then(|held| held.must_wait())?;
        Some((why, config::LEADER_RETRY))
    }

    fn disk_full(&self) -> Option<String> {
        let found = rustix::fs::statvfs(self.setup.paths.deployment()).ok()?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        (free < self.setup.min_free).then(|| {
            format!(
                "disk full: {} MB are free, {} MB are kept back",
                free / 1_000_000,
                self.setup.min_free / 1_000_000
            )
        })
    }

    /// Reason why nothing starts, including a silent launcher.
    pub(super) fn hold_shown(&self) -> String {
        match self.core.held() {
            Some(why) => why.to_owned(),
            None => self.launchers.trouble().to_owned(),
        }
    }

    /// Carries out effects until none is left; an effect may cause further ones.
    pub fn carry_out(&mut self) {
        loop {
            let effects = self.core.take_effects();
            if effects.is_empty() {
                return;
            }
            let mut vanished = Vec::new();
            for effect in effects {
                match effect {
                    Effect::Vanished { token } => vanished.push(token),
                    effect => self.effect(effect),
                }
            }
            D::vanished(self, &vanished);
            self.start_what_fits();
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Prepare { token, incarnation } => self.prepare(token, incarnation),
            Effect::PrepareLater {
                token,
                incarnation,
                vain,
            } => {
                let doublings = vain.min(16);
                let pause = config::VAIN_RETRY_MAX.min(config::VAIN_RETRY * 2u32.pow(doublings));
                tracing::warn!(token = %token, vain, "a run's shims die before they start its job");
                let at = tokio::time::Instant::now() + pause;
                self.timers.prepare.push((at, token, incarnation));
            }
            Effect::SayCancelled { token, incarnation } => {
                let record = JobNotStarted {
                    stage: job_not_started::Stage::Cancelled.into(),
                    errno: 0,
                    ..JobNotStarted::default()
                };
                self.say(token, incarnation, &record);
            }
            // The launch was built with the folder and sent there, see
            // `prepared`.
            Effect::Launch { .. } => {}
            Effect::Guard { token, incarnation } => self.guard(token, incarnation),
            Effect::SayGateClosed { token, incarnation } => {
                self.say_gate_closed(token, incarnation);
            }
            Effect::SayLost {
                token,
                incarnation,
                rebooted,
            } => self.say_lost(token, incarnation, rebooted),
            Effect::KeepEnd { token, .. } => self.ended(token),
            Effect::TakeAway { token } => self.take_away(token),
            Effect::Report { token } => {
                self.wake_waiters(token);
                self.report(token);
            }
            Effect::HoldStarts { why } => self.hold_starts(&why),
            Effect::Vanished { token } => D::vanished(self, &[token]),
            Effect::SayTaskOver { token, incarnation } => D::task_is_over(self, token, incarnation),
        }
    }

    /// Starts nothing for a while, for this reason.
    pub fn hold_starts(&mut self, why: &str) {
        let pause = self
            .timers
            .vain_pause
            .map_or(config::VAIN_RETRY, |pause| pause * 2)
            .min(config::HOLD_RETRY);
        self.timers.vain_pause = Some(pause);
        self.timers.starts = Some(tokio::time::Instant::now() + pause);
        self.core.hold(why);
    }

    /// Builds a run's folder: at once when that is little work, else off the
    /// reactor.
    pub(super) fn prepare(&mut self, token: RunToken, incarnation: u32) {
        let Some(entry) = self.entries.get(&token) else {
            return;
        };
        let id = entry.id;
        let setup = self.setup.clone();
        let spec = match spec::read(&setup.paths, id, token) {
            Ok(spec) => spec,
            Err(error) => {
                let holds = !error.may_pass && setup.paths.run(id).exists();
                if holds {
                    self.set_unreadable(token, 0, vec![error.file]);
                    self.core.hold_run(token, incarnation - 1);
                    self.timers.look_later(token, 1, TrackingState::Nobody);
                } else {
                    self.core
                        .not_prepared(token, &error.file.to_string(), error.may_pass);
                }
                return;
            }
        };
        if staging::is_quick(&setup.orders.store, &spec, incarnation) {
            let start = setup.orders.launch(id, token, &spec, incarnation);
            self.prepared(token, incarnation, start);
            return;
        }
        let lost = PrepareError::Io {
            path: staging::work_folder(&setup.paths.run(id), incarnation),
            source: std::io::Error::other("its thread panicked; please report it"),
        };
        self.off_reactor(
            WorkResult::Prepared(token, incarnation, Err(lost)),
            move || {
                let start = setup.orders.launch(id, token, &spec, incarnation);
                WorkResult::Prepared(token, incarnation, start)
            },
        );
    }

    pub(super) fn prepared(
        &mut self,
        token: RunToken,
        incarnation: u32,
        start: Result<Box<Start>, PrepareError>,
    ) {
        let mut start = match start {
            Ok(start) => start,
            Err(error) => {
                let (why, again) = (error.in_full(), error.may_pass());
                tracing::warn!(token = %token, why, again, "a run's folder cannot be built");
                if error.is_lacking() && self.give_back(token, &why) {
                    return;
                }
                self.core.not_prepared(token, &why, again);
                return;
            }
        };
        if self.ending || !self.launchers.ready() {
            let why = if self.ending {
                "the scheduler ends the allocation"
            } else {
                "the launcher does not answer"
            };
            self.core.not_launched(token, why);
            return;
        }
        if !D::may_launch(self, token, incarnation) {
            return;
        }
        D::give_cards(self, token, &mut start.launch.env);
        if !self.give_own_cards(token, incarnation, &mut start.launch) {
            return;
        }
        if let Some(contained) = start.contained.take() {
            let cards = self.visible_cards(token, &start.launch);
            let shim = self.setup.orders.shim();
            let finished = contained.finish(&mut start.launch, &shim, &cards);
            if let Err(error) = finished {
                self.core
                    .not_prepared(token, &error.in_full(), error.may_pass());
                return;
            }
        }
        let is_helped = D::note_granted(self, token, incarnation);
        start.launch.is_step &= is_helped;
        self.core.prepared(token, incarnation);
        let launched = Stage::Starting {
            incarnation,
            launched: true,
        };
        if self
            .core
            .run(&token)
            .is_none_or(|run| run.stage != launched)
        {
            return;
        }
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        entry.begin(incarnation);
        entry.helpers = Some((incarnation, is_helped));
        entry.launched = Some(tokio::time::Instant::now());
        entry.rules |= start.rules;
        entry.code = start.code;
        entry.tracked = self.launchers.own_link();
        self.launchers
            .send_own(to_launcher::Message::Launch(start.launch));
    }

    fn guard(&mut self, token: RunToken, incarnation: u32) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        if !self.launchers.ready() {
            // Asked again as soon as the launcher answers.
            return;
        }
        let spec = spec::read(&self.setup.paths, entry.id, token).unwrap_or_default();
        let orders = &self.setup.orders;
        let mut guard = orders.guard(entry.id, token, &spec, incarnation, &entry.facts);
        // Without a helper nobody else sends the signal.
        guard.is_step &= entry.helpers == Some((incarnation, true));
        if let (Some(cards), Some(run)) = (&self.setup.cards, self.core.run(&token)) {
            guard.cards = cards.locks(&run.shares);
            guard.watcher.extend(cards.watcher_options(&run.shares));
        }
        entry.tracked = self.launchers.own_link();
        tracing::info!(run = %entry.id, incarnation, "guarding a run that goes on");
        self.launchers.send_own(to_launcher::Message::Guard(guard));
    }

    /// Closes the gate and records that. A job that passed the gate has written
    /// its record before, so the run is looked at anew; a claim that still lacks
    /// the record is damaged.
    fn say_gate_closed(&mut self, token: RunToken, incarnation: u32) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        let run_dir = self.setup.paths.run(entry.id);
        let claim = entry
            .segments
            .iter()
            .find(|seg| seg.incarnation == incarnation && *seg.name == *names::CLAIM);
        let gate = claim.map_or(Ok(Gate::Passed), |claim| {
            gate::close(
                &segments::folder(&run_dir, incarnation),
                nero_journal::SegmentId(claim.id),
            )
        });
        match gate {
            Ok(Gate::Closed) => {
                let record = JobNotStarted {
                    stage: job_not_started::Stage::Gate.into(),
                    errno: 0,
                    ..JobNotStarted::default()
                };
                self.say(token, incarnation, &record);
            }
            Ok(Gate::Passed) => {
                tracing::warn!(run = %entry.id, incarnation, "a start without supervisors passed its gate");
                entry.facts.fold(Fact::GatePassed);
                self.look_and_decide(token, incarnation);
            }
            Err(error) => {
                tracing::error!(run = %entry.id, %error, "cannot close the gate of a start");
                self.timers
                    .look_later(token, incarnation, TrackingState::Nobody);
            }
        }
    }

    fn say_lost(&mut self, token: RunToken, incarnation: u32, rebooted: bool) {
        let reason = if rebooted {
            lost::Reason::Rebooted
        } else {
            lost::Reason::CodeUnknown
        };
        let record = Lost {
            reason: reason.into(),
            detail: String::new(),
        };
        self.say(token, incarnation, &record);
        self.remove_container(token, incarnation);
    }

    /// Has the container of a start removed whose processes are all gone, and with them what
    /// would have removed it: after a restart of the machine its name is still taken. Tried again
    /// for a while, since the runtime's daemon may be started later than we are.
    pub(super) fn remove_container(&self, token: RunToken, incarnation: u32) {
        let Some(entry) = self.entries.get(&token) else {
            return;
        };
        let run_dir = self.run_dir(entry.id);
        if !names::container(&run_dir, incarnation).exists() {
            return;
        }
        let mut removing = tokio::process::Command::new(self.setup.orders.shim());
        removing
            .arg("container")
            .arg(&run_dir)
            .arg(incarnation.to_string())
            .arg(ContainerVerb::Close.as_str())
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let run = entry.id;
        #[expect(clippy::disallowed_methods, reason = "nothing depends on its outcome")]
        tokio::spawn(async move {
            for _ in 0..REMOVALS {
                if removing.status().await.is_ok_and(|ended| ended.success()) {
                    return;
                }
                tokio::time::sleep(REMOVAL_PAUSE).await;
            }
            tracing::warn!(%run, "the container of a lost run is not removed");
        });
    }

    /// Appends a record to a segment of our own, then looks at the run anew.
    pub fn say<M: RecordMessage>(&mut self, token: RunToken, incarnation: u32, record: &M) {
        let Some(entry) = self.entries.get(&token) else {
            return;
        };
        let run_dir = self.run_dir(entry.id);
        match own::write(&run_dir, token, incarnation, record) {
            Ok(()) => {
                tracing::info!(run = %entry.id, incarnation, kind = M::KIND.as_str_name(), "said what nobody else could");
                self.look_and_decide(token, incarnation);
            }
            Err(error) => {
                tracing::error!(run = %entry.id, %error, "cannot write a segment of our own");
                self.timers
                    .look_later(token, incarnation, TrackingState::Nobody);
            }
        }
    }

    /// Records in the ledger that the run will not start. A shim that an earlier
    /// neromum launched finds a cancel request.
    fn take_away(&mut self, token: RunToken) {
        let by = self.core.run(&token).map_or("", |run| &run.why);
        if let Err(error) = self.ledger.taken_away(token, by) {
            tracing::error!(?error, "the ledger does not take a cancel");
        }
        let Some(entry) = self.entries.get(&token) else {
            return;
        };
        let run_dir = self.run_dir(entry.id);
        if entry.cancels == 0 && segments::folder(&run_dir, 1).exists() {
            // A failure was logged, and the ledger has the cancel.
            let _ = self.write_cancel(token, &super::calls::Cancel::default());
        }
    }

    /// Answers the callers that wait for this stage of the run.
    pub(super) fn wake_waiters(&mut self, token: RunToken) {
        let (Some(entry), Some(run)) = (self.entries.get_mut(&token), self.core.run(&token)) else {
            return;
        };
        for (until, waiter) in std::mem::take(&mut entry.waiters) {
            if until.is_reached(&run.stage) {
                // The caller may have left.
                let _ = waiter.send(());
            } else {
                entry.waiters.push((until, waiter));
            }
        }
    }

    /// The run ended: frees its slot and copies its end into the ledger.
    fn ended(&mut self, token: RunToken) {
        self.timers.vain_pause = None;
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.tracked = None;
            if let Some(code) = entry.code.take() {
                let paths = &self.setup.paths;
                let run_dir = paths.run(entry.id);
                let work = staging::work_folder(&run_dir, entry.incarnation);
                entry.made_nothing = made::is_nothing_made(paths, &run_dir, &work, code);
            }
        }
        self.keep_end(token);
        self.see_to_output(token);
    }
}
