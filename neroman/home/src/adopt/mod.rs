//! Builds experiments and runs from the specs on a node, for a machine that
//! takes over from a lost one. The definitions come from the specs; adding the
//! sources again completes them.

use std::path::Path;

use nero_format::{
    Definition, Fetch, MetricReading, Monitor, Output, OutputBuffering, Param, Place, Resources,
    SharedPart, Strays, Stream, Value,
};
use nero_model::ids::hex;
use nero_model::{ExperimentId, RunId, RunToken};
use nero_wire::v1;
use prost::Message as _;

use nero_life::change::Rule;
use nero_life::run::{RunDemands, RunRecord};
use nero_life::state::State;
use nero_life::take_over::{self, FoundRun, TakeOver};
use nero_life::taken_over::NOTE;

/// Turns the runs of a node into changes; see [`take_over::take_over`].
pub fn adopt(
    state: &State,
    node: &str,
    folder: &Path,
    specs: Vec<v1::RunSpec>,
    now_ms: i64,
) -> TakeOver {
    let (mut runs, mut notes) = (Vec::new(), Vec::new());
    for spec in specs {
        match found(spec, node, now_ms) {
            Ok(run) => runs.push(run),
            Err(note) => notes.push(note),
        }
    }
    let described = |run: &FoundRun| {
        let spec = v1::RunSpec::decode(&*run.spec).unwrap_or_default();
        definition(&spec, folder)
    };
    let mut taken = take_over::take_over(state, node, folder, runs, described, now_ms);
    taken.notes.splice(0..0, notes);
    taken
}

/// What a spec on the node tells of its run, or why it tells nothing.
fn found(mut spec: v1::RunSpec, node: &str, now_ms: i64) -> Result<FoundRun, String> {
    let id = RunId {
        experiment: ExperimentId(spec.experiment),
        number: spec.number,
    };
    let token = RunToken::from_slice(&spec.token);
    let token = token.ok_or_else(|| format!("{id}: its token cannot be read"))?;
    let rules = spec.rules.take().unwrap_or_default();
    let rule = |rule: v1::Rule| Rule {
        id: rule.id,
        action: rule.action,
        argument: rule.argument,
        text: rule.text,
        repeat_ms: rule.repeat_ms,
        author: rule.author,
        origin: rule.origin,
    };
    Ok(FoundRun {
        made: made(id, token, node, &spec, now_ms),
        name: spec.name.clone(),
        generation: spec.generation,
        rules_version: rules.version,
        rules: rules.rules.into_iter().map(rule).collect(),
        spec: spec.encode_to_vec().into(),
    })
}

/// The record of a run, as far as its spec on `node` tells.
pub fn made(id: RunId, token: RunToken, node: &str, spec: &v1::RunSpec, now_ms: i64) -> RunRecord {
    let resources = spec.resources.unwrap_or_default();
    RunRecord {
        token,
        id,
        node: node.to_owned(),
        placing: true,
        created_ms: now_ms,
        created: None,
        tree: hex(&spec.tree),
        git: String::new(),
        fingerprint: String::new(),
        time_ms: resources.time_ms,
        outputs: spec
            .outputs
            .iter()
            .any(|output| stream(&output.path).is_none())
            || !spec.checkpoint.is_empty(),
        all_made: spec.outputs.is_empty() && spec.results_max_bytes > 0,
        resume: spec.resume.as_ref().map(|run| run.number),
        batch: None,
        again: SharedPart::default(),
        checkpoint: !spec.checkpoint.is_empty(),
        processing: SharedPart::default(),
        precedence: nero_format::Precedence {
            lock: spec.lock.as_ref().map(|lock| nero_format::RunLock {
                name: lock.name.clone(),
                everywhere: lock.everywhere,
            }),
            settle_ms: spec.settle_ms,
            ..nero_format::Precedence::default()
        }
        .into(),
        priority: spec.priority,
        rank: spec.rank,
        line: None,
        follows: None,
        takes: RunDemands {
            cpus: resources.cpus,
            memory_bytes: resources.memory_bytes,
            ..RunDemands::default()
        },
    }
}

