//! The native fields.

use crate::{Folder, commands, load, named, names, report, texts};
use nero_format::{
    Definition, Fetch, FollowUp, MetricReading, Monitor, OutputBuffering, Retry, RetryOn,
    RuleAction, Strays, Stream,
};

#[test]
fn a_command_is_split_and_then_filled() {
    let loaded = load(
        "+a:\n  command: python3 main.py --name={n} '{n} x' \"q {n}\" plain\n  parameters: {n: \"two words; $HOME 'q'\"}\n",
    );
    let n = "two words; $HOME 'q'";
    let want = format!("python3|main.py|--name={n}|{n} x|q {n}|plain");
    assert_eq!(commands(&loaded), [want]);
}

#[test]
fn equal_parts_of_two_rows_are_held_once_until_one_changes() {
    let yaml = "
env: {A: b}
+other: {command: prog}
+a: {command: 'prog {n}', parameters: {n: [1, 2]}, depends_on: [other]}
";
    let loaded = load(yaml);
    let (one, two) = (named(&loaded, "a_n-1"), named(&loaded, "a_n-2"));
    assert!(std::ptr::eq(&*one.env, &*two.env));
    assert!(std::ptr::eq(&*one.precedence, &*two.precedence));
    let mut changed = two.clone();
    changed.env.push(("B".to_owned(), None));
    assert_eq!(one.env, two.env);
    assert_ne!(changed.env, two.env);
}

#[test]
fn a_command_given_as_a_list_is_not_split_at_blanks() {
    let loaded = load("+a:\n  command: [echo, a b, '{x}', 3, true]\n  parameters: {x: ' '}\n");
    assert_eq!(
        loaded.definitions[0].argv,
        ["echo", "a b", " ", "3", "true"]
    );
}

#[test]
fn commands_may_be_folded_over_lines() {
    let loaded =
        load("+a:\n  command: >-\n    prog a\n    b\n+b:\n  command: \"prog a \\\\\\n b\"\n");
    assert_eq!(commands(&loaded), ["prog|a|b", "prog|a|b"]);
}

#[test]
fn the_nearest_block_chooses_the_form_of_the_command() {
    let yaml = "
run_command_prefix: python3
main_code_file: main.py
parameters_format: '{x}'
parameters: {x: 1}
+old:
  +new: {command: 'prog {x}'}
+native:
  command: prog2
  +back: {run_command_prefix: python2}
";
    let loaded = load(yaml);
    assert_eq!(
        commands(&loaded),
        ["python3|main.py|1", "prog|1", "prog2", "python2|main.py|1"]
    );
}

#[test]
fn a_file_without_blocks_is_one_experiment() {
    let loaded = load("command: prog\n");
    assert_eq!(names(&loaded), ["lab"]);
    let folder = Folder::new();
    folder.write(
        "sweep.yaml",
        b"command: prog {x}\nparameters: {x: [1, 2]}\n",
    );
    let loaded = folder
        .read_path(&folder.path().join("sweep.yaml"))
        .expect("reads");
    assert_eq!(names(&loaded), ["sweep_x-1", "sweep_x-2"]);
    assert_eq!(*loaded.definitions[0].collections, ["lab"]);
}

#[test]
fn neronet_yaml_comes_before_config_yaml() {
    let folder = Folder::new();
    folder.write("config.yaml", b"learning_rate: 0.1\n");
    folder.write("neronet.yaml", b"+a: {command: prog}\n");
    let loaded = folder.read().expect("reads");
    assert_eq!(names(&loaded), ["a"]);
    assert!(loaded.source.file.ends_with("lab/neronet.yaml"));
    assert!(loaded.source.path.ends_with("lab"));
}

#[test]
fn ranges_are_free_of_noise() {
    let yaml = "+a:\n  command: prog {x} {y}\n  parameters: {x: {range: [0, 0.5, 0.1]}, y: !!python/tuple [3, 0, -2]}\n";
    let loaded = load(yaml);
    let want = [
        "0", "0", "0.1", "0.1", "0.2", "0.2", "0.3", "0.3", "0.4", "0.4",
    ];
    assert_eq!(texts(&loaded, "x"), want);
    assert_eq!(texts(&loaded, "y")[..2], ["3", "1"]);
}

