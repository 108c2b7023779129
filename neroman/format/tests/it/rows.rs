//! Rows of parameters as JSON lines.

use nero_format::{Edits, LoadedSource, RowsOptions, is_rows, read_rows};

use crate::{Folder, commands, names, texts, value};

fn read(folder: &Folder, options: &RowsOptions) -> Result<LoadedSource, String> {
    let path = folder.path().join("train.jsonl");
    assert!(is_rows(&path));
    read_rows(&path, options, &folder.defaults(), None, Edits::new())
        .map_err(|errors| errors.to_string())
}

fn command(text: &str) -> RowsOptions {
    RowsOptions {
        command: Some(text.to_owned()),
        block: None,
    }
}

fn block(name: &str) -> RowsOptions {
    RowsOptions {
        command: None,
        block: Some(name.to_owned()),
    }
}

#[test]
fn each_line_is_an_experiment_of_the_command() {
    let folder = Folder::new();
    folder.write(
        "train.jsonl",
        b"{\"lr\": 0.10, \"kind\": \"a b\"}\n\n{\"kind\": \"no\", \"lr\": 1e-3}\n{\"kind\": \"\\ud83d\\ude00\", \"lr\": 1}\n{\"lr\": 0.10, \"kind\": \"a b\"}\n",
    );
    let loaded = read(&folder, &command("prog {lr} {kind}")).unwrap();
    assert_eq!(
        commands(&loaded),
        [
            "prog|0.10|a b",
            "prog|1e-3|no",
            "prog|1|😀",
            "prog|0.10|a b"
        ]
    );
    assert_eq!(
        names(&loaded),
        [
            "train_kind-a b_lr-0.10",
            "train_kind-no_lr-1e-3",
            "train_kind-😀_lr-1",
            "train_kind-a b_lr-0.10_2"
        ]
    );
    assert_eq!(texts(&loaded, "lr"), ["0.10", "1e-3", "1", "0.10"]);
    let second = &loaded.definitions[1];
    assert_eq!(value(second, "lr").number(), Some(0.001));
    assert_eq!((second.place.line, second.collection()), (3, "lab"));
}

#[test]
fn rows_are_experiments_of_a_block_with_all_that_it_inherits() {
    let folder = Folder::new();
    folder.write(
        "config.yaml",
        b"collection: c\nenv: {A: top}\n+outer:\n  resources: {cpus: 2}\n  \
          +fit: {command: 'prog {lr} {n}', parameters: {lr: [1, 2], n: [3, 4]}}\n",
    );
    folder.write("train.jsonl", b"{\"lr\": 7, \"n\": 8}\n{\"lr\": 9}\n");
    let loaded = read(&folder, &block("fit")).unwrap();
    assert_eq!(commands(&loaded), ["prog|7|8", "prog|9|3", "prog|9|4"]);
    let first = &loaded.definitions[0];
    assert_eq!(
        (first.name.as_str(), first.collection()),
        ("fit_lr-7_n-8", "c")
    );
    assert_eq!((first.block.as_str(), first.resources.cpus), ("fit", 2.0));
    assert!(!loaded.source.is_changed_beneath(&folder.defaults()));
    folder.write("config.yaml", b"+fit: {command: 'other {lr} {n}'}\n");
    assert!(loaded.source.is_changed_beneath(&folder.defaults()));
}

#[test]
fn a_yaml_file_of_the_same_name_holds_for_all_rows() {
    let folder = Folder::new();
    folder.write(
        "train.yaml",
        b"command: prog {lr} {n}\nparameters: {n: 5}\n",
    );
    folder.write("train.jsonl", b"{\"lr\": 7}\n{\"lr\": 9, \"n\": 1}\n");
    let loaded = read(&folder, &RowsOptions::default()).unwrap();
    assert_eq!(commands(&loaded), ["prog|7|5", "prog|9|1"]);
    let typed = read(&folder, &command("typed {lr}")).unwrap();
    assert_eq!(commands(&typed), ["typed|7", "typed|9"]);
}

#[test]
fn a_list_of_a_row_is_one_value_and_long_numbers_keep_their_digits() {
    let folder = Folder::new();
    let rows = "{\"x\": [64, 64], \"n\": 340282366920938463463374607431768211455, \"s\": \"\\ud83d\\ude00\"}\n{\"x\": {\"kind\": \"adam\"}, \"n\": 1, \"s\": \"a\"}\n";
    folder.write("train.jsonl", rows.as_bytes());
    let loaded = read(&folder, &command("prog {x} {n} {s}")).unwrap();
    assert_eq!(
        commands(&loaded),
        [
            "prog|[64, 64]|340282366920938463463374607431768211455|😀",
            "prog|{\"kind\": \"adam\"}|1|a"
        ]
    );
    let params = &loaded.definitions[0].params;
    assert_eq!(params[0].json(), "[64, 64]");
    assert_eq!(params[1].json(), "340282366920938463463374607431768211455");
}

#[test]
fn mistakes_have_their_line_and_nothing_is_half_read() {
    let folder = Folder::new();
    folder.write("config.yaml", b"+fit: {command: prog}\n");
    for (rows, options, wanted) in [
        (
            "{\"lr\": 1}\n{lr: 2}\n",
            command("prog {lr}"),
            "train.jsonl:2:2",
        ),
        ("{\"lr\": NaN}\n", command("prog {lr}"), "no JSON object"),
        ("[1, 2]\n", command("prog {lr}"), "no JSON object"),
        ("{\"lr\": 1}\n", command("prog {rl}"), "--command:1:6"),
        ("{\"lr\": 1}\n", command("prog 'x"), "--command:1:6"),
        ("{\"lr\": 1}\n", block("fits"), "did you mean `fit`?"),
        (
            "{\"lr\": 1}\n",
            RowsOptions::default(),
            "nothing says what the rows of",
        ),
        ("\n", command("prog"), "has no row"),
    ] {
        folder.write("train.jsonl", rows.as_bytes());
        let said = read(&folder, &options).unwrap_err();
        assert!(said.contains(wanted), "{rows} {options:?}: {said}");
    }
}
