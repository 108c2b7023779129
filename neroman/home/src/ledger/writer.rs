//! The thread that owns the databases and the state.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use nero_model::{RequestId, RunId, RunToken};
use tokio::sync::{mpsc, oneshot, watch};

use super::delivery::{Delivery, Outbox};
use super::durable::CommitCounts;
use super::message::{DecisionFunction, Message, NoteChanges, Query, WriteResult};
use super::{Bell, NoRoom, WantsNotice};
use crate::clock::Clock;
use crate::failure::Failure;
use crate::folding::{OwnedPart, PartsOutcome, PendingFolds};
use crate::heap;
use crate::keep::{Batch, Databases, WriteFailure};
use crate::spec;
use nero_life::change::Change;
use nero_life::notices::{self, FoundNotice};
use nero_life::retry::{self, Next};
use nero_life::state::State;
use nero_life::waits::WaitIndex;
use nero_life::{abort, batch as batches, groups, locks, needs, processed, standing};

/// Messages of one transaction.
const BATCH_MAX: usize = 4096;

/// Changes from which on what they took for a while is worth giving back.
pub(super) const CHANGES_LARGE: usize = 1000;

/// An encoded answer, or why there is none.
type EncodedReply = Result<Vec<u8>, Failure>;

pub(super) struct Writer {
    pub(super) keep: Databases,
    pub(super) state: State,
    pub(super) folding: PendingFolds,
    /// What runs wait for in `state`, and in the batch that is being carried out.
    pub(super) waits: WaitIndex,
    pub(super) clock: Clock,
    pub(super) outbox: Outbox,
    pub(super) full: watch::Sender<Option<NoRoom>>,
    pub(super) again: watch::Sender<()>,
    /// Whether a write found no room since the last look.
    pub(super) refused: bool,
    pub(super) durable: Arc<CommitCounts>,
    /// Whether any notice is wanted by the present configuration.
    pub(super) wants_notice: WantsNotice,
    /// Changes since freed memory was given back.
    pub(super) changes: usize,
}

/// The replies to send once the batch is committed.
#[derive(Default)]
struct Replies {
    asks: Vec<Waiter>,
    notes: Vec<(oneshot::Sender<WriteResult<(), NoteChanges>>, NoteChanges)>,
    parts: Vec<AnsweredParts>,
}

struct Waiter {
    reply: oneshot::Sender<EncodedReply>,
    answer: EncodedReply,
    unwritten: Option<DecisionFunction>,
}

struct AnsweredParts {
    reply: oneshot::Sender<WriteResult<PartsOutcome, Vec<OwnedPart>>>,
    parts: Vec<OwnedPart>,
    outcome: PartsOutcome,
}

impl Writer {
    pub(super) fn run(mut self, mut rx: mpsc::Receiver<Message>) {
        while let Some(first) = rx.blocking_recv() {
            let mut messages = vec![first];
            while messages.len() < BATCH_MAX {
                match rx.try_recv() {
                    Ok(message) => messages.push(message),
                    Err(_) => break,
                }
            }
            let (others, parts) = self.apart(messages);
            let stop = self.batch(others);
            if stop || (!parts.is_empty() && self.batch(parts)) {
                break;
            }
        }
        tracing::debug!("ledger ended");
    }

    /// Sets journal bytes apart while there is no room: they need most of it, and
    /// small writes go on without them.
    fn apart(&self, messages: Vec<Message>) -> (Vec<Message>, Vec<Message>) {
        if self.full.borrow().is_none() {
            return (messages, Vec::new());
        }
        let is_other = |message: &Message| !matches!(message, Message::Parts { .. });
        messages.into_iter().partition(is_other)
    }

