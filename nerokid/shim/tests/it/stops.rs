//! Cancel requests, time limits and the ladder: polite, then final, over the whole
//! tree.

use std::fs;

use nero_journal::v1::changed::What;
use nero_journal::v1::job_not_started::Stage;
use nero_journal::v1::{RecordKind, StopCause};

use crate::rig::{Rig, lives, until};
use crate::run::Cancel;

#[test]
fn a_polite_job_ends_by_the_polite_signal() {
    let mut rig = Rig::new();
    let run = rig
        .script("trap 'echo bye; exit 7' TERM; echo ready > ready; while :; do sleep 0.01; done");
    rig.launch(&run);
    run.written("ready");
    rig.cancel(
        &run,
        1,
        Cancel {
            rule: 9,
            cause: 2,
            ..Cancel::within(60_000)
        },
    );
    assert_eq!(rig.hear_of(&run, What::Ended).incarnation, 1);
    let claim = run.claim();
    let stop = claim.stops[0];
    assert_eq!(
        (stop.cause(), stop.cancel, stop.grace_ms),
        (StopCause::Rule, 1, 60_000)
    );
    assert_eq!((stop.signal, stop.rule), (libc::SIGTERM, 9));
    assert_eq!(claim.signals[0].signal, libc::SIGTERM);
    assert!(claim.signals[0].processes >= 1);
    assert_eq!(claim.exited.unwrap().code, 7);
    assert_eq!(run.stdout(), "bye\n");
    assert_eq!(claim.kinds.last(), Some(&RecordKind::TreeGone));
    rig.nobody_else_is_left();
}

#[test]
fn a_job_that_ignores_every_signal_is_killed_after_its_grace() {
    let mut rig = Rig::new();
    let run = rig.script(
        "trap '' TERM INT HUP QUIT USR1; (trap '' TERM; while :; do sleep 1; done) & \
         echo ready > ready; while :; do sleep 1; done",
    );
    rig.launch(&run);
    run.written("ready");
    rig.cancel(&run, 1, Cancel::within(100));
    rig.hear_of(&run, What::Ended);
    let claim = run.claim();
    let signals: Vec<i32> = claim.signals.iter().map(|sent| sent.signal).collect();
    assert_eq!(signals, [libc::SIGTERM, libc::SIGKILL]);
    assert_eq!(claim.exited.unwrap().signal, libc::SIGKILL);
    assert!(claim.gone.unwrap().left_alive.is_empty());
    rig.nobody_else_is_left();
}

#[test]
fn a_cancel_may_name_its_signal() {
    let mut rig = Rig::new();
    let run = rig.script("trap 'exit 3' INT; echo ready > ready; while :; do sleep 0.01; done");
    rig.launch(&run);
    run.written("ready");
    rig.cancel(
        &run,
        1,
        Cancel {
            signal: libc::SIGINT,
            ..Cancel::within(60_000)
        },
    );
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.claim().exited.unwrap().code, 3);
    let run = rig.script("echo ready > ready; sleep 1000");
    rig.launch(&run);
    run.written("ready");
    rig.cancel(
        &run,
        1,
        Cancel {
            signal: libc::SIGKILL,
            ..Cancel::within(60_000)
        },
    );
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.claim().exited.unwrap().signal, libc::SIGKILL);
}

#[test]
fn a_second_cancel_shortens_the_first() {
    let mut rig = Rig::new();
    let run = rig.script("trap '' TERM; echo ready > ready; while :; do sleep 1; done");
    rig.launch(&run);
    run.written("ready");
    rig.cancel(&run, 1, Cancel::within(600_000));
    until("the first stop", || {
        (run.claim().stops.len() == 1).then_some(())
    });
    rig.cancel(&run, 2, Cancel::within(10));
    rig.hear_of(&run, What::Ended);
    let cancels: Vec<u32> = run.claim().stops.iter().map(|stop| stop.cancel).collect();
    assert_eq!(cancels, [1, 2]);
}

#[test]
fn cancelled_before_its_start_it_never_starts() {
    let mut rig = Rig::new();
    let run = rig.script("echo ran > ran");
    run.cancel(1, Cancel::within(0));
    rig.launch(&run);
    rig.hear_of(&run, What::Ended);
    let claim = run.claim();
    assert_eq!(
        claim.kinds,
        [
            RecordKind::Claimed,
            RecordKind::JobNotStarted,
            RecordKind::TreeGone
        ]
    );
    assert_eq!(claim.not_started.unwrap().stage(), Stage::Cancelled);
    assert!(!run.work("ran").exists());
}

