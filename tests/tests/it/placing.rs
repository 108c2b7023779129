//! Requirements of an experiment on its node, on this machine alone: the one node is
//! taken, or the reason against it is shown.

use std::fs;

use nero_tests::{Home, Part, until};

use crate::story::added;

/// The reason in `status` why an experiment waits.
fn waits_for(home: &Home, id: u64, part: &str) -> String {
    let mut why = String::new();
    until("the reason to be said", || {
        let seen = home.experiment_json(id);
        why = seen["waiting_for"].as_str().unwrap_or_default().to_owned();
        if why.contains(part) {
            Ok(())
        } else {
            Err(seen)
        }
    });
    why
}

#[test]
fn data_is_found_where_it_lies() {
    let home = Home::new();
    let data = home.path().join("my data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("words"), "alpha\n").unwrap();
    let yaml = format!(
        "collection: d\n\
         data: {{corpus: {{elsewhere: /nowhere, local: '{}'}}}}\n\
         node: local\n\
         requires: cpus >= 1 && os == linux && group != gpus\n\
         resources: {{disk: 1M}}\n\
         +d:\n  command: [sh, -c, 'cat \"$1/words\"; echo \"$CORPUS\"', sh, '{{data.corpus}}']\n  \
         env: {{CORPUS: '{{data.corpus}}/$USER'}}\n",
        data.display()
    );
    added(&home, "d", &yaml);
    home.ok(&["start", "1"]);
    home.ok(&["wait", "1"]);
    let said = home.ok(&["logs", "1"]);
    let user = said.lines().nth(1).unwrap_or_default();
    assert!(said.starts_with("alpha\n"), "{said}");
    assert!(user.starts_with(&format!("{}/", data.display())), "{said}");
    let shown = home.json(&["show", "1"]);
    let command = shown["command"].to_string();
    assert!(command.contains("{data.corpus}"), "{command}");
    assert!(!shown.to_string().contains('\u{e0d0}'), "{shown:#}");
}

#[test]
fn a_run_waits_for_the_answer_to_a_probe_and_a_probe_that_hangs_keeps_nobody() {
    let home = Home::new();
    let file = home.path().join("ready");
    let yaml = format!(
        "collection: p\ncommand: 'true'\nresources: {{cpus: 0.1}}\n\
         probes:\n  ready: 'test -e {} && echo yes || echo no'\n  slow: sleep 600\n\
         +waits: {{requires: ready == yes}}\n+hangs: {{requires: slow != yes}}\n",
        file.display()
    );
    added(&home, "p", &yaml);
    home.ok(&["start", "all"]);
    let no = "local: ready == 'yes' (ready is 'no' since ";
    let hangs = "local: slow != 'yes' (slow is unknown: the node is being asked)";
    waits_for(&home, 1, no);
    waits_for(&home, 2, hangs);
    home.kill_all(&[Part::Daemon, Part::Mum]);
    waits_for(&home, 1, no);
    waits_for(&home, 2, hangs);
    fs::write(&file, "").unwrap();
    // The next daemon knows no answer, and asks at once.
    home.kill(Part::Daemon);
    home.until_state(1, "finished");
    waits_for(&home, 2, hangs);
    home.ok(&["abort", "2"]);
}

#[test]
fn data_that_is_not_there_refuses_the_run() {
    let home = Home::new();
    let yaml = "collection: d\n\
                +gone: {command: 'cat {data.c}', data: {c: /nowhere/at/all}}\n\
                +unset: {command: 'cat {data.c}', data: {c: $NERO_NOT_SET/c}}\n";
    added(&home, "d", yaml);
    home.ok(&["start", "all"]);
    for (id, why) in [(1, "/nowhere/at/all"), (2, "NERO_NOT_SET")] {
        let seen = home.until_state(id, "crashed");
        let reason = seen["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(why), "{seen:#}");
        assert_eq!(seen["exit_code"], serde_json::Value::Null, "it never ran");
    }
}

#[test]
fn a_need_that_no_node_satisfies_is_reported_at_start_with_its_values() {
    let home = Home::new();
    let yaml = "collection: d\n\
                +group: {command: 'true', requires: group == gpus && cpus >= 1}\n\
                +data: {command: 'cat {data.c}', data: {c: {elsewhere: /c}}}\n\
                +disk: {command: 'true', resources: {disk: 1000T}}\n";
    added(&home, "d", yaml);
    // neroman knows the node once a run went there.
    added(&home, "w", "collection: w\n+w: {command: 'true'}\n");
    home.ok(&["start", "4"]);
    home.ok(&["wait", "4"]);
    until("the node to be described", || {
        let seen = home.json(&["node", "list"]);
        if seen["nodes"][0]["cpus"].is_null() {
            Err(seen)
        } else {
            Ok(())
        }
    });
    let ran = home.run(&["start", "1-2"]);
    let said = format!("{}{}", ran.out, ran.err);
    for part in ["group == 'gpus' (group is none)", "no place of `c` there"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    home.ok(&["start", "3"]);
    waits_for(&home, 1, "group == 'gpus' (group is none)");
    waits_for(&home, 2, "no place of `c` there");
    waits_for(&home, 3, "free disk");
    home.ok(&["abort", "1-3", "--yes"]);
}

#[test]
fn memory_is_kept_for_a_run_though_no_configuration_names_any() {
    let home = Home::new();
    // A node reports its resources once a run goes there.
    added(&home, "first", "command: 'true'\n+first: {}\n");
    home.ok(&["start", "1", "--wait"]);
    let mut memory = 0;
    until("this machine to be known", || {
        let seen = home.json(&["node", "list"]);
        memory = seen["nodes"][0]["memory_bytes"].as_u64().unwrap_or(0);
        if memory > 0 { Ok(()) } else { Err(seen) }
    });
    let most = memory / 5 * 3 / 1024;
    let yaml = format!(
        "collection: m\ncommand: sleep 600\nresources: {{cpus: 0.1, memory: {most}K}}\n+a: {{}}\n+b: {{}}\n\
         +huge:\n  resources: {{memory: {}K}}\n",
        memory / 512
    );
    added(&home, "m", &yaml);
    home.ok(&["start", "2-3"]);
    home.until_state(2, "running");
    waits_for(&home, 3, "memory");
    home.ok(&["abort", "2"]);
    home.until_state(3, "running");
    home.ok(&["abort", "3"]);
    let huge = home.run(&["start", "4", "--wait"]);
    assert_eq!(huge.code, Some(1), "{huge:#?}");
    assert!(huge.err.contains("can never take it"), "{huge:#?}");
    assert_ne!(home.experiment_json(4)["state"], "finished");
}

#[test]
fn an_unknown_node_is_refused_with_its_place() {
    let home = Home::new();
    added(
        &home,
        "d",
        "collection: d\n+d:\n  command: 'true'\n  node: tritn\n",
    );
    home.configure("nodes: {triton: {address: nowhere.invalid}}\n");
    let ran = home.run(&["start", "1"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    for part in [
        "no node or group is named `tritn`",
        "neronet.yaml:4:9",
        "did you mean `triton`?",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    // An option of the command goes before a field of the experiment.
    home.ok(&["start", "1", "--node", "local"]);
    home.ok(&["wait", "1"]);
}

#[test]
fn a_word_like_a_collection_or_a_node_gets_the_fitting_hint() {
    let home = Home::new();
    added(&home, "d", "collection: tri\n+d:\n  command: 'true'\n");
    home.configure("nodes: {trix: {address: nowhere.invalid}}\n");
    for (word, hint) in [
        ("tri", "hint: `tri/*` is all of that collection"),
        ("tryx", "hint: did you mean `neroman status trix`?"),
    ] {
        let ran = home.run(&["status", word]);
        assert_eq!(ran.code, Some(2), "{ran:#?}");
        assert!(ran.err.contains(hint), "{hint}: {}", ran.err);
    }
}
