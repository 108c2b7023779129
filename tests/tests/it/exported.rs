//! What ended runs give to others: differences, an archive, folders, rows.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use nero_tests::Home;
use serde_json::Value;

use crate::story::added;

/// The files of an archive by name.
fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let mut archive = zip::ZipArchive::new(File::open(path).unwrap()).unwrap();
    let mut files = BTreeMap::new();
    for at in 0..archive.len() {
        let mut file = archive.by_index(at).unwrap();
        let name = file.name().unwrap().into_owned();
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        let content = String::from_utf8_lossy(&content).into_owned();
        files.insert(name, content);
    }
    files
}

#[test]
fn runs_are_compared_and_handed_to_others_without_secrets_and_home_paths() {
    let mut home = Home::new();
    home.set_env("OTHER_TOKEN", "hunter2hunter2");
    let yaml = "collection: c
parameters: {lr: 0.1}
env: {API_KEY: abc123def456}
outputs: [stdout, 'made*']
+a: {command: \"sh -c 'sh work.sh $0; echo $API_KEY; echo hunter2hunter2; pwd > made.txt; exit 0' {lr}\"}
+b: {command: 'true'}
";
    let folder = home.experiment("c", yaml);
    fs::write(folder.join("work.sh"), "echo loss $1\n").unwrap();
    fs::write(folder.join(".env"), "SECRET=none of yours\n").unwrap();
    added(&home, "c", yaml);
    home.ok(&["start", "1", "--wait"]);
    let changed = yaml.replace("lr: 0.1", "lr: 0.2");
    added(&home, "c", &changed);
    fs::write(folder.join("work.sh"), "echo loss $1\necho again\n").unwrap();
    home.ok(&["restart", "1", "--wait"]);
    home.until_settled(1);

    let diff = home.ok(&["diff", "1.1", "1.2"]);
    for part in [
        "0.1",
        "0.2",
        "--- a/work.sh",
        "+echo again",
        "+++ b/neronet.yaml",
    ] {
        assert!(diff.contains(part), "{part}: {diff}");
    }
    assert!(
        !diff.contains("API_KEY  "),
        "a masked value is no difference: {diff}"
    );
    let diff = home.json(&["diff", "1.1", "1.2"]);
    assert_eq!(diff["metrics"][0]["name"], "loss", "{diff:#}");
    assert_eq!(diff["metrics"][0]["values"], serde_json::json!([0.1, 0.2]));
    let same = home.ok(&["diff", "1.2", "1"]);
    assert!(same.contains("no difference"), "{same}");
    let never = home.run(&["diff", "1", "2"]);
    assert!(never.err.contains("never run"), "{never:#?}");

    let file = home.path().join("out.zip");
    let name = file.display().to_string();
    let made = home.json(&["export", "1.1", "1.2", "-o", &name]);
    assert_eq!(made["runs"], 2, "{made:#}");
    let files = unpacked(&file);
    for wanted in [
        "manifest.json",
        "table.csv",
        "metrics.csv",
        "runs/1.2/parameters.json",
        "runs/1.1/files/stdout.log",
        "runs/1.2/files/made.txt",
    ] {
        assert!(files.contains_key(wanted), "{wanted}: {:?}", files.keys());
    }
    let ends = |name: &str| files.keys().filter(|key| key.ends_with(name)).count();
    assert_eq!(ends("/work.sh"), 2, "both versions of the code");
    assert_eq!(ends(".env"), 0);
    assert!(made["left_out"].to_string().contains(".env"), "{made:#}");
    let manifest: Value = serde_json::from_str(&files["manifest.json"]).unwrap();
    assert_eq!(manifest["runs"][0]["parameters"]["lr"], 0.1, "{manifest:#}");
    let here = home.path().display().to_string();
    for (name, content) in &files {
        for secret in ["abc123def456", "hunter2", &here] {
            assert!(!content.contains(secret), "{secret} in {name}: {content}");
        }
    }
    assert!(files["runs/1.2/files/stdout.log"].contains("***\n***\n"));

    // An archive is made anew, a file of the owner's stays.
    home.ok(&["export", "1", "-o", &name]);
    fs::write(&file, "mine").unwrap();
    let refused = home.run(&["export", "1", "-o", &name]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert_eq!(fs::read(&file).unwrap(), b"mine");

    let rows = home.json(&["results", "1", "--all-runs"]);
    let runs: Vec<&Value> = rows["runs"].as_array().unwrap().iter().collect();
    assert_eq!(runs[0]["run"], "1.1", "{rows:#}");
    assert_eq!((runs.len(), &runs[1]["run"]), (2, &Value::from("1.2")));
    let lines = home.path().join("rows.jsonl");
    home.ok(&[
        "results",
        "1",
        "--all-runs",
        "-o",
        &lines.display().to_string(),
    ]);
    let lines = fs::read_to_string(lines).unwrap();
    let losses = lines.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        row["metrics"]["loss"]["last"].as_f64().unwrap()
    });
    assert_eq!(losses.collect::<Vec<_>>(), [0.1, 0.2]);
    let words = [
        "results",
        "1",
        "--all-runs",
        "--columns",
        "run,loss * 10",
        "--csv",
    ];
    assert_eq!(home.ok(&words), "run,loss * 10\n1.1,1\n1.2,2\n");

    let opened = home.run(&["open", "1"]);
    let folder = home.ok(&["path", "1"]);
    assert_eq!(
        (opened.code, &opened.out),
        (Some(0), &folder),
        "{opened:#?}"
    );
    assert!(opened.err.contains("no desktop"), "{opened:#?}");
}
