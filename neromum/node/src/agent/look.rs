//! Looking at a run: the agent reads its segments, then the core decides.

use std::path::PathBuf;

use nero_journal::v1::Notice;
use nero_model::paths::run as names;
use nero_model::process::{Life, Stat};
use nero_model::{ProcessId, RunToken};
use nero_node_core::Stage;
use nero_node_core::decide::{self, Decision, ProcessLives, TrackingState, decide};
use nero_node_core::facts::Facts;

use tokio::time::Instant;

use super::{Agent, Driver, Entry};
use crate::config;
use crate::lease;
use crate::runs::segments;
use crate::runs::unreadable::{FileFault, Unreadable};

impl<D: Driver> Agent<D> {
    /// Reads what was appended to the segments of a start, and does what follows from it.
    pub fn look_and_decide(&mut self, token: RunToken, incarnation: u32) {
        let tracked = self
            .entries
            .get(&token)
            .is_some_and(|entry| entry.tracked.is_some());
        let tracking = if tracked {
            TrackingState::Tracked
        } else {
            TrackingState::Nobody
        };
        self.look_and_decide_as(token, incarnation, tracking);
    }

    /// Reads a run's segments and decides; looks again later when they cannot be
    /// read.
    pub(super) fn look_and_decide_as(
        &mut self,
        token: RunToken,
        incarnation: u32,
        tracking: TrackingState,
    ) {
        if self.waits_for_its_spec(token) {
            return;
        }
        if self.lacks_its_spec(token) {
            self.read_spec_again(token);
        }
        let lives = self.look_at_processes(token, incarnation, tracking);
        // Looks first whether a person gave the run up: then nothing of it can be read.
        if self.was_given_up(token) {
            self.folder_gone(token);
            return;
        }
        let Some(lives) = lives else {
            self.cannot_decide(token, incarnation, tracking);
            return;
        };
        let Some(entry) = self.entries.get(&token) else {
            return;
        };
        let (origin, host) = self.origin(&token, entry);
        let host = host.filter(|_| entry.facts.claimed);
        let decision = decide(&entry.facts, lives, tracking, origin);
        let taken_over = entry.facts.taken_over == Some(false);
        let may_go_on = entry.facts.may_go_on();
        let given_up = origin == decide::Origin::Earlier
            && decision == Decision::LaunchNext
            && !entry.facts.gate_closed;
        let incarnation = entry.incarnation.max(1);
        // Without launchers, only proofs on disk count; the rest is decided when
        // the launchers have answered.
        let proven = matches!(origin, decide::Origin::Task(_))
            || matches!(
                decision,
                Decision::Ended | Decision::SayRebooted | Decision::Elsewhere
            );
        if tracking == TrackingState::Nobody && !self.launchers.ready() && !proven {
            return;
        }
        self.is_elsewhere(token, host);
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.at_scheduler = matches!(origin, decide::Origin::Task(_));
        }
        if decision == Decision::SayRebooted && !self.damaged_ledger.is_empty() {
            // The damaged part may hold an end that the power cut took from here.
            self.set_unreadable(token, 0, self.damaged_ledger.clone());
            self.core.hold_run(token, incarnation);
            return;
        }
        if given_up {
            D::note_given_up(self, token, incarnation);
        }
        let is_over =
            decision == Decision::Ended && origin == decide::Origin::Task(decide::TaskWord::Over);
        if is_over && !D::ends(self, token, incarnation, may_go_on) {
            return;
        }
        if matches!(decision, Decision::Follow | Decision::Guard) {
            D::goes_on(self, token, incarnation);
        }
        self.core.found(token, incarnation, decision);
        if taken_over {
            self.core.set_unsupervised(token, true);
        }
    }

    /// Reads what was appended to the segments of a start, and whether its processes live, as far
    /// as this host sees them. `None`: the segments cannot be read.
    fn look_at_processes(
        &mut self,
        token: RunToken,
        incarnation: u32,
        tracking: TrackingState,
    ) -> Option<ProcessLives> {
        // Look at the processes before the segments: a process that was dead then
        // cannot have written a record that the reading missed. The identities are
        // known only from the segments, so these are read twice where it matters. The
        // processes of a task of a scheduler are on other hosts.
        let mut read = tracking == TrackingState::Over || self.read_segments(token, incarnation);
        let sees_processes = tracking == TrackingState::Nobody && !self.driver.has(&token);
        let lives = if sees_processes {
            self.lives(token)
        } else {
            ProcessLives {
                shim: None,
                job: None,
            }
        };
        if tracking == TrackingState::Over || sees_processes {
            read &= self.read_segments(token, incarnation);
        }
        read.then_some(lives)
    }

    /// Machine on which the claim was made, with its host when that is another.
    pub(super) fn origin(
        &self,
        token: &RunToken,
        entry: &Entry,
    ) -> (decide::Origin, Option<String>) {
        let facts = &entry.facts;
        if let Some(of_driver) = self.driver.origin(token, entry) {
            return of_driver;
        }
        let Some(held) = &self.setup.lease else {
            let over = facts.boot_id.is_some_and(|boot| boot != self.setup.boot_id);
            let origin = if over {
                decide::Origin::Over
            } else {
                decide::Origin::Here
            };
            return (origin, None);
        };
        let origin = match facts.boot_id {
            Some(boot_id) => held.origin(&boot_id, facts.shim.as_ref()),
            // A claim that cannot be read may be on its way from another host.
            None => lease::ClaimHost::Elsewhere("an unknown host".to_owned()),
        };
        match origin {
            lease::ClaimHost::Here => (decide::Origin::Here, None),
            lease::ClaimHost::Over => (decide::Origin::Over, None),
            lease::ClaimHost::Elsewhere(host) => (decide::Origin::Elsewhere, Some(host)),
        }
    }

    fn is_elsewhere(&mut self, token: RunToken, host: Option<String>) {
        if let Some(entry) = self.entries.get_mut(&token)
            && entry.elsewhere != host
        {
            entry.elsewhere = host;
            self.report(token);
        }
    }

    fn lives(&self, token: RunToken) -> ProcessLives {
        let facts = self.entries.get(&token).map(|entry| entry.facts);
        // A `/proc` that cannot be read proves nothing about a process: it counts
        // as a process out of view.
        let life = |process: Option<nero_model::ProcessId>| {
            process.map(|process| {
                process
                    .life()
                    .unwrap_or(nero_model::process::Life::Elsewhere)
            })
        };
        ProcessLives {
            shim: life(facts.and_then(|facts| facts.shim)),
            job: life(facts.and_then(|facts| facts.job)),
        }
    }

    /// Reads the bytes appended to a run's segments; false when they cannot be read
    /// now.
    pub fn read_segments(&mut self, token: RunToken, incarnation: u32) -> bool {
        self.reads += 1;
        let Some(entry) = self.entries.get_mut(&token) else {
            return true;
        };
        entry.begin(incarnation);
        // What an earlier start still wrote is passed on, and says nothing about this one.
        let is_earlier = incarnation < entry.incarnation;
        let mut of_earlier = Facts::default();
        let facts = if is_earlier {
            &mut of_earlier
        } else {
            &mut entry.facts
        };
        let run_dir = self.setup.paths.run(entry.id);
        let place = segments::StartFolder {
            run_dir: &run_dir,
            token,
            incarnation,
        };
        let (mut look, mut read) = (segments::Look::default(), Ok(()));
        // The folder of a job that ended at once has only the claim, until it is
        // settled.
        let brief = entry.watcher.is_none()
            && !is_earlier
            && !facts.ended()
            && !entry.rules
            && !facts.watched
            && entry
                .launched
                .is_some_and(|at| at.elapsed() < config::WATCHER_DUE);
        if brief {
            read = segments::look_at_claim(place, &mut entry.segments, facts, &mut look);
        }
        if !brief || !facts.ended() {
            let all = segments::look_into(place, &mut entry.segments, facts, &mut look);
            read = read.and(all);
        }
        let mut unreadable = std::mem::take(&mut look.passed_over);
        if read.is_ok() && !is_earlier && facts.lacks_its_job() {
            let claim = segments::folder(&run_dir, incarnation).join(names::CLAIM);
            read = Err(Unreadable::new(&claim, FileFault::JobMissing));
        }
        let is_read = read.is_ok() || is_earlier;
        let stop = read.err();
        let is_sure = self.is_sure(token, incarnation, stop.as_ref());
        unreadable.extend(stop.filter(|_| is_sure));
        if is_earlier {
            look.ends.clear();
        }
        // Records read before the failure are not read again.
        self.looked(token, look);
        self.note_began(token);
        self.set_unreadable(token, incarnation, unreadable);
        is_read
    }

    /// Whether a file that cannot be used is to be told of: a look a while ago found it so, too.
    /// Of a run that has ended no other look follows.
    fn is_sure(&mut self, token: RunToken, incarnation: u32, file: Option<&Unreadable>) -> bool {
        let run = self.core.run(&token);
        let is_over =
            run.is_none_or(|run| matches!(run.stage, Stage::Ended { .. }) || run.stage.is_final());
        let Some(entry) = self.entries.get_mut(&token) else {
            return true;
        };
        let Some(file) = file.filter(|_| !is_over) else {
            entry.suspect = None;
            return true;
        };
        let mut told = entry.unreadable.get(&incarnation).into_iter().flatten();
        if told.any(|one| one.path == file.path) {
            entry.suspect = None;
            return true;
        }
        let is_same = |(start, path, _): &(u32, PathBuf, Instant)| {
            *start == incarnation && *path == file.path
        };
        let now = Instant::now();
        let known = entry.suspect.take().filter(is_same);
        let (.., since) = *entry
            .suspect
            .insert(known.unwrap_or_else(|| (incarnation, file.path.clone(), now)));
        now >= since + D::SHOWN_LATE
    }

    /// Tells the core when the job of a run's newest start began.
    pub(super) fn note_began(&mut self, token: RunToken) {
        let facts = self.entries.get(&token).map(|entry| &entry.facts);
        if let Some(began_ms) = facts.and_then(|facts| facts.started_ms) {
            self.core.set_began(token, began_ms);
        }
    }

    /// Notes the files of a start that cannot be used, 0: those of the run as a
    /// whole. Each is logged once, however often it is looked at.
    pub(super) fn set_unreadable(&mut self, token: RunToken, start: u32, files: Vec<Unreadable>) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        let known = entry.unreadable.remove(&start).unwrap_or_default();
        for file in files.iter().filter(|file| !known.contains(file)) {
            tracing::error!(run = %entry.id, why = %file, "a file of a run cannot be used");
        }
        let changed = known != files;
        if !files.is_empty() {
            entry.unreadable.insert(start, files);
        }
        if changed {
            self.report(token);
        }
    }

    /// Decides nothing from a failed reading: the run is looked at again.
    pub(super) fn cannot_decide(
        &mut self,
        token: RunToken,
        incarnation: u32,
        tracking: TrackingState,
    ) {
        let (Some(entry), Some(run)) = (self.entries.get(&token), self.core.run(&token)) else {
            return;
        };
        if matches!(run.stage, Stage::Ended { .. }) || run.stage.is_final() {
            return;
        }
        let files = entry.unreadable.get(&incarnation);
        // A file that may be shown late is not among them yet.
        let now = Instant::now();
        let suspect = entry.suspect.as_ref();
        let is_sure = suspect.is_none_or(|(.., since)| now >= *since + D::SHOWN_LATE);
        let stops = files.and_then(|files| files.last()).filter(|_| is_sure);
        let was_cut = match stops.map(|file| &file.what) {
            Some(FileFault::Missing { .. }) => {
                self.left_by_a_cut(token, entry.id) == super::recover::PowerCutTrace::Something
            }
            _ => {
                let is_over = self.origin(&token, entry).0 == decide::Origin::Over;
                (self.setup.first_since_boot || is_over)
                    && stops.is_some_and(Unreadable::is_cut_off)
            }
        };
        if was_cut {
            self.core
                .found(token, incarnation, decide::Decision::SayRebooted);
            return;
        }
        // A file that the system does not deliver now may be there in a moment.
        let passes = stops.is_none_or(|file| matches!(file.what, FileFault::Refused(_)));
        self.timers.look_later(token, incarnation, tracking);
        if passes {
            return;
        }
        let is_tracked = entry.tracked.is_some();
        let lives = self.lives(token);
        let alive = Some(nero_model::process::Life::Alive);
        if is_tracked || lives.shim == alive || lives.job == alive {
            self.core.found(token, incarnation, Decision::Follow);
        } else {
            self.core.hold_run(token, incarnation);
        }
    }

    /// Whether a person removed the folder of a held run.
    fn was_given_up(&self, token: RunToken) -> bool {
        self.core.run(&token).is_some_and(|run| {
            matches!(run.stage, Stage::Held { .. }) && segments::is_gone(&self.run_dir(run.id))
        })
    }

    /// Whether a run that was never started still lacks a spec. With one, it waits
    /// for its turn again.
    fn waits_for_its_spec(&mut self, token: RunToken) -> bool {
        let Some(run) = self.core.run(&token) else {
            return false;
        };
        if run.stage != (Stage::Held { incarnation: 0 }) {
            return false;
        }
        if segments::is_gone(&self.run_dir(run.id)) {
            self.folder_gone(token);
        } else if !self.read_spec_again(token) {
            self.timers.look_later(token, 1, TrackingState::Nobody);
        }
        true
    }

    /// Whether the spec of a run that was started could not be used when it was
    /// read last.
    fn lacks_its_spec(&self, token: RunToken) -> bool {
        let entry = self.entries.get(&token);
        let files = entry.and_then(|entry| entry.unreadable.get(&0));
        files.is_some_and(|files| files.iter().any(|file| file.path.ends_with(names::SPEC)))
    }

    /// Whether the end of a run's newest start tells nothing about the run until its
    /// task is over.
    pub(super) fn is_held_back(&self, token: &RunToken) -> bool {
        let entry = self.entries.get(token);
        self.driver.has(token) && entry.is_some_and(|entry| entry.facts.may_go_on())
    }

    fn looked(&mut self, token: RunToken, look: segments::Look) {
        let held_back = self.is_held_back(&token);
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        let main_process_only = !look.ends.is_empty() && !entry.facts.ended() && !held_back;
        if !look.ends.is_empty() {
            entry.unsynced = !entry.kept;
            entry.ends.extend(look.ends);
        }
        if !entry.unsynced {
            for seg in &mut entry.segments {
                seg.visible = seg.len;
            }
        }
        if main_process_only {
            self.keep_end(token);
        }
        if look.grew {
            self.mark(token);
        }
    }

    /// Looks at the segments of live runs without a connected watcher.
    pub(super) fn look_at_live(&mut self) {
        let live: Vec<(RunToken, u32)> = self
            .core
            .runs()
            .filter(|(_, run)| matches!(run.stage, Stage::Running { .. }))
            // Those are looked at when there are news of them.
            .filter(|(token, _)| !self.driver.has(token))
            .map(|(token, run)| (*token, run.stage.incarnation()))
            .collect();
        for (token, incarnation) in &live {
            self.look_and_decide(*token, *incarnation);
        }
        self.continue_stopped(&live);
    }

    /// Continues stopped supervisors. A job can stop its own supervisor, being of
    /// the same user, and then no process would see its end. A shim's own launcher
    /// continues it at once; the agent continues launchers, and shims whose
    /// launcher is dead. A process counts as stopped only when the look before
    /// found it stopped, too: a person may be at work on it.
    fn continue_stopped(&mut self, live: &[(RunToken, u32)]) {
        let before = std::mem::take(&mut self.stopped);
        for (token, incarnation) in live {
            let Some(entry) = self.entries.get(token) else {
                continue;
            };
            let facts = &entry.facts;
            let supervisors = [
                ("shim", facts.shim),
                ("launcher", facts.taker.or(facts.launcher)),
            ];
            for (what, process) in supervisors {
                let Some(process) = process.filter(|process| is_stopped(*process)) else {
                    continue;
                };
                self.stopped.insert(process);
                if !before.contains(&process) {
                    continue;
                }
                let Some(entry) = self.entries.get_mut(token) else {
                    continue;
                };
                let run = entry.id;
                let continued = super::calls::control::proceed(process);
                tracing::warn!(%run, what, pid = process.pid, ?continued, "a supervisor was stopped by a signal and is continued");
                if !std::mem::replace(&mut entry.stop_noted, true) {
                    let text =
                        format!("its {what} was stopped by a signal (SIGSTOP) and was continued");
                    self.say(*token, *incarnation, &Notice::of(text));
                }
            }
        }
    }
}

/// Whether exactly this process was stopped by a signal. A traced process does not
/// count.
fn is_stopped(process: ProcessId) -> bool {
    process.life().is_ok_and(|life| life == Life::Alive)
        && Stat::read(process.pid)
            .is_ok_and(|stat| stat.state == b'T' && stat.start_ticks == process.start_ticks)
}
