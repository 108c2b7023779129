//! Values for nodes that a start notes because nothing reads them: a name that is no
//! node's, and options for another scheduler.

use std::collections::BTreeMap;

use nero_config::{Config, Warden};
use nero_model::ExperimentId;

use super::unschedulable::RunDemand;
use nero_life::add::ranges;

/// A line for each of them, with the experiments that have it.
pub(crate) fn notes(config: &Config, asking: &[RunDemand]) -> Vec<String> {
    let mut notes: BTreeMap<String, Vec<ExperimentId>> = BTreeMap::new();
    for one in asking {
        let mut note = |text: String| {
            let of = notes.entry(text).or_default();
            if of.last() != Some(&one.id.experiment) {
                of.push(one.id.experiment);
            }
        };
        let own = one.definition.resources.on_nodes.named_nodes();
        let scheduling = one.definition.scheduling.named_nodes();
        for (field, node) in own.into_iter().chain(scheduling) {
            if config.groups.contains_key(node) {
                note(format!(
                    "`{field}.{node}` does nothing: {node} is a group; name its nodes"
                ));
            } else if !config.nodes.contains_key(node) {
                note(format!(
                    "`{field}.{node}` does nothing: no node has the name {node}"
                ));
            }
        }
        let target = config.resolve(&one.word);
        let nodes = target.as_ref().map_or(&[][..], |target| target.nodes());
        for node in nodes {
            let described = config.nodes.get(node);
            if !described.is_some_and(|node| node.warden == Warden::Generic) {
                continue;
            }
            let asks = &one.definition.scheduling;
            for (field, args) in [
                ("sbatch_args", &asks.sbatch_args),
                ("qsub_args", &asks.qsub_args),
            ] {
                if args.on(node).is_some_and(|args| !args.is_empty()) {
                    note(format!(
                        "`{field}` does nothing on {node}: options for its scheduler stand in \
                         `nodes.{node}.scheduler.header`"
                    ));
                }
            }
        }
    }
    let line =
        |(text, ids): (String, Vec<ExperimentId>)| format!("{}: {text}", ranges(ids.into_iter()));
    notes.into_iter().map(line).collect()
}
