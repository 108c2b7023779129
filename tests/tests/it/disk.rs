//! Full disks: nothing of ours ends, no record is lost.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nero_tests::chaos::script::points;
use nero_tests::disk::{Bound, Small};
use nero_tests::{Home, Part, until};

use crate::story::{added, job, make_pipe};

/// A home on a small disk that uses nearly all of it.
fn home_on(small: &Small) -> Home {
    let mut folder = tempfile::Builder::new();
    let home = Home::in_folder(folder.prefix("n").tempdir_in(small.path()).unwrap());
    home.configure("nodes: {local: {min_free: 1M}}\n");
    home
}

/// Experiment 1, whose job prints points when it is released. Only its log is on the
/// small disk.
struct Held {
    outside: tempfile::TempDir,
    pipe: PathBuf,
    notes: PathBuf,
}

impl Held {
    fn new() -> Self {
        let outside = tempfile::tempdir().unwrap();
        let pipe = outside.path().join("pipe");
        make_pipe(&pipe);
        let notes = outside.path().join("notes");
        Self {
            outside,
            pipe,
            notes,
        }
    }

    /// Starts it; returns once it runs and is watched.
    fn start(&self, home: &Home, script: &str) {
        let yaml = format!(
            "collection: f\n+f:\n  command: [{}, print, begin, --, hold, {}, --, chaos, {}, '{script}']\n",
            job(),
            self.pipe.display(),
            self.notes.display()
        );
        added(home, "f", &yaml);
        home.ok(&["start", "1"]);
        home.until_alive(Part::Watcher);
        home.until_state(1, "running");
    }

    fn release(&self) {
        fs::write(&self.pipe, "").unwrap();
    }

    /// Waits until the job has ended.
    fn until_done(&self, home: &Home) {
        until("the job to be done", || {
            let noted = fs::read_to_string(&self.notes).unwrap_or_default();
            if noted.contains("end") && home.alive(Part::Job).is_empty() {
                Ok(())
            } else {
                Err((noted, home.logs()))
            }
        });
    }

    /// It ran once, and exactly `count` points are known.
    fn is_known(&self, home: &Home, count: usize) {
        let seen = home.until_settled(1);
        assert_eq!(seen["state"], "finished", "{seen:#}");
        let noted = fs::read_to_string(&self.notes).unwrap();
        assert_eq!(noted.matches("start").count(), 1, "{noted}");
        let printed = points(home.ok(&["logs", "1"]).as_bytes());
        assert_eq!(printed.len(), count);
        let expected: Vec<f64> = printed.iter().map(|point| point.loss).collect();
        let series = home.json(&["metrics", "1", "loss"])["series"][0].clone();
        assert_eq!(series["values"], serde_json::json!(expected), "{series}");
    }
}

#[test]
fn a_job_that_fills_the_disk_ends_with_its_code_and_the_reason() {
    let Some(small) = Small::mounted(400) else {
        return;
    };
    let home = home_on(&small);
    let big = small.path().join("big");
    added(
        &home,
        "f",
        &format!(
            "collection: f\n+f: {{command: '{} print loss 4 -- fill {}'}}\n",
            job(),
            big.display()
        ),
    );
    home.ok(&["start", "1"]);
    // The supervisor notes how much room is left when the job ends.
    until("the run to end on its node", || {
        let has_begun = big.exists();
        let (jobs, shims) = (home.alive(Part::Job), home.alive(Part::Shim));
        if has_begun && jobs.is_empty() && shims.is_empty() {
            Ok(())
        } else {
            Err((jobs, shims, home.logs()))
        }
    });
    // The databases are on the same disk: where the job was faster than the first point, they wait
    // for room.
    fs::remove_file(big).unwrap();
    let seen = home.until_state(1, "crashed");
    assert_eq!(seen["exit_code"], 28, "{seen:#}");
    assert!(
        seen["reason"].as_str().unwrap().contains("disk full"),
        "{seen:#}"
    );
}

#[test]
fn metrics_printed_while_the_disk_was_full_are_known_afterwards() {
    let Some(small) = Small::mounted(400) else {
        return;
    };
    let held = Held::new();
    let home = home_on(&small);
    // The output fits into the block that the log has from the first line on. The
    // records of sixty lines, one by one, need another block.
    held.start(&home, "1,60,1,15,0,0,0,exit:0");
    small.fill();
    held.release();
    held.until_done(&home);
    small.empty();
    held.is_known(&home, 60);
}

