//! Commands of rules, run by the real supervisor and the real watcher, once whatever is killed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nero_journal::v1::{RecordKind, RuleFired, RuleRan, StepAsked, WatchEnded};
use nero_model::paths::act;
use nero_wire::v1::{Monitor, Rule, RuleSet, RunSpec};

use crate::rig::{Process, Rig, until};

/// A supervisor of this command, in this folder.
fn supervisor(folder: &Path, seconds: u64, command: &str) -> Process {
    let mut supervisor = Command::new(env!("CARGO_BIN_EXE_nerokid"));
    supervisor.arg("act").arg(folder).arg(seconds.to_string());
    supervisor.arg(folder).arg(command).stdin(Stdio::null());
    Process(supervisor.spawn().unwrap())
}

/// How the command of a folder ended, and what it printed.
fn end(folder: &Path) -> (String, String) {
    act::read_end(&fs::read(folder.join(act::END)).unwrap())
}

fn has_lines(path: &Path, count: usize) {
    until("lines of a file", || {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.matches('\n').count() == count {
            Ok(())
        } else {
            Err(text)
        }
    });
}

/// No process has this text in its command line.
fn is_gone(text: &str) {
    until("end of processes", || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let lines = all.filter_map(|one| fs::read(one.path().join("cmdline")).ok());
        let mut lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        match lines.find(|line| line.contains(text) && !line.contains("nextest")) {
            Some(line) => Err(line),
            None => Ok(()),
        }
    });
}

#[test]
fn a_command_is_run_once_however_often_its_supervisor_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let command =
        "echo begun >> begun.log; until [ -e go ]; do sleep 0.05; done; echo over; exit 3";
    let mut first = supervisor(folder, 60, command);
    has_lines(&folder.join("begun.log"), 1);
    let mut second = supervisor(folder, 60, command);
    fs::write(folder.join("go"), "").unwrap();
    assert!(first.ended().success() && second.ended().success());
    assert!(supervisor(folder, 60, command).ended().success());
    has_lines(&folder.join("begun.log"), 1);
    assert_eq!(end(folder), ("exit code 3".to_owned(), "over\n".to_owned()));
}

/// A file that cannot be made before the command is no command that ran.
#[test]
fn a_command_that_cannot_be_recorded_is_not_run_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A folder has the lock's name, and is no file to open.
    fs::create_dir(folder.join(act::LOCK)).unwrap();
    let mut supervisor = supervisor(folder, 60, "echo ran > ran.log");
    assert!(!supervisor.ended().success());
    assert!(!folder.join("ran.log").exists());
    let (how, _) = end(folder);
    assert!(how.starts_with("not run: cannot use "), "{how}");
}

#[test]
fn a_command_whose_supervisor_was_killed_is_ended_and_called_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let command = "echo begun >> begun.log; setsid sleep 71503 & exec sleep 71503";
    let mut first = supervisor(folder, 60, command);
    has_lines(&folder.join("begun.log"), 1);
    first.kill();
    assert!(supervisor(folder, 60, command).ended().success());
    is_gone("sleep 71503");
    has_lines(&folder.join("begun.log"), 1);
    assert_eq!(end(folder).0, "interrupted: its supervisor was killed");
}

