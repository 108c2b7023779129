//! Jobs that are the clients of containers, with a stand-in for the runtime: whatever dies, the
//! container is removed before the end is recorded, and its exit code counts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use nero_journal::v1::changed::What;
use nero_journal::v1::{JobExited, RecordKind};

use crate::rig::{Rig, kill, until};
use crate::run::{Cancel, Run};

/// Answers as docker does. The file `state` is the container, `down` a daemon that is away.
const RUNTIME: &str = r#"#!/bin/sh
echo "$@" >> HERE/calls
if [ -e HERE/down ]; then echo 'Cannot connect: dial unix docker.sock: no such file or directory' >&2; exit 1; fi
case $1 in
  inspect) cat HERE/state 2> /dev/null || { echo 'Error: No such container' >&2; exit 1; } ;;
  rm) rm -f HERE/state ;;
esac
"#;

/// A client whose container ends with code 9; it itself ends with 125.
const CLIENT: &str = "echo running 0 false > ../state; echo $$ > begun; \
    while [ ! -e go ]; do sleep 0.02; done; echo exited 9 false > ../state; exit 125";

fn contained(rig: &Rig, script: &str) -> Run {
    let mut run = rig.script(script);
    run.launch.is_contained = true;
    let program = run.dir.join("docker");
    let text = RUNTIME.replace("HERE", run.dir.to_str().unwrap());
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    describe(&run, 1);
    run
}

fn describe(run: &Run, incarnation: u32) {
    let program = run.dir.join("docker");
    let text = format!(
        "{}\0nero-x-{incarnation}\0PATH=/usr/bin:/bin\0",
        program.display()
    );
    fs::write(run.dir.join(format!("container.{incarnation}")), text).unwrap();
}

fn state(run: &Run) -> PathBuf {
    run.dir.join("state")
}

fn calls(run: &Run) -> Vec<String> {
    let text = fs::read_to_string(run.dir.join("calls")).unwrap_or_default();
    let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    text.lines().map(first).collect()
}

fn let_go(run: &Run) {
    fs::write(run.work("go"), "").unwrap();
}

/// The record of the job's end, written by its shim or by the launcher that took over.
fn exited(run: &Run) -> JobExited {
    let story = run.launchers();
    let of_claim = run.claim().exited;
    of_claim.or(story.exited).unwrap()
}

#[test]
fn the_code_of_the_container_counts_and_it_is_removed() {
    let mut rig = Rig::new();
    let run = contained(&rig, CLIENT);
    let_go(&run);
    // A start of less than 10 ms is told with its end.
    assert_eq!(rig.complete(&run).last(), Some(&What::Ended));
    let end = exited(&run);
    assert_eq!((end.code, end.signal, end.code_unknown), (9, 0, false));
    assert!(!state(&run).exists());
    assert_eq!(calls(&run), ["inspect", "rm"]);
    let kinds = run.claim().kinds;
    let last = [RecordKind::JobExited, RecordKind::TreeGone];
    assert!(kinds.ends_with(&last), "{kinds:?}");
}

#[test]
fn a_container_that_never_began_leaves_the_clients_code() {
    let mut rig = Rig::new();
    let run = contained(&rig, "echo 'no such image' >&2; exit 125");
    rig.complete(&run);
    let end = exited(&run);
    assert_eq!((end.code, end.code_unknown), (125, false));
    assert_eq!(end.stderr_line, b"no such image");
}

#[test]
fn memory_that_ran_out_inside_is_told() {
    let mut rig = Rig::new();
    let run = contained(&rig, "echo exited 1 true > ../state; exit 1");
    rig.complete(&run);
    let end = exited(&run);
    assert_eq!((end.code, end.oom_kills), (137, Some(1)));
}

#[test]
fn a_killed_client_takes_its_container_along() {
    let mut rig = Rig::new();
    let run = contained(&rig, CLIENT);
    rig.launch(&run);
    kill(run.number("begun"));
    rig.hear_of(&run, What::Ended);
    assert_eq!(exited(&run).signal, libc::SIGKILL);
    assert!(!state(&run).exists());
}

#[test]
fn an_abort_that_the_client_does_not_answer_removes_the_container() {
    let mut rig = Rig::new();
    let run = contained(&rig, &format!("trap '' TERM; {CLIENT}"));
    rig.launch(&run);
    run.number("begun");
    rig.cancel(&run, 1, Cancel::within(50));
    rig.hear_of(&run, What::Ended);
    assert_eq!(exited(&run).signal, libc::SIGKILL);
    assert!(!state(&run).exists());
}

