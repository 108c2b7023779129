//! The example of the manual: a program that proposes values.

use std::fs;
use std::path::{Path, PathBuf};

use nero_tests::Home;

const MANUAL: &str = include_str!("../../../docs/how-to/proposals.md");

/// What pip installs.
const OPTUNA: &str = "optuna==4.5.0";

/// The folder of Optuna and what it needs.
fn packages() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("optuna");
    nero_pip::packages(&folder, &[OPTUNA]).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn the_example_of_the_manual_finds_good_values() {
    let home = Home::new();
    let yaml = "collection: t
resources: {cpus: 0.1}
+train:
  command: \"sh -c 'case $0 in *e-0[45]) exit 1;; *) echo loss = $0;; esac' {lr}\"
";
    let folder = home.experiment("t", yaml);
    let (_, after) = MANUAL
        .split_once("```python\nimport json, subprocess\n")
        .expect("it");
    let (example, _) = after.split_once("```").expect("its end");
    let example = format!("import json, subprocess\n{example}");
    let program = home.path().join("search.py");
    let short = example.replace("left, live = 50", "left, live = 8");
    assert_ne!(short, example);
    let counts = "print(*[trial.state.name for trial in study.trials])\n";
    fs::write(&program, short + counts).unwrap();

    let bin = home.neroman().parent().expect("a folder").display();
    let path = std::env::var("PATH").expect("a search path");
    let ran = home
        .in_environment("python3")
        .arg(&program)
        .current_dir(&folder)
        .env("PATH", format!("{bin}:{path}"))
        .env("PYTHONPATH", packages())
        .output()
        .expect("python3 starts");
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{out}\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let last = out.lines().last().unwrap_or_default();
    let states: Vec<&str> = last.split(' ').collect();
    assert_eq!(states.len(), 8, "{out}");
    // Each trial was told the end that its run had.
    let runs = home.json(&["results", "all"]);
    let runs = runs["runs"].as_array().unwrap();
    let count = |state: &str| runs.iter().filter(|run| run["state"] == state).count();
    let told = |word: &str| states.iter().filter(|state| **state == word).count();
    assert_eq!(count("finished"), told("COMPLETE"), "{runs:#?}");
    assert_eq!(count("crashed"), told("FAIL"), "{runs:#?}");
    let best = runs
        .iter()
        .filter_map(|run| run["metrics"]["loss"]["last"].as_f64());
    let best = best.fold(f64::INFINITY, f64::min);
    let found = out
        .lines()
        .find_map(|line| line.split_once("} ")?.1.parse().ok());
    let found: f64 = found.unwrap_or_else(|| panic!("no best value: {out}"));
    // The last digit may differ between readers of JSON.
    assert!((found - best).abs() <= best * 1e-9, "{best}: {out}");
}
