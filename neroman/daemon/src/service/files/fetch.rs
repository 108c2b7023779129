//! `Fetch`: files of runs, now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use nero_model::RunId;
use nero_wire::v1;
use nero_wire::v1::fetch_event::{Event, One};
use nero_wire::v1::mum_client::MumClient;
use tonic::transport::Channel;

use crate::service::select::ChosenRun;
use crate::service::{Man, Sink, blocking};
use nero_home::failure::Failure;
use nero_life::run::Run;
use nero_life::state::State;
use nero_link::connect::mum_client;
use nero_link::results::{FetchJob, Places, RequestedFiles, Trouble};
use nero_link::transfer::ProgressCallback;

/// How long a node may take to be reached.
const PATIENCE: Duration = Duration::from_secs(10);

/// The picked runs by node, and notes about the rest.
#[derive(Default)]
struct RunsByNode {
    runs: BTreeMap<String, Vec<RunId>>,
    notes: Vec<String>,
    /// Named runs that have no files to fetch.
    over: Vec<One>,
}

/// The outcome of the runs of one node.
#[derive(Default)]
struct NodeOutcome {
    done: usize,
    failed: usize,
    /// Of those, runs for which the node was out of reach.
    unasked: usize,
    /// The node's own failure, when it was out of reach.
    away: Option<Failure>,
}

impl Man {
    /// Brings files of runs home and reports each run's outcome.
    pub(crate) async fn fetch(
        &self,
        request: v1::FetchRequest,
        sink: Sink<v1::FetchEvent>,
    ) -> Result<(), Failure> {
        let all = request.selection.as_ref();
        let all = all.is_none_or(|selection| selection.text.trim().is_empty());
        if let Some((wrong, hint)) = request
            .include
            .iter()
            .find_map(|glob| nero_format::glob_mistake(glob))
        {
            return Err(Failure::usage(wrong).hint(hint));
        }
        let selection = self.selection(request.selection, "all").await?;
        let state = self.ledger.state();
        let picked = blocking(move || {
            let (chosen, found) = selection.choose(&state)?;
            let mut picked = pick(&state, &chosen, all);
            picked.notes.extend(found.notes);
            Ok::<_, Failure>(picked)
        })
        .await??;
        for note in picked.notes {
            say(&sink, Event::Note(note)).await;
        }
        let mut failed = picked.over.len();
        for one in picked.over {
            say(&sink, Event::Done(one)).await;
        }
        let asked = RequestedFiles {
            include: request.include,
        };
        let nodes = picked
            .runs
            .into_iter()
            .map(|(node, runs)| self.fetch_from(node, runs, &asked, request.dry_run, &sink));
        let went = join_all(nodes).await;
        failed += went.iter().map(|went| went.failed).sum::<usize>();
        let done: usize = went.iter().map(|went| went.done).sum();
        let unasked: usize = went.iter().map(|went| went.unasked).sum();
        let away = went.into_iter().find_map(|went| went.away);
        match away {
            Some(failure) if done == 0 && failed == unasked => Err(failure),
            Some(_) | None => Ok(()),
        }
    }

    async fn fetch_from(
        &self,
        node: String,
        runs: Vec<RunId>,
        asked: &RequestedFiles,
        dry_run: bool,
        sink: &Sink<v1::FetchEvent>,
    ) -> NodeOutcome {
        let mut went = NodeOutcome::default();
        let client = match self.nodes.channel(&node, PATIENCE).await {
            Ok(channel) => mum_client(channel),
            Err(failure) => {
                (went.failed, went.unasked) = (runs.len(), runs.len());
                for run in runs {
                    let one = One {
                        away: true,
                        ..not_done(run, failure.to_string())
                    };
                    say(sink, Event::Done(one)).await;
                }
                went.away = Some(failure);
                return went;
            }
        };
        let progress = progress_callback(sink.clone());
        for run in runs {
            match self
                .fetch_one(client.clone(), progress.clone(), run, asked, dry_run)
                .await
            {
                Ok(one) => {
                    went.done += 1;
                    say(sink, Event::Done(one)).await;
                }
                Err(trouble) => {
                    let trouble = trouble.of(&node);
                    went.failed += 1;
                    let failure = trouble.failure().clone();
                    let away = matches!(trouble, Trouble::Node(_));
                    let one = One {
                        away,
                        ..not_done(run, failure.to_string())
                    };
                    say(sink, Event::Done(one)).await;
                    if away {
                        went.unasked += 1;
                        went.away = Some(failure);
                    }
                }
            }
        }
        went
    }

    async fn fetch_one(
        &self,
        client: MumClient<Channel>,
        progress: ProgressCallback,
        run: RunId,
        asked: &RequestedFiles,
        dry_run: bool,
    ) -> Result<One, Trouble> {
        let places = Places::of(&self.home);
        let job = FetchJob::prepare(&places, &self.ledger, client, progress, run, dry_run).await?;
        let Some(job) = job else {
            return Err(Failure::failed(format!("there is no run {run}")).into());
        };
        let outcome = if dry_run {
            job.would(asked).await?
        } else {
            job.asked(&self.ledger, asked).await?
        };
        Ok(One {
            experiment: run.experiment.0,
            run: run.number,
            folder: job.folder().display().to_string(),
            files: outcome.files,
            bytes: outcome.bytes,
            unchanged: outcome.unchanged,
            notes: outcome.notes.into_lines(),
            failed: String::new(),
            away: false,
        })
    }
}

fn pick(state: &State, chosen: &[ChosenRun], all: bool) -> RunsByNode {
    let mut picked = RunsByNode::default();
    let mut never = 0;
    for chosen in chosen {
        let Some(experiment) = state.experiment(chosen.id) else {
            continue;
        };
        let run = chosen.of(experiment);
        match run.map(|run| (run, nothing(run))) {
            Some((run, None)) => {
                let node = run.node_word().to_owned();
                picked.runs.entry(node).or_default().push(run.made.id);
            }
            _ if all => {}
            Some((run, Some(why))) => picked.over.push(not_done(run.made.id, why)),
            None => never += 1,
        }
    }
    if never > 0 {
        picked.notes.push(format!("{never} never ran"));
    }
    picked
}

/// Why a run has no files to fetch.
fn nothing(run: &Run) -> Option<String> {
    if let Some(at_ms) = run.cleaned_ms() {
        return Some(super::clean::cleaned(at_ms));
    }
    let started = run.started_ms().is_some();
    (!started).then(|| "it has not been started".to_owned())
}

fn not_done(run: RunId, why: String) -> One {
    One {
        experiment: run.experiment.0,
        run: run.number,
        failed: why,
        ..One::default()
    }
}

/// Sends the progress of transfers; a slow client misses some of it.
fn progress_callback(sink: Sink<v1::FetchEvent>) -> ProgressCallback {
    Arc::new(move |progress| {
        if let Some(progress) = progress {
            let event = Some(Event::Progress(progress));
            let _ = sink.try_send(Ok(v1::FetchEvent { event }));
        }
    })
}

async fn say(sink: &Sink<v1::FetchEvent>, event: Event) {
    // A client that left ends the call.
    let _ = sink.send(Ok(v1::FetchEvent { event: Some(event) })).await;
}