#[test]
fn without_an_answer_of_the_runtime_there_is_no_end() {
    let mut rig = Rig::new();
    let run = contained(&rig, CLIENT);
    rig.launch(&run);
    run.number("begun");
    let down = run.dir.join("down");
    fs::write(&down, "").unwrap();
    let_go(&run);
    let story = until("a notice", || {
        Some(run.claim()).filter(|story| !story.notices.is_empty())
    });
    assert!(story.notices[0].holds_end);
    let notice = &story.notices[0].text;
    assert!(
        notice.contains("docker does not answer: Cannot connect"),
        "{notice}"
    );
    assert!(notice.contains("nero-x-1 may still run"), "{notice}");
    assert!(story.exited.is_none() && story.gone.is_none());
    fs::remove_file(down).unwrap();
    rig.hear_of(&run, What::Ended);
    assert_eq!(exited(&run).code, 9);
    assert_eq!(run.claim().notices.len(), 1, "it is told once");
}

/// A report cannot be written where a folder has its name, and neither can a reason.
#[test]
fn a_reason_that_cannot_be_written_down_keeps_no_run_silent() {
    let mut rig = Rig::new();
    let run = contained(&rig, CLIENT);
    rig.launch(&run);
    run.number("begun");
    let (down, fault) = (run.dir.join("down"), run.folder().join("container.fault"));
    fs::write(&down, "").unwrap();
    fs::create_dir(&fault).unwrap();
    let_go(&run);
    let story = until("a notice", || {
        Some(run.claim()).filter(|story| !story.notices.is_empty())
    });
    assert!(story.notices[0].holds_end);
    assert!(
        story.notices[0].text.contains("the disk may be full"),
        "{:?}",
        story.notices
    );
    fs::remove_file(down).unwrap();
    rig.hear_of(&run, What::Ended);
    assert_eq!(exited(&run).code, 9);
}

#[test]
fn at_each_death_of_the_shim_its_launcher_removes_the_container() {
    for point in [
        "started",
        "leader_seen",
        "exit_written",
        "reaped",
        "container_closed",
        "gone_written",
    ] {
        let mut rig = Rig::crashing(point);
        let run = contained(&rig, CLIENT);
        let_go(&run);
        rig.launch(&run);
        rig.hear_of(&run, What::Ended);
        let end = exited(&run);
        assert_eq!((end.code, end.code_unknown), (9, false), "{point}");
        assert!(!state(&run).exists(), "{point}");
        rig.nobody_else_is_left();
    }
}

#[test]
fn the_next_launcher_knows_the_code_that_nobody_waited_for() {
    let mut rig = Rig::new();
    let run = contained(&rig, CLIENT);
    rig.launch(&run);
    run.number("begun");
    let shim = run.shim();
    rig.kill_launcher();
    kill(shim);
    rig.restart();
    rig.guard(&run);
    rig.hear_of(&run, What::TakenOver);
    let_go(&run);
    rig.hear_of(&run, What::Ended);
    let end = exited(&run);
    assert_eq!((end.code, end.code_unknown), (9, false));
    assert!(!state(&run).exists());
}

#[test]
fn the_next_launcher_removes_a_container_whose_client_is_gone() {
    let mut rig = Rig::new();
    let run = contained(&rig, CLIENT);
    rig.launch(&run);
    let client = run.number("begun");
    let shim = run.shim();
    rig.kill_launcher();
    kill(shim);
    kill(client);
    rig.restart();
    rig.guard(&run);
    rig.hear_of(&run, What::Ended);
    assert!(exited(&run).code_unknown);
    assert!(!state(&run).exists());
}

#[test]
fn a_pause_is_the_runtimes_own() {
    let mut rig = Rig::new();
    let run = contained(&rig, CLIENT);
    rig.launch(&run);
    run.number("begun");
    for (number, verb) in [(1, "pause"), (2, "unpause")] {
        fs::write(run.dir.join(format!("control/pause.{number}")), "").unwrap();
        rig.ring(&run);
        until(verb, || {
            calls(&run).contains(&verb.to_owned()).then_some(())
        });
    }
    let_go(&run);
    rig.hear_of(&run, What::Ended);
    assert_eq!(exited(&run).code, 9);
}

#[test]
fn a_start_removes_the_containers_of_those_before_it() {
    let rig = Rig::new();
    let run = contained(&rig, "true");
    describe(&run, 2);
    for incarnation in ["1", "2"] {
        fs::create_dir(run.dir.join(incarnation)).unwrap();
    }
    fs::write(state(&run), "running 0 false\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_nerokid-shim"))
        .arg("container")
        .arg(&run.dir)
        .args(["2", "start", "sh", "-c", "echo job; exit 3"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(output.stdout, b"job\n");
    assert!(!state(&run).exists());
    assert_eq!(calls(&run), ["inspect", "rm"]);
    assert!(
        run.dir.join("2/metrics.jsonl").exists(),
        "what is mounted is there"
    );
}
