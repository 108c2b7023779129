//! A run from its launch to its last record.

use std::fs;

use nero_journal::v1::RecordKind;
use nero_journal::v1::changed::What;
use nero_journal::v1::job_not_started::Stage;

use crate::rig::{Rig, until};

#[test]
fn every_exit_code_is_recorded() {
    let mut rig = Rig::new();
    for code in [0, 1, 2, 126, 127, 128, 143, 255] {
        let run = rig.script(&format!("exit {code}"));
        assert_eq!(rig.complete(&run).last(), Some(&What::Ended));
        let claim = run.claim();
        assert_eq!(
            claim.kinds,
            [
                RecordKind::Claimed,
                RecordKind::JobStarted,
                RecordKind::JobExited,
                RecordKind::TreeGone
            ]
        );
        let exited = claim.exited.unwrap();
        assert_eq!((exited.code, exited.signal), (code, 0));
        assert!(
            !exited.code_unknown && exited.peak_rss_bytes > 0 && exited.disk_free_bytes > Some(0)
        );
    }
    rig.nobody_else_is_left();
}

#[test]
fn an_end_keeps_the_last_line_of_standard_error() {
    let mut rig = Rig::new();
    let long = "x".repeat(10_000);
    let table = [
        (
            "echo one >&2; echo 'KeyError: y' >&2; echo >&2; exit 1",
            "KeyError: y",
        ),
        ("echo gone >&2; kill -9 $$", "gone"),
        ("echo fine >&2; exit 0", "fine"),
        ("echo out; exit 0", ""),
        ("echo out; exit 1", ""),
        ("rm ../1/stderr.log; mkfifo ../1/stderr.log; exit 1", ""),
        (&format!("echo {long} >&2; exit 1"), &long[..240]),
    ];
    for (script, line) in table {
        let run = rig.script(script);
        rig.complete(&run);
        let said = run.claim().exited.unwrap().stderr_line;
        assert_eq!(String::from_utf8(said).unwrap(), line, "{script:.60}");
    }
}

#[test]
fn a_signal_is_not_an_exit_code() {
    let mut rig = Rig::new();
    for signal in [1, 2, 6, 9, 11, 15] {
        let run = rig.script(&format!("kill -{signal} $$"));
        rig.complete(&run);
        let exited = run.claim().exited.unwrap();
        assert_eq!((exited.code, exited.signal), (0, signal));
    }
}

#[test]
fn a_program_that_cannot_be_executed_is_reported_with_the_reason() {
    let mut rig = Rig::new();
    let plain = rig.path("plain");
    fs::write(&plain, "no program").unwrap();
    let text = rig.path("text");
    fs::write(&text, "no program either").unwrap();
    fs::set_permissions(&text, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let cases = [
        ("/no/such/program", libc::ENOENT),
        (plain.to_str().unwrap(), libc::EACCES),
        (text.to_str().unwrap(), libc::ENOEXEC),
    ];
    for (program, errno) in cases {
        let run = rig.run(&[program]);
        assert_eq!(rig.complete(&run).last(), Some(&What::Ended));
        let claim = run.claim();
        let failure = claim.not_started.unwrap();
        assert_eq!(
            (failure.stage(), failure.errno),
            (Stage::Exec, errno),
            "{program}"
        );
        assert_eq!(failure.program, program.as_bytes());
        assert!(claim.exited.is_none() && claim.gone.is_some());
    }
}

#[test]
fn a_program_that_is_being_written_elsewhere_is_executed_when_that_is_over() {
    let mut rig = Rig::new();
    let program = rig.path("program");
    fs::copy("/bin/true", &program).unwrap();
    let busy = fs::OpenOptions::new().append(true).open(&program).unwrap();
    let run = rig.run(&[program.to_str().unwrap()]);
    rig.launch(&run);
    let claim = run.folder().join("claim");
    until("the job's process", || {
        let there = claim.exists().then(|| run.claim())?;
        there.started
    });
    drop(busy);
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.claim().exited.unwrap().code, 0);

    let busy = fs::OpenOptions::new().append(true).open(&program).unwrap();
    let run = rig.run(&[program.to_str().unwrap()]);
    rig.complete(&run);
    assert_eq!(run.claim().not_started.unwrap().errno, libc::ETXTBSY);
    drop(busy);
}

#[test]
fn a_folder_that_is_not_there_says_so() {
    let mut rig = Rig::new();
    let mut run = rig.run(&["/bin/true"]);
    run.launch.work_dir = "/no/such/folder".to_owned();
    rig.complete(&run);
    let failure = run.claim().not_started.unwrap();
    assert_eq!(
        (failure.stage(), failure.errno),
        (Stage::Folder, libc::ENOENT)
    );
}

#[test]
fn without_a_run_folder_there_is_no_claim() {
    let mut rig = Rig::new();
    let mut run = rig.run(&["/bin/true"]);
    run.launch.run_dir = "/no/such/folder".to_owned();
    rig.launch(&run);
    assert_eq!(rig.hear_of(&run, What::NoClaim).errno, libc::ENOENT);
    run.launch.run_dir = "not/absolute".to_owned();
    rig.launch(&run);
    assert_eq!(rig.hear_of(&run, What::NoClaim).errno, libc::EINVAL);
}

#[test]
fn a_run_launched_twice_has_one_job() {
    let mut rig = Rig::new();
    let run = rig.script("echo $$ >> ran; read line < ../gate");
    let gate = run.dir.join("gate");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &gate,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for _ in 0..5 {
        rig.launch(&run);
    }
    for _ in 0..4 {
        rig.hear_of(&run, What::Superseded);
    }
    fs::write(&gate, "go\n").unwrap();
    rig.hear_of(&run, What::Ended);
    rig.launch(&run);
    rig.hear_of(&run, What::Superseded);
    assert_eq!(run.written("ran").lines().count(), 1);
    assert_eq!(run.claim().exited.unwrap().code, 0);
}
