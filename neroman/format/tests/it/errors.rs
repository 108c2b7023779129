//! The report of each kind of mistake.

use crate::{Folder, report};

/// All reports of a table, each below its text, as one snapshot to read.
fn snapshot(name: &str, table: &[(&str, &str)]) {
    let mut page = String::new();
    for (title, yaml) in table {
        page.push_str(&format!("## {title}\n{}", report(yaml)));
        page.push('\n');
    }
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, page);
    });
}

#[test]
fn texts_that_are_no_yaml() {
    let deep_flow = "[".repeat(10_000);
    let deep_block: String = (0..200).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    snapshot(
        "no_yaml",
        &[
            ("empty", ""),
            ("only a comment", "# nothing\n"),
            ("only null", "~\n"),
            ("a list", "- a\n"),
            ("a text", "hello\n"),
            ("unclosed bracket", "+a:\n  command: [prog, x\n"),
            ("unclosed quote", "+a:\n  command: 'prog\n"),
            ("tab", "+a:\n\tcommand: prog\n"),
            ("two colons", "+a:\n  command: prog: x\n"),
            (
                "glob without quotes",
                "+a:\n  command: prog\n  files: [*.py]\n",
            ),
            (
                "format without quotes",
                "+a:\n  parameters_format: {x} {y}\n",
            ),
            (
                "single format without quotes",
                "run_command_prefix: python3\nmain_code_file: main.py\n+a:\n  parameters_format: {x}\n",
            ),
            (
                "half quoted value",
                "+a:\n  command: prog\n  rules:\n    - abort: \"a\" > 3\n",
            ),
            ("reserved character", "+a:\n  command: @prog\n"),
            (
                "two documents",
                "+a: {command: prog}\n---\n+b: {command: prog}\n",
            ),
            ("deep flow", &deep_flow),
            ("deep block", &deep_block),
            ("alias in itself", "+a: &a\n  env: *a\n"),
            ("unknown alias", "+a: {env: *nothing}\n"),
            ("NUL", "+a:\n  command: pr\0og\n"),
        ],
    );
}

#[test]
fn structure() {
    snapshot(
        "structure",
        &[
            (
                "duplicate key",
                "+a:\n  command: prog\n  env: {X: 1, X: 2}\n  command: other\n",
            ),
            (
                "duplicate block",
                "+a: {command: prog}\n+a: {command: other}\n",
            ),
            (
                "unknown keys",
                "+a:\n  comand: prog\n  memory: 4G\n  learning_rate: 3\n",
            ),
            (
                "forgotten plus",
                "command: prog\nexp1:\n  parameters: {x: 1}\n",
            ),
            ("look-alike letters", "+a:\n  с\u{43e}mmand: prog\n"),
            (
                "tag",
                "+a:\n  command: !!python/object/apply:os.system [ls]\n",
            ),
            (
                "unquoted negation",
                "+a:\n  command: prog\n  rules:\n    - abort: !finished\n",
            ),
            (
                "tuple on a scalar",
                "+a:\n  command: prog {x}\n  parameters: {x: !!python/tuple 3}\n",
            ),
            ("key is a list", "+a:\n  command: prog\n  ? [x, y]\n  : 3\n"),
            ("merge of a list", "+a:\n  <<: [3]\n  command: prog\n"),
            ("block is a text", "+a: prog x\n"),
            ("no name", "+:\n  command: prog\n"),
            ("no experiment", "parameters: {x: 1}\n"),
            ("another program's", "model: {layers: 3}\nlr: 0.1\n"),
            (
                "old and new name",
                "+a:\n  command: prog\n  conditions: {}\n  warning: {}\n",
            ),
            ("escapes stay out of the terminal", "\"+a\\e[31m\": 3\n"),
        ],
    );
}

#[test]
fn parameters() {
    snapshot(
        "parameters",
        &[
            (
                "several values inside of a list",
                "+a:\n  command: prog {x}\n  parameters: {x: [1, {range: [2, 3, 1]}]}\n",
            ),
            (
                "map",
                "+a:\n  command: prog {x}\n  parameters: {x: {a: 1}}\n",
            ),
            (
                "misspelt range",
                "+a:\n  command: prog {x}\n  parameters: {x: {rang: [1, 2]}}\n",
            ),
            (
                "empty list",
                "+a:\n  command: prog {x}\n  parameters: {x: []}\n",
            ),
            ("not a map", "+a:\n  command: prog\n  parameters: [x, y]\n"),
            (
                "range of text",
                "+a:\n  command: prog {x}\n  parameters: {x: {range: [0, end, 1]}}\n",
            ),
            (
                "range without end",
                "+a:\n  command: prog {x}\n  parameters: {x: {range: [0]}}\n",
            ),
            (
                "step zero",
                "+a:\n  command: prog {x}\n  parameters: {x: !!python/tuple [0, 1, 0]}\n",
            ),
            (
                "step astray",
                "+a:\n  command: prog {x}\n  parameters: {x: {range: [0, 1, -1]}}\n",
            ),
            (
                "twice the same value",
                "+a:\n  command: prog {x}\n  parameters: {x: [1, 1]}\n",
            ),
            (
                "one name twice",
                "+a:\n  command: prog\n  +b:\n+c:\n  command: prog\n  +b:\n",
            ),
        ],
    );
}