    /// Carries a batch out; returns whether it contained the order to stop.
    fn batch(&mut self, messages: Vec<Message>) -> bool {
        let mut work = self.state.clone();
        let mut batch = Batch::default();
        let mut answers = Replies::default();
        let mut read = Delivery::default();
        let mut given: HashMap<RequestId, Vec<u8>> = HashMap::new();
        let (mut stop, mut look, mut empty) = (false, false, false);
        let mut due: BTreeSet<RunId> = BTreeSet::new();
        for message in messages {
            let now_ms = self.clock.now_ms();
            match message {
                Message::Ask {
                    request,
                    decide,
                    unwritten,
                    reply,
                } => {
                    let result =
                        self.ask(&mut work, &mut batch, &mut given, (request, now_ms), decide);
                    answers.asks.push(Waiter {
                        reply,
                        answer: result,
                        unwritten,
                    });
                }
                Message::Note {
                    durable,
                    mut note,
                    reply,
                } => {
                    let changes = note(&work, now_ms);
                    batch.durable |= durable && !changes.is_empty();
                    self.take(&mut work, &mut batch, changes);
                    answers.notes.push((reply, note));
                }
                Message::Parts { parts, reply } => {
                    let outcome = self.fold(&mut work, &mut batch, &parts);
                    answers.parts.push(AnsweredParts {
                        reply,
                        parts,
                        outcome,
                    });
                }
                Message::Query(query) => self.answer(&work, query, &mut read),
                Message::RulesDue(runs) => due.extend(runs),
                Message::LookForRoom => look = true,
                Message::EmptyLogs => empty = true,
                Message::Stop => stop = true,
            }
        }
        // What was only read does not wait for the disk.
        self.outbox.send(read);
        let told = self.rules(&mut work, &mut batch, due);
        self.release(&mut work, &mut batch);
        if let Some(change) = notices::notices(&work, told, self.clock.now_ms()) {
            take(&mut work, &mut batch, vec![change]);
        }
        self.notice(&mut work, &mut batch);
        self.commit(work, batch, answers);
        if look {
            self.look_for_room();
        }
        if empty {
            self.rest();
        }
        stop || self.keep.is_broken() || self.outbox.is_closed()
    }

    /// Folds journal bytes; `work` has these folds before the next decision.
    fn fold(&mut self, work: &mut State, batch: &mut Batch, parts: &[OwnedPart]) -> PartsOutcome {
        let mut outcome = PartsOutcome::default();
        for part in parts {
            self.folding.part(work, &self.keep, part, &mut outcome);
        }
        let mut changes = self.folding.changes(batch);
        let anew = outcome.anew.iter();
        changes.extend(anew.filter_map(|run| processed::outdate(work, *run)));
        self.take(work, batch, changes);
        outcome
    }

    /// Answers what is only read.
    fn answer(&mut self, work: &State, query: Query, read: &mut Delivery) {
        match query {
            Query::Specs { runs, reply } => {
                let specs = runs.into_iter().map(|run| Ok((run, self.keep.spec(run)?)));
                let specs = specs.collect();
                read.reply(reply, specs);
            }
            Query::Positions { runs, reply } => {
                let stands = runs
                    .into_iter()
                    .map(|run| (run, self.folding.stands(work, &self.keep, run)))
                    .collect();
                read.reply(reply, stands);
            }
            Query::Keys { runs, reply } => {
                let keys = runs
                    .into_iter()
                    .filter_map(|run| Some((run, self.keep.key(run)?)))
                    .collect();
                read.reply(reply, keys);
            }
            Query::Events { experiment, reply } => {
                read.reply(reply, self.keep.events(experiment));
            }
            Query::Cells {
                experiments,
                is_newest,
                reply,
            } => {
                read.reply(reply, self.keep.cells(&experiments, is_newest));
            }
            Query::Letter { delivery, reply } => {
                read.reply(reply, self.keep.letter(delivery));
            }
        }
    }

    /// Decides a request, unless it was answered before: then it gets the same answer.
    fn ask(
        &self,
        work: &mut State,
        batch: &mut Batch,
        given: &mut HashMap<RequestId, Vec<u8>>,
        (request, now_ms): (Option<RequestId>, i64),
        decide: DecisionFunction,
    ) -> EncodedReply {
        if let Some(id) = request {
            let known = match given.get(&id) {
                Some(bytes) => Some(bytes.clone()),
                None => self.keep.answer(id)?,
            };
            if let Some(bytes) = known {
                return Ok(bytes);
            }
        }
        let decided = decide(work, now_ms)?;
        if let Some(id) = request {
            batch.answered(id, now_ms, decided.answer.clone());
            given.insert(id, decided.answer.clone());
        }
        batch.durable |= !decided.changes.is_empty();
        self.take(work, batch, decided.changes);
        Ok(decided.answer)
    }

