//! The one writer: owns the databases and the state, on a thread of its own.
//!
//! Whatever gathered while a commit was in flight is decided in order, over
//! one working copy of the state, and committed together; only then are the
//! callers answered, the new state published and the nodes told. A commit that
//! fails changes nothing: the working copy is dropped.
//!
//! Where it failed since the disk is full, people are refused, and what nodes
//! did and said waits with its callers until there is room: nothing of it is
//! acknowledged before.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use nero_model::{ExperimentId, RequestId, RunId};
use nero_store::{Event, RunKey};
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::core::change::Change;
use crate::core::state::State;
use crate::core::{abort, needs};
use crate::failure::Failure;
use crate::folding::{Folding, OwnedPart, PartsOutcome, Stand};
use crate::keep::{Batch, Keep, Unwritten};

/// Messages that wait for the writer. More than all clients and nodes send at
/// once; when it is full, senders wait.
const MAILBOX: usize = 1024;
/// Messages of one transaction.
const BATCH_MAX: usize = 4096;
/// How often what waits for room is tried again; no event tells of room.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a decision amounts to.
#[derive(Debug, Default)]
pub(crate) struct Decided<T> {
    pub answer: T,
    pub changes: Vec<Change>,
}

type NoteChanges = Box<dyn FnMut(&State, i64) -> Vec<Change> + Send>;
/// That something was written, or what was not, and why.
type Written<T, W> = Result<T, (W, Unwritten)>;
/// An encoded answer, or why there is none.
type Answer = Result<Vec<u8>, Failure>;

/// Encoded specs with their runs.
pub(crate) type Specs = Vec<(RunId, Vec<u8>)>;

type Decide = Box<dyn FnOnce(&State, i64) -> Result<Decided<Vec<u8>>, Failure> + Send>;

enum Message {
    /// A request of a person: durable before it is answered.
    Ask {
        request: Option<RequestId>,
        decide: Decide,
        reply: oneshot::Sender<Result<Vec<u8>, Failure>>,
    },
    /// What a node did: can be told again by the node.
    Note {
        durable: bool,
        note: NoteChanges,
        reply: oneshot::Sender<Written<(), NoteChanges>>,
    },
    /// Journal bytes.
    Parts {
        parts: Vec<OwnedPart>,
        reply: oneshot::Sender<Written<PartsOutcome, Vec<OwnedPart>>>,
    },
    /// The encoded specs of runs.
    Specs {
        runs: Vec<RunId>,
        reply: oneshot::Sender<Result<Specs, Failure>>,
    },
    /// Where both databases stand in the segments of a run.
    Positions {
        runs: Vec<RunId>,
        reply: oneshot::Sender<Vec<(RunId, Vec<Stand>)>>,
    },
    /// The keys of runs in the database of series.
    Keys {
        runs: Vec<RunId>,
        reply: oneshot::Sender<Vec<(RunId, RunKey)>>,
    },
    /// The history of an experiment.
    Events {
        experiment: ExperimentId,
        reply: oneshot::Sender<Result<Vec<Event>, Failure>>,
    },
    /// To see whether a disk that was full has room again.
    LookForRoom,
    Stop,
}

/// Told of every run that changed, after the change is committed.
pub(crate) type Listener = Arc<dyn Fn(&State, RunId) + Send + Sync>;

/// That the disk has no room for the databases.
#[derive(Clone, Debug)]
pub(crate) struct NoRoom {
    /// When that was noticed.
    pub since_ms: i64,
    /// What is told to whoever wants something written.
    pub failure: Failure,
}

/// The way to the writer.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    tx: mpsc::Sender<Message>,
    state: watch::Receiver<Arc<State>>,
    full: watch::Receiver<Option<NoRoom>>,
    /// Rung whenever what waits for room is to be tried again.
    again: watch::Receiver<()>,
}

