//! Recovery at the start of neromum: the ledger names the open runs, their
//! folders show how far each has come. Decisions that need the launchers follow
//! when these have answered.

use std::io;
use std::path::{Path, PathBuf};

use nero_journal::WriteError;
use nero_journal::v1::{JobNotStarted, LedgerExited, Lost, TreeGone, ledger_exited::Copy, lost};
use nero_model::paths::run as names;
use nero_model::{RunId, RunToken};
use nero_node_core::capacity::Needs;
use nero_node_core::cards::{CardRequest, WHOLE};
use nero_node_core::decide::{Decision, Origin, ProcessLives, TrackingState, decide};
use nero_node_core::turn::Turn;
use nero_wire::v1;

use super::cards::from_record;
use super::{Agent, Driver, Entry};
use crate::launch::orders::grace_ms;
use crate::ledger::{LedgerRun, LedgerState};
use crate::runs::control::{has_rules, newest_cancel};
use crate::runs::spec::{self, unmake, was_recalled};
use crate::runs::{own, segments};
use crate::staging;

impl<D: Driver> Agent<D> {
    /// Takes in every open run of the ledger, in order.
    pub(super) fn recover(&mut self, state: LedgerState) {
        D::restore(self, &state);
        self.remove_unknown_submissions(&state);
        self.answers.restore(state.answers);
        let mut runs: Vec<_> = state.runs.into_iter().collect();
        runs.sort_by_key(|(_, kept)| kept.order);
        let count = runs.len();
        for (token, kept) in runs {
            let began = kept.exited.is_some() || kept.taken_away.is_some() || kept.cancel > 0;
            let submitted = self.driver.has(&token);
            if !began && !submitted && self.left_by_a_cut(token, kept.id) == PowerCutTrace::Nothing
            {
                match self.give_back_at_start(token, kept.id) {
                    Ok(()) => continue,
                    Err(error) => tracing::error!(run = %kept.id, ?error, "it waits here again"),
                }
            }
            self.restore_run(token, kept);
            self.restore_pause(token);
        }
        if count > 0 {
            let (live, waiting) = (self.core.live(), self.core.waiting());
            tracing::info!(runs = count, live, waiting, "read ledger and run folders");
        }
    }

    /// Folders of submissions that the ledger does not name were made and not intended, or are
    /// closed.
    fn remove_unknown_submissions(&self, state: &LedgerState) {
        if !state.damaged.is_empty() {
            return;
        }
        let folders = self.setup.paths.mum().join("submissions");
        let known = state.submissions.iter();
        let known: Vec<String> = known.map(|one| one.submission.to_string()).collect();
        // Listed before this neromum makes the first of its own.
        let all = std::fs::read_dir(folders).into_iter().flatten().flatten();
        let is_known = |name: &std::ffi::OsStr| known.iter().any(|one| **one == *name);
        let unknown = all.filter(|folder| !is_known(&folder.file_name()));
        let unknown: Vec<PathBuf> = unknown.map(|folder| folder.path()).collect();
        tokio::task::spawn_blocking(move || {
            unknown.iter().for_each(|folder| remove_submission(folder));
        });
    }

