//! Calls of a real SLURM whose controller stops and dies in the middle of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;
use nero_tests::until;
use nero_tests::wait::until_within;

/// What happens to the controller while it is called.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It stops, and goes on at once.
    Hiccup,
    /// It stops until the call has failed; then the call still lies before it.
    Stop,
    /// It dies.
    Death,
    /// It stops, and dies when the call has failed.
    StopAndDeath,
}

const FAULTS: [Fault; 6] = [
    Fault::Death,
    Fault::Hiccup,
    Fault::Stop,
    Fault::Death,
    Fault::StopAndDeath,
    Fault::Death,
];

/// A login node whose calls tell when they begin and end.
struct Called {
    login: Login,
    resumed: Instant,
}

impl Called {
    fn new() -> Self {
        let scheduler = Scheduler::SlurmWithoutAccounting;
        let mut login = Login::alone(scheduler);
        let (called, over) = (login.path("called"), login.path("over"));
        // Of each call the fault meets another moment.
        login.replace_submit(&format!(
            "echo x >> {called}; n=$(wc -l < {called}); sleep 0.0$((n * 7 % 10)); \
             REAL \"$@\"; code=$?; echo x >> {over}; exit $code"
        ));
        Self {
            login,
            resumed: Instant::now(),
        }
    }

    fn lines(&self, name: &str) -> usize {
        let text = std::fs::read_to_string(self.login.home.path().join(name));
        text.unwrap_or_default().lines().count()
    }

    fn until_more(&self, name: &str, than: usize) {
        until(&format!("{name} to be more than {than}"), || {
            if self.lines(name) > than {
                Ok(())
            } else {
                Err(self.login.home.logs())
            }
        });
    }

    fn meet(&self, fault: Fault, over: usize) {
        let cluster = &self.login.cluster;
        match fault {
            Fault::Hiccup => {
                cluster.signal("slurmctld", "STOP");
                cluster.signal("slurmctld", "CONT");
            }
            Fault::Stop => {
                cluster.signal("slurmctld", "STOP");
                self.until_more("over", over);
                cluster.signal("slurmctld", "CONT");
            }
            Fault::Death => {
                cluster.signal("slurmctld", "KILL");
                cluster.start("slurmctld");
            }
            Fault::StopAndDeath => {
                cluster.signal("slurmctld", "STOP");
                self.until_more("over", over);
                cluster.signal("slurmctld", "KILL");
                cluster.start("slurmctld");
            }
        }
    }

    /// What an administrator does after a crash: a controller that lost its newest state
    /// gives ids again; hosts that know such an id take no more jobs, and SLURM holds what
    /// did not start there.
    fn resume(&mut self) {
        if self.resumed.elapsed() < Duration::from_secs(2) {
            return;
        }
        self.resumed = Instant::now();
        let cluster = &self.login.cluster;
        // A host that needs no help is refused.
        cluster.run("scontrol", &["update", "nodename=ALL", "state=resume"]);
        let words = ["--array", "--noheader", "--states=PD", "--format=%i %r"];
        let said = cluster.run("squeue", &words);
        for row in String::from_utf8_lossy(&said.stdout).lines() {
            if let Some((job, why)) = row.split_once(' ')
                && (why.contains("JobHeld") || why.contains("held"))
            {
                cluster.run("scontrol", &["release", job]);
            }
        }
    }
}

#[test]
fn each_run_starts_once_though_the_controller_stops_and_dies_while_it_is_called() {
    let mut called = Called::new();
    // Asked for first, so that only submissions meet the faults.
    called.login.start("first", "true");
    called.login.home.until_settled(1);
    for (fault, number) in FAULTS.into_iter().zip(2..) {
        let (before, over) = (called.lines("called"), called.lines("over"));
        let began = called.login.path(&format!("began-{number}"));
        let name = format!("run-{number}");
        called
            .login
            .start(&name, &format!("echo x >> {began}; exit {number}"));
        called.until_more("called", before);
        called.meet(fault, over);
    }
    let numbers = 2..2 + FAULTS.len() as u64;
    let deadline = Duration::from_secs(300);
    for number in numbers.clone() {
        let seen = until_within(deadline, &format!("run {number} to be settled"), || {
            called.resume();
            let seen = called.login.home.experiment_json(number);
            if seen["settled"] == true {
                Ok(seen)
            } else {
                Err((seen, called.login.home.logs()))
            }
        });
        assert_eq!(seen["exit_code"], number, "{seen:#}");
    }
    until_within(deadline, "late copies to be over", || {
        called.resume();
        let words = ["--noheader", "--states=PD,R,CG,S", "--format=%i %j %T %r"];
        let said = called.login.cluster.run("squeue", &words);
        if said.status.success() && said.stdout.is_empty() {
            Ok(())
        } else {
            Err(said)
        }
    });
    let began: BTreeMap<u64, usize> = numbers
        .map(|number| (number, called.lines(&format!("began-{number}"))))
        .collect();
    assert!(began.values().all(|times| *times == 1), "{began:?}");
}
