//! What a person says and sets of experiments, beside their sources.

use std::fs;

use nero_tests::{Home, Part};

const SWEEP: &str =
    "collection: c\ncommand: echo lr {lr} n {n}\n+fit: {parameters: {lr: [1, 2], n: 5}}\n";

#[test]
fn values_tags_and_notes_outlive_the_daemon_and_reach_the_next_run() {
    let home = Home::new();
    let folder = home.experiment("sweep", SWEEP);
    let path = folder.display().to_string();
    home.ok(&["add", &path]);
    home.ok(&["start", "all", "--wait"]);
    let refused = home.run(&["set", "all", "memory=lots"]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    let said = home.ok(&["set", "1", "lr=7", "resources.memory=64M"]);
    assert!(said.contains("lr 1 → 7, resources changed"), "{said}");
    home.ok(&["tag", "1", "+paper", "-draft"]);
    home.ok(&["note", "1", "as", "in the first draft"]);
    for (key, hint) in [
        ("memry", "did you mean `memory`?"),
        ("n", "what is set there is lr, memory"),
    ] {
        let refused = home.run(&["set", "1", "--unset", key]);
        assert_eq!(refused.code, Some(2), "{refused:#?}");
        let what = format!("`{key}` is not set in 1");
        assert!(refused.err.contains(&what), "{refused:#?}");
        assert!(refused.err.contains(hint), "{refused:#?}");
    }
    home.kill(Part::Daemon);
    let one = home.experiment_json(1);
    assert_eq!(one["name"], "fit_lr-1_n-5");
    assert_eq!(one["tags"], serde_json::json!(["paper"]));
    assert_eq!(one["note"], "as in the first draft");
    assert_eq!(
        one["overrides"],
        serde_json::json!([
            {"key": "lr", "value": "7", "source": "1"},
            {"key": "resources.memory", "value": "64M", "source": null},
        ])
    );
    let picked = home.json(&["status", "tag:paper && note=*draft && changed"]);
    assert_eq!(picked["experiments"][0]["id"], 1, "{picked}");
    home.ok(&["restart", "tag:paper", "--set", "n=6", "--wait"]);
    assert_eq!(home.ok(&["logs", "1"]), "lr 7 n 6\n");
    // The source has another value for n now, and for nothing else that was set.
    fs::write(folder.join("neronet.yaml"), SWEEP.replace("n: 5", "n: 8")).unwrap();
    let again = home.run(&["add", &path]);
    assert!(
        again
            .out
            .contains("override n=6 dropped: its source changed 5 to 8"),
        "{again:#?}"
    );
    home.ok(&["copy", "1", "slow", "--set", "lr=9"]);
    let again = fs::read_to_string(folder.join("neronet.yaml")).unwrap();
    let taking = format!("{again}+slow: {{parameters: {{lr: 3, n: 3}}}}\n");
    fs::write(folder.join("neronet.yaml"), taking).unwrap();
    let refused = home.run(&["add", &path]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    let what = "neronet.yaml:4:1: `slow` is the name of 3, a copy of 1";
    assert!(refused.err.contains(what), "{refused:#?}");
    fs::write(folder.join("neronet.yaml"), again).unwrap();
    home.ok(&["restart", "slow,1", "--yes", "--wait"]);
    assert_eq!(home.ok(&["logs", "1"]), "lr 7 n 8\n");
    assert_eq!(home.ok(&["logs", "3"]), "lr 9 n 8\n");
    home.ok(&["set", "1", "lr=3"]);
    fs::write(
        folder.join("neronet.yaml"),
        SWEEP.replace("echo", "echo new"),
    )
    .unwrap();
    home.ok(&["restart", "1", "--same-code", "--wait"]);
    assert_eq!(home.ok(&["logs", "1"]), "lr 7 n 8\n");
    home.ok(&["restart", "1", "--wait"]);
    assert_eq!(home.ok(&["logs", "1"]), "new lr 3 n 5\n");
    let shown = home.ok(&["show", "3"]);
    assert!(shown.contains("lr=9  (1 in its source)"), "{shown}");
}

#[test]
fn a_copy_whose_name_its_source_took_meanwhile_does_not_come_back() {
    let home = Home::new();
    let folder = home.experiment("e", "collection: e\n+a: {command: 'true'}\n");
    let path = folder.display().to_string();
    home.ok(&["add", &path]);
    home.ok(&["copy", "1", "slow"]);
    home.ok(&["rm", "2", "--yes"]);
    let both = "collection: e\n+a: {command: 'true'}\n+slow: {command: 'true'}\n";
    fs::write(folder.join("neronet.yaml"), both).unwrap();
    home.ok(&["add", &path]);
    let back = home.run(&["rm", "--undo", "2"]);
    assert_eq!(back.code, Some(1), "{back:#?}");
    let why = "`slow` is the name of 3 now; rename that in its source first";
    assert!(back.out.contains(why), "{back:#?}");
    let renamed = both.replace("+slow", "+fast");
    fs::write(folder.join("neronet.yaml"), renamed).unwrap();
    home.ok(&["add", &path]);
    home.ok(&["rm", "--undo", "2"]);
    assert_eq!(home.experiment_json(2)["name"], "slow");
    home.ok(&["rm", "1", "--yes"]);
    let left_out = "1: removed, so left out; `neroman rm --undo 1` brings back";
    let ran = home.run(&["start", &path, "--dry-run"]);
    assert!(ran.err.contains(left_out), "{ran:#?}");
}

#[test]
fn a_wait_for_any_ends_with_the_first() {
    let home = Home::new();
    let folder = home.experiment(
        "two",
        "collection: w\n+slow: {command: sleep 600}\n+fails: {command: 'false'}\n+never: {command: 'true'}\n",
    );
    home.ok(&["add", &folder.display().to_string()]);
    home.ok(&["start", "slow,fails"]);
    let ended = home.run(&["wait", "--any", "all", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let ended: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let ids: Vec<_> = ended["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].clone())
        .collect();
    assert_eq!(ids, [2]);
    home.ok(&["abort", "slow"]);
}

#[test]
fn tags_of_the_file_come_and_go_with_it_and_stand_beside_those_of_a_person() {
    let home = Home::new();
    let tagged = SWEEP.replace("+fit: {", "+fit: {tags: [paper, old], ");
    let folder = home.experiment("sweep", &tagged);
    let path = folder.display().to_string();
    home.ok(&["add", &path]);
    home.ok(&["start", "1", "--wait"]);
    home.ok(&["tag", "1", "+mine"]);
    let tags = |id| home.experiment_json(id)["tags"].clone();
    assert_eq!(tags(1), serde_json::json!(["mine", "old", "paper"]));
    let refused = home.run(&["tag", "all", "-old"]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.err.contains("neronet.yaml:3"), "{refused:#?}");
    fs::write(
        folder.join("neronet.yaml"),
        tagged.replace("[paper, old]", "draft"),
    )
    .unwrap();
    home.ok(&["add", &path]);
    assert_eq!(tags(1), serde_json::json!(["draft", "mine"]));
    assert_eq!(tags(2), serde_json::json!(["draft"]));
}
