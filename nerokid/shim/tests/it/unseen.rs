//! Runs that a launcher was asked to guard and cannot see, or not whole.

use std::fs;

use nero_journal::v1::changed::What;

use crate::rig::{Rig, kill, lives, until};
use crate::run::Cancel;

#[test]
fn a_process_that_cannot_be_read_is_looked_at_until_it_can() {
    let mut rig = Rig::new();
    let run = rig.script("echo ready > ready; sleep 1000");
    rig.launch(&run);
    run.written("ready");
    rig.kill_launcher();
    kill(run.shim());
    until("the shim's end", || (!lives(run.shim())).then_some(()));
    let guard = Rig::guarding(&run);
    // A folder cannot be read as if it were a segment.
    let (claim, away) = (run.folder().join("claim"), run.folder().join("away"));
    fs::rename(&claim, &away).unwrap();
    fs::create_dir(&claim).unwrap();
    rig.restart();
    rig.send(guard);
    run.cancel(1, Cancel::within(5000));
    rig.ring(&run);
    until("the launcher's word", || {
        rig.log().contains("cannot read").then_some(())
    });
    fs::remove_dir(&claim).unwrap();
    fs::rename(&away, &claim).unwrap();
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.launchers().stops.len(), 1);
    rig.nobody_else_is_left();
}

#[test]
fn a_run_whose_claim_is_damaged_is_not_ended_until_the_claim_is_whole_again() {
    let mut rig = Rig::new();
    let run = rig.script("echo ready > ready; sleep 1000");
    rig.launch(&run);
    run.written("ready");
    rig.kill_launcher();
    let job = run.job();
    kill(run.shim());
    until("the shim's end", || (!lives(run.shim())).then_some(()));
    let guard = Rig::guarding(&run);
    let claim = run.folder().join("claim");
    let whole = fs::read(&claim).unwrap();
    let mut damaged = whole.clone();
    // In the record that names the job.
    let at = whole.iter().rposition(|byte| *byte != 0).unwrap() - 12;
    damaged[at] ^= 4;
    fs::write(&claim, damaged).unwrap();
    rig.restart();
    rig.send(guard);
    run.cancel(1, Cancel::within(5000));
    rig.ring(&run);
    until("the launcher's word", || {
        rig.log().contains("is damaged").then_some(())
    });
    assert!(lives(job));
    assert_eq!(run.launchers_segments(), []);
    fs::write(&claim, whole).unwrap();
    rig.hear_of(&run, What::Ended);
    assert_eq!(run.launchers().stops.len(), 1);
    assert!(!lives(job));
    rig.nobody_else_is_left();
}

#[test]
fn strays_are_found_though_the_main_process_was_gone_before_the_guard_came() {
    let mut rig = Rig::new();
    let run = rig.script("setsid sleep 1000 & echo $! > stray; exec sleep 1000");
    rig.launch(&run);
    let (stray, job) = (run.number("stray"), run.job());
    rig.kill_launcher();
    for one in [run.shim(), job] {
        kill(one);
        until("its end", || (!lives(one)).then_some(()));
    }
    rig.restart();
    rig.guard(&run);
    rig.hear_of(&run, What::TakenOver);
    until("the exit", || run.launchers().exited);
    assert!(lives(stray) && run.launchers().gone.is_none());
    rig.cancel(&run, 1, Cancel::within(5000));
    rig.hear_of(&run, What::Ended);
    assert!(run.launchers().exited.unwrap().code_unknown);
    assert!(!lives(stray));
    rig.nobody_else_is_left();
}

#[test]
fn pipes_that_a_job_puts_into_its_folder_keep_no_launcher_waiting() {
    let mut rig = Rig::new();
    let run = rig.script(
        "cd ../1; rm stdout.log stderr.log; \
         mkfifo stdout.log stderr.log launcher-00.seg watch.lock ../control/cancel.2; \
         cd ../work; echo ready > ready; exec sleep 1000",
    );
    rig.launch(&run);
    run.written("ready");
    kill(run.shim());
    rig.hear_of(&run, What::TakenOver);
    rig.kill_launcher();
    rig.restart();
    rig.guard(&run);
    rig.hear_of(&run, What::TakenOver);
    let other = rig.run(&["/bin/true"]);
    rig.launch(&other);
    rig.hear_of(&other, What::Ended);
    rig.cancel(&run, 1, Cancel::within(5000));
    rig.hear_of(&run, What::Ended);
}
