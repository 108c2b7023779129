//! Bringing the results of ended runs home: logs, and the files that
//! `outputs` names. Begun anew after a crash, done exactly when complete;
//! never in the way of anything else.
//!
//! What a node says is hostile input: names become safe ones, nothing is
//! written outside of the run's own folder, sizes and counts are bounded.

mod fetch;
mod place;

use std::collections::HashSet;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nero_model::RunId;
use nero_wire::v1::mum_client::MumClient;
use tokio::sync::mpsc;
use tonic::transport::Channel;

use crate::core::run::Results;
use crate::failure::Failure;
use crate::ledger::Ledger;
use crate::node::{Settings, desk_change};

/// Runs whose results are fetched at the same time.
const AT_ONCE: usize = 3;
/// Tries before a run's results are given up; another connection begins anew.
const TRIES: u32 = 3;

/// Fetches over one connection.
pub(crate) struct Fetcher {
    settings: Settings,
    ledger: Ledger,
    client: MumClient<Channel>,
    tx: mpsc::UnboundedSender<RunId>,
    rx: mpsc::UnboundedReceiver<RunId>,
}

impl Fetcher {
    pub(crate) fn new(settings: Settings, ledger: Ledger, client: MumClient<Channel>) -> Self {
        // Holds numbers of runs only, each once until it is fetched.
        let (tx, rx) = mpsc::unbounded_channel();
        Self {
            settings,
            ledger,
            client,
            tx,
            rx,
        }
    }

    /// Where runs that have ended are put.
    pub(crate) fn queue(&self) -> mpsc::UnboundedSender<RunId> {
        self.tx.clone()
    }

    /// Works until the connection is given up.
    pub(crate) async fn run(mut self) {
        let mut known: HashSet<RunId> = HashSet::new();
        let mut waiting = std::collections::VecDeque::new();
        let mut working = FuturesUnordered::new();
        loop {
            while working.len() < AT_ONCE {
                let Some(run) = waiting.pop_front() else {
                    break;
                };
                working.push(one(&self.settings, &self.ledger, self.client.clone(), run));
            }
            tokio::select! {
                Some(run) = self.rx.recv() => if known.insert(run) {
                    waiting.push_back(run);
                },
                Some(done) = working.next(), if !working.is_empty() => {
                    known.remove(&done);
                }
            }
        }
    }
}

/// Brings the results of one run home and writes down how it went.
async fn one(settings: &Settings, ledger: &Ledger, client: MumClient<Channel>, id: RunId) -> RunId {
    let mut tries = 0;
    loop {
        tries += 1;
        match attempt(settings, ledger, client.clone(), id).await {
            Ok(()) => return id,
            Err(failure) if failure.is_node() => {
                // The next connection begins anew.
                tracing::info!(run = %id, %failure, "results not fetched");
                return id;
            }
            Err(failure) if tries < TRIES => {
                tracing::info!(run = %id, %failure, "results not fetched, trying again");
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
            Err(failure) => {
                tracing::warn!(run = %id, %failure, "results given up");
                let why = failure.to_string();
                let given_up = ledger
                    .note(false, move |state, _| {
                        desk_change(state, id, |desk| {
                            desk.results = Results::Failed {
                                folder: desk.results.folder().to_owned(),
                                why,
                            };
                        })
                        .into_iter()
                        .collect()
                    })
                    .await;
                if let Err(failure) = given_up {
                    tracing::warn!(run = %id, %failure, "not written down");
                }
                return id;
            }
        }
    }
}

async fn attempt(
    settings: &Settings,
    ledger: &Ledger,
    client: MumClient<Channel>,
    id: RunId,
) -> Result<(), Failure> {
    let state = ledger.state();
    let Some((experiment, run)) = state
        .experiment(id.experiment)
        .and_then(|experiment| Some((experiment, experiment.run(id.number)?)))
    else {
        return Ok(());
    };
    if !crate::core::needs::of(run).results {
        return Ok(());
    }
    let folder = match run.desk.results.folder() {
        "" => {
            let plan = place::plan(experiment, run, &settings.results_fallback);
            let folder = crate::service_blocking(move || place::make(&plan)).await??;
            // Whoever finds this after a crash goes on in the same folder.
            let (marked, at) = (folder.clone(), id);
            ledger
                .note(false, move |state, _| {
                    desk_change(state, at, |desk| {
                        desk.results = Results::Fetching {
                            folder: marked.display().to_string(),
                        };
                    })
                    .into_iter()
                    .collect()
                })
                .await?;
            folder
        }
        known => std::path::PathBuf::from(known),
    };
    let definition = &experiment.definition;
    let notes = fetch::all(client, definition, run, &folder).await?;
    let done = Results::Done {
        folder: folder.display().to_string(),
        notes,
    };
    crate::service_blocking(move || place::latest(&folder)).await?;
    ledger
        .note(false, move |state, _| {
            desk_change(state, id, |desk| desk.results = done)
                .into_iter()
                .collect()
        })
        .await
}
