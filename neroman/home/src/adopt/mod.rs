//! Builds experiments and runs from the specs on a node, for a machine that
//! takes over from a lost one. The definitions come from the specs; adding the
//! sources again completes them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nero_format::{
    Buffering, Definition, Fetch, MetricReading, Monitor, Output, Param, Place, Resources,
    SharedPart, Source, SourceKind, Strays, Stream, Value,
};
use nero_model::ids::hex;
use nero_model::safe::Safe;
use nero_model::{ExperimentId, RunId, RunToken};
use nero_wire::v1;
use prost::Message as _;

use nero_life::change::{Change, Described, NewRun, Rule};
use nero_life::experiment::{Experiment, Origin, Stamp};
use nero_life::run::{Dispatch, Made, Run, RunDemands, UNREAD};
use nero_life::state::State;
use nero_life::taken_over::NOTE;

/// Limit of experiment numbers: specs from a node are not trusted, and each
/// number below costs memory here.
const EXPERIMENTS_MAX: u64 = 1_000_000;
/// Like [`EXPERIMENTS_MAX`], for the runs of one experiment.
const RUNS_MAX: u32 = 100_000;
/// Like [`EXPERIMENTS_MAX`], for rules.
const RULES_MAX: u64 = 1_000_000;
/// Limit of placeholders for runs on other nodes, of all experiments.
const ELSEWHERE_MAX: usize = 1_000_000;

/// What is taken over.
#[derive(Debug, Default)]
pub struct Adopted {
    pub experiments: usize,
    pub runs: usize,
    pub changes: Vec<Change>,
    pub notes: Vec<String>,
    /// Numbers of runs that are not on this node.
    elsewhere: usize,
}

/// Turns the runs of a node into changes. Runs that are known already stay. All
/// new ones count as handed over until their journals have been read: for that
/// moment several runs of an experiment may look live.
pub fn adopt(
    state: &State,
    node: &str,
    folder: &Path,
    specs: Vec<v1::RunSpec>,
    now_ms: i64,
) -> Adopted {
    let mut adopted = Adopted::default();
    let mut by_experiment: BTreeMap<u64, BTreeMap<u32, v1::RunSpec>> = BTreeMap::new();
    for spec in specs {
        let (experiment, number) = (spec.experiment, spec.number);
        if !(1..=EXPERIMENTS_MAX).contains(&experiment) || !(1..=RUNS_MAX).contains(&number) {
            let note = format!("{experiment}.{number}: no run has such a number");
            adopted.notes.push(note);
            continue;
        }
        let runs = by_experiment.entry(spec.experiment).or_default();
        runs.insert(spec.number, spec);
    }
    let mut work = state.clone();
    let origin = origin(&mut work, &mut adopted, folder);
    rules(&mut work, &mut adopted, &by_experiment);
    for (id, runs) in by_experiment {
        let Some((_, newest)) = runs.last_key_value() else {
            continue;
        };
        let id = ExperimentId(id);
        if work.experiment(id).is_none() {
            let definition = Arc::new(definition(newest, folder));
            take(
                &mut work,
                &mut adopted,
                Change::Experiment(Arc::new(Described {
                    id,
                    fingerprint: definition.fingerprint().into(),
                    definition,
                    source: origin,
                    gone: true,
                    hidden_ms: None,
                    created_ms: now_ms,
                    modified_ms: now_ms,
                    modified: None,
                    extra_rules: Arc::from([]),
                    by_hand: Arc::default(),
                })),
            );
            adopted.experiments += 1;
        }
        if let Some(known) = work.experiment(id).filter(|known| other(known, &runs)) {
            let note = format!(
                "experiment {id} here is another one, `{}`; {} of `{}` stay untouched on {node}",
                known.definition.name,
                match runs.len() {
                    1 => "1 run".to_owned(),
                    count => format!("{count} runs"),
                },
                Safe::line(&newest.name)
            );
            adopted.notes.push(note);
            continue;
        }
        for (number, spec) in runs {
            one(
                &mut work,
                &mut adopted,
                node,
                RunId {
                    experiment: id,
                    number,
                },
                &spec,
                now_ms,
            );
        }
    }
    adopted
}

/// Whether these runs belong to another experiment than the one of their number
/// here: its name differs, and it has none of them.
fn other(known: &Experiment, runs: &BTreeMap<u32, v1::RunSpec>) -> bool {
    let named = runs.values().any(|spec| spec.name == known.definition.name);
    let shared = || {
        runs.iter().any(|(number, spec)| {
            let here = known.run(*number);
            here.is_some_and(|run| run.made.token.as_bytes()[..] == spec.token)
        })
    };
    !named && !shared()
}

fn take(work: &mut State, adopted: &mut Adopted, change: Change) {
    work.apply(&change);
    adopted.changes.push(change);
}

/// The placeholder source of all definitions.
fn origin(work: &mut State, adopted: &mut Adopted, folder: &Path) -> u64 {
    let (id, new) = placeholder(work, folder);
    if let Some(change) = new {
        take(work, adopted, change);
    }
    id
}