const EVERYTHING: &str = "
+a:
  command: ./run.sh
  env: {OMP_NUM_THREADS: 4, HF_HOME: $WRKDIR/hf, LANG: null}
  resources: {cpus: 0.5, memory: 1.5G, time: 1h30m, gpus: null}
  files: ['*.py', {path: data/, mode: link}, {path: ./run.sh, mode: copy}]
  outputs: [stdout, stderr.log, 'model*.pt', {path: 'ckpt/**', fetch: end, max: 2G}]
  metrics:
    - match: 'epoch\\s+(?<step>\\d+): train loss = (?<train_loss>\\S+)'
  rules:
    - abort: runtime > 2h && error_rate > 0.40
    - warn:  error_rate >= 0.35
    - notify: silent > 20m
  monitor: {interval: 5s, grace: 0, strays: wait}
  line_buffered: yes
  results_dir: ~/out
  +b:
    env: {OMP_NUM_THREADS: 1, NEW: ''}
    resources: {cpus: 2}
    line_buffered: false
    buffered: true
    rules: null
    outputs: null
";

#[test]
fn every_built_field_arrives() {
    let loaded = load(EVERYTHING);
    let a = named(&loaded, "a");
    let env: Vec<_> = a
        .env
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_deref()))
        .collect();
    assert_eq!(
        env,
        [
            ("OMP_NUM_THREADS", Some("4")),
            ("HF_HOME", Some("$WRKDIR/hf")),
            ("LANG", None)
        ]
    );
    assert_eq!(a.resources.cpus, 0.5);
    assert_eq!(a.resources.memory_bytes, Some(3 << 29));
    assert_eq!(a.resources.time_ms, Some(5_400_000));
    assert_eq!(
        a.files.as_deref(),
        Some(&["*.py".into(), "data/".into(), "run.sh".into()][..])
    );
    let outputs: Vec<_> = a
        .outputs
        .iter()
        .map(|o| (o.path.as_str(), o.stream, o.fetch, o.max_bytes))
        .collect();
    assert_eq!(
        outputs,
        [
            ("stdout.log", Some(Stream::Stdout), Fetch::Live, None),
            ("stderr.log", Some(Stream::Stderr), Fetch::Live, None),
            ("model*.pt", None, Fetch::Live, None),
            ("ckpt/**", None, Fetch::End, Some(2 << 30)),
        ]
    );
    assert_eq!(a.metric_patterns.len(), 1);
    let rules: Vec<_> = a
        .rules
        .iter()
        .map(|r| (r.action, r.text.as_str()))
        .collect();
    assert_eq!(
        rules,
        [
            (RuleAction::Abort, "(runtime > 2h) && (error_rate > 0.40)"),
            (RuleAction::Warn, "error_rate >= 0.35"),
            (RuleAction::Notify, "silent > 20m"),
        ]
    );
    let monitor = Monitor {
        interval_ms: 5000,
        grace_ms: 0,
        strays: Strays::Wait,
    };
    assert_eq!(a.monitor, monitor);
    assert_eq!(a.buffering, OutputBuffering::Line);
    assert_eq!(a.results_dir.as_deref(), Some("~/out"));
    assert_eq!(*a.not_built, []);

    let b = named(&loaded, "b");
    let env: Vec<_> = b
        .env
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_deref()))
        .collect();
    let want = [
        ("OMP_NUM_THREADS", Some("1")),
        ("HF_HOME", Some("$WRKDIR/hf")),
        ("LANG", None),
        ("NEW", Some("")),
    ];
    assert_eq!(env, want);
    assert_eq!(
        (b.resources.cpus, b.resources.memory_bytes),
        (2.0, None),
        "fields replace"
    );
    assert_eq!(b.buffering, OutputBuffering::Untouched);
    assert!(b.rules.is_empty() && b.outputs.is_empty());
}

#[test]
fn definitions_survive_json() {
    for definition in load(EVERYTHING).definitions {
        let json = serde_json::to_string(&definition).expect("serialises");
        let back: Definition = serde_json::from_str(&json).expect("reads back");
        assert_eq!(back, definition);
        assert_eq!(serde_json::to_string(&back).expect("serialises"), json);
    }
}

