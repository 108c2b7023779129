//! Replication: the records in a node's journals, and neromum's reports of runs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use nero_journal::SegmentId;
use nero_model::{RunId, RunToken};
use nero_wire::v1;
use nero_wire::v1::follow_event::Event;
use nero_wire::v1::mum_client::MumClient;
use nero_wire::v1::run_state::Stage;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::backoff::{Backoff, Pace};
use super::hand_over::Gate;
use super::inbox::Inbox;
use super::now::StatePublisher;
use super::{Settings, open_runs};
use nero_home::failure::Failure;
use nero_home::folding::OwnedPart;
use nero_home::ledger::{LatePolicy, Ledger};
use nero_home::spec::run_ref;
use nero_life::change::Change;
use nero_life::input::Input;
use nero_life::report::{self, Contradiction, Report, ReportedStage, Stray};
use nero_life::reports;
use nero_life::run::{Run, Unreadable};
use nero_life::state::State;
use nero_life::text::bounded;

/// Events that are folded in one transaction.
const EVENTS_MAX: usize = 2000;
/// Bytes of events that are folded in one transaction.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// In a burst, events of this long are folded together; the first one after a
/// pause is folded at once.
const GATHER: Duration = Duration::from_millis(2);
/// How long a node may take to answer that it lets itself be followed: nothing is handed over
/// meanwhile.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(60);
/// Messages that wait to be sent.
const OUTBOX: usize = 16;
/// A stream that lasted this long was no failure.
const STEADY: Duration = Duration::from_secs(10);

/// The replication over one connection.
pub(super) struct Replication {
    pub(super) settings: Settings,
    pub(super) inbox: Arc<Inbox>,
    pub(super) ledger: Ledger,
    pub(super) client: MumClient<Channel>,
    pub(super) tell: StatePublisher,
    /// Tokens of runs that the node may forget.
    pub(super) closed: mpsc::Receiver<Vec<Vec<u8>>>,
    /// Runs that were ended over this connection because they are not the node's
    /// any more; each is ended once.
    pub(super) ended: HashSet<RunId>,
    /// Runs that the node reported and the database does not contain.
    pub(super) unknown: HashSet<RunToken>,
    /// Held while runs are handed over, and until the node knows that we follow.
    pub(super) gate: Gate,
}

impl Replication {
    /// Follows until the connection is lost; returns the reason.
    pub(super) async fn run(mut self) -> Failure {
        let mut again = Backoff::new(Pace::LOCAL);
        loop {
            let began = Instant::now();
            if let Err(failure) = self.once().await {
                return failure;
            }
            // The positions did not fit: ask again from ours. The pause grows,
            // for a node whose positions never fit.
            if began.elapsed() > STEADY {
                again.reset();
            }
            tokio::time::sleep(again.next()).await;
        }
    }

    /// Follows until the connection is lost, or has to be begun again (`Ok`).
    async fn once(&mut self) -> Result<(), Failure> {
        let (requests, outbox) = mpsc::channel(OUTBOX);
        // A run that is accepted after the positions were read may be given back before the node
        // knows that we follow: we would never hear of it.
        let held = self.gate.lock().await;
        let positions = positions(&self.settings, &self.ledger).await?;
        let first = v1::FollowRequest {
            positions,
            closed: Vec::new(),
        };
        requests
            .send(first)
            .await
            .map_err(|_| Failure::bug("the outbox of a connection is closed"))?;
        let refused = || Failure::node_does("does not let its journals be followed");
        let followed = self.client.follow(ReceiverStream::new(outbox));
        let followed = tokio::time::timeout(FOLLOWED_WITHIN, followed).await;
        let followed = followed.map_err(|_| refused().because("it gave no answer for a minute"))?;
        let mut events = followed
            .map_err(|status| refused().status(&status))?
            .into_inner();
        drop(held);
        let mut folded = Instant::now();
        loop {
            let first = tokio::select! {
                event = events.next() => event,
                Some(tokens) = self.closed.recv() => {
                    close(&requests, tokens).await?;
                    continue;
                }
            };
            let heard = matches!(first, Some(Ok(_)));
            if heard && folded.elapsed() < GATHER {
                tokio::time::sleep_until(folded + GATHER).await;
            }
            let batch = EventBatch::gather(&mut events, first)?;
            let at = self.settings.clock.moment();
            let state = self.ledger.state();
            self.note_unknown(&batch.states, &state);
            let unknown_runs = self.unknown.len();
            self.tell.quietly(|now| {
                now.hear(at);
                now.unknown_runs = unknown_runs;
            });
            let strays = Strays::of(&batch.states, &self.settings.name, &state);
            let batch = batch.of(&self.settings.name, &state);
            // A node may give a run back at once: record first that the node
            // accepted it.
            let held = if batch.has_unknown_runs() {
                Some(self.gate.lock().await)
            } else {
                None
            };
            let again = batch.fold(&self.settings.name, &self.ledger).await?;
            drop(held);
            if again {
                return Ok(());
            }
            self.end(strays.live).await?;
            if !strays.over.is_empty() {
                close(&requests, strays.over).await?;
            }
            folded = Instant::now();
        }
    }

