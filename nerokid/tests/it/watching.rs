//! A live run is followed, whatever happens to the watcher or the files.

use std::fs;
use std::process::{Command, Stdio};

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{
    LogTruncated, Notice, RecordKind, RuleFired, RuleHeld, RulesApplied, RulesRefused, Sample,
    StopCause, TakenOver, WatchEnded, WatchStarted,
};
use nero_journal::{Clocks, Segment, Writer};
use nero_wire::v1::{Cancel, CohortNumber, Monitor, Rule, RuleSet, RunSpec};

use crate::rig::{Full, Process, Rig, doorbell, until};

pub fn with_rule(action: &str, text: &str) -> RunSpec {
    RunSpec {
        rules: Some(set(1, action, text)),
        monitor: Some(Monitor {
            interval_ms: 100,
            grace_ms: 3000,
            ..Monitor::default()
        }),
        ..RunSpec::default()
    }
}

fn set(version: u64, action: &str, text: &str) -> RuleSet {
    RuleSet {
        version,
        rules: vec![Rule {
            id: 7,
            action: action.to_owned(),
            text: text.to_owned(),
            author: "ada".to_owned(),
            ..Rule::default()
        }],
        cohort: Vec::new(),
    }
}

#[test]
fn printed_numbers_become_points_and_the_end_is_told() {
    let mut rig = Rig::new(RunSpec::default());
    rig.print("epoch 1: train loss = 0.9\n");
    let mut watcher = rig.watcher(None);
    rig.points_are(2);
    rig.print("epoch 2: train loss = 0.5\nepoch 3: tra");
    rig.points_are(4);
    rig.print("in loss = 0.25");
    rig.end();
    assert!(watcher.ended().success());
    let points = rig.points();
    let losses: Vec<(f64, f64)> = points
        .iter()
        .filter(|(name, ..)| name == "train loss")
        .map(|(_, step, _, value)| (*step, *value))
        .collect();
    assert_eq!(losses, [(1.0, 0.9), (2.0, 0.5), (3.0, 0.25)]);
    let started = rig.all::<WatchStarted>(RecordKind::WatchStarted);
    let environment = started[0].environment.as_ref().unwrap();
    assert!(environment.cpus > 0 && environment.memory_bytes > 0);
    assert!(!environment.host.is_empty() && !environment.kernel.is_empty());
    let ended = rig.all::<WatchEnded>(RecordKind::WatchEnded);
    assert!(ended[0].complete);
    let size = fs::metadata(rig.inc().join("stdout.log")).unwrap().len();
    assert_eq!(ended[0].read_to[0].offset, size);
}

#[test]
fn every_point_is_there_once_though_watchers_are_killed_all_the_time() {
    const LINES: usize = 40_000;
    let mut rig = Rig::new(RunSpec::default());
    let log = |name: &str| {
        let mut options = fs::OpenOptions::new();
        options.append(true).open(rig.inc().join(name)).unwrap()
    };
    let script = format!(
        "i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo \"epoch $i: n=$i\"; echo \"m $i\" >&2; done"
    );
    let job = Command::new("/bin/sh")
        .args(["-c", &script])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(log("stdout.log"))
        .stderr(log("stderr.log"))
        .spawn();
    let mut job = Process(job.unwrap());
    let mut kills = 0;
    let mut seen = 0;
    while job.0.try_wait().unwrap().is_none() || kills < 8 {
        let mut watcher = rig.watcher(None);
        until("further points", || {
            let points = rig.points().len();
            let all = points == 3 * LINES;
            let more = points > seen || all;
            seen = points;
            more.then_some(()).ok_or_else(|| format!("{seen} points"))
        });
        watcher.kill();
        kills += 1;
    }
    let mut last = rig.watcher(None);
    rig.end();
    assert!(last.ended().success());
    let points = rig.points();
    for (name, first) in [("n", 1.0), ("epoch", 1.0), ("m", 1.0)] {
        let values: Vec<(f64, f64, u32)> = points
            .iter()
            .filter(|(other, ..)| other == name)
            .map(|(_, step, generation, value)| (*value, *step, *generation))
            .collect();
        let want: Vec<(f64, f64, u32)> = (0..LINES)
            .map(|line| (line as f64 + first, line as f64 + 1.0, 0))
            .collect();
        assert!(
            values == want,
            "{name}: {} of {LINES}, {kills} kills",
            values.len()
        );
    }
}

