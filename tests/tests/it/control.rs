//! What a person does to runs that live: pauses, and aborts that must not hang.

use std::time::Duration;

use nero_model::ProcessId;
use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;
use nero_tests::processes::Part;
use nero_tests::wait::until_within;
use nero_tests::{Home, until};
use serde_json::Value;

/// A job with children that ends politely: it writes down that it got its signal.
fn ticking(home: &Home, name: &str) -> String {
    let path = |what: &str| {
        home.path()
            .join(format!("{name}.{what}"))
            .display()
            .to_string()
    };
    format!(
        "trap \"echo asked > {}; exit 5\" TERM; echo $$ > {}; while ! [ -e {} ]; do sleep 0.05 & wait $!; done; exit 7",
        path("asked"),
        path("pid"),
        path("go"),
    )
}

fn start(home: &Home, name: &str, more: &str) {
    let line = ticking(home, name);
    let yaml = format!("command: [sh, -c, '{line}']\n{more}");
    let folder = home.experiment(name, &yaml);
    home.ok(&["start", folder.to_str().unwrap()]);
}

/// The state of each process of the runs' jobs, as the kernel tells it.
fn states(home: &Home) -> Vec<(i32, char)> {
    let state = |id: &ProcessId| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.pid)).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        Some((id.pid, rest.chars().next()?))
    };
    home.alive(Part::Job).iter().filter_map(state).collect()
}

#[track_caller]
fn until_stopped(home: &Home) {
    until("every process of the job to be stopped", || {
        let states = states(home);
        if !states.is_empty() && states.iter().all(|(_, state)| *state == 'T') {
            Ok(())
        } else {
            Err((states, home.logs()))
        }
    });
}

#[track_caller]
fn until_made(home: &Home, name: &str) {
    let path = home.path().join(name);
    until(&format!("{name} to be made"), || {
        std::fs::metadata(&path).map_err(|error| (error, home.logs()))
    });
}

#[track_caller]
fn go(home: &Home, name: &str) {
    std::fs::write(home.path().join(format!("{name}.go")), "").unwrap();
}

#[test]
fn a_paused_run_stands_still_gives_its_cpus_to_others_and_goes_on() {
    let home = Home::new();
    home.configure("nodes: {local: {cpus: 1}}\n");
    start(&home, "a", "");
    until_made(&home, "a.pid");
    home.until_state(1, "running");
    let said = home.ok(&["pause", "1"]);
    assert_eq!(said, "paused 1\n");
    let seen = home.until_state(1, "paused");
    until_stopped(&home);
    let why = seen["waiting_for"].as_str().unwrap_or_default();
    assert!(why.contains("its CPUs are given to others"), "{seen:#}");
    assert!(home.ok(&["status", "paused"]).contains("a"));
    assert!(home.ok(&["pause", "1"]).contains("already paused"));
    let paused_at = seen["runtime_s"].as_f64().unwrap();

    // The one CPU of the node is free.
    start(&home, "b", "");
    until_made(&home, "b.pid");
    start(&home, "c", "");
    home.until_state(3, "pending");
    assert_eq!(home.ok(&["pause", "3"]), "paused 1\n");
    home.until_state(3, "paused");
    go(&home, "b");
    let seen = home.until_settled(2);
    assert_eq!(seen["exit_code"], 7, "{seen:#}");
    let seen = home.experiment_json(1);
    assert_eq!(seen["runtime_s"].as_f64().unwrap(), paused_at, "{seen:#}");

    go(&home, "a");
    home.ok(&["resume", "1"]);
    let seen = home.until_settled(1);
    assert_eq!(seen["exit_code"], 7, "{seen:#}");
    // Paused, it was not started, although its CPU was free.
    assert_eq!(home.experiment_json(3)["started_at"], Value::Null);
    go(&home, "c");
    home.ok(&["resume", "3"]);
    assert_eq!(home.until_settled(3)["exit_code"], 7);
}

