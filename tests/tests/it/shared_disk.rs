//! The disk between a login node and its compute nodes: it shows late what others changed,
//! or has no room.

use std::time::Duration;

use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;
use nero_tests::until;
use rustix::io::Errno;
use serde_json::Value;

/// Time after which a host sees what another one changed, unless it is given by hand.
const LATE: Duration = Duration::from_millis(1500);
/// A job that ends politely with 5, after a last metric.
const POLITE: &str = "trap \"echo loss=0.1; exit 5\" TERM; echo loss=0.5; ";

/// Starts that a run of this name wrote down.
fn starts(login: &Login, name: &str) -> usize {
    let text = std::fs::read_to_string(login.home.path().join(name));
    text.unwrap_or_default().lines().count()
}

/// The lines of a job that writes down its start and goes on when `go` is there.
fn held(login: &Login, name: &str, go: &str, then: &str) -> String {
    let (name, go) = (login.path(name), login.path(go));
    format!("echo x >> {name}; echo loss=0.5; while ! [ -e {go} ]; do sleep 0.1; done; {then}")
}

#[track_caller]
fn is_home(login: &Login, seen: &Value, code: u64, loss: f64) {
    assert_eq!(seen["exit_code"], code, "{seen:#}");
    assert_eq!(seen["metrics"]["loss"]["last"], loss, "{seen:#}");
    // Settled are its records; the rest of the log may be on the way.
    let id = seen["id"].to_string();
    until(&format!("the log of run {id}"), || {
        let log = login.home.ok(&["logs", &id]);
        let is_whole = log.ends_with(&format!("loss={loss}\n"));
        is_whole.then_some(()).ok_or((log, login.home.logs()))
    });
}

#[test]
fn each_run_comes_home_once_over_a_disk_that_shows_late_what_others_changed() {
    let Some(login) = Login::on_late_disk(Scheduler::SlurmWithoutAccounting, LATE) else {
        return;
    };
    let home = &login.home;
    let path = login.path("");
    let yaml = format!(
        "+a:\n  command: [sh, -c, 'echo x >> {path}/{{n}}; echo loss={{n}}; exit {{n}}']\n  \
         parameters: {{n: [1, 2, 3, 4]}}\n"
    );
    let folder = home.experiment("array", &yaml);
    home.ok(&["start", folder.to_str().unwrap()]);
    let forever = format!("echo x >> {path}/5; {POLITE}while :; do sleep 0.1; done");
    login.start("aborted", &forever);
    for id in 1..=5 {
        login.until(id, "to have begun", |seen| seen["started_at"].is_string());
    }
    let again = held(&login, "6", "go", "echo loss=6; exit 6");
    let job = login.submit("requeued", &again, "");
    login.start("followed", &held(&login, "7", "go", "echo loss=7; exit 7"));
    for id in 5..=7 {
        home.until_state(id, "running");
        let name = id.to_string();
        until(&format!("job {name} to begin"), || {
            match starts(&login, &name) {
                0 => Err(login.home.logs()),
                _ => Ok(()),
            }
        });
    }
    login.tell("scontrol", &["requeue", &job]);
    home.ok(&["abort", "5"]);
    let seen = home.until_settled(5);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    is_home(&login, &seen, 5, 0.1);
    login.kill_leader();
    login.start("later", &format!("echo x >> {path}/8; echo loss=8; exit 8"));
    until("the requeued job to begin again", || {
        match starts(&login, "6") {
            2 => Ok(()),
            other => Err((other, login.home.logs())),
        }
    });
    std::fs::write(login.path("go"), "").unwrap();
    for id in [1, 2, 3, 4, 6, 7, 8] {
        let seen = home.until_settled(id);
        is_home(&login, &seen, id, id as f64);
    }
    let began: Vec<usize> = (1..=8).map(|id| starts(&login, &id.to_string())).collect();
    assert_eq!(began, [1, 1, 1, 1, 1, 2, 1, 1]);
}

/// A run that ends, one that is aborted and one that is requeued while nothing can be
/// written; one whose turn comes then, and one that is started then. None is lost, none
/// begins twice, and what waits for room says so.
#[test]
fn runs_of_slurm_outlive_a_used_up_quota_and_a_full_disk_and_say_what_they_wait_for() {
    let late = Duration::from_millis(200);
    let Some(login) = Login::on_late_disk(Scheduler::SlurmWithoutAccounting, late) else {
        return;
    };
    let home = &login.home;
    let disk = login.disk.as_ref().expect("it is late");
    login.start("ends", &held(&login, "1", "go", "echo loss=1; exit 1"));
    login.start(
        "aborted",
        &format!(
            "echo x >> {}; {POLITE}while :; do sleep 0.1; done",
            login.path("2")
        ),
    );
    for id in 1..=2 {
        home.until_state(id, "running");
    }
    login.tell("scontrol", &["update", "partitionname=main", "state=down"]);
    login.start("waits", &held(&login, "3", "go", "echo loss=3; exit 3"));
    let job = login.until_queued(3);
    disk.fill(Errno::DQUOT);
    login.start("later", &held(&login, "4", "go", "echo loss=4; exit 4"));
    let says = |words: &str| {
        login.until(4, &format!("to say {words:?}"), |seen| {
            let why = seen["waiting_for"].as_str().unwrap_or_default();
            why.contains(words) && why.contains("make room there, or: neroman clean")
        })
    };
    says("your quota on the node is used up");
    disk.fill(Errno::NOSPC);
    says("the node's disk is full");
    login.tell("scontrol", &["update", "partitionname=main", "state=up"]);
    until("the third job to leave the queue", || {
        let said = login
            .cluster
            .run("squeue", &["--noheader", "--format=%i %T"]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        if said.lines().any(|line| line == format!("{job} PENDING")) {
            Err(said)
        } else {
            Ok(())
        }
    });
    home.ok(&["abort", "2"]);
    std::fs::write(login.path("go"), "").unwrap();
    until("jobs to end without room", || {
        let alive = home.alive(nero_tests::Part::Job);
        if alive.is_empty() {
            Ok(())
        } else {
            Err((alive, home.logs()))
        }
    });
    disk.empty();
    for id in [1, 3, 4] {
        let seen = home.until_settled(id);
        is_home(&login, &seen, id, id as f64);
    }
    let seen = home.until_settled(2);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    let began: Vec<usize> = (1..=4).map(|id| starts(&login, &id.to_string())).collect();
    assert_eq!(began, [1, 1, 1, 1]);
}
