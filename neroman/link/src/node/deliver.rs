//! Delivers decisions to a node: cancel requests, rules and ends of steps, and which runs to
//! hand over or to fetch. Every message may be sent twice; its effect is
//! recorded when the node has answered.

mod answer;
mod hold;
mod recall;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use nero_model::{RunId, RunToken};
use nero_wire::v1;
use nero_wire::v1::cancel_reply::Outcome;
use nero_wire::v1::mum_client::MumClient;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::transport::Channel;

use super::abandoned;
use super::hand_over::{Gate, rule_set};
use super::inbox::{Inbox, News};
use super::{Settings, open_runs};
use nero_home::failure::{Failure, cannot_now};
use nero_home::ledger::{LatePolicy, Ledger};
use nero_home::spec::run_ref;
use nero_life::abort::Answer;
use nero_life::change::Change;
use nero_life::input::{Input, Placement};
use nero_life::needs::{self, Needs};
use nero_life::state::State;

/// Most runs of one `Cancel`.
const CANCELS_MAX: usize = 10_000;
/// Most runs whose new rules are recorded as delivered together, and most `SetRules` at a
/// time.
const RULES_MAX: usize = 1000;
const RULES_AT_ONCE: usize = 16;
/// How long the node's reply may take; neromum answers from memory and its
/// disk.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause before a request that the node could not carry out is sent again.
const AGAIN: Duration = Duration::from_secs(20);
/// Interval at which runs that need nothing more are closed together: closing
/// is synced, and no caller waits for it.
const CLOSE_EVERY: Duration = Duration::from_secs(1);

/// The neromum at the other end.
pub(super) struct Peer {
    pub(super) client: MumClient<Channel>,
    /// Whether it supports recalls of runs.
    pub(super) supports_recall: bool,
}

/// Delivers decisions over one connection.
pub(super) struct Deliver {
    settings: Settings,
    inbox: Arc<Inbox>,
    ledger: Ledger,
    peer: Peer,
    hand_over: mpsc::UnboundedSender<Vec<RunId>>,
    gate: Gate,
    results: mpsc::UnboundedSender<RunId>,
    closed: mpsc::Sender<Vec<Vec<u8>>>,
    to_close: HashSet<RunId>,
    /// Runs whose rules were sent again since the last pause, because a watcher could
    /// not read them.
    resent: HashSet<RunId>,
    /// When the requests that the node could not carry out are sent again.
    again: Option<Instant>,
}

impl Deliver {
    pub(super) fn new(
        settings: Settings,
        inbox: Arc<Inbox>,
        ledger: Ledger,
        peer: Peer,
        hand_over: (mpsc::UnboundedSender<Vec<RunId>>, Gate),
        results: mpsc::UnboundedSender<RunId>,
        closed: mpsc::Sender<Vec<Vec<u8>>>,
    ) -> Self {
        let (hand_over, gate) = hand_over;
        Self {
            settings,
            inbox,
            ledger,
            peer,
            hand_over,
            gate,
            results,
            closed,
            to_close: HashSet::new(),
            resent: HashSet::new(),
            again: None,
        }
    }

