//! The one writer: owns the databases and the state, on a thread of its own.
//!
//! All messages that arrived during a commit are decided in order, over one
//! working copy of the state, and committed together; only then are the callers
//! answered, the new state published and the nodes told, by a task of the runtime
//! (`delivery`) that gets each batch in one message. If a commit fails, the
//! working copy is dropped and nothing has changed.
//!
//! If it failed because the disk is full, people's requests are refused, and
//! the reports of nodes wait with their callers until there is room: none is
//! acknowledged before.

pub mod author;
mod decision;
mod delivery;
mod durable;
mod message;
mod news;
mod reads;
mod upkeep;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use nero_life::change::Change;
use nero_life::input::Input;
use nero_life::notices::NoticeKind;
use nero_life::state::State;
use nero_life::waits::WaitIndex;
use nero_model::{ExperimentId, RequestId, RunId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::failure::Failure;
use crate::folding::{OwnedPart, PartsOutcome, PendingFolds};
use crate::keep::Databases;
pub use decision::{Decision, LatePolicy};
use delivery::Outbox;
use durable::CommitCounts;
use message::{DecisionFunction, Message, NoteChanges, WriteResult};
pub use news::{Audience, StateWatch};
use news::{Publisher, Subscriptions};
use writer::Writer;

/// Messages that wait for the writer. More than all clients and nodes send at
/// once; when it is full, senders wait.
const MAILBOX: usize = 1024;

/// Called with all runs that one commit changed, after it. They come together, so that
/// a scheduler gets what one command started as one submission.
pub type Listener = Arc<dyn Fn(&State, &[(RunId, Bell)]) + Send + Sync>;

/// Returns whether anybody wants to hear of such a thing by the present configuration.
pub type WantsNotice = Arc<dyn Fn(&NoticeKind) -> bool + Send + Sync>;

/// The task that a changed run concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bell {
    /// The driver of its node, or the placer if it has no node yet.
    Node,
    /// The placer: the node cannot take the run for now.
    Placer,
}

/// Present while the disk has no room for the databases.
#[derive(Clone, Debug)]
pub struct NoRoom {
    /// Time at which that was noticed.
    pub since_ms: i64,
    /// The error for callers that want something written.
    pub failure: Failure,
}

/// The handle of the writer.
#[derive(Clone, Debug)]
pub struct Ledger {
    tx: mpsc::Sender<Message>,
    news: Subscriptions,
    full: watch::Receiver<Option<NoRoom>>,
    /// Rung when the messages that wait for room are to be tried again.
    again: watch::Receiver<()>,
    durable: Arc<CommitCounts>,
}

/// The writer's thread; joined when the daemon stops.
#[derive(Debug)]
pub struct LedgerThread {
    thread: std::thread::JoinHandle<()>,
}

impl LedgerThread {
    /// Waits until the last commit is done. Call [`Ledger::stop`] before.
    pub fn join(self) -> std::thread::Result<()> {
        self.thread.join()
    }
}

