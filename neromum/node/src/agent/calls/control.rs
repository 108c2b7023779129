//! Requests for a started run: cancel requests and rule sets, as files in its
//! control folder, complete or absent. The file is made before the doorbell rings.

use std::collections::VecDeque;
use std::io;

use nero_journal::frame;
use nero_journal::request::RequestKind;
use nero_journal::v1::{Doorbell, StopCause, to_launcher};
use nero_journal::{Clocks, WriteError};
use nero_model::paths::run as names;
use nero_model::process::{Life, ProcessHandle};
use nero_model::{ProcessId, RequestId, RunToken};
use nero_node_core::{CancelDecision, Stage};
use nero_wire::v1::cancel_reply::One;
use nero_wire::v1::{self, CancelReply, RuleSet, WatcherCommand};
use prost::Message as _;

use super::{CallRefusal, Cancel, EndRequest, Outcome, OutcomesTo, Target};
use crate::agent::follow::AdoptionResult;
use crate::agent::hand_over::NEVER_AGAIN;
use crate::agent::{Agent, Driver};
use crate::config;
use crate::runs::control::{keep_answer, keep_rules, newest_cancel};
use crate::runs::spec::may_pass;
use crate::runs::{spec, tombstone};

/// The answers to calls that end runs, the oldest first, at most
/// [`config::ANSWERS_MAX`]. The ledger keeps each as a `CancelReply`.
#[derive(Debug, Default)]
pub(in crate::agent) struct Answers {
    list: VecDeque<(RequestId, Vec<u8>)>,
}

impl Answers {
    /// The answers in the ledger.
    pub fn restore(&mut self, kept: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
        let known = |(id, answer): (Vec<u8>, _)| Some((RequestId::from_slice(&id)?, answer));
        self.list = kept.into_iter().filter_map(known).collect();
    }

    /// All answers, for a new ledger.
    pub fn iter(&self) -> impl Iterator<Item = &(RequestId, Vec<u8>)> {
        self.list.iter()
    }

    /// What a call was answered for these runs; `None` unless it named them all.
    fn find(&self, id: RequestId, runs: &[Target]) -> Option<Vec<Outcome>> {
        let (_, answer) = self.list.iter().find(|(known, _)| *known == id)?;
        let reply = CancelReply::decode(answer.as_slice()).ok()?;
        let of = |target: &Target| {
            let one = reply
                .runs
                .iter()
                .find(|one| one.token == target.token.to_vec());
            one.map(|one| one.outcome().into())
        };
        runs.iter().map(of).collect()
    }

    fn add(&mut self, id: RequestId, answer: Vec<u8>) {
        if self.list.len() >= config::ANSWERS_MAX {
            self.list.pop_front();
        }
        self.list.push_back((id, answer));
    }
}

impl<D: Driver> Agent<D> {
    pub(in crate::agent) fn end(&mut self, ending: EndRequest, answer: OutcomesTo) {
        if let Some(known) = ending
            .request
            .and_then(|id| self.answers.find(id, &ending.runs))
        {
            self.answer_when_synced(answer, known);
            return;
        }
        let mut outcomes = Vec::with_capacity(ending.runs.len());
        for target in &ending.runs {
            let outcome = match ending.recall {
                0 => self.cancel_one(*target, &ending.cancel),
                generation => self.recall_one(*target, generation, &ending.cancel),
            };
            outcomes.push(match outcome {
                Ok(outcome) => outcome,
                Err(error) if ending.recall > 0 => {
                    tracing::warn!(run = %target.id, %error, "a run cannot be recalled now");
                    Outcome::Undecided
                }
                Err(error) => {
                    let refused = CallRefusal::Disk(error.to_string());
                    // A caller that has left asks again.
                    let _ = answer.send(Err(refused));
                    return;
                }
            });
        }
        // Requests without a decision are sent again, so they are not
        // remembered.
        if !outcomes.contains(&Outcome::Undecided) {
            self.remember(&ending, &outcomes);
        }
        self.answer_when_synced(answer, outcomes);
    }

