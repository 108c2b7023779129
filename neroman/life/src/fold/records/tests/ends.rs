//! The state and the end of a run, judged by its records.

use nero_journal::Writer;
use nero_journal::v1::{self, RecordKind};
use nero_model::Phase;

use crate::facts::stage::{HandOverStage, Stage};
use crate::fold::outcome::judge;
use crate::fold::records::Journal;
use crate::fold::records::tests::{Builder, whole};
use crate::fold::run::Dispatch;

/// The judgement of each way of ending.
#[test]
fn ends_are_judged_by_their_records() {
    let exited = |code, signal| v1::JobExited {
        code,
        signal,
        ..v1::JobExited::default()
    };
    let killed = |exited, oom_kills| v1::JobExited {
        oom_kills: Some(oom_kills),
        ..exited
    };
    let stop = |cause: v1::StopCause| v1::StopAsked {
        cause: cause.into(),
        ..v1::StopAsked::default()
    };
    let not = |stage: v1::job_not_started::Stage| v1::JobNotStarted {
        stage: stage.into(),
        errno: 2,
        program: b"HF_HOME=/x".to_vec(),
    };
    use v1::job_not_started::Stage;
    let begun = || {
        Builder::new(Writer::Shim, 1, 1, 1)
            .with(
                RecordKind::Claimed,
                &v1::Claimed {
                    time_limit_ms: 5000,
                    ..v1::Claimed::default()
                },
            )
            .with(RecordKind::JobStarted, &v1::JobStarted::default())
    };
    let gone = v1::TreeGone::default();
    let unknown = v1::JobExited {
        code_unknown: true,
        ..v1::JobExited::default()
    };
    let lost = v1::Lost {
        reason: v1::lost::Reason::Rebooted.into(),
        ..v1::Lost::default()
    };
    let held = v1::Notice {
        text: "docker does not answer".to_owned(),
        holds_end: true,
    };
    let table: Vec<(Builder, Phase, &str)> = vec![
        (begun(), Phase::Running, ""),
        (
            begun().with(RecordKind::StopAsked, &stop(v1::StopCause::Person)),
            Phase::Ending,
            "",
        ),
        (
            begun().with(RecordKind::JobExited, &exited(0, 0)),
            Phase::Ending,
            "",
        ),
        (begun().with(RecordKind::Notice, &held), Phase::Ending, ""),
        (
            begun()
                .with(RecordKind::Notice, &held)
                .with(RecordKind::JobExited, &exited(3, 0))
                .with(RecordKind::TreeGone, &gone),
            Phase::Crashed,
            "exit code 3",
        ),
        (
            begun()
                .with(RecordKind::JobExited, &exited(0, 0))
                .with(RecordKind::TreeGone, &gone),
            Phase::Finished,
            "",
        ),
        (
            begun()
                .with(RecordKind::JobExited, &exited(0, 9))
                .with(RecordKind::TreeGone, &gone),
            Phase::Crashed,
            "killed by SIGKILL",
        ),
        (
            begun()
                .with(RecordKind::JobExited, &killed(exited(0, 9), 1))
                .with(RecordKind::TreeGone, &gone),
            Phase::Crashed,
            "out of memory: killed by SIGKILL; the kernel's out-of-memory killer ended a process \
             of this cgroup meanwhile",
        ),
        (
            begun()
                .with(RecordKind::JobExited, &killed(exited(137, 0), 2))
                .with(RecordKind::TreeGone, &gone),
            Phase::Crashed,
            "out of memory: exit code 137; the kernel's out-of-memory killer ended a process of \
             this cgroup meanwhile",
        ),
        // Other processes of the cgroup ran out of memory.
        (
            begun()
                .with(RecordKind::StopAsked, &stop(v1::StopCause::Person))
                .with(RecordKind::JobExited, &killed(exited(0, 9), 1))
                .with(RecordKind::TreeGone, &gone),
            Phase::Aborted,
            "aborted",
        ),
        (
            begun()
                .with(RecordKind::StopAsked, &stop(v1::StopCause::Person))
                .with(RecordKind::JobExited, &exited(0, 15))
                .with(RecordKind::TreeGone, &gone),
            Phase::Aborted,
            "aborted",
        ),
        (
            begun()
                .with(RecordKind::StopAsked, &stop(v1::StopCause::Rule))
                .with(RecordKind::JobExited, &exited(0, 15))
                .with(RecordKind::TreeGone, &gone),
            Phase::Aborted,
            "rule `rule 0`",
        ),
        (
            begun()
                .with(RecordKind::StopAsked, &stop(v1::StopCause::TimeLimit))
                .with(RecordKind::JobExited, &exited(0, 15))
                .with(RecordKind::TreeGone, &gone),
            Phase::Timeout,
            "time limit of 5 s reached",
        ),
        // The job had ended by itself: a later stop changes nothing.
        (
            begun()
                .with(RecordKind::JobExited, &exited(4, 0))
                .with(RecordKind::StopAsked, &stop(v1::StopCause::Person))
                .with(RecordKind::TreeGone, &gone),
            Phase::Crashed,
            "exit code 4",
        ),
        (
            begun()
                .with(RecordKind::JobExited, &unknown)
                .with(RecordKind::TreeGone, &gone),
            Phase::Lost,
            "ended, exit code unknown",
        ),
        (
            begun().with(RecordKind::JobNotStarted, &not(Stage::Exec)),
            Phase::Crashed,
            "not started: its program `HF_HOME=/x` could not be executed: No such file or directory",
        ),
        (
            begun().with(RecordKind::JobNotStarted, &not(Stage::Cancelled)),
            Phase::Aborted,
            "taken away before it was started",
        ),
        // The next start follows.
        (
            begun().with(RecordKind::JobNotStarted, &not(Stage::Gate)),
            Phase::Pending,
            "",
        ),
        (
            begun().with(RecordKind::Lost, &lost),
            Phase::Lost,
            "node was restarted",
        ),
        // The processes that it left behind were still awaited.
        (
            begun()
                .with(RecordKind::JobExited, &exited(3, 0))
                .with(RecordKind::Lost, &lost),
            Phase::Crashed,
            "exit code 3",
        ),
    ];
    for (segment, phase, reason) in table {
        let outcome = judge(
            &Dispatch::default(),
            &whole(std::slice::from_ref(&segment)).journal,
        );
        let said = outcome
            .reason
            .map(|reason| reason.to_string())
            .unwrap_or_default();
        assert_eq!((outcome.phase, said.as_str()), (phase, reason));
        assert_eq!(outcome.ended_ms.is_some(), phase.is_end());
    }
}