    /// Takes in one run from its ledger record and its folder.
    pub fn restore_run(&mut self, token: RunToken, mut kept: LedgerRun) {
        let mut entry = Entry::new(kept.id);
        let run_dir = self.run_dir(kept.id);
        if !self.damaged_ledger.is_empty() {
            // The ledger's record of the cancel request may be lost, but the cancel
            // request is not.
            kept.cancel = kept.cancel.max(newest_cancel(&run_dir));
        }
        entry.cancels = kept.cancel;
        if let Some(at) = &kept.taken_away {
            entry.recalled = was_recalled(&run_dir, token);
            self.entries.insert(token, entry);
            self.core.restore_taken_away(token, kept.id, kept.order, at);
            return;
        }
        let spec = spec::read(&self.setup.paths, kept.id, token);
        if spec.as_ref().is_err_and(|error| !error.may_pass) && was_recalled(&run_dir, token) {
            // neromum was killed before the ledger had the record.
            entry.recalled = true;
            self.entries.insert(token, entry);
            self.core.restore_taken_away(token, kept.id, kept.order, "");
            return;
        }
        let is_gone = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            )
        };
        let listed = segments::newest(&run_dir);
        let has_folder = !listed.as_ref().is_err_and(is_gone);
        let (newest, mut read) = match listed {
            Ok(newest) => (newest, true),
            Err(error) if is_gone(&error) => (0, true),
            // It may have been started.
            Err(_) => (1, false),
        };
        let request = spec.as_ref().map(request_of).unwrap_or_default();
        let turn = spec.as_ref().map(turn_of).unwrap_or_default();
        let needs = spec.as_ref().map(needs_of).unwrap_or_default();
        if let Ok(spec) = &spec {
            note_spec(&mut entry, spec, &run_dir);
        }
        self.entries.insert(token, entry);
        let spec_error = spec.err();
        let unreadable = spec_error.iter().map(|error| error.file.clone());
        self.set_unreadable(token, 0, unreadable.collect());
        for incarnation in 1..=newest {
            // Only the newest start counts.
            read = self.read_segments(token, incarnation) && (read || incarnation < newest);
        }
        let facts = self.entries[&token].facts;
        let may_pass = spec_error.as_ref().is_some_and(|error| error.may_pass);
        let has_no_spec = spec_error.is_some() && !may_pass;
        let started = newest > 1 || facts.claimed || may_pass || !has_folder || !read;
        let incarnation = if started { newest.max(1) } else { 0 };
        if D::restore_run(self, token, &kept, needs, newest) {
            self.core.set_turn(token, turn);
            return;
        }
        if kept.cancel > 0 && incarnation == 0 {
            // A shim that may still be on its way finds the cancel request.
            self.core.restore_taken_away(token, kept.id, kept.order, "");
            return;
        }
        self.core
            .restore(token, kept.id, kept.order, needs, incarnation);
        let cards = kept.cards.as_ref();
        let of_start = cards.filter(|cards| incarnation > 0 && cards.incarnation == incarnation);
        let shares = of_start.map(from_record).unwrap_or_default();
        self.core.set_cards(token, request, shares);
        self.core.set_turn(token, turn);
        self.note_began(token);
        if kept.cancel > 0 {
            self.core.restore_cancelled(token);
            // The cancel request was made while another host led, which could not
            // ring here.
            self.ring(token);
        }
        self.restore_end(token, kept.exited, incarnation);
        if incarnation == 0 && self.left_by_a_cut(token, kept.id) == PowerCutTrace::Something {
            self.say_lost_at_start(token, lost::Reason::Rebooted);
        }
        if !has_folder && !may_pass {
            self.say_lost_at_start(token, lost::Reason::FolderGone);
        } else if !read {
            self.cannot_decide(token, newest.max(1), TrackingState::Nobody);
        } else if may_pass {
            // The decision waits until more of it can be read.
            self.timers
                .look_later(token, newest.max(1), TrackingState::Nobody);
        } else if has_no_spec && incarnation == 0 {
            self.core.hold_run(token, 0);
            self.timers.look_later(token, 1, TrackingState::Nobody);
        }
    }

    /// Takes over the ledger's copy of an end. It is as good as the folder's,
    /// and outlives a power cut that the folder may not have survived.
    pub fn restore_end(&mut self, token: RunToken, exited: Option<LedgerExited>, incarnation: u32) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        let is_last =
            |copy: &Copy| copy.is::<TreeGone>() || copy.is::<JobNotStarted>() || copy.is::<Lost>();
        let ended = exited
            .filter(|exited| exited.incarnation >= incarnation)
            .filter(|exited| exited.records.iter().any(is_last));
        let Some(exited) = ended else {
            if entry.facts.ended() {
                let entry = &self.entries[&token];
                let origin = self.origin(&token, entry).0;
                let decision = decide(
                    &entry.facts,
                    ProcessLives::UNKNOWN,
                    TrackingState::Nobody,
                    origin,
                );
                // Another start is made once the launchers have answered.
                if decision == Decision::Ended {
                    self.core.found(token, incarnation.max(1), decision);
                }
            }
            return;
        };
        entry.kept = true;
        entry.unsynced = false;
        for seg in &mut entry.segments {
            seg.visible = seg.len;
        }
        if !entry.facts.ended() {
            self.write_copies(token, &exited);
        }
        self.core
            .found(token, exited.incarnation.max(1), Decision::Ended);
    }

    /// Writes an end into the folder that a power cut took from there and left
    /// in the ledger.
    fn write_copies(&mut self, token: RunToken, exited: &LedgerExited) {
        let run_dir = self.run_dir(self.entries[&token].id);
        match own::write_copies(&run_dir, token, exited.incarnation, &exited.records) {
            Ok(()) => drop(self.read_segments(token, exited.incarnation)),
            Err(error) => tracing::error!(%error, "cannot write the copy of a run's end"),
        }
    }

    /// Leftovers of a run that was accepted before the machine was booted and
    /// has no claim: the power cut may have taken the claim's name, with the job
    /// at work.
    pub(super) fn left_by_a_cut(&self, token: RunToken, id: RunId) -> PowerCutTrace {
        let Ok(spec) = spec::read(&self.setup.paths, id, token) else {
            return PowerCutTrace::NoCut;
        };
        let taken_over_at = <[u8; 16]>::try_from(&*spec.boot_id).ok();
        let was_cut = match taken_over_at {
            Some(_) => {
                let mut entry = Entry::new(id);
                entry.facts.boot_id = taken_over_at;
                self.origin(&token, &entry).0 == Origin::Over
            }
            // Written anew beside a start that has no claim.
            None => self.setup.first_since_boot,
        };
        if !was_cut {
            return PowerCutTrace::NoCut;
        }
        let run_dir = self.run_dir(id);
        let work = staging::work_folder(&run_dir, 1);
        match segments::newest(&run_dir) {
            Ok(0) if taken_over_at.is_none() => PowerCutTrace::NoCut,
            Ok(0) if !work.exists() => PowerCutTrace::Nothing,
            Ok(0 | 1) if !segments::folder(&run_dir, 1).join(names::CLAIM).exists() => {
                PowerCutTrace::Something
            }
            Ok(_) | Err(_) => PowerCutTrace::NoCut,
        }
    }

    /// Leaves it to neroman whether the run is started: neroman knows whether it
    /// showed the run as begun.
    ///
    /// # Errors
    /// When the ledger does not take it. Then the run is as before.
    pub(super) fn give_back_at_start(
        &mut self,
        token: RunToken,
        id: RunId,
    ) -> Result<(), WriteError> {
        let spec = spec::read(&self.setup.paths, id, token);
        self.undo_accepted(token, id, spec.map_or(0, |spec| spec.generation))?;
        tracing::info!(run = %id, "taken over before the machine was started anew: given back");
        Ok(())
    }

    /// Makes the node accept no hand-over of the run up to and including this
    /// generation, and removes its folder.
    ///
    /// The ledger forgets the run first. In the other order a neromum that is killed in
    /// between would find a run of its ledger without a folder, and call it lost.
    ///
    /// # Errors
    /// When the ledger does not take it. Then the run is as before.
    pub(super) fn undo_accepted(
        &mut self,
        token: RunToken,
        id: RunId,
        generation: u32,
    ) -> Result<(), WriteError> {
        self.ledger.closed(&[token])?;
        self.admission.left(token, generation);
        if let Err(error) = unmake(&self.run_dir(id)) {
            tracing::error!(run = %id, %error, "the spec of a run cannot be removed");
        }
        Ok(())
    }

    /// Reads the spec of a run that had no usable one; true when it has one by
    /// now. A run that was never started waits for its turn then.
    pub(super) fn read_spec_again(&mut self, token: RunToken) -> bool {
        let Some(entry) = self.entries.get(&token) else {
            return false;
        };
        let id = entry.id;
        let spec = match spec::read(&self.setup.paths, id, token) {
            Ok(spec) => spec,
            Err(error) => {
                self.set_unreadable(token, 0, vec![error.file]);
                return false;
            }
        };
        self.set_unreadable(token, 0, Vec::new());
        let run_dir = self.run_dir(id);
        if let Some(entry) = self.entries.get_mut(&token) {
            note_spec(entry, &spec, &run_dir);
        }
        self.core.wait_again(token, needs_of(&spec));
        let shares = self.core.run(&token).map(|run| run.shares.clone());
        let shares = shares.unwrap_or_default();
        self.core.set_cards(token, request_of(&spec), shares);
        self.core.set_turn(token, turn_of(&spec));
        true
    }

    /// Handles an accepted run whose folder is gone.
    pub(super) fn folder_gone(&mut self, token: RunToken) {
        self.say_lost_at_start(token, lost::Reason::FolderGone);
    }

    /// Records the loss of an accepted run: nothing shows whether it ran.
    fn say_lost_at_start(&mut self, token: RunToken, reason: lost::Reason) {
        let entry = &self.entries[&token];
        if entry.facts.ended() {
            return;
        }
        let start = entry.incarnation.max(1);
        let record = Lost {
            reason: reason.into(),
            detail: String::new(),
        };
        let run_dir = self.run_dir(entry.id);
        match own::write(&run_dir, token, start, &record) {
            Ok(()) => {
                self.read_segments(token, start);
                self.core.found(token, start, Decision::Ended);
                self.remove_container(token, start);
            }
            Err(error) => tracing::error!(%error, "cannot say that a run is lost"),
        }
    }
}