    /// Works until the connection is lost.
    pub(super) async fn run(mut self) -> Failure {
        let mut close = tokio::time::interval(CLOSE_EVERY);
        close.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let again = self.again.unwrap_or_else(Instant::now);
            let done = tokio::select! {
                () = self.inbox.rung() => self.take_changes().await,
                () = tokio::time::sleep_until(again), if self.again.is_some() => {
                    self.again = None;
                    self.resent.clear();
                    self.inbox.look_at_all();
                    Ok(())
                }
                _ = close.tick(), if !self.to_close.is_empty() => self.close().await,
            };
            if let Err(failure) = done {
                return failure;
            }
        }
    }

    /// Takes the changed runs and does what they need.
    async fn take_changes(&mut self) -> Result<(), Failure> {
        let Some(news) = self.inbox.take() else {
            return Ok(());
        };
        let state = self.ledger.state();
        let runs = match news {
            News::Runs(runs) => runs,
            News::All => {
                let name = &self.settings.name;
                let client = &mut self.peer.client;
                if !abandoned::end(name, &state, &self.ledger, client, &self.closed).await? {
                    self.later();
                }
                open_runs(&state, &self.settings.name)
            }
        };
        let (mut hand_over, mut cancel, mut rules) = (Vec::new(), Vec::new(), Vec::new());
        let (mut recall, mut hold, mut lift) = (Vec::new(), Vec::new(), Vec::new());
        let mut answer = Vec::new();
        for id in runs {
            let Some(run) = state
                .run(id)
                .filter(|run| run.node() == Some(&self.settings.name))
            else {
                continue;
            };
            let Needs {
                hand_over: send,
                cancel: end,
                recall: leaves,
                hold: held,
                lift: goes_on,
                rules: newer,
                answer: ended,
                results,
                live_results,
                close,
            } = needs::of(run);
            if send {
                hand_over.push(id);
            }
            if end {
                cancel.push(id);
            }
            if leaves {
                recall.push(id);
            }
            if held {
                hold.push(id);
            }
            if goes_on {
                lift.push(id);
            }
            if newer {
                rules.push(id);
            }
            if ended {
                answer.push(id);
            }
            if results || live_results {
                // The fetcher lives as long as this connection.
                let _ = self.results.send(id);
            }
            if close {
                self.to_close.insert(id);
            }
        }
        // Cancel requests first: they are few and wait for nothing.
        for part in cancel.chunks(CANCELS_MAX) {
            self.cancel(&state, part).await?;
        }
        for part in hold.chunks(hold::RUNS_MAX) {
            self.hold(&state, part, false).await?;
        }
        for part in lift.chunks(hold::RUNS_MAX) {
            self.hold(&state, part, true).await?;
        }
        for part in answer.chunks(RULES_MAX) {
            self.answer(&state, part).await?;
        }
        for part in recall.chunks(recall::RUNS_MAX) {
            self.recall(part).await?;
        }
        if !hand_over.is_empty() {
            // The receiver lives as long as this connection.
            let _ = self.hand_over.send(hand_over);
        }
        self.rules(rules).await
    }

    /// Carries newer rules there. A hand-over brings rules, too: the gate is held
    /// until its answer is noted, and the node may have reported the run before.
    async fn rules(&mut self, runs: Vec<RunId>) -> Result<(), Failure> {
        if runs.is_empty() {
            return Ok(());
        }
        drop(self.gate.lock().await);
        let state = self.ledger.state();
        let mut newer = Vec::new();
        for id in runs {
            let here = |run: &&nero_life::run::Run| run.node() == Some(&self.settings.name);
            let run = state.run(id).filter(here);
            let Some(run) = run.filter(|run| needs::of(run).rules) else {
                continue;
            };
            // A watcher that can read none of them is not sent one set after another.
            if run.resends_rules() && !self.resent.insert(id) {
                self.later();
                continue;
            }
            newer.push(id);
        }
        for part in newer.chunks(RULES_MAX) {
            self.set_rules(&state, part).await?;
        }
        Ok(())
    }

    async fn cancel(&mut self, state: &State, runs: &[RunId]) -> Result<(), Failure> {
        // Runs with the same cancel parameters share a message.
        type CancelGroup = (u32, i32, String);
        let mut alike: BTreeMap<CancelGroup, Vec<(RunId, CancelSent, v1::RunRef)>> =
            BTreeMap::new();
        for id in runs {
            let Some(run) = state.run(*id) else { continue };
            let Some(cancel) = run.cancel() else { continue };
            let Some(at) = run.placement() else { continue };
            alike
                .entry((cancel.grace_ms, cancel.signal, cancel.author.clone()))
                .or_default()
                .push((*id, (at, cancel.asked_ms), run_ref(run)));
        }
        // A run is either handed over before this, and ended there, or not
        // handed over at all, which is known here by then.
        let gate = self.gate.clone();
        let _held = gate.lock().await;
        for ((grace_ms, signal, author), runs) in alike {
            let mut request = tonic::Request::new(v1::CancelRequest {
                request: nero_model::RequestId::random().to_vec(),
                runs: runs.iter().map(|(_, _, run)| run.clone()).collect(),
                grace_ms,
                signal,
                author,
                recall: 0,
            });
            request.set_timeout(PATIENCE);
            let failure = Failure::node_does("does not end runs");
            let reply = match self.peer.client.cancel(request).await {
                Ok(reply) => reply.into_inner(),
                Err(status) => {
                    self.refused(failure.status(&status), &status)?;
                    continue;
                }
            };
            let asked = runs.into_iter().map(|(id, asked, _)| (id, asked));
            let asked: BTreeMap<RunId, CancelSent> = asked.collect();
            let note = move |state: &State, now_ms| cancelled(state, &reply, &asked, now_ms);
            if self.ledger.no_room().is_none() {
                self.ledger.note(false, note).await?;
                continue;
            }
            // Other cancel requests do not wait until there is room for the
            // answer.
            let ledger = self.ledger.clone();
            #[expect(
                clippy::disallowed_methods,
                reason = "the ledger takes the note or has ended; a lost note is asked for again"
            )]
            tokio::spawn(async move {
                // If the daemon leaves, the next one asks again.
                let _ = ledger.note(false, note).await;
            });
        }
        Ok(())
    }

    /// Sends the rules of these runs, some at a time, and records their delivery together.
    async fn set_rules(&mut self, state: &State, runs: &[RunId]) -> Result<(), Failure> {
        let mut sent = Vec::with_capacity(runs.len());
        for run in runs.iter().filter_map(|id| state.run(*id)) {
            let rules = rule_set(state, run);
            let version = rules.version;
            let mut request = tonic::Request::new(v1::SetRulesRequest {
                request: nero_model::RequestId::random().to_vec(),
                run: Some(run_ref(run)),
                rules: Some(rules),
            });
            request.set_timeout(PATIENCE);
            let (id, mut client) = (run.made.id, self.peer.client.clone());
            sent.push(async move { (id, version, client.set_rules(request).await) });
        }
        let replies = futures_util::stream::iter(sent).buffer_unordered(RULES_AT_ONCE);
        let replies: Vec<_> = replies.collect().await;
        let mut inputs = Vec::with_capacity(replies.len());
        let mut refused = Vec::new();
        for (id, version, reply) in replies {
            let kept = match reply {
                Ok(reply) => reply.into_inner().version,
                // The run ended meanwhile; its end is on its way.
                Err(status) if ended_meanwhile(&status) => version,
                Err(status) => {
                    refused.push(status);
                    continue;
                }
            };
            inputs.push((id, Input::RulesDelivered { version, kept }));
        }
        self.ledger
            .happened(false, inputs, LatePolicy::Never)
            .await?;
        for status in refused {
            let failure = Failure::node_does("does not take rules");
            self.refused(failure.status(&status), &status)?;
        }
        Ok(())
    }

    /// A node that answers but cannot do it now keeps its connection: the
    /// request is sent again.
    fn refused(&mut self, failure: Failure, status: &tonic::Status) -> Result<(), Failure> {
        if !cannot_now(status) {
            return Err(failure);
        }
        tracing::warn!(node = self.settings.name, %failure, "carried there again later");
        self.later();
        Ok(())
    }

    fn later(&mut self) {
        self.again.get_or_insert_with(|| Instant::now() + AGAIN);
    }

    /// Records, synced, that runs need nothing more, and tells neromum.
    async fn close(&mut self) -> Result<(), Failure> {
        let runs: Vec<RunId> = self.to_close.drain().collect();
        let inputs = runs.iter().map(|id| (*id, Input::MayForget)).collect();
        let late = LatePolicy::Passes("it was closed, or needs its node again");
        self.ledger.happened(true, inputs, late).await?;
        let state = self.ledger.state();
        let closed = runs.iter().filter_map(|id| state.run(*id));
        let closed = closed.filter(|run| run.is_closed());
        let tokens = closed.map(|run| run.made.token.to_vec()).collect();
        // Without a receiver the connection is over, and the next one begins
        // with the positions of open runs alone.
        let _ = self.closed.send(tokens).await;
        Ok(())
    }
}

