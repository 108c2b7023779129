//! Brings the results of runs home: logs, and the files that `outputs` names;
//! those of live runs as they are produced, everything at the end. After a
//! crash a transfer continues where it was; it is done exactly when it is
//! complete, and never delays other work.
//!
//! A node's replies are hostile input: names are made safe, nothing is written
//! outside of the run's own folder, sizes and counts are bounded.

mod arrivals;
mod choice;
mod fetch;
mod folder;
mod home;
mod job;
mod logs;
mod missing_files;
mod names;
mod notes;
mod place;
mod queue;
mod receive;
mod request;
mod stamps;
mod trouble;
mod way;

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nero_model::RunId;
use nero_wire::v1::mum_client::MumClient;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::transport::Channel;

use crate::transfer::ProgressCallback;
use nero_home::ledger::{LatePolicy, Ledger};
use nero_life::input::Input;
use nero_life::needs;

pub use arrivals::sync;
pub use home::MissingResults;
pub use job::{FetchJob, Places, RequestedFiles};
pub use queue::Pace;
pub use trouble::Trouble;

use arrivals::CompleteResults;
use queue::{FetchKind, Queue};

/// Tries before a run's results are given up; `neroman fetch` begins anew.
const TRIES: u32 = 3;
/// Longest reason that is kept, in bytes: it contains text of nodes.
const WHY_BYTES_MAX: usize = 1000;
/// Between two tries.
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

/// Fetches over one connection.
pub(crate) struct Fetcher {
    node: String,
    places: Places,
    ledger: Ledger,
    client: MumClient<Channel>,
    on_progress: ProgressCallback,
    tx: mpsc::UnboundedSender<RunId>,
    rx: mpsc::UnboundedReceiver<RunId>,
}

/// The result of a turn.
struct Turn {
    run: RunId,
    kind: FetchKind,
    took: Duration,
    result: Result<FetchProgress, Trouble>,
}

enum FetchProgress {
    /// Files of a run that lives.
    Something,
    /// All files of an ended run, which are not synced yet.
    All(Box<CompleteResults>),
    /// No files will ever come this way.
    Nothing,
}

