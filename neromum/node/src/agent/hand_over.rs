//! Accepting runs: their folders are made off the reactor when they are many,
//! then the agent accepts them in order. The same token handed over twice is one
//! run.

mod check;
mod place;
mod placement;
mod program;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::path::Path;

use nero_journal::WriteError;
use nero_model::paths::run as names;
use nero_model::{RunId, RunToken};
use nero_wire::v1::HandOverReply;
use nero_wire::v1::hand_over_reply::Refusal;
use rustix::io::Errno;
use tokio::sync::oneshot;

use super::follow::AdoptionResult;
use super::{Agent, Driver};
use crate::config;
use crate::runs::control::cancel_never;
use crate::runs::spec::{self, may_pass, unmake_up_to};
use crate::runs::unreadable::{FileFault, Unreadable};
use crate::runs::{segments, tombstone};
use check::still_live;
pub use place::Placer;
pub use placement::PlacementResult;
use placement::{Folder, PlacedRun};

struct Rejection {
    why: String,
    /// The same without the name of this node, where it begins with that.
    lacks: String,
    hint: &'static str,
    /// Whether the same run may be accepted later.
    later: bool,
    /// Whether only this node lacks something, so that another node may take the
    /// run.
    here: bool,
    /// Whether the node has nothing of the run, and takes it by a later generation
    /// alone.
    unknown: bool,
}

impl Rejection {
    /// Marks the refusal as one of this node only.
    fn here(self) -> Self {
        Self { here: true, ..self }
    }

    fn about(self, token: Vec<u8>) -> Refusal {
        Refusal {
            token,
            why: self.why,
            hint: self.hint.to_owned(),
            later: self.later,
            only_here: self.here && !self.later,
            unknown_run: self.unknown,
            lacks: self.lacks,
        }
    }
}

fn no(why: impl Into<String>, hint: &'static str) -> Rejection {
    Rejection {
        why: why.into(),
        lacks: String::new(),
        hint,
        later: false,
        here: false,
        unknown: false,
    }
}

fn later(why: impl Into<String>, hint: &'static str) -> Rejection {
    Rejection {
        later: true,
        ..no(why, hint)
    }
}

/// The refusal because this node lacks something.
fn lacks(node: &str, lacks: String, hint: &'static str) -> Rejection {
    Rejection {
        why: format!("node {node}: {lacks}"),
        lacks,
        ..no("", hint)
    }
}

/// The answer to a spec that is sent again to a node that lost its run: the run
/// may have begun here, so that it is not taken as a new one.
fn unknown() -> Rejection {
    Rejection {
        unknown: true,
        ..no("this node does not have the run any more", "")
    }
}

/// The refusal of a run that was recalled from this node. It never gets such a
/// run again: a leftover of its start there must find the cancel request, and would
/// not find one after a new hand-over.
fn recalled(run_dir: &Path) -> Rejection {
    let why = format!(
        "the run was recalled from this node, and {} is left of it",
        run_dir.display()
    );
    no(why, "start it on another node, or once more").here()
}

/// Which runs may come in now, and the place of the next one in the queue.
#[derive(Debug)]
pub(super) struct Admission {
    next_order: u64,
    /// Runs whose folders are being removed right now.
    cleaning: HashSet<RunToken>,
    /// Runs that neroman may have given to another node since, with the generation
    /// up to which that holds. A request that lost its caller and is still at work
    /// must not bring in any of them after that.
    recalled: HashMap<RunToken, u32>,
    oldest_recalled: VecDeque<RunToken>,
    /// Whether neroman begins a generation when this node has nothing of a run any
    /// more. An earlier neroman sends the run again with the same one.
    pub generations: bool,
}

impl Admission {
    pub fn new(next_order: u64) -> Self {
        Self {
            next_order: next_order.max(1),
            cleaning: HashSet::new(),
            recalled: HashMap::new(),
            oldest_recalled: VecDeque::new(),
            generations: false,
        }
    }

    /// The place of the next run in the queue.
    pub fn next_order(&self) -> u64 {
        self.next_order
    }

    /// Notes that the ledger has the run at that place. `handed_over`: neroman
    /// gave it to this node once more.
    pub fn admitted(&mut self, token: &RunToken, handed_over: bool) {
        self.next_order += 1;
        if handed_over && self.recalled.remove(token).is_some() {
            self.oldest_recalled.retain(|oldest| oldest != token);
        }
    }

