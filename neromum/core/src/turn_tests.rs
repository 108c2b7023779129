//! Turns: priorities, and which runs pass the first that waits. A property compares every
//! order of events with what the first was promised.

use nero_model::{ExperimentId, RunId, RunToken};
use proptest::prelude::*;

use super::capacity::{Capacity, Needs};
use super::cards::{Card, CardRequest, Pool, WHOLE};
use super::decide::Decision;
use super::turn::Turn;
use super::{Core, Stage};

/// CPUs, memory, GPUs, priority, and time until it has surely ended.
#[derive(Clone, Copy, Debug, Default)]
struct Asks {
    cpus: u64,
    memory: u64,
    gpus: u32,
    priority: i32,
    lasts_ms: u64,
}

fn cpus(cpus: u64) -> Asks {
    Asks {
        cpus,
        ..Asks::default()
    }
}

fn token(number: u8) -> RunToken {
    RunToken::from_bytes([number; 16])
}

/// A node with CPUs, memory and GPUs.
struct BareNode {
    core: Core,
    now_ms: u64,
    runs: u8,
}

impl BareNode {
    fn new(cpus: f64, memory: u64, gpus: u32) -> Self {
        let mut core = Core::new(Capacity::new(cpus, Some(memory)));
        let card = |index: u32| Card {
            uuid: format!("GPU-{index}"),
            index,
            ..Card::default()
        };
        core.set_pool(Pool::Known((0..gpus).map(card).collect()));
        Self {
            core,
            now_ms: 0,
            runs: 0,
        }
    }

    fn asked(&mut self, asks: Asks) -> u8 {
        self.runs += 1;
        let number = self.runs;
        let id = RunId {
            experiment: ExperimentId(number.into()),
            number: 1,
        };
        // Zero is nothing here.
        let needs = Needs::of((asks.cpus as f64).max(1e-7), asks.memory);
        self.core
            .accept(token(number), id, number.into(), needs)
            .unwrap();
        let request = CardRequest {
            count: asks.gpus,
            share: WHOLE,
            ..CardRequest::default()
        };
        self.core.set_cards(token(number), request, Vec::new());
        let turn = Turn {
            priority: asks.priority,
            lasts_ms: asks.lasts_ms,
            ..Turn::default()
        };
        self.core.set_turn(token(number), turn);
        number
    }

    fn schedule(&mut self) {
        self.core.schedule(self.now_ms);
        self.core.check_invariants();
        assert!(!self.core.wants_to_start(self.now_ms));
        // A walk that ends early tells what one over all would tell. Who passed took CPUs from
        // those before it in that same walk.
        self.core.schedule(self.now_ms);
        for token in self.core.rest_without_cpus() {
            assert_eq!(self.core.run(&token).unwrap().why, "waits for CPUs");
        }
        for number in 1..=self.runs {
            self.core.prepared(token(number), 1);
        }
        self.core.take_effects();
    }

    fn ask(&mut self, asks: Asks) -> u8 {
        let number = self.asked(asks);
        self.schedule();
        number
    }

    fn end(&mut self, number: u8) {
        self.core.found(token(number), 1, Decision::Ended);
        self.schedule();
    }

    fn runs(&self, number: u8) -> bool {
        let run = self.core.run(&token(number)).unwrap();
        run.stage.holds_slot()
    }

    fn why(&self, number: u8) -> &str {
        &self.core.run(&token(number)).unwrap().why
    }
}

#[test]
fn a_higher_priority_goes_first_and_equals_in_the_order_of_their_start() {
    let mut node = BareNode::new(1.0, 0, 0);
    let busy = node.ask(cpus(1));
    let low = node.asked(Asks {
        priority: -1,
        ..cpus(1)
    });
    let first = node.asked(cpus(1));
    let second = node.asked(cpus(1));
    let high = node.asked(Asks {
        priority: 5,
        ..cpus(1)
    });
    // Of one start, by `--order`.
    for (number, rank) in [(first, 1), (second, 0)] {
        let turn = Turn {
            rank,
            ..Turn::default()
        };
        node.core.set_turn(token(number), turn);
    }
    node.schedule();
    let mut running = busy;
    for next in [high, second, first, low] {
        assert!(!node.runs(next));
        node.end(running);
        assert!(node.runs(next), "{next} follows {running}");
        running = next;
    }
}

#[test]
fn a_run_that_takes_nothing_waits_for_nobody() {
    let mut node = BareNode::new(1.0, 100, 0);
    let busy = node.ask(cpus(1));
    let first = node.ask(cpus(1));
    for _ in 0..100 {
        node.asked(cpus(1));
    }
    let nothing = node.ask(cpus(0));
    assert!(node.runs(nothing) && !node.runs(first));
    node.end(busy);
    assert!(node.runs(first));
}