#[test]
fn a_failure_keeps_what_was_printed_last_without_colours() {
    let exited = v1::JobExited {
        code: 1,
        stderr_line: b"\x1b[31mKeyError\x1b[0m: \xff'y'".to_vec(),
        ..v1::JobExited::default()
    };
    let segment = Builder::new(Writer::Shim, 1, 1, 1)
        .with(RecordKind::JobStarted, &v1::JobStarted::default())
        .with(RecordKind::JobExited, &exited);
    let journal = whole(std::slice::from_ref(&segment)).journal;
    let exit = journal.newest().unwrap().1.exit.clone().unwrap();
    assert_eq!(exit.stderr_line, "KeyError: \u{fffd}'y'");
}

#[test]
fn a_run_without_a_journal_is_what_was_done_with_it() {
    for (handing, phase) in [
        (HandOverStage::Queued, Phase::Queued),
        (HandOverStage::Staging, Phase::Staging),
        (HandOverStage::Submitted, Phase::Submitted),
        (HandOverStage::Pending, Phase::Pending),
    ] {
        let mut stage = Stage::Chosen {
            node: "n".to_owned(),
            sending: false,
        };
        stage.advance(handing);
        let dispatch = Dispatch {
            stage,
            ..Dispatch::default()
        };
        assert_eq!(judge(&dispatch, &Journal::default()).phase, phase);
    }
}

#[test]
fn the_highest_start_counts() {
    let first = Builder::new(Writer::Shim, 1, 1, 1)
        .with(RecordKind::Claimed, &v1::Claimed::default())
        .with(
            RecordKind::JobNotStarted,
            &v1::JobNotStarted {
                program: Vec::new(),
                stage: v1::job_not_started::Stage::Gate.into(),
                errno: 0,
            },
        );
    let second = Builder::new(Writer::Shim, 2, 2, 9)
        .with(RecordKind::Claimed, &v1::Claimed::default())
        .with(RecordKind::JobStarted, &v1::JobStarted::default());
    let forward = whole(&[first, second]);
    assert_eq!(
        judge(&Dispatch::default(), &forward.journal).phase,
        Phase::Running
    );
}
