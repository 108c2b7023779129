//! Specs of every kind are read as the original reads them, but for the table of differences.

use nero_format::python::{Literal, float_text};
use nero_noodles::{CommandGroup, Difference, Freshness, NoodlesSpec, read, script, target};
use serde_json::{Value, json};

use crate::generate::{Chance, case};
use crate::oracle::Oracle;

/// How many specs are compared unless this variable of the environment has another number.
const SPECS: (&str, u64) = ("NERO_NOODLES_SPECS", 300);

#[test]
fn specs_are_read_as_the_original_reads_them() {
    let (name, usual) = SPECS;
    let count = std::env::var(name).map_or(usual, |text| text.parse().expect("a number"));
    let mut oracle = Oracle::start();
    let mut tally = Tally::default();
    for seed in 0..count {
        let case = case(seed);
        let theirs = oracle.ask(&json!({
            "ask": "spec",
            "text": case.text,
            "type": case.command_type,
            "only": case.only,
        }));
        let ours = read(&case.text, case.command_type, case.only.as_deref());
        let told = || {
            format!(
                "seed {seed}, type {}, only {:?}:\n{}\n",
                case.command_type, case.only, case.text
            )
        };
        match ours {
            Ok(spec) => compare(&spec, &theirs, &mut tally, &told),
            Err(mistakes) => {
                tally.refused += 1;
                let broken = theirs.to_string().contains("\"error\":");
                // The original finds no type `on`, and so no mistake in what it would run.
                let unseen = case.command_type == "on";
                assert!(broken || unseen, "{}refused: {mistakes:#?}", told());
            }
        }
    }
    // A generator that makes errors alone compares nothing.
    assert!(tally.whole > count / 3, "{tally:?}");
}

#[derive(Debug, Default)]
struct Tally {
    /// Specs that both read, alike in everything.
    whole: u64,
    /// Specs that are refused here; there they are, too, or crash.
    refused: u64,
}

