//! `restart --same-code`: a run with the parameters and the code of the newest run.

use std::collections::HashMap;

use nero_model::{ExperimentId, RunId, RunToken};
use nero_wire::v1;
use prost::Message as _;

use super::{FrozenSources, InStart, Man, Places, RequestedStart, RunPlace};
use nero_home::failure::Failure;
use nero_home::spec;
use nero_life::experiment::Experiment;
use nero_life::run::{RunDemands, RunRecord};

impl Man {
    /// The specs of the newest runs of these experiments.
    ///
    /// # Errors
    /// When the code of one of these runs is not kept any more.
    pub(super) async fn newest_specs(
        &self,
        picked: &[ExperimentId],
    ) -> Result<HashMap<RunId, v1::RunSpec>, Failure> {
        let state = self.ledger.state();
        let newest = picked
            .iter()
            .filter_map(|id| state.experiment(*id)?.newest());
        let store = self.home.store();
        let mut runs = Vec::new();
        for run in newest {
            let tree = nero_blobs::parse(&run.made.tree);
            if tree.is_some_and(|tree| !nero_blobs::path(&store, &tree).exists()) {
                let what = format!("the code of {} is not kept any more", run.made.id);
                return Err(Failure::failed(what)
                    .hint("leave out --same-code: the run is made of the present code"));
            }
            runs.push(run.made.id);
        }
        let mut specs = HashMap::new();
        for (id, spec) in self.ledger.specs(runs).await? {
            specs.insert(id, spec?);
        }
        Ok(specs)
    }
}

impl RunPlace {
    /// With `--resume` the run begins with the checkpoints of the one before.
    pub(super) fn resume(&mut self, asked: &RequestedStart, experiment: &Experiment) {
        if asked.wanted.resume
            && let Some(earlier) = experiment.newest_started()
        {
            self.resume = Some(earlier.made.id.number);
            earlier.node_word().clone_into(&mut self.takes.prefer);
        }
    }
}

impl Places {
    /// The place of a run like an earlier one.
    fn like(&self, before: &RunRecord) -> Result<RunPlace, Failure> {
        let word = match self.word.as_str() {
            "" => before.node.as_str(),
            word => word,
        };
        let takes = RunDemands {
            prefer: String::new(),
            grown: false,
            ..before.takes.clone()
        };
        self.placed(word, "", takes)
    }
}

/// Makes a run with the spec of the newest one. Returns its record, its node if that is
/// decided, and its encoded spec.
pub(super) fn run(
    asked: &RequestedStart,
    prepared: &FrozenSources,
    experiment: &Experiment,
    id: RunId,
    place: &InStart,
    now_ms: i64,
) -> Result<(RunRecord, Option<String>, Vec<u8>), Failure> {
    let before = &experiment.newest().ok_or_else(Failure::moved)?.made;
    let spec = prepared.specs.get(&before.id).ok_or_else(Failure::moved)?;
    let mut placed = asked.places.like(before)?;
    placed.resume(asked, experiment);
    let mut made = RunRecord {
        token: RunToken::random(),
        id,
        node: placed.word,
        placing: true,
        created_ms: now_ms,
        created: Some(asked.at.tick.clone()),
        takes: placed.takes,
        resume: placed.resume,
        follows: None,
        precedence: experiment.definition.precedence.clone(),
        ..(**before).clone()
    };
    place.put(&mut made);
    let encoded = spec::again(&spec.encode_to_vec(), &made)?;
    Ok((made, placed.node, encoded))
}
