//! How far batches have come, over whole states.

use super::*;
use crate::facts::journal::{Progress, StartPause};
use crate::place::outlook::Outlook;

/// A batch of so many experiments.
fn started(experiments: u64) -> Lab {
    let mut lab = Lab::default();
    let names = (1..=experiments).map(|n| definition(&format!("e{n}"), "1"));
    lab.add("/lab", names.collect());
    let ids: Vec<u64> = (1..=experiments).collect();
    lab.start_batch(&ids, false);
    lab
}

/// The outlook at this time of the batch of the first experiment.
fn told(lab: &Lab, now_ms: i64) -> String {
    Outlook::of(&lab.state, run(1, 1), &PresentTime::wall(now_ms)).to_string()
}

fn finished(run_ms: u64) -> Incarnation {
    let mut ended = ended(0);
    ended.exit.as_mut().unwrap().run_ms = run_ms;
    ended
}

fn progress(lab: &mut Lab, id: RunId, done: f64, ran_ms: u64, left_ms: u64) {
    let mut journal = (*lab.state.run(id).unwrap().journal).clone();
    journal.progress = Some(Box::new(Progress {
        key: (1, Key::default()),
        done,
        ran_ms,
        left_ms: Some(left_ms),
    }));
    let journal = Arc::new(journal);
    lab.take(vec![Change::Journal { run: id, journal }]);
}

#[test]
fn a_batch_tells_how_far_it_has_come_and_how_long_it_may_take() {
    const HOUR: u64 = 3_600_000;
    let mut lab = started(10);
    assert_eq!(told(&lab, 10), "0 of 10 done");
    lab.say(run(1, 1), running());
    lab.say(run(2, 1), running());
    assert_eq!(
        told(&lab, 10),
        "0 of 10 done",
        "no run tells how long it takes"
    );
    lab.say(run(1, 1), finished(2 * HOUR));
    lab.say(run(3, 1), running());
    // Two run, seven wait: two rounds of hours for these, and one run more.
    assert_eq!(told(&lab, 5), "1 of 10 done, about 10 h left");
    let mut crash = ended(3);
    crash.exit.as_mut().unwrap().run_ms = 1;
    lab.say(run(2, 1), crash);
    lab.say(run(4, 1), running());
    assert_eq!(
        told(&lab, 5),
        "2 of 10 done, about 8 h left",
        "a crash tells no time"
    );
    for id in 3..=10 {
        lab.say(run(id, 1), finished(2 * HOUR));
    }
    assert_eq!(told(&lab, 5), "10 of 10 done");
    assert_eq!(Outlook::unfinished(&lab.state, &PresentTime::wall(5)), []);
}

#[test]
fn progress_tells_the_time_of_a_batch_from_its_first_runs_on() {
    let mut lab = started(4);
    lab.say(run(1, 1), running());
    // Half of it after ten minutes.
    progress(&mut lab, run(1, 1), 0.5, 600_000, 600_000);
    let now_ms = 5 + 600_000;
    assert_eq!(told(&lab, now_ms), "0 of 4 done, about 70 min left");
    let one = lab.state.run(run(1, 1)).unwrap();
    let eta = |passed_ms: i64| one.eta_s(one.runtime_s(&PresentTime::wall(now_ms + passed_ms)));
    assert_eq!(eta(0), Some(600.0));
    assert_eq!(eta(60_000), Some(540.0));
    assert_eq!(eta(600_000), None, "the expected time is over");
    let unfinished = Outlook::unfinished(&lab.state, &PresentTime::wall(now_ms));
    let [(batch, outlook)] = unfinished[..] else {
        panic!("one batch: {unfinished:?}");
    };
    assert_eq!((batch, outlook.runs, outlook.ended), (run(1, 1), 4, 0));
    lab.say(run(1, 1), ended(0));
    let one = lab.state.run(run(1, 1)).unwrap();
    assert_eq!(one.eta_s(Some(600.0)), None, "it has ended");
    assert_eq!(one.journal.progress().unwrap().done, 0.5);
}

#[test]
fn a_batch_waits_behind_what_was_started_earlier_on_its_node() {
    const HOUR: u64 = 3_600_000;
    let mut lab = Lab::default();
    lab.add(
        "/lab",
        (1..=5).map(|n| definition(&format!("e{n}"), "1")).collect(),
    );
    lab.start_batch(&[1, 2], false);
    lab.start_batch(&[3, 4, 5], false);
    lab.say(run(3, 1), finished(2 * HOUR));
    let second = |lab: &Lab| {
        let now = PresentTime::wall(5 + 600_000);
        Outlook::of(&lab.state, run(3, 1), &now).to_string()
    };
    assert_eq!(second(&lab), "1 of 3 done", "nothing runs there");
    lab.say(run(1, 1), running());
    assert_eq!(second(&lab), "1 of 3 done", "nobody knows when 2.1 ends");
    progress(&mut lab, run(1, 1), 0.5, 600_000, 600_000);
    // 10 min for 1.1, 20 for 2.1, and two runs of two hours.
    assert_eq!(second(&lab), "1 of 3 done, about 5 h left");
    assert_eq!(told(&lab, 5 + 600_000), "0 of 2 done, about 30 min left");
}

#[test]
fn a_paused_run_has_no_end_in_sight() {
    let mut lab = started(2);
    lab.say(run(1, 1), running());
    progress(&mut lab, run(1, 1), 0.5, 0, 600_000);
    assert_eq!(told(&lab, 5), "0 of 2 done, about 20 min left");
    let paused = Incarnation {
        paused: Some(Box::new(StartPause {
            key: Key::default(),
            request: 1,
            at_ms: 5,
            at: None,
        })),
        ..running()
    };
    lab.say(run(1, 1), paused);
    assert_eq!(told(&lab, 5), "0 of 2 done");
    let one = lab.state.run(run(1, 1)).unwrap();
    assert_eq!(one.eta_s(Some(0.0)), None);
}

#[test]
fn a_run_that_is_done_again_by_itself_is_not_done() {
    let mut lab = started(2);
    for id in [1, 2] {
        lab.say(run(id, 1), ended(3));
    }
    assert_eq!(told(&lab, 5), "2 of 2 done");
    let mut made = (*lab.state.run(run(2, 1)).unwrap().made).clone();
    made.id = run(2, 2);
    made.token = RunToken::random();
    made.batch = None;
    made.follows = Some(crate::facts::follows::Follows {
        by_items: Vec::new(),
        run: 1,
        cause: crate::facts::follows::Cause::Timeout,
        retries: 0,
        by_rules: 0,
        asked_node: None,
    });
    lab.take(vec![lab::new_run(made, Dispatch::planned(None, None))]);
    assert_eq!(told(&lab, 5), "1 of 2 done");
}
