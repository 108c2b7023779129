//! Values that a person typed in place of the source's, and copies.

use nero_format::{AppliedEdit, Edit, EditMistake, Edits, Effective, Override};

use crate::Folder;

const SWEEP: &str = "\
collection: c
command: train --lr {lr} --n {n}
parameters: {lr: [0.10, 0.01], n: 3}
resources: {cpus: 2, memory: 4G}
env: {A: one}
+a: {}
";

/// Reads a text with edits of its first experiment.
fn edited(yaml: &str, overrides: Vec<Override>, name: Option<&str>) -> AppliedEdit {
    let folder = Folder::new();
    folder.write("config.yaml", yaml.as_bytes());
    let before = overrides.iter().filter(|one| one.over.is_some());
    let edit = Edit {
        experiment: Some(1),
        name: name.map(str::to_owned),
        before: before.cloned().collect(),
        overrides,
    };
    let edits = Edits::from([(0, vec![edit])]);
    let loaded = nero_format::read_source_edited(&folder.path(), &folder.defaults(), edits);
    let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
    // What the source itself describes does not change.
    assert_eq!(loaded.definitions[0].name, "a_lr-0.10_n-3");
    assert_eq!(loaded.notes, []);
    loaded.edited.into_iter().next().expect("the edit was met")
}

fn typed(pairs: &[(&str, &str)]) -> Vec<Override> {
    let each = pairs.iter().map(|(key, text)| Override::typed(key, text));
    each.collect()
}

fn stands(yaml: &str, overrides: Vec<Override>) -> Effective {
    let one = edited(yaml, overrides, None);
    one.outcome.unwrap_or_else(|mistake| panic!("{mistake:?}"))
}

fn mistake(key: &str, text: &str) -> EditMistake {
    edited(SWEEP, typed(&[(key, text)]), None)
        .outcome
        .expect_err(key)
}

#[test]
fn overrides_of_parameters_and_fields_are_read_as_if_they_stood_in_the_file() {
    let all = [
        ("lr", "1e-3"),
        ("memory", "8G"),
        ("resources.time", "2h"),
        ("env.B", "two words"),
        ("node", "local"),
        ("outputs", "[stdout, '*.pt']"),
    ];
    let Effective {
        definition,
        overrides,
        dropped,
    } = stands(SWEEP, typed(&all));
    assert_eq!(definition.argv, ["train", "--lr", "1e-3", "--n", "3"]);
    // The name is that by which its source is known again.
    assert_eq!(definition.name, "a_lr-0.10_n-3");
    assert_eq!(definition.resources.memory_bytes, Some(8 << 30));
    assert_eq!(definition.resources.time_ms, Some(7_200_000));
    assert!((definition.resources.cpus - 2.0).abs() < f64::EPSILON);
    let env: Vec<_> = definition.env.iter().map(|(name, _)| &**name).collect();
    assert_eq!(env, ["A", "B"]);
    assert_eq!(definition.node.as_ref().expect("a node").text, "local");
    assert_eq!(definition.outputs.len(), 2);
    assert_eq!(dropped, Vec::<String>::new());
    let over: Vec<_> = overrides
        .iter()
        .map(|one| (one.key.as_str(), one.over.as_deref().unwrap_or("none")))
        .collect();
    let want = [
        ("lr", "0.10"),
        ("resources.memory", "4G"),
        ("resources.time", ""),
        ("env.B", ""),
        ("node", ""),
        ("outputs", ""),
    ];
    assert_eq!(over, want);
}

#[test]
fn an_override_stands_until_the_source_changes_that_value() {
    let stored = stands(SWEEP, typed(&[("lr", "5"), ("memory", "8G")])).overrides;
    let other = SWEEP
        .replace("n: 3", "n: 3, k: 1")
        .replace("cpus: 2", "cpus: 4");
    let other = other.replace("+a: {}", "+a: {parameters: {k: null}}");
    let again = stands(&other, stored.clone());
    assert_eq!(again.overrides, stored);
    assert!(again.dropped.is_empty());
    let memory = SWEEP.replace("4G", "6G");
    let again = stands(&memory, stored.clone());
    assert_eq!(again.overrides, stored[..1]);
    assert_eq!(again.definition.resources.memory_bytes, Some(6 << 30));
    assert_eq!(again.definition.argv[2], "5");
    assert_eq!(
        again.dropped,
        ["override resources.memory=8G dropped: its source changed 4G to 6G"]
    );
}

#[test]
fn a_typed_value_that_cannot_stand_is_refused_with_what_to_type() {
    let table = [
        (
            "ler",
            "1",
            "`ler` is no parameter or field",
            "its parameters are lr, n",
        ),
        (
            "q",
            "1",
            "`q` is no parameter or field",
            "its parameters are lr, n",
        ),
        (
            "memroy",
            "8G",
            "`memroy` is no parameter or field",
            "did you mean `memory`?",
        ),
        ("memory", "lots", "", ""),
        (
            "resources.memroy",
            "8G",
            "`memroy` is no resource",
            "did you mean `memory`?",
        ),
        (
            "parameters",
            "{lr: 1}",
            "`parameters` cannot be set for one experiment",
            "name the parameter itself: `lr=0.1`",
        ),
        (
            "repeat",
            "3",
            "`repeat` cannot be set for one experiment",
            "it makes several experiments; change it in the source",
        ),
        (
            "command.x",
            "1",
            "`command` holds no map in the source",
            "give all of it: `command=…`",
        ),
        ("command", "train {nope}", "", ""),
        ("outputs", "[a", "", ""),
    ];
    for (key, text, message, hint) in table {
        let found = mistake(key, text);
        assert!(!found.message.is_empty(), "{key}");
        if !message.is_empty() {
            assert_eq!((&*found.message, &*found.hint), (message, hint), "{key}");
        }
    }
}

#[test]
fn a_copy_has_its_name_and_values_and_follows_the_file() {
    let one = edited(SWEEP, typed(&[("n", "7")]), Some("slow"));
    let effective = one.outcome.expect("a copy");
    assert_eq!(effective.definition.name, "slow");
    assert_eq!(
        effective.definition.argv,
        ["train", "--lr", "0.10", "--n", "7"]
    );
    assert_eq!(*effective.definition.block, "a");
    let bare = edited(SWEEP, Vec::new(), Some("same"))
        .outcome
        .expect("a copy");
    assert_eq!(bare.definition.argv, ["train", "--lr", "0.10", "--n", "3"]);
}