#[test]
fn comments_and_moves_leave_the_fingerprint_alone() {
    let folder = Folder::new();
    let read = |yaml: &str| {
        folder.write("config.yaml", yaml.as_bytes());
        let loaded = folder.read().expect("reads");
        (named(&loaded, "a").fingerprint(), loaded.source.digest)
    };
    let before = read("+a: {command: prog, rules: [{abort: 'loss > 3'}]}\n");
    let after = read(
        "# new\n+b: {command: other}\n\n+a:\n  command: prog # why\n  rules:\n  - abort: loss > 3\n",
    );
    let changed = read("+a: {command: prog, rules: [{abort: 'loss > 4'}]}\n");
    assert_eq!(before.0, after.0);
    assert_ne!(before.0, changed.0);
    assert_ne!(before.1, after.1);
}

#[test]
fn merge_keys_and_aliases_are_followed() {
    let yaml = "
+a: &base
  command: prog {x} {y}
  parameters: &p {x: 1, y: 2}
+b:
  <<: *base
  parameters: {<<: *p, y: [3, 4]}
";
    let loaded = load(yaml);
    assert_eq!(commands(&loaded), ["prog|1|2", "prog|1|3", "prog|1|4"]);
}

#[test]
fn line_ends_and_a_byte_order_mark_do_not_matter() {
    let loaded = load("\u{feff}+a:\r\n  command: prog {x}\r\n  parameters:\r\n    x: [1, 2]\r\n");
    assert_eq!(commands(&loaded), ["prog|1", "prog|2"]);
    let loaded = load("+a:\r  command: prog\r");
    assert_eq!(commands(&loaded), ["prog"]);
}

#[test]
fn names_hold_any_character() {
    let yaml = "'+a/b c': {command: prog}\n\"+new\\nline\": {command: prog}\n'+\"quoted\"': {command: prog}\n+🦀: {command: prog}\n'+ fit ': {command: prog}\n'+144': {command: prog}\n'+1-9': {command: prog}\n+crashed: {command: prog}\n";
    let loaded = load(yaml);
    let want = [
        "a/b c",
        "new\nline",
        "\"quoted\"",
        "🦀",
        "fit",
        "144",
        "1-9",
        "crashed",
    ];
    assert_eq!(names(&loaded), want);
    let notes: Vec<&str> = loaded.notes.iter().map(|n| n.text.as_str()).collect();
    assert_eq!(
        notes,
        [
            "the name `144` looks like an id: select it in backticks, '`144`'",
            "the name `1-9` looks like a range of ids: select it in backticks, '`1-9`'",
            "the name `crashed` looks like a state word: select it in backticks, '`crashed`'",
        ]
    );
}

#[test]
fn a_key_without_effect_is_noted() {
    let loaded = load("+a:\n  command: prog {x} | tee log\n  parameters: {x: 1, unused: 2}\n");
    let notes: Vec<&str> = loaded.notes.iter().map(|n| n.text.as_str()).collect();
    assert_eq!(
        notes,
        [
            "`|` is handed over as an argument: no shell runs the command",
            "the command of `a` does not use `unused`; the job sees it in its environment only",
        ]
    );
    let place = loaded.notes[0].place.as_ref().map(|p| (p.line, p.column));
    assert_eq!(place, Some((2, 21)));
}

#[test]
fn shell_syntax_in_a_command_is_noted() {
    let table = [
        (
            "CUDA_VISIBLE_DEVICES=0 python3 main.py",
            "`CUDA_VISIBLE_DEVICES=0` is taken for the program: no shell runs the command; \
             write `env: {CUDA_VISIBLE_DEVICES: 0}`",
        ),
        (
            "prog $HOME/data",
            "`$HOME/data` is handed over as it stands: no shell runs the command; `env:` knows \
             $NAME, and the job's program can look there",
        ),
        (
            "prog ~/x",
            "`~/x` is handed over as it stands: no shell runs the command; write the whole path",
        ),
        (
            "prog *.py",
            "`*.py` is handed over as it stands: no shell runs the command, which would put names \
             of files there",
        ),
        ("prog lr=0.1 a~b --like=*.py 5$ '$HOME' \"~/x\" '*.py'", ""),
        ("bash -c 'ls *.py > $HOME/x'", ""),
    ];
    for (command, note) in table {
        let loaded = load(&format!("+a:\n  command: {command}\n"));
        let notes: Vec<&str> = loaded.notes.iter().map(|n| n.text.as_str()).collect();
        let expected: Vec<&str> = Some(note).into_iter().filter(|n| !n.is_empty()).collect();
        assert_eq!(notes, expected, "{command}");
    }
}

