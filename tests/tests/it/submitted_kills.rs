//! A leader that dies at any step of a submission, before a change of the disk.

use std::thread;

use nero_model::process::Life;
use nero_tests::cluster::Scheduler;
use nero_tests::home::end;
use nero_tests::login::Login;
use nero_tests::tracer::kill_before;

/// More than the changes that one thread syncs for a submission. A leader of which none
/// comes so far is killed when its run has begun.
const STEPS: u32 = 10;

/// Returns whether the leader died before its run had begun.
fn a_leader_killed_before(step: u32, scheduler: Scheduler) -> bool {
    let login = Login::new(scheduler);
    login.start("a", "exit 3");
    login.home.until_settled(1);
    let [leader] = login.leaders()[..] else {
        panic!("one leader: {}", login.home.logs());
    };
    let mut tracer = kill_before(leader.pid, "fsync,fdatasync", step);
    login.start("b", &format!("echo x >> {}; exit 4", login.path("began")));
    login.until_made("began");
    let is_dead = leader.life().is_ok_and(|life| life != Life::Alive);
    end(&[leader]);
    tracer.wait().unwrap();
    let seen = login.home.until_settled(2);
    assert_eq!(seen["exit_code"], 4, "before step {step}: {seen:#}");
    let starts = login.until_made("began");
    assert_eq!(starts.lines().count(), 1, "before step {step}");
    is_dead
}

fn a_leader_killed_before_any_step_brings_its_run_home_once(scheduler: Scheduler) {
    let died: Vec<bool> = thread::scope(|scope| {
        let one = |step| scope.spawn(move || a_leader_killed_before(step, scheduler));
        let all: Vec<_> = (1..=STEPS).map(one).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    println!("{died:?}");
    let died = died.iter().filter(|died| **died).count();
    assert!(died >= 4, "{died} of {STEPS} died before their run began");
}

#[test]
fn a_leader_killed_before_any_step_of_a_submission_to_slurm_brings_its_run_home_once() {
    a_leader_killed_before_any_step_brings_its_run_home_once(Scheduler::Slurm);
}

#[test]
fn a_leader_killed_before_any_step_of_a_submission_to_grid_engine_brings_its_run_home_once() {
    a_leader_killed_before_any_step_brings_its_run_home_once(Scheduler::GridEngine);
}
