//! The end of a run, in all its ways; and settling afterwards.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use nero_journal::v1::{self, RecordKind, WatchEnded, WatchStarted};
use nero_journal::{Clocks, Segment, Writer};
use nero_model::ProcessId;
use nero_wire::v1::{Rule, RuleSet, RunSpec};

use crate::rig::Rig;

/// Gives lines to `nerokid settle`; its answers.
fn settle(lines: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nerokid"))
        .args(["settle", "--socket", "/nowhere/mum.sock"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn ended(rig: &Rig) -> Vec<WatchEnded> {
    rig.all(RecordKind::WatchEnded)
}

#[test]
fn a_job_that_its_shim_left_is_watched_until_the_launcher_says_so() {
    let mut rig = Rig::new(RunSpec::default());
    let mut watcher = rig.watcher(None);
    rig.print("loss=1\n");
    rig.points_are(1);
    rig.shim.kill();
    let path = rig.inc().join("launcher-0011223344556677.seg");
    let token = rig.spec.token.as_slice().try_into().unwrap();
    let mut launcher = Segment::create(&path, Writer::Launcher, &token, 1).unwrap();
    let taken = v1::TakenOver {
        launcher: Some(ProcessId::own().unwrap().into()),
        job: Some(rig.job.id().into()),
        is_parent: true,
    };
    launcher
        .append(RecordKind::TakenOver, Clocks::now(), &taken)
        .unwrap();
    rig.print("loss=2\n");
    rig.points_are(2);
    // The job's main process is gone; strays may print until all are gone.
    rig.job.kill();
    rig.print("loss=3\n");
    rig.points_are(3);
    assert!(ended(&rig).is_empty());
    rig.print("loss=4");
    launcher
        .append(
            RecordKind::TreeGone,
            Clocks::now(),
            &v1::TreeGone::default(),
        )
        .unwrap();
    assert!(watcher.ended().success());
    assert_eq!(rig.points().len(), 4);
    assert!(ended(&rig)[0].complete);
}

#[test]
fn a_job_that_nobody_looks_after_ends_some_seconds_after_it_is_dead() {
    let mut rig = Rig::new(RunSpec::default());
    let mut watcher = rig.watcher(None);
    rig.shim.kill();
    rig.print("loss=1\n");
    rig.points_are(1);
    rig.job.kill();
    assert!(watcher.ended().success());
    assert!(ended(&rig)[0].complete);
}

#[test]
fn a_job_that_never_started_is_over_at_once() {
    let mut rig = Rig::new(RunSpec::default());
    let mut watcher = rig.watcher(None);
    let failed = v1::JobNotStarted::default();
    rig.claim
        .append(RecordKind::JobNotStarted, Clocks::now(), &failed)
        .unwrap();
    assert!(watcher.ended().success());
}

#[test]
fn runs_that_ended_unwatched_are_settled() {
    let mut rigs: Vec<Rig> = (0..5).map(|_| Rig::new(RunSpec::default())).collect();
    for rig in &mut rigs {
        rig.print("loss=1\nloss=2");
        rig.end();
    }
    let live = Rig::new(RunSpec::default());
    let mut lines: String = rigs
        .iter()
        .map(|rig| format!("{}\t1\n", rig.folder.path().display()))
        .collect();
    lines += &format!(
        "{}\t1\n/nowhere\t1\nrubbish\n",
        live.folder.path().display()
    );
    let answers = settle(&lines);
    let answers: Vec<&str> = answers.lines().collect();
    for (rig, answer) in rigs.iter().zip(&answers) {
        assert_eq!(*answer, format!("ok {}\t1", rig.folder.path().display()));
        assert_eq!(rig.points().len(), 2);
        assert!(ended(rig)[0].complete);
        let started = rig.all::<WatchStarted>(RecordKind::WatchStarted);
        assert!(started[0].settling);
    }
    let failed = format!("failed {}\t1\t", live.folder.path().display());
    assert!(answers[5].starts_with(&failed) && answers[5].contains("has not ended"));
    assert!(answers[6].starts_with("failed /nowhere\t1\tcannot use /nowhere/spec"));
    assert!(answers[7].starts_with("failed rubbish\t"));
    assert_eq!(answers.len(), 8);

    // Asking again changes nothing.
    let again = settle(&lines);
    assert!(again.starts_with("ok "));
    assert_eq!(rigs[0].records().len(), 1);
}

#[test]
fn a_run_that_ended_is_settled_though_its_claim_is_damaged() {
    let mut rig = Rig::new(RunSpec::default());
    rig.print("loss=1\n");
    rig.end();
    let claim = rig.inc().join("claim");
    let mut bytes = fs::read(&claim).unwrap();
    bytes[nero_journal::HEADER_BYTES + 40] ^= 4;
    fs::write(&claim, bytes).unwrap();
    let folder = rig.folder.path().display();
    assert_eq!(
        settle(&format!("{folder}\t1\n")),
        format!("ok {folder}\t1\n")
    );
    assert_eq!(rig.points().len(), 1);
}

#[test]
fn settling_goes_on_where_a_killed_watcher_stopped() {
    let mut rig = Rig::new(RunSpec::default());
    rig.print("loss=1\nloss=2\nlos");
    let mut watcher = rig.watcher(None);
    rig.points_are(2);
    watcher.kill();
    rig.print("s=3\nloss=4");
    rig.end();
    settle(&format!("{}\t1\n", rig.folder.path().display()));
    let points: Vec<(f64, f64)> = rig.points().iter().map(|one| (one.1, one.3)).collect();
    assert_eq!(points, [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)]);
}

#[test]
fn a_settled_run_is_told_about_and_never_aborted() {
    let rule = |id, action: &str| Rule {
        id,
        action: action.to_owned(),
        text: "loss > 5".to_owned(),
        ..Rule::default()
    };
    let mut rig = Rig::new(RunSpec {
        rules: Some(RuleSet {
            version: 1,
            rules: vec![rule(1, "abort"), rule(2, "notify")],
            cohort: Vec::new(),
        }),
        ..RunSpec::default()
    });
    rig.print("loss=7\n");
    rig.end();
    settle(&format!("{}\t1\n", rig.folder.path().display()));
    let fired = rig.all::<v1::RuleFired>(RecordKind::RuleFired);
    assert_eq!(fired.len(), 1);
    assert_eq!(fired[0].rule, 2);
    assert_eq!(fs::read_dir(rig.control("")).unwrap().count(), 0);
}
