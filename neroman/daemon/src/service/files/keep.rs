//! `keep: 30d`: the folder of a run goes from its node when that time has passed since its end.
//!
//! It goes as by `clean`: only when everything is home and was compared, and no later run needs
//! it. A folder that may not go is looked at again later.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use nero_model::RunId;
use nero_wire::v1;
use tokio::time::Instant;

use crate::service::Man;
use crate::service::select::ChosenRun;
use nero_home::ledger::Audience;
use nero_life::clean;
use nero_life::state::State;

/// Least time between two looks at all runs.
const BETWEEN: Duration = Duration::from_secs(5);
/// Longest time between them: clocks of computers that slept are set.
const EVERY: Duration = Duration::from_secs(600);
/// How soon a run that may not go yet is tried again.
const AGAIN: Duration = Duration::from_secs(3600);
/// Runs of one call.
const RUNS_MAX: usize = 1000;

/// The runs whose time is over by node, and the time until the next one's is.
#[derive(Debug, Default, PartialEq)]
struct ExpiredRuns {
    by_node: BTreeMap<String, Vec<RunId>>,
    next_ms: Option<i64>,
}

impl Man {
    /// Removes folders until the daemon leaves.
    pub(crate) async fn remove_not_kept(self) {
        let mut states = self.ledger.watch(Audience::Runs);
        let mut tried: HashMap<RunId, Instant> = HashMap::new();
        loop {
            tried.retain(|_, at| at.elapsed() < AGAIN);
            let state = states.state();
            let due = due(&state, self.clock.now_ms(), &|run| tried.contains_key(&run));
            drop(state);
            for (node, runs) in due.by_node {
                tried.extend(runs.iter().map(|run| (*run, Instant::now())));
                self.remove_folders(node, &runs).await;
            }
            let next = due.next_ms.and_then(|ms| u64::try_from(ms).ok());
            let pause = next.map_or(EVERY, Duration::from_millis);
            let pause = pause.clamp(BETWEEN, EVERY);
            tokio::time::sleep(BETWEEN).await;
            let rest = pause.saturating_sub(BETWEEN);
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                changed = states.changed() => if changed.is_err() {
                    // The ledger is gone, and the daemon leaves.
                    std::future::pending::<()>().await;
                },
            }
        }
    }

    async fn remove_folders(&self, node: String, runs: &[RunId]) {
        // Not by a selector, which would refuse runs of experiments that were removed.
        let chosen = runs.iter().map(|run| ChosenRun {
            id: run.experiment,
            run: Some(run.number),
        });
        let request = v1::CleanAskRequest {
            node: node.clone(),
            ..v1::CleanAskRequest::default()
        };
        match self.clean_chosen(request, chosen.collect(), false).await {
            Ok(reply) => {
                let gone = reply.runs.iter().filter(|one| one.skipped.is_empty());
                let gone = gone.count();
                tracing::info!(node, runs = gone, "folders were not kept longer");
            }
            Err(failure) => tracing::warn!(node, %failure, "folders that are not kept stay"),
        }
    }
}

/// Looks for runs to remove; `was_tried` lately.
fn due(state: &State, now_ms: i64, was_tried: &dyn Fn(RunId) -> bool) -> ExpiredRuns {
    let mut due = ExpiredRuns::default();
    for experiment in state.experiments.iter() {
        let Some(keep_ms) = experiment.definition.keep_ms else {
            continue;
        };
        let keep_ms = i64::try_from(keep_ms).unwrap_or(i64::MAX);
        for run in &experiment.runs {
            let Some(ended_ms) = run.outcome.ended_ms.filter(|_| clean::lies_there(run)) else {
                continue;
            };
            let left_ms = ended_ms.saturating_add(keep_ms).saturating_sub(now_ms);
            if left_ms > 0 {
                due.next_ms = Some(due.next_ms.map_or(left_ms, |least| least.min(left_ms)));
                continue;
            }
            let may_go = clean::needed(experiment, run).or_else(|| clean::stays(run, false));
            if may_go.is_none() && !was_tried(run.made.id) {
                let of_node = due.by_node.entry(run.node_word().to_owned()).or_default();
                if of_node.len() < RUNS_MAX {
                    of_node.push(run.made.id);
                }
            }
        }
    }
    due
}