#[test]
fn a_table_and_a_step_go_on_in_the_watcher_after_a_killed_one() {
    let mut rig = Rig::new(RunSpec::default());
    let mut watcher = rig.watcher(None);
    rig.print("Epoch 2/3\nsome text\nx,loss\n1,0.5\n");
    rig.points_are(3);
    watcher.kill();
    let mut watcher = rig.watcher(None);
    rig.print("2,0.25\nacc: 0.9\n");
    let points: Vec<_> = rig
        .points_are(6)
        .into_iter()
        .map(|(name, step, segment, value)| (format!("{name}={value}"), step, segment))
        .collect();
    let want = ["Epoch=2", "x=1", "loss=0.5", "x=2", "loss=0.25", "acc=0.9"];
    assert_eq!(points, want.map(|pair| (pair.to_owned(), 2.0, 0)));
    rig.end();
    assert!(watcher.ended().success());
}

#[test]
fn a_second_watcher_leaves_quietly() {
    let mut rig = Rig::new(RunSpec::default());
    rig.print("loss=1\n");
    let _first = rig.watcher(None);
    rig.points_are(1);
    assert!(rig.watcher(None).ended().success());
    assert_eq!(rig.records().len(), 1);
}

#[test]
fn a_watcher_of_a_finished_run_has_nothing_to_do() {
    let mut rig = Rig::new(RunSpec::default());
    let mut watcher = rig.watcher(None);
    rig.end();
    assert!(watcher.ended().success());
    assert!(rig.watcher(None).ended().success());
    assert_eq!(rig.records().len(), 1);
}

#[test]
fn a_run_without_spec_is_an_error() {
    let rig = Rig::new(RunSpec::default());
    fs::write(rig.folder.path().join("spec"), b"rubbish").unwrap();
    assert!(!rig.watcher(None).ended().success());
}

#[test]
fn cut_and_replaced_logs_are_read_again() {
    let mut rig = Rig::new(RunSpec::default());
    rig.print("loss=1\n");
    let mut watcher = rig.watcher(None);
    rig.points_are(1);
    rig.stdout.set_len(0).unwrap();
    rig.wait_for::<LogTruncated>(RecordKind::LogTruncated, |one| one.part == 1);
    rig.print("loss=2\n");
    rig.points_are(2);
    fs::rename(rig.inc().join("stdout.log"), rig.inc().join("away")).unwrap();
    fs::write(rig.inc().join("stdout.log"), "loss=3\n").unwrap();
    rig.wait_for::<LogTruncated>(RecordKind::LogTruncated, |one| one.part == 2);
    rig.points_are(3);
    fs::remove_file(rig.inc().join("stdout.log")).unwrap();
    rig.wait_for::<Notice>(RecordKind::Notice, |one| one.text.contains("was deleted"));
    rig.end();
    assert!(watcher.ended().success());
    let ended = rig.all::<WatchEnded>(RecordKind::WatchEnded);
    assert_eq!(ended[0].read_to[0].part, 2);
}

#[test]
fn a_rule_that_holds_is_recorded_cancelled_and_rung_once() {
    let mut rig = Rig::new(with_rule("abort", "loss > 5"));
    let bell = doorbell();
    rig.shim = bell.process;
    rig.claim_anew();
    let mut watcher = rig.watcher(None);
    rig.print("loss=1\n");
    rig.points_are(1);
    assert!(!rig.control("cancel.1").exists());
    rig.print("loss=7.31\nloss=1\n");
    until("a cancel request", || {
        let path = rig.control("cancel.1");
        path.exists().then_some(()).ok_or_else(|| "none".to_owned())
    });
    let cancel: Cancel = frame::read(FrameKind::Cancel, &rig.control("cancel.1")).unwrap();
    assert_eq!(cancel.cause, StopCause::Rule as u32);
    assert_eq!(
        (cancel.rule, cancel.author.as_str(), cancel.grace_ms),
        (7, "ada", 3000)
    );
    assert_eq!(cancel.token, rig.spec.token);
    until("the bell", || {
        bell.rung
            .exists()
            .then_some(())
            .ok_or_else(|| "silence".to_owned())
    });
    let fired = rig.all::<RuleFired>(RecordKind::RuleFired);
    assert_eq!((fired.len(), fired[0].values.as_str()), (1, "loss = 7.31"));
    watcher.kill();

    // Another watcher neither fires the rule nor writes the cancel request again.
    let mut watcher = rig.watcher(None);
    rig.print("loss=9\n");
    rig.points_are(4);
    rig.end();
    assert!(watcher.ended().success());
    assert_eq!(rig.all::<RuleFired>(RecordKind::RuleFired).len(), 1);
    assert!(!rig.control("cancel.2").exists());
}