#[test]
fn the_doorbell_is_heard_at_any_moment() {
    let mut rig = Rig::new();
    for _ in 0..30 {
        let run = rig.run(&["/bin/sleep", "1000"]);
        rig.launch(&run);
        // Anywhere between the launch and the wait: before the claim, before
        // the fork, after it.
        rig.cancel(&run, 1, Cancel::within(60_000));
        assert_eq!(rig.news_of(&run).last(), Some(&What::Ended));
        assert!(
            run.claim()
                .exited
                .is_none_or(|exited| exited.signal == libc::SIGTERM)
        );
    }
}

#[test]
fn the_time_limit_stops() {
    let mut rig = Rig::new();
    let mut run = rig.run(&["/bin/sleep", "1000"]);
    run.launch.time_limit_ms = 100;
    rig.launch(&run);
    rig.hear_of(&run, What::Ended);
    let claim = run.claim();
    assert_eq!(claim.claimed.unwrap().time_limit_ms, 100);
    assert_eq!(
        (claim.stops[0].cause(), claim.stops[0].cancel),
        (StopCause::TimeLimit, 0)
    );
    let exited = claim.exited.unwrap();
    assert_eq!(exited.signal, libc::SIGTERM);
    assert!(exited.run_ms >= 100);
}

#[test]
fn stopped_processes_end_too() {
    let mut rig = Rig::new();
    let run =
        rig.script("trap 'exit 5' TERM; echo ready > ready; kill -STOP $$; sleep 1000 & wait");
    rig.launch(&run);
    run.written("ready");
    let job = run.job();
    until("it to stand still", || {
        let stat = nero_model::process::Stat::read(job).ok()?;
        (stat.state == b'T').then_some(())
    });
    rig.cancel(&run, 1, Cancel::within(60_000));
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.claim().exited.unwrap().code, 5);
}

#[test]
fn a_damaged_cancel_is_still_a_cancel() {
    let mut rig = Rig::new();
    let run = rig.run(&["/bin/sleep", "1000"]);
    rig.launch(&run);
    let job = run.job();
    fs::write(run.dir.join("control/cancel.1"), "not a frame").unwrap();
    rig.ring(&run);
    rig.hear_of(&run, What::Ended);
    assert!(!lives(job));
    assert_eq!(run.claim().stops[0].cause(), StopCause::Unspecified);
}

#[test]
fn a_fork_bomb_is_outrun() {
    let mut rig = Rig::new();
    // Processes that fork and leave, for ever: each is gone before it is seen.
    let run = rig.script(
        "echo ready > ready; walk() { (walk) & exit; }; for i in 1 2 3 4; do (walk) & done; \
         while :; do sleep 1; done",
    );
    rig.launch(&run);
    run.written("ready");
    rig.cancel(&run, 1, Cancel::within(20));
    rig.hear_of(&run, What::Ended);
    rig.nobody_else_is_left();
}

#[test]
fn a_fork_bomb_at_its_limit_is_ended() {
    // The limit holds for ordinary users only, and only root can be another.
    let prlimit = std::path::Path::new("/usr/bin/prlimit");
    if !rustix::process::geteuid().is_root() || !prlimit.exists() {
        return;
    }
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::Builder::new()
        .prefix("bomb")
        .tempdir_in("/var/tmp")
        .unwrap();
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.path(), open.clone()).unwrap();
    let mut rig = Rig::as_user(65531, folder);
    let bomb = "trap '' TERM; echo ready > ready; bomb() { while :; do bomb & done; }; bomb";
    let run = rig.run(&["/usr/bin/prlimit", "--nproc=200", "/bin/sh", "-c", bomb]);
    for part in [".", "work", "control"] {
        fs::set_permissions(run.dir.join(part), open.clone()).unwrap();
    }
    rig.launch(&run);
    run.written("ready");
    run.cancel(1, Cancel::within(200));
    fs::set_permissions(run.dir.join("control/cancel.1"), open).unwrap();
    rig.ring(&run);
    rig.hear_of(&run, What::Ended);
    assert!(run.claim().gone.unwrap().left_alive.is_empty());
    rig.nobody_else_is_left();
}