/// A job on a disk with room, under a daemon that has none left.
struct Pressed {
    _bound: Bound,
    home: Home,
    small: Small,
    held: Held,
}

impl Pressed {
    /// `None` when this user may not mount.
    fn running() -> Option<Self> {
        let small = Small::mounted(96)?;
        let held = Held::new();
        let mut home = home_on(&small);
        let node = held.outside.path().join("node");
        fs::create_dir(&node).unwrap();
        fs::set_permissions(&node, fs::Permissions::from_mode(0o700)).unwrap();
        let bound = Bound::at(&home.base().join("node"), &node);
        // Its log needs room all the time.
        home.set_env("NERONET_LOG", "debug");
        held.start(&home, "1,2000,1,1,0,0,0,exit:0");
        Some(Self {
            _bound: bound,
            home,
            small,
            held,
        })
    }

    /// Fills the disk and lets the job print.
    fn press(&self) {
        self.small.fill();
        self.held.release();
        until("the daemon to say that it has no room", || {
            let ran = self.home.run(&["status"]);
            let said = ran.err.contains("no space left for") && ran.err.contains("the runs go on");
            if ran.code == Some(0) && said {
                Ok(())
            } else {
                Err((ran, self.home.logs()))
            }
        });
    }

    /// Frees the disk: every point is known, none twice.
    fn relieve(self) {
        self.small.empty();
        self.held.is_known(&self.home, 2000);
        until("nothing more to be said of it", || {
            let ran = self.home.run(&["status"]);
            if ran.err.is_empty() { Ok(()) } else { Err(ran) }
        });
        self.home.ok(&["rule", "add", "1", "warn: runtime > 1h"]);
    }
}

#[test]
fn a_daemon_whose_databases_have_no_room_waits_for_it() {
    let Some(pressed) = Pressed::running() else {
        return;
    };
    let home = &pressed.home;
    let daemon = home.until_alive(Part::Daemon);
    pressed.press();
    // Blocks in use may have room for some more.
    let mut tries = 0;
    let refused = until("an order to be refused", || {
        tries += 1;
        let rule = format!("warn: runtime > {tries}h");
        let ran = home.run(&["rule", "add", "1", rule.as_str()]);
        if ran.code == Some(0) {
            Err(ran)
        } else {
            Ok(ran)
        }
    });
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.err.contains("no space left for"), "{refused:#?}");
    assert!(refused.err.contains("the runs go on"), "{refused:#?}");
    let told = home.run(&["daemon", "status"]);
    assert!(told.err.contains("no space left for"), "{told:#?}");
    let mut watching = home.spawn(&["status", "--watch"]);
    let mut note = String::new();
    BufReader::new(watching.stderr.take().unwrap())
        .read_line(&mut note)
        .unwrap();
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(note.starts_with("note: no space left for"), "{note}");
    pressed.held.until_done(home);
    // The node is not reported as the fault.
    let nodes = home.ok(&["status", "nodes"]);
    assert!(!nodes.contains("out of reach"), "{nodes}");
    assert_eq!(home.alive(Part::Daemon), [daemon], "{}", home.logs());
    pressed.relieve();
}