/// Every word of the format without an effect: kept, named with its place, noted.
#[test]
fn words_not_built_are_kept_with_their_place() {
    let table = [
        ("progress: mean(loss, 10m)", "progress: mean(loss, 10m)"),
        ("logoutput: log.txt", "logoutput"),
        ("requires: load < 4 for 10m", "requires: for 10m"),
    ];
    for (line, word) in table {
        let loaded = load(&format!("+a:\n  command: prog\n  {line}\n"));
        let definition = &loaded.definitions[0];
        let kept: Vec<&str> = definition
            .not_built
            .iter()
            .map(|n| n.word.as_str())
            .collect();
        assert_eq!(kept.first(), Some(&word), "{line}");
        assert_eq!(definition.not_built[0].place.line, 3, "{line}");
        assert!(definition.rules.is_empty(), "{line}");
        let note = format!("`{word}` is not built yet: it is kept, and `start` refuses");
        assert!(
            loaded.notes.iter().any(|n| n.text == note),
            "{line}: {:?}",
            loaded.notes
        );
    }
}

#[test]
fn what_follows_an_end_by_itself_is_read_and_checked() {
    let read = |lines: &str| {
        let text = format!(
            "+a:\n  command: prog\n  checkpoint: 'c/*'\n  resources: {{memory: 1G, time: 1h}}\n  {lines}\n"
        );
        load(&text).definitions[0].again.clone()
    };
    let retry = |lines: &str| read(lines).retry.clone().unwrap();
    let all = RetryOn::ALL.to_vec();
    assert_eq!(
        retry("retry: {on: [node_failure, out_of_memory], max: 2, memory: x2}"),
        Retry {
            on: vec![RetryOn::NodeFailure, RetryOn::OutOfMemory],
            max: 2,
            memory: 2.0,
            after_ms: 0,
            time: 1.0,
            ..Retry::default()
        }
    );
    assert_eq!(retry("retry: {on: timeout, time: x1.5}").max, 1);
    assert_eq!(retry("retry: {after: 1m30s}").after_ms, 90_000);
    assert_eq!((retry("retry: 3").max, retry("retry: 3").on), (3, all));
    assert_eq!(read("retry: 0"), FollowUp::default());
    assert!(read("on_timeout: requeue").requeues_timeout);
    assert_eq!(read("on_timeout: end"), FollowUp::default());
    let mistakes = [
        ("retry: {on: [oom]}", "`retry.on` takes node_failure"),
        (
            "retry: {max: 1000}",
            "`retry.max` takes a whole number up to 100, not `1000`",
        ),
        (
            "retry: {memory: 2}",
            "`retry.memory` takes a factor, not `2`",
        ),
        (
            "retry: {memory: x0.5}",
            "`retry.memory` takes a factor, not `x0.5`",
        ),
        (
            "retry: {memory: xnan}",
            "`retry.memory` takes a factor, not `xnan`",
        ),
        (
            "retry: {on: [timeout], memory: x2}",
            "`retry.memory` counts after `out_of_memory`, which `on` does not name",
        ),
        (
            "retry: {time: x2}",
            "`retry.time` multiplies `resources.time`, which is not given",
        ),
        ("retry: {often: 2}", "is no part of `retry`"),
        ("retry: {after: soon}", "`retry.after`"),
        (
            "on_timeout: requeue",
            "`on_timeout: requeue` goes on from `checkpoint:`, which is not given",
        ),
        ("on_timeout: restart", "`on_timeout` takes end or requeue"),
    ];
    for (line, message) in mistakes {
        let said = report(&format!("+a:\n  command: prog\n  {line}\n"));
        assert!(said.contains(message), "{line}: {said}");
    }
}

#[test]
fn a_parameter_that_several_blocks_inherit_and_do_not_use_is_noted_once() {
    let loaded = load("command: prog {x}\nparameters: {x: 1, odd: 2}\n+a: {}\n+b: {}\n+c: {}\n");
    let unused = loaded
        .notes
        .iter()
        .filter(|n| n.text.contains("does not use"));
    assert_eq!(unused.count(), 1, "{:?}", loaded.notes);
}