#[test]
fn a_rule_ends_a_run_whose_shim_is_dead_and_not_reaped() {
    let mut rig = Rig::new(with_rule("abort", "loss > 5"));
    // The shim is dead, and its parent has not waited for it: a zombie that accepts signals.
    rig.shim.0.kill().unwrap();
    until("a zombie", || match rig.shim.id().life() {
        Ok(nero_model::process::Life::Zombie) => Ok(()),
        life => Err(format!("{life:?}")),
    });
    let launcher = doorbell();
    let token = nero_model::RunToken::from_slice(&rig.spec.token).unwrap();
    let path = rig.inc().join("launcher-00000000000000aa.seg");
    let mut taken = Segment::create(&path, Writer::Launcher, token.as_bytes(), 1).unwrap();
    let record = TakenOver {
        launcher: Some(launcher.process.id().into()),
        job: Some(rig.job.id().into()),
        is_parent: false,
    };
    taken
        .append(RecordKind::TakenOver, Clocks::now(), &record)
        .unwrap();
    let mut watcher = rig.watcher(None);
    rig.print("loss=7\n");
    until("the launcher's bell", || {
        launcher
            .rung
            .exists()
            .then_some(())
            .ok_or_else(|| "silence".to_owned())
    });
    watcher.kill();
}

#[test]
fn a_rule_ends_the_run_that_fills_the_disk() {
    let Some(full) = Full::mounted() else { return };
    let mut rig = Rig::within(with_rule("abort", "loss > 5"), &full.0);
    let bell = doorbell();
    rig.shim = bell.process;
    rig.claim_anew();
    let mut watcher = rig.watcher(None);
    rig.print("loss=1\n");
    rig.points_are(1);
    full.fill();
    // The line fits into the log's last block.
    rig.print("loss=7\n");
    until("the bell", || {
        bell.rung
            .exists()
            .then_some(())
            .ok_or_else(|| format!("{:?}", rig.control("cancel.1").exists()))
    });
    assert!(rig.control("cancel.1").exists());
    watcher.kill();
}

/// A cancel request of a neromum on another host, which cannot signal processes
/// here.
#[test]
fn a_cancel_made_from_another_host_is_passed_on() {
    let mut rig = Rig::new(RunSpec::default());
    let bell = doorbell();
    rig.shim = bell.process;
    rig.claim_anew();
    let mut watcher = rig.watcher(None);
    rig.print("loss=1\n");
    rig.points_are(1);
    assert!(!bell.rung.exists());
    let cancel = |number: u32| {
        let path = rig.control(&format!("cancel.{number}"));
        frame::create(FrameKind::Cancel, &path, &Cancel::default()).unwrap();
        until("the bell", || {
            bell.rung
                .exists()
                .then_some(())
                .ok_or_else(|| "silence".to_owned())
        });
        std::fs::remove_file(&bell.rung).unwrap();
    };
    cancel(1);
    cancel(2);
    watcher.kill();
    // Nothing shows whether its writer rang.
    let mut watcher = rig.watcher(None);
    until("the bell once more", || {
        bell.rung
            .exists()
            .then_some(())
            .ok_or_else(|| "silence".to_owned())
    });
    watcher.kill();
}

