//! Carrying decisions to a node: runs, wishes, rules. Everything may be
//! carried twice; what is done is written down when the node has answered.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use nero_model::{RunId, RunToken};
use nero_wire::v1;
use nero_wire::v1::cancel_reply::Outcome;
use nero_wire::v1::mum_client::MumClient;
use prost::Message as _;
use tokio::sync::mpsc;
use tonic::transport::Channel;

use super::follow::{bounded, run_ref};
use super::inbox::{Inbox, News};
use super::stage::{StageError, Stager};
use super::transfer::Hearer;
use super::{Settings, open_runs};
use crate::core::change::Change;
use crate::core::needs::{self, Needs};
use crate::core::run::{Desk, Handing, Run, Word};
use crate::core::state::State;
use crate::failure::Failure;
use crate::ledger::Ledger;
use crate::spec;

/// Most runs of one `HandOver`.
const RUNS_MAX: usize = 1000;
/// Most bytes of one `HandOver`, half of what a message may have.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most runs of one `Cancel`.
const CANCELS_MAX: usize = 10_000;
/// How long an answer may take; neromum answers from memory and its disk.
const PATIENCE: Duration = Duration::from_secs(60);
/// Runs that need nothing more are closed together this often: closing is
/// synced, and nobody waits for it.
const CLOSE_EVERY: Duration = Duration::from_secs(1);

/// Carries decisions over one connection.
pub(super) struct Deliver {
    settings: Settings,
    inbox: Arc<Inbox>,
    ledger: Ledger,
    client: MumClient<Channel>,
    stager: Stager,
    results: mpsc::UnboundedSender<RunId>,
    closed: mpsc::Sender<Vec<Vec<u8>>>,
    to_close: HashSet<RunId>,
}

impl Deliver {
    pub(super) fn new(
        settings: Settings,
        inbox: Arc<Inbox>,
        ledger: Ledger,
        client: MumClient<Channel>,
        results: mpsc::UnboundedSender<RunId>,
        closed: mpsc::Sender<Vec<Vec<u8>>>,
        hearer: Hearer,
    ) -> Self {
        let (store, node) = (settings.store.clone(), settings.name.clone());
        Self {
            stager: Stager::new(store, node, client.clone(), hearer),
            settings,
            inbox,
            ledger,
            client,
            results,
            closed,
            to_close: HashSet::new(),
        }
    }

