//! Deaths of the shim at every step, of the launcher, and of both, with their
//! effects.

use std::fs;

use nero_journal::v1::RecordKind;
use nero_journal::v1::changed::What;
use nero_journal::v1::job_not_started::Stage;

use crate::rig::{Rig, kill, lives, until};
use crate::run::{Cancel, Run};

/// A job that shows that it ran, and ends when told to.
fn patient(rig: &Rig) -> Run {
    let run =
        rig.script("echo $$ >> ran; while [ ! -e go ]; do sleep 0.02; done; echo out; exit 9");
    assert!(!run.work("ran").exists());
    run
}

fn let_go(run: &Run) {
    fs::write(run.work("go"), "").unwrap();
}

fn ran(run: &Run) -> usize {
    fs::read_to_string(run.work("ran")).map_or(0, |text| text.lines().count())
}

/// The next incarnation, as neromum would launch it.
fn again(run: &Run) -> Run {
    let mut next = run.clone();
    next.launch.incarnation += 1;
    next
}

#[test]
fn before_its_claim_a_dead_shim_leaves_nothing() {
    for point in ["forked", "folder", "private"] {
        let mut rig = Rig::crashing(point);
        let run = patient(&rig);
        rig.launch(&run);
        assert_eq!(rig.hear_of(&run, What::NoClaim).errno, 0, "{point}");
        assert!(!run.folder().join("claim").exists());
        if run.folder().exists() {
            assert_eq!(fs::read_dir(run.folder()).unwrap().count(), 0, "{point}");
        }
        // The same incarnation again.
        rig.launch(&run);
        run.job();
        let_go(&run);
        rig.hear_of(&run, What::Ended);
        assert_eq!((run.claim().exited.unwrap().code, ran(&run)), (9, 1));
    }
}

#[test]
fn after_its_claim_and_before_the_gate_no_user_code_runs() {
    for point in [
        "linked",
        "claimed",
        "logs",
        "job.forked,parent",
        "job.dressed,parent",
        "job.written,parent",
        "job.forked,parent,stop",
        "job.dressed,parent,stop",
        "job.written,parent,stop",
        // The process of the job itself, killed before its gate.
        "job.dressed",
        "job.written",
    ] {
        let mut rig = Rig::crashing(point);
        let run = patient(&rig);
        rig.launch(&run);
        assert_eq!(rig.news_of(&run).last(), Some(&What::Ended), "{point}");
        let taken = run.launchers();
        assert_eq!(
            taken.kinds,
            [RecordKind::TakenOver, RecordKind::JobNotStarted],
            "{point}"
        );
        assert_eq!(taken.not_started.unwrap().stage(), Stage::Gate, "{point}");
        rig.nobody_else_is_left();
        assert_eq!(ran(&run), 0, "{point}");
        let next = again(&run);
        rig.launch(&next);
        next.job();
        let_go(&next);
        rig.hear_of(&next, What::Ended);
        assert_eq!(
            (next.claim().exited.unwrap().code, ran(&next)),
            (9, 1),
            "{point}"
        );
    }
}

/// The process that the rig holds stopped.
fn held(rig: &Rig) -> i32 {
    until("the process that is held", || {
        let stopped =
            |pid: &i32| nero_model::process::Stat::read(*pid).is_ok_and(|stat| stat.state == b'T');
        rig.processes().into_iter().find(stopped)
    })
}

fn is_gone(pid: i32) {
    until("its end", || (!lives(pid)).then_some(()));
}

/// Kills a run's launcher and its shim while its job is held, and asks a new
/// launcher to look after the run.
fn bereave(rig: &mut Rig, run: &Run) {
    let shim = run.shim();
    // The launcher dies first, so that it takes nothing over.
    rig.kill_launcher();
    kill(shim);
    is_gone(shim);
    rig.restart();
    rig.guard(run);
}

#[test]
fn a_job_that_was_held_before_its_gate_does_not_run_beside_the_start_that_replaced_it() {
    for point in ["job.forked,hold", "job.dressed,hold"] {
        let mut rig = Rig::crashing(point);
        let run = patient(&rig);
        rig.launch(&run);
        let job = held(&rig);
        bereave(&mut rig, &run);
        rig.hear_of(&run, What::Ended);
        let said = run.launchers().not_started.unwrap();
        assert_eq!(said.stage(), Stage::Gate, "{point}");
        let next = again(&run);
        rig.launch(&next);
        until("the second start", || (ran(&run) > 0).then_some(()));
        crate::rig::signal(job, rustix::process::Signal::CONT);
        is_gone(job);
        assert_eq!(ran(&run), 1, "{point}");
        let_go(&next);
        rig.hear_of(&next, What::Ended);
        assert_eq!((next.claim().exited.unwrap().code, ran(&run)), (9, 1));
    }
}

