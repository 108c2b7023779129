//! Bad input gets a clear error with the place, and leaves nothing half done.

use std::fs;

use nero_tests::Home;

/// Tries to add a file and returns the error. Nothing may be registered.
#[track_caller]
fn refused(yaml: &[u8]) -> String {
    let home = Home::new();
    let folder = home.path().join("bad");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("neronet.yaml"), yaml).unwrap();
    let ran = home.run(&["add", &folder.display().to_string()]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert!(ran.err.contains("error:"), "{}", ran.err);
    let all = home.json(&["status"]);
    assert_eq!(
        all["experiments"].as_array().map(Vec::len),
        Some(0),
        "nothing is registered"
    );
    ran.err
}

#[test]
fn every_mistake_of_a_file_is_told_at_once_with_its_place() {
    let said = refused(
        b"collection: c\n+a:\n  comand: true\n  parameters: [1]\n+b:\n  command: echo {nope}\n",
    );
    for part in ["neronet.yaml:3:", "command", "neronet.yaml:4:", "nope"] {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
}

#[test]
fn files_that_are_no_experiments_are_told_apart() {
    assert!(refused(b"").contains("empty"));
    assert!(refused(b"a: [1, 2\n").contains("neronet.yaml:"));
    assert!(
        refused(b"\xff\xfe\x00\x01")
            .to_lowercase()
            .contains("utf-8")
    );
    assert!(
        refused(b"+a:\n  run_command_prefix: sh\n  main_code_file: nowhere.sh\n")
            .contains("nowhere.sh")
    );
    assert!(refused(b"+a: {command: x}\n+a: {command: y}\n").contains('a'));
    assert!(refused(b"+a:\n  command: x\n  rules:\n    - abort:\n").contains("abort"));
    assert!(
        refused(b"+a:\n  command: !!python/object/apply:os.system [id]\n").contains("!!python")
    );
}

#[test]
fn a_huge_product_is_refused_with_its_count() {
    let said = refused(b"+a:\n  command: x {p} {q}\n  parameters: {p: {range: [0, 1000, 1]}, q: {range: [0, 1000, 1]}}\n");
    assert!(
        said.contains("1000000") || said.contains("1 000 000"),
        "{said}"
    );
}

#[test]
fn a_missing_folder_names_itself() {
    let home = Home::new();
    let ran = home.run(&["add", "no/such/folder"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert!(ran.err.contains("no/such/folder"));
    let empty = home.path().join("empty");
    fs::create_dir_all(&empty).unwrap();
    let ran = home.run(&["add", &empty.display().to_string()]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("neronet.yaml"), "{}", ran.err);
}

#[test]
fn odd_names_run_like_any_other() {
    let home = Home::new();
    let yaml = "collection: odd\n'+a/b c': {command: 'true'}\n'+it''s \"quoted\"': {command: 'true'}\n'+😀': {command: 'true'}\n\"+two\\nlines\": {command: 'true'}\n'+12': {command: 'true'}\n'+crashed': {command: 'true'}\n'+-rf': {command: 'true'}\n'+..': {command: 'true'}\n";
    let folder = home.experiment("odd", yaml);
    let added = home.run(&["add", &folder.display().to_string()]);
    assert_eq!(added.code, Some(0), "{added:#?}");
    let said = format!("{}{}", added.out, added.err);
    assert!(
        said.contains("looks like"),
        "a name that reads as an id is pointed out: {said}"
    );
    home.ok(&["start", "all"]);
    home.ok(&["wait", "all"]);
    let all = home.json(&["status"]);
    for one in all["experiments"].as_array().unwrap() {
        assert_eq!(one["state"], "finished", "{one:#}");
    }
    let picked = home.json(&["status", "`12`"]);
    assert_eq!(picked["experiments"][0]["name"], "12");
    let picked = home.json(&["status", "a/b c"]);
    assert_eq!(picked["experiments"][0]["name"], "a/b c");
}

#[test]
fn words_that_are_not_built_are_kept_and_refused_at_start() {
    let home = Home::new();
    let folder = home.experiment(
        "n",
        "collection: n\n+n:\n  command: 'true'\n  requires: load < 4 for 10m\n",
    );
    let ran = home.run(&["add", &folder.display().to_string()]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let ran = home.run(&["start", "1"]);
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    let said = format!("{}{}", ran.out, ran.err);
    assert!(
        said.contains("not built yet") && said.contains("requires: for") && said.contains(":4:"),
        "{said}"
    );
    assert_eq!(home.experiment_json(1)["state"], "defined");
}

#[test]
fn verbs_that_are_not_built_exit_2_and_are_not_in_help() {
    let home = Home::new();
    let help = home.ok(&["help"]);
    for verb in ["setup", "user"] {
        let ran = home.run(&[verb]);
        assert_eq!(ran.code, Some(2), "{verb}: {ran:#?}");
        assert!(ran.err.contains("not built yet"), "{verb}: {}", ran.err);
        let listed = help
            .lines()
            .any(|line| line.trim_start().starts_with(&format!("{verb} ")));
        assert!(!listed, "{verb} is listed: {help}");
    }
}

#[test]
fn adding_again_updates_and_keeps_numbers() {
    let home = Home::new();
    let folder = home.experiment(
        "u",
        "collection: u\n+u:\n  command: echo {lr}\n  parameters: {lr: [0.1, 0.2]}\n",
    );
    let path = folder.display().to_string();
    home.ok(&["add", &path]);
    fs::write(
        folder.join("neronet.yaml"),
        "collection: u\n+u:\n  command: echo {lr} again\n  parameters: {lr: [0.1, 0.2, 0.3]}\n",
    )
    .unwrap();
    let again = home.run(&["add", &path]);
    assert_eq!(again.code, Some(0), "{again:#?}");
    let all = home.json(&["status"]);
    let names: Vec<_> = all["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["id"].as_u64().unwrap(),
                one["name"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            (1, "u_lr-0.1".into()),
            (2, "u_lr-0.2".into()),
            (3, "u_lr-0.3".into())
        ]
    );
    assert!(
        again.out.contains('3'),
        "it says what to type next: {}",
        again.out
    );
}

#[test]
fn a_changed_source_is_read_again_before_start_and_a_mistake_stops_it() {
    let home = Home::new();
    let folder = home.experiment(
        "w",
        "collection: w\n+w:\n  command: echo lr {lr}\n  parameters: {lr: 1}\n",
    );
    home.ok(&["add", &folder.display().to_string()]);
    let file = folder.join("neronet.yaml");
    fs::write(
        &file,
        "collection: w\n+w:\n  command: echo lr {lr}\n  parameters: {lr: 2}\n",
    )
    .unwrap();
    let ran = home.run(&["start", "1"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(
        format!("{}{}", ran.out, ran.err).contains("1 → 2"),
        "{ran:#?}"
    );
    home.ok(&["wait", "1"]);
    assert_eq!(home.ok(&["logs", "1"]), "lr 2\n");
    fs::write(&file, "collection: w\n+w:\n  comand: echo\n").unwrap();
    let ran = home.run(&["restart", "1"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert_eq!(home.experiment_json(1)["run"], "1.1", "nothing was started");
    home.ok(&["restart", "1", "--as-added"]);
    home.ok(&["wait", "1"]);
}
