//! `Paths`: where the files of runs lie.

use nero_model::paths::{NodePaths, run::WORK};
use nero_wire::v1;
use nero_wire::v1::paths_reply::One;

use super::select::{self, Chosen};
use super::{Man, blocking};
use crate::core::run::{Results, Run};
use crate::core::state::State;
use crate::failure::Failure;

impl Man {
    /// The folders of what is picked.
    pub(super) async fn paths(&self, request: v1::PathsRequest) -> Result<v1::PathsReply, Failure> {
        let selection = select::read(request.selection, "", self.clock.now_ms())?;
        let state = self.ledger.state();
        let nodes = self.node_paths();
        blocking(move || {
            let (chosen, _) = selection.choose(&state)?;
            let paths = chosen
                .iter()
                .filter_map(|chosen| one(&state, chosen, &nodes, request.work))
                .collect();
            Ok(v1::PathsReply { paths })
        })
        .await?
    }

    /// Where things lie on the local node.
    pub(super) fn node_paths(&self) -> NodePaths {
        NodePaths::new(&self.home.local_root, &self.deployment, nero_config::LOCAL)
    }
}

fn one(state: &State, chosen: &Chosen, nodes: &NodePaths, work: bool) -> Option<One> {
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
    let (path, note) = if work {
        (work_folder(nodes, run), String::new())
    } else {
        results(run)
    };
    Some(One {
        experiment: chosen.id.0,
        run: run.made.id.number,
        path,
        note,
        node: String::new(),
    })
}

fn results(run: &Run) -> (String, String) {
    let note = match &run.desk.results {
        Results::Open if run.phase().is_live() => "it has not ended",
        Results::Open | Results::Nothing if !run.printed() && !run.made.outputs => {
            "it printed nothing and has no outputs"
        }
        Results::Open | Results::Fetching { .. } => "on its way home",
        Results::Nothing => "there was nothing to bring home",
        Results::Failed { why, .. } => why,
        Results::Done { .. } => "",
    };
    (run.desk.results.folder().to_owned(), note.to_owned())
}

/// The job's folder on its node.
pub(super) fn work_folder(nodes: &NodePaths, run: &Run) -> String {
    let folder = nodes.run(run.made.id);
    let name = match run.journal.newest() {
        Some((number, _)) if number > 1 => format!("{WORK}.{number}"),
        _ => WORK.to_owned(),
    };
    folder.join(name).display().to_string()
}