#[test]
fn a_stop_that_nobody_carries_out_is_told_once() {
    let mut rig = Rig::new(RunSpec::default());
    // It hears the bell, and records nothing.
    let bell = doorbell();
    rig.shim = bell.process;
    rig.claim_anew();
    let mut watcher = rig.watcher(None);
    rig.print("loss=1\n");
    rig.points_are(1);
    let path = rig.control("cancel.1");
    frame::create(FrameKind::Cancel, &path, &Cancel::default()).unwrap();
    // It is rung again: its disk may not have answered.
    for _ in 0..3 {
        until("the bell", || {
            fs::remove_file(&bell.rung).map_err(|error| error.to_string())
        });
    }
    let told = rig.wait_for::<Notice>(RecordKind::Notice, |one| {
        one.text.contains("a stop was asked for")
    });
    let supervisor = format!("(process {})", rig.shim.id().pid);
    assert!(told.text.contains(&supervisor), "{}", told.text);
    rig.end();
    assert!(watcher.ended().success());
    assert_eq!(rig.all::<Notice>(RecordKind::Notice).len(), 1);
}

#[test]
fn a_watcher_killed_between_record_and_cancel_is_made_good() {
    let mut rig = Rig::new(with_rule("abort", "loss > 5"));
    rig.print("loss=7\n");
    let mut watcher = rig.watcher(None);
    rig.wait_for::<RuleFired>(RecordKind::RuleFired, |_| true);
    until("a cancel request", || {
        let gone = fs::remove_file(rig.control("cancel.1"));
        gone.map_err(|error| error.to_string())
    });
    watcher.kill();
    let mut watcher = rig.watcher(None);
    until("the cancel request again", || {
        let path = rig.control("cancel.1");
        path.exists().then_some(()).ok_or_else(|| "none".to_owned())
    });
    rig.end();
    assert!(watcher.ended().success());
    assert_eq!(rig.all::<RuleFired>(RecordKind::RuleFired).len(), 1);
}

#[test]
fn a_cancel_of_somebody_else_does_not_stand_in_the_way() {
    let mut rig = Rig::new(with_rule("abort", "loss > 5"));
    frame::create(
        FrameKind::Cancel,
        &rig.control("cancel.1"),
        &Cancel::default(),
    )
    .unwrap();
    let _watcher = rig.watcher(None);
    rig.print("loss=7\n");
    until("a second cancel request", || {
        let path = rig.control("cancel.2");
        path.exists().then_some(()).ok_or_else(|| "none".to_owned())
    });
}

#[test]
fn time_alone_makes_a_rule_hold() {
    let mut rig = Rig::new(with_rule("notify", "runtime > 0.5s"));
    let _watcher = rig.watcher(None);
    let fired = rig.wait_for::<RuleFired>(RecordKind::RuleFired, |_| true);
    assert!(
        fired.values.starts_with("runtime = 0.5"),
        "{}",
        fired.values
    );
    rig.end();
}

#[test]
fn a_newer_rule_set_replaces_the_older_and_a_bad_rule_of_it_is_off_alone() {
    let mut rig = Rig::new(with_rule("warn", "loss > 100"));
    let mut watcher = rig.watcher(None);
    rig.wait_for::<RulesApplied>(RecordKind::RulesApplied, |one| one.version == 1);
    let mut newer = set(2, "warn", "loss > 5");
    newer.rules.push(nero_wire::v1::Rule {
        id: 8,
        text: "param.nope > 5".to_owned(),
        ..newer.rules[0].clone()
    });
    frame::create(FrameKind::Rules, &rig.control("rules.2"), &newer).unwrap();
    let applied = rig.wait_for::<RulesApplied>(RecordKind::RulesApplied, |one| one.version == 2);
    let off = [(8, "param.nope > 5", "no parameter is called `nope`")];
    let said = applied.off.iter();
    let said: Vec<_> = said.map(|off| (off.rule, &*off.text, &*off.why)).collect();
    assert_eq!(said, off);
    std::fs::write(rig.control("rules.3"), "no frame").unwrap();
    rig.wait_for::<RulesRefused>(RecordKind::RulesRefused, |one| one.version == 3);
    rig.print("loss=7\n");
    let fired = rig.wait_for::<RuleFired>(RecordKind::RuleFired, |_| true);
    assert_eq!((fired.version, fired.rule), (2, 7));
    watcher.kill();

    // The next watcher uses the second set and reports nothing twice.
    let mut watcher = rig.watcher(None);
    rig.print("loss=8\n");
    rig.points_are(2);
    rig.end();
    assert!(watcher.ended().success());
    assert_eq!(rig.all::<RulesApplied>(RecordKind::RulesApplied).len(), 2);
    assert_eq!(rig.all::<RulesRefused>(RecordKind::RulesRefused).len(), 1);
    assert_eq!(rig.all::<RuleFired>(RecordKind::RuleFired).len(), 1);
}