impl Ledger {
    /// Starts the writer over what the databases hold. Called in a runtime, which gets what the
    /// writer hands over.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn start(
        keep: Databases,
        state: State,
        clock: Clock,
        listener: Listener,
        wants_notice: WantsNotice,
    ) -> std::io::Result<(Self, LedgerThread)> {
        let (tx, rx) = mpsc::channel(MAILBOX);
        let (publisher, news) = Publisher::new(Arc::new(state.clone()));
        let (tell_full, full) = watch::channel(None);
        let (ring, again) = watch::channel(());
        let durable = CommitCounts::new(keep.home());
        let (outbox, deliveries) = Outbox::new();
        let writer = Writer {
            durable: Arc::clone(&durable),
            full: tell_full,
            again: ring,
            refused: false,
            folding: PendingFolds::default(),
            waits: WaitIndex::default(),
            keep,
            state,
            clock,
            outbox,
            wants_notice,
            // Reading the databases took memory, too.
            changes: writer::CHANGES_LARGE,
        };
        let thread = std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || writer.run(rx))?;
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends with the writer; if it ends before, the state has no publisher any more"
        )]
        tokio::spawn(delivery::deliver(deliveries, publisher, listener));
        let ledger = Self {
            tx,
            news,
            full,
            again,
            durable,
        };
        Ok((ledger, LedgerThread { thread }))
    }

    /// Returns when everything that was committed by now survives a power cut;
    /// awaited before an answer shows it.
    ///
    /// # Errors
    /// When the disk does not confirm the sync.
    pub async fn durable(&self) -> Result<(), Failure> {
        self.durable.sync().await
    }

    /// The committed state.
    pub fn state(&self) -> Arc<State> {
        self.news.state()
    }

    /// Notices of the commits that concern these.
    pub fn watch(&self, audience: Audience) -> StateWatch {
        self.news.of(audience)
    }

    /// When something was committed last; changes with each commit.
    pub(crate) fn commits(&self) -> watch::Receiver<Instant> {
        self.news.last_commit.clone()
    }

    /// Returns once the writer has ended.
    pub async fn ended(&self) {
        let mut full = self.full.clone();
        while full.changed().await.is_ok() {}
    }

    /// Waits until this holds of the committed state, as long as that is awaited.
    pub async fn until(&self, patience: Duration, holds: impl FnMut(&State) -> bool) {
        // What is not so by then is reported as it is.
        let mut states = self.watch(Audience::Everyone);
        let _ = tokio::time::timeout(patience, states.wait_for(holds)).await;
    }

    /// Carries a person's request out: durable when this returns. A request
    /// that was answered before gets that answer again.
    ///
    /// # Errors
    /// The decision's failure, or that it could not be written.
    pub async fn ask<T: prost::Message + Default + 'static>(
        &self,
        request: &[u8],
        decide: impl FnOnce(&State, i64) -> Result<Decision<T>, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.send_ask(request, encoded(decide), None).await
    }

    /// As [`Ledger::ask`]. Without room to write, `unwritten` is decided
    /// instead and holds in memory: the nodes are told, and a daemon that ends
    /// before there is room forgets it.
    ///
    /// # Errors
    /// The failures of the decisions, or that they could not be written.
    pub async fn ask_even_unwritten<T: prost::Message + Default + 'static>(
        &self,
        request: &[u8],
        decide: impl FnOnce(&State, i64) -> Result<Decision<T>, Failure> + Send + 'static,
        unwritten: impl FnOnce(&State, i64) -> Result<Decision<T>, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.send_ask(request, encoded(decide), Some(encoded(unwritten)))
            .await
    }

    /// Records what happened to runs. `late`: why an input may come after its run went
    /// on, or that none does.
    ///
    /// # Errors
    /// When the changes cannot be written.
    pub async fn happened(
        &self,
        durable: bool,
        inputs: Vec<(RunId, Input)>,
        late: LatePolicy,
    ) -> Result<(), Failure> {
        self.note(durable, move |state, now_ms| {
            late.steps(state, &inputs, now_ms)
        })
        .await
    }

    async fn send_ask<T: prost::Message + Default>(
        &self,
        request: &[u8],
        decide: DecisionFunction,
        unwritten: Option<DecisionFunction>,
    ) -> Result<T, Failure> {
        let request = request_id(request)?;
        let (reply, answer) = oneshot::channel();
        self.send(Message::Ask {
            request,
            decide,
            unwritten,
            reply,
        })
        .await?;
        let bytes = answer.await.map_err(|_| leaving())??;
        T::decode(bytes.as_slice())
            .map_err(|error| Failure::bug("a stored answer cannot be read").caused_by(&error))
    }

    /// The answer that a request got before.
    pub async fn answered<T: prost::Message + Default + 'static>(
        &self,
        request: &[u8],
    ) -> Result<Option<T>, Failure> {
        if request.is_empty() {
            return Ok(None);
        }
        // An empty decision that fails if the request is new.
        let (reply, answer) = oneshot::channel();
        self.send(Message::Ask {
            request: request_id(request)?,
            decide: Box::new(|_, _| Err(Failure::failed("not answered before"))),
            unwritten: None,
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

    /// Records a report of a node; waits while there is no room. `note` is then
    /// called anew, with the state of that moment.
    ///
    /// # Errors
    /// When it could not be written; the node can repeat the report.
    pub async fn note(
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

    /// The same for a caller with a person waiting: refused while there is no
    /// room.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn note_now(
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
    ) -> Result<WriteResult<(), NoteChanges>, Failure> {
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
    /// When they could not be written; the caller asks for them again.
    pub async fn parts(&self, mut parts: Vec<OwnedPart>) -> Result<PartsOutcome, Failure> {
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

    /// Notices of the begin and the end of a lack of room.
    pub fn watch_room(&self) -> watch::Receiver<Option<NoRoom>> {
        self.full.clone()
    }

    /// The present lack of room, if any.
    pub fn no_room(&self) -> Option<NoRoom> {
        self.full.borrow().clone()
    }

    /// Notices of every later moment to try again.
    fn again(&self) -> watch::Receiver<()> {
        let mut again = self.again.clone();
        again.mark_unchanged();
        again
    }

    /// Ends the writer once everything sent before is committed.
    pub async fn stop(&self) {
        let _ = self.tx.send(Message::Stop).await;
    }

    async fn send(&self, message: Message) -> Result<(), Failure> {
        self.tx.send(message).await.map_err(|_| leaving())
    }
}

fn encoded<T: prost::Message>(
    decide: impl FnOnce(&State, i64) -> Result<Decision<T>, Failure> + Send + 'static,
) -> DecisionFunction {
    let author = author::current();
    Box::new(move |state, now_ms| {
        let mut decided = decide(state, now_ms)?;
        author::credit(&mut decided.changes, &author, now_ms);
        Ok(Decision {
            answer: decided.answer.encode_to_vec(),
            changes: decided.changes,
        })
    })
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

/// The change that makes `last` name these experiments.
pub fn last(ids: impl IntoIterator<Item = ExperimentId>) -> Change {
    let mut ids: Vec<ExperimentId> = ids.into_iter().collect();
    ids.sort_unstable();
    ids.dedup();
    Change::Last(ids.into())
}