    /// Works until the connection is lost.
    pub(super) async fn run(mut self) -> Failure {
        let mut close = tokio::time::interval(CLOSE_EVERY);
        close.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let done = tokio::select! {
                () = self.inbox.rung() => self.look().await,
                _ = close.tick(), if !self.to_close.is_empty() => self.close().await,
            };
            if let Err(failure) = done {
                return failure;
            }
        }
    }

    /// Looks at what changed and does what is needed.
    async fn look(&mut self) -> Result<(), Failure> {
        let Some(news) = self.inbox.take() else {
            return Ok(());
        };
        let state = self.ledger.state();
        let runs = match news {
            News::Runs(runs) => runs,
            News::All => open_runs(&state, &self.settings.name),
        };
        let (mut hand_over, mut cancel, mut rules) = (Vec::new(), Vec::new(), Vec::new());
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
                rules: newer,
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
            if newer {
                rules.push(id);
            }
            if results || live_results {
                // The fetcher lives as long as this connection.
                let _ = self.results.send(id);
            }
            if close {
                self.to_close.insert(id);
            }
        }
        // Wishes first: they are few and wait for nothing.
        for part in cancel.chunks(CANCELS_MAX) {
            self.cancel(&state, part).await?;
        }
        hand_over.sort_unstable();
        self.hand_over(&state, &hand_over).await?;
        for id in rules {
            self.set_rules(&state, id).await?;
        }
        Ok(())
    }

    async fn hand_over(&mut self, state: &State, runs: &[RunId]) -> Result<(), Failure> {
        let mut rest = runs;
        while !rest.is_empty() {
            let (batch, taken) = self.next_batch(state, rest).await?;
            rest = &rest[taken..];
            let batch = self.stage(batch).await?;
            let batch = self.offer(batch).await?;
            self.send(batch).await?;
        }
        Ok(())
    }

    /// As many specs as fit into one message, and how many runs they are.
    async fn next_batch(
        &self,
        state: &State,
        runs: &[RunId],
    ) -> Result<(Vec<v1::RunSpec>, usize), Failure> {
        let mut batch: Vec<v1::RunSpec> = Vec::new();
        let mut bytes = 0;
        let mut taken = 0;
        let wanted = &runs[..runs.len().min(RUNS_MAX)];
        let specs = self.ledger.specs(wanted.to_vec()).await?;
        for (id, encoded) in specs {
            taken += 1;
            bytes += encoded.len();
            let Some(run) = state.run(id) else { continue };
            let mut spec = v1::RunSpec::decode(encoded.as_slice()).map_err(|error| {
                Failure::bug(format!("the spec of {id} cannot be read")).caused_by(&error)
            })?;
            spec.rules = Some(rule_set(state, run));
            self.settings.name.clone_into(&mut spec.node);
            if self.settings.remote {
                spec::without_shell(&mut spec);
            }
            batch.push(spec);
            if bytes >= BYTES_MAX {
                break;
            }
        }
        Ok((batch, taken.max(1)))
    }

    /// Sends the files that the node lacks. Runs whose files are not here any
    /// more are over; the others are handed back.
    async fn stage(&mut self, mut batch: Vec<v1::RunSpec>) -> Result<Vec<v1::RunSpec>, Failure> {
        let trees: HashSet<Vec<u8>> = batch
            .iter()
            .flat_map(|spec| [spec.tree.clone(), spec.overlay.clone()])
            .filter(|tree| !tree.is_empty())
            .collect();
        for tree in trees {
            let named = |spec: &&v1::RunSpec| spec.tree == tree || spec.overlay == tree;
            let tokens = tokens(batch.iter().filter(named));
            match self.bring(&tree, tokens.clone()).await {
                Ok(()) => {}
                Err(StageError::Node(failure)) => return Err(failure),
                Err(StageError::Own(failure)) => {
                    tracing::warn!(%failure, "runs not sent");
                    self.refused(tokens, failure.to_string()).await?;
                    batch.retain(|spec| !named(&spec));
                }
            }
        }
        Ok(batch)
    }

    async fn bring(&mut self, tree: &[u8], tokens: Vec<RunToken>) -> Result<(), StageError> {
        let lacking = self.stager.missing(tree).await?;
        if lacking.is_empty() {
            return Ok(());
        }
        self.handed(tokens, Handing::Staging)
            .await
            .map_err(StageError::Node)?;
        self.stager.send(tree, lacking).await
    }

    /// These runs can never be sent.
    async fn refused(&self, tokens: Vec<RunToken>, why: String) -> Result<(), Failure> {
        self.ledger
            .note(false, move |state, now_ms| {
                tokens
                    .iter()
                    .filter_map(|token| state.by_token(token))
                    .filter_map(|id| {
                        desk_change(state, id, |desk| {
                            let why = bounded(&why);
                            desk.word = Some(Word::Refused { why, at_ms: now_ms });
                        })
                    })
                    .collect()
            })
            .await
    }

    /// Writes down, synced, that runs may reach this node, where another one
    /// could get them; what was placed elsewhere meanwhile is left out.
    async fn offer(&self, mut batch: Vec<v1::RunSpec>) -> Result<Vec<v1::RunSpec>, Failure> {
        let name = self.settings.name.clone();
        let tokens = tokens(batch.iter());
        let state = self.ledger.state();
        let free = |token: &RunToken| {
            let run = state.by_token(token).and_then(|id| state.run(id));
            run.is_some_and(Run::movable)
        };
        if tokens.iter().any(free) {
            self.ledger
                .note(true, move |state, _| {
                    tokens
                        .iter()
                        .filter_map(|token| state.run(state.by_token(token)?))
                        .filter(|run| run.movable() && run.node() == Some(&name))
                        .filter_map(|run| {
                            desk_change(state, run.made.id, |desk| desk.offered = true)
                        })
                        .collect()
                })
                .await?;
        }
        let state = self.ledger.state();
        batch.retain(|spec| {
            let run = RunToken::from_slice(&spec.token)
                .and_then(|token| state.run(state.by_token(&token)?));
            run.is_some_and(|run| run.node() == Some(&self.settings.name) && !run.movable())
        });
        Ok(batch)
    }

    async fn send(&mut self, batch: Vec<v1::RunSpec>) -> Result<(), Failure> {
        if batch.is_empty() {
            return Ok(());
        }
        let versions: BTreeMap<Vec<u8>, u64> = batch
            .iter()
            .map(|spec| {
                let version = spec.rules.as_ref().map_or(0, |rules| rules.version);
                (spec.token.clone(), version)
            })
            .collect();
        let mut request = tonic::Request::new(v1::HandOverRequest {
            request: nero_model::RequestId::random().to_vec(),
            runs: batch,
        });
        request.set_timeout(PATIENCE);
        let reply = self
            .client
            .hand_over(request)
            .await
            .map_err(|status| Failure::node("the node does not take runs").status(&status))?
            .into_inner();
        self.ledger
            .note(false, move |state, now_ms| {
                answered(state, &reply, &versions, now_ms)
            })
            .await
    }

    async fn handed(&self, tokens: Vec<RunToken>, handing: Handing) -> Result<(), Failure> {
        self.ledger
            .note(false, move |state, _| {
                tokens
                    .iter()
                    .filter_map(|token| state.by_token(token))
                    .filter_map(|id| {
                        desk_change(state, id, |desk| desk.handing = desk.handing.max(handing))
                    })
                    .collect()
            })
            .await
    }

    async fn cancel(&mut self, state: &State, runs: &[RunId]) -> Result<(), Failure> {
        // Runs with the same wish share a message.
        type Alike = (u32, i32, String);
        let mut alike: BTreeMap<Alike, Vec<(RunId, i64, v1::RunRef)>> = BTreeMap::new();
        for id in runs {
            let Some(run) = state.run(*id) else { continue };
            let Some(wish) = &run.desk.wish else { continue };
            alike
                .entry((wish.grace_ms, wish.signal, wish.author.clone()))
                .or_default()
                .push((*id, wish.asked_ms, run_ref(run)));
        }
        for ((grace_ms, signal, author), wished) in alike {
            let mut request = tonic::Request::new(v1::CancelRequest {
                request: nero_model::RequestId::random().to_vec(),
                runs: wished.iter().map(|(_, _, run)| run.clone()).collect(),
                grace_ms,
                signal,
                author,
            });
            request.set_timeout(PATIENCE);
            let reply = self
                .client
                .cancel(request)
                .await
                .map_err(|status| Failure::node("the node does not end runs").status(&status))?
                .into_inner();
            let asked: BTreeMap<RunId, i64> =
                wished.into_iter().map(|(id, at, _)| (id, at)).collect();
            self.ledger
                .note(false, move |state, now_ms| {
                    cancelled(state, &reply, &asked, now_ms)
                })
                .await?;
        }
        Ok(())
    }

    async fn set_rules(&mut self, state: &State, id: RunId) -> Result<(), Failure> {
        let Some(run) = state.run(id) else {
            return Ok(());
        };
        let rules = rule_set(state, run);
        let version = rules.version;
        let mut request = tonic::Request::new(v1::SetRulesRequest {
            request: nero_model::RequestId::random().to_vec(),
            run: Some(run_ref(run)),
            rules: Some(rules),
        });
        request.set_timeout(PATIENCE);
        match self.client.set_rules(request).await {
            Ok(_) => {}
            // It ended meanwhile; its end is on its way.
            Err(status) if ended_meanwhile(&status) => {}
            Err(status) => {
                return Err(Failure::node("the node does not take rules").status(&status));
            }
        }
        self.ledger
            .note(false, move |state, _| {
                desk_change(state, id, |desk| {
                    desk.rules_delivered = desk.rules_delivered.max(version);
                })
                .into_iter()
                .collect()
            })
            .await
    }

    /// Writes down, synced, that runs need nothing more, and tells neromum.
    async fn close(&mut self) -> Result<(), Failure> {
        let runs: Vec<RunId> = self.to_close.drain().collect();
        let state = self.ledger.state();
        let tokens: Vec<Vec<u8>> = runs
            .iter()
            .filter_map(|id| Some(state.run(*id)?.made.token.to_vec()))
            .collect();
        self.ledger
            .note(true, move |state, _| {
                runs.iter().flat_map(|id| closing(state, *id)).collect()
            })
            .await?;
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

fn tokens<'a>(specs: impl Iterator<Item = &'a v1::RunSpec>) -> Vec<RunToken> {
    specs
        .filter_map(|spec| RunToken::from_slice(&spec.token))
        .collect()
}