    fn remember(&mut self, ending: &EndRequest, outcomes: &[Outcome]) {
        let Some(id) = ending.request else {
            return;
        };
        let one = |(target, outcome): (&Target, &Outcome)| One {
            token: target.token.to_vec(),
            outcome: v1::cancel_reply::Outcome::from(*outcome).into(),
        };
        let runs = ending.runs.iter().zip(outcomes).map(one).collect();
        let answer = CancelReply { runs }.encode_to_vec();
        if let Err(error) = self.ledger.answered(id.as_bytes(), &answer) {
            // If the request comes again, it is carried out again, which changes
            // nothing.
            tracing::warn!(?error, "the ledger does not take an answer");
        }
        self.answers.add(id, answer);
    }

    fn cancel_one(&mut self, target: Target, cancel: &Cancel) -> io::Result<Outcome> {
        let token = target.token;
        if self.core.run(&token).is_none()
            && let Some(outcome) = self.take_up_to_end(target)?
        {
            return Ok(outcome);
        }
        if self.refused_after_a_claim(&token) {
            return Ok(Outcome::Ended);
        }
        let cancelled = self.cancel_before_looking(token, cancel)?;
        Ok(match self.core.cancel(token) {
            None => Outcome::UnknownRun,
            Some(CancelDecision::NeverStarts) => Outcome::NeverStarted,
            Some(CancelDecision::Ended) => Outcome::Ended,
            Some(CancelDecision::Ask) if cancelled => {
                self.ring(token);
                Outcome::Asked
            }
            Some(CancelDecision::Ask) => {
                self.ask_for_the_end(token, cancel)?;
                Outcome::Asked
            }
        })
    }

    /// Takes up a run that is to end and is unknown. Its folder may have been left by a
    /// hand-over that came no farther than the spec, or by a run that neroman has closed.
    /// Returns the answer for a run that is not here: it never comes in any more, so that
    /// a hand-over of an earlier connection starts no run that is over for neroman.
    fn take_up_to_end(&mut self, Target { token, id }: Target) -> io::Result<Option<Outcome>> {
        match spec::read(&self.setup.paths, id, token) {
            Ok(_) => match self.adopt(token, id) {
                AdoptionResult::Known => return Ok(None),
                AdoptionResult::NotNow(why) => return Err(io::Error::other(why)),
                AdoptionResult::Unknown if self.admission.is_cleaning(&token) => {
                    return Ok(Some(Outcome::Ended));
                }
                // It was given back, and nothing was started from its folder.
                AdoptionResult::Unknown => spec::unmake(&self.run_dir(id))?,
            },
            Err(error) if error.may_pass => return Err(io::Error::other(error.file.to_string())),
            Err(_) => match tombstone::read(&self.setup.paths, id, token) {
                Ok(Some(_)) => return Ok(Some(Outcome::Ended)),
                Err(error) if may_pass(&error) => return Err(io::Error::other(error)),
                Ok(None) | Err(_) => {}
            },
        }
        self.admission.recall(token, NEVER_AGAIN);
        Ok(Some(Outcome::UnknownRun))
    }

    /// Makes the cancel request of a run that was not started yet, before anything
    /// else: it then holds for every later start of ours, and for a neroman that
    /// takes the deployment over. An earlier neromum may have started the run, here
    /// or on another host, or a launcher that died: either its claim exists by now,
    /// or every later claim finds the cancel request. Returns true when the cancel
    /// request was made.
    fn cancel_before_looking(&mut self, token: RunToken, cancel: &Cancel) -> io::Result<bool> {
        let Some(run) = self.core.run(&token) else {
            return Ok(false);
        };
        // The ledger had room for its first cancel request, and the run's folder
        // perhaps had not.
        let unmade = run.stage == Stage::TakenAway && newest_cancel(&self.run_dir(run.id)) == 0;
        if !run.stage.is_unstarted() && !unmade {
            return Ok(false);
        }
        match self.cancel(token, cancel) {
            // The run's folder was removed, so no start can be made from it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            cancelled => cancelled?,
        }
        if !unmade {
            // If the records cannot be read, they prove no start; `began` has
            // logged the error.
            let _ = self.began(token);
        }
        Ok(true)
    }