#[test]
fn definitions_name_their_block_and_what_varies_in_it() {
    let loaded = load(
        "command: prog {x} {y}\nparameters: {x: [1, 2], y: 3}\n+a: {}\n+b:\n  parameters: {x: 4}\n",
    );
    let of = |block: &str| {
        let those = loaded.definitions.iter().filter(|d| *d.block == block);
        those.map(|d| (*d.varied).clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("a"), [["x"], ["x"]]);
    assert_eq!(of("b"), [[""; 0]]);
}

#[test]
fn a_fingerprint_says_what_runs_and_not_where_it_stands() {
    let loaded = load("+a:\n  command: prog\n");
    let mut moved = loaded.definitions[0].clone();
    *moved.folder = "/elsewhere".into();
    moved.block = "other".to_owned().into();
    moved.varied = vec!["x".to_owned()].into();
    assert_eq!(moved.fingerprint(), loaded.definitions[0].fingerprint());
    moved.argv.push("more".to_owned());
    assert_ne!(moved.fingerprint(), loaded.definitions[0].fingerprint());
}

#[test]
fn expressions_not_built_are_kept_too() {
    let loaded = load("+a: {command: prog, rules: [{warn: 'loss > 3 && user == ada'}]}\n");
    let definition = &loaded.definitions[0];
    assert!(definition.rules.is_empty());
    assert!(
        definition.not_built[0].word.starts_with("rules.warn: "),
        "{:?}",
        definition.not_built
    );
}

/// The example of the manual, with every word of the native format.
#[test]
fn the_manual_s_example_can_be_added() {
    let loaded = load(include_str!("../fixtures/manual.yaml"));
    assert_eq!(
        names(&loaded),
        [
            "small_data-data/1.txt_x-1_y-1",
            "small_data-data/1.txt_x-2_y-1",
            "small_data-data/1.txt_x-34_y-1",
            "large_data-data/1.txt_x-1_y-400",
            "large_data-data/1.txt_x-2_y-400",
            "large_data-data/1.txt_x-34_y-400",
            "larger_data-data/1.txt_x-1_y-400",
            "larger_data-data/1.txt_x-2_y-400",
            "larger_data-data/1.txt_x-34_y-400",
        ]
    );
    let readers = &loaded.definitions[8].metric_reading.readers;
    assert_eq!(*readers, [["./reader.py"]]);
}

#[test]
fn a_recipe_stands_for_its_patterns_and_lines_are_chosen() {
    let loaded = load(
        "+a:
  command: prog
  metrics: [vasp, {match: 'a (?<a>.)'}, {only: '^R', skip: old}, {decimal: ','}, {table: false}, {file: ./out//m.csv}, {file: out/m.csv}, {command: [./r.py, '{x} y']}]
+b: {command: prog, metrics: openfoam}
+c: {command: prog, metrics: [{table: true}]}
",
    );
    let [a, b, c] = &loaded.definitions[..] else {
        panic!("three experiments");
    };
    let vasp = nero_metrics::recipe::patterns("vasp").unwrap();
    assert_eq!(a.metric_patterns[..vasp.len()], *vasp);
    assert_eq!(a.metric_patterns[vasp.len()..], ["a (?<a>.)"]);
    let want = MetricReading {
        only: vec!["^R".to_owned()],
        skip: vec!["old".to_owned()],
        decimal_comma: true,
        no_tables: true,
        files: vec!["out/m.csv".to_owned()],
        readers: vec![vec!["./r.py".to_owned(), "{x} y".to_owned()]],
    };
    assert_eq!(a.metric_reading, want);
    assert!(b.metric_patterns.len() > 1);
    assert_eq!(c.metric_reading, MetricReading::default());
    let stored = serde_json::to_value(c).unwrap();
    assert!(
        stored.get("metric_reading").is_none(),
        "as before it was known"
    );
}

#[test]
fn the_progress_is_an_expression_that_is_checked_when_it_is_added() {
    let loaded = load("+a: {command: prog, progress: epoch / 50}\n+b: {command: prog}\n");
    assert_eq!(
        loaded.definitions[0].progress.as_deref(),
        Some("epoch / 50")
    );
    assert_eq!(loaded.definitions[1].progress, None);
    for (text, message) in [
        ("name", "`name` is text, not a number"),
        (
            "progress / 100",
            "the progress does not follow from `progress`",
        ),
        ("1 - eta / 1h", "the progress does not follow from `eta`"),
        ("epoch/50", "without blanks `epoch/50` is one name"),
        ("epoch /", ""),
        ("tend - tstart", "known to neroman alone"),
    ] {
        let problems = report(&format!("+a: {{command: prog, progress: '{text}'}}\n"));
        assert!(problems.contains(message), "{text}: {problems}");
        assert!(problems.contains(":1:"), "{text}: {problems}");
    }
}
