//! The end of a scheduler's allocation: every start ends, and the run may get
//! another one.

use nero_journal::v1::changed::What;
use nero_journal::v1::{EndAll, RecordKind, StopCause, to_launcher};

use crate::rig::{Rig, Start, kill, signal};
use crate::run::{Run, Story};

const POLITE: &str = "trap 'exit 7' TERM; echo ready > ready; while :; do sleep 0.01; done";

fn allocation() -> Rig {
    Rig::start(Start {
        arguments: &["--allocation"],
        ..Start::default()
    })
}

fn end_all(rig: &mut Rig) {
    rig.send(to_launcher::Message::EndAll(EndAll {}));
}

/// The stop is the scheduler's, and no request in the control folder stands in the
/// way of the next start.
fn was_ended_by_the_scheduler(story: &Story) {
    let stops = story.stops.iter().map(|stop| (stop.cause(), stop.cancel));
    let stops: Vec<_> = stops.collect();
    assert_eq!(stops, [(StopCause::Warden, 0)]);
    assert_eq!(story.exited.as_ref().unwrap().code, 7);
    assert_eq!(story.kinds.last(), Some(&RecordKind::TreeGone));
}

fn ready(rig: &mut Rig) -> Run {
    let run = rig.script(POLITE);
    rig.launch(&run);
    run.written("ready");
    run
}

#[test]
fn every_start_of_an_allocation_that_ends_is_stopped_once() {
    let mut rig = allocation();
    let runs = [ready(&mut rig), ready(&mut rig)];
    end_all(&mut rig);
    end_all(&mut rig);
    for run in &runs {
        rig.hear_of(run, What::Ended);
        was_ended_by_the_scheduler(&run.claim());
        assert!(!run.folder().join("../control/cancel.1").exists());
    }
    rig.nobody_else_is_left();
}

#[test]
fn a_start_whose_shim_is_dead_ends_with_its_allocation() {
    let mut rig = allocation();
    let run = ready(&mut rig);
    kill(run.shim());
    rig.hear_of(&run, What::TakenOver);
    end_all(&mut rig);
    rig.hear_of(&run, What::Ended);
    was_ended_by_the_scheduler(&run.launchers());
    rig.nobody_else_is_left();
}

#[test]
fn a_start_that_a_later_launcher_guards_ends_with_its_allocation() {
    let mut rig = allocation();
    let run = ready(&mut rig);
    rig.kill_launcher();
    rig.restart();
    end_all(&mut rig);
    rig.guard(&run);
    rig.hear_of(&run, What::Ended);
    was_ended_by_the_scheduler(&run.claim());
}

#[test]
fn a_signal_to_end_stops_every_start_of_an_allocation() {
    use rustix::process::Signal;
    for sent in [Signal::TERM, Signal::USR2] {
        let mut rig = allocation();
        let run = ready(&mut rig);
        signal(rig.launcher_pid(), sent);
        rig.hear_of(&run, What::Ended);
        was_ended_by_the_scheduler(&run.claim());
    }
}
