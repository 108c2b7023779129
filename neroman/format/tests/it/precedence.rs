//! What comes before a run: dependencies, stages, locks.

use nero_format::DependsUntil::{Ended, Finished, Started};
use nero_format::LoadedSource;

use crate::{Folder, read};

fn needs(loaded: &LoadedSource, name: &str) -> Vec<(nero_format::DependsUntil, String)> {
    let mut all = loaded.definitions.iter();
    let one = all.find(|one| one.name == name).expect("it is defined");
    let needs = one.precedence.needs.iter();
    needs.map(|need| (need.until, need.on.clone())).collect()
}

#[test]
fn dependencies_are_names_globs_and_numbers_with_how_far_each_has_to_be() {
    let loaded = read(
        "command: prog {d}\n\
         +prep: {parameters: {d: [a, b]}}\n\
         +train: {parameters: {d: [a, b]}, depends_on: ['prep_d-{d}', 7]}\n\
         +look: {command: prog, depends_on: {started: train, ended: ['prep*', train]}}\n\
         +inner:\n  command: prog\n  depends_on: [look]\n  +free: {depends_on: null}\n",
    )
    .unwrap();
    let of = |until, on: &str| (until, on.to_owned());
    assert_eq!(
        needs(&loaded, "train_d-b"),
        [of(Finished, "prep_d-b"), of(Finished, "7")]
    );
    assert_eq!(
        needs(&loaded, "look"),
        [of(Started, "train"), of(Ended, "prep*"), of(Ended, "train")]
    );
    assert_eq!(needs(&loaded, "inner"), [of(Finished, "look")]);
    assert!(needs(&loaded, "free").is_empty());
}

#[test]
fn what_comes_before_a_run_does_not_change_what_it_executes() {
    let plain = read("+a: {command: prog}\n+b: {command: prog}\n").unwrap();
    let ordered = read(
        "stages: [one, two]\n+a: {command: prog, stage: one, lock: x, settle: 5s}\n\
         +b: {command: prog, stage: two, depends_on: [a], lock: {name: x, scope: all}}\n",
    )
    .unwrap();
    let b = &ordered.definitions[1];
    let stage = b.precedence.stage.as_ref().unwrap();
    assert_eq!(
        (stage.name.as_str(), &stage.before[..]),
        ("two", &["one".to_owned()][..])
    );
    assert!(b.precedence.lock.as_ref().unwrap().everywhere);
    assert_eq!(ordered.definitions[0].precedence.settle_ms, 5000);
    for (one, other) in plain.definitions.iter().zip(&ordered.definitions) {
        assert_eq!(one.fingerprint(), other.fingerprint());
    }
}

#[test]
fn a_place_names_experiments_of_the_file_or_an_order() {
    let loaded = read(
        "command: prog {d}\n\
         +init: {parameters: {d: [a, b]}}\n\
         +train: {parameters: {d: [a, b]}, place: {same_as: 'init_d-{d}', apart_from: [train, 7]}}\n\
         +next: {command: prog, place: first}\n+any: {command: prog, place: free}\n",
    )
    .unwrap();
    let place = |name: &str| {
        let mut all = loaded.definitions.iter();
        let one = all.find(|one| one.name == name).expect("it is defined");
        one.precedence.place.clone()
    };
    let train = place("train_d-b");
    assert_eq!(train.same_as.unwrap().on, "init_d-b");
    assert_eq!(train.apart_from, ["train", "7"]);
    assert!(place("next").in_order);
    assert!(place("any").is_free());
}