#[test]
fn a_job_that_is_written_down_is_looked_after_wherever_it_was_held() {
    for point in ["job.written,hold", "job.leaves_gate,hold"] {
        let mut rig = Rig::crashing(point);
        let run = patient(&rig);
        rig.launch(&run);
        let job = held(&rig);
        bereave(&mut rig, &run);
        rig.hear_of(&run, What::TakenOver);
        crate::rig::signal(job, rustix::process::Signal::CONT);
        until("the job's first line", || (ran(&run) > 0).then_some(()));
        let_go(&run);
        rig.hear_of(&run, What::Ended);
        let taken = run.launchers();
        assert!(taken.not_started.is_none(), "{point}");
        assert!(taken.exited.unwrap().code_unknown, "{point}");
        assert_eq!(ran(&run), 1, "{point}");
    }
}

#[test]
fn after_the_gate_the_launcher_goes_on_and_keeps_the_code() {
    for point in ["job.leaves_gate,parent,stop", "started"] {
        let mut rig = Rig::crashing(point);
        let run = patient(&rig);
        rig.launch(&run);
        rig.hear_of(&run, What::TakenOver);
        if point.ends_with("stop") {
            let job = run.claim().started.unwrap().job.unwrap().pid;
            // Its parent stood still for it, and is dead. The process stops after
            // that; a signal before it would be lost.
            assert_eq!(held(&rig), job);
            crate::rig::signal(job, rustix::process::Signal::CONT);
            // The process itself dies next.
            rig.hear_of(&run, What::Ended);
            assert_eq!(run.launchers().exited.unwrap().signal, libc::SIGKILL);
            continue;
        }
        let_go(&run);
        rig.hear_of(&run, What::Ended);
        let taken = run.launchers();
        assert_eq!(
            taken.kinds,
            [
                RecordKind::TakenOver,
                RecordKind::JobExited,
                RecordKind::TreeGone
            ],
            "{point}"
        );
        let exited = taken.exited.unwrap();
        assert!(!exited.code_unknown && taken.taken.unwrap().is_parent);
        assert_eq!((exited.code, ran(&run)), (9, 1));
        assert_eq!(taken.gone.unwrap().stdout_bytes, 4);
    }
}

#[test]
fn at_the_end_no_code_is_lost_or_told_twice() {
    for point in ["leader_seen", "exit_written", "reaped", "gone_written"] {
        let mut rig = Rig::crashing(point);
        let run = patient(&rig);
        rig.launch(&run);
        run.job();
        let_go(&run);
        assert_eq!(rig.news_of(&run).last(), Some(&What::Ended), "{point}");
        let (claim, taken) = (run.claim(), run.launchers());
        let exits: Vec<i32> = [claim.exited, taken.exited]
            .into_iter()
            .flatten()
            .map(|exited| exited.code)
            .collect();
        assert_eq!(exits, [9], "{point}");
        let ends = [claim.gone, taken.gone].into_iter().flatten().count();
        assert_eq!(ends, 1, "{point}");
        rig.nobody_else_is_left();
    }
}

#[test]
fn a_failure_to_start_survives_its_shim() {
    for point in [
        "started",
        "leader_seen",
        "exit_written",
        "reaped",
        "not_started",
    ] {
        let mut rig = Rig::crashing(point);
        let run = rig.run(&["/no/such/program"]);
        if point == "not_started" {
            run.cancel(1, Cancel::within(0));
        }
        rig.launch(&run);
        assert_eq!(rig.news_of(&run).last(), Some(&What::Ended), "{point}");
        let (claim, taken) = (run.claim(), run.launchers());
        let failures: Vec<_> = [claim.not_started, taken.not_started]
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(failures.len(), 1, "{point}");
        match point {
            "not_started" => assert_eq!(failures[0].stage(), Stage::Cancelled),
            _ => assert_eq!(
                (failures[0].stage(), failures[0].errno),
                (Stage::Exec, libc::ENOENT)
            ),
        }
        assert_eq!(
            [claim.gone, taken.gone].into_iter().flatten().count(),
            1,
            "{point}"
        );
    }
}

