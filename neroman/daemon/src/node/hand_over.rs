//! Handing runs over to a node, their files first. Beside everything else that
//! goes there: a wish does not wait for gigabytes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use nero_model::{RunId, RunToken};
use nero_wire::v1;
use nero_wire::v1::hand_over_reply::Refusal as Said;
use nero_wire::v1::mum_client::MumClient;
use prost::Message as _;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use tonic::transport::Channel;

use super::Settings;
use super::deliver::desk_change;
use super::follow::bounded;
use super::inbox::Inbox;
use super::resume::{self, Carry};
use super::stage::{StageError, Stager};
use super::transfer::Hearer;
use crate::core::change::Change;
use crate::core::needs;
use crate::core::refusal::{self, Refusal};
use crate::core::run::{Desk, Handing, Run, Word};
use crate::core::state::State;
use crate::failure::Failure;
use crate::ledger::Ledger;
use crate::spec;

/// Most runs of one `HandOver`.
const RUNS_MAX: usize = 1000;
/// Most bytes of one `HandOver`, half of what a message may have.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// Runs taken from the queue at once.
const RUNS_WAITING_MAX: usize = 10_000;
/// How long an answer may take; neromum answers from memory and its disk.
const PATIENCE: Duration = Duration::from_secs(60);
/// Before a node that had no room for files is tried again.
const AGAIN: Duration = Duration::from_secs(20);
/// Between two looks whether checkpoints came home.
const CHECKPOINTS: Duration = Duration::from_secs(2);
/// Before a node that could not take a run now is asked again.
const SOON: Duration = Duration::from_secs(5);

/// Held while runs are handed over, and while wishes are carried there: a run
/// that a node never heard of must not get there after that was told.
pub(super) type Gate = Arc<Mutex<()>>;

/// A run that is not sent now, and why.
type Held = (RunToken, Carry);

/// Hands runs over through one connection.
pub(super) struct HandOver {
    settings: Settings,
    inbox: Arc<Inbox>,
    ledger: Ledger,
    client: MumClient<Channel>,
    stager: Stager,
    gate: Gate,
    tx: mpsc::UnboundedSender<RunId>,
    rx: mpsc::UnboundedReceiver<RunId>,
    /// When runs are looked at that had to wait.
    again: Option<Instant>,
}

impl HandOver {
    pub(super) fn new(
        settings: Settings,
        inbox: Arc<Inbox>,
        ledger: Ledger,
        client: MumClient<Channel>,
        hearer: Hearer,
    ) -> Self {
        let (store, node) = (settings.store.clone(), settings.name.clone());
        // Holds numbers of runs only, of each no more than its changes.
        let (tx, rx) = mpsc::unbounded_channel();
        Self {
            stager: Stager::new(store, node, client.clone(), hearer),
            settings,
            inbox,
            ledger,
            client,
            gate: Gate::default(),
            tx,
            rx,
            again: None,
        }
    }

    /// Where runs that are to be handed over are put, and what holds them.
    pub(super) fn queue(&self) -> (mpsc::UnboundedSender<RunId>, Gate) {
        (self.tx.clone(), self.gate.clone())
    }

    /// Works until the connection is lost.
    pub(super) async fn run(mut self) -> Failure {
        loop {
            if let Err(failure) = self.turn().await {
                return failure;
            }
        }
    }

    /// Hands over whatever waits.
    async fn turn(&mut self) -> Result<(), Failure> {
        let mut runs = Vec::new();
        let pause = self.again.unwrap_or_else(Instant::now);
        tokio::select! {
            _ = self.rx.recv_many(&mut runs, RUNS_WAITING_MAX) => {}
            () = tokio::time::sleep_until(pause), if self.again.is_some() => {
                self.again = None;
                // Whatever is not there yet is looked at again.
                self.inbox.look_at_all();
            }
        }
        let state = self.ledger.state();
        runs.sort_unstable();
        runs.dedup();
        // They may have been asked for twice, or be wanted no more.
        runs.retain(|id| state.run(*id).is_some_and(|run| self.is_due(run)));
        let mut rest = runs.as_slice();
        while !rest.is_empty() {
            let (batch, held, taken) = self.next_batch(&state, rest).await?;
            rest = &rest[taken..];
            self.hold(held).await?;
            for group in self.by_files(batch) {
                let group = self.stage(group).await?;
                let gate = self.gate.clone();
                let _held = gate.lock().await;
                let group = self.offer(group).await?;
                self.send(group).await?;
            }
        }
        Ok(())
    }

    /// Runs whose files are there come first; then those of one tree after the
    /// other, so that none waits for the files of all.
    fn by_files(&self, batch: Vec<v1::RunSpec>) -> Vec<Vec<v1::RunSpec>> {
        let there =
            |spec: &v1::RunSpec| self.stager.has(&spec.tree) && self.stager.has(&spec.overlay);
        let (now, later): (Vec<_>, Vec<_>) = batch.into_iter().partition(there);
        let mut groups = vec![now];
        for spec in later {
            let alike = |group: &&mut Vec<v1::RunSpec>| {
                let first = group.first();
                first.is_some_and(|one| one.tree == spec.tree && one.overlay == spec.overlay)
            };
            match groups.iter_mut().skip(1).find(alike) {
                Some(group) => group.push(spec),
                None => groups.push(vec![spec]),
            }
        }
        groups.retain(|group| !group.is_empty());
        groups
    }

