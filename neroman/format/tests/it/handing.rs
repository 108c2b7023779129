//! How parameters reach the job without places in its command: styles, scripts, templates.

use crate::{Folder, commands, load, named, report};

fn styled(style: &str) -> Vec<String> {
    let loaded = load(&format!(
        "+a:
  command: prog {{x}}
  parameters: {{x: 1, lr: 0.10, fast: true, slow: no, text: 'a b'}}
  repeat: 1
  parameters_style: {style}
"
    ));
    assert_eq!(loaded.notes, [], "{style}");
    loaded.definitions[0].argv[2..].to_vec()
}

#[test]
fn a_style_hands_over_what_has_no_place() {
    assert_eq!(styled("flags"), ["--lr", "0.10", "--fast", "--text", "a b"]);
    assert_eq!(styled("flags="), ["--lr=0.10", "--fast", "--text=a b"]);
    assert_eq!(styled("dashes"), ["-lr", "0.10", "-fast", "-text", "a b"]);
    assert_eq!(
        styled("hydra"),
        ["lr=0.10", "fast=true", "slow=false", "text='a b'"]
    );
    assert!(styled("env").is_empty());
    assert!(styled("{file: conf/p.json}").is_empty());
    let original = load(
        "+a: {run_command_prefix: python3, main_code_file: main.py, parameters: {x: [1, 2]}, parameters_style: flags}",
    );
    assert_eq!(
        commands(&original),
        ["python3|main.py|--x|1", "python3|main.py|--x|2"]
    );
}

#[test]
fn values_of_hydra_are_quoted_in_its_grammar() {
    let loaded = load(
        "+a: {command: p, parameters_style: hydra, parameters: {opt.lr: 1e-3, list: '[a,b]', word: adam, number: '12', odd: \"it's, so\", empty: ''}}",
    );
    assert_eq!(
        loaded.definitions[0].argv[1..],
        [
            "opt.lr=1e-3",
            "list=[a,b]",
            "word=adam",
            "number='12'",
            r"odd='it\'s, so'",
            "empty=''"
        ]
    );
}

#[test]
fn variables_and_files_carry_parameters() {
    let loaded = load(
        "+a: {command: p, parameters_style: env, parameters: {lr: 0.1, B: x}, env: {B: own}}
+b: {command: 'p --config {params_file}', parameters_style: {file: conf/p.toml}, parameters: {lr: 0.1}}
",
    );
    let pair = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
    assert_eq!(
        *loaded.definitions[0].env,
        [pair("B", "own"), pair("lr", "0.1")]
    );
    assert_eq!(loaded.definitions[1].argv, ["p", "--config", "conf/p.toml"]);
    assert_eq!(
        loaded.definitions[1].params_file.as_deref(),
        Some("conf/p.toml")
    );
}

#[test]
fn a_script_runs_in_bash_with_its_places_filled() {
    let loaded = load(
        "+a:
  script: |
    for i in {1..3}; do echo ${x} {x} {data.d}; done
    awk '{print $1}' f
  parameters: {x: [7, 8]}
  data: {d: /d}
",
    );
    let argv = &loaded.definitions[1].argv;
    assert_eq!(argv[..5], ["bash", "-e", "-o", "pipefail", "-c"]);
    let place = nero_model::data::place("d");
    assert_eq!(
        argv[5],
        format!("for i in {{1..3}}; do echo ${{x}} 8 {place}; done\nawk '{{print $1}}' f\n")
    );
    let inner = load("command: prog\n+a: {script: echo}\n+b: {}\n");
    assert_eq!(
        commands(&inner),
        ["bash|-e|-o|pipefail|-c|echo|script", "prog"]
    );
}

#[test]
fn a_script_ends_where_a_command_before_a_pipe_fails() {
    let loaded = load("+a:\n  script: |\n    (echo a; exit 3) | cat\n    echo b\n");
    let argv = &loaded.definitions[0].argv;
    let ran = std::process::Command::new(&argv[0])
        .args(&argv[1..])
        .output();
    let ran = ran.unwrap();
    assert_eq!((ran.status.code(), &*ran.stdout), (Some(3), &b"a\n"[..]));
}