/// The rules in force of a run, as they travel.
pub(super) fn rule_set(state: &State, run: &Run) -> v1::RuleSet {
    v1::RuleSet {
        version: run.desk.rules_version,
        rules: run
            .rules
            .iter()
            .filter_map(|id| state.rules.get(id))
            .map(|rule| spec::rule(rule))
            .collect(),
    }
}

/// A change of what is kept of a run; none when nothing differs.
pub(crate) fn desk_change(
    state: &State,
    run: RunId,
    change: impl FnOnce(&mut Desk),
) -> Option<Change> {
    let old = &state.run(run)?.desk;
    let mut desk = old.clone();
    change(&mut desk);
    (desk != *old).then(|| Change::Desk {
        run,
        desk: Box::new(desk),
        rules: None,
    })
}

fn answered(
    state: &State,
    reply: &v1::HandOverReply,
    versions: &BTreeMap<Vec<u8>, u64>,
    now_ms: i64,
) -> Vec<Change> {
    let run = |token: &[u8]| RunToken::from_slice(token).and_then(|token| state.by_token(&token));
    let accepted = reply.accepted.iter().filter_map(|token| {
        let version = versions.get(token).copied().unwrap_or(0);
        desk_change(state, run(token)?, |desk| {
            desk.handing = desk.handing.max(Handing::Submitted);
            desk.rules_delivered = desk.rules_delivered.max(version);
        })
    });
    let refused = reply.refused.iter().filter_map(|refusal| {
        desk_change(state, run(&refusal.token)?, |desk| {
            let why = match refusal.hint.as_str() {
                "" => bounded(&refusal.why),
                hint => bounded(&format!("{} ({hint})", refusal.why)),
            };
            desk.word = Some(Word::Refused { why, at_ms: now_ms });
        })
    });
    accepted.chain(refused).collect()
}

