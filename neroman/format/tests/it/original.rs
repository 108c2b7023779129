//! Files in the manner of the original Neronet work unchanged.

use crate::{commands, load, named, names, texts, value};
use nero_format::{Defaults, LoadedSource, Output, RuleAction, Stream, Value, read_source};
use std::path::Path;

fn fixture(name: &str) -> LoadedSource {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    read_source(&path, &Defaults::default()).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn blocks_inherit_and_a_parent_is_an_experiment_too() {
    let loaded = fixture("lang");
    assert_eq!(
        names(&loaded),
        [
            "lang_exp1",
            "lang_exp3",
            "lang_exp2_data_file-data/2.txt_x-1_y-1",
            "lang_exp2_data_file-data/2.txt_x-2_y-1",
            "lang_exp2_data_file-data/2.txt_x-34_y-1",
            "lang_exp4",
        ]
    );
    assert_eq!(
        commands(&loaded),
        [
            "python3|main.py|1|2|data/1.txt",
            "python3|main.py|1|7|data/1.txt",
            "python3|main.py|1|1|data/2.txt",
            "python3|main.py|2|1|data/2.txt",
            "python3|main.py|34|1|data/2.txt",
            "python3|main.py|9|1|data/2.txt",
        ]
    );
    let first = named(&loaded, "lang_exp1");
    assert_eq!(
        *first.collections,
        ["lang"],
        "the folder's name stands for None"
    );
    assert_eq!(*first.required_files, ["data/1.txt", "data/2.txt"]);
    assert_eq!(first.custom_msg.as_deref(), Some("a first try"));
    assert_eq!(first.main_file.as_deref(), Some("main.py"));
    assert_eq!(first.command_text, "python3 main.py 1 2 data/1.txt");
    let stdout = Output {
        path: "stdout.log".into(),
        stream: Some(Stream::Stdout),
        fetch: Default::default(),
        max_bytes: None,
    };
    assert_eq!(*first.outputs, [stdout]);
    assert_eq!(*named(&loaded, "lang_exp4").collections, ["lang", "second"]);
    assert_eq!(loaded.notes, []);
}

#[test]
fn ranges_processors_and_plots_are_read() {
    let loaded = fixture("sleep");
    assert_eq!(
        names(&loaded),
        [
            "sleep_count-1_interval-0.10",
            "sleep_count-5_interval-0.10",
            "sleep_count-9_interval-0.10"
        ]
    );
    assert_eq!(commands(&loaded)[1], "python3|-u|sleep.py|5|0.10");
    let definition = &loaded.definitions[0];
    assert_eq!(value(definition, "count"), &Value::Int(1));
    assert_eq!(value(definition, "interval"), &Value::Float(0.1));
    assert_eq!(
        definition.sbatch_args.as_deref(),
        Some("--time=0-00:10:00 --mem-per-cpu=500")
    );
    assert!(definition.not_built.is_empty(), "{definition:?}");
    let notes: Vec<&str> = loaded.notes.iter().map(|note| &*note.text).collect();
    let read = "`sbatch_args` is read as `resources.time: 600s`, `resources.memory: 500M`";
    assert_eq!(notes, [read]);
    assert_eq!(definition.resources.time_ms, Some(600_000));
    assert_eq!(definition.resources.memory_bytes, Some(500 << 20));
    assert!(definition.scheduling.is_empty());
    assert_eq!(definition.processing.outputs.len(), 2);
    assert_eq!(definition.processing.plots[0].name, "values.svg");
}

/// What a block with this line beside its command asks for, and what is told about it.
fn with_line(line: &str) -> (nero_format::Definition, Vec<String>) {
    let loaded = load(&format!("+one:\n  command: run\n  {line}\n"));
    let notes = loaded.notes.into_iter().map(|note| note.text);
    (loaded.definitions[0].clone(), notes.collect())
}

#[test]
fn options_of_sbatch_in_one_text_become_the_fields_of_the_same_meaning() {
    let line = "sbatch_args: '-p gpu,long --time 2-0 -c 4 --mem-per-cpu=1G --exclude=n7 -J x'";
    let (one, notes) = with_line(line);
    assert_eq!(one.resources.time_ms, Some(2 * 86_400_000));
    assert_eq!(one.resources.cpus, 4.0);
    assert_eq!(one.resources.memory_bytes, Some(4 << 30));
    assert_eq!(one.scheduling.partition.on("any").unwrap(), "gpu");
    let passed = one.scheduling.sbatch_args.on("any").unwrap();
    assert_eq!(*passed, ["--exclude=n7"]);
    let told = |part: &str| notes.iter().any(|note| note.contains(part));
    for part in [
        "is read as `partition: gpu`, `resources.time: 172800s`, `resources.cpus: 4`, `resources.memory: 4G",
        "`sbatch_args`: `-p` is left out: a run names one partition: gpu",
        "`sbatch_args`: `-J` is left out: the job's name",
    ] {
        assert!(told(part), "{part}: {notes:#?}");
    }
}

#[test]
fn a_field_beside_the_text_of_sbatch_counts_more() {
    let line = "resources: {cpus: 2, time: 1h}\n  sbatch_args: '--time=5 --mem-per-cpu=300'";
    let (one, notes) = with_line(line);
    assert_eq!(one.resources.time_ms, Some(3_600_000));
    assert_eq!(one.resources.memory_bytes, Some(600 << 20));
    assert!(
        notes.iter().any(|note| note.contains("option for `time`")),
        "{notes:?}"
    );
}

#[test]
fn an_array_in_the_text_of_sbatch_is_refused() {
    let text = "+one:\n  command: run\n  sbatch_args: --time=5 --array=1-9\n";
    let report = crate::report(text);
    assert!(report.contains("--array is set by Neronet"), "{report}");
    assert!(report.contains(":3:"), "{report}");
}

#[test]
fn conditions_become_rules() {
    let loaded = fixture("limits");
    let rules: Vec<_> = loaded
        .definitions
        .iter()
        .flat_map(|d| &d.rules)
        .map(|r| {
            (
                r.name.as_deref().unwrap_or(""),
                r.action,
                r.written.as_str(),
                r.text.as_str(),
            )
        })
        .collect();
    assert_eq!(
        rules,
        [
            (
                "too_bad",
                RuleAction::Abort,
                "runtime >= 7200s && metric.error_rate > 0.4",
                "(runtime >= 7200s) && (metric.error_rate > 0.4)",
            ),
            (
                "worrying",
                RuleAction::Warn,
                "metric('val loss') >= 3",
                "metric('val loss') >= 3",
            ),
            (
                "told",
                RuleAction::Notify,
                "runtime >= 30s && metric.loss < -0.001",
                "(runtime >= 30s) && (metric.loss < -0.001)",
            ),
        ]
    );
}

const HEAD: &str = "run_command_prefix: python3\nmain_code_file: main.py\n";

#[test]
fn an_experiment_without_parameters_exists() {
    let loaded = load(&format!("{HEAD}+a:\n+b: {{}}\n"));
    assert_eq!(names(&loaded), ["a", "b"]);
    assert_eq!(commands(&loaded), ["python3|main.py", "python3|main.py"]);
}

#[test]
fn products_follow_the_file_and_names_sort_by_parameter() {
    let loaded = load(&format!(
        "{HEAD}parameters_format: '{{n}} {{breaktime}}'\n+fib:\n  parameters: {{n: [10, 20], breaktime: [0.1, 0.2]}}\n"
    ));
    assert_eq!(
        names(&loaded),
        [
            "fib_breaktime-0.1_n-10",
            "fib_breaktime-0.2_n-10",
            "fib_breaktime-0.1_n-20",
            "fib_breaktime-0.2_n-20",
        ]
    );
}

#[test]
fn a_child_expands_what_it_inherits_unless_it_says_one_value() {
    let loaded = load(&format!(
        "{HEAD}parameters_format: '{{x}}'\n+a:\n  parameters: {{x: [1, 2]}}\n  +b:\n  +c: {{parameters: {{x: 5}}}}\n  +d: {{parameters: {{x: [7]}}}}\n"
    ));
    assert_eq!(
        names(&loaded),
        ["a_x-1", "a_x-2", "b_x-1", "b_x-2", "c", "d"]
    );
}

#[test]
fn an_override_keeps_the_position_and_null_removes() {
    let loaded = load(
        "command: prog {x} {y}\nparameters: {x: [1, 2], y: [3, 4], z: 1}\n+a: {parameters: {x: [5, 6], z: null}}\n",
    );
    assert_eq!(
        names(&loaded),
        ["a_x-5_y-3", "a_x-5_y-4", "a_x-6_y-3", "a_x-6_y-4"]
    );
    let loaded =
        load("command: prog {x}\nparameters: {x: 1}\n+a: {command: prog, parameters: null}\n");
    assert_eq!(loaded.definitions[0].params, []);
}

#[test]
fn parameters_keep_their_text() {
    let yaml = "+a:\n  command: prog {x}\n  parameters: {x: [0.10, 010, 1e-3, no, '5', null, ~, 2026-11-20, 12:30:45, 1_000]}\n";
    let loaded = load(yaml);
    let want = [
        "0.10",
        "010",
        "1e-3",
        "no",
        "5",
        "null",
        "~",
        "2026-11-20",
        "12:30:45",
        "1_000",
    ];
    assert_eq!(texts(&loaded, "x"), want);
    let sent: Vec<&str> = loaded
        .definitions
        .iter()
        .map(|d| d.argv[1].as_str())
        .collect();
    assert_eq!(sent, want);
    assert_eq!(loaded.definitions[3].name, "a_x-no");
    let values: Vec<&Value> = loaded.definitions.iter().map(|d| value(d, "x")).collect();
    assert_eq!(values[1], &Value::Int(10));
    assert_eq!(values[3], &Value::Bool(false));
    assert_eq!(values[4], &Value::Text("5".into()));
}

#[test]
fn the_format_is_split_after_filling_as_it_was() {
    let loaded = load(&format!(
        "{HEAD}parameters_format: '--f \"{{f}}\" {{g}} {{{{}}}} #x'\n+a: {{parameters: {{f: a b, g: c d}}}}\n"
    ));
    assert_eq!(commands(&loaded), ["python3|main.py|--f|a b|c|d|{}|#x"]);
}

#[test]
fn the_template_of_the_original_says_what_is_missing() {
    // `--template` wrote parameters without values.
    let report = crate::report(&format!(
        "+e:\n  {}  parameters: {{a: , b: 1}}\n  parameters_format: '{{a}} {{b}} '\n",
        HEAD.replace('\n', "\n  ").trim_end_matches("  ")
    ));
    assert!(report.contains("`a` names no parameter"), "{report}");
}