fn compare(ours: &NoodlesSpec, theirs: &Value, tally: &mut Tally, told: &dyn Fn() -> String) {
    let differences: Vec<Difference> = ours
        .remarks
        .departures
        .iter()
        .map(|departure| departure.difference)
        .collect();
    let Some(theirs) = theirs.get("is") else {
        assert!(
            !differences.is_empty(),
            "{}they refuse it: {theirs}",
            told()
        );
        return;
    };
    let mut alike = true;
    let mut piece = |what: &str, mine: Value, yours: &Value| {
        let Some(yours) = yours.get("is") else {
            alike = false;
            assert!(
                !differences.is_empty(),
                "{}{what}: they crash: {yours}",
                told()
            );
            return;
        };
        if mine == *yours {
            return;
        }
        alike = false;
        let meant = differences
            .iter()
            .any(|difference| changes_values(*difference));
        assert!(meant, "{}{what}:\nhere  {mine}\nthere {yours}", told());
    };
    piece(
        "round_interval",
        json!(ours.round_interval),
        &theirs["round_interval"],
    );
    piece(
        "deployment_interval",
        json!(ours.deployment_interval),
        &theirs["deployment_interval"],
    );
    piece(
        "commands_interval",
        json!(ours.commands_interval),
        &theirs["commands_interval"],
    );
    piece(
        "check_any_errors",
        json!(ours.check_any_errors),
        &theirs["check_any_errors"],
    );
    piece(
        "shell_string",
        json!(ours.shell_string),
        &theirs["shell_string"],
    );
    piece(
        "shell_stdin",
        json!(ours.shell_stdin),
        &theirs["shell_stdin"],
    );
    piece("status", json!(ours.status_path), &theirs["status"]);
    piece(
        "servers",
        json!(ours.servers.len()),
        &json!({"is": theirs["servers"].as_array().expect("a list").len()}),
    );
    for (server, yours) in ours
        .servers
        .iter()
        .zip(theirs["servers"].as_array().expect("a list"))
    {
        let port = server.port.clone().unwrap_or_else(|| "None".to_owned());
        let endpoint = server.endpoint(&ours.shell_string);
        piece(
            "server",
            json!([server.name, endpoint, server.authority(), port]),
            yours,
        );
    }
    for (at, stage) in ours.stages.iter().enumerate() {
        let Some(yours) = theirs["stages"][at].get("is").and_then(Value::as_array) else {
            piece("stage", json!(stage.len()), &theirs["stages"][at]);
            continue;
        };
        let names: Vec<&str> = stage
            .iter()
            .map(|experiment| experiment.name.as_str())
            .collect();
        if names.len() != yours.len() {
            piece("experiments", json!(names), &json!({"is": yours}));
            continue;
        }
        for (experiment, yours) in stage.iter().zip(yours) {
            piece("name", json!(experiment.name), &yours["name"]);
            piece("env", json!(experiment.env), &yours["env"]);
            let groups = scripts(&experiment.env, &experiment.commands);
            piece("commands", json!(groups), &yours["commands"]);
            // Nobody looks at the rest of an empty experiment.
            if groups.is_empty() {
                continue;
            }
            let depends_on: Vec<&str> = experiment
                .depends_on
                .iter()
                .map(|named| named.name.as_str())
                .collect();
            piece("depends_on", json!(depends_on), &yours["depends_on"]);
            let requirements: Vec<Value> = experiment
                .requirements
                .iter()
                .map(|requirement| {
                    let prefix = match requirement.freshness {
                        Freshness::Static => "static:",
                        Freshness::Dynamic => "",
                    };
                    json!([
                        format!("{prefix}{}", requirement.id),
                        requirement.comparison.operator.to_string(),
                        literal(&requirement.comparison.value)
                    ])
                })
                .collect();
            piece("requirements", json!(requirements), &yours["requirements"]);
            let probes: Vec<Value> = experiment
                .requirements
                .iter()
                .map(|requirement| match ours.probes.get(&requirement.id) {
                    None => json!([requirement.id, null]),
                    Some(groups) => json!([requirement.id, scripts(&experiment.env, groups)]),
                })
                .collect();
            piece("probes", json!(probes), &yours["probes"]);
            piece(
                "stdout_to",
                json!(experiment.stdout_to),
                &yours["stdout_to"],
            );
            piece(
                "stderr_to",
                json!(experiment.stderr_to),
                &yours["stderr_to"],
            );
        }
    }
    tally.whole += u64::from(alike);
}

fn scripts(env: &[(String, String)], groups: &[CommandGroup]) -> Vec<Value> {
    let groups = groups.iter();
    let scripts = groups.map(|group| json!([group.local, script(env, &[], &group.commands)]));
    scripts.collect()
}

/// Differences in what both read; others are crashes there.
fn changes_values(difference: Difference) -> bool {
    matches!(
        difference,
        Difference::MergeOrder
            | Difference::KeyIsNoText
            | Difference::NameIsNoText
            | Difference::Blanks
    )
}

pub fn literal(value: &Literal) -> Value {
    match value {
        Literal::Null => json!(["none"]),
        Literal::Bool(truth) => json!(["bool", truth]),
        Literal::Int(number) | Literal::Float(number) if number.is_finite() => {
            json!(["number", number])
        }
        Literal::Int(number) | Literal::Float(number) => {
            json!(["number", float_text(*number)])
        }
        Literal::Text(text) => json!(["text", text]),
        Literal::Other => json!(["other"]),
    }
}

#[test]
fn a_filter_stands_behind_the_only_colon() {
    assert_eq!(target("a/spec.yml"), Ok(("a/spec.yml", None)));
    let names = vec!["Exp 1".to_owned(), " b".to_owned()];
    assert_eq!(target("spec.yml:Exp 1, b"), Ok(("spec.yml", Some(names))));
    assert!(target("a:b:c").is_err());
}