    /// Counts runs that the node has and the database does not contain: the
    /// database is then a copy from before they were made.
    fn note_unknown(&mut self, states: &[v1::RunState], state: &State) {
        const KEPT: usize = 10_000;
        let tokens = states
            .iter()
            .filter_map(|word| RunToken::from_slice(&word.token));
        let unknown = tokens.filter(|token| state.by_token(token).is_none());
        let room = KEPT - self.unknown.len();
        self.unknown.extend(unknown.take(room));
    }

    /// Ends the runs that the node has and must not have.
    async fn end(&mut self, mut runs: Vec<RunId>) -> Result<(), Failure> {
        runs.retain(|id| self.ended.insert(*id));
        if runs.is_empty() {
            return Ok(());
        }
        let node = self.settings.name.clone();
        tracing::warn!(
            node,
            runs = runs.len(),
            "the node has runs that are not its own"
        );
        let stray = Input::Stray { node };
        let inputs = runs.into_iter().map(|id| (id, stray.clone())).collect();
        self.ledger
            .happened(false, inputs, LatePolicy::Never)
            .await?;
        self.inbox.look_at_all();
        Ok(())
    }
}

/// Tells neromum that it may forget runs.
async fn close(
    requests: &mpsc::Sender<v1::FollowRequest>,
    tokens: Vec<Vec<u8>>,
) -> Result<(), Failure> {
    let told = v1::FollowRequest {
        positions: Vec::new(),
        closed: tokens,
    };
    requests.send(told).await.map_err(|_| Failure::lost())
}

/// Runs that a node reports although they are not its own any more: ended or
/// closed here, or on another node now.
#[derive(Debug, Default)]
struct Strays {
    /// Tokens of runs that are over: the node missed that it may forget them.
    over: Vec<Vec<u8>>,
    /// Runs that go on there: they arrived after they were ended here, or were
    /// given up.
    live: Vec<RunId>,
}

impl Strays {
    fn of(states: &[v1::RunState], node: &str, state: &State) -> Self {
        let mut strays = Self::default();
        for word in states {
            let run = RunToken::from_slice(&word.token)
                .and_then(|token| state.run(state.by_token(&token)?));
            let Some(run) = run else { continue };
            match report::stray(run, node, standing(word)) {
                Some(Stray::Over) => strays.over.push(word.token.clone()),
                Some(Stray::Live) => strays.live.push(run.made.id),
                None => {}
            }
        }
        strays
    }
}

/// Our positions in every run that the node may have.
async fn positions(settings: &Settings, ledger: &Ledger) -> Result<Vec<v1::RunPosition>, Failure> {
    let state = ledger.state();
    let handed: Vec<RunId> = open_runs(&state, &settings.name)
        .into_iter()
        .filter(|id| state.run(*id).is_some_and(Run::reached_its_node))
        .collect();
    let stands = ledger.positions(handed).await?;
    Ok(stands
        .into_iter()
        .filter_map(|(id, stands)| {
            let run = state.run(id)?;
            Some(v1::RunPosition {
                run: Some(run_ref(run)),
                generation: run.generation(),
                segments: stands
                    .into_iter()
                    .map(|stand| v1::SegmentPosition {
                        incarnation: stand.incarnation,
                        segment: stand.segment.0.to_vec(),
                        offset: stand.at.offset,
                        chain: stand.at.chain,
                    })
                    .collect(),
            })
        })
        .collect())
}

/// Events that are folded together.
#[derive(Default)]
struct EventBatch {
    parts: Vec<OwnedPart>,
    states: Vec<v1::RunState>,
    events: usize,
    bytes: usize,
}

impl EventBatch {
    /// An event, with those that came meanwhile: they share the transaction.
    fn gather(
        events: &mut tonic::Streaming<v1::FollowEvent>,
        first: Option<Result<v1::FollowEvent, tonic::Status>>,
    ) -> Result<Self, Failure> {
        let mut batch = Self::default();
        let mut next = Some(first);
        while let Some(event) = next {
            let event = event
                .ok_or_else(|| Failure::node_does("ended the connection"))?
                .map_err(|status| Failure::lost().status(&status))?;
            batch.take(event);
            let is_full = batch.events >= EVENTS_MAX || batch.bytes >= BYTES_MAX;
            next = (!is_full).then(|| events.next().now_or_never()).flatten();
        }
        Ok(batch)
    }