/// The writer's thread; joined when the daemon stops.
#[derive(Debug)]
pub(crate) struct LedgerThread {
    thread: std::thread::JoinHandle<()>,
}

impl LedgerThread {
    /// Waits until the last commit is done. Call [`Ledger::stop`] before.
    pub(crate) fn join(self) -> std::thread::Result<()> {
        self.thread.join()
    }
}

impl Ledger {
    /// Starts the writer over what the databases hold.
    ///
    /// # Errors
    /// When no thread can be made.
    pub(crate) fn start(
        keep: Keep,
        state: State,
        clock: Clock,
        listener: Listener,
    ) -> std::io::Result<(Self, LedgerThread)> {
        let (tx, rx) = mpsc::channel(MAILBOX);
        let (publish, published) = watch::channel(Arc::new(state.clone()));
        let (tell_full, full) = watch::channel(None);
        let (ring, again) = watch::channel(());
        let writer = Writer {
            full: tell_full,
            again: ring,
            refused: false,
            folding: Folding::default(),
            keep,
            state,
            clock,
            publish,
            listener,
        };
        let thread = std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || writer.run(rx))?;
        let ledger = Self {
            tx,
            state: published,
            full,
            again,
        };
        Ok((ledger, LedgerThread { thread }))
    }

    /// The committed state.
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.borrow())
    }

    /// Tells of every new committed state.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<State>> {
        self.state.clone()
    }

    /// Carries a person's request out: durable when this returns. A request
    /// that was answered before gets that answer again.
    ///
    /// # Errors
    /// What the decision says, or that it could not be written.
    pub(crate) async fn ask<T: prost::Message + Default + 'static>(
        &self,
        request: &[u8],
        decide: impl FnOnce(&State, i64) -> Result<Decided<T>, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let request = request_id(request)?;
        let (reply, answer) = oneshot::channel();
        let decide: Decide = Box::new(move |state, now_ms| {
            let decided = decide(state, now_ms)?;
            Ok(Decided {
                answer: decided.answer.encode_to_vec(),
                changes: decided.changes,
            })
        });
        self.send(Message::Ask {
            request,
            decide,
            reply,
        })
        .await?;
        let bytes = answer.await.map_err(|_| leaving())??;
        T::decode(bytes.as_slice())
            .map_err(|error| Failure::bug("a stored answer cannot be read").caused_by(&error))
    }

    /// The answer that a request got before.
    pub(crate) async fn answered<T: prost::Message + Default + 'static>(
        &self,
        request: &[u8],
    ) -> Result<Option<T>, Failure> {
        if request.is_empty() {
            return Ok(None);
        }
        // An empty decision that is refused when the request is new.
        let (reply, answer) = oneshot::channel();
        self.send(Message::Ask {
            request: request_id(request)?,
            decide: Box::new(|_, _| Err(Failure::failed("not answered before"))),
            reply,
        })
        .await?;
        match answer.await.map_err(|_| leaving())? {
            Ok(bytes) => T::decode(bytes.as_slice())
                .map(Some)
                .map_err(|error| Failure::bug("a stored answer cannot be read").caused_by(&error)),
            Err(_) => Ok(None),
        }
    }

    /// Writes down what a node did or said; while there is no room for it, this
    /// waits. `note` is called anew then, with the state of that moment.
    ///
    /// # Errors
    /// When it could not be written; the node can tell it again.
    pub(crate) async fn note(
        &self,
        durable: bool,
        note: impl FnMut(&State, i64) -> Vec<Change> + Send + 'static,
    ) -> Result<(), Failure> {
        let mut note: NoteChanges = Box::new(note);
        let mut again = self.again();
        loop {
            note = match self.try_note(durable, note).await? {
                Ok(()) => return Ok(()),
                Err((back, unwritten)) if unwritten.no_room => back,
                Err((_, unwritten)) => return Err(unwritten.failure),
            };
            again.changed().await.map_err(|_| leaving())?;
        }
    }

    /// The same for what a person waits for: refused while there is no room.
    ///
    /// # Errors
    /// When it could not be written.
    pub(crate) async fn note_now(
        &self,
        durable: bool,
        note: impl FnMut(&State, i64) -> Vec<Change> + Send + 'static,
    ) -> Result<(), Failure> {
        let written = self.try_note(durable, Box::new(note)).await?;
        written.map_err(|(_, unwritten)| unwritten.failure)
    }

    async fn try_note(
        &self,
        durable: bool,
        note: NoteChanges,
    ) -> Result<Written<(), NoteChanges>, Failure> {
        let (reply, done) = oneshot::channel();
        self.send(Message::Note {
            durable,
            note,
            reply,
        })
        .await?;
        done.await.map_err(|_| leaving())
    }

    /// Folds journal bytes; while there is no room for them, this waits.
    ///
    /// # Errors
    /// When they could not be written; ask for them again.
    pub(crate) async fn parts(&self, mut parts: Vec<OwnedPart>) -> Result<PartsOutcome, Failure> {
        let mut again = self.again();
        loop {
            let (reply, done) = oneshot::channel();
            self.send(Message::Parts { parts, reply }).await?;
            parts = match done.await.map_err(|_| leaving())? {
                Ok(outcome) => return Ok(outcome),
                Err((back, unwritten)) if unwritten.no_room => back,
                Err((_, unwritten)) => return Err(unwritten.failure),
            };
            again.changed().await.map_err(|_| leaving())?;
        }
    }

    /// That there is no room for the databases, while it is so.
    pub(crate) fn no_room(&self) -> Option<NoRoom> {
        self.full.borrow().clone()
    }

    /// Tells of every later moment to try again.
    fn again(&self) -> watch::Receiver<()> {
        let mut again = self.again.clone();
        again.mark_unchanged();
        again
    }

    /// Has the writer look for room whenever the disk was found full, until it
    /// ends. Nothing that waits for room goes on without.
    pub(crate) async fn look_for_room(&self) {
        let mut full = self.full.clone();
        while full.wait_for(Option::is_some).await.is_ok() {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.send(Message::LookForRoom).await.is_err() {
                return;
            }
        }
    }

    /// The encoded specs of runs, as they were made.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(crate) async fn specs(&self, runs: Vec<RunId>) -> Result<Specs, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Specs { runs, reply }).await?;
        answer.await.map_err(|_| leaving())?
    }

    /// Where both databases stand.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) async fn positions(
        &self,
        runs: Vec<RunId>,
    ) -> Result<Vec<(RunId, Vec<Stand>)>, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Positions { runs, reply }).await?;
        answer.await.map_err(|_| leaving())
    }

    /// The keys of runs in the database of series.
    ///
    /// # Errors
    /// When the daemon is leaving.
    pub(crate) async fn keys(&self, runs: Vec<RunId>) -> Result<Vec<(RunId, RunKey)>, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Keys { runs, reply }).await?;
        answer.await.map_err(|_| leaving())
    }

    /// The history of an experiment, oldest first.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn events(&self, experiment: ExperimentId) -> Result<Vec<Event>, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Events { experiment, reply }).await?;
        answer.await.map_err(|_| leaving())?
    }

    /// Ends the writer once everything sent before is committed.
    pub(crate) async fn stop(&self) {
        let _ = self.tx.send(Message::Stop).await;
    }

    async fn send(&self, message: Message) -> Result<(), Failure> {
        self.tx.send(message).await.map_err(|_| leaving())
    }
}

