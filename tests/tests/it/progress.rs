//! How far runs have come, by what they print, and how far what one `start` made has come.

use std::fs;

use nero_tests::{Home, until};
use serde_json::Value;

/// Four runs on two CPUs. Each waits for a file called as its block.
const SWEEP: &str = r#"collection: p
resources: {cpus: 1}
+bar:
  command:
    - sh
    - -c
    - >-
      sleep 0.5;
      printf '\r  0%%|          | 0/100 [00:00<?, ?it/s]\r  2%%|▏         | 2/100 [00:00<00:24, 4.0it/s]\r  2%%|' >&2;
      while ! [ -e GO/bar ]; do sleep 0.02; done;
      printf '\r100%%|██████████| 100/100 [00:09<00:00, 4.0it/s]' >&2
+epochs:
  command: sh -c 'echo epoch 1; while ! [ -e GO/epochs ]; do sleep 0.02; done; echo epoch 4'
  progress: epoch / 4
+third: {command: "sh -c 'while ! [ -e GO/third ]; do sleep 0.02; done'"}
+last: {command: "sh -c 'while ! [ -e GO/last ]; do sleep 0.02; done'"}
"#;

fn batches(home: &Home) -> Value {
    home.json(&["status"])["batches"].clone()
}

#[test]
fn progress_and_what_is_left_are_shown_and_asked_for() {
    let home = Home::new();
    home.configure("nodes: {local: {cpus: 2}}\n");
    let go = home.path().join("go");
    fs::create_dir(&go).unwrap();
    let yaml = SWEEP.replace("GO", &go.display().to_string());
    crate::story::added(&home, "p", &yaml);
    home.ok(&["start", "1-4"]);

    let bar = until("the bar to be read", || {
        let seen = home.experiment_json(1);
        if seen["progress"] == 0.02 {
            Ok(seen)
        } else {
            Err((seen, home.logs()))
        }
    });
    // A fiftieth took half a second or more.
    let eta = bar["eta_s"].as_f64().unwrap();
    assert!(eta > 1.0, "{bar:#}");
    until("the epochs to be read", || {
        let seen = home.experiment_json(2);
        let known = seen["progress"] == 0.25;
        known.then_some(()).ok_or((seen, home.logs()))
    });
    let picked = |text: &str| {
        let found = home.json(&["status", text]);
        let all = found["experiments"].as_array().unwrap();
        let ids = all.iter().map(|one| one["id"].as_u64().unwrap());
        ids.collect::<Vec<u64>>()
    };
    assert_eq!(picked("progress == 2%"), [1]);
    assert_eq!(picked("progress < 50%"), [1, 2]);
    assert_eq!(picked("eta > 1000w"), [0_u64; 0]);
    let table = home.ok(&["status"]);
    let header = table.lines().next().unwrap();
    assert!(header.contains("progress"), "{table}");
    assert!(table.contains(" 2%") && table.contains("25%"), "{table}");
    assert!(table.contains("batch 1.1: 0 of 4 done"), "{table}");
    let sheet = home.ok(&["status", "--csv", "--columns", "id,progress"]);
    assert_eq!(sheet, "id,progress\n1,0.02\n2,0.25\n3,\n4,\n");

    fs::write(go.join("bar"), "").unwrap();
    home.until_settled(1);
    let bar = home.experiment_json(1);
    assert_eq!(
        (&bar["progress"], &bar["eta_s"]),
        (&1.0.into(), &Value::Null)
    );
    let shown = home.ok(&["show", "1"]);
    assert!(shown.contains("progress     100%"), "{shown}");
    home.until_state(3, "running");
    let known = batches(&home);
    let [batch] = &known.as_array().unwrap()[..] else {
        panic!("one batch: {known:#}");
    };
    assert_eq!(
        (&batch["batch"], &batch["runs"]),
        (&"1.1".into(), &4.into())
    );
    assert_eq!(batch["ended"], 1, "{batch:#}");
    assert!(batch["left_s"].as_f64() > Some(0.0), "{batch:#}");
    let table = home.ok(&["status"]);
    assert!(table.contains("batch 1.1: 1 of 4 done, about "), "{table}");

    home.ok(&["pause", "3"]);
    until("the pause to be told", || {
        let seen = batches(&home);
        let unknown = seen[0]["left_s"].is_null();
        unknown.then_some(()).ok_or(seen)
    });
    home.ok(&["resume", "3"]);
    for name in ["epochs", "third", "last"] {
        fs::write(go.join(name), "").unwrap();
    }
    home.ok(&["wait", "all"]);
    home.until_settled(2);
    assert_eq!(home.experiment_json(2)["progress"], 1.0);
    assert_eq!(batches(&home), Value::Array(Vec::new()));
    let results = home.ok(&["results", "all", "--csv"]);
    assert!(
        results.lines().next().unwrap().contains("progress"),
        "{results}"
    );
}
