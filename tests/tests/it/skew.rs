//! Builds of two revisions in any mix: an upgrade touches no job, older parts
//! are steered and followed by newer ones, and the way back works or is refused
//! with everything left as it was.
//!
//! The older build is this one under another name, or that of an earlier
//! revision: `cargo xtask skew REVISION`.

mod links;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use nero_model::process::{ProcessId, Stat};
use nero_tests::home::end;
use nero_tests::previous::Builds;
use nero_tests::{Home, Part, until};
use serde_json::Value;

use crate::ssh::{Lab, release};
use crate::story::{job, make_pipe};

/// A home with experiments that note their start, print, wait for a pipe, print
/// again, note their end and exit with their number.
pub(crate) struct Mix {
    pub home: Home,
    builds: Builds,
    notes: PathBuf,
}

impl Mix {
    /// A home with `count` experiments, on the older build.
    pub(crate) fn new(count: u64) -> Self {
        let mut home = Home::new();
        let builds = Builds::of(&home);
        home.use_programs(&builds.older);
        home.configure("nodes: {local: {cpus: 8}}\n");
        let notes = home.path().join("notes");
        let mut yaml = "collection: mix\noutputs: [stdout]\n".to_owned();
        for id in 1..=count {
            let pipe = home.path().join(format!("pipe-{id}"));
            make_pipe(&pipe);
            yaml.push_str(&format!(
                "+e{id}: {{command: {} note {1} start-{id} -- print loss 1 -- hold {2} -- print loss 2 -- note {1} end-{id} -- exit {id}, rules: [{{warn: loss > 1}}]}}\n",
                job(),
                notes.display(),
                pipe.display()
            ));
        }
        let folder = home.experiment("mix", &yaml).display().to_string();
        home.ok(&["add", &folder]);
        Self {
            home,
            builds,
            notes,
        }
    }

    /// Stops the daemon, and runs later commands from the newer build.
    pub(crate) fn upgrade(&mut self) {
        self.home.ok(&["daemon", "stop"]);
        self.home.use_programs(&self.builds.newer);
    }

    /// Stops the daemon, and runs later commands from the older build.
    fn go_back(&mut self) {
        self.home.ok(&["daemon", "stop"]);
        self.home.use_programs(&self.builds.older);
    }

    /// Starts a run and waits until its first line is known.
    pub(crate) fn begin(&self, id: u64) {
        self.home.ok(&["start", &id.to_string()]);
        until("the first metric", || {
            let seen = self.home.experiment_json(id);
            let first = seen["metrics"]["loss"]["last"].as_f64() == Some(1.0);
            if seen["state"] == "running" && first {
                Ok(())
            } else {
                Err((seen, self.home.logs()))
            }
        });
    }

    /// Lets the job go on; it must be waiting for that.
    fn release(&self, id: u64) {
        fs::write(self.home.path().join(format!("pipe-{id}")), "").unwrap();
    }

    /// Lets the job go on and checks that it ran once and everything about it
    /// is known.
    pub(crate) fn ends_well(&self, id: u64) {
        self.release(id);
        self.is_complete(id);
    }

    fn is_complete(&self, id: u64) {
        let seen = self.home.until_state(id, "crashed");
        assert_eq!(seen["exit_code"], id, "{seen:#}");
        let text = id.to_string();
        assert_eq!(self.home.ok(&["logs", &text]), "loss 1\nloss 2\n");
        let values = until("both points", || {
            let series = self.home.json(&["metrics", &text, "loss"])["series"][0].clone();
            let count = series["values"].as_array().map_or(0, Vec::len);
            (count >= 2).then(|| series["values"].clone()).ok_or(series)
        });
        assert_eq!(values, serde_json::json!([1.0, 2.0]));
        let rules = self.home.json(&["rule", "list", &text]);
        assert_eq!(rules["rules"][0]["fired"], 1, "{rules:#}");
        let results = until("the results", || {
            let seen = self.home.experiment_json(id);
            let path = seen["results"].as_str().map(PathBuf::from);
            path.and_then(|path| fs::read_to_string(path.join("stdout.log")).ok())
                .filter(|text| !text.is_empty())
                .ok_or((seen, self.home.logs()))
        });
        assert_eq!(results, "loss 1\nloss 2\n");
        let noted: Vec<String> = self.noted(id);
        assert_eq!(noted, [format!("start-{id}"), format!("end-{id}")]);
    }

