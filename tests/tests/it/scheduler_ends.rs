//! The ends of runs that a real scheduler causes, as their owner reads them.

use std::time::Duration;

use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;
use nero_tests::wait::{DEADLINE, until_within};
use nero_tests::{Home, until};
use serde_json::Value;

/// A job that ends politely with 5, after a last metric.
const POLITE: &str = "trap \"echo loss=0.1; exit 5\" TERM; echo loss=0.5; ";
/// It waits until it is ended.
const FOREVER: &str = "while :; do sleep 0.1; done";

/// Waits until every record of a run is here; checks its state and its reason.
#[track_caller]
fn ends(login: &Login, id: u64, state: &str, reason: &str) -> Value {
    let seen = login.home.until_settled(id);
    assert_eq!(seen["state"], state, "{seen:#}");
    assert_eq!(seen["reason"], reason, "{seen:#}");
    seen
}

/// Its reason names the scheduler, and who cancelled it where that was known in time.
#[track_caller]
fn is_cancelled_at_slurm(seen: &Value) {
    let reason = seen["reason"].as_str().unwrap_or_default();
    let by = reason.strip_prefix("cancelled at SLURM");
    assert!(
        by.is_some_and(|by| by.is_empty() || by.starts_with(" by ")),
        "{seen:#}"
    );
}

/// Its last records are home: its exit code, the metric and the log of its end.
#[track_caller]
fn ended_politely(home: &Home, seen: &Value) {
    assert_eq!(seen["exit_code"], 5, "{seen:#}");
    assert_eq!(seen["metrics"]["loss"]["last"], 0.1, "{seen:#}");
    let id = seen["id"].to_string();
    let log = home.ok(&["logs", &id]);
    assert!(log.contains("loss=0.1"), "{log}");
}

/// Waits until the text about the run's waiting contains all of these words.
#[track_caller]
fn until_waiting(login: &Login, id: u64, words: &[&str]) {
    login.until(id, &format!("to say {words:?}"), |seen| {
        let why = seen["waiting_for"].as_str().unwrap_or_default();
        words.iter().all(|word| why.contains(word))
    });
}