#[test]
fn a_run_that_takes_nothing_which_the_first_needs_passes_it() {
    let mut node = BareNode::new(8.0, 100, 0);
    let busy = node.ask(Asks {
        memory: 80,
        ..cpus(1)
    });
    let first = node.ask(Asks {
        memory: 50,
        ..cpus(4)
    });
    assert_eq!(
        node.why(first),
        "waits for memory: asks for 50B, 20B of 100B free; taken by 1.1"
    );
    let small = node.ask(cpus(3));
    assert!(node.runs(small), "4 CPUs are left to the first");
    let one_more = node.ask(cpus(1));
    assert_eq!(node.why(one_more), "waits for its turn: it would delay 2.1");
    let some_memory = node.ask(Asks {
        memory: 10,
        ..cpus(1)
    });
    assert!(!node.runs(some_memory), "the first waits for memory");
    node.end(busy);
    assert!(node.runs(first));
}

#[test]
fn a_short_run_passes_when_it_ends_before_the_first_can_start() {
    let mut node = BareNode::new(4.0, 0, 0);
    let hour = Asks {
        lasts_ms: 3_600_000,
        ..cpus(2)
    };
    let busy = node.ask(hour);
    let first = node.ask(cpus(3));
    node.now_ms = 600_000;
    let long = node.ask(Asks {
        lasts_ms: 3_000_001,
        ..cpus(2)
    });
    let unlimited = node.ask(cpus(2));
    let short = node.ask(Asks {
        lasts_ms: 3_000_000,
        ..cpus(2)
    });
    assert!(!node.runs(long) && !node.runs(unlimited));
    assert!(node.runs(short));
    // A pause makes the end of what runs unknown, and nobody passes any more.
    node.end(short);
    node.core.set_paused(token(busy), true);
    node.core.set_paused(token(busy), false);
    let too_late = node.ask(Asks {
        lasts_ms: 1,
        ..cpus(2)
    });
    assert!(!node.runs(too_late) && !node.runs(first));
}

#[test]
fn a_run_that_fits_beside_the_first_after_its_start_passes() {
    let mut node = BareNode::new(8.0, 0, 0);
    node.ask(Asks {
        lasts_ms: 10,
        ..cpus(4)
    });
    let first = node.ask(cpus(6));
    let beside = node.ask(cpus(2));
    assert!(
        node.runs(beside),
        "all 8 CPUs come back, 6 are for the first"
    );
    let more = node.ask(cpus(1));
    assert!(!node.runs(more) && !node.runs(first));
}

#[test]
fn a_short_run_on_a_free_gpu_passes_one_that_waits_for_two() {
    let mut node = BareNode::new(8.0, 0, 2);
    let gpus = |gpus, lasts_ms| Asks {
        gpus,
        lasts_ms,
        ..cpus(1)
    };
    let busy = node.ask(gpus(1, 1000));
    let first = node.ask(gpus(2, 0));
    assert_eq!(node.why(first), "waits for 2 GPUs; GPU 0 is taken");
    let long = node.ask(gpus(1, 1001));
    let short = node.ask(gpus(1, 1000));
    assert!(node.runs(short) && !node.runs(long));
    node.end(busy);
    assert!(!node.runs(first));
    node.end(short);
    assert!(node.runs(first) && !node.runs(long));
}

#[test]
fn cpus_of_a_paused_run_go_to_others_and_both_share_them_when_it_goes_on() {
    let mut node = BareNode::new(2.0, 100, 0);
    let paused = node.ask(Asks {
        memory: 80,
        ..cpus(2)
    });
    node.core.found(token(paused), 1, Decision::Follow);
    node.core.set_paused(token(paused), true);
    let other = node.ask(cpus(2));
    assert!(node.runs(other));
    let large = node.ask(Asks {
        memory: 50,
        ..cpus(1)
    });
    assert_eq!(
        node.why(large),
        "waits for CPUs: asks for 1, 0 of 2 free; taken by 2.1"
    );
    node.core.set_paused(token(paused), false);
    assert_eq!(
        node.why(paused),
        "4 CPUs are given to runs and the node has 2: others started while it was paused"
    );
    node.schedule();
    assert!(!node.runs(large));
    node.end(other);
    assert_eq!(node.why(paused), "");
    node.core.set_paused(token(paused), true);
    node.schedule();
    assert_eq!(
        node.why(large),
        "waits for memory: asks for 50B, 20B of 100B free; taken by 1.1 (paused)"
    );
}

fn asks() -> impl Strategy<Value = Asks> {
    let lasts = prop_oneof![Just(0), 1u64..400];
    (1u64..5, 0u64..60, 0u32..3, -1i32..2, lasts).prop_map(
        |(cpus, memory, gpus, priority, lasts_ms)| Asks {
            cpus,
            memory,
            gpus,
            priority,
            lasts_ms,
        },
    )
}

