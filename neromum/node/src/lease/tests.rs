//! The table of decisions, and a small world in which hosts start, freeze, die and
//! lose each other: at any moment, an acting neromum has the newest epoch that it
//! could know of, and no leader is replaced without a reason.

use std::collections::BTreeMap;
use std::time::Duration;

use nero_node_core::lease::{
    EpochReason, FailedAttempts, OLD_BEATS, ObservedLease, PING_PONG_BEATS, ProcessPlace, Step,
    decide,
};
use proptest::prelude::*;

const BEAT: Duration = Duration::from_secs(15);

fn seen() -> impl Strategy<Value = ObservedLease> {
    let place = prop_oneof![
        Just(ProcessPlace::Here),
        Just(ProcessPlace::Dead),
        Just(ProcessPlace::Elsewhere)
    ];
    let facts = (1u64..9, any::<bool>(), place, any::<bool>());
    (facts, 0u64..200, 0u64..200).prop_map(|((epoch, left, place, listens), beat, more)| {
        ObservedLease {
            epoch,
            left,
            place,
            listens,
            beat: BEAT,
            beat_age: Duration::from_secs(beat),
            age: Duration::from_secs(beat + more),
        }
    })
}

fn tried() -> impl Strategy<Value = FailedAttempts> {
    let socket = proptest::option::of((0u64..5000).prop_map(Duration::from_millis));
    (socket, any::<bool>(), any::<bool>()).prop_map(|(socket, rebind, relay)| FailedAttempts {
        socket,
        rebind,
        relay,
    })
}

proptest! {
    #[test]
    fn proof_leads_at_once_and_nothing_else_does_while_beats_come(seen in seen(), tried in tried()) {
        let step = decide(Some(&seen), tried);
        if seen.left || seen.place == ProcessPlace::Dead {
            prop_assert!(matches!(step, Step::Lead(EpochReason::Left | EpochReason::Dead)));
        } else if seen.beat_age < BEAT * OLD_BEATS {
            let forced = seen.place == ProcessPlace::Elsewhere
                && (tried.relay || !seen.listens)
                && seen.age >= BEAT * PING_PONG_BEATS;
            prop_assert_eq!(matches!(step, Step::Lead(_)), forced, "{:?}", step);
        } else {
            prop_assert_eq!(step, Step::Lead(EpochReason::Silent));
        }
    }

    #[test]
    fn steps_fit_the_place(seen in seen(), tried in tried()) {
        match decide(Some(&seen), tried) {
            Step::Connect | Step::Rebind => prop_assert_eq!(seen.place, ProcessPlace::Here),
            Step::Relay => prop_assert!(seen.place == ProcessPlace::Elsewhere && seen.listens && !tried.relay),
            Step::Wait => prop_assert_eq!(seen.place, ProcessPlace::Elsewhere),
            Step::Lead(because) => {
                // A leader is replaced while it may act only when it cannot be
                // reached.
                prop_assert_eq!(seen.may_act(), because == EpochReason::Unreachable);
            }
        }
    }

    #[test]
    fn waiting_ends(seen in seen(), tried in tried()) {
        let later = ObservedLease { age: seen.age + BEAT * PING_PONG_BEATS, ..seen };
        prop_assert_ne!(decide(Some(&later), tried), Step::Wait);
    }
}

#[test]
fn a_folder_without_leases_is_led_by_whoever_comes() {
    assert_eq!(
        decide(None, FailedAttempts::default()),
        Step::Lead(EpochReason::First)
    );
}

#[test]
fn a_socket_that_does_not_come_is_asked_for_once() {
    let seen = ObservedLease {
        epoch: 1,
        left: false,
        place: ProcessPlace::Here,
        beat_age: Duration::ZERO,
        age: Duration::ZERO,
        beat: BEAT,
        listens: false,
    };
    let mut tried = FailedAttempts::default();
    assert_eq!(decide(Some(&seen), tried), Step::Connect);
    tried.socket = Some(Duration::from_millis(500));
    assert_eq!(decide(Some(&seen), tried), Step::Connect);
    tried.socket = Some(Duration::from_secs(2));
    assert_eq!(decide(Some(&seen), tried), Step::Rebind);
    tried.rebind = true;
    assert_eq!(decide(Some(&seen), tried), Step::Connect);
}