#[test]
fn a_shim_that_its_job_stops_goes_on_and_tells_the_end() {
    let mut rig = Rig::new();
    let run = rig.script("kill -STOP $PPID; sleep 0.1; kill -STOP $PPID; exit 6");
    rig.launch(&run);
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.claim().exited.unwrap().code, 6);
    // One notice, however often the watcher is stopped.
    let notices: Vec<String> = run
        .launchers_segments()
        .into_iter()
        .flat_map(|segment| segment.notices)
        .map(|notice| notice.text)
        .collect();
    assert_eq!(
        notices,
        ["its shim was stopped by a signal (SIGSTOP) and was continued"]
    );
}

#[test]
fn a_run_taken_over_can_be_cancelled() {
    let mut rig = Rig::new();
    let run =
        rig.script("trap '' TERM; sleep 1000 & echo ready > ready; while :; do sleep 1; done");
    rig.launch(&run);
    run.written("ready");
    kill(run.shim());
    rig.hear_of(&run, What::TakenOver);
    rig.cancel(&run, 1, Cancel::within(50));
    rig.hear_of(&run, What::Ended);
    let taken = run.launchers();
    assert_eq!(taken.stops[0].cancel, 1);
    assert_eq!(taken.exited.unwrap().signal, libc::SIGKILL);
    assert!(taken.gone.is_some());
    rig.nobody_else_is_left();
}

#[test]
fn a_cancel_that_the_dead_shim_did_not_see_is_seen() {
    let mut rig = Rig::new();
    let run = rig.run(&["/bin/sleep", "1000"]);
    rig.launch(&run);
    run.job();
    // No doorbell: the shim dies before it rings.
    run.cancel(1, Cancel::within(1000));
    kill(run.shim());
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.launchers().exited.unwrap().signal, libc::SIGTERM);
}

#[test]
fn a_stop_under_way_goes_on_without_its_shim() {
    let mut rig = Rig::new();
    let run = rig.script("trap '' TERM; echo ready > ready; while :; do sleep 1; done");
    rig.launch(&run);
    run.written("ready");
    rig.cancel(&run, 1, Cancel::within(200));
    until("the stop", || (!run.claim().stops.is_empty()).then_some(()));
    kill(run.shim());
    rig.hear_of(&run, What::Ended);
    let (claim, taken) = (run.claim(), run.launchers());
    if taken.taken.is_some() {
        assert_eq!((claim.stops.len(), taken.stops.len()), (1, 0));
        assert_eq!(taken.exited.unwrap().signal, libc::SIGKILL);
    }
}

#[test]
fn the_time_limit_outlives_the_shim() {
    let mut rig = Rig::new();
    let mut run = rig.run(&["/bin/sleep", "1000"]);
    run.launch.time_limit_ms = 400;
    rig.launch(&run);
    run.job();
    kill(run.shim());
    rig.hear_of(&run, What::Ended);
    let taken = run.launchers();
    assert_eq!(taken.exited.unwrap().signal, libc::SIGTERM);
    assert_eq!(taken.stops.len(), 1);
}

#[test]
fn orphans_of_a_dead_shim_are_swept_too() {
    let mut rig = Rig::new();
    // In the job's session; with the run's environment; a child of the main
    // process without either.
    let mut run = rig.script(
        "(sleep 1000 & exit) ; (setsid sleep 1000 & exit); \
         env -i setsid sh -c 'echo $$ > bare; while :; do sleep 0.1; done' & \
         read bare < /dev/null; while [ ! -e go ]; do sleep 0.02; done; exit 9",
    );
    run.launch.wait_for_strays = true;
    rig.launch(&run);
    let bare = run.number("bare");
    kill(run.shim());
    rig.hear_of(&run, What::TakenOver);
    let_go(&run);
    until("the exit", || run.launchers().exited);
    assert!(lives(bare) && run.launchers().gone.is_none());
    rig.cancel(&run, 1, Cancel::within(300));
    rig.hear_of(&run, What::Ended);
    assert!(!lives(bare));
    assert_eq!(run.launchers().exited.unwrap().code, 9);
    rig.nobody_else_is_left();
}