#[test]
fn the_table_of_differences_is_that_of_the_documentation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/noodles.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let table = nero_noodles::markdown();
    assert!(
        page.contains(&table),
        "docs/noodles.md needs this table:\n{table}"
    );
}

#[test]
fn a_spec_of_ten_thousand_experiments_is_read_and_ordered() {
    let mut text = String::from("servers: [{name: s}]\nexperiments:\n");
    for at in 0..10_000_u32 {
        let needed = at.saturating_sub(1);
        text.push_str(&format!(
            "- {{name: e{at}, commands: {{run: 'true'}}, depends_on: {{run: [e{needed}, x{at}]}}}}\n"
        ));
    }
    // The first needs itself, and all others need it.
    let spec = read(&text, "run", None).expect("it is a spec");
    let never = nero_noodles::check(&spec, "run").into_iter();
    let never = never.filter(|one| one.severity == nero_noodles::Severity::Never);
    assert_eq!(never.count(), 10_000);
    assert!(nero_noodles::course(&spec).deployments.is_empty());
    let spec = read(&text.replace("[e0, x0]", "[]"), "run", None).expect("it is a spec");
    let course = nero_noodles::course(&spec);
    assert!(course.complete && course.deployments.len() == 10_000);
}

/// Characters that mean something to YAML.
const SIGNS: &[&str] = &[
    ":", " ", "\n", "- ", "#", "'", "\"", "{", "}", "[", "]", ",", "&a ", "*a", "|", ">", "%", "@",
    "!", "?", "~", "\\", "  ", ": ", " #", "\t", "é", "<<: ", "---\n", "...", "0", ".", "!!str ",
    "|-\n", "=", "`",
];

#[test]
fn damaged_specs_are_refused_or_read_as_the_original_reads_them() {
    let (name, usual) = SPECS;
    let count = std::env::var(name).map_or(usual, |text| text.parse().expect("a number"));
    let mut oracle = Oracle::start();
    let (mut tally, mut accepted, mut not_yaml) = (Tally::default(), 0, 0);
    for seed in 0..count {
        let case = case(seed);
        let mut chance = Chance::new(seed + 77);
        let mut text: Vec<char> = case.text.chars().collect();
        for _ in 0..=chance.below(3) {
            let at = chance.below(text.len().max(1));
            match chance.below(3) {
                0 => drop(text.splice(at..at, chance.of(SIGNS).chars())),
                1 if at < text.len() => drop(text.remove(at)),
                _ => {
                    let end = text.len().min(at + 1);
                    drop(text.splice(at.min(end)..end, chance.of(SIGNS).chars()));
                }
            }
        }
        let text: String = text.into_iter().collect();
        let theirs = oracle.ask(&json!({
            "ask": "spec", "text": text, "type": case.command_type, "only": case.only,
        }));
        let told = || format!("seed {seed}, type {}:\n{text}\n", case.command_type);
        match read(&text, case.command_type, case.only.as_deref()) {
            // A parser of YAML 1.2 reads a few texts more.
            Ok(_) if theirs.get("is").is_none() => accepted += 1,
            Ok(spec) => compare(&spec, &theirs, &mut tally, &told),
            Err(mistakes) => {
                let broken = theirs.to_string().contains("\"error\":");
                let unseen = case.command_type == "on";
                // Also of YAML 1.1 there are texts that only the original reads.
                let syntax = mistakes.list[0].message.starts_with("this is not YAML");
                not_yaml += u64::from(syntax && !broken);
                assert!(
                    broken || unseen || syntax,
                    "{}refused: {mistakes:#?}",
                    told()
                );
            }
        }
    }
    let rare = accepted < count / 10 && not_yaml < count / 50;
    assert!(
        tally.whole > count / 10 && rare,
        "{tally:?}, {accepted}, {not_yaml}"
    );
}