fn request_id(bytes: &[u8]) -> Result<Option<RequestId>, Failure> {
    if bytes.is_empty() {
        return Ok(None);
    }
    RequestId::from_slice(bytes)
        .map(Some)
        .ok_or_else(|| Failure::usage("a request id has 16 bytes"))
}

fn leaving() -> Failure {
    Failure::daemon("the daemon is leaving").hint("try again")
}

struct Writer {
    keep: Keep,
    state: State,
    folding: Folding,
    clock: Clock,
    publish: watch::Sender<Arc<State>>,
    full: watch::Sender<Option<NoRoom>>,
    again: watch::Sender<()>,
    /// Something found no room since it was last looked for.
    refused: bool,
    listener: Listener,
}

/// What is told to whom once the batch is committed.
#[derive(Default)]
struct Answers {
    asks: Vec<(oneshot::Sender<Answer>, Answer)>,
    notes: Vec<(oneshot::Sender<Written<(), NoteChanges>>, NoteChanges)>,
    parts: Vec<AnsweredParts>,
}

struct AnsweredParts {
    reply: oneshot::Sender<Written<PartsOutcome, Vec<OwnedPart>>>,
    parts: Vec<OwnedPart>,
    outcome: PartsOutcome,
}

impl Writer {
    fn run(mut self, mut rx: mpsc::Receiver<Message>) {
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
    /// what needs little goes on without them.
    fn apart(&self, messages: Vec<Message>) -> (Vec<Message>, Vec<Message>) {
        if self.full.borrow().is_none() {
            return (messages, Vec::new());
        }
        let is_other = |message: &Message| !matches!(message, Message::Parts { .. });
        messages.into_iter().partition(is_other)
    }

    /// Carries a batch out; whether it held the order to stop.
    fn batch(&mut self, messages: Vec<Message>) -> bool {
        let mut work = self.state.clone();
        let mut batch = Batch::default();
        let mut answers = Answers::default();
        let mut given: HashMap<RequestId, Vec<u8>> = HashMap::new();
        let (mut stop, mut look) = (false, false);
        for message in messages {
            let now_ms = self.clock.now_ms();
            match message {
                Message::Ask {
                    request,
                    decide,
                    reply,
                } => {
                    let known = match request {
                        Some(id) => match given.get(&id) {
                            Some(bytes) => Ok(Some(bytes.clone())),
                            None => self.keep.answer(id),
                        },
                        None => Ok(None),
                    };
                    let result = match known {
                        Ok(Some(bytes)) => Ok(bytes),
                        Ok(None) => decide(&work, now_ms).map(|decided| {
                            if let Some(id) = request {
                                batch.answered(id, now_ms, decided.answer.clone());
                                given.insert(id, decided.answer.clone());
                            }
                            batch.durable |= !decided.changes.is_empty();
                            take(&mut work, &mut batch, decided.changes);
                            decided.answer
                        }),
                        Err(failure) => Err(failure),
                    };
                    answers.asks.push((reply, result));
                }
                Message::Note {
                    durable,
                    mut note,
                    reply,
                } => {
                    let changes = note(&work, now_ms);
                    batch.durable |= durable && !changes.is_empty();
                    take(&mut work, &mut batch, changes);
                    answers.notes.push((reply, note));
                }
                Message::Parts { parts, reply } => {
                    let mut outcome = PartsOutcome::default();
                    for part in &parts {
                        self.folding.part(&work, &self.keep, part, &mut outcome);
                    }
                    // The state has to show what was folded before anything
                    // else is decided over it.
                    let changes = self.folding.changes(&mut batch);
                    take(&mut work, &mut batch, changes);
                    answers.parts.push(AnsweredParts {
                        reply,
                        parts,
                        outcome,
                    });
                }
                Message::Specs { runs, reply } => {
                    let specs = runs
                        .into_iter()
                        .map(|run| Ok((run, self.keep.spec(run)?)))
                        .collect();
                    let _ = reply.send(specs);
                }
                Message::Positions { runs, reply } => {
                    let stands = runs
                        .into_iter()
                        .map(|run| (run, self.folding.stands(&work, &self.keep, run)))
                        .collect();
                    let _ = reply.send(stands);
                }
                Message::Keys { runs, reply } => {
                    let keys = runs
                        .into_iter()
                        .filter_map(|run| Some((run, self.keep.key(run)?)))
                        .collect();
                    let _ = reply.send(keys);
                }
                Message::Events { experiment, reply } => {
                    let _ = reply.send(self.keep.events(experiment));
                }
                Message::LookForRoom => look = true,
                Message::Stop => stop = true,
            }
        }
        self.release(&mut work, &mut batch);
        self.commit(work, batch, answers);
        if look {
            self.look_for_room();
        }
        stop || self.keep.is_broken()
    }

    /// Runs that waited for the end of an earlier one go on.
    fn release(&self, work: &mut State, batch: &mut Batch) {
        for run in batch.touched() {
            let ended = |state: &State| state.run(run).is_some_and(|run| run.phase().is_end());
            if ended(work)
                && !ended(&self.state)
                && let Some((_, change)) = abort::released(work, run)
            {
                take(work, batch, vec![change]);
            }
        }
    }

    fn commit(&mut self, work: State, batch: Batch, answers: Answers) {
        let touched = batch.touched();
        let closed: Vec<RunId> = touched
            .iter()
            .copied()
            .filter(|id| {
                let closed = |state: &State| state.run(*id).is_some_and(|run| run.desk.closed);
                closed(&work) && !closed(&self.state)
            })
            .collect();
        // A node forgets a closed run: its points have to be safe before.
        match self.write(&work, &batch, &closed) {
            Ok(()) => {
                self.folding.committed();
                self.keep.forget_positions(&closed);
                let before = std::mem::replace(&mut self.state, work);
                if !batch.is_empty() {
                    self.publish.send_replace(Arc::new(self.state.clone()));
                }
                answers.tell();
                for run in touched {
                    if needs::changed(before.run(run), self.state.run(run)) {
                        (self.listener)(&self.state, run);
                    }
                }
            }
            Err(unwritten) => {
                self.folding.forget();
                self.say(&unwritten);
                answers.refuse(&unwritten);
            }
        }
    }

    fn write(&mut self, work: &State, batch: &Batch, closed: &[RunId]) -> Result<(), Unwritten> {
        // A node forgets a closed run: its points have to be safe before.
        if !closed.is_empty() {
            self.keep.sync_series()?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.keep.write(work, batch)
    }

    /// Says why nothing was written; a lack of room once, while it lasts.
    fn say(&mut self, unwritten: &Unwritten) {
        let Unwritten { failure, no_room } = unwritten;
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

    /// There is room when what waited for it found some, and whoever comes next
    /// would, too.
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

impl Answers {
    fn tell(self) {
        // Whoever asked may be gone; the answer is kept for a repeat.
        for (reply, answer) in self.asks {
            let _ = reply.send(answer);
        }
        for (reply, _) in self.notes {
            let _ = reply.send(Ok(()));
        }
        for told in self.parts {
            let _ = told.reply.send(Ok(told.outcome));
        }
    }

    /// Gives back what was not written.
    fn refuse(self, why: &Unwritten) {
        for (reply, answer) in self.asks {
            let _ = reply.send(answer.and_then(|_| Err(why.failure.clone())));
        }
        for (reply, note) in self.notes {
            let _ = reply.send(Err((note, why.clone())));
        }
        for told in self.parts {
            let _ = told.reply.send(Err((told.parts, why.clone())));
        }
    }
}

fn take(work: &mut State, batch: &mut Batch, changes: Vec<Change>) {
    for change in changes {
        work.apply(&change);
        batch.push(change);
    }
}

/// The experiments of changes that `last` means afterwards.
pub(crate) fn last(ids: impl IntoIterator<Item = ExperimentId>) -> Change {
    let mut ids: Vec<ExperimentId> = ids.into_iter().collect();
    ids.sort_unstable();
    ids.dedup();
    Change::Last(ids.into())
}
