//! Where values come from.

use std::path::Path;

use nero_config::{Config, From, Origin};
use nero_model::Home;

fn origins(text: &str, environment: &[(&str, &str)]) -> Vec<Origin> {
    let config = Config::parse(Path::new("config.yaml"), text).unwrap();
    let variable = |name: &str| {
        let found = environment.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    config.origins(&Home::below(Path::new("/h")), variable)
}

fn of(origins: &[Origin], key: &str) -> (Option<String>, From) {
    let found = origins.iter().find(|origin| origin.key == key);
    let origin = found.unwrap_or_else(|| panic!("no {key} in {origins:#?}"));
    (origin.value.clone(), origin.from)
}

#[test]
fn every_setting_has_its_default_without_a_file_and_an_environment() {
    let all = origins("", &[]);
    for origin in &all {
        assert_eq!(origin.from, From::Default, "{origin:?}");
        let said = origin.value.as_deref().unwrap_or(origin.otherwise);
        assert!(!said.is_empty(), "{origin:?}");
    }
    let keys: Vec<&str> = all.iter().map(|origin| origin.key.as_str()).collect();
    for key in [
        "config",
        "ssh",
        "agents",
        "default_node",
        "nodes.local.cpus",
    ] {
        assert!(keys.contains(&key), "{keys:?}");
    }
    assert_eq!(of(&all, "default_node").0.as_deref(), Some("local"));
    assert_eq!(of(&all, "nodes.local.root").0.as_deref(), Some("/h/node"));
}

#[test]
fn the_environment_goes_before_the_file_and_the_file_before_defaults() {
    let text = "nodes:\n  box:\n    address: me@box\n    memory: 16G\n    listen: never\ngroups:\n  g: {nodes: [box, local], balance: off}\ndefault_node: box\n";
    let all = origins(text, &[]);
    let line = |line| From::File { line };
    let expect = [
        ("default_node", Some("box"), line(8)),
        ("nodes.box.address", Some("me@box"), line(3)),
        ("nodes.box.memory", Some("16G"), line(4)),
        ("nodes.box.listen", Some("never"), line(5)),
        ("nodes.box.root", Some("~/.neronet"), From::Default),
        ("nodes.box.cpus", None, From::Default),
        ("groups.g", Some("box, local"), line(7)),
        ("groups.g.balance", Some("off"), line(7)),
    ];
    for (key, value, from) in expect {
        assert_eq!(of(&all, key), (value.map(str::to_owned), from), "{key}");
    }
    assert_eq!(line(8).to_string(), "config.yaml:8");

    let environment = [
        ("NERONET_NODE", "g"),
        ("NERONET_SSH", "ssh -F x"),
        ("NERONET_HOME", "/h"),
        ("NERONET_AGENTS", ""),
        ("XDG_DATA_HOME", "/d"),
    ];
    let all = origins(text, &environment);
    let expect = [
        ("default_node", Some("g"), From::Environment("NERONET_NODE")),
        ("ssh", Some("ssh -F x"), From::Environment("NERONET_SSH")),
        ("data", Some("/h/data"), From::Environment("NERONET_HOME")),
        ("agents", None, From::Default),
    ];
    for (key, value, from) in expect {
        assert_eq!(of(&all, key), (value.map(str::to_owned), from), "{key}");
    }
}
