//! Builds the spec of a run from a definition.

use nero_format::{
    Buffering, Definition, Fetch, MetricReading, OnNodes, Scheduling, Strays, Stream, Value,
};
use nero_wire::v1;
use serde_json::json;

use nero_life::change::Rule;
use nero_life::run::{Made, Run, Takes};

/// Variables of the command's shell that a job on `local` gets.
const SHELL: [&str; 4] = ["PATH", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH"];

/// The spec of a run, without its rules: rules may change before it is sent.
pub(crate) fn build(
    definition: &Definition,
    made: &Made,
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
        resources: Some(v1::Resources {
            cpus: definition.resources.cpus,
            memory_bytes: definition.resources.memory_bytes.unwrap_or(0),
            time_ms: definition.resources.time_ms.unwrap_or(0),
        }),
        tree: tree.to_vec(),
        outputs: outputs(definition),
        metric_patterns: definition.metric_patterns.clone(),
        metric_reading: metric_reading(&definition.metric_reading),
        rules: None,
        monitor: Some(v1::Monitor {
            interval_ms: definition.monitor.interval_ms,
            grace_ms: definition.monitor.grace_ms,
            wait_for_strays: definition.monitor.strays == Strays::Wait,
            leave_strays: definition.monitor.strays == Strays::Leave,
        }),
        params: params(definition),
        attempt: made.id.number,
        node: made.node.clone(),
        buffered: definition.buffering == Buffering::Untouched,
        line_buffered: definition.buffering == Buffering::Line,
        collections: definition.collections.clone(),
        checkpoint: definition.checkpoint.clone(),
        results_max_bytes,
        ..v1::RunSpec::default()
    }
}

/// How output is read; `None` where nothing is said of it.
pub(crate) fn metric_reading(reading: &MetricReading) -> Option<v1::MetricReading> {
    (*reading != MetricReading::default()).then(|| v1::MetricReading {
        only: reading.only.clone(),
        skip: reading.skip.clone(),
        decimal_comma: reading.decimal_comma,
        no_tables: reading.no_tables,
    })
}

/// The paths of a run's data on a node.
pub(crate) fn data(takes: &Takes, node: &str) -> Vec<v1::DataPath> {
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

/// What a run asks of a node's scheduler; `None`: nothing.
pub(crate) fn scheduler(asks: &Scheduling, node: &str) -> Option<v1::SchedulerRequest> {
    if asks.is_empty() {
        return None;
    }
    let text = |value: &OnNodes<String>| value.on(node).cloned().unwrap_or_default();
    let list = |value: &OnNodes<Vec<String>>| value.on(node).cloned().unwrap_or_default();
    Some(v1::SchedulerRequest {
        gpus: asks.gpus.on(node).copied().unwrap_or(0),
        gpu_type: text(&asks.gpu_type),
        nodes: 0,
        exclusive: asks.exclusive.on(node).copied().unwrap_or(false),
        partition: text(&asks.partition),
        account: text(&asks.account),
        qos: text(&asks.qos),
        constraint: text(&asks.constraint),
        queue: text(&asks.queue),
        parallel_env: text(&asks.parallel_env),
        sbatch_args: list(&asks.sbatch_args),
        qsub_args: list(&asks.qsub_args),
        setup: list(&asks.setup),
    })
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
pub(crate) fn without_shell(spec: &mut v1::RunSpec) {
    // Variables of the definition are expanded on the node, or unset there.
    spec.env.retain(|var| var.expand || var.unset);
}

/// The parameters as they travel and are shown.
pub(crate) fn params(definition: &Definition) -> Vec<v1::Param> {
    definition
        .params
        .iter()
        .map(|param| v1::Param {
            name: param.name.clone(),
            text: param.text.clone(),
            json: typed(&param.value),
        })
        .collect()
}

/// JSON text of a value; numbers that JSON lacks become text.
fn typed(value: &Value) -> String {
    match value {
        Value::Null => json!(null),
        Value::Bool(truth) => json!(truth),
        Value::Int(number) => json!(number),
        Value::Float(number) if number.is_finite() => json!(number),
        Value::Float(number) => json!(number.to_string()),
        Value::Text(text) => json!(text),
    }
    .to_string()
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
pub(crate) fn rule(rule: &Rule) -> v1::Rule {
    v1::Rule {
        id: rule.id,
        action: rule.action.clone(),
        text: rule.text.clone(),
        author: rule.author.clone(),
        origin: rule.origin.clone(),
        repeat_ms: 0,
    }
}

/// The command as it is shown: places of data as they were written.
pub(crate) fn shown(argv: &[String]) -> Vec<String> {
    argv.iter()
        .map(|word| nero_model::data::shown(word))
        .collect()
}

/// The environment as it is shown: values that look secret are masked.
pub(crate) fn masked(env: &[v1::EnvVar]) -> Vec<v1::EnvVar> {
    const SECRET: [&str; 3] = ["TOKEN", "KEY", "PASSWORD"];
    env.iter()
        .map(|var| {
            let name = var.name.to_uppercase();
            let secret = !var.unset && SECRET.iter().any(|word| name.contains(word));
            v1::EnvVar {
                value: if secret {
                    "***".to_owned()
                } else {
                    nero_model::data::shown(&var.value)
                },
                ..var.clone()
            }
        })
        .collect()
}

/// The reference to a run on the wire.
pub(crate) fn run_ref(run: &Run) -> v1::RunRef {
    v1::RunRef {
        token: run.made.token.to_vec(),
        experiment: run.made.id.experiment.0,
        number: run.made.id.number,
    }
}