    fn cancel(&mut self, token: RunToken, cancel: &Cancel) -> io::Result<()> {
        self.write_cancel(token, cancel).map(drop)
    }

    /// Makes the file first, then rings: a shim that links its claim after the
    /// file was made looks for cancel requests before it starts the job.
    fn ask_for_the_end(&mut self, token: RunToken, cancel: &Cancel) -> io::Result<()> {
        self.cancel(token, cancel)?;
        self.ring(token);
        Ok(())
    }

    /// Rings the run's supervisor on this host, so that it looks for cancel
    /// requests. On another host the run's watcher does.
    pub fn ring(&mut self, token: RunToken) {
        if self.driver.ring_elsewhere(token) {
            return;
        }
        let Some(entry) = self.entries.get(&token) else {
            return;
        };
        if entry.facts.shim.is_none() {
            let incarnation = entry.incarnation.max(1);
            self.read_segments(token, incarnation);
        }
        let shim = self.entries.get(&token).and_then(|entry| entry.facts.shim);
        let rung = shim.is_some_and(|shim| ring(shim).unwrap_or(false));
        if rung {
            return;
        }
        let doorbell = Doorbell {
            token: token.to_vec(),
        };
        self.launchers
            .send_all(&to_launcher::Message::Doorbell(doorbell));
        // A launcher of an earlier build that took over may have no socket any
        // more; the signal works for it, too.
        if let Some(entry) = self.entries.get(&token) {
            let incarnation = entry.incarnation.max(1);
            self.read_segments(token, incarnation);
        }
        let taker = self.entries.get(&token).and_then(|entry| entry.facts.taker);
        if let Some(taker) = taker {
            // A dead launcher does not react; the next launcher guards the run.
            let _ = ring(taker);
        }
    }