/// One leader of the small world.
#[derive(Clone, Debug)]
struct Leader {
    host: usize,
    began: u64,
    beat: u64,
    sure: u64,
    alive: bool,
    frozen: bool,
    left: bool,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Dial(usize),
    Freeze(usize),
    Wake(usize),
    Kill(usize),
    Cut(usize),
    Mend(usize),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0usize..3).prop_map(Event::Dial),
        1 => (0usize..3).prop_map(Event::Freeze),
        1 => (0usize..3).prop_map(Event::Wake),
        1 => (0usize..3).prop_map(Event::Kill),
        1 => (0usize..3).prop_map(Event::Cut),
        1 => (0usize..3).prop_map(Event::Mend),
        4 => (1u64..40).prop_map(Event::Wait),
    ]
}

#[derive(Debug, Default)]
struct Epochs {
    now: u64,
    epochs: BTreeMap<u64, Leader>,
    cut: [bool; 3],
}

impl Epochs {
    fn newest(&self) -> Option<(u64, &Leader)> {
        self.epochs.last_key_value().map(|(n, leader)| (*n, leader))
    }

    fn seen_from(&self, host: usize) -> Option<ObservedLease> {
        let (epoch, leader) = self.newest()?;
        let place = match (leader.host == host, leader.alive) {
            (true, true) => ProcessPlace::Here,
            (true, false) => ProcessPlace::Dead,
            (false, _) => ProcessPlace::Elsewhere,
        };
        Some(ObservedLease {
            epoch,
            left: leader.left,
            place,
            beat_age: Duration::from_secs(self.now - leader.beat),
            age: Duration::from_secs(self.now - leader.began),
            beat: BEAT,
            listens: true,
        })
    }

    /// Dials from a host; returns true when the dialler reaches a leader.
    fn dial(&mut self, host: usize) -> bool {
        let mut tried = FailedAttempts::default();
        loop {
            let seen = self.seen_from(host);
            let answers = self.newest().is_some_and(|(_, leader)| {
                let reached = leader.host == host || !(self.cut[host] || self.cut[leader.host]);
                leader.alive && !leader.frozen && reached
            });
            match decide(seen.as_ref(), tried) {
                Step::Lead(_) => {
                    let next = seen.map_or(1, |seen| seen.epoch + 1);
                    let leader = Leader {
                        host,
                        began: self.now,
                        beat: self.now,
                        sure: self.now,
                        alive: true,
                        frozen: false,
                        left: false,
                    };
                    assert!(self.epochs.insert(next, leader).is_none(), "made once");
                    return true;
                }
                Step::Connect => return answers,
                Step::Relay if answers => return true,
                Step::Relay => tried.relay = true,
                Step::Rebind | Step::Wait => return false,
            }
        }
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += 1;
            let newest = self.newest().map_or(0, |(epoch, _)| epoch);
            for (epoch, leader) in &mut self.epochs {
                let acts = leader.alive && !leader.frozen && !leader.left;
                // The agent's check before each turn: a recent look, or a look now.
                if acts && self.now - leader.sure >= 15 {
                    leader.sure = self.now;
                    if *epoch < newest {
                        leader.left = true;
                    } else {
                        leader.beat = self.now;
                    }
                }
            }
        }
    }

    fn acting(&self) -> usize {
        self.epochs
            .values()
            .filter(|one| one.alive && !one.frozen && !one.left && self.now - one.sure < 30)
            .count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn in_a_small_world_one_leads_and_when_faults_stop_all_reach_it(
        events in proptest::collection::vec(event(), 1..60)
    ) {
        let mut world = Epochs::default();
        for event in events {
            let of = |world: &Epochs, host| {
                world.newest().filter(|(_, one)| one.host == host).map(|(epoch, _)| epoch)
            };
            match event {
                Event::Dial(host) => { world.dial(host); }
                Event::Freeze(host) => if let Some(epoch) = of(&world, host) {
                    world.epochs.get_mut(&epoch).unwrap().frozen = true;
                },
                Event::Wake(host) => for one in world.epochs.values_mut() {
                    one.frozen &= one.host != host;
                },
                Event::Kill(host) => if let Some(epoch) = of(&world, host) {
                    world.epochs.get_mut(&epoch).unwrap().alive = false;
                },
                Event::Cut(host) => world.cut[host] = true,
                Event::Mend(host) => world.cut[host] = false,
                Event::Wait(seconds) => world.pass(seconds),
            }
        }
        world.cut = [false; 3];
        for one in world.epochs.values_mut() {
            one.frozen = false;
        }
        // Time enough for old beats, and for each replaced leader to look.
        world.pass(60);
        world.dial(0);
        let epochs = world.epochs.len();
        for host in 0..3 {
            prop_assert!(world.dial(host), "host {} reaches nobody: {:?}", host, world);
        }
        prop_assert_eq!(world.epochs.len(), epochs, "nobody takes over without a reason");
        world.pass(30);
        prop_assert_eq!(world.acting(), 1, "{:?}", world);
    }
}