#[test]
fn a_template_is_read_for_its_places() {
    let folder = Folder::new();
    folder.write("config.in", b"lr: {rate}\nwide: {rote}\n");
    folder.write(
        "config.yaml",
        b"+a: {command: prog, parameters: {rate: 0.1, n: 3}, render: {config.in: out/config.json}}",
    );
    let loaded = folder.read().unwrap();
    let a = named(&loaded, "a");
    assert_eq!(*a.required_files, ["config.in"]);
    assert_eq!(a.render[0].path, "out/config.json");
    let notes: Vec<&str> = loaded.notes.iter().map(|note| &*note.text).collect();
    assert_eq!(
        notes,
        [
            "`{rote}` of `config.in` names no parameter and stays as it is; did you mean `rate`?",
            "the command of `a` does not use `n`; the job sees it in its environment only",
        ]
    );
}

#[test]
fn a_misspelt_place_of_a_script_is_noted_and_a_variable_of_bash_is_not() {
    let loaded =
        load("+a: {script: 'echo {rote} ${rote} {rate} {1..3}', parameters: {rate: 0.1}}\n");
    let notes: Vec<&str> = loaded.notes.iter().map(|note| &*note.text).collect();
    assert_eq!(
        notes,
        ["`{rote}` of the script names no parameter and stays as it is; did you mean `rate`?"]
    );
    assert_eq!(
        commands(&loaded),
        ["bash|-e|-o|pipefail|-c|echo {rote} ${rote} 0.1 {1..3}|script"]
    );
}

#[test]
fn a_template_that_is_a_link_is_refused() {
    let folder = Folder::new();
    folder.write("config.in", b"lr: {rate}\n");
    std::os::unix::fs::symlink("config.in", folder.path().join("link.in")).unwrap();
    folder.write(
        "config.yaml",
        b"+a: {command: prog, parameters: {rate: 0.1}, render: {link.in: config.json}}",
    );
    let said = folder.read().unwrap_err().to_string();
    assert!(
        said.contains("`link.in` is a link: name the file that it leads to"),
        "{said}"
    );
}

#[test]
fn mistakes_of_styles_scripts_and_templates_are_told() {
    let table = [
        (
            "command: p\n  parameters_style: flag",
            "this is no way to hand over parameters",
        ),
        (
            "command: p\n  parameters_style: [flags]",
            "this is no way to hand over parameters",
        ),
        (
            "command: p\n  parameters_style: {file: p.txt}",
            "`p.txt` is no file of parameters",
        ),
        (
            "command: p\n  parameters_style: {file: ../p.json}",
            "lies outside of the folder",
        ),
        (
            "command: p {params_file}",
            "it goes with `parameters_style: {file: params.json}`",
        ),
        (
            "command: p\n  parameters_style: env\n  parameters: {a.b: 1}",
            "`a.b` is no name of a variable",
        ),
        (
            "command: p\n  script: echo",
            "`script` and `command` exclude each other",
        ),
        ("script: ''", "the script is empty"),
        (
            "script: echo {x}\n  parameters: {x: 'a; rm b'}",
            "write \"$NERO_PARAM_X\" in the script instead of the place",
        ),
        (
            "command: p\n  render: {none.in: a}",
            "the template `none.in` is no file of the folder",
        ),
        (
            "command: p\n  render: {main.py: main.py}",
            "`main.py` is written twice",
        ),
        ("command: p\n  render: main.py", "`render` takes a map"),
        (
            "command: p\n  render: {main.py: /etc/x}",
            "lies outside of the folder",
        ),
    ];
    for (lines, message) in table {
        let said = report(&format!("+a:\n  {lines}\n"));
        assert!(said.contains(message), "{lines}: {said}");
    }
}

/// The JSON of each parameter of the first experiment.
fn jsons(yaml: &str) -> Vec<String> {
    let loaded = load(yaml);
    let params = &loaded.definitions[0].params;
    params.iter().map(nero_format::Param::json).collect()
}