    /// Makes `control/cancel.<n>`, recorded in the ledger first. On a full disk
    /// it makes the name alone, which counts as a cancel request.
    ///
    /// # Errors
    /// When the disk refuses either; `NotFound` when the run's folder is gone.
    pub(in crate::agent) fn write_cancel(
        &mut self,
        token: RunToken,
        cancel: &Cancel,
    ) -> io::Result<u32> {
        let Some(entry) = self.entries.get_mut(&token) else {
            return Err(io::Error::other("the run is not known here"));
        };
        let run_dir = self.setup.paths.run(entry.id);
        let content = v1::Cancel {
            token: token.to_vec(),
            cause: StopCause::Person as u32,
            grace_ms: cancel.grace_ms,
            signal: cancel.signal,
            rule: 0,
            author: cancel.author.clone(),
            asked_ms: Clocks::now().wall_ns / 1_000_000,
        };
        // Readers of cancel requests stop at the first gap.
        let mut number = RequestKind::Cancel.newest_known(&run_dir) + 1;
        loop {
            let noted = self.ledger.cancel_asked(token, number, &cancel.request);
            if let Err(error) = noted {
                tracing::error!(run = %entry.id, ?error, "the ledger does not take a cancel");
                // The file is enough, so a run that fills the disk can be ended.
                if !matches!(&error, WriteError::Io(error) if frame::has_no_room(error)) {
                    return Err(io::Error::other(error));
                }
            }
            entry.cancels = entry.cancels.max(number);
            match RequestKind::Cancel.create(&run_dir, number, &content) {
                Ok(true) => return Ok(number),
                Ok(false) => {
                    tracing::warn!(run = %entry.id, number, "no room for a cancel request: it goes without its signal and grace");
                    return Ok(number);
                }
                // The watcher made a cancel request of its own with that number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => {
                    let path = RequestKind::Cancel.path(&run_dir, number);
                    tracing::error!(path = %path.display(), %error, "cannot make a cancel request");
                    return Err(error);
                }
            }
        }
    }

    /// Keeps the end of a step for the job that waits for it.
    pub(in crate::agent) fn write_answer(
        &mut self,
        token: RunToken,
        request: &v1::AnswerStepRequest,
    ) -> Result<(), CallRefusal> {
        let entry = self.entries.get(&token).ok_or(CallRefusal::UnknownRun)?;
        let control = self.setup.paths.run(entry.id).join(names::CONTROL);
        keep_answer(&control, request).map_err(|error| CallRefusal::Disk(error.to_string()))
    }

    /// Keeps a rule set; returns the version under which it is kept.
    pub(in crate::agent) fn write_rules(
        &mut self,
        token: RunToken,
        rules: &RuleSet,
    ) -> Result<u64, CallRefusal> {
        if rules.version == 0 {
            return Err(CallRefusal::Invalid("versions of rule sets count from 1"));
        }
        let entry = self
            .entries
            .get_mut(&token)
            .ok_or(CallRefusal::UnknownRun)?;
        let control = self.setup.paths.run(entry.id).join(names::CONTROL);
        let version =
            keep_rules(&control, rules).map_err(|error| CallRefusal::Disk(error.to_string()))?;
        if version != rules.version {
            tracing::warn!(run = %entry.id, asked = rules.version, version, "other rules lie there by that version or a newer one: these came as the newest");
        }
        entry.rules |= !rules.rules.is_empty();
        if let Some(watcher) = &entry.watcher {
            let command = WatcherCommand {
                rules_version: version,
            };
            // A full queue holds a command already, and any makes it look.
            let _ = watcher.commands.try_send(command);
        }
        Ok(version)
    }
}

/// Rings a shim or launcher, and continues it if it was stopped. False when it is
/// dead or cannot be signalled safely.
fn ring(process: ProcessId) -> io::Result<bool> {
    use rustix::process::Signal;
    send(process, &[Signal::USR1, Signal::CONT])
}

/// Continues a stopped process. False as for [`ring`].
pub(in crate::agent) fn proceed(process: ProcessId) -> io::Result<bool> {
    send(process, &[rustix::process::Signal::CONT])
}

fn send(process: ProcessId, signals: &[rustix::process::Signal]) -> io::Result<bool> {
    let Some(handle) = ProcessHandle::open(&process) else {
        return Ok(false);
    };
    if process.life()? != Life::Alive {
        return Ok(false);
    }
    for signal in signals {
        handle.signal(*signal)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use nero_model::{ExperimentId, RunId};

    use super::*;

    #[test]
    fn an_answer_is_repeated_for_the_runs_that_it_named_and_for_no_other() {
        let run = |number| Target {
            token: RunToken::random(),
            id: RunId {
                experiment: ExperimentId(1),
                number,
            },
        };
        let (taken, ended, other) = (run(1), run(2), run(3));
        let one = |target: Target, outcome: Outcome| One {
            token: target.token.to_vec(),
            outcome: v1::cancel_reply::Outcome::from(outcome).into(),
        };
        let runs = vec![
            one(taken, Outcome::NeverStarted),
            one(ended, Outcome::Ended),
        ];
        let (mut answers, id) = (Answers::default(), RequestId::random());
        answers.add(id, CancelReply { runs }.encode_to_vec());
        let reversed = answers.find(id, &[ended, taken]);
        assert_eq!(reversed, Some(vec![Outcome::Ended, Outcome::NeverStarted]));
        assert_eq!(answers.find(id, &[taken, other]), None);
    }
}
