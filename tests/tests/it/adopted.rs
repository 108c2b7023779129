//! Jobs that their owner submitted by hand, taken into the books by `neroman adopt`.

use std::process::{Command, Stdio};

use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;
use nero_tests::until;

/// It prints one metric, waits for a file, prints another one, and fails.
const FAILS: &str = "echo loss=0.5; while ! [ -e go ]; do sleep 0.1; done; echo loss=0.25; exit 3";
/// It waits until it is ended.
const FOREVER: &str = "echo loss=1; while :; do sleep 0.1; done";

/// Submits a job as its owner does, with these words; returns its number.
#[track_caller]
fn by_hand(login: &Login, name: &str, lines: &str, words: &[&str]) -> String {
    let script = login.home.path().join(format!("{name}.sh"));
    std::fs::write(&script, format!("#!/bin/sh\n{lines}\n")).unwrap();
    let (folder, script) = (login.home.path().display().to_string(), script.display());
    let log = format!("{name}.out");
    let script = script.to_string();
    let (program, first): (_, &[&str]) = if login.is_slurm() {
        (
            "sbatch",
            &["--parsable", "-D", &folder, "-J", name, "-o", &log],
        )
    } else {
        (
            "qsub",
            &["-terse", "-wd", &folder, "-N", name, "-j", "y", "-o", &log],
        )
    };
    let said = login
        .cluster
        .run(program, &[first, words, &[&script]].concat());
    assert!(said.status.success(), "{said:?}");
    let text = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    // `7.1-2:1` of an array.
    text.split('.').next().unwrap_or_default().to_owned()
}

/// Whether the queue has this job, or task, and it did not end.
fn is_there(login: &Login, job: &str, task: Option<u32>) -> bool {
    let said = if login.is_slurm() {
        let job = task.map_or(job.to_owned(), |task| format!("{job}_{task}"));
        let words = ["--noheader", "--states=PD,R,CG", "--format=%i", "--jobs"];
        login.cluster.run("squeue", &[&words[..], &[&job]].concat())
    } else {
        login.cluster.run("qstat", &[])
    };
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    if login.is_slurm() {
        !text.trim().is_empty()
    } else {
        text.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_task = task.is_none_or(|task| words.last() == Some(&&*task.to_string()));
            words.first() == Some(&job) && is_task
        })
    }
}

#[track_caller]
fn until_gone(login: &Login, job: &str, task: Option<u32>) {
    until(&format!("job {job} to be gone"), || {
        if is_there(login, job, task) {
            Err(login.home.logs())
        } else {
            Ok(())
        }
    });
}

/// A job of another user that is held; returns its number.
fn of_another(login: &Login) -> String {
    let (program, words): (_, &[&str]) = if login.is_slurm() {
        (
            "sbatch",
            &["--parsable", "-D", "/", "--hold", "-o", "/dev/null"],
        )
    } else {
        ("qsub", &["-terse", "-h", "-o", "/dev/null", "-j", "y"])
    };
    let mut child = Command::new("setpriv")
        .args(["--reuid=nobody", "--regid=daemon", "--clear-groups"])
        .arg(program)
        .args(words)
        .envs(login.cluster.env())
        .env("HOME", "/")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"#!/bin/sh\ntrue\n").unwrap();
    drop(input);
    let said = child.wait_with_output().unwrap();
    assert!(said.status.success(), "{said:?}");
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

/// A job that is refused, with these words, and is not in the books then.
#[track_caller]
fn refused(login: &Login, job: &str, words: &str) {
    let ran = login.home.run(&["adopt", "local", job]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains(words), "{ran:?}");
}

/// The number of a task as its scheduler writes it.
fn task(login: &Login, job: &str, task: u32) -> String {
    if login.is_slurm() {
        format!("{job}_{task}")
    } else {
        format!("{job}.{task}")
    }
}