/// The definition that a run's spec describes.
pub fn definition(spec: &v1::RunSpec, folder: &Path) -> Definition {
    let resources = spec.resources.unwrap_or_default();
    let monitor = spec.monitor.unwrap_or_default();
    let given = |number: u64| (number > 0).then_some(number);
    let mut collections = spec.collections.clone();
    if collections.is_empty() {
        collections.push(spec.collection.clone());
    }
    Definition {
        name: spec.name.clone(),
        collections: collections.into(),
        folder: folder.to_path_buf().into(),
        place: Place {
            file: folder.join("neronet.yaml").display().to_string(),
            line: 1,
            column: 1,
            sheet: None,
        }
        .into(),
        argv: spec.argv.clone(),
        command_text: spec.argv.join(" "),
        params: spec.params.iter().map(param).collect(),
        env: spec
            .env
            .iter()
            .filter(|var| var.expand || var.unset)
            .map(|var| (var.name.clone(), (!var.unset).then(|| var.value.clone())))
            .collect(),
        resources: Resources {
            cpus: resources.cpus,
            memory_bytes: given(resources.memory_bytes),
            time_ms: given(resources.time_ms),
            ..Resources::default()
        }
        .into(),
        outputs: spec.outputs.iter().map(output).collect(),
        checkpoint: spec.checkpoint.clone().into(),
        metric_patterns: spec.metric_patterns.clone().into(),
        metric_reading: spec
            .metric_reading
            .as_ref()
            .map(metric_reading)
            .unwrap_or_default()
            .into(),
        progress: Some(spec.progress.clone())
            .filter(|text| !text.is_empty())
            .into(),
        monitor: Monitor {
            interval_ms: monitor.interval_ms,
            grace_ms: monitor.grace_ms,
            strays: match (monitor.leave_strays, monitor.wait_for_strays) {
                (true, _) => Strays::Leave,
                (false, true) => Strays::Wait,
                (false, false) => Strays::Kill,
            },
        }
        .into(),
        buffering: match (spec.buffered, spec.line_buffered) {
            (true, _) => OutputBuffering::Untouched,
            (false, true) => OutputBuffering::Line,
            (false, false) => OutputBuffering::default(),
        },
        results_max_bytes: (spec.results_max_bytes > 0).then_some(spec.results_max_bytes),
        priority: spec.priority,
        notes: vec![NOTE.to_owned()].into(),
        ..Definition::default()
    }
}

fn metric_reading(reading: &v1::MetricReading) -> MetricReading {
    MetricReading {
        only: reading.only.clone(),
        skip: reading.skip.clone(),
        decimal_comma: reading.decimal_comma,
        no_tables: reading.no_tables,
        files: reading.files.clone(),
        readers: (reading.readers.iter())
            .map(|reader| reader.argv.clone())
            .collect(),
    }
}

fn param(param: &v1::Param) -> Param {
    let text = || Value::Text(param.text.clone());
    let read = serde_json::from_str(&param.json);
    let is_tree = matches!(
        read,
        Ok(serde_json::Value::Array(_) | serde_json::Value::Object(_))
    );
    let value = match read {
        Ok(serde_json::Value::Null) => Value::Null,
        Ok(serde_json::Value::Bool(truth)) => Value::Bool(truth),
        Ok(serde_json::Value::Number(number)) => match number.as_i64() {
            Some(whole) => Value::Int(whole),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Ok(serde_json::Value::String(text)) => Value::Text(text),
        Ok(serde_json::Value::Array(_) | serde_json::Value::Object(_)) | Err(_) => text(),
    };
    Param {
        tree: is_tree.then(|| param.json.as_str().into()),
        ..Param::new(&*param.name, &*param.text, value)
    }
}

fn stream(path: &str) -> Option<Stream> {
    match path {
        "stdout" => Some(Stream::Stdout),
        "stderr" => Some(Stream::Stderr),
        _ => None,
    }
}

fn output(output: &v1::Output) -> Output {
    Output {
        path: output.path.clone(),
        stream: stream(&output.path),
        fetch: match output.fetch.as_str() {
            "end" => Fetch::End,
            _ => Fetch::Live,
        },
        max_bytes: (output.max_bytes > 0).then_some(output.max_bytes),
    }
}

#[cfg(test)]
mod tests;