#[test]
fn strangers_among_the_orphans_are_left_alone() {
    let mut rig = Rig::new();
    let mut other = rig.script("env -i setsid sleep 1000 & echo $! > stray; exit 0");
    other.launch.wait_for_strays = true;
    let mut run = patient(&rig);
    run.launch.time_limit_ms = 0;
    rig.launch(&other);
    rig.launch(&run);
    let stray = other.number("stray");
    until("the exit", || other.claim().exited);
    run.job();
    kill(run.shim());
    rig.hear_of(&run, What::TakenOver);
    rig.cancel(&run, 1, Cancel::within(50));
    rig.hear_of(&run, What::Ended);
    assert!(lives(stray));
    kill(stray);
    rig.hear_of(&other, What::Ended);
}

#[test]
fn a_dead_launcher_ends_nothing() {
    let mut rig = Rig::new();
    let run = patient(&rig);
    rig.launch(&run);
    run.job();
    rig.kill_launcher();
    assert!(lives(run.job()) && lives(run.shim()));
    rig.restart();
    rig.guard(&run);
    let_go(&run);
    rig.hear_of(&run, What::Ended);
    let claim = run.claim();
    assert_eq!((claim.exited.unwrap().code, ran(&run)), (9, 1));
    assert!(claim.gone.is_some() && run.launchers_segments().is_empty());
}

#[test]
fn a_guarded_shim_hears_the_doorbell() {
    let mut rig = Rig::new();
    let run = rig.run(&["/bin/sleep", "1000"]);
    rig.launch(&run);
    run.job();
    rig.kill_launcher();
    rig.restart();
    rig.guard(&run);
    rig.cancel(&run, 1, Cancel::within(5000));
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.claim().exited.unwrap().signal, libc::SIGTERM);
}

#[test]
fn with_both_dead_the_job_goes_on_and_its_code_is_unknown() {
    let mut rig = Rig::new();
    let run = patient(&rig);
    rig.launch(&run);
    let job = run.job();
    run.written("ran");
    rig.kill_launcher();
    kill(run.shim());
    until("the shim's end", || (!lives(run.shim())).then_some(()));
    assert!(lives(job));
    rig.restart();
    rig.guard(&run);
    rig.hear_of(&run, What::TakenOver);
    let_go(&run);
    rig.hear_of(&run, What::Ended);
    let taken = run.launchers();
    assert!(!taken.taken.unwrap().is_parent && taken.exited.unwrap().code_unknown);
    assert!(taken.gone.is_some());
    assert_eq!(ran(&run), 1);
}

#[test]
fn a_guarded_shim_that_dies_leaves_its_job_to_the_launcher() {
    let mut rig = Rig::new();
    let run =
        rig.script("trap '' TERM; sleep 1000 & echo ready > ready; while :; do sleep 1; done");
    rig.launch(&run);
    run.written("ready");
    rig.kill_launcher();
    rig.restart();
    rig.guard(&run);
    kill(run.shim());
    rig.hear_of(&run, What::TakenOver);
    rig.cancel(&run, 1, Cancel::within(50));
    rig.hear_of(&run, What::Ended);
    let taken = run.launchers();
    assert!(taken.exited.unwrap().code_unknown && taken.stops.len() == 1);
    rig.nobody_else_is_left();
}

#[test]
fn strays_of_a_guarded_job_are_swept() {
    let mut rig = Rig::new();
    let run = rig.script("sleep 1000 & setsid sleep 1000 & echo ready > ready; while [ ! -e go ]; do sleep 0.02; done");
    rig.launch(&run);
    run.written("ready");
    rig.kill_launcher();
    kill(run.shim());
    rig.restart();
    rig.guard(&run);
    rig.hear_of(&run, What::TakenOver);
    let_go(&run);
    until("the exit", || run.launchers().exited);
    rig.cancel(&run, 1, Cancel::within(300));
    rig.hear_of(&run, What::Ended);
    rig.nobody_else_is_left();
}