fn cancelled(
    state: &State,
    reply: &v1::CancelReply,
    asked: &BTreeMap<RunId, i64>,
    now_ms: i64,
) -> Vec<Change> {
    reply
        .runs
        .iter()
        .filter_map(|one| {
            let token = RunToken::from_slice(&one.token)?;
            let id = state.by_token(&token)?;
            let never_ran = state.run(id)?.journal.incarnations.is_empty();
            desk_change(state, id, |desk| {
                let same = |asked_ms: i64| asked.get(&id) == Some(&asked_ms);
                if let Some(wish) = desk.wish.as_mut().filter(|wish| same(wish.asked_ms)) {
                    wish.delivered = true;
                }
                match one.outcome() {
                    Outcome::NeverStarted | Outcome::UnknownRun if never_ran => {
                        desk.word = Some(Word::TakenAway {
                            who: desk.who(),
                            at_ms: now_ms,
                        });
                    }
                    Outcome::Unspecified
                    | Outcome::Asked
                    | Outcome::NeverStarted
                    | Outcome::Ended
                    | Outcome::UnknownRun => {}
                }
            })
        })
        .collect()
}

/// A run that needs nothing more is closed; positions are forgotten.
fn closing(state: &State, id: RunId) -> Vec<Change> {
    let Some(run) = state.run(id).filter(|run| needs::of(run).close) else {
        return Vec::new();
    };
    let mut journal = (*run.journal).clone();
    journal.compact();
    let desk = desk_change(state, id, |desk| desk.closed = true);
    desk.into_iter()
        .chain([Change::Journal {
            run: id,
            journal: Arc::new(journal),
        }])
        .collect()
}