#[test]
fn ends_at_slurm_are_told_as_they_were_and_their_last_records_are_home() {
    let login = Login::new(Scheduler::Slurm);
    let forever = format!("{POLITE}{FOREVER}");
    let limited = login.submit("limited", &forever, "");
    login.tell("scontrol", &["update", "jobid", &limited, "timelimit=1"]);
    let own = "resources: {time: 5s}\nmonitor: {grace: 5s}";
    login.submit("own", &forever, own);
    let eat = "import time; x = [bytearray(20000000) for i in range(50)]; time.sleep(9)";
    let eat = format!("echo loss=0.5; exec python3 -c \"{eat}\"");
    login.submit("memory", &eat, "resources: {memory: 200M}");
    let stopped = login.submit("stopped", &forever, "");
    let waiting = login.submit("waiting", "echo never", "partition: shut");
    let seen = login.home.until_state(4, "running");
    assert_eq!(seen["warnings"], serde_json::json!([]), "{seen:#}");

    login.tell("scontrol", &["suspend", &stopped]);
    login.tell("scontrol", &["hold", &waiting]);
    let seen = ends(&login, 2, "timeout", "time limit of 5 s reached");
    ended_politely(&login.home, &seen);
    until_waiting(&login, 5, &["job", &waiting, "held"]);
    until_waiting(&login, 4, &["SLURM suspended its job", &stopped]);
    login.tell("scontrol", &["release", &waiting]);
    login.tell("scancel", &[&waiting]);
    // The accounting, which has the name, may be late.
    let seen = login.home.until_settled(5);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    is_cancelled_at_slurm(&seen);
    login.tell("scontrol", &["resume", &stopped]);
    login.until(4, "to go on", |seen| seen["waiting_for"] == Value::Null);
    login.home.ok(&["abort", "4"]);
    let seen = login.home.until_settled(4);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    ended_politely(&login.home, &seen);

    let seen = login.home.until_settled(3);
    let reason = seen["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("out of memory"), "{seen:#}");
    let seen = ends(&login, 1, "timeout", "time limit of SLURM reached");
    ended_politely(&login.home, &seen);
}

/// The lines of a file, as `NAME WORD`: each start of a job writes its host and
/// process, and then `begins`, `lives` and `ends`.
fn told(login: &Login, name: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(login.home.path().join(name)).unwrap_or_default();
    let pair = |line: &str| {
        let (who, what) = line.split_once(' ')?;
        Some((who.to_owned(), what.to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

/// A job that writes down that it lives, and ends with 7 when `go` is there.
fn witness(login: &Login, name: &str) -> String {
    let (to, go) = (login.path(name), login.path("go"));
    let say = |what: &str| format!("echo $me {what} >> {to}");
    let [begins, lives, ends] = ["begins", "lives", "ends"].map(say);
    format!(
        "me=$(hostname)-$$; trap \"{ends}; exit 5\" TERM; echo loss=0.5; {begins}; \
         while ! [ -e {go} ]; do {lives}; sleep 0.1; done; {ends}; exit 7"
    )
}

/// The process that began last; `None` before `starts` of them began.
fn newest(login: &Login, name: &str, starts: usize) -> Option<String> {
    let lines = told(login, name);
    let mut began = lines.iter().filter(|(_, what)| what == "begins");
    (began.clone().count() >= starts).then(|| began.next_back().map(|(who, _)| who.clone()))?
}

#[test]
fn a_run_of_a_slurm_host_that_failed_or_froze_goes_on_elsewhere_and_never_twice_at_once() {
    let scheduler = Scheduler::Slurm;
    let login = Login::alone(scheduler);
    let said = login
        .cluster
        .run("sinfo", &["-h", "-N", "-p", "main", "-o", "%N"]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let hosts: Vec<&str> = said.split_whitespace().collect();
    let without = |host: &str| format!("sbatch_args: [--exclude={host}]");
    login.submit("dies", &witness(&login, "dies.txt"), &without(hosts[1]));
    login.submit(
        "freezes",
        &witness(&login, "freezes.txt"),
        &without(hosts[0]),
    );
    for name in ["dies.txt", "freezes.txt"] {
        until("the first starts", || {
            newest(&login, name, 1).ok_or(login.home.logs())
        });
    }
    for id in [1, 2] {
        login.until(id, "to be read", |seen| {
            seen["metrics"]["loss"]["count"] == 1
        });
    }
    login.cluster.signal(hosts[0], "KILL");
    login.cluster.signal_node_daemon(hosts[1], "STOP");
    let node = format!("nodename={}", hosts[1]);
    login.tell("scontrol", &["update", &node, "state=down", "reason=x"]);
    let long = DEADLINE + Duration::from_secs(120);
    for name in ["dies.txt", "freezes.txt"] {
        let second = until_within(long, "the second starts", || {
            newest(&login, name, 2).ok_or_else(|| login.home.logs())
        });
        let lines = told(&login, name);
        let at = lines.iter().position(|(who, _)| *who == second).unwrap();
        let others = lines[at..].iter().filter(|(who, _)| *who != second);
        assert_eq!(others.count(), 0, "{lines:?}");
    }
    let froze = told(&login, "freezes.txt");
    assert!(
        froze.iter().any(|(_, what)| what == "ends"),
        "it was asked to leave"
    );
    std::fs::write(login.home.path().join("go"), "").unwrap();
    for id in [1, 2] {
        let seen = login.home.until_settled(id);
        assert_eq!(seen["exit_code"], 7, "{seen:#}");
        assert_eq!(seen["metrics"]["loss"]["count"], 2, "{seen:#}");
    }
    login.cluster.signal_node_daemon(hosts[1], "CONT");
}

#[test]
fn ends_are_told_where_slurm_forgets_its_jobs_after_seconds_and_has_no_accounting() {
    let scheduler = Scheduler::SlurmWithoutAccounting;
    let login = Login::alone_with(scheduler, &[("JOB_AGE", "2")]);
    let forever = format!("{POLITE}{FOREVER}");
    login.submit("plain", "echo loss=0.5; exit 3", "");
    let cancelled = login.submit("cancelled", &forever, "");
    let waiting = login.submit("waiting", "echo never", "partition: shut");
    login.home.until_state(2, "running");
    login.tell("scancel", &[&cancelled, &waiting]);
    let seen = login.home.until_settled(1);
    assert_eq!(seen["exit_code"], 3, "{seen:#}");
    let reason = "ended by SLURM, which does not tell why";
    let seen = login.home.until_settled(2);
    assert!(
        seen["reason"] == reason || seen["reason"] == "cancelled at SLURM",
        "{seen:#}"
    );
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    ended_politely(&login.home, &seen);
    // Either a listing showed its end in time, or it is gone, and a person is asked.
    let seen = login.until(3, "to be gone", |seen| {
        let why = seen["waiting_for"].as_str().unwrap_or_default();
        seen["state"] == "aborted" || why.contains("is gone and began nothing")
    });
    if seen["state"] != "aborted" {
        login.home.ok(&["abort", "3"]);
        login.home.until_state(3, "aborted");
    }
}

#[test]
fn ends_at_grid_engine_are_told_as_they_were_and_their_last_records_are_home() {
    let login = Login::new(Scheduler::GridEngine);
    let forever = format!("{POLITE}{FOREVER}");
    login.submit(
        "own",
        &forever,
        "resources: {time: 5s}\nmonitor: {grace: 5s}",
    );
    login.submit("limited", &forever, "qsub_args: [\"-l=s_rt=2,h_rt=5\"]");
    let deleted = login.submit("deleted", &forever, "");
    let again = login.path("again");
    let once = format!("echo x >> {again}; echo loss=0.5; {FOREVER}");
    let rescheduled = login.submit("rescheduled", &once, "");
    let stopped = login.submit("stopped", &forever, "");
    let waiting = login.submit("waiting", "echo never", "qsub_args: [-l=gpu=50]");
    login.submit("taken", "echo never", "qsub_args: [-l=gpu=50]");
    let again = "on_lost: rerun\nqsub_args: [-l=gpu=50]";
    let lost = login.submit("lost", "echo never", again);
    for id in 3..=5 {
        login.home.until_state(id, "running");
    }
    login.tell("qhold", &[&waiting]);
    login.tell("qmod", &["-sj", &stopped]);
    login.tell("qmod", &["-rj", &rescheduled]);
    login.tell("qdel", &[&deleted]);
    login.home.ok(&["abort", "7"]);
    let seen = ends(&login, 1, "timeout", "time limit of 5 s reached");
    ended_politely(&login.home, &seen);
    let seen = ends(&login, 2, "timeout", "time limit of Grid Engine reached");
    ended_politely(&login.home, &seen);
    let reason = "ended by Grid Engine, which does not tell why";
    let seen = ends(&login, 3, "aborted", reason);
    ended_politely(&login.home, &seen);
    until_waiting(&login, 6, &["Grid Engine", &waiting, "held"]);
    until_waiting(&login, 5, &["Grid Engine suspended its job", &stopped]);
    let before = login.submissions();
    login.tell("qdel", &[&waiting, &lost]);
    login.tell("qmod", &["-usj", &stopped]);
    until("the rescheduled run to begin again", || {
        let text = login.until_made("again");
        (text.lines().count() == 2)
            .then_some(())
            .ok_or((text, login.home.logs()))
    });
    login.home.ok(&["abort", "4,5"]);
    let seen = login.home.until_settled(5);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    ended_politely(&login.home, &seen);
    let seen = login.home.until_settled(4);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    assert_eq!(seen["metrics"]["loss"]["count"], 2, "{seen:#}");
    login.home.until_state(7, "aborted");
    // A waiting job that is deleted leaves no trace at all.
    until_waiting(&login, 6, &["is gone and began nothing", "abort the run"]);
    until("the other one to be submitted again", || {
        let now = login.submissions();
        let is_new = now.iter().any(|one| !before.contains(one));
        is_new.then_some(()).ok_or((now, login.home.logs()))
    });
    login.home.ok(&["abort", "6,8"]);
    login.home.until_state(6, "aborted");
    login.home.until_state(8, "aborted");
}

#[test]
fn runs_of_grid_engine_outlive_its_controller_and_go_on_after_their_hosts_crash() {
    let scheduler = Scheduler::GridEngine;
    let login = Login::alone(scheduler);
    let prolog = login.path("prolog");
    login.home.script(prolog.as_ref(), "#!/bin/sh\nexit 100\n");
    let again = login.path("again");
    let go = login.path("go");
    let lines = format!(
        "echo x >> {again}; echo loss=0.5; while ! [ -e {go} ]; do sleep 0.1; done; exit 7"
    );
    login.submit("a", &lines, "");
    login.until_made("again");
    login.tell("qconf", &["-mattr", "queue", "prolog", &prolog, "all.q"]);
    let refused = login.submit("b", "exit 4", "");
    until_waiting(
        &login,
        2,
        &["held: error state", "until a person releases it"],
    );
    login.tell("qconf", &["-mattr", "queue", "prolog", "NONE", "all.q"]);
    // Its exit code is 1 although it did so.
    login.cluster.run("qmod", &["-cj", &refused]);
    let seen = login.home.until_settled(2);
    assert_eq!(seen["exit_code"], 4, "{seen:#}");

    login.cluster.signal("qmaster", "KILL");
    login.start("c", "exit 3");
    login.cluster.signal("execd", "KILL");
    login.cluster.start("qmaster");
    login.cluster.start("execd");
    let long = DEADLINE + Duration::from_secs(120);
    until_within(long, "the second start", || {
        let text = login.until_made("again");
        (text.lines().count() == 2)
            .then_some(())
            .ok_or((text, login.home.logs()))
    });
    std::fs::write(&go, "").unwrap();
    for (id, code) in [(1, 7), (3, 3)] {
        let seen = login.home.until_settled(id);
        assert_eq!(seen["exit_code"], code, "{seen:#}");
    }
}

#[test]
fn neromum_leaves_the_login_node_when_all_is_submitted_and_nobody_is_connected() {
    let login = Login::new(Scheduler::Slurm);
    let (ready, go) = (login.path("ready"), login.path("go"));
    let lines = format!(
        "echo loss=0.5; echo x >> {ready}; while ! [ -e {go} ]; do sleep 0.1; done; exit 7"
    );
    login.submit("a", &lines, "");
    login.submit("b", "echo never", "partition: shut");
    login.until_made("ready");
    login.until_queued(2);
    login.home.ok(&["daemon", "stop"]);
    until("the leader to leave", || match login.leaders() {
        left if left.is_empty() => Ok(()),
        left => Err((left, login.home.logs())),
    });
    std::fs::write(&go, "").unwrap();
    let seen = login.home.until_settled(1);
    assert_eq!(seen["exit_code"], 7, "{seen:#}");
    assert_eq!(login.until_made("ready").lines().count(), 1);
    login.until_queued(2);
    login.home.ok(&["abort", "2"]);
    login.home.until_state(2, "aborted");
}