    /// Applies changes. A run that follows by itself is made together with the end before it, and
    /// before the next message: a later abort finds the new run.
    fn take(&self, work: &mut State, batch: &mut Batch, changes: Vec<Change>) {
        let changed: BTreeSet<RunId> = changes.iter().filter_map(Change::run).collect();
        take(work, batch, changes);
        for run in changed {
            self.follow(work, batch, run);
        }
    }

    /// Makes the run that follows one by itself, if it ended and one does.
    fn follow(&self, work: &mut State, batch: &mut Batch, ended: RunId) {
        let now = self.clock.moment();
        let changes = match retry::next(work, ended, RunToken::random, &now) {
            None => return,
            Some(Next::None(changes)) => changes,
            Some(Next::Run { mut new, event }) => {
                let spec = self.keep.spec(ended).flatten();
                match spec.and_then(|spec| spec::again(&spec, &new.made)) {
                    Ok(spec) => {
                        new.spec = spec.into();
                        // Its node may get it next. After a power cut another run would
                        // be made beside that one.
                        batch.durable = true;
                        vec![Change::Run(Arc::new(*new)), event]
                    }
                    Err(failure) => {
                        let why = format!("not run again: {failure}");
                        let run = work.run(ended);
                        run.map_or_else(Vec::new, |run| retry::forgone(run, why, now.ms))
                    }
                }
            }
        };
        tracing::info!(run = %ended, "what follows its end is decided");
        take(work, batch, changes);
    }

    /// Evaluates the rules of the daemon of all runs that changed, or are `due`; returns what
    /// people are told of it. A rule that ends a run changes it once more.
    fn rules(&self, work: &mut State, batch: &mut Batch, due: BTreeSet<RunId>) -> Vec<FoundNotice> {
        let mut told = Vec::new();
        if work.daemon_rules.is_empty() {
            return told;
        }
        let mut looked = due;
        looked.extend(batch.touched());
        for id in batch.experiments() {
            let live = work.experiment(id).into_iter().flat_map(|one| one.live());
            looked.extend(live.map(|run| run.made.id));
        }
        while let Some(id) = looked.pop_first() {
            let now = self.clock.moment();
            let fired = standing::evaluate(work, id, self.state.run(id), &now);
            if fired.changes.is_empty() {
                continue;
            }
            let wants = &*self.wants_notice;
            told.extend(fired.notices.into_iter().filter(|(_, _, kind)| wants(kind)));
            batch.durable = true;
            let before = batch.touched();
            self.take(work, batch, fired.changes);
            looked.insert(id);
            let more = batch.touched().into_iter();
            looked.extend(more.filter(|run| !before.contains(run)));
        }
        told
    }

    /// Lets runs go on that waited for the end of an earlier one, and holds or lets go the
    /// others of its batch.
    fn release(&mut self, work: &mut State, batch: &mut Batch) {
        let touched = batch.touched();
        self.release_waiting(work, batch, !batch.experiments().is_empty());
        let now_ms = self.clock.now_ms();
        let changes = batches::follow(&self.state, work, touched.iter().copied(), now_ms);
        take(work, batch, changes);
        let changes = batches::next_in_line(&self.state, work, batch.touched(), now_ms);
        take(work, batch, changes);
        let mut is_released = false;
        for run in touched {
            let now_ms = self.clock.now_ms();
            if let Some((_, changes)) = abort::released_by(&self.state, work, run, now_ms) {
                take(work, batch, changes);
                is_released = true;
            }
        }
        if is_released {
            // They may have nodes now, for which others wait.
            self.release_waiting(work, batch, false);
        }
    }

    /// Lets runs go on whose other experiments are far enough.
    fn release_waiting(&mut self, work: &mut State, batch: &mut Batch, described: bool) {
        let concerns = |run: &RunId| {
            let (before, after) = (self.state.run(*run), work.run(*run));
            groups::concerns_others(before, after)
        };
        let touched = batch.touched();
        let changed: Vec<RunId> = if work.waiting.is_empty() {
            Vec::new()
        } else {
            touched.into_iter().filter(concerns).collect()
        };
        let now_ms = self.clock.now_ms();
        let changes = self.waits.release(work, &changed, described, now_ms);
        take(work, batch, changes);
    }

    /// Adds what people are to be told of these changes.
    fn notice(&self, work: &mut State, batch: &mut Batch) {
        let notables = batch.take_notables();
        let now_ms = self.clock.now_ms();
        let touched = batch.touched();
        let wants = &*self.wants_notice;
        let changes = notices::decide(&self.state, work, touched, &notables, wants, now_ms);
        if !changes.is_empty() {
            take(work, batch, changes);
        }
    }