impl Fetcher {
    pub(crate) fn new(
        node: String,
        places: Places,
        ledger: Ledger,
        client: MumClient<Channel>,
        on_progress: ProgressCallback,
    ) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "numbers of runs, each at most once per change"
        )]
        let (tx, rx) = mpsc::unbounded_channel();
        Self {
            node,
            places,
            ledger,
            client,
            on_progress,
            tx,
            rx,
        }
    }

    /// The queue of runs that may have files to fetch.
    pub(crate) fn queue(&self) -> mpsc::UnboundedSender<RunId> {
        self.tx.clone()
    }

    /// Works until the connection is given up.
    pub(crate) async fn run(mut self) {
        let mut queue = Queue::default();
        let mut tries: HashMap<RunId, u32> = HashMap::new();
        let mut working = FuturesUnordered::new();
        let mut arrived: Vec<(Turn, CompleteResults)> = Vec::new();
        let mut recording = FuturesUnordered::new();
        loop {
            if recording.is_empty() && !arrived.is_empty() {
                recording.push(record(self.ledger.clone(), std::mem::take(&mut arrived)));
            }
            while let Some((run, kind)) = queue.begin() {
                working.push(turn(
                    self.node.clone(),
                    self.places.clone(),
                    self.ledger.clone(),
                    self.client.clone(),
                    self.on_progress.clone(),
                    run,
                    kind,
                ));
            }
            let due = queue.next_due();
            tokio::select! {
                Some(run) = self.rx.recv() => {
                    if let Some(kind) = self.wanted(run) {
                        queue.add(run, kind, Instant::now() + self.places.pace.first);
                    }
                }
                Some(mut turn) = working.next(), if !working.is_empty() => {
                    match std::mem::replace(&mut turn.result, Ok(FetchProgress::Something)) {
                        Ok(FetchProgress::All(all)) => {
                            queue.came(turn.run);
                            arrived.push((turn, *all));
                        }
                        result => {
                            turn.result = result;
                            self.ended(turn, &mut queue, &mut tries).await;
                        }
                    }
                }
                Some(recorded) = recording.next(), if !recording.is_empty() => {
                    for turn in recorded {
                        self.ended(turn, &mut queue, &mut tries).await;
                    }
                }
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    queue.wake(Instant::now());
                }
            }
        }
    }

    /// A turn is over: the run may have another one.
    async fn ended(&self, turn: Turn, queue: &mut Queue, tries: &mut HashMap<RunId, u32>) {
        queue.done(turn.run);
        let tries = tries.entry(turn.run).or_default();
        let again = self.after(&turn, tries).await;
        // A run that ended while its files were fetched does not wait.
        match (again, self.wanted(turn.run)) {
            (_, Some(FetchKind::End)) if turn.kind == FetchKind::Live => {
                queue.add(turn.run, FetchKind::End, Instant::now());
            }
            (Some(pause), Some(kind)) => {
                queue.later(turn.run, kind, Instant::now() + pause);
            }
            (Some(_) | None, _) => {}
        }
    }

    /// The kind of fetch that a run needs now.
    fn wanted(&self, run: RunId) -> Option<FetchKind> {
        let state = self.ledger.state();
        let needs = needs::of(state.run(run)?);
        match (needs.results, needs.live_results) {
            (true, _) => Some(FetchKind::End),
            (false, true) => Some(FetchKind::Live),
            (false, false) => None,
        }
    }

    /// When the run has its next turn; `None` if never.
    async fn after(&self, turn: &Turn, tries: &mut u32) -> Option<Duration> {
        let pace = self.places.pace;
        let trouble = match &turn.result {
            Ok(FetchProgress::Something | FetchProgress::All(_)) => {
                *tries = 0;
                let why = String::new();
                self.note(turn.run, Input::ResultsWait { why }).await;
                return Some(pace.after(turn.took));
            }
            Ok(FetchProgress::Nothing) => return None,
            Err(trouble) => trouble,
        };
        let (run, failure) = (turn.run, trouble.failure());
        let node = &self.node;
        tracing::info!(%run, node, %failure, "results not fetched");
        match (trouble, turn.kind) {
            (Trouble::Node(_), _) => Some(pace.again),
            (Trouble::Full(_), _) => {
                let why = bounded(format!("{failure}; {}", failure.hint_text()));
                self.note(run, Input::ResultsWait { why }).await;
                Some(pace.again)
            }
            (Trouble::Refused(_), FetchKind::Live) => Some(pace.longest),
            (Trouble::Refused(_), FetchKind::End) => {
                *tries += 1;
                if *tries < TRIES {
                    return Some(BETWEEN_TRIES.min(pace.again));
                }
                self.give_up(run, failure.to_string()).await;
                None
            }
        }
    }

    async fn give_up(&self, run: RunId, why: String) {
        let why = bounded(why);
        let node = &self.node;
        tracing::warn!(%run, node, why, "results given up");
        self.note(run, Input::ResultsGivenUp { why }).await;
    }

    /// Records what happens to a run, if that changes anything.
    async fn note(&self, id: RunId, input: Input) {
        let late = LatePolicy::Passes("its results were complete or given up before");
        let inputs = vec![(id, input)];
        if late.steps(&self.ledger.state(), &inputs, 0).is_empty() {
            return;
        }
        let noted = self.ledger.happened(false, inputs, late).await;
        if let Err(failure) = noted {
            let node = &self.node;
            tracing::warn!(run = %id, node, %failure, "not written down");
        }
    }
}

/// A reason, cut to the length that is kept.
fn bounded(mut why: String) -> String {
    why.truncate(why.floor_char_boundary(WHY_BYTES_MAX));
    why
}

/// Records that all files of these runs are home; returns their turns with the outcome.
async fn record(ledger: Ledger, arrived: Vec<(Turn, CompleteResults)>) -> Vec<Turn> {
    let (turns, arrived): (Vec<Turn>, Vec<CompleteResults>) = arrived.into_iter().unzip();
    let recorded = arrivals::record(&ledger, arrived).await;
    let with_result = |turn: Turn| Turn {
        result: recorded.clone().map(|()| FetchProgress::Something),
        ..turn
    };
    turns.into_iter().map(with_result).collect()
}

/// Fetches the files of one run.
async fn turn(
    node: String,
    places: Places,
    ledger: Ledger,
    client: MumClient<Channel>,
    on_progress: ProgressCallback,
    run: RunId,
    kind: FetchKind,
) -> Turn {
    let began = Instant::now();
    let result: Result<FetchProgress, Trouble> = async {
        if kind == FetchKind::Live && !job::has_live(&ledger, run).await? {
            return Ok(FetchProgress::Nothing);
        }
        let job = FetchJob::prepare(&places, &ledger, client, on_progress, run, false).await?;
        match (job, kind) {
            (None, _) => Ok(FetchProgress::Nothing),
            (Some(job), FetchKind::Live) => {
                job.live(&ledger).await.map(|()| FetchProgress::Something)
            }
            (Some(job), FetchKind::End) => {
                let all = job.end(&ledger).await?;
                Ok(FetchProgress::All(Box::new(all)))
            }
        }
    }
    .await;
    Turn {
        run,
        kind,
        took: began.elapsed(),
        result: result.map_err(|trouble| trouble.of(&node)),
    }
}
