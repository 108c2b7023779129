//! Runs that ask for no GPU, on nodes without a scheduler that have some: they see none,
//! which a start notes.

use std::collections::{BTreeMap, HashMap};

use nero_config::{Config, Warden};
use nero_life::place::Figures;

use super::unschedulable::RunDemand;
use crate::service::counted;

/// A job whose environment sets one of these chooses its GPUs itself.
const LISTS: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// A line for each such node, with the number of runs. A run of several nodes counts for
/// the first.
pub(crate) fn notes(
    config: &Config,
    known: &HashMap<String, Figures>,
    asking: &[RunDemand],
) -> Vec<String> {
    let mut runs: BTreeMap<(String, usize), u64> = BTreeMap::new();
    for place in asking.iter().filter_map(|one| hidden(config, known, one)) {
        *runs.entry(place).or_default() += 1;
    }
    let line = |((node, gpus), runs): ((String, usize), u64)| {
        let (ask, see) = match runs {
            1 => ("asks", "sees"),
            _ => ("ask", "see"),
        };
        let runs = counted(runs, "run");
        format!(
            "{runs} {ask} for no GPU and {see} none on {node} ({gpus} there): add `resources: {{gpus: 1}}`"
        )
    };
    runs.into_iter().map(line).collect()
}

/// The first node of a run whose GPUs it would not see, with their number.
fn hidden(
    config: &Config,
    known: &HashMap<String, Figures>,
    run: &RunDemand,
) -> Option<(String, usize)> {
    let sets_list = |(name, value): &(String, Option<String>)| {
        value.is_some() && LISTS.contains(&name.as_str())
    };
    if run.definition.env.iter().any(sets_list) {
        return None;
    }
    let target = config.resolve(&run.word).ok()?;
    target.nodes().iter().find_map(|name| {
        let is_bare = config.node(name)?.warden == Warden::None;
        let gpus = known.get(name)?.facts.gpus.len();
        // `gpus: 0` and `gpus: unmanaged` are a person's own choice.
        let is_hidden = is_bare && gpus > 0 && run.takes.scheduling.gpus.on(name).is_none();
        is_hidden.then(|| (name.clone(), gpus))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use nero_format::{OnNode, OnNodes};
    use nero_life::place::{Facts, GpuFacts};
    use nero_life::run::RunDemands;
    use nero_model::{ExperimentId, RunId};
    use nero_wire::v1;

    use super::*;

    fn run(word: &str, gpus: Option<u32>) -> RunDemand {
        let mut takes = RunDemands::default();
        let gpus = gpus.map(|value| OnNode { node: None, value });
        takes.scheduling.gpus = OnNodes(gpus.into_iter().collect());
        RunDemand {
            id: RunId {
                experiment: ExperimentId(1),
                number: 1,
            },
            word: word.to_owned(),
            takes,
            definition: Arc::new(nero_home::adopt::definition(
                &v1::RunSpec::default(),
                Path::new("/"),
            )),
            waits: true,
        }
    }

    fn with_env(name: &str) -> RunDemand {
        let mut run = run("alpha", None);
        let definition = Arc::make_mut(&mut run.definition);
        definition.env.push((name.to_owned(), Some("1".to_owned())));
        run
    }

    #[test]
    fn runs_that_see_no_gpu_of_a_node_are_counted_with_the_line_to_add() {
        let text = "nodes: {alpha: {address: a}, beta: {address: b}, far: {address: c, warden: slurm}}\n\
                    groups: {both: [beta, alpha]}\n";
        let config = Config::parse(Path::new("config.yaml"), text).unwrap();
        let with = |count| Figures {
            facts: Facts {
                gpus: vec![GpuFacts::default(); count],
                ..Facts::default()
            },
            ..Figures::default()
        };
        let known = [("alpha", 4), ("beta", 0), ("far", 8)];
        let known = known.map(|(name, count)| (name.to_owned(), with(count)));
        let told = |asking: &[RunDemand]| notes(&config, &known.clone().into(), asking);
        let line = "sees none on alpha (4 there): add `resources: {gpus: 1}`";
        assert_eq!(
            told(&[run("alpha", None)]),
            [format!("1 run asks for no GPU and {line}")]
        );
        assert_eq!(
            told(&[run("both", None), run("alpha", None), run("beta", None)]),
            ["2 runs ask for no GPU and see none on alpha (4 there): add `resources: {gpus: 1}`"]
        );
        let others = [
            run("alpha", Some(1)),
            run("alpha", Some(0)),
            run("beta", None),
            run("far", None),
            with_env("CUDA_VISIBLE_DEVICES"),
        ];
        assert_eq!(told(&others), [""; 0]);
        assert_eq!(told(&[with_env("A")]).len(), 1);
    }
}