    /// Empties the logs and gives back memory that large changes freed.
    fn rest(&mut self) {
        if self.full.borrow().is_none() {
            self.keep.empty_logs();
        }
        if self.changes >= CHANGES_LARGE {
            heap::give_back();
            // The answer to a large change may still be held.
            self.changes /= 2;
        }
    }

    fn commit(&mut self, work: State, batch: Batch, mut answers: Replies) {
        let touched = batch.touched();
        let closed: Vec<RunId> = touched
            .iter()
            .copied()
            .filter(|id| {
                let closed = |state: &State| {
                    state
                        .run(*id)
                        .is_some_and(|run| run.is_closed() && !run.asks_for_points())
                };
                closed(&work) && !closed(&self.state)
            })
            .collect();
        // A node forgets a closed run: its points must be safe before.
        match self.write(&work, &batch, &closed) {
            Ok(()) => {
                self.folding.committed();
                self.durable.committed();
                self.changes += batch.len();
                if self.state.experiments.is_empty() && !work.experiments.is_empty() {
                    // `state.db` without its log shows from now on that the home is used.
                    self.keep.empty_logs();
                }
                self.folding.closed(&closed);
                self.keep.forget_positions(&closed);
                let before = std::mem::replace(&mut self.state, work);
                let mut delivery = Delivery::default();
                if !batch.is_empty() {
                    delivery.state = Some(Arc::new(self.state.clone()));
                    delivery.kinds = batch.kinds();
                }
                answers.tell(&mut delivery);
                for run in touched {
                    let (before, after) = (before.run(run), self.state.run(run));
                    if needs::changed(before, after) {
                        delivery.bells.push((run, Bell::Node));
                    }
                    if needs::deferred(before, after)
                        || locks::may_free(before, after, self.state.apart > 0)
                    {
                        delivery.bells.push((run, Bell::Placer));
                    }
                }
                self.outbox.send(delivery);
            }
            Err(unwritten) => {
                self.folding.forget();
                self.waits.forget();
                self.say(&unwritten);
                let mut delivery = Delivery::default();
                if unwritten.no_room {
                    self.go_on_unwritten(&mut answers, &mut delivery);
                }
                answers.refuse(&unwritten, &mut delivery);
                self.outbox.send(delivery);
            }
        }
    }

    /// Applies in memory the requests that must not wait for room.
    fn go_on_unwritten(&mut self, answers: &mut Replies, delivery: &mut Delivery) {
        for mut asked in std::mem::take(&mut answers.asks) {
            let Some(decide) = asked.unwritten.take().filter(|_| asked.answer.is_ok()) else {
                answers.asks.push(asked);
                continue;
            };
            let answer = decide(&self.state, self.clock.now_ms()).map(|decided| {
                let mut work = self.state.clone();
                let mut batch = Batch::default();
                take(&mut work, &mut batch, decided.changes);
                self.state = work;
                delivery.state = Some(Arc::new(self.state.clone()));
                delivery.kinds.add(batch.kinds());
                let touched = batch.touched().into_iter();
                delivery.bells.extend(touched.map(|run| (run, Bell::Node)));
                decided.answer
            });
            delivery.reply(asked.reply, answer);
        }
    }

    fn write(&mut self, work: &State, batch: &Batch, closed: &[RunId]) -> Result<(), WriteFailure> {
        // A node forgets a closed run: its points must be safe before.
        if !closed.is_empty() {
            self.keep.sync_series()?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.keep.write(work, batch)
    }

    /// Logs why nothing was written; a lack of room once, while it lasts.
    fn say(&mut self, unwritten: &WriteFailure) {
        let WriteFailure { failure, no_room } = unwritten;
        self.refused |= no_room;
        if !no_room {
            tracing::error!(%failure, "database not written");
        } else if self.full.borrow().is_none() {
            tracing::error!(%failure, hint = failure.hint_text(), "waiting for room");
            self.full.send_replace(Some(NoRoom {
                since_ms: self.clock.now_ms(),
                failure: failure.clone(),
            }));
        }
    }

    /// Ends the lack of room when both the writes that waited and the next writes
    /// fit.
    fn look_for_room(&mut self) {
        let refused = std::mem::take(&mut self.refused);
        if self.full.borrow().is_some() {
            match self.keep.has_room() {
                Ok(true) if !refused => {
                    tracing::info!("there is room again");
                    self.full.send_replace(None);
                }
                Ok(_) => {}
                Err(error) => tracing::error!(%error, "database not written"),
            }
        }
        self.again.send_replace(());
    }
}

impl Replies {
    fn tell(self, delivery: &mut Delivery) {
        for asked in self.asks {
            delivery.reply(asked.reply, asked.answer);
        }
        for (reply, _) in self.notes {
            delivery.reply(reply, Ok(()));
        }
        for told in self.parts {
            delivery.reply(told.reply, Ok(told.outcome));
        }
    }