fn ended_meanwhile(status: &tonic::Status) -> bool {
    matches!(
        status.code(),
        tonic::Code::NotFound | tonic::Code::FailedPrecondition
    )
}

/// The hand-over of a run that a cancel request went to, and the time of the request.
type CancelSent = (Placement, i64);

fn cancelled(
    state: &State,
    reply: &v1::CancelReply,
    asked: &BTreeMap<RunId, CancelSent>,
    now_ms: i64,
) -> Vec<Change> {
    let inputs = reply.runs.iter().filter_map(|one| {
        let id = state.by_token(&RunToken::from_slice(&one.token)?)?;
        let (at, asked_ms) = asked.get(&id)?.clone();
        let answered = Input::CancelAnswered {
            at,
            answer: answer(one),
            asked_ms: Some(asked_ms),
        };
        Some((id, answered))
    });
    let inputs: Vec<(RunId, Input)> = inputs.collect();
    LatePolicy::Passes("it left its node meanwhile").steps(state, &inputs, now_ms)
}

fn answer(one: &v1::cancel_reply::One) -> Answer {
    match one.outcome() {
        Outcome::Unspecified => Answer::Unclear,
        Outcome::Asked => Answer::Asked,
        Outcome::NeverStarted => Answer::NeverStarted,
        Outcome::Ended => Answer::Ended,
        Outcome::UnknownRun => Answer::Unknown,
        Outcome::GoesOn => Answer::GoesOn,
    }
}
