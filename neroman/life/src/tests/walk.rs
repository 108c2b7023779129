//! Many runs with the real decisions on both sides: those of this crate, and those of
//! `neromum/core`. Between them lie one heap of events with virtual time, connections that are
//! lost, requests that come late, disks, and processes that die.
//!
//! One seed is one history. A history that breaks a promise is cut down to the happenings that
//! it needs, and printed. `WALK_SEEDS=FROM..TO` plays others.

mod calls;
mod cards;
mod folder;
mod head;
mod heard;
mod holds;
mod link;
mod node;
mod people;
mod placer;
mod shim;
mod starts;
mod take_over;
mod wire;
mod world;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use people::{ExperimentPlan, Happening, Plan, Rates};
use world::{Dice, World};

/// How long an ordinary test plays.
const PLAYS: Duration = Duration::from_secs(50);

/// The promise that a plan breaks.
fn broken(plan: &Plan) -> Option<String> {
    let mut world = World::new(plan);
    world.play();
    world.clock.broken.map(|(promise, _)| promise)
}

/// The same plan without happenings and experiments that its fault does not need.
fn cut_down(plan: &Plan, promise: &str) -> Plan {
    let mut plan = plan.clone();
    let is_so = |plan: &Plan| broken(plan).is_some_and(|other| kind(&other) == kind(promise));
    let mut size = plan.happenings.len();
    while size > 0 {
        let mut at = 0;
        while at < plan.happenings.len() {
            let mut less = plan.clone();
            let end = (at + size).min(less.happenings.len());
            less.happenings.drain(at..end);
            if is_so(&less) {
                plan = less;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    plan
}

/// A promise without its details.
fn kind(promise: &str) -> &str {
    promise.split(':').next().unwrap_or(promise)
}

/// What happened, as far as it concerns the run that the promise is about.
fn story(plan: &Plan) -> String {
    let mut world = World::new(plan);
    world.clock.is_told = true;
    world.play();
    let about = world.clock.broken.as_ref().and_then(|(_, run)| *run);
    let mut text = format!("seed {}: nodes {:?}\n", plan.seed, plan.nodes);
    for (number, asked) in plan.experiments.iter().enumerate() {
        let _ = writeln!(text, "  experiment {}: {asked:?}", number + 1);
    }
    for (at_ms, run, what) in &world.clock.story {
        let concerns =
            run.is_none_or(|run| about.is_none_or(|about| about.experiment == run.experiment));
        if concerns {
            let run = run.map_or_else(String::new, |run| format!("{run} "));
            let _ = writeln!(text, "{:>9.3} {run}{what}", *at_ms as f64 / 1000.0);
        }
    }
    text
}

/// The seeds to play, and whether all of them are.
fn seeds() -> (std::ops::Range<u64>, bool) {
    let asked = std::env::var("WALK_SEEDS").ok();
    let asked = asked.as_deref().and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    match asked {
        Some(range) => (range, true),
        None => (0..u64::MAX, false),
    }
}

#[test]
fn many_runs_keep_every_promise_whatever_dies_and_is_lost() {
    let (range, all) = seeds();
    let (began, events) = (Instant::now(), AtomicU64::new(0));
    let next = AtomicU64::new(range.start);
    let play = || {
        while all || began.elapsed() < PLAYS {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= range.end {
                break;
            }
            let plan = Plan::of(seed);
            let mut world = World::new(&plan);
            world.play();
            events.fetch_add(world.events, Ordering::Relaxed);
            if let Some((promise, _)) = world.clock.broken {
                // The others end, too.
                next.store(range.end, Ordering::Relaxed);
                let least = cut_down(&plan, &promise);
                panic!("{promise}\n{}", story(&least));
            }
        }
    };
    // Two processors are what CI has.
    thread::scope(|scope| {
        scope.spawn(play);
        play();
    });
    let played = next.into_inner().min(range.end) - range.start;
    println!("{played} seeds, {events:?} events in {:?}", began.elapsed());
}

#[test]
fn the_same_seed_is_the_same_history() {
    for seed in 0..5 {
        let plan = Plan::of(seed);
        assert_eq!(story(&plan), story(&plan));
    }
}

#[test]
fn reports_of_an_earlier_hand_over_come_in() {
    let mut late = (0..2000).map(|seed| {
        let mut world = World::new(&Plan::of(seed));
        world.play();
        world.late_reports
    });
    assert!(late.any(|count| count > 0), "nothing plays a late report");
}

#[test]
fn a_run_that_a_power_cut_took_from_the_head_is_heard_of_again() {
    for seed in 0..200 {
        let start = Happening::Start {
            first: 1,
            last: 6,
            at_most: 0,
            has_pilot: false,
        };
        let cut_ms = Dice(seed).ms(500, 12_000);
        let asked = ExperimentPlan {
            cpus: 1,
            retries: 2,
            node: Some(0),
            ..ExperimentPlan::default()
        };
        let plan = Plan {
            seed,
            nodes: vec![6],
            experiments: vec![asked; 6],
            happenings: vec![(100, start), (cut_ms, Happening::HeadPower)],
            faults_ms: 25_000,
            rates: Rates {
                lost: 40,
                crashes: 250,
                slow: 1,
            },
        };
        assert_eq!(broken(&plan), None, "{}", story(&plan));
    }
}