#[test]
fn commands() {
    let original = "run_command_prefix: python3\nmain_code_file: main.py\n";
    let with = |rest: &str| format!("{original}{rest}");
    snapshot(
        "commands",
        &[
            ("none", "+a: {env: {X: 1}}\n"),
            ("empty", "+a: {command: ''}\n"),
            ("a map", "+a: {command: {x: 1}}\n"),
            ("shell variable", "+a:\n  command: prog ${HOME}\n"),
            ("several lines", "+a:\n  command: |\n    cd x\n    prog\n"),
            ("open quote", "+a:\n  command: prog it's\n"),
            (
                "unknown place",
                "+a:\n  command: prog {lr} {bathsize}\n  parameters: {lr: 1, batch_size: 2}\n",
            ),
            ("place without parameters", "+a:\n  command: prog {x}\n"),
            ("json braces", "+a:\n  command: 'prog --cfg={\"a\": 1}'\n"),
            (
                "python syntax",
                "+a:\n  command: 'prog {} {x!r} {x:,}'\n  parameters: {x: 1}\n",
            ),
            (
                "format of a text",
                "+a:\n  command: prog {x:03d}\n  parameters: {x: [1, b]}\n",
            ),
            (
                "missing program",
                "+a:\n  command: ./build/prog {x}\n  parameters: {x: 1}\n",
            ),
            (
                "missing main file",
                "+a:\n  run_command_prefix: python3\n  main_code_file: mian.py\n",
            ),
            (
                "main file outside",
                "+a:\n  run_command_prefix: python3\n  main_code_file: ../main.py\n",
            ),
            (
                "main file is a folder",
                "+a:\n  run_command_prefix: python3\n  main_code_file: data\n",
            ),
            ("prefix only", "+a:\n  run_command_prefix: python3\n"),
            ("main only", "+a:\n  main_code_file: main.py\n"),
            (
                "both forms",
                &with("+a:\n  run_command_prefix: python3\n  command: prog\n"),
            ),
            (
                "format with command",
                "+a:\n  command: prog\n  parameters_format: '{x}'\n  parameters: {x: 1}\n",
            ),
            ("no format", &with("+a:\n  parameters: {x: 1, y: 2}\n")),
            (
                "format without its parameter",
                &with("parameters_format: '{x} {z}'\n+a:\n  parameters: {x: 1, y: 2}\n"),
            ),
            (
                "quote in a value",
                &with("parameters_format: '{x}'\n+a:\n  parameters: {x: it's}\n"),
            ),
        ],
    );
}

#[test]
fn rules() {
    let condition =
        |parts: &str| format!("+a:\n  command: prog\n  conditions: {{c: {{{parts}}}}}\n");
    snapshot(
        "rules",
        &[
            ("empty", "+a:\n  command: prog\n  rules:\n    - abort:\n"),
            (
                "empty text",
                "+a:\n  command: prog\n  rules: [{warn: ' '}]\n",
            ),
            (
                "the action twice",
                "+a:\n  command: prog\n  rules:\n    - abort: 'abort: loss > 3'\n",
            ),
            (
                "no action",
                "+a:\n  command: prog\n  rules:\n    - runtime > 2h\n",
            ),
            (
                "unknown action",
                "+a:\n  command: prog\n  rules:\n    - abotr: runtime > 2h\n",
            ),
            (
                "comma in braces",
                "+a:\n  command: prog\n  rules: [{abort: max(loss, 10m) > 3}]\n",
            ),
            (
                "not an expression",
                "+a:\n  command: prog\n  rules:\n    - abort: runtime > && 3\n    - warn: 'a < b < c'\n",
            ),
            (
                "a list",
                "+a:\n  command: prog\n  rules:\n    - abort: [x > 3]\n",
            ),
            (
                "day in a standing rule",
                "+a:\n  command: prog\n  rules:\n    - abort: tstart < today\n",
            ),
            ("condition without parts", &condition("variablename: loss")),
            (
                "condition with unknown words",
                &condition(
                    "variablename: loss, killvalue: much, comparator: '>', when: time, action: stop, unit: 3",
                ),
            ),
            (
                "condition is a text",
                "+a:\n  command: prog\n  conditions: {c: loss}\n",
            ),
            (
                "conditions are a list",
                "+a:\n  command: prog\n  conditions: [c]\n",
            ),
        ],
    );
}