/// Files and what the report about each names.
const MISTAKES: &[(&str, &[&str])] = &[
    (
        "+init: {command: prog}\n+train: {command: prog, depends_on: [inti]}\n",
        &[
            "config.yaml:2:38",
            "`inti` is no other experiment",
            "did you mean `init`?",
        ],
    ),
    (
        "+a: {command: prog}\n+b: {command: prog, depends_on: ['c*']}\n",
        &["`c*` matches no other experiment"],
    ),
    (
        "command: prog\ndepends_on: [a]\n+a: {}\n+b: {}\n",
        &[
            "config.yaml:2:14",
            "`a` depends on itself",
            "`depends_on: null`",
        ],
    ),
    (
        "+a: {command: prog, depends_on: [b]}\n+b: {command: prog, depends_on: ['c']}\n\
         +c: {command: prog, depends_on: {started: ['a*']}}\n",
        &["a circle: `a` needs `b`, `b` needs `c`, `c` needs `a`"],
    ),
    (
        "+a: {command: prog, depends_on: {ended: ['*']}}\n\
         +b: {command: prog, depends_on: {ended: ['*']}}\n",
        &["a circle: `a` needs `b`, `b` needs `a`"],
    ),
    (
        "stages: [prepare, main]\n+a: {command: prog, stage: prepare, depends_on: [b]}\n\
         +b: {command: prog, stage: main}\n",
        &["a circle: `a` needs `b`, `b` needs `a`"],
    ),
    (
        "stages: [prepare, main]\n+a: {command: prog, stage: prepar}\n",
        &["`prepar` is none of `stages`", "did you mean `prepare`?"],
    ),
    (
        "+a: {command: prog, stage: main}\n",
        &["the stage `main` stands in no `stages`"],
    ),
    (
        "stages: [a, a]\n+a: {command: prog}\n",
        &["the stage `a` comes twice"],
    ),
    (
        "+a: {command: prog, stages: [a]}\n",
        &["a block has no `stages`"],
    ),
    (
        "+a: {command: prog, depends_on: {end: [b]}}\n+b: {command: prog}\n",
        &["is no part of `depends_on`", "did you mean `ended`?"],
    ),
    (
        "+a: {command: prog, lock: {scope: everywhere}}\n",
        &["`lock` has no name", "everywhere"],
    ),
    ("+a: {command: prog, settle: soon}\n", &["settle"]),
    (
        "+init: {command: prog}\n+b: {command: prog, place: {same_as: inti}}\n",
        &["config.yaml:2:38", "did you mean `init`?"],
    ),
    (
        "+init: {command: prog}\n+b: {command: prog, place: {apart_from: [inti]}}\n",
        &["`inti` is no experiment", "did you mean `init`?"],
    ),
    (
        "+b: {command: prog, place: {same_as: b}}\n",
        &["`b` is to be on the same node as itself"],
    ),
    (
        "+a: {command: prog, place: {same_as: b}}\n+b: {command: prog, place: {same_as: a}}\n",
        &["a circle: `a` needs `b`, `b` needs `a`"],
    ),
    (
        "+a: {command: prog, place: frist}\n",
        &["frist", "did you mean `first`?"],
    ),
    (
        "+a: {command: prog, place: {same: b}}\n+b: {command: prog}\n",
        &["is no part of `place`", "did you mean `same_as`?"],
    ),
];

#[test]
fn names_that_nobody_has_and_circles_are_refused_with_their_place() {
    for (yaml, words) in MISTAKES {
        let report = read(yaml).expect_err(yaml);
        for word in *words {
            assert!(report.contains(word), "{word} of {yaml}\n{report}");
        }
    }
}

#[test]
fn a_wildcard_in_depends_on_leaves_out_the_experiment_itself() {
    read("+a: {command: prog}\n+z: {command: prog, depends_on: {ended: ['*']}}\n").unwrap();
}

#[test]
fn ten_thousand_experiments_that_depend_on_each_other_are_read_quickly() {
    let mut yaml = "command: prog\n+e0: {}\n".to_owned();
    for number in 1..10_000 {
        yaml.push_str(&format!("+e{number}: {{depends_on: [e{}]}}\n", number - 1));
    }
    yaml.push_str("+last: {depends_on: ['e*']}\n");
    let folder = Folder::new();
    folder.write("neronet.yaml", yaml.as_bytes());
    assert_eq!(folder.read().unwrap().definitions.len(), 10_001);
}

#[test]
fn a_probe_is_kept_where_requires_uses_it_and_blocks_add_their_own() {
    let loaded = read(
        "command: prog\nprobes: {has_env: 'test -d ~/env && echo yes || echo no'}\n\
         +plain: {}\n+a: {requires: has_env == yes && load < 4}\n\
         +b: {probes: {users: 'who | wc -l'}, requires: users < 3 || has_env != no}\n",
    )
    .unwrap();
    let asked = |name: &str| {
        let mut all = loaded.definitions.iter();
        let one = all.find(|one| one.name == name).expect("it is defined");
        let probes = one.probes.iter();
        let names: Vec<&str> = probes.map(|probe| &*probe.name).collect();
        let requires = one.requires.as_ref().map(|placed| &*placed.text);
        (requires.unwrap_or_default().to_owned(), names.join(" "))
    };
    assert_eq!(asked("plain"), (String::new(), String::new()));
    let a = "(has_env == 'yes') && (load < 4)";
    assert_eq!(asked("a"), (a.to_owned(), "has_env".to_owned()));
    let b = "(users < 3) || (has_env != 'no')";
    assert_eq!(asked("b"), (b.to_owned(), "has_env users".to_owned()));
    for (fields, says) in [
        ("requires: has_evn == yes", "did you mean `has_env`?"),
        ("probes: {load: uptime}", "is a fact of nodes"),
        ("probes: {2: uptime}", "is no name for a probe"),
        ("probes: {not: uptime}", "is no name for a probe"),
        ("probes: {x: ' '}", "is no line of shell"),
        ("probes: [uptime]", "takes a map"),
        ("requires: has_env", "compare it: `has_env == yes`"),
    ] {
        let yaml = format!("+a: {{command: prog, probes: {{has_env: 'true'}}, {fields}}}\n");
        let yaml = if fields.starts_with("probes") {
            format!("+a: {{command: prog, {fields}}}\n")
        } else {
            yaml
        };
        let report = read(&yaml).expect_err(&yaml);
        assert!(report.contains(says), "{report}");
    }
}