#[test]
fn a_rule_over_peers_is_decided_at_the_line_by_the_last_number_also_after_a_kill() {
    let text = "loss@3 > median(peers.loss@3)";
    let mut rig = Rig::new(with_rule("warn", text));
    let numbered = |version: u64, value: Option<f64>, peers: u64| RuleSet {
        cohort: vec![CohortNumber {
            text: "median(peers.loss@3)".to_owned(),
            value,
            peers,
            at_ms: 1_795_176_000_000,
        }],
        ..set(version, "warn", text)
    };
    let send = |rig: &Rig, set: &RuleSet| {
        let file = rig.control(&format!("rules.{}", set.version));
        frame::create(FrameKind::Rules, &file, set).unwrap();
        rig.wait_for::<RulesApplied>(RecordKind::RulesApplied, |one| one.version == set.version);
    };
    let mut watcher = rig.watcher(None);
    send(&rig, &numbered(2, None, 0));
    send(&rig, &numbered(3, Some(0.5), 4));
    watcher.kill();
    let mut watcher = rig.watcher(None);
    rig.print("epoch 2: loss = 0.9\nepoch 3: loss = 0.4\n");
    rig.points_are(4);
    assert_eq!(rig.all::<RuleFired>(RecordKind::RuleFired).len(), 0);
    // The peers became better than what it had at step 3.
    rig.print("epoch 4: loss = 0.1\n");
    send(&rig, &numbered(4, Some(0.25), 5));
    let fired = rig.wait_for::<RuleFired>(RecordKind::RuleFired, |_| true);
    assert_eq!(fired.version, 4);
    assert_eq!(
        fired.values,
        "loss@3 = 0.4, median(peers.loss@3) = 0.25 (of 5 peers at 2026-11-20T12:00:00Z)"
    );
    rig.end();
    assert!(watcher.ended().success());
    assert_eq!(rig.all::<RuleFired>(RecordKind::RuleFired).len(), 1);
}

#[test]
fn a_file_with_a_number_above_all_versions_keeps_no_newer_rules_out() {
    let mut rig = Rig::new(with_rule("warn", "loss > 100"));
    let garbage = format!("rules.{}", u64::MAX);
    std::fs::create_dir_all(rig.control("")).unwrap();
    std::fs::write(rig.control(&garbage), "no frame").unwrap();
    let mut watcher = rig.watcher(None);
    rig.wait_for::<RulesApplied>(RecordKind::RulesApplied, |one| one.version == 1);
    for version in [2, 3] {
        let newer = set(version, "warn", &format!("loss > {version}"));
        let file = rig.control(&format!("rules.{version}"));
        frame::create(FrameKind::Rules, &file, &newer).unwrap();
        rig.wait_for::<RulesApplied>(RecordKind::RulesApplied, |one| one.version == version);
    }
    rig.end();
    assert!(watcher.ended().success());
    assert_eq!(rig.all::<RulesRefused>(RecordKind::RulesRefused).len(), 0);
}

#[test]
fn the_tree_is_sampled() {
    let busy = Command::new("/bin/sh")
        .args(["-c", "while :; do :; done"])
        .env_clear()
        .spawn();
    let mut rig = Rig::with_job(with_rule("warn", "cpu > 1000"), Process(busy.unwrap()));
    rig.print("hello\n");
    let mut watcher = rig.watcher(None);
    let sample = rig.wait_for::<Sample>(RecordKind::Sample, |one| one.cpu_ms >= 100);
    assert_eq!((sample.processes, sample.threads), (1, 1));
    assert!(sample.rss_bytes > 100_000 && sample.peak_rss_bytes >= sample.rss_bytes);
    assert_eq!(sample.stdout_bytes, 6);
    rig.wait_for::<Sample>(RecordKind::Sample, |one| one.cpu_cores > 0.0);
    rig.end();
    assert!(watcher.ended().success());
}