#[test]
fn a_command_without_end_measure_or_folder_is_ended_with_all_that_it_started() {
    for (command, how) in [
        (
            "trap '' TERM; sleep 71504 & sleep 71504",
            "ended by its limit of 1 s",
        ),
        ("yes", "ended: it printed more than 1 MiB"),
        (
            "i=0; while [ $i -lt 300 ]; do setsid sleep 71504 & i=$((i+1)); done; wait",
            "ended: it had more than 256 processes",
        ),
        // What it leaves behind holds its output open.
        ("echo over; setsid sleep 71504 &", "exit code 0"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let seconds = if how.contains("limit") { 1 } else { 60 };
        assert!(
            supervisor(folder.path(), seconds, command)
                .ended()
                .success()
        );
        let (told, printed) = end(folder.path());
        assert_eq!(told, how, "{command}");
        assert!(printed.len() <= act::KEPT_BYTES);
        is_gone("sleep 71504");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut supervisor = Command::new(env!("CARGO_BIN_EXE_nerokid"));
    supervisor.arg("act").arg(folder.path());
    supervisor.args(["60", "/no/such/folder", "true"]);
    assert!(supervisor.status().unwrap().success());
    let (how, _) = end(folder.path());
    assert!(how.starts_with("not started in /no/such/folder: "), "{how}");
}

/// A step has no limits, and ends when its run does.
#[test]
fn a_command_without_limits_is_ended_by_the_removal_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("step");
    fs::create_dir(&own).unwrap();
    let command = "head -c 3000000 /dev/zero | tr '\\0' x; echo over; exit 5";
    assert!(supervisor(&own, 0, command).ended().success());
    let (how, printed) = end(&own);
    assert_eq!(how, "exit code 5");
    assert!(printed.len() == act::KEPT_BYTES && printed.ends_with("xover\n"));
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let mut supervisor = supervisor(&other, 0, "echo begun > begun.log; sleep 71505");
    has_lines(&other.join("begun.log"), 1);
    fs::rename(&other, folder.path().join("removed")).unwrap();
    is_gone("sleep 71505");
    assert!(!supervisor.ended().success());
}

#[test]
fn a_step_that_the_job_waits_for_is_told_by_each_watcher() {
    let rig = Rig::new(RunSpec::default());
    let control = rig.folder.path().join("control");
    fs::create_dir_all(&control).unwrap();
    let steps = |rig: &Rig| {
        let asked = rig.all::<StepAsked>(RecordKind::StepAsked);
        asked.iter().map(|asked| asked.step).collect::<Vec<_>>()
    };
    let mut watcher = rig.watcher(None);
    for name in ["ask.1.2", "ask.2.9", "ask.1.x", "ask.3"] {
        fs::write(control.join(name), "").unwrap();
    }
    rig.wait_for::<StepAsked>(RecordKind::StepAsked, |asked| asked.step == 2);
    watcher.kill();
    fs::write(control.join("ask.1.4"), "").unwrap();
    let mut watcher = rig.watcher(None);
    rig.wait_for::<StepAsked>(RecordKind::StepAsked, |asked| asked.step == 4);
    watcher.kill();
    assert_eq!(steps(&rig), [2, 4]);
}

/// A run with this rule, whose command works in a folder `work`.
fn with_command(command: &str) -> Rig {
    let rule = Rule {
        id: 7,
        action: "run".to_owned(),
        argument: command.to_owned(),
        text: "loss > 2".to_owned(),
        author: "ada".to_owned(),
        repeat_ms: 1,
        ..Rule::default()
    };
    let rig = Rig::new(RunSpec {
        rules: Some(RuleSet {
            version: 1,
            rules: vec![rule],
            cohort: Vec::new(),
        }),
        monitor: Some(Monitor {
            interval_ms: 100,
            ..Monitor::default()
        }),
        ..RunSpec::default()
    });
    fs::create_dir(rig.folder.path().join("work")).unwrap();
    rig
}

#[test]
fn a_rule_runs_its_command_once_though_its_watchers_are_killed() {
    let command = "echo \"$NERO_RULE: $NERO_VALUE\" >> ran.log; until [ -e go ]; do sleep 0.05; done; echo saved";
    let mut rig = with_command(command);
    let work = rig.folder.path().join("work");
    rig.print("loss=7\n");
    let mut watcher = rig.watcher(None);
    has_lines(&work.join("ran.log"), 1);
    for _ in 0..2 {
        watcher.kill();
        watcher = rig.watcher(None);
    }
    // The rule holds all the time, and does not fire again while its command is at work.
    rig.print("loss=8\n");
    rig.points_are(2);
    rig.end();
    fs::write(work.join("go"), "").unwrap();
    assert!(watcher.ended().success());
    let ran = rig.all::<RuleRan>(RecordKind::RuleRan);
    assert_eq!(
        (
            ran[0].rule,
            ran[0].times,
            ran[0].how.as_str(),
            ran[0].output.as_str()
        ),
        (7, 1, "exit code 0", "saved\n")
    );
    let fired = rig.all::<RuleFired>(RecordKind::RuleFired);
    assert_eq!(fired.len(), ran.len(), "{fired:?} {ran:?}");
    let told = fs::read_to_string(work.join("ran.log")).unwrap();
    assert_eq!(told.lines().count(), ran.len());
    assert!(told.starts_with("loss > 2: loss = 7\n"), "{told}");
    let ended = rig.all::<WatchEnded>(RecordKind::WatchEnded);
    assert!(ended.last().is_some_and(|ended| ended.complete));
}

#[test]
fn a_command_whose_firing_was_recorded_by_a_killed_watcher_is_run_by_the_next_one() {
    let mut rig = with_command("echo ran >> ran.log");
    let work = rig.folder.path().join("work");
    rig.print("loss=7\n");
    // Its folder cannot be made, so the command does not begin.
    let acts = rig.folder.path().join("acts");
    fs::write(&acts, "").unwrap();
    let mut watcher = rig.watcher(None);
    rig.wait_for::<RuleRan>(RecordKind::RuleRan, |ran| {
        ran.how.starts_with("not started")
    });
    watcher.kill();
    fs::remove_file(&acts).unwrap();
    // A watcher that dies after it recorded a firing leaves a journal that ends with that record.
    for path in nerokid::folder::segments::list(&rig.inc(), "watch-").unwrap() {
        let mut ran = None;
        nerokid::folder::segments::for_each(&path, |record| {
            if i32::from(record.kind) == RecordKind::RuleRan as i32 {
                ran.get_or_insert(record.offset);
            }
        })
        .unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(ran.unwrap()).unwrap();
    }
    let mut watcher = rig.watcher(None);
    has_lines(&work.join("ran.log"), 1);
    rig.end();
    assert!(watcher.ended().success());
    let ran = rig.all::<RuleRan>(RecordKind::RuleRan);
    assert_eq!(ran[0].how, "exit code 0");
}

#[test]
fn a_run_that_nobody_watched_is_settled_without_its_commands() {
    let mut rig = with_command("echo ran >> ran.log");
    rig.print("loss=7\n");
    rig.end();
    let line = rig.folder.path().join("line");
    fs::write(&line, format!("{}\t1\n", rig.folder.path().display())).unwrap();
    let mut settle = Command::new(env!("CARGO_BIN_EXE_nerokid"));
    settle.arg("settle").stdin(fs::File::open(&line).unwrap());
    let answer = settle.output().unwrap();
    assert!(answer.stdout.starts_with(b"ok "), "{answer:?}");
    let ran = rig.all::<RuleRan>(RecordKind::RuleRan);
    assert_eq!(
        ran[0].how,
        "not run: nobody watched the run when the rule fired"
    );
    assert!(!rig.folder.path().join("work/ran.log").exists());
}