    fn take(&mut self, event: v1::FollowEvent) {
        self.events += 1;
        match event.event {
            Some(Event::Part(part)) => {
                self.bytes += part.data.len();
                let known =
                    RunToken::from_slice(&part.token).zip(SegmentId::from_slice(&part.segment));
                if let Some((token, segment)) = known {
                    self.parts.push(OwnedPart {
                        token,
                        incarnation: part.incarnation,
                        segment,
                        offset: part.offset,
                        data: part.data.into(),
                        chain: part.chain,
                    });
                }
            }
            Some(Event::State(state)) => {
                self.bytes += state.encoded_len();
                self.states.push(state);
            }
            Some(Event::CaughtUp(_)) | None => {}
        }
    }

    /// Whether the node gives back runs, which it may have accepted just now.
    fn has_unknown_runs(&self) -> bool {
        let mut states = self.states.iter();
        states.any(|word| word.stage() == Stage::UnknownRun)
    }

    /// Keeps the reports about runs that are on this node. For a run that was
    /// placed elsewhere meanwhile, an earlier node's report does not count.
    fn of(mut self, node: &str, state: &State) -> Self {
        let here = |token: Option<RunToken>| {
            token
                .and_then(|token| state.run(state.by_token(&token)?))
                .is_some_and(|run| run.node() == Some(node))
        };
        self.parts.retain(|part| here(Some(part.token)));
        self.states
            .retain(|word| here(RunToken::from_slice(&word.token)));
        self
    }

    /// Folds the events; returns whether following has to begin again.
    async fn fold(self, node: &str, ledger: &Ledger) -> Result<bool, Failure> {
        tracing::debug!(
            parts = self.parts.len(),
            states = self.states.len(),
            "heard"
        );
        let mut again = false;
        if !self.parts.is_empty() {
            let outcome = ledger.parts(self.parts).await?;
            again = outcome.gap || !outcome.anew.is_empty();
            if again {
                tracing::info!(
                    anew = outcome.anew.len(),
                    "following from our positions again"
                );
            }
        }
        if !self.states.is_empty() {
            let (node, states) = (node.to_owned(), self.states);
            ledger
                .note(false, move |state, now_ms| {
                    said(state, &node, &states, now_ms)
                })
                .await?;
        }
        Ok(again)
    }
}

/// What the states change that a node tells: of runs that are on this node still.
fn said(state: &State, node: &str, states: &[v1::RunState], now_ms: i64) -> Vec<Change> {
    let report = |word: &v1::RunState| {
        let id = state.by_token(&RunToken::from_slice(&word.token)?)?;
        let report = reported(word);
        let here = state.run(id).filter(|run| run.node() == Some(node));
        match report::contradiction(here?, report.standing) {
            Some(Contradiction::Forgotten) => {
                tracing::warn!(run = %id, "the node does not know a run that it ran");
            }
            Some(Contradiction::NeverStarted) => {
                tracing::warn!(run = %id, "the node calls a run that ran never started");
            }
            None => {}
        }
        Some((id, report))
    };
    let late = LatePolicy::Passes("the run is elsewhere or closed, which its node is told");
    let reports = states.iter().filter_map(report);
    reports::said(state, node, reports, now_ms, |error| late.log(&error))
}

/// How many unusable files of a run are kept.
const UNREADABLE_MAX: usize = 10;

fn unreadable(file: &v1::Unreadable) -> Unreadable {
    Unreadable {
        path: bounded(&file.path),
        why: bounded(&file.why),
        hint: bounded(&file.hint),
    }
}

/// How many characters of a host's name are kept.
const HOST_CHARS_MAX: usize = 64;

fn reported(word: &v1::RunState) -> Report {
    let files = word.unreadable.iter().take(UNREADABLE_MAX);
    Report {
        standing: standing(word),
        why: bounded(&word.why),
        needs_person: word.needs_person,
        waits_again: word.waits_again,
        unsupervised: word.unsupervised,
        paused: word.paused,
        host: word.host.chars().take(HOST_CHARS_MAX).collect(),
        made_nothing: word.made_nothing,
        made_checkpoint: word.made_checkpoint,
        send_spec: word.unreadable.iter().any(|file| file.send_spec),
        unreadable: files.map(unreadable).collect(),
        generation: word.generation,
    }
}

fn standing(word: &v1::RunState) -> ReportedStage {
    match word.stage() {
        Stage::Unspecified => ReportedStage::Held,
        Stage::Waiting => ReportedStage::Waiting,
        Stage::Starting => ReportedStage::Starting,
        Stage::Running => ReportedStage::Running,
        Stage::Ended => ReportedStage::Ended,
        Stage::Settled => ReportedStage::Settled,
        Stage::TakenAway => ReportedStage::TakenAway,
        Stage::Refused => ReportedStage::Refused,
        Stage::UnknownRun => ReportedStage::Unknown,
    }
}

#[cfg(test)]
mod tests;
