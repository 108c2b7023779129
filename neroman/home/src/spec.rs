//! Builds the spec of a run from a definition.

use nero_format::{
    Container, Definition, Fetch, MetricReading, OnNodes, OutputBuffering, Resources,
    SchedulerOptions, Strays, Stream,
};
use nero_model::paths::NodePaths;
use nero_model::paths::run::WORK;
use nero_model::safe::looks_secret;
use nero_wire::v1;
use prost::Message as _;

use crate::failure::Failure;

use nero_life::change::Rule;
use nero_life::run::{Run, RunDemands, RunRecord};

/// Variables of the command's shell that a job on `local` gets.
const SHELL: [&str; 4] = ["PATH", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH"];

/// The spec of a run, without its rules: rules may change before it is sent.
pub fn build(
    definition: &Definition,
    made: &RunRecord,
    tree: &[u8],
    deployment: &[u8],
    shell: &[v1::EnvVar],
    results_max_bytes: u64,
) -> v1::RunSpec {
    v1::RunSpec {
        token: made.token.to_vec(),
        experiment: made.id.experiment.0,
        number: made.id.number,
        deployment: deployment.to_vec(),
        name: definition.name.clone(),
        collection: definition.collection().to_owned(),
        argv: definition.argv.clone(),
        env: environment(definition, shell),
        resources: Some(resources(&definition.resources)),
        tree: tree.to_vec(),
        outputs: outputs(definition),
        metric_patterns: (*definition.metric_patterns).clone(),
        metric_reading: metric_reading(&definition.metric_reading),
        progress: (*definition.progress).clone().unwrap_or_default(),
        rules: None,
        monitor: Some(monitor(definition)),
        params: params(definition),
        attempt: made.id.number,
        node: made.node.clone(),
        buffered: definition.buffering == OutputBuffering::Untouched,
        line_buffered: definition.buffering == OutputBuffering::Line,
        collections: (*definition.collections).clone(),
        checkpoint: (*definition.checkpoint).clone(),
        results_max_bytes,
        render: rendered(definition),
        params_file: (*definition.params_file).clone().unwrap_or_default(),
        priority: made.priority,
        since_ms: made.created_ms,
        rank: made.rank,
        lock: made.precedence.lock.as_ref().map(|lock| v1::RunLock {
            name: lock.name.clone(),
            everywhere: lock.everywhere,
        }),
        settle_ms: made.precedence.settle_ms,
        responds: made.again.responds(),
        ..v1::RunSpec::default()
    }
}

/// The stored spec of a run for the run that follows it by itself.
///
/// # Errors
/// When the spec cannot be read.
pub fn again(spec: &[u8], made: &RunRecord) -> Result<Vec<u8>, Failure> {
    let mut spec = v1::RunSpec::decode(spec)
        .map_err(|error| Failure::failed("its description cannot be read").caused_by(&error))?;
    spec.token = made.token.to_vec();
    spec.number = made.id.number;
    spec.attempt = made.id.number;
    spec.node.clone_from(&made.node);
    spec.priority = made.priority;
    spec.since_ms = made.created_ms;
    spec.rank = made.rank;
    let resources = spec.resources.get_or_insert_default();
    resources.memory_bytes = made.takes.memory_bytes;
    resources.time_ms = made.time_ms;
    Ok(spec.encode_to_vec())
}

/// Resources that hold on every node.
pub fn resources(resources: &Resources) -> v1::Resources {
    v1::Resources {
        cpus: resources.cpus,
        memory_bytes: resources.memory_bytes.unwrap_or(0),
        time_ms: resources.time_ms.unwrap_or(0),
    }
}

/// The resources of a run on a node that has its own values of some.
pub fn resources_on(made: &RunRecord, node: &str) -> Option<v1::Resources> {
    if made.takes.on_nodes.is_empty() {
        return None;
    }
    let takes = made.takes.on(node);
    Some(v1::Resources {
        cpus: takes.cores(),
        memory_bytes: takes.memory_bytes,
        time_ms: made.time_ms_on(Some(node)),
    })
}

fn rendered(definition: &Definition) -> Vec<v1::RenderedFile> {
    let each = definition.render.iter().map(|one| v1::RenderedFile {
        template: one.template.clone(),
        path: one.path.clone(),
    });
    each.collect()
}

fn monitor(definition: &Definition) -> v1::Monitor {
    v1::Monitor {
        interval_ms: definition.monitor.interval_ms,
        grace_ms: definition.monitor.grace_ms,
        wait_for_strays: definition.monitor.strays == Strays::Wait,
        leave_strays: definition.monitor.strays == Strays::Leave,
    }
}

/// As much of a run's spec as its batch script depends on. Runs of which this is equal
/// share a submission.
pub fn submitted(definition: &Definition, defaults: &SchedulerOptions, node: &str) -> v1::RunSpec {
    v1::RunSpec {
        resources: Some(resources(&definition.resources.on(node))),
        monitor: Some(monitor(definition)),
        scheduler: scheduler(&definition.scheduling, defaults, node),
        ..v1::RunSpec::default()
    }
}

/// How output is read; `None` where nothing is said of it.
pub fn metric_reading(reading: &MetricReading) -> Option<v1::MetricReading> {
    (*reading != MetricReading::default()).then(|| v1::MetricReading {
        only: reading.only.clone(),
        skip: reading.skip.clone(),
        decimal_comma: reading.decimal_comma,
        no_tables: reading.no_tables,
        files: reading.files.clone(),
        readers: (reading.readers.iter().cloned())
            .map(|argv| v1::MetricReader { argv })
            .collect(),
    })
}

/// The paths of a run's data on a node.
pub fn data(takes: &RunDemands, node: &str) -> Vec<v1::DataPath> {
    takes
        .data
        .iter()
        .filter_map(|data| {
            Some(v1::DataPath {
                name: data.name.clone(),
                path: data.path_on(node)?.to_owned(),
            })
        })
        .collect()
}

/// What a run asks of a node's scheduler; `None`: nothing. What the experiment asks
/// beats the defaults of the node; its options and lines of the shell follow theirs.
pub fn scheduler(
    asks: &SchedulerOptions,
    defaults: &SchedulerOptions,
    node: &str,
) -> Option<v1::SchedulerRequest> {
    if asks.is_empty() && defaults.is_empty() {
        return None;
    }
    let text = |of: fn(&SchedulerOptions) -> &OnNodes<String>| first(of, asks, defaults, node);
    let list = |of: fn(&SchedulerOptions) -> &OnNodes<Vec<String>>| {
        let each = [of(defaults).on(node), of(asks).on(node)];
        each.into_iter().flatten().flatten().cloned().collect()
    };
    let gpus = asks.gpus.on(node).copied().unwrap_or(0);
    let share = asks.gpu_share.on(node).copied();
    Some(v1::SchedulerRequest {
        gpus,
        gpu_micro: share.filter(|share| *share < 1_000_000).unwrap_or(0),
        gpus_unmanaged: share == Some(0),
        gpumem_bytes: asks.gpumem.on(node).copied().unwrap_or(0),
        gpu_type: match gpus {
            0 => asks.gpu_type.on(node).cloned().unwrap_or_default(),
            _ => text(|of| &of.gpu_type),
        },
        nodes: asks.nodes.on(node).copied().unwrap_or(0),
        processes: asks.processes.on(node).copied().unwrap_or(0),
        launcher: text(|of| &of.launcher),
        exclusive: first(|of| &of.exclusive, asks, defaults, node),
        partition: text(|of| &of.partition),
        account: text(|of| &of.account),
        qos: text(|of| &of.qos),
        constraint: text(|of| &of.constraint),
        queue: text(|of| &of.queue),
        parallel_env: text(|of| &of.parallel_env),
        sbatch_args: list(|of| &of.sbatch_args),
        qsub_args: list(|of| &of.qsub_args),
        setup: list(|of| &of.setup),
        python: text(|of| &of.python),
        container: asks
            .container
            .on(node)
            .or_else(|| defaults.container.on(node))
            .map(container),
        pack: asks.pack.on(node).copied().unwrap_or(0),
        at_once: asks.at_once.on(node).copied().unwrap_or(0),
        reruns_lost: first(|of| &of.reruns_lost, asks, defaults, node),
    })
}

/// How a container is asked for.
pub fn container(container: &Container) -> v1::Container {
    v1::Container {
        image: container.image.clone(),
        runtime: container.runtime.clone(),
        mounts: container.mounts.clone(),
        network: container.network.clone(),
        pull: container.pull.clone(),
        options: container.options.clone(),
        ..v1::Container::default()
    }
}

/// A value of the experiment, else of the node.
fn first<T: Clone + Default>(
    of: fn(&SchedulerOptions) -> &OnNodes<T>,
    asks: &SchedulerOptions,
    defaults: &SchedulerOptions,
    node: &str,
) -> T {
    let found = of(asks).on(node).or_else(|| of(defaults).on(node));
    found.cloned().unwrap_or_default()
}

/// The shell's variables that are passed on, then those of the definition.
fn environment(definition: &Definition, shell: &[v1::EnvVar]) -> Vec<v1::EnvVar> {
    let passed = |name: &str| SHELL.contains(&name) || name.starts_with("CONDA_");
    let mut env: Vec<v1::EnvVar> = shell
        .iter()
        .filter(|var| passed(&var.name) && !var.unset)
        .map(|var| v1::EnvVar {
            name: var.name.clone(),
            value: var.value.clone(),
            unset: false,
            expand: false,
        })
        .collect();
    env.extend(definition.env.iter().map(|(name, value)| v1::EnvVar {
        name: name.clone(),
        value: value.clone().unwrap_or_default(),
        unset: value.is_none(),
        expand: value.is_some(),
    }));
    env
}

/// Removes the shell's variables: they mean something on this machine only.
pub fn without_shell(spec: &mut v1::RunSpec) {
    // Variables of the definition are expanded on the node, or unset there.
    spec.env.retain(|var| var.expand || var.unset);
}

/// The parameters as they travel and are shown.
pub fn params(definition: &Definition) -> Vec<v1::Param> {
    definition
        .params
        .iter()
        .map(|param| v1::Param {
            name: param.name.clone(),
            text: param.text.clone(),
            json: param.json(),
        })
        .collect()
}

/// The outputs as they travel.
fn outputs(definition: &Definition) -> Vec<v1::Output> {
    definition
        .outputs
        .iter()
        .map(|output| v1::Output {
            path: match output.stream {
                Some(Stream::Stdout) => "stdout".to_owned(),
                Some(Stream::Stderr) => "stderr".to_owned(),
                None => output.path.clone(),
            },
            fetch: match output.fetch {
                Fetch::Live => String::new(),
                Fetch::End => "end".to_owned(),
            },
            max_bytes: output.max_bytes.unwrap_or(0),
        })
        .collect()
}

/// Rules as they travel.
pub fn rule(rule: &Rule) -> v1::Rule {
    v1::Rule {
        id: rule.id,
        action: rule.action.clone(),
        text: rule.text.clone(),
        author: rule.author.clone(),
        origin: rule.origin.clone(),
        repeat_ms: rule.repeat_ms,
        argument: rule.argument.clone(),
    }
}

/// The command as it is shown: places of data as they were written.
pub fn display_command(argv: &[String]) -> Vec<String> {
    if let Some(steps) = nero_format::shown_steps(argv) {
        return vec![steps];
    }
    argv.iter()
        .map(|word| nero_model::data::display_text(word))
        .collect()
}

/// The environment as it is shown: values that look secret are masked.
pub fn masked(env: &[v1::EnvVar]) -> Vec<v1::EnvVar> {
    env.iter()
        .map(|var| v1::EnvVar {
            value: if !var.unset && looks_secret(&var.name) {
                "***".to_owned()
            } else {
                nero_model::data::display_text(&var.value)
            },
            ..var.clone()
        })
        .collect()
}

/// The reference to a run on the wire.
pub fn run_ref(run: &Run) -> v1::RunRef {
    v1::RunRef {
        token: run.made.token.to_vec(),
        experiment: run.made.id.experiment.0,
        number: run.made.id.number,
    }
}

/// The job's folder on its node.
pub fn work_folder(nodes: &NodePaths, run: &Run) -> String {
    let folder = nodes.run(run.made.id);
    let name = match run.journal.newest() {
        Some((number, _)) if number > 1 => format!("{WORK}.{number}"),
        _ => WORK.to_owned(),
    };
    folder.join(name).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_format::OnNode;

    fn on<T>(node: Option<&str>, value: T) -> OnNodes<T> {
        let node = node.map(str::to_owned);
        OnNodes(vec![OnNode { node, value }])
    }

    fn lines(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn values_of_variables_that_look_secret_are_not_shown() {
        let variable = |name: &str| v1::EnvVar {
            name: name.to_owned(),
            value: "x1".to_owned(),
            ..v1::EnvVar::default()
        };
        let shown = |name| masked(&[variable(name)])[0].value.clone();
        for name in [
            "API_KEY",
            "db_password",
            "CLIENT_SECRET",
            "AZURE_CREDENTIALS",
        ] {
            assert_eq!(shown(name), "***", "{name}");
        }
        assert_eq!(shown("SEED"), "x1");
    }

    #[test]
    fn an_experiment_beats_its_node_and_adds_to_its_lines() {
        let defaults = SchedulerOptions {
            partition: on(None, "batch".to_owned()),
            account: on(None, "lab".to_owned()),
            gpu_type: on(None, "v100".to_owned()),
            exclusive: on(None, true),
            setup: on(None, lines("first second")),
            ..SchedulerOptions::default()
        };
        let asks = SchedulerOptions {
            partition: on(Some("a"), "gpu".to_owned()),
            exclusive: on(None, false),
            setup: on(None, lines("third")),
            ..SchedulerOptions::default()
        };
        let on_a = scheduler(&asks, &defaults, "a").unwrap();
        assert_eq!((&*on_a.partition, &*on_a.account), ("gpu", "lab"));
        assert_eq!(on_a.setup, lines("first second third"));
        assert!(!on_a.exclusive);
        assert_eq!(on_a.gpu_type, "", "no GPU is asked for");
        let on_b = scheduler(&asks, &defaults, "b").unwrap();
        assert_eq!(on_b.partition, "batch");
        let with_gpu = SchedulerOptions {
            gpus: on(None, 2),
            ..asks
        };
        let on_b = scheduler(&with_gpu, &defaults, "b").unwrap();
        assert_eq!((on_b.gpus, &*on_b.gpu_type), (2, "v100"));
        let part = |count, share| {
            let asks = SchedulerOptions {
                gpus: on(None, count),
                gpu_share: on(None, share),
                ..SchedulerOptions::default()
            };
            let asked = scheduler(&asks, &SchedulerOptions::default(), "a").unwrap();
            (asked.gpus, asked.gpu_micro, asked.gpus_unmanaged)
        };
        assert_eq!(part(1, 500_000), (1, 500_000, false));
        assert_eq!(part(2, 1_000_000), (2, 0, false));
        assert_eq!(part(0, 0), (0, 0, true));
        let none = SchedulerOptions::default();
        assert_eq!(scheduler(&none, &none, "a"), None);
        let all = scheduler(&none, &defaults, "a").unwrap();
        assert_eq!(all.setup, lines("first second"));
    }
}
