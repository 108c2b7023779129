//! Runs of nodes with a real scheduler, from `start` to their results.

use std::path::{Path, PathBuf};

use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;
use nero_tests::until;
use serde_json::Value;

fn a_run_goes_through_the_scheduler_and_its_results_come_home(scheduler: Scheduler) {
    let login = Login::new(scheduler);
    login.start("a", "echo loss=0.5; exit 3");
    let seen = login.home.until_settled(1);
    assert_eq!(seen["state"], "crashed", "{seen:#}");
    assert_eq!(seen["exit_code"], 3, "{seen:#}");
    assert_eq!(seen["metrics"]["loss"]["last"], 0.5, "{seen:#}");
    let said = login.home.ok(&["logs", "1"]);
    assert!(said.contains("loss=0.5"), "{said}");
    // The submission goes when neroman has everything.
    let submissions = login.home.base().join("node");
    until("the submission to be removed", || {
        let found = walk(&submissions, "plan");
        if found.is_empty() {
            Ok(())
        } else {
            Err((found, login.home.logs()))
        }
    });
}

/// Files of this name below a folder.
fn walk(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(walk(&path, name));
        } else if entry.file_name() == name {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_run_goes_through_slurm_and_its_results_come_home() {
    a_run_goes_through_the_scheduler_and_its_results_come_home(Scheduler::Slurm);
}

#[test]
fn a_run_goes_through_grid_engine_and_its_results_come_home() {
    a_run_goes_through_the_scheduler_and_its_results_come_home(Scheduler::GridEngine);
}

#[test]
fn an_abort_ends_what_runs_and_takes_away_what_waits_in_slurm() {
    let login = Login::new(Scheduler::Slurm);
    let path = login.path("ready");
    login.start("a", &format!("echo x > {path}; exec sleep 1000"));
    login.until_made("ready");
    login.home.ok(&["abort", "1"]);
    let seen = login.home.until_state(1, "aborted");
    assert!(!seen["reason"].to_string().contains("SLURM"), "{seen:#}");
}

/// The exit of a job that ends politely.
const POLITE: &str = "trap \"exit 5\" TERM; ";

#[test]
fn what_waits_in_slurm_is_taken_away_by_an_abort_and_by_a_persons_scancel() {
    let scheduler = Scheduler::Slurm;
    let login = Login::alone(scheduler);
    login.tell("scontrol", &["update", "partitionname=main", "state=down"]);
    login.start("a", "echo never");
    login.until_queued(1);
    login.home.ok(&["abort", "1"]);
    let seen = login.home.until_state(1, "aborted");
    assert_eq!(seen["started_at"], Value::Null, "{seen:#}");
    until("SLURM to have nothing of it", || {
        let said = login.cluster.run("squeue", &["--noheader"]);
        if said.stdout.is_empty() {
            Ok(())
        } else {
            Err(said)
        }
    });
    login.start("b", "echo never");
    let job = login.until_queued(2);
    login.tell("scancel", &[&job]);
    let seen = login.home.until_state(2, "aborted");
    assert_eq!(seen["started_at"], Value::Null, "{seen:#}");
}

#[test]
fn an_end_that_a_person_wanted_of_slurm_says_so_and_a_requeued_run_goes_on() {
    let scheduler = Scheduler::Slurm;
    let login = Login::alone(scheduler);
    let path = login.path("ready");
    login.start(
        "a",
        &format!("{POLITE}echo x > {path}; while :; do sleep 0.1; done"),
    );
    login.until_made("ready");
    login.tell("scancel", &[&login.running()]);
    let seen = login.home.until_state(1, "aborted");
    // The accounting, which has the name, may be late.
    let reasons = ["cancelled at SLURM by root", "cancelled at SLURM"];
    assert!(reasons.iter().any(|one| seen["reason"] == *one), "{seen:#}");

    let (first, go) = (login.path("first"), login.path("go"));
    login.start(
        "b",
        &format!("{POLITE}echo x >> {first}; while ! [ -e {go} ]; do sleep 0.1; done; exit 7"),
    );
    login.until_made("first");
    login.tell("scontrol", &["requeue", &login.running()]);
    until("its second start", || {
        match login.until_made("first").lines().count() {
            2 => Ok(()),
            other => Err((other, login.home.logs())),
        }
    });
    std::fs::write(&go, "").unwrap();
    let seen = login.home.until_state(2, "crashed");
    assert_eq!(seen["exit_code"], 7, "{seen:#}");
}

/// A leader that is killed while the scheduler is being called, before or after it
/// has the submission: the run starts once.
fn a_leader_killed_in_a_call_submits_once(is_taken: bool) {
    let mut login = Login::new(Scheduler::Slurm);
    let (called, count) = (login.path("called"), login.path("count"));
    let wait = format!("if [ -e {called} ]; then exec REAL \"$@\"; fi; echo x > {called}.new;");
    let lines = if is_taken {
        format!("{wait} REAL \"$@\" > /dev/null; mv {called}.new {called}; exec sleep 1000")
    } else {
        format!("{wait} mv {called}.new {called}; exec sleep 1000")
    };
    login.replace_submit(&lines);
    login.start("a", &format!("echo x >> {count}; exit 4"));
    login.until_made("called");
    login.kill_leader();
    login.until_made("count");
    let seen = login.home.until_settled(1);
    assert_eq!(seen["exit_code"], 4, "{seen:#}");
    assert_eq!(login.until_made("count").lines().count(), 1);
}

#[test]
fn a_leader_killed_before_slurm_has_its_submission_makes_it_again() {
    a_leader_killed_in_a_call_submits_once(false);
}

#[test]
fn a_leader_killed_after_slurm_took_its_submission_finds_it() {
    a_leader_killed_in_a_call_submits_once(true);
}

#[test]
fn a_leader_killed_while_its_runs_wait_or_run_follows_them_to_their_ends() {
    let scheduler = Scheduler::Slurm;
    let login = Login::alone(scheduler);
    let (ready, go) = (login.path("ready"), login.path("go"));
    login.start(
        "a",
        &format!("echo x > {ready}; while ! [ -e {go} ]; do sleep 0.1; done; exit 3"),
    );
    login.until_made("ready");
    login.kill_leader();
    login.tell("scontrol", &["update", "partitionname=main", "state=down"]);
    login.start("b", "exit 4");
    login.until_queued(2);
    login.kill_leader();
    std::fs::write(&go, "").unwrap();
    login.tell("scontrol", &["update", "partitionname=main", "state=up"]);
    for (id, code) in [(1, 3), (2, 4)] {
        let seen = login.home.until_settled(id);
        assert_eq!(seen["exit_code"], code, "{seen:#}");
    }
}

#[test]
fn a_controller_that_stops_in_a_call_gets_the_run_once() {
    let scheduler = Scheduler::SlurmWithoutAccounting;
    let login = Login::alone(scheduler);
    // Asked for first, so that only the submission meets the stopped controller.
    login.start("a", "true");
    login.home.until_settled(1);
    let count = login.path("count");
    login.cluster.signal("slurmctld", "STOP");
    login.start("b", &format!("echo x >> {count}; exit 4"));
    until("the call to fail", || {
        let why = login.home.experiment_json(2)["waiting_for"].clone();
        if why.as_str().is_some_and(|why| why.contains("SLURM")) {
            Ok(())
        } else {
            Err((why, login.home.logs()))
        }
    });
    login.cluster.signal("slurmctld", "CONT");
    let seen = login.home.until_settled(2);
    assert_eq!(seen["exit_code"], 4, "{seen:#}");
    assert_eq!(login.until_made("count").lines().count(), 1);
}
