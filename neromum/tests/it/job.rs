//! `neromum job`: a task of a submission in an allocation, from a plan on the
//! disk. No scheduler is needed: an allocation is a process.

mod task;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{
    Lost, Process, RecordKind, RunLeft, StopAsked, StopCause, TaskStart, run_left,
};
use nero_wire::v1::{Monitor, SchedulerRequest};

use crate::rig::{Node, mum, wait_for};

use task::{BEAT_MS, Start, Submission};

/// Ends politely within moments; a start of it is seen by `ready`.
const POLITE: &str = "trap 'exit 5' TERM; echo $$ > ready; while :; do sleep 0.01; done";
/// As `POLITE` at first; once `go` lies in the folder of the run, it ends with 0.
const UNTIL_GO: &str =
    "trap 'exit 5' TERM; echo $$ > ready; while ! [ -e ../go ]; do sleep 0.01; done";

#[tokio::test]
async fn a_task_runs_its_run_and_ends_with_its_exit_code() {
    let submission = Submission::new(&["echo loss=0.5; echo err >&2; exit 3"]);
    let start = submission.start(&["--cpus", "1", "--job", "77_0"]);
    assert_eq!(start.code().await, 3);
    assert_eq!(submission.code(0, 1), Some(3));
    // Metrics were read to the end, although nobody listens.
    let watched: Vec<nero_journal::v1::WatchEnded> =
        submission.records(0, 1, RecordKind::WatchEnded);
    assert!(watched.iter().any(|watch| watch.complete));
    assert!(
        !submission
            .records::<nero_journal::v1::Metrics>(0, 1, RecordKind::Metrics)
            .is_empty()
    );
    for news in [
        "task-0.1",
        "run-1.1.1.by-0.1",
        "run-1.1.1.ended",
        "run-1.1.1.settled",
    ] {
        assert!(submission.has(news), "{news}");
    }
    let left = submission.left(1);
    assert_eq!((left.code, left.runs.len()), (3, 1));
    assert_eq!(left.runs[0].how(), run_left::How::Ended);
    let began = submission.folder().join("starts/task-0.1");
    let began: TaskStart = frame::read(FrameKind::TaskStart, &began).unwrap();
    assert_eq!((&*began.job, began.cpus), ("77_0", 1.0));
    assert_eq!(submission.node.processes(), [], "nothing stays");
    assert!(!submission.node.paths.mum().join("ledger").exists());
    assert!(!submission.node.paths.lease().exists());
}

#[tokio::test]
async fn a_pack_shares_the_cpus_of_its_allocation() {
    // Each run holds a folder while it runs: with one CPU there is at most one.
    let alone = "mkdir ../../../alone || exit 9; sleep 0.05; rmdir ../../../alone";
    let submission = Submission::new(&[alone, alone, "exit 4", alone]);
    let code = submission.start(&["--cpus", "1"]).code().await;
    assert_eq!(code, 4, "the code of the first run that failed");
    let codes: Vec<_> = (0..4).map(|run| submission.code(run, 1)).collect();
    assert_eq!(codes, [Some(0), Some(0), Some(4), Some(0)]);
}

#[tokio::test]
async fn a_run_that_never_fits_the_allocation_is_refused_by_name() {
    let submission = Submission::new(&["exit 0"]);
    let code = submission.start(&["--cpus", "0.5"]).code().await;
    let left = submission.left(1);
    assert_eq!((code, left.runs[0].how()), (1, run_left::How::NotStarted));
    assert!(left.runs[0].why.contains("1 CPU"), "{}", left.runs[0].why);
}

#[tokio::test]
async fn a_second_start_of_an_ended_task_starts_nothing() {
    let submission = Submission::new(&["echo once >> ../lines; exit 3"]);
    assert_eq!(submission.complete().await, 3);
    assert_eq!(submission.complete().await, 3);
    let lines = fs::read_to_string(submission.work(0, "../lines")).unwrap();
    assert_eq!(lines, "once\n");
    assert!(!submission.has("run-1.1.2.by-0.2"));
}

