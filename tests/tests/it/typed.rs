//! Experiments that are typed: rows of parameters, and `run`.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use nero_tests::processes::Part;
use nero_tests::{Home, until};
use serde_json::Value;

/// Runs a command in a folder with a text on its standard input.
fn typed(home: &Home, folder: &Path, args: &[&str], input: &str) -> Output {
    let mut command = home.command(args);
    command.current_dir(folder);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The loop of a program that proposes values: rows, a start, an end, results.
#[test]
fn rows_are_added_started_and_their_results_read_whoever_dies_meanwhile() {
    let home = Home::new();
    let yaml = "collection: t\nresources: {cpus: 0.1}\n+fit: {command: 'echo loss {x}'}\n";
    let folder = home.experiment("t", yaml);
    let add = |rows: &str| {
        let args = ["add", "-", "--to", "fit", "--json"];
        json(&typed(&home, &folder, &args, rows))
    };
    let mut asked = 1.0;
    for round in 0..3 {
        let added = add(&format!("{{\"x\": {asked}}}\n"));
        let id = added["rows"][0].as_u64().unwrap();
        // The same row again is the same experiment, after a crash as well.
        if round == 1 {
            home.kill(Part::Daemon);
        }
        let again = add(&format!("{{\"x\": {asked}}}\n"));
        assert_eq!(again["rows"], added["rows"], "{again:#}");
        home.ok(&["start", &id.to_string(), "--wait"]);
        let results = home.json(&["results", &id.to_string()]);
        let loss = results["rows"][0]["metrics"]["loss"]["last"].as_f64();
        let loss = loss.or_else(|| home.experiment_json(id)["metrics"]["loss"]["last"].as_f64());
        assert_eq!(loss, Some(asked), "{results:#}");
        asked /= 2.0;
    }
    let kept = fs::read_to_string(folder.join(".neronet/fit.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), 3, "{kept}");
    // Rows that come do not change the code of those before.
    let changed = home.json(&["status", "changed"]);
    assert_eq!(
        changed["experiments"].as_array().map(Vec::len),
        Some(0),
        "{changed:#}"
    );
    let wrong = typed(
        &home,
        &folder,
        &["add", "-", "--to", "fit"],
        "{\"x\": 9}\n[1]\n",
    );
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert_eq!(
        fs::read_to_string(folder.join(".neronet/fit.jsonl")).unwrap(),
        kept
    );
    // An edit of the block concerns all rows.
    fs::write(
        folder.join("neronet.yaml"),
        yaml.replace("loss {x}", "loss {x} 7"),
    )
    .unwrap();
    let dry = home.run(&["restart", "changed", "--dry-run", "--json"]);
    let dry: Value = serde_json::from_str(&dry.out).unwrap();
    assert_eq!(dry["started"], 3, "{dry:#}");
}

#[test]
fn run_makes_an_experiment_of_each_combination_and_runs_it_again_when_typed_again() {
    let home = Home::new();
    let folder = home.experiment("r", "");
    fs::remove_file(folder.join("neronet.yaml")).unwrap();
    fs::write(folder.join("main.sh"), "echo \"loss $1$2\"; exit $3\n").unwrap();
    let run = |args: &[&str]| typed(&home, &folder, args, "");
    let two = [
        "run", "-p", "a=1:3", "-p", "b=.5", "--", "sh", "main.sh", "{a}", "{b}", "0",
    ];
    let ran = run(&two);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let printed = String::from_utf8(ran.stdout).unwrap();
    let lines: Vec<&str> = printed.lines().collect();
    for line in ["1.1 | loss 1.5", "2.1 | loss 2.5"] {
        assert!(lines.contains(&line), "each run's lines: {printed}");
    }
    assert_eq!(lines.last(), Some(&"finished 2"), "{printed}");
    assert_eq!(home.until_settled(2)["metrics"]["loss"]["last"], 2.5);
    let ran = run(&two);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert_eq!(home.experiment_json(2)["run"], "2.2");
    let mut followed: Vec<String> = home
        .ok(&["logs", "all", "-f"])
        .lines()
        .map(str::to_owned)
        .collect();
    followed.sort();
    assert_eq!(followed, ["1.2 | loss 1.5", "2.2 | loss 2.5"]);
    let ran = run(&["run", "--", "sh", "main.sh", "{x}", "", "3"]);
    assert_eq!(ran.status.code(), Some(1), "its job failed: {ran:?}");
    let printed = String::from_utf8(ran.stdout).unwrap();
    assert!(
        printed.contains("loss {x}"),
        "what it prints is followed: {printed}"
    );
    assert_eq!(home.experiment_json(3)["exit_code"], 3);
    let ran = run(&["run", "-p", "a=5:1", "--", "sh", "main.sh", "{a}"]);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    let ran = run(&["run", "-p", "a=1", "--", "sh", "main.sh", "{b}"]);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert_eq!(
        home.json(&["status"])["experiments"]
            .as_array()
            .map(Vec::len),
        Some(3)
    );
    let ran = run(&[
        "run", "--node", "nowhere", "--", "sh", "main.sh", "9", "", "0",
    ]);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    home.ok(&["rm", "3", "--yes"]);
    let shown = home.json(&["status"])["experiments"].clone();
    assert_eq!(shown.as_array().map(Vec::len), Some(2), "{shown:#}");
    let ran = run(&["run", "--", "sh", "main.sh", "{x}", "", "3"]);
    assert_eq!(ran.status.code(), Some(1), "its job failed: {ran:?}");
    assert_eq!(home.experiment_json(3)["run"], "3.2", "it is back");
}

#[test]
fn defaults_of_the_configuration_hold_in_a_real_run() {
    let home = Home::new();
    home.configure("defaults: {env: {A_WORD: said}, resources: {time: {local: 1h}}}\n");
    let folder = home.experiment("d", "+a: {command: \"sh -c 'echo $A_WORD'\"}\n");
    home.ok(&["start", &folder.display().to_string(), "--wait"]);
    assert_eq!(home.ok(&["logs", "1"]), "said\n");
    assert_eq!(home.json(&["show", "1"])["resources"]["time_s"], 3600.0);
    home.configure("defaults: {env: {A_WORD: else}}\n");
    home.ok(&["restart", "changed", "--wait"]);
    assert_eq!(home.ok(&["logs", "1"]), "else\n");
}

#[test]
fn a_folder_that_is_not_kept_goes_from_its_node_when_its_files_are_home() {
    let home = Home::new();
    let yaml = "+a: {command: \"sh -c 'echo 1 > out'\", outputs: [out]}\n\
                +b: {command: 'true'}\n+c: {command: 'true', outputs: []}\n";
    let folder = home.experiment("k", yaml);
    let path = folder.display().to_string();
    home.ok(&["start", &path, "--wait"]);
    // One that was removed goes as well, and keeps no other back.
    home.ok(&["rm", "3"]);
    let yaml = yaml.replace("outputs:", "keep: 0, outputs:");
    fs::write(folder.join("neronet.yaml"), yaml).unwrap();
    home.ok(&["add", &path]);
    let cleaned = |id: &str| home.run(&["path", id, "--work"]).code != Some(0);
    until("the folder to go", || {
        if cleaned("1") {
            Ok(())
        } else {
            Err(home.logs())
        }
    });
    assert!(!cleaned("2"), "without `keep` nothing goes by itself");
    let results = home.ok(&["path", "1"]);
    assert_eq!(
        fs::read_to_string(Path::new(results.trim()).join("out")).unwrap(),
        "1\n"
    );
}