    /// Refuses a run that this node does not have any more, up to and including this
    /// generation, where neroman begins the next one.
    pub fn left(&mut self, token: RunToken, generation: u32) {
        if self.generations {
            self.recall(token, generation);
        }
    }

    /// Refuses the run from now on, up to and including this generation. An earlier neroman, which
    /// counts none (0), hands a run over again as it was.
    pub fn recall(&mut self, token: RunToken, generation: u32) {
        if generation == 0 {
            return;
        }
        if let Some(known) = self.recalled.get_mut(&token) {
            *known = generation.max(*known);
            return;
        }
        self.recalled.insert(token, generation);
        self.oldest_recalled.push_back(token);
        if self.oldest_recalled.len() > config::RECALLED_MAX
            && let Some(oldest) = self.oldest_recalled.pop_front()
        {
            self.recalled.remove(&oldest);
        }
    }

    /// Whether neroman may have given the run to another node, and not to this
    /// one since.
    pub fn was_recalled(&self, token: &RunToken, generation: u32) -> bool {
        let up_to = self.recalled.get(token);
        up_to.is_some_and(|up_to| generation <= *up_to)
    }

    /// Whether this node may get the run with a later generation.
    fn comes_again(&self, token: &RunToken) -> bool {
        self.recalled.get(token) != Some(&NEVER_AGAIN)
    }

    /// Keeps runs out while their folders are removed.
    pub fn begin_cleaning(&mut self, tokens: Vec<RunToken>) {
        self.cleaning.extend(tokens);
    }

    /// Notes that the folders of these runs are gone, or stay after all.
    pub fn cleaned(&mut self, tokens: &[RunToken]) {
        for token in tokens {
            self.cleaning.remove(token);
        }
    }

    pub fn is_cleaning(&self, token: &RunToken) -> bool {
        self.cleaning.contains(token)
    }
}

/// The refusal for an error of the disk. An error that may pass ends no run:
/// there will be space again, or a descriptor, and a file server answers again.
fn disk(why: String, error: Option<&io::Error>) -> Rejection {
    Rejection {
        later: error.is_some_and(passes),
        ..no(why, DISK)
    }
}

/// The refusal for an error of the ledger, with its causes.
fn refused_by_ledger(error: &WriteError) -> Rejection {
    let mut why = error.to_string();
    let mut cause = std::error::Error::source(error);
    let mut kernel = None;
    while let Some(source) = cause {
        why = format!("{why}: {source}");
        kernel = kernel.or_else(|| source.downcast_ref());
        cause = source.source();
    }
    disk(why, kernel)
}

/// Whether the system lacks something, or a disk gives no answer, only for now.
fn passes(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::NOSPC
                | Errno::DQUOT
                | Errno::MFILE
                | Errno::NFILE
                | Errno::NOMEM
                | Errno::NOBUFS
                | Errno::IO
                | Errno::INTR
                | Errno::AGAIN
                | Errno::BUSY
                | Errno::STALE
                | Errno::TIMEDOUT
                | Errno::REMOTEIO
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::NOTCONN
        )
    )
}

/// The generation with which a run is refused for good.
pub(super) const NEVER_AGAIN: u32 = u32::MAX;

const CLEANED_NOW: &str = "it is being cleaned right now";
/// The hint for an error of the disk.
const DISK: &str = "see to the node's disk, then try again";