fn jobs_are_adopted_followed_and_ended(scheduler: Scheduler) {
    let login = Login::new(scheduler);
    let (hold, array) = if login.is_slurm() {
        ("--hold", "--array=1-2")
    } else {
        ("-h", "-t")
    };
    let array: &[&str] = if login.is_slurm() {
        &[array]
    } else {
        &[array, "1-2"]
    };
    let fails = by_hand(&login, "fails", FAILS, &[]);
    let held = by_hand(&login, "held", "true", &[hold]);
    let forever = by_hand(&login, "forever", FOREVER, &[]);
    let tasks = by_hand(&login, "tasks", FOREVER, array);

    refused(&login, "999999", "has no such job");
    refused(&login, &tasks, "it is an array");
    refused(&login, &task(&login, &tasks, 7), "has no such task");
    refused(&login, "x;y", "no number of a job");
    refused(&login, &of_another(&login), "it is a job of nobody");
    let ours = login.submit("ours", "while :; do sleep 0.1; done", "");
    refused(&login, &ours, "Neronet submitted it");
    login.home.ok(&["abort", "1"]);

    let first = task(&login, &tasks, 1);
    let said = login
        .home
        .ok(&["adopt", "local", &fails, &held, &forever, &first]);
    assert!(said.contains("adopted: 2 fails"), "{said}");
    assert!(said.contains("/fails.out"), "{said}");
    let again = login.home.ok(&["adopt", "local", &fails]);
    assert!(again.contains("was adopted before: 2 fails"), "{again}");
    assert_eq!(
        login.home.json(&["status", "all"])["experiments"]
            .as_array()
            .unwrap()
            .len(),
        5
    );

    // A job that runs: its state, its host, what it prints.
    let seen = login.until(2, "to be read", |seen| {
        seen["state"] == "running" && seen["metrics"]["loss"]["last"] == 0.5
    });
    let shown = login.home.ok(&["show", "2"]);
    assert!(shown.contains(&format!("job {fails}")), "{shown}\n{seen:#}");
    assert!(login.home.ok(&["logs", "2"]).contains("loss=0.5"));
    let skipped = login.home.ok(&["start", "2", "--dry-run"]);
    assert!(skipped.contains("it has no command"), "{skipped}");

    // A leader that dies loses nothing of it.
    login.kill_leader();
    std::fs::write(login.home.path().join("go"), "").unwrap();
    let seen = login.home.until_settled(2);
    assert_eq!(seen["state"], "crashed", "{seen:#}");
    assert_eq!(seen["exit_code"], 3, "{seen:#}");
    assert_eq!(seen["metrics"]["loss"]["last"], 0.25, "{seen:#}");
    let log = login.home.ok(&["logs", "2"]);
    assert!(
        log.contains("loss=0.5") && log.contains("loss=0.25"),
        "{log}"
    );

    // One that waits, and one that runs, are cancelled, and nothing else is.
    login.until(3, "to wait", |seen| {
        seen["waiting_for"]
            .as_str()
            .is_some_and(|why| why.contains(&held))
    });
    login.home.ok(&["abort", "3"]);
    login.home.until_state(3, "aborted");
    until_gone(&login, &held, None);
    login.home.until_state(4, "running");
    let ran = login.home.run(&["pause", "4"]);
    assert!(ran.out.contains("submitted by hand"), "{ran:?}");
    login.home.ok(&["abort", "4"]);
    let seen = login.home.until_settled(4);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    until_gone(&login, &forever, None);
    login.home.until_state(5, "running");
    login.home.ok(&["abort", "5"]);
    login.home.until_state(5, "aborted");
    until_gone(&login, &tasks, Some(1));
    assert!(is_there(&login, &tasks, Some(2)), "{}", login.home.logs());
    if login.is_slurm() {
        login.tell("scancel", &[&tasks])
    } else {
        login.tell("qdel", &[&tasks])
    }
}

#[test]
fn jobs_of_slurm_are_adopted_followed_and_ended() {
    jobs_are_adopted_followed_and_ended(Scheduler::Slurm);
}

#[test]
fn jobs_of_grid_engine_are_adopted_followed_and_ended() {
    jobs_are_adopted_followed_and_ended(Scheduler::GridEngine);
}
