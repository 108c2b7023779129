use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use nero_model::{DeploymentId, ExperimentId, RunId, RunToken, SubmissionId};
use proptest::prelude::*;

use super::*;

fn run(experiment: u64, number: u32) -> RunId {
    RunId {
        experiment: ExperimentId(experiment),
        number,
    }
}

fn plan() -> Plan {
    let planned = TaskRun {
        token: RunToken::random(),
        id: run(144, 2),
    };
    Plan {
        adopted: None,
        submission: SubmissionId::random(),
        deployment: DeploymentId::random(),
        node: "n".to_owned(),
        root: "/r".into(),
        beat: Duration::from_secs(15),
        tasks: vec![Task {
            index: 7,
            runs: vec![planned],
        }],
        at_once: None,
    }
}

#[test]
fn a_submission_is_made_for_its_owner_alone_and_read_back() {
    let root = tempfile::tempdir().unwrap();
    let files = Files::at(&root.path().join("submission"));
    let plan = plan();
    for _ in 0..2 {
        files.make(&plan, "#!/bin/sh\nexec true\n").unwrap();
    }
    assert_eq!(files.read_plan().unwrap(), plan);
    for (name, mode) in [("plan", 0o600), ("script", 0o600), ("starts", 0o700)] {
        let found = files.folder().join(name).metadata().unwrap();
        assert_eq!(found.permissions().mode() & 0o777, mode, "{name}");
    }
}

#[test]
fn a_plan_of_a_later_format_a_damaged_and_a_missing_one_are_refused_by_name() {
    let root = tempfile::tempdir().unwrap();
    let files = Files::at(root.path());
    let told = || {
        let error = files.read_plan().unwrap_err();
        assert!(error.to_string().contains("/plan"), "{error}");
        error.to_string()
    };
    assert!(told().contains("cannot use"));
    fs::write(files.plan(), "no frame at all").unwrap();
    assert!(told().contains("left untouched"));
    fs::remove_file(files.plan()).unwrap();
    let mut later = plan().encoded();
    later.format = 3;
    frame::create(FrameKind::Plan, &files.plan(), &later).unwrap();
    assert!(told().contains("has format 3"));
    for break_it in [
        (|plan| plan.root = "relative".to_owned()) as fn(&mut v1::Plan),
        |plan| plan.submission.truncate(3),
        |plan| plan.beat_ms = 1,
        |plan| plan.tasks[0].runs[0].token.clear(),
        |plan| plan.tasks[0].runs[0].number = 0,
    ] {
        fs::remove_file(files.plan()).unwrap();
        let mut broken = plan().encoded();
        break_it(&mut broken);
        frame::create(FrameKind::Plan, &files.plan(), &broken).unwrap();
        assert!(matches!(files.read_plan(), Err(PlanError::Field { .. })));
    }
}

#[test]
fn a_plan_with_a_job_of_a_person_is_none_for_builds_that_would_submit_it() {
    let mut adopts = plan();
    assert_eq!(adopts.encoded().format, 1);
    adopts.adopted = Some(AdoptedJob {
        job: nero_warden::JobRef {
            job: nero_warden::JobId(7),
            task: None,
        },
        submitted_s: 1,
        stdout: None,
        stderr: None,
    });
    assert_eq!(adopts.encoded().format, 2);
    let root = tempfile::tempdir().unwrap();
    let files = Files::at(&root.path().join("submission"));
    files.make(&adopts, "").unwrap();
    assert_eq!(files.read_plan().unwrap(), adopts);
}

/// The bytes that the first build with plans wrote; later builds read them.
#[test]
fn a_plan_of_the_first_format_is_read() {
    let golden: &[u8] = &[
        8, 1, 18, 16, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 26, 16, 2, 2, 2, 2, 2, 2, 2,
        2, 2, 2, 2, 2, 2, 2, 2, 2, 34, 1, b'n', 42, 2, b'/', b'r', 48, 152, 117, 58, 29, 8, 7, 18,
        25, 10, 16, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 16, 144, 1, 24, 2, 32, 3,
    ];
    let encoded = <v1::Plan as prost::Message>::decode(golden).unwrap();
    let mut expected = plan();
    expected.submission = SubmissionId::from_bytes([1; 16]);
    expected.deployment = DeploymentId::from_bytes([2; 16]);
    expected.tasks[0].runs[0].token = RunToken::from_bytes([3; 16]);
    // Its last number, of a run, is none any more, and skipped.
    assert_eq!(Plan::decoded(&encoded, Path::new("/p")).unwrap(), expected);
    assert_eq!(expected.encoded(), encoded);
}

#[test]
fn every_name_of_news_reads_back() {
    let (id, start) = (run(144, 2), StartId { task: 3, number: 1 });
    for (news, name) in [
        (News::Began(start), "task-3.1"),
        (News::Leave(start), "task-3.1.leave"),
        (News::Left(start), "task-3.1.left"),
        (News::Closed(3), "task-3.closed"),
        (News::Launches(id, 1, start), "run-144.2.1.by-3.1"),
        (News::Ended(id, 1), "run-144.2.1.ended"),
        (News::Settled(id, 4), "run-144.2.4.settled"),
    ] {
        assert_eq!(news.to_string(), name);
        assert_eq!(name.parse(), Ok(news));
    }
}

proptest! {
    #[test]
    fn a_name_that_is_read_is_exactly_the_name_of_that_news(name in "(task|run|x)?-?[-.0-9a-z+]{0,20}") {
        if let Ok(news) = name.parse::<News>() {
            prop_assert_eq!(news.to_string(), name);
        }
    }
}

#[test]
fn a_call_is_over_when_no_process_of_it_has_the_script_open() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::at(folder.path());
    assert!(!files.is_call_over(), "nothing is known");
    std::fs::write(folder.path().join("script"), "").unwrap();
    assert!(files.is_call_over());
    let call = files.lock_for_a_call().unwrap();
    let of_child = call.try_clone().unwrap();
    drop(call);
    assert!(!files.is_call_over());
    drop(of_child);
    assert!(files.is_call_over());
}