/// What happens next: runs are asked for together, one ends early, time passes.
fn event() -> impl Strategy<Value = (Vec<Asks>, u8, u64)> {
    let asked = prop::collection::vec(asks(), 0..4);
    (asked, any::<u8>(), 0u64..120)
}

proptest! {
    /// Once a run is the first that waits, it starts at the time that the limits of the
    /// others promise, or before, whatever is asked for and ends meanwhile. Where nothing
    /// is promised, it starts as soon as it would if none had passed it.
    #[test]
    fn no_order_of_events_delays_the_first(events in prop::collection::vec(event(), 1..60)) {
        let mut node = BareNode::new(4.0, 100, 2);
        let mut lasts: Vec<(u8, Asks, u64)> = Vec::new();
        let mut first: Option<(u8, Option<u64>)> = None;
        for (asked, early, pass_ms) in events {
            let mut to_ms = node.now_ms + pass_ms;
            // Limits are kept: each run ends by then.
            loop {
                let running = |one: &&(u8, Asks, u64)| node.runs(one.0);
                let ends = |one: &(u8, Asks, u64)| {
                    let began_ms = node.core.run(&token(one.0)).unwrap().began_ms?;
                    (one.1.lasts_ms > 0).then(|| (began_ms + one.1.lasts_ms, one.0))
                };
                let next = lasts.iter().filter(running).filter_map(ends).min();
                match next.filter(|(ends_ms, _)| *ends_ms <= to_ms) {
                    Some((ends_ms, number)) => {
                        node.now_ms = node.now_ms.max(ends_ms);
                        node.end(number);
                    }
                    None => break,
                }
            }
            to_ms = to_ms.max(node.now_ms);
            node.now_ms = to_ms;
            let running: Vec<u8> = lasts.iter().map(|one| one.0).filter(|one| node.runs(*one)).collect();
            if !running.is_empty() && early % 3 == 0 {
                node.end(running[usize::from(early) % running.len()]);
            }
            for asks in asked {
                let number = node.asked(asks);
                lasts.push((number, asks, node.now_ms));
                // Whoever goes before it may delay it.
                first = first.filter(|(number, _)| {
                    let run = node.core.run(&token(*number)).unwrap();
                    run.turn.priority >= asks.priority
                });
            }
            node.schedule();
            if let Some((number, promised)) = first {
                let waits = node.core.run(&token(number)).unwrap().stage == Stage::Waiting;
                if let Some(start_ms) = promised.filter(|_| waits) {
                    prop_assert!(
                        node.now_ms < start_ms,
                        "run {} was promised a start at {}, and waits at {}",
                        number, start_ms, node.now_ms
                    );
                }
            }
            // A promise holds as long as nothing of a higher priority comes.
            let now_first = node.core.first_waiting();
            first = now_first.map(|(token, start_ms)| {
                let number = token.as_bytes()[0];
                match first.filter(|(before, _)| *before == number) {
                    Some((_, Some(before_ms))) => {
                        let start_ms = start_ms.expect("a promise is kept");
                        assert!(start_ms <= before_ms, "{number}: {before_ms} became {start_ms}");
                        (number, Some(start_ms))
                    }
                    Some((_, None)) | None => (number, start_ms),
                }
            });
        }
    }

    /// Without time limits a run passes only where nobody could notice: the first starts
    /// at the same event as on a node that starts strictly in order.
    #[test]
    fn without_time_limits_runs_that_pass_never_delay_the_first(
        before in prop::collection::vec(asks(), 1..6),
        waits in asks(),
        after in prop::collection::vec(asks(), 0..6),
        ends in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let endless = |asks: Asks| Asks { lasts_ms: 0, priority: 0, ..asks };
        let build = |others: &[Asks]| {
            let mut node = BareNode::new(4.0, 100, 2);
            let running: Vec<u8> = before.iter().map(|asks| node.ask(endless(*asks))).collect();
            let running: Vec<u8> = running.into_iter().filter(|one| node.runs(*one)).collect();
            // Those that wait are in the way of both.
            let waiting: Vec<u8> = (1..=node.runs).filter(|one| !node.runs(*one)).collect();
            for number in waiting {
                node.core.cancel(token(number));
            }
            node.schedule();
            let first = node.ask(endless(waits));
            for asks in others {
                node.ask(endless(*asks));
            }
            (node, running, first)
        };
        let (mut alone, mut running, first) = build(&[]);
        let (mut passed, _, same) = build(&after);
        prop_assert_eq!(first, same);
        for end in ends {
            prop_assert_eq!(alone.runs(first), passed.runs(first));
            if running.is_empty() || alone.runs(first) {
                break;
            }
            let number = running.remove(usize::from(end) % running.len());
            alone.end(number);
            passed.end(number);
        }
        prop_assert_eq!(alone.runs(first), passed.runs(first));
    }
}