    /// Returns the messages that were not written to their callers.
    fn refuse(self, why: &WriteFailure, delivery: &mut Delivery) {
        for asked in self.asks {
            let answer = asked.answer.and_then(|_| Err(why.failure.clone()));
            delivery.reply(asked.reply, answer);
        }
        for (reply, note) in self.notes {
            delivery.reply(reply, Err((note, why.clone())));
        }
        for told in self.parts {
            delivery.reply(told.reply, Err((told.parts, why.clone())));
        }
    }
}

fn take(work: &mut State, batch: &mut Batch, changes: Vec<Change>) {
    for change in changes {
        work.apply(&change);
        batch.push(change);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nero_format::{FollowUp, Retry};
    use nero_journal::v1::lost;
    use nero_life::change::NewRun;
    use nero_life::journal::{Incarnation, Journal, Key, Lost};
    use nero_life::run::RunRecord;
    use nero_model::{ExperimentId, Home};
    use nero_wire::v1;

    use super::*;
    use crate::adopt::adopt;

    const FIRST: RunId = RunId {
        experiment: ExperimentId(1),
        number: 1,
    };

    /// A writer over a home with one run, which is retried.
    fn writer(home: &Home) -> Writer {
        let (mut keep, mut state) = Databases::open(home, 0).unwrap();
        let spec = v1::RunSpec {
            token: RunToken::random().to_vec(),
            experiment: 1,
            number: 1,
            name: "a".to_owned(),
            argv: vec!["true".to_owned()],
            ..v1::RunSpec::default()
        };
        let mut batch = Batch::default();
        for change in adopt(&state, "local", Path::new("/lab"), vec![spec], 0).changes {
            let change = match change {
                Change::Run(new) => Change::Run(Arc::new(retried(&new))),
                other => other,
            };
            take(&mut state, &mut batch, vec![change]);
        }
        keep.write(&state, &batch).unwrap();
        Writer {
            durable: CommitCounts::new(home),
            full: watch::channel(None).0,
            again: watch::channel(()).0,
            refused: false,
            folding: PendingFolds::default(),
            waits: WaitIndex::default(),
            outbox: Outbox::new().0,
            wants_notice: Arc::new(|_| false),
            changes: 0,
            clock: Clock::system(),
            keep,
            state,
        }
    }

    fn retried(new: &NewRun) -> NewRun {
        let again = FollowUp {
            retry: Some(Retry::default()),
            ..FollowUp::default()
        };
        NewRun {
            made: Arc::new(RunRecord {
                again: again.into(),
                ..(*new.made).clone()
            }),
            ..new.clone()
        }
    }

    #[test]
    fn a_run_that_follows_by_itself_is_synced_before_its_node_may_get_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::below(folder.path());
        nero_model::paths::make_private(&home.data).unwrap();
        let writer = writer(&home);
        let (mut work, mut batch) = (writer.state.clone(), Batch::default());
        let lost = Incarnation {
            started_ms: Some(1),
            lost: Some(Box::new(Lost {
                key: Key::default(),
                reason: lost::Reason::Rebooted.into(),
                detail: String::new(),
                at_ms: 2,
            })),
            ..Incarnation::default()
        };
        let mut journal = Journal::default();
        journal.incarnations.insert(1, lost.into());
        let change = Change::Journal {
            run: FIRST,
            journal: Arc::new(journal),
        };
        writer.take(&mut work, &mut batch, vec![change]);
        let next = RunId { number: 2, ..FIRST };
        assert!(work.run(next).is_some());
        assert!(batch.durable);
    }
}