    /// Notes of an experiment's job.
    fn noted(&self, id: u64) -> Vec<String> {
        let text = fs::read_to_string(&self.notes).unwrap_or_default();
        let mut all: Vec<String> = text
            .lines()
            .filter_map(|line| line.split(' ').next())
            .filter(|word| word.ends_with(&format!("-{id}")))
            .map(str::to_owned)
            .collect();
        all.sort_by_key(|word| !word.starts_with("start"));
        all
    }

    /// The living job of a run.
    fn job(&self, id: u64) -> ProcessId {
        let text = fs::read_to_string(&self.notes).unwrap();
        let begun = format!("start-{id} ");
        let line = text.lines().rfind(|line| line.starts_with(&begun)).unwrap();
        let pid = line.rsplit(' ').next().unwrap().parse().unwrap();
        ProcessId::of(pid).unwrap()
    }

    /// The parent of a job: its shim, or its launcher once the shim is dead.
    fn above(&self, id: u64) -> ProcessId {
        let stat = Stat::read(self.job(id).pid).unwrap();
        ProcessId::of(stat.ppid).unwrap()
    }

    /// The watcher of a run; waits for it.
    fn watcher(&self, id: u64) -> ProcessId {
        let folder = format!("/runs/{id}/");
        until("the watcher", || {
            let all = self.home.alive(Part::Watcher);
            let its = all.iter().copied().find(|watcher| {
                let line = fs::read(format!("/proc/{}/cmdline", watcher.pid)).unwrap_or_default();
                String::from_utf8_lossy(&line).contains(&folder)
            });
            its.ok_or(all)
        })
    }

    /// Waits until a neromum of another build than this one serves, and returns
    /// it.
    fn another_mum(&self, build: &str) -> ProcessId {
        until("a neromum of another build", || {
            // A command wakes the daemon up, which connects.
            self.home.ok(&["status"]);
            let all = self.home.alive(Part::Mum);
            match all[..] {
                // A process that is just ending has no path any more.
                [one] if !["", build].contains(&&*build_of(one)) => Ok(one),
                _ => Err((all, self.home.logs())),
            }
        })
    }

    fn mum(&self) -> ProcessId {
        self.home.until_alive(Part::Mum)
    }
}

/// The folder that a process was started from: the name of its build.
fn build_of(process: ProcessId) -> String {
    let exe = fs::read_link(format!("/proc/{}/exe", process.pid)).unwrap_or_default();
    let folder = exe.parent().and_then(|folder| folder.file_name());
    folder.unwrap_or_default().to_string_lossy().into_owned()
}

#[test]
fn an_upgrade_replaces_neromum_and_touches_no_job() {
    let mut mix = Mix::new(3);
    mix.begin(1);
    mix.begin(2);
    let older = build_of(mix.mum());
    let parts = [Part::Launcher, Part::Shim, Part::Watcher];
    let kept = |mix: &Mix| parts.map(|part| mix.home.alive(part));
    let before = kept(&mix);
    assert_eq!(before.each_ref().map(Vec::len), [1, 2, 2]);

    mix.upgrade();
    let newer = build_of(mix.another_mum(&older));
    for (before, now) in before.iter().zip(kept(&mix)) {
        assert!(
            before.iter().all(|id| now.contains(id)),
            "{before:?} {now:?}"
        );
    }
    // Processes started now are of the newer build; both builds are in `bin/`.
    mix.begin(3);
    assert_eq!(build_of(mix.above(3)), newer);
    assert_eq!(build_of(mix.watcher(3)), newer);
    assert_eq!(build_of(mix.above(1)), older);
    assert_eq!(build_of(mix.watcher(1)), older);
    let bin = mix.home.base().join("node/bin");
    let side_by_side: BTreeSet<String> = fs::read_dir(bin)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    assert_eq!(side_by_side, BTreeSet::from([older.clone(), newer]));

    for id in 1..=3 {
        mix.ends_well(id);
    }
    until("the older launcher to leave", || {
        let all = mix.home.alive(Part::Launcher);
        let left = all.iter().any(|launcher| build_of(*launcher) == older);
        if left { Err(all) } else { Ok(()) }
    });
}