/// Every key, with a place for its value.
const KEYS: &[&str] = &[
    "name: @",
    "description: @",
    "experiment_default: @",
    "before_all_experiments: @",
    "experiments: @",
    "after_all_experiments: @",
    "server_default: @",
    "servers: @",
    "requirements: @",
    "write_status_to: @",
    "round_interval: @",
    "deployment_interval: @",
    "commands_interval: @",
    "check_any_errors: @",
    "error_handlers: @",
    "shell_string: @",
    "shell_stdin: @",
    "experiments: [@]",
    "servers: [@]",
    "error_handlers: [@]",
    "write_status_to: {run: @}",
    "servers: [{name: @, hostname: h}]",
    "servers: [{hostname: @}]",
    "servers: [{hostname: h, username: @}]",
    "servers: [{hostname: h, port: @}]",
    "servers: [{hostname: h, private_key_path: @}]",
    "server_default: {port: @}\nservers: [{hostname: h}]",
    "experiments: [{name: @, commands: {run: x}}]",
    "experiments: [{envs: @, commands: {run: x}}]",
    "experiments: [{envs: {A: @}, commands: {run: x}}]",
    "experiments: [{depends_on: @, commands: {run: x}}]",
    "experiments: [{depends_on: {run: @}, commands: {run: x}}]",
    "experiments: [{depends_on: {run: [@]}, commands: {run: x}}]",
    "experiments: [{commands: @}]",
    "experiments: [{commands: {run: @}}]",
    "experiments: [{commands: {run: [@]}}]",
    "experiments: [{requirements: @, commands: {run: x}}]",
    "experiments: [{requirements: {run: @}, commands: {run: x}}]",
    "experiments: [{requirements: {run: [@]}, commands: {run: x}}]",
    "experiments: [{requirements: {run: [{p: @}]}, commands: {run: x}}]",
    "experiments: [{requirements: {run: [{p: <1}]}, commands: {run: x}}]\nrequirements: {p: @}",
    "experiments: [{requirements: {run: [{p: <1}]}, commands: {run: x}}]\nrequirements: {p: [@]}",
    "experiments: [{write_outputs: @, commands: {run: x}}]",
    "experiments: [{write_outputs: {run: @}, commands: {run: x}}]",
    "experiments: [{write_outputs: {run: {stdout_to: @}}, commands: {run: x}}]",
    "experiments: [{write_outputs: {run: {stderr_to: @}}, commands: {run: x}}]",
    "experiment_default: {envs: @}\nexperiments: [{commands: {run: x}}]",
    "experiment_default: {commands: @}\nexperiments: [{name: a}]",
];
/// A value of each kind.
const KINDS: &[&str] = &[
    "x",
    "5",
    "1.5",
    "true",
    "~",
    "",
    "[]",
    "[y]",
    "{}",
    "{a: b}",
    "2026-11-20",
];

#[test]
fn a_value_of_any_kind_behind_any_key_is_read_as_there_or_refused_at_its_place() {
    let mut oracle = Oracle::start();
    let mut tally = Tally::default();
    for key in KEYS {
        let (before, _) = key.split_once('@').expect("a place");
        let line = before.split('\n').count();
        for kind in KINDS {
            let text = key.replace('@', kind);
            let ask = json!({"ask": "spec", "text": text, "type": "run", "only": null});
            let theirs = oracle.ask(&ask);
            match read(&text, "run", None) {
                Ok(spec) => compare(&spec, &theirs, &mut tally, &|| format!("{text}\n")),
                Err(mistakes) => {
                    tally.refused += 1;
                    let broken = theirs.to_string().contains("\"error\":");
                    assert!(broken, "{text}\nrefused: {mistakes:#?}");
                    let place = mistakes.list[0].place;
                    assert_eq!(place.line as usize, line, "{text}\n{mistakes:#?}");
                }
            }
        }
    }
    assert!(tally.whole > 150 && tally.refused > 50, "{tally:?}");
}