#[tokio::test]
async fn the_scheduler_ends_a_task_and_a_later_start_goes_on() {
    use rustix::process::Signal;
    for signal in [Signal::TERM, Signal::USR2] {
        let submission = Submission::new(&[UNTIL_GO, "echo second > ready"]);
        let mut first = submission.start(&["--cpus", "1"]);
        submission.written(0, 1, "ready").await;
        first.signal(signal);
        assert_eq!(first.ended().await.code(), Some(5));
        let stops: Vec<StopAsked> = submission.records(0, 1, RecordKind::StopAsked);
        assert_eq!(stops[0].cause(), StopCause::Warden);
        let left = submission.left(1);
        let hows: Vec<_> = left.runs.iter().map(|run| run.how()).collect();
        use run_left::How;
        assert_eq!(hows, [How::Stopped, How::NotStarted]);
        assert!(!submission.work(1, "ready").exists(), "nothing new starts");
        assert_eq!(submission.node.processes(), []);
        fs::write(submission.work(0, "../go"), "").unwrap();
        assert_eq!(submission.complete().await, 0);
        assert_eq!(submission.code(0, 2), Some(0));
        assert_eq!(submission.code(1, 1), Some(0));
    }
}

#[tokio::test]
async fn a_task_whose_processes_were_all_killed_goes_on_with_the_next_incarnation() {
    let submission = Submission::new(&[UNTIL_GO]);
    let first = submission.start(&["--cpus", "1"]);
    submission.written(0, 1, "ready").await;
    submission.kill_everything().await;
    drop(first);
    fs::write(submission.work(0, "../go"), "").unwrap();
    assert_eq!(submission.complete().await, 0);
    assert_eq!(submission.code(0, 2), Some(0));
    assert_eq!(submission.code(0, 3), None);
    assert!(submission.has("run-1.1.2.by-0.2"));
}

#[tokio::test]
async fn a_job_that_exited_on_a_host_that_died_then_is_not_executed_again() {
    let submission = Submission::new(&["echo x >> ../began; exit 3"]);
    assert_eq!(submission.complete().await, 3);
    submission.kill_everything().await;
    submission.cut_claim(0, 1);
    assert_eq!(submission.complete().await, 3);
    let began = fs::read_to_string(submission.work(0, "../began")).unwrap();
    assert_eq!(began, "x\n");
    assert!(!submission.has("run-1.1.2.by-0.2"));
    let ends = submission.records::<Lost>(0, 1, RecordKind::Lost);
    assert_eq!(ends.len(), 1, "the end is recorded");
}

