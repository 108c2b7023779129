//! Hands runs over to a node, their files first. It works beside the other tasks
//! of a connection: a cancel request does not wait for gigabytes, nor does a run
//! whose files are few or there already.

mod answer;
mod batch;
mod send;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use nero_model::{RunId, RunToken};
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use tonic::transport::Channel;

use super::Settings;
use super::inbox::Inbox;
use super::resume::CheckpointState;
use super::stage::{MissingBlobs, StageError, Stager};
use crate::transfer::ProgressCallback;
use nero_home::failure::Failure;
use nero_home::ledger::{LatePolicy, Ledger};
use nero_home::spec;
use nero_life::hand_over::{self, SendState};
use nero_life::input::Input;
use nero_life::run::Run;
use nero_life::state::State;

/// Most runs of one `HandOver`.
const RUNS_MAX: usize = 1000;
/// Most bytes of one `HandOver`, half of what a message may have.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// Lists of runs taken from the queue at once.
const LISTS_WAITING_MAX: usize = 10_000;
/// Most bytes of one run, so that it fits beside the others of its message.
const RUN_BYTES_MAX: usize = BYTES_MAX - 64 * 1024;
/// How long the node's reply may take; neromum answers from memory and its disk.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause before a node that had no room is tried again.
const AGAIN: Duration = Duration::from_secs(20);
/// The pause between two looks whether checkpoints came home.
const CHECKPOINTS: Duration = Duration::from_secs(2);
/// The pause before a node that could not take a run is asked again.
const SOON: Duration = Duration::from_secs(5);
/// Trees that lack more bytes than this go through the second sender.
const LONG_BYTES: u64 = 1024 * 1024;

/// Held while runs are handed over, while cancel requests and recalls are sent, and
/// until the node knows that we follow: a run must not arrive at a node after the
/// node answered that it does not know the run, nor come back before we hear of it.
pub(super) type Gate = Arc<Mutex<()>>;

/// A run that is not sent now, and the reason.
type UnsentRun = (RunToken, CheckpointState);

/// How the files of a tree get to the node.
enum TreeTransfer {
    There,
    /// The second sender sends them, and hands their runs over afterwards.
    Beside,
}

/// Hands runs over through one connection.
pub(super) struct HandOver {
    settings: Settings,
    inbox: Arc<Inbox>,
    ledger: Ledger,
    client: MumClient<Channel>,
    stager: Stager,
    gate: Gate,
    /// Lists of runs that came together: a node with a scheduler submits them together.
    tx: mpsc::UnboundedSender<Vec<RunId>>,
    rx: mpsc::UnboundedReceiver<Vec<RunId>>,
    /// When the runs that had to wait are looked at again.
    again: Option<Instant>,
    /// The second sender, for runs whose files take long; `None` in the second
    /// sender itself.
    beside: Option<mpsc::UnboundedSender<Vec<RunId>>>,
    /// Trees that were given to the second sender, and were not on the node
    /// since.
    sent_beside: HashSet<Vec<u8>>,
}

