//! Wishes for a started run: cancels and rule sets, as files in its control
//! folder, complete or absent. The file is made before the doorbell rings.

use std::io;

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{Doorbell, StopCause, to_launcher};
use nero_journal::{Clocks, WriteError};
use nero_model::paths::run as names;
use nero_model::process::Life;
use nero_model::{ExperimentId, ProcessId, RequestId, RunId, RunToken};
use nero_wire::v1::cancel_reply::{One, Outcome};
use nero_wire::v1::{
    Cancel, CancelReply, CancelRequest, KidCommand, RunRef, SetRulesReply, SetRulesRequest,
};
use prost::Message as _;
use tokio::sync::oneshot;

use super::{Agent, Refused};
use crate::core::{Cancelled, Stage};
use crate::runs::control::{first_free, keep_rules, newest_wish};
use crate::runs::spec::may_pass;
use crate::runs::{gone, spec};

/// A request for the end of a run.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    pub grace_ms: u32,
    pub signal: i32,
    pub author: String,
    pub request: Vec<u8>,
}

impl Agent {
    pub(super) fn cancel(
        &mut self,
        request: CancelRequest,
        answer: oneshot::Sender<Result<CancelReply, Refused>>,
    ) {
        let id = RequestId::from_slice(&request.request);
        if let Some(known) = id.and_then(|id| self.answer_to(id)) {
            self.answer_when_synced(answer, known);
            return;
        }
        let wish = Wish {
            grace_ms: request.grace_ms,
            signal: request.signal,
            author: request.author,
            request: request.request,
        };
        let mut reply = CancelReply::default();
        for run in &request.runs {
            let outcome = match request.withdraw {
                0 => self.cancel_one(run, &wish),
                turn => self.withdraw_one(run, turn, &wish),
            };
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(error) if request.withdraw > 0 => {
                    tracing::warn!(experiment = run.experiment, number = run.number, %error, "a run cannot be withdrawn now");
                    Outcome::Unspecified
                }
                Err(error) => {
                    let refused = Refused::Disk(error.to_string());
                    // A caller that has left asks again.
                    let _ = answer.send(Err(refused));
                    return;
                }
            };
            reply.runs.push(One {
                token: run.token.clone(),
                outcome: outcome.into(),
            });
        }
        // Requests without a decision are sent again, so they are not
        // remembered.
        let decided = |one: &One| one.outcome() != Outcome::Unspecified;
        if let Some(id) = id.filter(|_| reply.runs.iter().all(decided)) {
            self.remember(id, reply.encode_to_vec());
        }
        self.answer_when_synced(answer, reply);
    }

    fn answer_to(&self, id: RequestId) -> Option<CancelReply> {
        let (_, answer) = self.answers.iter().find(|(known, _)| *known == id)?;
        CancelReply::decode(answer.as_slice()).ok()
    }

    fn remember(&mut self, id: RequestId, answer: Vec<u8>) {
        if let Err(error) = self.ledger.answered(id.as_bytes(), &answer) {
            // If the request comes again, it is carried out again, which changes
            // nothing.
            tracing::warn!(?error, "the ledger does not take an answer");
        }
        if self.answers.len() >= crate::config::ANSWERS_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back((id, answer));
    }

    pub(super) fn cancel_one(&mut self, run: &RunRef, wish: &Wish) -> io::Result<Outcome> {
        let Some(token) = RunToken::from_slice(&run.token) else {
            return Ok(Outcome::UnknownRun);
        };
        if self.core.run(&token).is_none() {
            let id = RunId {
                experiment: ExperimentId(run.experiment),
                number: run.number,
            };
            // A run that neroman has closed may still have its folder here.
            return match spec::read(&self.setup.paths, id, token) {
                Ok(_) => Ok(Outcome::Ended),
                Err(error) if error.may_pass => Err(io::Error::other(error.file.to_string())),
                Err(_) => match gone::read(&self.setup.paths, id, token) {
                    Ok(Some(_)) => Ok(Outcome::Ended),
                    Err(error) if may_pass(&error) => Err(io::Error::other(error)),
                    Ok(None) | Err(_) => Ok(Outcome::UnknownRun),
                },
            };
        }
        if self.refused_after_a_claim(&token) {
            return Ok(Outcome::Ended);
        }
        let wished = self.wish_before_looking(token, wish)?;
        Ok(match self.core.cancel(token) {
            None => Outcome::UnknownRun,
            Some(Cancelled::NeverStarts) => Outcome::NeverStarted,
            Some(Cancelled::Ended) => Outcome::Ended,
            Some(Cancelled::Ask) if wished => {
                self.ring(token);
                Outcome::Asked
            }
            Some(Cancelled::Ask) => {
                self.ask_for_the_end(token, wish)?;
                Outcome::Asked
            }
        })
    }

    /// Makes the wish of a run that was not started yet, before anything else:
    /// it then holds for every later start of ours, and for a neroman that takes
    /// the deployment over. An earlier neromum may have started the run, here or
    /// on another host, or a launcher that died: either its claim exists by now,
    /// or every later claim finds the wish. Returns true when the wish was made.
    fn wish_before_looking(&mut self, token: RunToken, wish: &Wish) -> io::Result<bool> {
        let Some(run) = self.core.run(&token) else {
            return Ok(false);
        };
        // The ledger had room for its first wish, and the run's folder perhaps
        // had not.
        let unmade = run.stage == Stage::TakenAway && newest_wish(&self.run_dir(run.id)) == 0;
        if !run.stage.is_unstarted() && !unmade {
            return Ok(false);
        }
        match self.wish(token, wish) {
            // The run's folder was removed, so no start can be made from it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            wished => wished?,
        }
        if !unmade {
            // If the records cannot be read, they prove no start; `began` has
            // logged the error.
            let _ = self.began(token);
        }
        Ok(true)
    }

    fn wish(&mut self, token: RunToken, wish: &Wish) -> io::Result<()> {
        self.write_cancel(token, wish).map(drop)
    }

    /// Makes the file first, then rings: a shim that links its claim after the
    /// file was made looks for wishes before it starts the job.
    fn ask_for_the_end(&mut self, token: RunToken, wish: &Wish) -> io::Result<()> {
        self.wish(token, wish)?;
        self.ring(token);
        Ok(())
    }

    /// Rings the run's supervisor on this host, so that it looks for wishes. On
    /// another host the run's watcher does.
    pub(super) fn ring(&mut self, token: RunToken) {
        let Some(entry) = self.entries.get(&token) else {
            return;
        };
        if entry.facts.shim.is_none() {
            let incarnation = entry.incarnation.max(1);
            self.look(token, incarnation);
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
            self.look(token, incarnation);
        }
        let taker = self.entries.get(&token).and_then(|entry| entry.facts.taker);
        if let Some(taker) = taker {
            // A dead launcher does not react; the next launcher guards the run.
            let _ = ring(taker);
        }
    }

    /// Makes `control/cancel.<n>`, recorded in the ledger first. On a full disk
    /// it makes the name alone, which counts as a wish.
    ///
    /// # Errors
    /// When the disk refuses either; `NotFound` when the run's folder is gone.
    pub(super) fn write_cancel(&mut self, token: RunToken, wish: &Wish) -> io::Result<u32> {
        let Some(entry) = self.entries.get_mut(&token) else {
            return Err(io::Error::other("the run is not known here"));
        };
        let run_dir = self.setup.paths.run(entry.id);
        let control = run_dir.join(names::CONTROL);
        let content = Cancel {
            token: token.to_vec(),
            cause: StopCause::Person as u32,
            grace_ms: wish.grace_ms,
            signal: wish.signal,
            rule: 0,
            author: wish.author.clone(),
            asked_ms: Clocks::now().wall_ns / 1_000_000,
        };
        // Readers of wishes stop at the first gap.
        let mut number = first_free(&control, 1);
        loop {
            let noted = self.ledger.cancel_asked(token, number, &wish.request);
            if let Err(error) = noted {
                tracing::error!(run = %entry.id, ?error, "the ledger does not take a cancel");
                // The file is enough, so a run that fills the disk can be ended.
                if !matches!(&error, WriteError::Io(error) if frame::has_no_room(error)) {
                    return Err(io::Error::other(error));
                }
            }
            entry.cancels = entry.cancels.max(number);
            let path = control.join(format!("cancel.{number}"));
            match frame::create_or_stand_in(FrameKind::Cancel, &path, &content, &run_dir) {
                Ok(true) => return Ok(number),
                Ok(false) => {
                    tracing::warn!(run = %entry.id, number, "no room for a wish: it goes without its signal and grace");
                    return Ok(number);
                }
                // The watcher made a wish of its own with that number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "cannot make a wish");
                    return Err(error);
                }
            }
        }
    }

    pub(super) fn set_rules(
        &mut self,
        request: SetRulesRequest,
        answer: oneshot::Sender<Result<SetRulesReply, Refused>>,
    ) {
        // A caller that has left asks again: the same version is the same file.
        let _ = answer.send(self.write_rules(request));
    }

    fn write_rules(&mut self, request: SetRulesRequest) -> Result<SetRulesReply, Refused> {
        let token = request
            .run
            .as_ref()
            .and_then(|run| RunToken::from_slice(&run.token));
        let rules = request
            .rules
            .ok_or(Refused::Invalid("there is no rule set in the request"))?;
        if rules.version == 0 {
            return Err(Refused::Invalid("versions of rule sets count from 1"));
        }
        let entry = token
            .and_then(|token| self.entries.get_mut(&token))
            .ok_or(Refused::UnknownRun)?;
        let control = self.setup.paths.run(entry.id).join(names::CONTROL);
        let version =
            keep_rules(&control, &rules).map_err(|error| Refused::Disk(error.to_string()))?;
        if version != rules.version {
            tracing::warn!(run = %entry.id, asked = rules.version, version, "other rules lie there by that version or a newer one: these came as the newest");
        }
        entry.rules |= !rules.rules.is_empty();
        if let Some(kid) = &entry.kid {
            let command = KidCommand {
                rules_version: version,
            };
            // A full queue holds a command already, and any makes it look.
            let _ = kid.commands.try_send(command);
        }
        Ok(SetRulesReply { version })
    }
}

/// Rings a shim or launcher, and continues it if it was stopped. False when it is
/// dead or cannot be signalled safely.
fn ring(process: ProcessId) -> io::Result<bool> {
    use rustix::process::Signal;
    send(process, &[Signal::USR1, Signal::CONT])
}

/// Continues a stopped process. False as for [`ring`].
pub(super) fn proceed(process: ProcessId) -> io::Result<bool> {
    send(process, &[rustix::process::Signal::CONT])
}

fn send(process: ProcessId, signals: &[rustix::process::Signal]) -> io::Result<bool> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
    let Some(pid) = Pid::from_raw(process.pid) else {
        return Ok(false);
    };
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
        // Gone, or a kernel without pidfds: the launcher rings.
        return Ok(false);
    };
    // The descriptor belongs to the process that had the pid when it was opened.
    // If the expected process lives now, it is that process.
    if process.life()? != Life::Alive {
        return Ok(false);
    }
    for signal in signals {
        pidfd_send_signal(&pidfd, *signal)?;
    }
    Ok(true)
}