#[test]
fn a_pause_outlives_every_process_and_an_abort_lets_a_paused_run_act_on_its_signal() {
    let home = Home::new();
    start(&home, "a", "");
    until_made(&home, "a.pid");
    home.ok(&["pause", "1"]);
    home.until_state(1, "paused");
    until_stopped(&home);
    home.kill_all(&[Part::Shim, Part::Watcher, Part::Mum, Part::Daemon]);
    home.until_state(1, "paused");
    until_stopped(&home);
    home.ok(&["resume", "1"]);
    home.until_state(1, "running");
    until("the job to go on", || {
        let states = states(&home);
        if states.iter().any(|(_, state)| *state == 'T') {
            Err((states, home.logs()))
        } else {
            Ok(())
        }
    });
    home.ok(&["pause", "1"]);
    until_stopped(&home);
    home.ok(&["abort", "1"]);
    let seen = home.until_state(1, "aborted");
    until_made(&home, "a.asked");
    assert_eq!(seen["exit_code"], 5, "{seen:#}");
}

#[test]
fn a_time_limit_counts_no_pause() {
    let home = Home::new();
    start(&home, "a", "resources: {time: 7s}\n");
    until_made(&home, "a.pid");
    home.ok(&["pause", "1"]);
    until_stopped(&home);
    let began = std::time::Instant::now();
    // Another run measures the time: its limit is longer than the paused one's.
    start(&home, "b", "resources: {time: 8s}\n");
    home.until_state(2, "timeout");
    assert!(began.elapsed() >= Duration::from_secs(8));
    assert_eq!(home.experiment_json(1)["state"], "paused");
    home.ok(&["resume", "1"]);
    let seen = home.until_state(1, "timeout");
    let ran = seen["runtime_s"].as_f64().unwrap();
    assert!((6.9..14.0).contains(&ran), "{seen:#}");
}

/// The processes of ours in the allocations of this home: `neromum job`, launchers and
/// shims.
fn in_allocations(home: &Home) -> Vec<ProcessId> {
    let parts = [Part::Allocation, Part::Launcher, Part::Shim];
    parts
        .into_iter()
        .flat_map(|part| home.alive(part))
        .collect()
}

fn stop(processes: &[ProcessId]) {
    assert!(processes.len() >= 3, "{processes:?}");
    for process in processes {
        let pid = process.pid.to_string();
        let status = std::process::Command::new("kill")
            .args(["-STOP", &pid])
            .status();
        assert!(status.unwrap().success());
    }
}

/// The main processes of this experiment's job: shells whose line names its files.
fn shells(home: &Home, name: &str) -> Vec<ProcessId> {
    let file = home.path().join(format!("{name}.pid"));
    let file = file.as_os_str().as_encoded_bytes().to_vec();
    let is_one = |id: &ProcessId| {
        let said = std::fs::read(format!("/proc/{}/cmdline", id.pid)).unwrap_or_default();
        said.windows(file.len()).any(|part| part == file)
    };
    let mut found = home.alive(Part::Job);
    found.retain(is_one);
    found
}

/// Time of the leader's patience, of the scheduler's own ladder, and of three beats that
/// stand still.
const ESCALATED_WITHIN: Duration = Duration::from_secs(240);

/// Returns the run as it is shown at its end, too.
fn an_abort_ends_a_run_whose_supervisors_are_frozen(scheduler: Scheduler) -> (Login, Value) {
    let login = Login::alone(scheduler);
    let yaml = format!(
        "command: [sh, -c, '{}']\nmonitor: {{grace: 1s}}\n",
        ticking(&login.home, "a")
    );
    let folder = login.home.experiment("a", &yaml);
    login.home.ok(&["start", folder.to_str().unwrap()]);
    login.until_made("a.pid");
    login.home.until_state(1, "running");
    assert_eq!(shells(&login.home, "a").len(), 1);
    stop(&in_allocations(&login.home));
    login.home.ok(&["abort", "1"]);
    let seen = until_within(ESCALATED_WITHIN, "the run to be over", || {
        let seen = login.home.experiment_json(1);
        if seen["state"] == "aborted" {
            Ok(seen)
        } else {
            Err((seen, login.home.logs()))
        }
    });
    (login, seen)
}

#[test]
fn an_abort_ends_a_run_in_slurm_whose_supervisors_are_frozen() {
    // SLURM's cancel continues what is frozen: the run may still end by our own ladder.
    let (login, _) = an_abort_ends_a_run_whose_supervisors_are_frozen(Scheduler::Slurm);
    until("its main process to be dead", || {
        match shells(&login.home, "a") {
            found if found.is_empty() => Ok(()),
            found => Err((found, states(&login.home), login.home.logs())),
        }
    });
}