#[tokio::test]
async fn a_job_that_outlived_its_neromum_is_followed_to_its_end() {
    let submission = Submission::new(&[UNTIL_GO]);
    let mut first = submission.start(&["--cpus", "1"]);
    submission.written(0, 1, "ready").await;
    first.0.kill().unwrap();
    first.ended().await;
    let second = submission.start(&["--cpus", "1"]);
    wait_for("the second start", || {
        submission.has("task-0.2").then_some(())
    })
    .await;
    fs::write(submission.work(0, "../go"), "").unwrap();
    assert_eq!(second.code().await, 0);
    assert_eq!(submission.code(0, 1), Some(0));
    assert!(
        !submission.has("run-1.1.2.by-0.2"),
        "it was not started again"
    );
    // The launcher of the first start ends by itself, a moment after its last job.
    wait_for("the end of every process", || {
        submission.node.processes().is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_run_of_srun_that_outlived_its_neromum_is_asked_to_end_before_it_is_killed() {
    let node = Node::new();
    let mut run = node.sh(1, POLITE);
    run.scheduler = Some(SchedulerRequest {
        launcher: "srun".to_owned(),
        ..SchedulerRequest::default()
    });
    run.monitor = Some(Monitor {
        grace_ms: 30_000,
        ..run.monitor.unwrap_or_default()
    });
    let submission = Submission::of(node, vec![run]);
    // It makes no step, so the helper signals it instead.
    let programs = submission.node.root.join("programs");
    fs::create_dir(&programs).unwrap();
    let srun = programs.join("srun");
    fs::write(&srun, "#!/bin/sh\nshift\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&srun, fs::Permissions::from_mode(0o700)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let env = [
        ("PATH", format!("{}:{path}", programs.display())),
        ("SLURM_JOB_ID", "7".to_owned()),
        ("SLURM_JOB_NODELIST", "n1".to_owned()),
    ];
    let options = ["--cpus", "1", "--job", "7"];
    let mut first = submission.start_with(&options, &env);
    submission.written(0, 1, "ready").await;
    first.0.kill().unwrap();
    first.ended().await;
    let is_helped = || {
        let mut all = submission.node.processes().into_iter();
        all.any(|(_, command)| command.contains("nerokid host"))
    };
    // The helper of the first start leaves.
    wait_for("its end", || (!is_helped()).then_some(())).await;
    let second = submission.start_with(&options, &env);
    wait_for("another helper", || is_helped().then_some(())).await;
    submission.cancel(0);
    second.signal(rustix::process::Signal::USR1);
    second.code().await;
    assert_eq!(submission.code(0, 1), Some(5), "it heard SIGTERM");
}

#[tokio::test]
async fn a_later_start_asks_a_living_one_to_leave_and_goes_on_after_it() {
    let submission = Submission::new(&[UNTIL_GO]);
    let first = submission.start(&["--cpus", "1"]);
    submission.written(0, 1, "ready").await;
    let second = submission.start(&["--cpus", "1"]);
    assert_eq!(first.code().await, 5, "it stopped its job");
    let pid = submission.written(0, 2, "ready").await;
    fs::write(submission.work(0, "../go"), "").unwrap();
    assert_eq!(second.code().await, 0, "the job {pid} of the second start");
    assert_eq!(submission.left(1).runs[0].how(), run_left::How::Stopped);
}

#[tokio::test]
async fn of_two_jobs_of_one_submission_the_first_keeps_the_task() {
    let submission = Submission::new(&[UNTIL_GO]);
    let first = submission.start(&["--cpus", "1", "--job", "7"]);
    submission.written(0, 1, "ready").await;
    let twin = submission.start(&["--cpus", "1", "--job", "8"]);
    assert_eq!(twin.code().await, 75);
    let left = submission.left(2);
    assert!(left.why.contains("another job"), "{}", left.why);
    assert!(!submission.has("task-0.1.leave"), "the first was not asked");
    // The same job, started again, displaces its earlier start.
    let requeued = submission.start(&["--cpus", "1", "--job", "7"]);
    assert_eq!(first.code().await, 5, "it stopped its job");
    submission.written(0, 2, "ready").await;
    fs::write(submission.work(0, "../go"), "").unwrap();
    assert_eq!(requeued.code().await, 0);
}

#[tokio::test]
async fn a_start_killed_before_any_of_its_syncs_leaves_its_run_to_the_next_one() {
    let mut killed = 0;
    for sync in 1..=8 {
        let submission = Submission::new(&["mkdir ../alone && echo x >> ../ran; rmdir ../alone"]);
        let dies = format!("inject=fsync,fdatasync:signal=KILL:when={sync}");
        let mut first = Command::new("strace");
        first.args([
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "trace=fsync,fdatasync",
            "-e",
            &dies,
        ]);
        first.arg(mum()).arg("job").arg(submission.folder());
        first
            .args(["--cpus", "1", "--job", "7"])
            .stdout(Stdio::null());
        let code = Start(first.spawn().expect("strace is installed"))
            .ended()
            .await;
        killed += u32::from(!code.success());
        // The scheduler ends what is left of the task, and starts it again.
        submission.kill_everything().await;
        let _ = fs::remove_dir(submission.work(0, "../alone"));
        let again = submission.start(&["--cpus", "1", "--job", "7"]);
        assert_eq!(again.code().await, 0, "killed before sync {sync}");
        let ran = fs::read_to_string(submission.work(0, "../ran")).unwrap();
        assert!(!ran.is_empty(), "{sync}");
    }
    assert!(killed >= 4, "{killed}");
}

#[tokio::test]
async fn a_task_that_the_leader_gave_up_launches_nothing_more() {
    let submission = Submission::new(&[UNTIL_GO, "exit 0"]);
    let first = submission.start(&["--cpus", "1"]);
    submission.written(0, 1, "ready").await;
    fs::write(submission.folder().join("starts/task-0.closed"), "").unwrap();
    fs::write(submission.work(0, "../go"), "").unwrap();
    assert_eq!(first.code().await, 75, "what ran went on to its end");
    assert_eq!(submission.code(0, 1), Some(0));
    // Its launch was made known before the name was seen.
    assert!(submission.has("run-2.1.1.by-0.1"));
    let claim = submission.node.run_dir(&submission.runs[1]).join("1/claim");
    assert!(!claim.exists());
    assert_eq!(submission.complete().await, 75);
    let left = submission.left(2);
    assert!(left.why.contains("gave this task up"), "{}", left.why);
    assert!(!claim.exists() && !submission.has("run-2.1.1.by-0.2"));
}

#[tokio::test]
async fn a_start_elsewhere_that_may_live_holds_the_task_until_its_beat_stands_still() {
    let submission = Submission::new(&["exit 0"]);
    let path = submission.folder().join("starts/task-0.1");
    let elsewhere = TaskStart {
        job: "7".to_owned(),
        submission: submission.id.to_vec(),
        start: 1,
        process: Some(Process {
            boot_id: vec![7; 16],
            pid_namespace: 1,
            pid: 1,
            start_ticks: 1,
        }),
        host: "elsewhere".to_owned(),
        machine: "other".to_owned(),
        beat_ms: BEAT_MS,
        ..TaskStart::default()
    };
    frame::create(FrameKind::TaskStart, &path, &elsewhere).unwrap();
    let beating = tokio::spawn(async move {
        loop {
            let now = std::time::SystemTime::now();
            fs::File::open(&path).unwrap().set_modified(now).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let twin = submission.start(&["--cpus", "1", "--job", "8"]);
    assert_eq!(twin.code().await, 75);
    let left = submission.left(2);
    assert!(left.why.contains("another job"), "{}", left.why);
    assert!(!submission.has("task-0.1.leave"), "the first was not asked");
    assert_eq!(submission.complete().await, 75);
    assert!(submission.has("task-0.1.leave"), "it was asked to leave");
    let left = submission.left(3);
    assert!(left.why.contains("0.1"), "{}", left.why);
    assert!(!submission.has("run-1.1.1.by-0.3"));
    beating.abort();
    let late = submission.start(&["--cpus", "1", "--job", "9"]);
    assert_eq!(late.code().await, 0, "three beats later");
}

#[tokio::test]
async fn a_run_that_another_process_may_have_is_left_alone() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let run = node.sh(1, POLITE);
    mum.hand_over(vec![run.clone()]).await;
    wait_for("the job", || {
        node.run_dir(&run).join("work/ready").exists().then_some(())
    })
    .await;
    let submission = Submission::of(node, vec![run]);
    assert_eq!(submission.complete().await, 75);
    let left = submission.left(1);
    assert_eq!(left.runs[0].how(), run_left::How::Elsewhere);
    assert_eq!(submission.code(0, 1), None, "the job goes on");
    submission.kill_everything().await;
    assert_eq!(
        submission.complete().await,
        75,
        "that proves nothing about a claim of others"
    );
    assert_eq!(submission.left(2).runs[0].how(), run_left::How::Elsewhere);
}

#[tokio::test]
async fn a_cancel_holds_before_the_start_and_while_the_job_runs() {
    let submission = Submission::new(&[POLITE, POLITE]);
    submission.cancel(0);
    let start = submission.start(&["--cpus", "2"]);
    submission.written(1, 1, "ready").await;
    submission.cancel(1);
    start.signal(rustix::process::Signal::USR1);
    start.code().await;
    assert!(!submission.work(0, "ready").exists());
    assert_eq!(submission.code(1, 1), Some(5));
    let left = submission.left(1);
    assert!(
        left.runs
            .iter()
            .all(|run| run.how() == run_left::How::Ended)
    );
    // Nothing of it is started again.
    submission.complete().await;
    assert!(!submission.has("run-2.1.2.by-0.2"));
}

#[tokio::test]
async fn killed_at_any_moment_a_task_is_never_alive_twice_and_ends() {
    // The job looks whether the one before lives, and takes a while.
    let line = "if grep -qs '^State:.[RSDT]' /proc/$(cat ../pid)/status; then echo twice >> ../twice; fi; \
                echo $$ > ../pid; sleep 0.2; echo done >> ../done";
    let submission = Submission::new(&[line]);
    for moment in 0..14 {
        let mut start = submission.start(&["--cpus", "1"]);
        let moment_of_death = Duration::from_millis(moment * 9);
        // It may have ended before.
        let _ = tokio::time::timeout(moment_of_death, start.ended()).await;
        if moment % 3 == 0 {
            // The launcher and its jobs go on.
            start.signal(rustix::process::Signal::KILL);
        } else {
            submission.kill_everything().await;
        }
        drop(start);
    }
    assert_eq!(submission.complete().await, 0);
    assert!(!submission.work(0, "../twice").exists());
    // One that was killed between its last line and its end did both once more.
    let done = || fs::read_to_string(submission.work(0, "../done")).unwrap();
    let before = done();
    assert!(before.starts_with("done\n"));
    assert_eq!(submission.complete().await, 0);
    assert_eq!(done(), before, "its end is final");
    // A launcher whose neromum was killed before it connected leaves by itself, a
    // minute later.
    submission.kill_everything().await;
}

#[tokio::test]
async fn a_paused_run_of_a_pack_loses_its_turn_and_keeps_no_allocation_alone() {
    let submission = Submission::new(&[UNTIL_GO, "exit 3", "exit 0", "exit 4"]);
    submission.pause(1, 1);
    submission.pause(3, 1);
    let start = submission.start(&["--cpus", "1"]);
    submission.written(0, 1, "ready").await;
    submission.pause(2, 1);
    submission.pause(3, 2);
    start.signal(rustix::process::Signal::USR1);
    wait_for("the requests to be heard", || {
        let log = fs::read_to_string(submission.folder().join("0.log")).unwrap();
        let has = |line| log.contains(line);
        (has("run=3.1 paused=true") && has("run=4.1 paused=false")).then_some(())
    })
    .await;
    fs::write(submission.work(0, "../go"), "").unwrap();
    assert_eq!(start.code().await, 75);
    assert_eq!(
        (submission.code(0, 1), submission.code(3, 1)),
        (Some(0), Some(4))
    );
    let how = |start: u32, run: usize| {
        let left = submission.left(start).runs;
        let of = |one: &&RunLeft| one.token == submission.runs[run].token;
        left.iter().find(of).unwrap().how()
    };
    for run in [1, 2] {
        assert_eq!(how(1, run), run_left::How::Paused);
        assert!(!submission.has(&format!("run-{}.1.1.by-0.1", run + 1)));
    }
}

#[tokio::test]
async fn a_plan_that_cannot_be_used_starts_nothing_and_is_named() {
    let submission = Submission::new(&["exit 0"]);
    let told = |folder: PathBuf, options: &[&str]| {
        let mut command = Command::new(mum());
        let output = command
            .arg("job")
            .arg(folder)
            .args(options)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(told(submission.folder(), &["--task", "3"]).contains("no task 3"));
    let copy = submission.node.root.join("copy");
    fs::create_dir_all(copy.join("starts")).unwrap();
    fs::copy(submission.folder().join("plan"), copy.join("plan")).unwrap();
    assert!(told(copy, &[]).contains("nothing is started from a copy"));
    fs::write(submission.folder().join("plan"), "no plan").unwrap();
    assert!(told(submission.folder(), &[]).contains("left untouched"));
    assert!(!submission.has("task-0.1"));
}