/// Removes the folder of a submission: what starts late finds no plan, and begins nothing.
pub fn remove_submission(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        tracing::warn!(folder = %folder.display(), %error, "the folder of a submission stays");
    }
}

/// What a power cut may have left of a start that has no claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PowerCutTrace {
    /// There was no power cut since, so the claim, or its absence, is certain.
    NoCut,
    /// Only the files of the hand-over.
    Nothing,
    /// A folder that a start made.
    Something,
}

/// Notes what the spec of a run says about it.
fn note_spec(entry: &mut Entry, spec: &v1::RunSpec, run_dir: &Path) {
    entry.rules |= has_rules(spec, run_dir);
    entry.adopted = spec.adopted.is_some();
    entry.generation = entry.generation.max(spec.generation);
    let earlier = spec.resume.as_ref();
    entry.earlier = earlier.and_then(|run| RunToken::from_slice(&run.token));
}

/// What a run takes.
fn needs_of(spec: &v1::RunSpec) -> Needs {
    let resources = spec.resources.unwrap_or_default();
    let cards = spec.scheduler.as_ref().map_or(0, |asked| asked.gpus);
    Needs::of(resources.cpus, resources.memory_bytes).with_cards(cards)
}

/// When a run has its turn. Nothing of it is alive after its time limit and its grace.
pub(super) fn turn_of(spec: &v1::RunSpec) -> Turn {
    let limit_ms = spec.resources.map_or(0, |resources| resources.time_ms);
    Turn {
        priority: spec.priority,
        since_ms: u64::try_from(spec.since_ms).unwrap_or_default(),
        rank: spec.rank,
        lasts_ms: match limit_ms {
            0 => 0,
            limit_ms => limit_ms.saturating_add(grace_ms(spec).into()),
        },
    }
}

/// What a run asks of the cards of a bare node.
pub(super) fn request_of(spec: &v1::RunSpec) -> CardRequest {
    let Some(asked) = &spec.scheduler else {
        return CardRequest::default();
    };
    let (count, share) = match asked.gpu_micro {
        0 => (asked.gpus, WHOLE),
        micro => (1, micro.min(WHOLE)),
    };
    CardRequest {
        count,
        share,
        memory_bytes: asked.gpumem_bytes,
        kind: asked.gpu_type.clone(),
        is_unmanaged: asked.gpus_unmanaged,
    }
}