#[test]
fn a_run_that_fills_the_disk_of_daemon_and_node_can_be_aborted() {
    let Some(small) = Small::mounted(96) else {
        return;
    };
    let home = home_on(&small);
    let held = Held::new();
    held.start(&home, "1,2000,1,1000,0,0,0,exit:0");
    small.fill();
    held.release();
    // The databases have no room either, sooner or later.
    let mut hours = 0;
    until("an order to be refused", || {
        hours += 1;
        let rule = format!("warn: runtime > {hours}h");
        let ran = home.run(&["rule", "add", "1", rule.as_str()]);
        if ran.code == Some(1) {
            Ok(())
        } else {
            Err(ran)
        }
    });
    let ran = home.run(&["abort", "1"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    until("the job's end", || {
        let alive = home.alive(Part::Job);
        if alive.is_empty() {
            Ok(())
        } else {
            Err((alive, home.logs()))
        }
    });
    small.empty();
    let seen = home.until_state(1, "aborted");
    assert!(
        seen["reason"].as_str().unwrap().contains("abort"),
        "{seen:#}"
    );
}

/// Three runs on this disk: one for a person to end, one for a rule, one for its
/// time limit. `fill` leaves no room for a new file; all three end.
fn every_end_comes_without_room(small: Option<Small>, fill: fn(&Small)) {
    let Some(small) = small else {
        return;
    };
    let home = home_on(&small);
    home.configure("nodes: {local: {min_free: 1M, cpus: 4}}\n");
    let outside = tempfile::tempdir().unwrap();
    let go = outside.path().join("go");
    let (job, go) = (job(), go.display());
    let yaml = format!(
        "collection: f\n\
         +person: {{command: '{job} print x 0 -- await {go}-never'}}\n\
         +rule: {{command: '{job} print x 0 -- await {go} -- print x 1 -- await {go}-never', rules: [{{abort: x > 0}}]}}\n\
         +limit: {{command: '{job} print x 0 -- await {go}-never', resources: {{time: 8s}}}}\n"
    );
    added(&home, "f", &yaml);
    home.ok(&["start", "1-3"]);
    for id in 1..=3 {
        home.until_state(id, "running");
    }
    until("three watched jobs", || {
        let alive = (home.alive(Part::Watcher).len(), home.alive(Part::Job).len());
        if alive == (3, 3) { Ok(()) } else { Err(alive) }
    });
    fill(&small);
    fs::write(go.to_string(), "").unwrap();
    let ran = home.run(&["abort", "1"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    until("the end of all jobs", || {
        let alive = home.alive(Part::Job);
        if alive.is_empty() {
            Ok(())
        } else {
            Err((alive, home.logs()))
        }
    });
    small.empty();
    for (id, state, reason) in [
        (1, "aborted", "abort"),
        (2, "aborted", "x > 0"),
        (3, "timeout", "8"),
    ] {
        let seen = home.until_state(id, state);
        let told = seen["reason"].as_str().unwrap();
        assert!(told.contains(reason), "{seen:#}");
    }
}

#[test]
fn abort_rules_and_time_limits_end_runs_on_a_disk_without_inodes() {
    every_end_comes_without_room(Small::with_inodes(96, 2000), Small::fill_inodes);
}

#[test]
fn abort_rules_and_time_limits_end_runs_on_a_full_disk() {
    every_end_comes_without_room(Small::mounted(96), Small::fill);
}

#[test]
fn abort_rules_and_time_limits_end_runs_on_a_full_disk_with_reserved_blocks() {
    every_end_comes_without_room(Small::ext4(160), Small::fill);
}

#[test]
fn a_daemon_that_is_killed_without_room_comes_back_without() {
    let Some(pressed) = Pressed::running() else {
        return;
    };
    pressed.press();
    pressed.home.kill(Part::Daemon);
    let seen = pressed.home.experiment_json(1);
    assert!(seen["state"] == "running", "{seen:#}");
    pressed.relieve();
}

#[test]
fn a_quota_that_is_used_up_refuses_commands_and_ends_nothing() {
    let home = Home::new();
    added(&home, "q", "collection: q\n+q: {command: 'true'}\n");
    let daemon = home.until_alive(Part::Daemon);
    // No quota of the file system: only the call tells, and there is room for everything else.
    let mut tracer = nero_tests::tracer::fail(daemon.pid, "pwrite64", "EDQUOT");
    let refused = home.run(&["note", "1", "first"]);
    assert!(refused.err.contains("no space left"), "{refused:?}");
    let stop = rustix::process::Pid::from_child(&tracer);
    rustix::process::kill_process(stop, rustix::process::Signal::TERM).unwrap();
    tracer.wait().unwrap();
    until("room", || {
        let noted = home.run(&["note", "1", "second"]);
        match noted.code {
            Some(0) => Ok(()),
            _ => Err((noted, home.logs())),
        }
    });
    assert_eq!(home.until_alive(Part::Daemon), daemon);
    assert_eq!(home.experiment_json(1)["note"], "second");
}
