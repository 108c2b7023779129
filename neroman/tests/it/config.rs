//! `config`: no daemon is asked, and nothing but one line of the file changes.

use std::fs;

use serde_json::Value;

use crate::fake::{Answers, Fake, Ran};

const FILE: &str = "\
# my nodes
nodes:
  box: {address: me@box}  # in the lab

groups: {g: [box, local]}
default_node: g
";

fn lab() -> Fake {
    let fake = Fake::new(Answers::default());
    fs::write(fake.path().join("home/config.yaml"), FILE).expect("a file");
    fake
}

/// The rows of the text, each in words, without the folders of this home.
fn rows(said: &str) -> Vec<Vec<&str>> {
    said.lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|part| !part.is_empty())
        })
        .map(Iterator::collect)
        .collect()
}

#[test]
fn values_in_force_are_shown_with_their_origin() {
    let fake = lab();
    let said = fake.ok(&["config", "show", "--origin"]);
    let rows = rows(&said);
    for row in [
        ["default_node", "g", "config.yaml:6"],
        ["nodes.box.address", "me@box", "config.yaml:3"],
        ["nodes.box.root", "~/.neronet", "default"],
        ["nodes.local.cpus", "what it has", "default"],
        ["groups.g", "box, local", "config.yaml:5"],
        ["ssh", "ssh", "default"],
    ] {
        assert!(rows.contains(&row.to_vec()), "{row:?}: {said}");
    }
    let data = rows.iter().find(|row| row[0] == "data").expect("data");
    assert_eq!(data[2], "NERONET_HOME", "{said}");
    let plain = fake.ok(&["config", "show"]);
    assert!(!plain.contains("config.yaml:"), "{plain}");
    assert!(fake.requests().is_empty(), "no daemon is asked");
}

#[test]
fn the_environment_goes_before_the_file() {
    let fake = lab();
    let shown = |node: &str| {
        let mut command = fake.command(&["config", "show", "--json"]);
        Ran::of(command.env("NERONET_NODE", node).output().expect("it runs"))
    };
    let ran = shown("box");
    let said: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(said["schema"], 1);
    let values = said["values"].as_array().expect("a list");
    let of = |key: &str| {
        let found = values.iter().find(|value| value["key"] == key);
        found.unwrap_or_else(|| panic!("no {key}: {said:#}"))
    };
    assert_eq!(of("default_node")["value"], "box");
    assert_eq!(of("default_node")["from"], "NERONET_NODE");
    assert_eq!(of("nodes.box.cpus")["value"], Value::Null);
    assert_eq!(ran.err, "");
    let ran = shown("boxx");
    let note = "note: NERONET_NODE: no node or group is named `boxx`; did you mean `box`?\n";
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), note));
}

#[test]
fn a_value_is_set_and_every_other_line_stays() {
    let fake = lab();
    let said = fake.ok(&["config", "set", "nodes.box.memory", "16G"]);
    assert!(said.starts_with("nodes.box.memory is 16G in "), "{said}");
    let expected = FILE.replace("{address: me@box}", "{address: me@box, memory: 16G}");
    assert_eq!(fake.file("home/config.yaml"), expected);
    let said = fake.ok(&["config", "set", "default_node", "any", "--json"]);
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["key"], "default_node");
    let expected = expected.replace("default_node: g", "default_node: any");
    assert_eq!(fake.file("home/config.yaml"), expected);
    assert!(fake.requests().is_empty(), "no daemon is asked");
}

#[test]
fn a_value_that_is_not_valid_changes_nothing() {
    let fake = lab();
    for (words, why) in [
        (
            &["config", "set", "default_node", "boxx"][..],
            "did you mean `box`?",
        ),
        (
            &["config", "set", "nodes.box.cpu", "2"],
            "did you mean `cpus`?",
        ),
        (
            &["config", "set", "nodes.bax.cpus", "2"],
            "did you mean `box`?",
        ),
        (
            &["config", "set", "nodes.box.listen", "nevr"],
            "`nodes.box.listen` takes auto or never, not `nevr`",
        ),
        (
            &["config", "set", "nodes.box.listen", "nevr"],
            "did you mean `never`?",
        ),
        (
            &["config", "set", "mail", "x"],
            "there is no setting `mail`",
        ),
        (&["config", "sett", "a", "b"], "config show|set"),
    ] {
        let ran = fake.run(words);
        assert_eq!(ran.code, Some(2), "{ran:#?}");
        assert!(ran.err.contains(why), "{words:?}: {}", ran.err);
        assert_eq!(fake.file("home/config.yaml"), FILE, "{words:?}");
    }
    fs::write(
        fake.path().join("home/config.yaml"),
        "colour: red\nmail: x\n",
    )
    .expect("a file");
    let ran = fake.run(&["config", "show"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    for said in ["has 2 mistakes", "config.yaml:1:1", "config.yaml:2:7"] {
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
}

#[test]
fn several_mistakes_of_the_file_are_reported_at_once_each_with_its_place_and_hint() {
    let fake = lab();
    let wrong = "nodes:\n  box: {address: me@box, cpu: 2, listen: nevr}\ndefault_nod: box\n";
    fs::write(fake.path().join("home/config.yaml"), wrong).expect("a file");
    let ran = fake.run(&["config", "show"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    let mut lines = ran.err.lines().skip(1);
    for parts in [
        ["config.yaml has 3 mistakes", "", ""],
        ["`cpu`", "config.yaml:2:", "did you mean `cpus`?"],
        ["nevr", "config.yaml:2:", "did you mean `never`?"],
        [
            "default_nod",
            "config.yaml:3:1",
            "did you mean `default_node`?",
        ],
    ] {
        let line = lines.next().unwrap_or_default();
        let is_there = parts.iter().all(|part| line.contains(part));
        assert!(is_there, "{parts:?}: {}", ran.err);
    }
}

#[test]
fn a_verb_that_needs_a_broken_file_names_it() {
    let fake = Fake::new(Answers::default());
    let words: [&[&str]; 3] = [
        &["status"],
        &["status", "nodes", "--json"],
        &["node", "list"],
    ];
    for words in words {
        let ran = fake.run(words);
        assert!(!ran.err.contains("broken"), "{words:?}: {}", ran.err);
    }
    let text = "colour: red\nmail: x\n";
    fs::write(fake.path().join("home/config.yaml"), text).expect("a file");
    for words in words {
        let ran = fake.run(words);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        assert_eq!(ran.err.lines().count(), 1, "{words:?}: {}", ran.err);
        for said in ["the last good one is in force", "config.yaml:1:1", "1 more"] {
            assert!(ran.err.contains(said), "{words:?}: {}", ran.err);
        }
    }
}

#[test]
fn another_ssh_than_the_daemons_is_said() {
    let said = |daemons: Option<&str>, words: &[&str]| {
        let capabilities = daemons
            .map(|ssh| format!("ssh={ssh}"))
            .into_iter()
            .collect();
        let answers = Answers {
            hello: Some(nero_wire::v1::Hello {
                capabilities,
                ..nero_wire::hello::own(nero_wire::v1::Role::Neroman, "", None)
            }),
            ..Answers::default()
        };
        Fake::new(answers).run(words).err
    };
    for same in [None, Some("")] {
        assert_eq!(said(same, &["node", "list"]), "");
    }
    assert_eq!(said(Some("ssh -F x"), &["status"]), "");
    let other = said(Some("ssh -F x"), &["node", "list"]);
    assert!(other.contains("uses `ssh -F x`"), "{other}");
    assert!(other.contains("neroman daemon stop"), "{other}");
}