#[test]
fn an_end_before_the_guard_started_is_reported() {
    let mut rig = Rig::new();
    let done = rig.run(&["/bin/true"]);
    rig.complete(&done);
    let unknown = patient(&rig);
    rig.launch(&unknown);
    let job = unknown.job();
    let waiting = rig.run(&["/bin/true"]);
    rig.kill_launcher();
    kill(unknown.shim());
    kill(job);
    until("their end", || {
        (!lives(job) && !lives(unknown.shim())).then_some(())
    });
    rig.restart();
    rig.guard(&done);
    assert_eq!(rig.news_of(&done), [What::Ended]);
    assert!(done.launchers_segments().is_empty());
    rig.guard(&waiting);
    assert_eq!(rig.news_of(&waiting), [What::NoClaim]);
    rig.guard(&unknown);
    assert_eq!(rig.news_of(&unknown).last(), Some(&What::Ended));
    assert!(unknown.launchers().exited.unwrap().code_unknown);
    // After a second request nothing is written twice.
    rig.guard(&unknown);
    assert_eq!(rig.news_of(&unknown), [What::Ended]);
    assert_eq!(unknown.launchers_segments().len(), 1);
}

#[test]
fn killed_together_before_the_gate_nothing_runs() {
    for point in ["linked,parent", "logs,parent"] {
        let mut rig = Rig::crashing(point);
        let run = patient(&rig);
        rig.launch(&run);
        until("the launcher's death", || {
            (!lives(rig.launcher_pid())).then_some(())
        });
        rig.kill_launcher();
        until("the shim's death", || {
            rig.processes().is_empty().then_some(())
        });
        rig.restart();
        rig.guard(&run);
        assert_eq!(rig.news_of(&run), [What::Ended], "{point}");
        assert_eq!(run.launchers().not_started.unwrap().stage(), Stage::Gate);
        assert_eq!(ran(&run), 0);
    }
}

#[test]
fn killed_at_any_instant_a_run_has_one_job_and_one_end() {
    let mut rig = Rig::new();
    let mut outcomes = std::collections::BTreeMap::new();
    for round in 0..120u64 {
        let run = rig.script("echo $$ >> ran; exit 9");
        rig.launch(&run);
        // Not to wait for anything: to hit another instant each time.
        std::thread::park_timeout(std::time::Duration::from_micros(round * 40));
        for pid in rig.shims() {
            kill(pid);
        }
        let news = rig.news_of(&run);
        let (claim, taken) = (run.claim(), run.launchers());
        let end = match (claim.exited, taken.exited, taken.not_started) {
            (Some(exited), None, None) | (None, Some(exited), None) => {
                assert_eq!((exited.code, exited.signal, ran(&run)), (9, 0, 1));
                assert_eq!([claim.gone, taken.gone].iter().flatten().count(), 1);
                assert!(!exited.code_unknown);
                "exited"
            }
            (None, None, Some(failure)) => {
                assert_eq!((failure.stage(), ran(&run)), (Stage::Gate, 0));
                "gate"
            }
            (None, None, None) => {
                assert_eq!((news.last(), ran(&run)), (Some(&What::NoClaim), 0));
                assert!(!run.folder().join("claim").exists());
                "no claim"
            }
            other => panic!("{other:?} after {news:?}"),
        };
        *outcomes.entry(end).or_insert(0) += 1;
    }
    eprintln!("{outcomes:?}");
    rig.nobody_else_is_left();
}

#[test]
fn launcher_and_shim_killed_at_any_instant_leave_one_job_at_most() {
    for round in 0..40u64 {
        let mut rig = Rig::new();
        let run = rig.script("echo $$ >> ran; exit 9");
        rig.launch(&run);
        std::thread::park_timeout(std::time::Duration::from_micros(round * 100));
        let shims = rig.shims();
        rig.kill_launcher();
        for pid in shims {
            kill(pid);
        }
        until("everybody to be gone", || {
            rig.processes().is_empty().then_some(())
        });
        rig.restart();
        rig.guard(&run);
        let end = *rig.news_of(&run).last().unwrap();
        let (claim, taken) = (run.claim(), run.launchers());
        match end {
            What::NoClaim => assert_eq!((claim.kinds.len(), ran(&run)), (0, 0)),
            What::Ended => {
                let exits = [claim.exited.clone(), taken.exited.clone()];
                let exits: Vec<_> = exits.into_iter().flatten().collect();
                if taken.not_started.is_some() {
                    assert_eq!((exits.len(), ran(&run)), (0, 0));
                } else {
                    assert_eq!(exits.len(), 1, "{claim:?} {taken:?}");
                    assert!(exits[0].code_unknown || exits[0].code == 9);
                    assert_eq!([claim.gone, taken.gone].iter().flatten().count(), 1);
                }
            }
            other => panic!("{other:?}"),
        }
        assert!(ran(&run) <= 1);
    }
}
