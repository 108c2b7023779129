//! `Paths`: the folders of runs.

use std::collections::HashMap;
use std::path::PathBuf;

use nero_config::LOCAL;
use nero_model::DeploymentId;
use nero_model::paths::NodePaths;
use nero_wire::v1;
use nero_wire::v1::paths_reply::One;

use crate::service::select::ChosenRun;
use crate::service::{Man, blocking};
use nero_home::failure::Failure;
use nero_home::spec::work_folder;
use nero_life::run::{Results, Run};
use nero_life::state::State;

impl Man {
    /// The folders of the picked runs.
    pub(crate) async fn paths(&self, request: v1::PathsRequest) -> Result<v1::PathsReply, Failure> {
        let selection = self.selection(request.selection, "").await?;
        let state = self.ledger.state();
        let roots = self.roots();
        let deployment = self.deployment;
        blocking(move || {
            let (chosen, _) = selection.choose(&state)?;
            let paths = chosen
                .iter()
                .filter_map(|chosen| {
                    reply_entry(&state, chosen, request.work, |run| {
                        work(&roots, &deployment, run)
                    })
                })
                .collect();
            Ok(v1::PathsReply { paths })
        })
        .await?
    }

    /// The roots of nodes, where known.
    fn roots(&self) -> HashMap<String, PathBuf> {
        let nodes = self.nodes.all().into_iter();
        nodes
            .filter_map(|node| {
                let root = self.root_of(&node.name)?;
                // A node's text: it is shown, and never opened here.
                let plain = root.starts_with('/') && !root.contains(char::is_control);
                plain.then(|| (node.name, PathBuf::from(root)))
            })
            .collect()
    }

    /// The job's folder of one run; empty if there is none, or it is unknown.
    pub(crate) fn work_of(&self, run: &Run) -> String {
        work(&self.roots(), &self.deployment, run).0
    }
}

fn reply_entry(
    state: &State,
    chosen: &ChosenRun,
    work: bool,
    place: impl Fn(&Run) -> (String, String),
) -> Option<One> {
    let experiment = state.experiment(chosen.id)?;
    let Some(run) = chosen.of(experiment) else {
        return Some(One {
            experiment: chosen.id.0,
            run: 0,
            path: String::new(),
            note: "it has never run".to_owned(),
            node: String::new(),
        });
    };
    let (path, note) = if work { place(run) } else { results(run) };
    let remote = work && !path.is_empty() && run.node_word() != LOCAL;
    Some(One {
        experiment: chosen.id.0,
        run: run.made.id.number,
        path,
        note,
        node: if remote {
            run.node_word().to_owned()
        } else {
            String::new()
        },
    })
}

/// The job's folder on its node, or why there is none.
fn work(
    roots: &HashMap<String, PathBuf>,
    deployment: &DeploymentId,
    run: &Run,
) -> (String, String) {
    if let Some(at_ms) = run.cleaned_ms() {
        return (String::new(), super::clean::cleaned(at_ms));
    }
    let Some(node) = run.node() else {
        return (String::new(), "it waits for a node".to_owned());
    };
    match roots.get(node) {
        Some(root) => {
            let nodes = NodePaths::new(root, deployment, node);
            (work_folder(&nodes, run), String::new())
        }
        None => (
            String::new(),
            format!("where it lies is known once {node} has answered"),
        ),
    }
}

fn results(run: &Run) -> (String, String) {
    let note = match run.results() {
        Results::Open if run.started_ms().is_none() && run.phase().is_live() => {
            "it has not been started"
        }
        Results::Open if run.phase().is_live() => "it has not ended",
        Results::Fetching { why, .. } if !why.is_empty() => why,
        Results::Fetching { .. } if run.phase().is_live() => "it has not ended; more is to come",
        Results::Open | Results::Nothing if run.cleaned_ms().is_some() => {
            "its folder on the node was cleaned, and nothing had come home"
        }
        Results::Open | Results::Nothing if run.journal.incarnations.is_empty() => {
            if run.in_doubt() {
                "nobody knows whether it was started"
            } else {
                "it was never started"
            }
        }
        Results::Open | Results::Nothing if !run.has_results() => {
            "it printed nothing and made no files that are to come home"
        }
        Results::Open | Results::Fetching { .. } => "on its way home",
        Results::Nothing => "there was nothing to bring home",
        Results::Failed { why, .. } => why,
        Results::Done { .. } => "",
    };
    (run.results().folder().to_owned(), note.to_owned())
}