    fn is_due(&self, run: &Run) -> bool {
        run.node() == Some(&self.settings.name) && needs::of(run).hand_over
    }

    /// As many specs as fit into one message, what has to wait, and how many
    /// runs they are.
    async fn next_batch(
        &self,
        state: &State,
        runs: &[RunId],
    ) -> Result<(Vec<v1::RunSpec>, Vec<Held>, usize), Failure> {
        let mut held = Vec::new();
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
            spec.data = spec::data(&run.made.takes, &self.settings.name);
            spec.movable = run.of_several();
            if self.settings.remote {
                spec::without_shell(&mut spec);
            }
            let carried = resume::carry(&self.settings, &self.ledger, state, run, &mut spec);
            match carried.await? {
                Carry::Ready => batch.push(spec),
                carry @ (Carry::Wait(_) | Carry::Never(_)) => held.push((run.made.token, carry)),
            }
            if bytes >= BYTES_MAX {
                break;
            }
        }
        Ok((batch, held, taken.max(1)))
    }

    /// Writes down why runs are not sent.
    async fn hold(&mut self, held: Vec<Held>) -> Result<(), Failure> {
        for (token, carry) in held {
            match carry {
                Carry::Ready => {}
                Carry::Wait(why) => {
                    self.again = Some(Instant::now() + CHECKPOINTS);
                    self.waits(vec![token], why).await?;
                }
                Carry::Never(why) => self.refused(vec![token], why).await?,
            }
        }
        Ok(())
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
                Err(StageError::Later(failure)) => {
                    tracing::warn!(%failure, "runs not sent now");
                    self.again = Some(Instant::now() + AGAIN);
                    self.waits(tokens, failure.to_string()).await?;
                    batch.retain(|spec| !named(&spec));
                }
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
        self.mark(tokens, |desk, _| {
            desk.handing = desk.handing.max(Handing::Staging);
            desk.why.clear();
        })
        .await
        .map_err(StageError::Node)?;
        self.stager.send(tree, lacking).await
    }

    /// These runs can never be sent.
    async fn refused(&self, tokens: Vec<RunToken>, why: String) -> Result<(), Failure> {
        self.mark(tokens, move |desk, now_ms| {
            let why = bounded(&why);
            desk.word = Some(Word::Refused { why, at_ms: now_ms });
        })
        .await
    }

    /// These runs are sent later, and why.
    async fn waits(&self, tokens: Vec<RunToken>, why: String) -> Result<(), Failure> {
        self.mark(tokens, move |desk, _| desk.why = bounded(&why))
            .await
    }

    /// Changes what is kept of runs that were not handed over.
    async fn mark(
        &self,
        tokens: Vec<RunToken>,
        change: impl Fn(&mut Desk, i64) + Send + 'static,
    ) -> Result<(), Failure> {
        self.ledger
            .note(false, move |state, now_ms| {
                tokens
                    .iter()
                    .filter_map(|token| state.by_token(token))
                    .filter_map(|id| desk_change(state, id, |desk| change(desk, now_ms)))
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
            // Somebody may have ended it while its files were on their way.
            run.is_some_and(|run| self.is_due(run) && !run.movable())
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
        if reply.refused.iter().any(|refusal| refusal.later) {
            let soon = Instant::now() + SOON;
            self.again = Some(self.again.map_or(soon, |again| again.min(soon)));
        }
        let node = self.settings.name.clone();
        self.ledger
            .note(false, move |state, now_ms| {
                answered(state, &node, &reply, &versions, now_ms)
            })
            .await
    }
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

/// What a node's answer changes: of a run that was placed elsewhere meanwhile,
/// nothing counts that an earlier node says.
fn answered(
    state: &State,
    node: &str,
    reply: &v1::HandOverReply,
    versions: &BTreeMap<Vec<u8>, u64>,
    now_ms: i64,
) -> Vec<Change> {
    let run = |token: &[u8]| {
        let id = state.by_token(&RunToken::from_slice(token)?)?;
        state.run(id).filter(|run| run.node() == Some(node))
    };
    let accepted = reply.accepted.iter().filter_map(|token| {
        let version = versions.get(token).copied().unwrap_or(0);
        desk_change(state, run(token)?.made.id, |desk| {
            desk.handing = desk.handing.max(Handing::Submitted);
            desk.rules_delivered = desk.rules_delivered.max(version);
        })
    });
    let (later, refused): (Vec<_>, Vec<_>) = reply.refused.iter().partition(|no| no.later);
    let later = later.into_iter().filter_map(|no| {
        desk_change(state, run(&no.token)?.made.id, |desk| {
            desk.handing = desk.handing.max(Handing::Staging);
            desk.why = bounded(&refusal::with_hint(&no.why, &no.hint));
        })
    });
    let refused = refused.into_iter().filter_map(|no| {
        let run = run(&no.token)?;
        Some(refusal::refused(run, said(node, no, now_ms), no.only_here))
    });
    let refused = refused.flatten();
    accepted.chain(later).chain(refused).collect()
}

/// A node's refusal.
fn said(node: &str, no: &Said, now_ms: i64) -> Refusal {
    Refusal {
        node: node.to_owned(),
        why: bounded(&no.why),
        hint: bounded(&no.hint),
        at_ms: now_ms,
    }
}