/// The number of a placeholder source, and the change that makes it where it is new.
pub fn placeholder(work: &State, folder: &Path) -> (u64, Option<Change>) {
    if let Some(known) = work.origin_at(folder) {
        return (known.id, None);
    }
    let id = work.origins.last_key_value().map_or(0, |(id, _)| *id) + 1;
    let origin = Origin {
        id,
        source: Source {
            path: folder.to_path_buf(),
            kind: SourceKind::Folder,
            file: folder.join("neronet.yaml"),
            folder: folder.to_path_buf(),
            digest: String::new(),
            table: None,
            bound: None,
            rows: None,
            defaults: String::new(),
            parents: Vec::new(),
        },
        stamp: Stamp::default(),
        companion: Stamp::default(),
        written: Stamp::default(),
    };
    (id, Some(Change::Origin(Arc::new(origin))))
}

/// Rules keep their numbers: journals name them.
fn rules(
    work: &mut State,
    adopted: &mut Adopted,
    runs: &BTreeMap<u64, BTreeMap<u32, v1::RunSpec>>,
) {
    let mut all: BTreeMap<u64, Rule> = BTreeMap::new();
    let specs = runs.values().flat_map(BTreeMap::values);
    for rule in specs.flat_map(|spec| spec.rules.iter().flat_map(|set| &set.rules)) {
        all.entry(rule.id).or_insert_with(|| Rule {
            id: rule.id,
            action: rule.action.clone(),
            argument: rule.argument.clone(),
            text: rule.text.clone(),
            repeat_ms: rule.repeat_ms,
            author: rule.author.clone(),
            origin: rule.origin.clone(),
        });
    }
    for (id, rule) in all {
        if (1..=RULES_MAX).contains(&id) && !work.rules.contains_key(&id) {
            take(work, adopted, Change::Rule(Arc::new(rule)));
        }
    }
}

fn one(
    work: &mut State,
    adopted: &mut Adopted,
    node: &str,
    id: RunId,
    spec: &v1::RunSpec,
    now_ms: i64,
) {
    let Some(token) = RunToken::from_slice(&spec.token) else {
        adopted
            .notes
            .push(format!("{id}: its token cannot be read"));
        return;
    };
    if work.by_token(&token).is_some() {
        return;
    }
    let known = work
        .experiment(id.experiment)
        .map_or(0, |experiment| experiment.runs.len());
    let place = usize::try_from(id.number).unwrap_or(usize::MAX);
    let unread = work.run(id).is_some_and(Run::is_unread);
    if place <= known && !unread {
        adopted.notes.push(format!(
            "{id}: another run has this number here; that on {node} stays there untouched"
        ));
        return;
    }
    let missing = place.saturating_sub(known + 1);
    adopted.elsewhere += missing;
    if adopted.elsewhere > ELSEWHERE_MAX {
        adopted.elsewhere -= missing;
        let note = format!("{id}: too many runs before it are not on {node}");
        adopted.notes.push(note);
        return;
    }
    for number in known + 1..place {
        let missing = RunId {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            ..id
        };
        take(work, adopted, elsewhere(missing, now_ms));
        adopted.notes.push(format!(
            "{missing}: it is not on {node}; taking over the node that has it brings it"
        ));
    }
    let rules = spec.rules.clone().unwrap_or_default();
    let dispatch = Dispatch::taken_over(node, rules.version);
    let bare = v1::RunSpec {
        rules: None,
        ..spec.clone()
    };
    let run = NewRun {
        made: Arc::new(made(id, token, node, spec, now_ms)),
        dispatch,
        rules: rules
            .rules
            .iter()
            .filter(|rule| same_rule(work, rule))
            .map(|rule| rule.id)
            .collect(),
        spec: bare.encode_to_vec().into(),
    };
    take(work, adopted, Change::Run(Arc::new(run)));
    adopted.runs += 1;
}

/// Whether the rule with this number here is the run's own rule.
fn same_rule(work: &State, rule: &v1::Rule) -> bool {
    let known = work.rules.get(&rule.id);
    known.is_some_and(|known| known.action == rule.action && known.text == rule.text)
}

/// The record of a run, as far as its spec on `node` tells.
pub fn made(id: RunId, token: RunToken, node: &str, spec: &v1::RunSpec, now_ms: i64) -> Made {
    let resources = spec.resources.unwrap_or_default();
    Made {
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

/// A placeholder run for a number that another node has, or no node any more.
fn elsewhere(id: RunId, now_ms: i64) -> Change {
    let made = Made {
        token: RunToken::random(),
        id,
        node: UNREAD.to_owned(),
        placing: false,
        created_ms: now_ms,
        created: None,
        tree: String::new(),
        git: String::new(),
        fingerprint: String::new(),
        time_ms: 0,
        outputs: false,
        all_made: false,
        takes: RunDemands::default(),
        resume: None,
        batch: None,
        again: SharedPart::default(),
        checkpoint: false,
        processing: SharedPart::default(),
        precedence: SharedPart::default(),
        priority: 0,
        rank: 0,
        line: None,
        follows: None,
    };
    Change::Run(Arc::new(NewRun {
        made: Arc::new(made),
        dispatch: Dispatch::reserved(now_ms),
        rules: Arc::from([]),
        spec: v1::RunSpec::default().encode_to_vec().into(),
    }))
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
            (true, _) => Buffering::Untouched,
            (false, true) => Buffering::Line,
            (false, false) => Buffering::default(),
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