impl<D: Driver> Agent<D> {
    /// Makes the folder of a cleaned run anew, with the records of its end.
    pub(super) fn raise(&self, token: RunToken, id: RunId) -> AdoptionResult {
        let paths = &self.setup.paths;
        let raised = match tombstone::read(paths, id, token) {
            Ok(None) => return AdoptionResult::Unknown,
            Err(error) if !may_pass(&error) => {
                tracing::error!(run = %id, %error, "what is kept of a cleaned run is damaged");
                return AdoptionResult::Unknown;
            }
            Ok(Some(gone)) => tombstone::raise(paths, self.ledger.deployment(), id, token, gone)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match raised {
            Ok(()) => AdoptionResult::Known,
            Err(why) => {
                AdoptionResult::NotNow(format!("cannot say how this cleaned run ended: {why}"))
            }
        }
    }

    pub(super) fn hand_over(
        &mut self,
        placing: PlacementResult,
        answer: oneshot::Sender<HandOverReply>,
    ) {
        let mut reply = HandOverReply {
            accepted: Vec::with_capacity(placing.placed.len()),
            refused: Vec::new(),
        };
        for refusal in placing.refused {
            let token = RunToken::from_slice(&refusal.token);
            let has = token.is_some_and(|token| self.has(&token));
            let entry = token.and_then(|token| self.entries.get(&token));
            let lacks_spec = entry.is_some_and(|entry| entry.unreadable.contains_key(&0));
            match token {
                // The spec that the run waits for did not come in.
                Some(token) if has && lacks_spec => {
                    if !refusal.later {
                        self.spec_refused(token, &refusal);
                    }
                    reply.refused.push(refusal);
                }
                // The run is accepted even if its folder could not be read just now, or another
                // request brought it in first.
                Some(_) if has => reply.accepted.push(refusal.token),
                _ => {
                    if let Some(token) = token.filter(|_| refusal.only_here) {
                        self.admission.recall(token, NEVER_AGAIN);
                    }
                    reply.refused.push(refusal);
                }
            }
        }
        for (token, generation) in placing.unknown {
            if self.has(&token) {
                reply.accepted.push(token.to_vec());
                continue;
            }
            // A hand-over of an earlier connection may come in late.
            self.admission.left(token, generation);
            reply.refused.push(unknown().about(token.to_vec()));
        }
        for placed in placing.placed {
            let (token, id, folder) = (placed.token, placed.id, placed.folder);
            let generation = placed.generation;
            match self.accept(placed) {
                Ok(()) => reply.accepted.push(token.to_vec()),
                Err(no) => {
                    if folder == Folder::New {
                        self.undo(token, id, generation);
                    }
                    reply.refused.push(no.about(token.to_vec()));
                }
            }
        }
        // A caller that has left asks again, and gets the same.
        let _ = answer.send(reply);
    }

    /// Tells people why a run's only usable spec is refused here.
    fn spec_refused(&mut self, token: RunToken, refusal: &Refusal) {
        let Some(entry) = self.entries.get(&token) else {
            return;
        };
        let what = FileFault::SpecRefused {
            why: refusal.why.clone(),
            hint: refusal.hint.clone(),
        };
        let spec = self.run_dir(entry.id).join(names::SPEC);
        self.set_unreadable(token, 0, vec![Unreadable::new(&spec, what)]);
    }

    /// Whether the run was accepted, and not recalled.
    fn has(&self, token: &RunToken) -> bool {
        let entry = self.entries.get(token);
        entry.is_some_and(|entry| !entry.recalled)
    }

    fn undo(&self, token: RunToken, id: RunId, generation: u32) {
        if self.has(&token) {
            return;
        }
        let run_dir = self.run_dir(id);
        if let Err(error) = unmake_up_to(&self.setup.paths, id, token, generation) {
            tracing::error!(run = %id, %error, "the spec of a refused run cannot be removed");
            // A run with a cancel request is never started.
            if let Err(error) = cancel_never(&run_dir, token) {
                tracing::error!(run = %id, %error, "a refused run lies there as if it was taken");
            }
        }
    }

    /// Gives an accepted run that was never started back to neroman, which hands
    /// it over again, its files first. False when that is impossible; then the
    /// run stays as it is.
    pub(super) fn give_back(&mut self, token: RunToken, why: &str) -> bool {
        let Some(entry) = self.entries.get(&token) else {
            return false;
        };
        let run_dir = self.run_dir(entry.id);
        let cancelled = self.core.run(&token).is_none_or(|run| run.cancelled);
        // A shim of an earlier launch may be on its way.
        let may_have_begun = entry.launched.is_some()
            || entry.incarnation > 0
            || !matches!(segments::newest(&run_dir), Ok(0));
        if cancelled || entry.cancels > 0 || may_have_begun {
            return false;
        }
        let Ok(spec) = spec::read(&self.setup.paths, entry.id, token) else {
            return false;
        };
        let id = entry.id;
        if let Err(error) = self.undo_accepted(token, id, spec.generation) {
            tracing::error!(run = %id, ?error, "the ledger does not take that a run is given back");
            return false;
        }
        tracing::info!(run = %id, why, "given back: neroman hands it over again");
        self.core.not_prepared(token, why, false);
        self.core.closed(token);
        self.drop_entry(token);
        self.followers.unknown(token, spec.generation, why);
        true
    }

    /// The refusal of a run that is kept out.
    fn refused_before(&self, token: &RunToken) -> Rejection {
        let no = no("this node refused it before", "start it again").here();
        Rejection {
            unknown: self.admission.comes_again(token),
            ..no
        }
    }

    /// A hand-over of a run that is here already.
    fn accept_again(
        &mut self,
        token: RunToken,
        id: RunId,
        generation: u32,
    ) -> Result<(), Rejection> {
        let Some(known) = self.entries.get_mut(&token) else {
            return Err(unknown());
        };
        if known.id != id {
            let why = format!("its token is that of run {}", known.id);
            return Err(no(why, "this is a mistake in neroman; please report it"));
        }
        if known.recalled {
            return Err(recalled(&self.run_dir(id)));
        }
        let holds_again = known.generation < generation;
        known.generation = known.generation.max(generation);
        if known.unreadable.contains_key(&0) {
            // The folder was there without a usable spec.
            self.read_spec_again(token);
        }
        if holds_again {
            // What was reported of an earlier hand-over counts no more.
            self.report(token);
        }
        Ok(())
    }

    /// A hand-over of a run whose folder an earlier one made.
    fn accept_old(&mut self, token: RunToken, id: RunId, generation: u32) -> Result<(), Rejection> {
        let refused = self.admission.was_recalled(&token, generation);
        let why = match self.adopt(token, id) {
            AdoptionResult::Known => {
                if let Some(entry) = self.entries.get_mut(&token) {
                    entry.generation = entry.generation.max(generation);
                }
                return Ok(());
            }
            AdoptionResult::Unknown if refused => return Err(self.refused_before(&token)),
            AdoptionResult::Unknown => "its folder is gone again".to_owned(),
            AdoptionResult::NotNow(why) => why,
        };
        // The run could not be written to the ledger, or not be read: both may pass.
        Err(later(why, DISK))
    }

    /// Removes the folder of a hand-over that came no farther.
    fn clear_leftover(&mut self, token: RunToken, id: RunId, generation: u32) -> Rejection {
        let run_dir = self.run_dir(id);
        let earlier = generation.saturating_sub(1);
        self.admission.recall(token, earlier);
        let why = match unmake_up_to(&self.setup.paths, id, token, earlier) {
            Ok(true) => "the folder of an earlier hand-over was removed".to_owned(),
            Ok(false) => "another hand-over makes its folder".to_owned(),
            Err(error) => format!("cannot remove {}: {error}", run_dir.display()),
        };
        later(why, "hand it over again")
    }

    fn accept(&mut self, placed: PlacedRun) -> Result<(), Rejection> {
        let PlacedRun {
            token,
            id,
            needs,
            request,
            turn,
            rules,
            folder,
            earlier,
            generation,
            sent_again,
            adopted,
        } = placed;
        if self.entries.contains_key(&token) {
            return self.accept_again(token, id, generation);
        }
        if self.admission.is_cleaning(&token) {
            return Err(later(CLEANED_NOW, "hand it over again"));
        }
        if folder == Folder::Old {
            return self.accept_old(token, id, generation);
        }
        if self.admission.was_recalled(&token, generation) {
            return Err(self.refused_before(&token));
        }
        if folder == Folder::Leftover {
            return Err(self.clear_leftover(token, id, generation));
        }
        match tombstone::read(&self.setup.paths, id, token) {
            Ok(None) => {}
            Ok(Some(_)) => return Err(later(CLEANED_NOW, "hand it over again")),
            Err(error) => {
                let path = tombstone::path(&self.setup.paths, id);
                let why = format!("cannot use {}: {error}", path.display());
                return Err(later(why, DISK));
            }
        }
        // A folder of its name lies here, without anything of it.
        if sent_again {
            self.admission.left(token, generation);
            return Err(unknown());
        }
        if let Some(earlier) = earlier {
            if self.is_open(&earlier) {
                return Err(still_live("named by --resume"));
            }
            if self.admission.is_cleaning(&earlier) {
                const HINT: &str = "start it without --resume";
                return Err(no("the run named by --resume is being cleaned", HINT));
            }
        }
        let order = self.admission.next_order();
        let accepted = self.ledger.accepted(token, id, order);
        accepted.map_err(|error| refused_by_ledger(&error))?;
        self.admission.admitted(&token, true);
        let mut entry = super::Entry::new(id);
        entry.generation = generation;
        entry.rules = rules;
        entry.fresh = true;
        entry.adopted = adopted;
        entry.earlier = earlier;
        self.entries.insert(token, entry);
        self.core
            .accept(token, id, order, needs)
            .map_err(|error| no(error.to_string(), "hand it over again"))?;
        self.core.set_cards(token, request, Vec::new());
        self.core.set_turn(token, turn);
        Ok(())
    }
}