impl HandOver {
    pub(super) fn new(
        settings: Settings,
        inbox: Arc<Inbox>,
        ledger: Ledger,
        client: MumClient<Channel>,
        on_progress: ProgressCallback,
    ) -> Self {
        let (store, node) = (settings.store.clone(), settings.name.clone());
        #[expect(
            clippy::disallowed_methods,
            reason = "numbers of runs, each at most once per change"
        )]
        let (tx, rx) = mpsc::unbounded_channel();
        Self {
            stager: Stager::new(store, node, client.clone(), on_progress),
            settings,
            inbox,
            ledger,
            client,
            gate: Gate::default(),
            tx,
            rx,
            again: None,
            beside: None,
            sent_beside: HashSet::new(),
        }
    }

    /// A second sender, for runs whose files take long. Shares this one's gate.
    fn long(&mut self) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "numbers of runs, each at most once per change"
        )]
        let (tx, rx) = mpsc::unbounded_channel();
        self.beside = Some(tx.clone());
        Self {
            settings: self.settings.clone(),
            inbox: Arc::clone(&self.inbox),
            ledger: self.ledger.clone(),
            client: self.client.clone(),
            stager: self.stager.another(),
            gate: self.gate.clone(),
            tx,
            rx,
            again: None,
            beside: None,
            sent_beside: HashSet::new(),
        }
    }

    /// The queue of runs to hand over, and the gate that holds them.
    pub(super) fn queue(&self) -> (mpsc::UnboundedSender<Vec<RunId>>, Gate) {
        (self.tx.clone(), self.gate.clone())
    }

    /// Works until the connection is lost.
    pub(super) async fn run(mut self) -> Failure {
        let long = self.long();
        tokio::select! {
            failure = self.work() => failure,
            failure = long.work() => failure,
        }
    }

    async fn work(mut self) -> Failure {
        loop {
            if let Err(failure) = self.hand_over_waiting().await {
                return failure;
            }
        }
    }

    /// Hands over all runs that wait.
    async fn hand_over_waiting(&mut self) -> Result<(), Failure> {
        let mut lists = Vec::new();
        let pause = self.again.unwrap_or_else(Instant::now);
        tokio::select! {
            _ = self.rx.recv_many(&mut lists, LISTS_WAITING_MAX) => {}
            () = tokio::time::sleep_until(pause), if self.again.is_some() => {
                self.again = None;
                // Runs that are still due are looked at again.
                self.inbox.look_at_all();
            }
        }
        let state = self.ledger.state();
        let mut runs = lists.concat();
        runs.sort_unstable();
        runs.dedup();
        // A run may be in the queue twice, or not be due any more.
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

    fn is_due(&self, run: &Run) -> bool {
        hand_over::is_due(run, &self.settings.name)
    }

    /// Records why runs are not sent.
    async fn hold(&mut self, held: Vec<UnsentRun>) -> Result<(), Failure> {
        for (token, carry) in held {
            match carry {
                CheckpointState::Ready => {}
                CheckpointState::Wait(why) => {
                    self.look_again(CHECKPOINTS);
                    self.mark(vec![token], SendState::Waits(why)).await?;
                }
                CheckpointState::Never(why) => self.never(vec![token], why).await?,
            }
        }
        Ok(())
    }

    /// Sends the files that the node lacks. Runs whose files are gone here end,
    /// those whose files take long go to the second sender; the others are
    /// returned.
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
                Ok(TreeTransfer::There) => {}
                Ok(TreeTransfer::Beside) => {
                    self.give_away(&tokens);
                    batch.retain(|spec| !named(&spec));
                }
                Err(StageError::Node(failure)) => return Err(failure),
                Err(StageError::Later(failure)) => {
                    tracing::warn!(%failure, "runs not sent now");
                    self.look_again(AGAIN);
                    self.mark(tokens, SendState::Deferred(failure.to_string()))
                        .await?;
                    batch.retain(|spec| !named(&spec));
                }
                Err(StageError::Own(failure)) => {
                    tracing::warn!(%failure, "runs not sent");
                    self.never(tokens, failure.to_string()).await?;
                    batch.retain(|spec| !named(&spec));
                }
            }
        }
        Ok(batch)
    }

    async fn bring(
        &mut self,
        tree: &[u8],
        tokens: Vec<RunToken>,
    ) -> Result<TreeTransfer, StageError> {
        let lacking = self.stager.missing(tree).await?;
        if lacking.is_empty() {
            self.sent_beside.remove(tree);
            return Ok(TreeTransfer::There);
        }
        self.mark(tokens, SendState::FilesGo)
            .await
            .map_err(StageError::Node)?;
        if self.takes_long(tree, &lacking) {
            self.sent_beside.insert(tree.to_vec());
            return Ok(TreeTransfer::Beside);
        }
        self.stager.send(tree, lacking).await?;
        Ok(TreeTransfer::There)
    }

    /// Whether the files go through the second sender; the rest of a tree that
    /// it is sending already is not sent twice.
    fn takes_long(&self, tree: &[u8], lacking: &MissingBlobs) -> bool {
        let long = lacking.bytes() > LONG_BYTES || self.sent_beside.contains(tree);
        self.beside.is_some() && long
    }

    /// Gives these runs to the second sender.
    fn give_away(&self, tokens: &[RunToken]) {
        let state = self.ledger.state();
        let runs = tokens.iter().filter_map(|token| state.by_token(token));
        if let Some(beside) = &self.beside {
            // The receiver lives as long as this sender.
            let _ = beside.send(runs.collect());
        }
    }

    /// Records that runs can never be sent. The node is asked for the runs that it may
    /// have: an answer may have been lost, and it needs nothing from here for them.
    async fn never(&mut self, tokens: Vec<RunToken>, why: String) -> Result<(), Failure> {
        self.mark(tokens.clone(), SendState::Never(why.clone()))
            .await?;
        let gate = self.gate.clone();
        let _held = gate.lock().await;
        let state = self.ledger.state();
        let runs = tokens
            .iter()
            .filter_map(|token| state.run(state.by_token(token)?));
        let asked = runs.filter(|run| hand_over::is_asked_for(run, &self.settings.name));
        let asked: Vec<v1::RunSpec> = asked.map(send::question).collect();
        if asked.is_empty() {
            return Ok(());
        }
        // A node that cannot tell now is asked again.
        self.look_again(AGAIN);
        self.ask(asked, why).await
    }

    /// Records the outcome of sending.
    async fn mark(&self, tokens: Vec<RunToken>, sending: SendState) -> Result<(), Failure> {
        let input = Input::Sending {
            node: self.settings.name.clone(),
            sending,
            tick: self.settings.clock.moment().tick,
        };
        let late =
            LatePolicy::Passes("it was ended, held or placed elsewhere while its files were sent");
        let inputs = self.each(&tokens, &input);
        self.ledger.happened(false, inputs, late).await
    }

    /// The input for each of these runs.
    fn each(&self, tokens: &[RunToken], input: &Input) -> Vec<(RunId, Input)> {
        let state = self.ledger.state();
        let ids = tokens.iter().filter_map(|token| state.by_token(token));
        ids.map(|id| (id, input.clone())).collect()
    }

    /// Records, synced, that runs may reach this node, where another node could
    /// get them. A run that was placed elsewhere meanwhile is left out, also if
    /// it is back: it has another generation.
    async fn offer(&self, mut batch: Vec<v1::RunSpec>) -> Result<Vec<v1::RunSpec>, Failure> {
        let node = self.settings.name.clone();
        let offer = Input::Offer { node };
        let state = self.ledger.state();
        let mut inputs = self.each(&tokens(batch.iter()), &offer);
        inputs.retain(|(id, _)| state.run(*id).is_some_and(Run::movable));
        if !inputs.is_empty() {
            let late =
                LatePolicy::Passes("it was ended, held or placed elsewhere while its files went");
            self.ledger.happened(true, inputs, late).await?;
        }
        let state = self.ledger.state();
        batch.retain(|spec| {
            let run = RunToken::from_slice(&spec.token)
                .and_then(|token| state.run(state.by_token(&token)?));
            run.is_some_and(|run| hand_over::may_send(run, &self.settings.name, spec.generation))
        });
        Ok(batch)
    }

    /// Runs that are still due after the pause are looked at again.
    fn look_again(&mut self, pause: Duration) {
        let at = Instant::now() + pause;
        self.again = Some(self.again.map_or(at, |again| again.min(at)));
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
        version: run.rules_version(),
        rules: run
            .rules
            .iter()
            .filter_map(|id| state.rules.get(id))
            .map(|rule| spec::rule(rule))
            .collect(),
        cohort: run
            .peers()
            .iter()
            .map(|number| v1::CohortNumber {
                text: number.text.clone(),
                value: number.value,
                peers: number.peers,
                at_ms: number.at_ms,
            })
            .collect(),
    }
}