#[test]
fn older_parts_hear_rules_and_cancels_of_the_newer_build() {
    let mut mix = Mix::new(3);
    for id in 1..=3 {
        mix.begin(id);
    }
    let older = build_of(mix.mum());
    mix.upgrade();
    mix.another_mum(&older);
    assert_eq!(build_of(mix.watcher(1)), older);
    mix.home.ok(&["rule", "add", "1", "abort: loss >= 1"]);
    let seen = mix.home.until_state(1, "aborted");
    let reason = seen["reason"].as_str().unwrap();
    assert!(reason.contains("loss >= 1"), "{reason}");
    mix.home.ok(&["abort", "2", "--yes"]);
    let seen = mix.home.until_state(2, "aborted");
    assert!(!seen["reason"].as_str().unwrap().contains("rule"), "{seen}");
    assert_eq!(mix.noted(2), ["start-2"]);
    mix.ends_well(3);
}

#[test]
fn older_parts_that_die_are_replaced() {
    let mut mix = Mix::new(3);
    for id in 1..=3 {
        mix.begin(id);
    }
    let older = build_of(mix.mum());
    let launcher = mix.home.until_alive(Part::Launcher);
    mix.upgrade();
    let newer = build_of(mix.another_mum(&older));

    // The older launcher starts a watcher of its own build, and takes jobs
    // over.
    let watcher = mix.watcher(1);
    end(&[watcher]);
    assert_eq!(build_of(mix.watcher(1)), older);
    end(&[mix.above(2)]);
    until("the launcher to take over", || {
        let above = mix.above(2);
        if above == launcher {
            Ok(())
        } else {
            Err(above)
        }
    });
    mix.ends_well(1);
    mix.ends_well(2);

    // Without the older launcher, the newer one guards the run.
    end(&[launcher]);
    end(&[mix.watcher(3)]);
    assert_eq!(build_of(mix.watcher(3)), newer);
    mix.ends_well(3);
}

#[test]
fn the_way_back_goes_on_with_everything() {
    let mut mix = Mix::new(4);
    mix.begin(1);
    let older = build_of(mix.mum());
    mix.upgrade();
    mix.another_mum(&older);
    mix.begin(2);
    mix.begin(3);
    mix.go_back();
    // The newer neromum may stay: an older neroman can use it.
    mix.home.ok(&["status"]);
    mix.begin(4);
    mix.ends_well(1);
    mix.ends_well(2);
    // A new neromum of the older build reads the files that the newer one left.
    mix.home.kill(Part::Mum);
    until("the older neromum", || {
        mix.home.ok(&["status"]);
        let all = mix.home.alive(Part::Mum);
        match all[..] {
            [one] if build_of(one) == older => Ok(()),
            _ => Err((all, mix.home.logs())),
        }
    });
    mix.ends_well(3);
    mix.upgrade();
    mix.another_mum(&older);
    mix.ends_well(4);
    for id in 1..=4 {
        mix.is_complete(id);
    }
}

#[test]
fn an_older_build_leaves_untouched_what_it_would_forget() {
    let mut mix = Mix::new(1);
    mix.upgrade();
    mix.home.ok(&["start", "1", "--node", "any"]);
    mix.home.until_state(1, "running");
    mix.go_back();
    let database = mix.home.base().join("data/state.db");
    let before = fs::read(&database).unwrap();
    let ran = mix.home.run(&["status", "all"]);
    if ran.code != Some(0) {
        assert_eq!(ran.code, Some(3), "{ran:#?}");
        assert!(ran.err.contains("left untouched"), "{ran:#?}");
        assert_eq!(fs::read(&database).unwrap(), before);
    }
    mix.home.run(&["daemon", "stop"]);
    mix.home.use_programs(&mix.builds.newer);
    let seen = mix.home.experiment_json(1);
    assert_eq!(
        (&seen["state"], &seen["node"]),
        (&"running".into(), &"local".into())
    );
    mix.ends_well(1);
}

