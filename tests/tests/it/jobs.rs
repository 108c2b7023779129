//! Jobs that misbehave.

use std::fs;

use nero_tests::{Home, Part, until};

use crate::story::{added, job, make_pipe};

/// Runs one command until everything of it is known, and returns the home.
fn ran(command: &str) -> Home {
    let home = Home::new();
    added(
        &home,
        "j",
        &format!("collection: j\n+j:\n  command: {command}\n"),
    );
    home.ok(&["start", "1"]);
    home.until_settled(1);
    home
}

#[test]
fn a_job_that_ignores_sigterm_is_killed_after_the_grace() {
    let home = Home::new();
    let pipe = home.path().join("pipe");
    make_pipe(&pipe);
    let yaml = format!(
        "collection: j\n+j:\n  command: {} ignore-term -- print ready -- hold {}\n  monitor: {{grace: 1s}}\n",
        job(),
        pipe.display()
    );
    added(&home, "j", &yaml);
    home.ok(&["start", "1"]);
    until("the job to be ready", || {
        let out = home.run(&["logs", "1"]).out;
        if out.contains("ready") {
            Ok(())
        } else {
            Err(out)
        }
    });
    home.ok(&["abort", "1"]);
    assert_eq!(home.run(&["wait", "1"]).code, Some(1));
    let seen = home.experiment_json(1);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    assert!(home.alive(Part::Job).is_empty(), "nothing of it lives");
}

#[test]
fn processes_left_behind_by_a_job_are_ended_before_the_run_is() {
    let home = Home::new();
    let pipe = home.path().join("pipe");
    make_pipe(&pipe);
    let yaml = format!(
        "collection: j\n+j:\n  command: {0} daemon ignore-term + hold {1} -- child hold {1} -- exit 0\n  monitor: {{grace: 1s}}\n",
        job(),
        pipe.display()
    );
    added(&home, "j", &yaml);
    home.ok(&["start", "1"]);
    home.ok(&["wait", "1"]);
    let seen = home.experiment_json(1);
    assert_eq!(
        (&seen["state"], &seen["exit_code"]),
        (&"finished".into(), &0.into()),
        "{seen:#}"
    );
    assert!(
        home.alive(Part::Job).is_empty(),
        "{:?}",
        nero_tests::parts(&home.base())
    );
}

#[test]
fn a_gigabyte_without_a_newline_is_only_bytes() {
    let home = ran(&format!("{} long-line 1000000000", job()));
    let seen = home.experiment_json(1);
    assert_eq!(seen["state"], "finished", "{seen:#}");
    let log = home.base().join("node");
    let size = walk(&log)
        .into_iter()
        .filter(|p| p.ends_with("stdout.log"))
        .map(|p| fs::metadata(p).unwrap().len())
        .max();
    assert_eq!(size, Some(1_000_000_001));
}

#[test]
fn a_million_metrics_in_a_second_are_exact_or_said_to_be_folded() {
    let home = ran(&format!("{} metrics 1000000", job()));
    let seen = home.experiment_json(1);
    assert_eq!(seen["state"], "finished");
    assert_eq!(seen["metrics"]["loss"]["step"].as_f64(), Some(999_999.0));
    let loss = &seen["metrics"]["loss"];
    assert_eq!(loss["last"].as_f64(), Some(999_999.0 / 2.0));
    assert_eq!(loss["min"].as_f64(), Some(0.0));
    assert_eq!(loss["max"].as_f64(), Some(999_999.0 / 2.0));
    // Two series of a million points: each point is kept, or counted as folded.
    let kept = [loss, &seen["metrics"]["step"]].map(|one| one["count"].as_u64().unwrap());
    let series = home.json(&["metrics", "1", "loss"])["series"][0].clone();
    let folded = series["folded"].as_u64().unwrap();
    assert!(
        kept.iter().sum::<u64>() + folded >= 2_000_000,
        "kept {kept:?}, folded {folded}"
    );
}

#[test]
fn not_a_number_is_kept_and_shown() {
    let home =
        ran("sh -c 'echo loss nan; echo loss inf; echo loss -inf; echo loss 1e400; echo loss 2'");
    let text = home
        .json(&["metrics", "1", "loss"])
        .to_string()
        .to_lowercase();
    assert!(text.contains("nan") && text.contains("inf"), "{text}");
    assert_eq!(
        home.experiment_json(1)["metrics"]["loss"]["last"].as_f64(),
        Some(2.0)
    );
}

#[test]
fn the_output_of_a_job_acts_on_no_terminal() {
    let home = ran(&format!("{} bytes", job()));
    assert_eq!(home.experiment_json(1)["state"], "finished");
    let show = home.ok(&["show", "1"]);
    assert!(
        !show.contains('\u{1b}') && !show.contains('\u{9b}') && !show.contains('\u{7}'),
        "{show:?}"
    );
}

#[test]
fn a_job_that_cuts_its_own_log_is_followed() {
    let home = ran(&format!(
        "{} print loss 1 -- truncate -- print loss 2",
        job()
    ));
    let seen = home.experiment_json(1);
    assert_eq!(seen["state"], "finished");
    assert_eq!(seen["metrics"]["loss"]["last"].as_f64(), Some(2.0));
}

#[test]
fn output_reaches_the_log_when_it_is_printed() {
    let home = Home::new();
    let pipe = home.path().join("pipe");
    make_pipe(&pipe);
    let folder = home.experiment("p", "collection: p\n+p:\n  command: python3 main.py\n");
    fs::write(
        folder.join("main.py"),
        format!(
            "print('loss 7')\nopen({:?}).read()\n",
            pipe.display().to_string()
        ),
    )
    .unwrap();
    home.ok(&["add", &folder.display().to_string()]);
    home.ok(&["start", "1"]);
    until("the metric of a Python program that goes on", || {
        let seen = home.experiment_json(1);
        if seen["metrics"]["loss"]["last"].as_f64() == Some(7.0) {
            Ok(())
        } else {
            Err(seen)
        }
    });
    assert_eq!(home.experiment_json(1)["state"], "running");
    fs::write(&pipe, "").unwrap();
    home.ok(&["wait", "1"]);
}

#[test]
fn a_script_that_is_not_executable_says_so() {
    let home = Home::new();
    let folder = home.experiment("x", "collection: x\n+x:\n  command: ./run.sh\n");
    fs::write(folder.join("run.sh"), "#!/bin/sh\n").unwrap();
    home.ok(&["add", &folder.display().to_string()]);
    home.ok(&["start", "1"]);
    home.run(&["wait", "1"]);
    let seen = home.experiment_json(1);
    assert_eq!(seen["state"], "crashed");
    assert!(
        seen["reason"].as_str().unwrap().contains("ermission"),
        "{seen}"
    );
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    files
}