#[test]
fn a_full_disk_delays_and_loses_nothing() {
    const LINES: usize = 2000;
    let mut rig = Rig::new(RunSpec::default());
    // Too large a file is refused like a full disk; the limit can be lifted.
    let mut watcher = rig.watcher_by(&[
        "/bin/sh",
        "-c",
        "trap '' XFSZ; ulimit -S -f 4; exec \"$@\"",
        "sh",
    ]);
    let text: String = (1..=LINES).map(|line| format!("loss={line}\n")).collect();
    rig.print(&text);
    let pid = rustix::process::Pid::from_raw(watcher.0.id() as i32);
    // The bytes of a refused write are cut off again, so the file shows nothing of it.
    until("a write that was cut", || {
        let io = format!("/proc/{}/io", watcher.0.id());
        let io = std::fs::read_to_string(io).unwrap_or_default();
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: "));
        match written.and_then(|bytes| bytes.parse::<u64>().ok()) {
            Some(bytes) if bytes > 1000 => Ok(()),
            _ => Err(io),
        }
    });
    rig.print("loss=0\n");
    assert!(rig.points().len() < LINES);
    let free = rustix::process::Rlimit {
        current: None,
        maximum: None,
    };
    rustix::process::prlimit(pid, rustix::process::Resource::Fsize, free).unwrap();
    rig.points_are(LINES + 1);
    rig.end();
    assert!(watcher.ended().success());
    let values: Vec<f64> = rig.points().iter().map(|point| point.3).collect();
    let want: Vec<f64> = (1..=LINES).map(|line| line as f64).chain([0.0]).collect();
    assert_eq!(values, want);
}

#[test]
fn an_endless_line_takes_little_memory() {
    const MEGABYTES: usize = 64;
    let mut rig = Rig::new(RunSpec::default());
    let mut watcher = rig.watcher(None);
    let block = "x".repeat(1024 * 1024);
    for _ in 0..MEGABYTES {
        rig.print(&block);
    }
    rig.print("\nloss=1\n");
    rig.points_are(1);
    let peak = watcher.peak_rss_bytes();
    assert!(peak < 48 * 1024 * 1024, "{peak} bytes at most");
    rig.end();
    assert!(watcher.ended().success());
}

#[test]
fn a_new_watcher_knows_what_the_killed_one_saw() {
    let mut spec = with_rule(
        "abort",
        "loss > 5 for 2s && n@2 == 20 && min(loss, 10m) == 6",
    );
    let mut other = spec.rules.clone().unwrap().rules[0].clone();
    other.id = 8;
    other.text = "loss > 5 for 10m".to_owned();
    other.action = "warn".to_owned();
    spec.rules.as_mut().unwrap().rules.push(other);
    let mut rig = Rig::new(spec);
    let mut watcher = rig.watcher(None);
    rig.print("step 1: n=10 loss=6\nstep 2: n=20 loss=7\nstep 3: n=30 loss=8\n");
    rig.wait_for::<RuleHeld>(RecordKind::RuleHeld, |held| held.rule == 7);
    rig.points_are(9);
    watcher.kill();
    let mut watcher = rig.watcher(None);
    let fired = rig.wait_for::<RuleFired>(RecordKind::RuleFired, |_| true);
    assert_eq!((fired.rule, fired.times), (7, 1));
    let said = "loss = 8, n@2 = 20, min(loss, 10m) = 6";
    assert!(fired.values.contains(said), "{}", fired.values);
    rig.end();
    assert!(watcher.ended().success());
    assert_eq!(rig.all::<RuleFired>(RecordKind::RuleFired).len(), 1);
}

#[test]
fn a_rule_that_comes_late_knows_the_points_before_it() {
    let mut rig = Rig::new(with_rule("warn", "other > 1"));
    let mut watcher = rig.watcher(None);
    rig.print("epoch 1: loss=6\nepoch 2: loss=3\nepoch 3: loss=9\n");
    rig.points_are(6);
    let late = set(
        2,
        "abort",
        "loss@2 == 3 && max(loss, 1h) == 9 && count(loss) == 3",
    );
    frame::create(FrameKind::Rules, &rig.control("rules.2"), &late).unwrap();
    watcher.kill();
    let mut watcher = rig.watcher(None);
    let fired = rig.wait_for::<RuleFired>(RecordKind::RuleFired, |_| true);
    assert_eq!(
        fired.values,
        "loss@2 = 3, max(loss, 1h) = 9, count(loss) = 3"
    );
    rig.end();
    assert!(watcher.ended().success());
}