#[test]
fn a_database_of_a_later_build_is_left_untouched() {
    let mut mix = Mix::new(1);
    mix.upgrade();
    let database = mix.home.base().join("data/state.db");
    let conn = rusqlite::Connection::open(&database).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    drop(conn);
    let before = fs::read(&database).unwrap();
    let ran = mix.home.run(&["status", "all"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(ran.err.contains("has version 99"), "{ran:#?}");
    assert!(ran.err.contains("use the newer neroman again"), "{ran:#?}");
    assert_eq!(fs::read(&database).unwrap(), before);
}

#[test]
fn commands_of_two_builds_in_turn_replace_nobody() {
    let mut mix = Mix::new(1);
    mix.begin(1);
    let older = build_of(mix.mum());
    mix.upgrade();
    let mum = mix.another_mum(&older);
    let daemon = mix.home.until_alive(Part::Daemon);
    for round in 0..4 {
        let builds = [&mix.builds.older, &mix.builds.newer];
        mix.home.use_programs(builds[round % 2]);
        assert_eq!(mix.home.experiment_json(1)["state"], "running");
        assert_eq!(mix.home.alive(Part::Daemon), [daemon]);
        // Two callers may start one each; the second leaves when it finds the
        // lock held.
        until("one agent, the same", || match mix.home.alive(Part::Mum) {
            alive if alive == [mum] => Ok(()),
            alive => Err(format!("{alive:?}")),
        });
    }
    mix.ends_well(1);
}

/// Two neromans of different builds, of two people's deployments, on one host.
#[test]
fn two_builds_on_one_host_do_not_fight() {
    let mut lab = Lab::new(1);
    let builds = Builds::of(&lab.home);
    if !builds.older_knows_nodes(&mut lab.home) {
        eprintln!("skipped: the older build knows no nodes but local");
        return;
    }
    let pipe = lab.add_held("a");
    lab.start_held("h1");
    let mut other = Home::with_hosts(&lab.hosts);
    other.use_programs(&builds.older);
    other.configure("nodes: {h1: {address: h1}}\n");
    let folder = other.experiment("b", "collection: b\n+b: {command: sleep 600}\n");
    other.ok(&["add", &folder.display().to_string()]);
    other.ok(&["start", "1", "--node", "h1"]);
    other.until_state(1, "running");
    let agents: BTreeSet<i32> = pids(&lab, Part::Mum);
    assert_eq!(agents.len(), 2);
    for _ in 0..3 {
        // Each neroman connects anew, and leaves the other's neromum alone.
        other.ok(&["daemon", "stop"]);
        other.until_state(1, "running");
        connected(&other);
        lab.home.ok(&["daemon", "stop"]);
        lab.until_node("h1", "to be connected", |node| node["connected"] == true);
        assert_eq!(pids(&lab, Part::Mum), agents);
    }
    other.ok(&["abort", "1", "--yes"]);
    other.until_state(1, "aborted");
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
}

#[test]
fn upgrade_and_way_back_over_ssh() {
    let mut lab = Lab::new(1);
    let builds = Builds::of(&lab.home);
    if !builds.older_knows_nodes(&mut lab.home) {
        eprintln!("skipped: the older build knows no nodes but local");
        return;
    }
    lab.home.use_programs(&builds.older);
    let pipe = lab.add_held("a");
    lab.start_held("h1");
    let kept = |lab: &Lab| [Part::Launcher, Part::Shim, Part::Watcher].map(|part| pids(lab, part));
    let (agent, before) = (pids(&lab, Part::Mum), kept(&lab));
    lab.home.ok(&["daemon", "stop"]);
    lab.home.use_programs(&builds.newer);
    let there = |lab: &Lab, old: &BTreeSet<i32>| {
        until("another neromum there", || {
            lab.home.ok(&["status"]);
            let now = pids(lab, Part::Mum);
            if now.len() == 1 && now.is_disjoint(old) {
                Ok(now)
            } else {
                Err((now, lab.home.logs()))
            }
        })
    };
    let newer = there(&lab, &agent);
    for (before, now) in before.iter().zip(kept(&lab)) {
        assert!(now.is_superset(before), "{before:?} {now:?}");
    }
    lab.home.ok(&["daemon", "stop"]);
    lab.home.use_programs(&builds.older);
    there(&lab, &newer);
    release(&pipe);
    lab.ran_once_and_crashed_with_7("a");
}

fn pids(lab: &Lab, part: Part) -> BTreeSet<i32> {
    let all = lab.parts("h1", part);
    all.into_iter().map(|process| process.pid).collect()
}

fn connected(home: &Home) {
    until("the node to be connected", || {
        let seen: Value = home.json(&["node", "list"]);
        let nodes = seen["nodes"].as_array().cloned().unwrap_or_default();
        let up = nodes
            .iter()
            .any(|node| node["name"] == "h1" && node["connected"] == true);
        if up { Ok(()) } else { Err((seen, home.logs())) }
    });
}