#[test]
fn whole_numbers_of_any_length_keep_their_digits_where_there_are_types() {
    let found = jsons(
        "+a: {command: p, parameters: {a: 18446744073709551615, b: 340282366920938463463374607431768211455, \
         c: 0xffffffffffffffffffffffffffffffff, d: 010, e: -9007199254740993, f: '007', g: 1e400, h: .inf, i: nan, j: 0.10}}",
    );
    assert_eq!(
        found,
        [
            "18446744073709551615",
            "340282366920938463463374607431768211455",
            "340282366920938463463374607431768211455",
            "10",
            "-9007199254740993",
            "\"007\"",
            "\"1e400\"",
            "Infinity",
            "NaN",
            "0.1",
        ]
    );
    let long = "+a: {command: p, parameters_style: {file: p.toml}, parameters: {seed: 18446744073709551615}}";
    assert!(
        report(long).contains("`seed` has a whole number of more than 64 bits"),
        "{}",
        report(long)
    );
}

#[test]
fn a_list_or_a_map_within_a_list_is_one_value() {
    let loaded = load(
        "+a: {command: 'p {x}', parameters: {x: [[64, 64], [128], {kind: adam, seed: 18446744073709551616}]}}",
    );
    assert_eq!(
        commands(&loaded),
        [
            "p|[64, 64]",
            "p|[128]",
            "p|{kind: adam, seed: 18446744073709551616}"
        ]
    );
    let json = |at: usize| loaded.definitions[at].params[0].json();
    assert_eq!(json(0), "[64, 64]");
    assert_eq!(
        json(2),
        "{\"kind\": \"adam\", \"seed\": 18446744073709551616}"
    );
    let block = load("+a:\n  command: 'p {x}'\n  parameters:\n    x:\n      - - 1\n        - b\n");
    assert_eq!(commands(&block), ["p|[1, \"b\"]"]);
    let hydra = load(
        "+a: {command: p, parameters_style: hydra, parameters: {x: [[1, 'it''s', {a b: null}]]}}",
    );
    assert_eq!(commands(&hydra), [r"p|x=[1,'it\'s',{a\ b:null}]"]);
}

#[test]
fn a_text_of_hydra_keeps_its_backslashes_but_for_those_before_a_quote() {
    for (text, want) in [
        (r"C:\data", r"x='C:\data'"),
        (r"\d+", r"x='\d+'"),
        (r"a\'b", r"x='a\\\'b'"),
        (r"end\", r"x='end\\'"),
        ("größe", "x='größe'"),
        ("[a", "x='[a'"),
        ("[]", "x='[]'"),
        ("{0*9>}", "x='{0*9>}'"),
        ("NaN", "x='NaN'"),
        ("1.2.3", "x='1.2.3'"),
        ("data/1.txt", "x=data/1.txt"),
    ] {
        let yaml = text.replace('\'', "''");
        let loaded = load(&format!(
            "+a: {{command: p, parameters_style: hydra, parameters: {{x: '{yaml}'}}}}"
        ));
        assert_eq!(loaded.definitions[0].argv[1], want);
    }
    let report = report("+a: {command: p, parameters_style: hydra, parameters: {größe: 1}}");
    assert!(
        report.contains("`größe` is no name in Hydra's grammar"),
        "{report}"
    );
}

#[test]
fn a_variable_that_nothing_sets_is_told_and_a_dollar_sign_can_be_written() {
    let loaded = load(
        "+a:
  command: p
  env: {PW: 'pa$$word', A: '$HOME/x:$PATHX', B: '${A}:$NERO_DIR', C: '$1 $ ${x'}
",
    );
    let notes: Vec<&str> = loaded.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].starts_with("nodes where `$PATHX` is not set refuse these runs"),
        "{notes:?}"
    );
    assert!(
        notes[1].starts_with("`$NERO_DIR` is set after `env:`"),
        "{notes:?}"
    );
    let place = loaded.notes[0].place.as_ref().unwrap();
    assert_eq!((place.line, place.column), (3, 37));
    let style = load("+a: {command: p, parameters_style: env, parameters: {x: $NOPE/a}}");
    assert!(style.notes[0].text.contains("`$NOPE`"), "{:?}", style.notes);
}

#[test]
fn parameters_that_make_one_variable_are_told() {
    let loaded =
        load("+a: {command: 'p {lr-x} {lr_x} {lr.x}', parameters: {lr-x: 1, lr_x: 2, lr.x: 3}}");
    let notes: Vec<&str> = loaded.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(
        notes,
        [
            "`lr-x`, `lr_x`, `lr.x` have one variable, NERO_PARAM_LR_X, and it has the value of `lr.x`; `NERO_PARAMS` has each"
        ]
    );
}