#[test]
fn other_fields() {
    let field = |text: &str| format!("+a:\n  command: prog\n  {text}\n");
    snapshot(
        "other_fields",
        &[
            (
                "resources",
                &field("resources: {cpus: -1, memory: 4X, time: soon, gpu: 1}"),
            ),
            ("resources is a text", &field("resources: 4")),
            (
                "monitor",
                &field("monitor: {interval: 0, grace: x, strays: maybe, intervall: 3}"),
            ),
            (
                "outputs",
                &field(
                    "outputs: [/etc/passwd, ../x, {fetch: end}, {path: x, fetch: never, max: 0, size: 1}, '']",
                ),
            ),
            ("outputs nested", &field("outputs: [[a]]")),
            ("files", &field("files: ['[a', '!x', /abs]")),
            (
                "files as maps",
                &field("files: [{mode: link}, {path: ../x}, {path: d, mode: hard, max: 1}, [a]]"),
            ),
            (
                "required files",
                &field("required_files: [data/1.txt, data/9.txt, ../x]"),
            ),
            (
                "metrics",
                &field("metrics: [{match: '(?<a>'}, {match: 'loss (\\d+)'}, {regex: x}, text]"),
            ),
            (
                "recipes",
                &field("metrics: [wasp, {only: '('}, {decimal: ';'}, {table: 3}]"),
            ),
            ("env", &field("env: {X: [1, 2], 'A=B': 1}")),
            ("flags", &field("line_buffered: maybe")),
            (
                "both buffers",
                &field("line_buffered: true\n  buffered: true"),
            ),
            (
                "texts",
                &field(
                    "custom_msg: [a]\n  sbatch_args: {a: b}\n  results_dir: []\n  plot: {a: [b]}",
                ),
            ),
            (
                "schedulers",
                &field(
                    "partition: 'a;b'\n  account: \"a\\nb\"\n  qos: $(id)\n  queue: {x: '-q'}\n  constraint: 'a b'\n  resources: {gpus: 1.5, gpu_type: 'a b', exclusive: maybe}",
                ),
            ),
            (
                "options of schedulers",
                &field(
                    "sbatch_args: [--array=1-9, --job-name=x, -o out, --export=ALL, --wrap=ls, '--x=$(id)', word]\n  qsub_args: {n: [-N x, -t 1-3, -v A]}",
                ),
            ),
            ("collection", &field("collection: ['', {a: b}]")),
        ],
    );
}

#[test]
fn all_mistakes_come_at_once_and_inherited_ones_once() {
    let yaml = "
resources: {cpus: none}
+a:
  comand: x
  command: prog
  +b: {command: 'prog {x}'}
  +c: {env: 3}
";
    let report = report(yaml);
    assert_eq!(report.matches("error: ").count(), 4, "{report}");
    let places: Vec<&str> = report.lines().filter(|l| l.contains("-->")).collect();
    let lines: Vec<&str> = places.iter().filter_map(|l| l.split(':').nth(1)).collect();
    assert_eq!(lines, ["2", "4", "6", "7"]);
}

#[test]
fn many_mistakes_are_cut() {
    let yaml: String = (0..500)
        .map(|i| format!("+e{i}: {{bad{i}: 1}}\n"))
        .collect();
    let report = report(&yaml);
    assert_eq!(report.matches("error: ").count(), nero_format::PROBLEMS_MAX);
    assert!(
        report.ends_with("and more; these are the first 100\n"),
        "{report}"
    );
}

#[test]
fn paths_that_hold_no_description() {
    let folder = Folder::new();
    let read = |name: &str| match folder.read_path(&folder.path().join(name)) {
        Ok(_) => panic!("{name} was read"),
        Err(report) => report,
    };
    folder.write("yml/config.yml", b"");
    folder.write("latin.yaml", b"+a:\n  command: prog caf\xe9\n");
    folder.write("wide.yaml", b"\xff\xfe+\0a\0");
    let mut page = String::new();
    for name in ["nowhere", ".", "yml", "main.py", "latin.yaml", "wide.yaml"] {
        page.push_str(&format!("## {name}\n{}\n", read(name)));
    }
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("paths", page);
    });
    let report = folder
        .read_path(Path::new("/dev/null"))
        .expect_err("no file");
    assert!(report.contains("neither a folder nor a file"), "{report}");
}

use std::path::Path;