#[test]
fn an_abort_ends_a_run_in_grid_engine_whose_supervisors_are_frozen() {
    // What is in a session of its own outlives `qdel` where ENABLE_ADDGRP_KILL is off, as
    // here.
    let (login, seen) = an_abort_ends_a_run_whose_supervisors_are_frozen(Scheduler::GridEngine);
    let reason = seen["reason"].as_str().unwrap_or_default();
    let words = "its job was cancelled at Grid Engine";
    assert!(reason.contains(words), "{seen:#}");
    nero_tests::end(&shells(&login.home, "a"));
}

/// Begins the batch script anew where the kernel tells nobody of a new file.
const NO_INOTIFY: &str = r#"[ -n "$DEAF" ] || DEAF=1 exec unshare --map-root-user sh -c 'echo 0 > /proc/sys/user/max_inotify_instances; exec sh "$0" "$@"' "$0" "$@""#;

#[test]
fn an_abort_is_heard_by_looking_where_the_kernel_tells_of_no_new_file() {
    let login = Login::new(Scheduler::GridEngine);
    let home = &login.home;
    home.configure(&format!(
        "nodes:\n  local:\n    warden: oge\n    setup:\n    - |-\n      {NO_INOTIFY}\n"
    ));
    let lines = format!(
        "cat /proc/sys/user/max_inotify_instances; echo loss 2; {}",
        ticking(home, "e")
    );
    login.start("e", &lines);
    until_made(home, "e.pid");
    login.until(1, "to have told its loss", |seen| {
        seen["metrics"]["loss"]["last"] == 2.0
    });
    home.ok(&["abort", "1"]);
    until_made(home, "e.asked");
    login.until(1, "to be aborted", |seen| seen["state"] == "aborted");
    assert_eq!(home.ok(&["logs", "1"]), "0\nloss 2\n");
}

#[test]
fn a_run_in_slurm_is_held_while_it_waits_and_stopped_while_it_runs() {
    let scheduler = Scheduler::Slurm;
    let mut login = Login::alone(scheduler);
    // The command that holds fails at first.
    let (fails, failed) = (login.path("fails"), login.path("failed"));
    login.replace_submit("exec REAL \"$@\"");
    let lines = format!(
        "[ \"$1\" = uhold ] && [ -e {fails} ] && {{ rm {fails}; echo > {failed}; exit 1; }}\n\
         exec REAL \"$@\""
    );
    login.replace("scontrol", &lines);
    std::fs::write(&fails, "").unwrap();
    let home = &login.home;
    login.tell("scontrol", &["update", "partitionname=main", "state=down"]);
    start(home, "a", "");
    let job = login.until_queued(1);
    assert_eq!(home.ok(&["pause", "1"]), "paused 1\n");
    home.until_state(1, "paused");
    let is_held = |job: &str| {
        let words = ["--noheader", "--format=%r", "--jobs", job];
        let said = login.cluster.run("squeue", &words);
        String::from_utf8_lossy(&said.stdout).trim() == "JobHeldUser"
    };
    let until_held = |job: &str, held: bool| {
        until("SLURM to hold it, or no more", || {
            if is_held(job) == held {
                Ok(())
            } else {
                Err((job.to_owned(), held, home.logs()))
            }
        });
    };
    login.until_made("failed");
    until_held(&job, true);
    home.ok(&["resume", "1"]);
    until_held(&job, false);
    login.until(1, "to be known as released", |seen| {
        let why = seen["waiting_for"].as_str().unwrap_or_default();
        !why.is_empty() && !why.contains("held")
    });

    // A later neromum releases only what was held by us.
    login.tell("scontrol", &["uhold", &job]);
    login.kill_leader();
    start(home, "b", "");
    let other = login.until_queued(2);
    home.ok(&["pause", "2"]);
    until_held(&other, true);
    home.ok(&["resume", "2"]);
    until_held(&other, false);
    assert!(is_held(&job));
    home.ok(&["abort", "2"]);
    login.tell("scontrol", &["release", &job]);
    login.tell("scontrol", &["update", "partitionname=main", "state=up"]);
    login.until_made("a.pid");
    home.until_state(1, "running");

    home.ok(&["pause", "1"]);
    let seen = login.until(1, "to be paused", |seen| seen["state"] == "paused");
    let why = seen["waiting_for"].as_str().unwrap_or_default();
    assert!(
        why.contains("its cores, memory and GPUs stay taken"),
        "{seen:#}"
    );
    until_stopped(home);
    home.ok(&["abort", "1"]);
    let seen = home.until_state(1, "aborted");
    assert_eq!(seen["exit_code"], 5, "{seen:#}");
}
