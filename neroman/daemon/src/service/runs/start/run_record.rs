//! The facts of a new run that never change, and its demands on its node.

use nero_format::Definition;
use nero_life::experiment::Experiment;
use nero_life::run::{RunDemands, RunRecord};
use nero_model::{RunId, RunToken, ids::hex};

use super::RunPlace;
use nero_link::outside::FrozenFolder;

/// The demands of an experiment's run on its node.
pub(super) fn takes(definition: &Definition) -> RunDemands {
    RunDemands {
        cpus: definition.resources.cpus,
        memory_bytes: definition.resources.memory_bytes.unwrap_or(0),
        limit_s: definition.scheduler_limit_s(),
        disk_bytes: definition.resources.disk_bytes.unwrap_or(0),
        requires: (definition.requires.as_ref())
            .map_or_else(String::new, |requires| requires.text.clone()),
        probes: definition.probes.clone(),
        prefer: String::new(),
        in_order: definition.precedence.place.in_order,
        data: definition.data.clone(),
        scheduling: definition.scheduling.clone(),
        on_nodes: definition.resources.on_nodes.clone().into(),
        grace_ms: if definition.resources.on_nodes.time_ms.is_empty() {
            0
        } else {
            definition.monitor.grace_ms
        },
        grown: false,
        together: 0,
    }
}

pub(super) fn made(
    experiment: &Experiment,
    id: RunId,
    frozen: &FrozenFolder,
    placed: RunPlace,
    now_ms: i64,
    results_max_bytes: u64,
) -> RunRecord {
    let definition = &experiment.definition;
    RunRecord {
        token: RunToken::random(),
        id,
        node: placed.word,
        placing: true,
        created_ms: now_ms,
        created: None,
        tree: hex(&frozen.tree),
        git: frozen.git.clone(),
        fingerprint: experiment.fingerprint.to_string(),
        time_ms: definition.resources.time_ms.unwrap_or(0),
        outputs: !definition.checkpoint.is_empty()
            || (definition.outputs.iter()).any(|output| output.stream.is_none()),
        all_made: definition.outputs.is_empty() && results_max_bytes > 0,
        takes: placed.takes,
        resume: placed.resume,
        batch: None,
        again: definition.again.clone(),
        checkpoint: !definition.checkpoint.is_empty(),
        processing: definition.processing.clone(),
        precedence: definition.precedence.clone(),
        priority: 0,
        rank: 0,
        line: None,
        follows: None,
    }
}
