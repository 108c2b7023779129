//! The core under scripted and random inputs; invariants after every step.

use nero_model::{ExperimentId, RunId, RunToken};
use proptest::prelude::*;

use super::capacity::{Capacity, Needs};
use super::cards::{Card, CardRequest, Pool, WHOLE};
use super::decide::Decision;
use super::{CancelDecision, Core, Effect, Stage};

fn id(number: u32) -> RunId {
    RunId {
        experiment: ExperimentId(1),
        number,
    }
}

fn token(number: u8) -> RunToken {
    RunToken::from_bytes([number; 16])
}

fn core(cpus: f64) -> Core {
    Core::new(Capacity::new(cpus, None))
}

fn accept(core: &mut Core, number: u8, cpus: f64) {
    core.accept(
        token(number),
        id(number.into()),
        number.into(),
        Needs::of(cpus, 0),
    )
    .unwrap();
    core.schedule(0);
    core.check_invariants();
}

fn prepared(effects: &[Effect]) -> Vec<RunToken> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Prepare { token, .. } => Some(*token),
            _ => None,
        })
        .collect()
}

#[test]
fn runs_start_in_order_and_the_first_that_does_not_fit_stops_the_rest() {
    let mut core = core(2.0);
    accept(&mut core, 1, 1.0);
    accept(&mut core, 2, 2.0);
    accept(&mut core, 3, 0.5);
    assert_eq!(prepared(&core.take_effects()), [token(1)]);
    let why = |core: &Core, number| core.run(&token(number)).unwrap().why.clone();
    assert_eq!(
        why(&core, 2),
        "waits for CPUs: asks for 2, 1 of 2 free; taken by 1.1"
    );
    assert_eq!(why(&core, 3), "waits for its turn: it would delay 1.2");
    core.prepared(token(1), 1);
    core.found(token(1), 1, Decision::Ended);
    core.schedule(0);
    core.check_invariants();
    assert_eq!(prepared(&core.take_effects()), [token(2)]);
    core.prepared(token(2), 1);
    core.found(token(2), 1, Decision::Ended);
    core.schedule(0);
    assert_eq!(prepared(&core.take_effects()), [token(3)]);
}

#[test]
fn runs_get_cards_of_their_own_and_wait_for_those_that_nobody_knows() {
    let mut core = Core::new(Capacity {
        cards: Some(3),
        ..Capacity::new(8.0, None)
    });
    let needs = |cards| Needs::of(1.0, 0).with_cards(cards);
    for (number, cards) in [(1, 2), (2, 1), (3, 2), (4, 0)] {
        let order = u64::from(number);
        core.accept(token(number), id(number.into()), order, needs(cards))
            .unwrap();
    }
    core.schedule(0);
    let cards = |core: &Core, number| core.run(&token(number)).unwrap().cards.clone();
    let started = [token(1), token(2), token(4)];
    assert_eq!(prepared(&core.take_effects()), started, "4 asks for none");
    assert_eq!((cards(&core, 1), cards(&core, 2)), (vec![0, 1], vec![2]));
    assert_eq!(
        core.run(&token(3)).unwrap().why,
        "waits for GPUs: asks for 2, 0 of 3 free; taken by 1.1, 1.2"
    );
    for incarnation in [1, 2] {
        core.prepared(token(1), incarnation);
        if incarnation == 1 {
            core.found(token(1), 1, Decision::LaunchNext);
            assert_eq!(cards(&core, 1), [0, 1], "the next start has the same");
        }
    }
    core.prepared(token(2), 1);
    core.found(token(2), 1, Decision::Ended);
    core.schedule(0);
    assert!(!core.wants_to_start(0), "one card is free");
    core.found(token(1), 2, Decision::Ended);
    core.schedule(0);
    assert_eq!(cards(&core, 3), [0, 1]);
    core.check_invariants();

    let mut core = Core::new(Capacity {
        cards: Some(3),
        ..Capacity::new(8.0, None)
    });
    core.restore(token(1), id(1), 1, needs(1), 1);
    core.restore(token(2), id(2), 2, needs(1), 0);
    core.schedule(0);
    assert!(prepared(&core.take_effects()).is_empty());
    core.found(token(1), 1, Decision::LaunchNext);
    core.schedule(0);
    assert_eq!(
        prepared(&core.take_effects()),
        [token(1), token(2)],
        "its next start gets cards that are known"
    );
    assert_eq!((cards(&core, 1), cards(&core, 2)), (vec![0], vec![1]));
    core.check_invariants();
}

#[test]
fn who_passes_a_run_that_waits_for_the_nodes_own_gpus() {
    // CPUs and GPUs of each run in order; the runs that start at once.
    let known = |locked: &[bool]| {
        let card = |(index, is_locked): (usize, &bool)| Card {
            uuid: format!("GPU-{index}"),
            index: index as u32,
            locked: is_locked.then_some((0, WHOLE)).into_iter().collect(),
            ..Card::default()
        };
        Pool::Known(locked.iter().enumerate().map(card).collect())
    };
    let unknown = || Pool::Unknown("the driver does not answer".to_owned());
    let too_many = "it asks for 2 GPUs, and this node has 1 of the kind";
    type Row<'a> = (&'a str, Pool, &'a [(f64, u32)], &'a [u8], &'a str);
    let table: [Row<'_>; 7] = [
        (
            "all fit",
            known(&[false]),
            &[(1.0, 1), (1.0, 0)],
            &[1, 2],
            "",
        ),
        (
            "one that asks for no GPU passes",
            known(&[true]),
            &[(1.0, 1), (1.0, 0)],
            &[2],
            "waits for 1 GPU; GPU 0 is taken by another home of yours",
        ),
        (
            "CPUs are kept for one whose GPU comes by itself",
            known(&[true]),
            &[(2.0, 1), (3.0, 0)],
            &[],
            "waits for 1 GPU; GPU 0 is taken by another home of yours",
        ),
        (
            "nobody takes a GPU before one that waits for two",
            known(&[true, false]),
            &[(1.0, 2), (1.0, 1)],
            &[],
            "waits for 2 GPUs; GPU 0 is taken by another home of yours",
        ),
        (
            "one that never fits keeps no GPU from others",
            known(&[false]),
            &[(1.0, 2), (1.0, 1)],
            &[2],
            too_many,
        ),
        (
            "one that never fits keeps no CPU from others",
            known(&[false]),
            &[(4.0, 2), (4.0, 0)],
            &[2],
            too_many,
        ),
        (
            "while GPUs are not known, CPUs are not kept",
            unknown(),
            &[(4.0, 1), (1.0, 1), (4.0, 0)],
            &[3],
            "waits for GPUs: the driver does not answer",
        ),
    ];
    for (case, pool, runs, started, why) in table {
        let mut core = core(4.0);
        core.set_pool(pool);
        for (number, (cpus, count)) in (1..).zip(runs) {
            let order = u64::from(number);
            core.accept(token(number), id(number.into()), order, Needs::of(*cpus, 0))
                .unwrap();
            let request = CardRequest {
                count: *count,
                share: WHOLE,
                ..CardRequest::default()
            };
            core.set_cards(token(number), request, Vec::new());
        }
        assert_eq!(core.wants_to_start(0), !started.is_empty(), "{case}");
        core.schedule(0);
        core.check_invariants();
        let started: Vec<RunToken> = started.iter().copied().map(token).collect();
        assert_eq!(prepared(&core.take_effects()), started, "{case}");
        assert_eq!(core.run(&token(1)).unwrap().why, why, "{case}");
        assert!(!core.wants_to_start(0), "{case}");
    }
}

#[test]
fn a_run_that_can_never_fit_is_not_accepted() {
    let mut core = core(2.0);
    let refused = core.accept(token(1), id(1), 1, Needs::of(2.5, 0));
    assert!(refused.unwrap_err().to_string().contains("2.5 CPUs"));
    assert!(core.is_empty());
}

#[test]
fn a_cancel_takes_away_what_was_not_launched_and_asks_for_the_end_of_the_rest() {
    let mut core = core(1.0);
    accept(&mut core, 1, 1.0);
    accept(&mut core, 2, 1.0);
    assert_eq!(core.cancel(token(2)), Some(CancelDecision::NeverStarts));
    assert_eq!(core.run(&token(2)).unwrap().stage, Stage::TakenAway);
    assert_eq!(core.cancel(token(1)), Some(CancelDecision::NeverStarts));
    core.prepared(token(1), 1);
    assert_eq!(core.run(&token(1)).unwrap().stage, Stage::TakenAway);
    core.check_invariants();
    accept(&mut core, 3, 1.0);
    core.prepared(token(3), 1);
    assert_eq!(core.cancel(token(3)), Some(CancelDecision::Ask));
    core.found(token(3), 1, Decision::Ended);
    assert_eq!(core.cancel(token(3)), Some(CancelDecision::Ended));
    assert_eq!(core.cancel(token(9)), None);
}

#[test]
fn a_closed_gate_starts_the_next_incarnation_in_the_same_slot() {
    let mut core = core(1.0);
    accept(&mut core, 1, 1.0);
    core.prepared(token(1), 1);
    core.take_effects();
    core.found(token(1), 1, Decision::LaunchNext);
    core.check_invariants();
    let effects = core.take_effects();
    assert!(effects.contains(&Effect::Prepare {
        token: token(1),
        incarnation: 2
    }));
    core.prepared(token(1), 2);
    assert!(core.take_effects().contains(&Effect::Launch {
        token: token(1),
        incarnation: 2
    }));
}

#[test]
fn a_hold_is_shown_and_lifted() {
    let mut core = core(1.0);
    core.hold("disk full");
    accept(&mut core, 1, 1.0);
    assert!(prepared(&core.take_effects()).is_empty());
    assert_eq!(core.run(&token(1)).unwrap().why, "disk full");
    core.hold("disk fuller");
    assert_eq!(core.run(&token(1)).unwrap().why, "disk fuller");
    core.release();
    core.schedule(0);
    assert_eq!(prepared(&core.take_effects()), [token(1)]);
}

#[test]
fn a_run_on_another_host_takes_nothing_here() {
    let mut core = core(1.0);
    accept(&mut core, 1, 1.0);
    accept(&mut core, 2, 1.0);
    core.prepared(token(1), 1);
    // A leader on another host was faster to claim it.
    core.found(token(1), 1, Decision::Elsewhere);
    core.check_invariants();
    assert_eq!((core.live(), core.far()), (0, 1));
    core.schedule(0);
    assert!(matches!(
        core.run(&token(2)).unwrap().stage,
        Stage::Starting { .. }
    ));
    // Leadership came back to that host.
    core.found(token(1), 1, Decision::Guard);
    core.check_invariants();
    assert_eq!((core.live(), core.far()), (2, 0));
}

#[test]
fn only_a_settled_run_can_be_closed() {
    let mut core = core(1.0);
    accept(&mut core, 1, 1.0);
    assert!(!core.closed(token(1)));
    core.prepared(token(1), 1);
    core.found(token(1), 1, Decision::Ended);
    assert!(!core.closed(token(1)));
    core.settled(token(1));
    assert!(core.closed(token(1)));
    assert!(core.is_empty());
    core.check_invariants();
}

#[derive(Clone, Debug)]
enum Input {
    Accept(u8, f64),
    Prepared(u8, u32),
    NotPrepared(u8, bool),
    NotLaunched(u8),
    Found(u8, u32, Decision),
    Cancel(u8),
    Settled(u8),
    Closed(u8),
    Hold,
    Release,
}

fn input() -> impl Strategy<Value = Input> {
    let run = 0u8..6;
    let decision = prop_oneof![
        Just(Decision::Launch),
        Just(Decision::LaunchNext),
        Just(Decision::SayGateClosed),
        Just(Decision::Follow),
        Just(Decision::Guard),
        Just(Decision::Ended),
        Just(Decision::SayCodeUnknown),
        Just(Decision::SayRebooted),
        Just(Decision::CannotSee),
        Just(Decision::Elsewhere),
    ];
    prop_oneof![
        3 => (run.clone(), 0.1f64..3.0).prop_map(|(run, cpus)| Input::Accept(run, cpus)),
        4 => (run.clone(), 1u32..3).prop_map(|(run, n)| Input::Prepared(run, n)),
        1 => (run.clone(), any::<bool>()).prop_map(|(run, again)| Input::NotPrepared(run, again)),
        1 => run.clone().prop_map(Input::NotLaunched),
        6 => (run.clone(), 1u32..3, decision).prop_map(|(run, n, d)| Input::Found(run, n, d)),
        1 => run.clone().prop_map(Input::Cancel),
        2 => run.clone().prop_map(Input::Settled),
        2 => run.prop_map(Input::Closed),
        1 => Just(Input::Hold),
        2 => Just(Input::Release),
    ]
}

proptest! {
    #[test]
    fn any_order_of_inputs_keeps_the_invariants(inputs in prop::collection::vec(input(), 0..120)) {
        let mut core = core(2.0);
        let mut order = 0;
        for input in inputs {
            match input {
                Input::Accept(run, cpus) => {
                    order += 1;
                    // Refusals (known, too large) are part of the play.
                    let _ = core.accept(token(run), id(run.into()), order, Needs::of(cpus, 0));
                }
                Input::Prepared(run, n) => core.prepared(token(run), n),
                Input::NotPrepared(run, again) => core.not_prepared(token(run), "why", again),
                Input::NotLaunched(run) => core.not_launched(token(run), "why"),
                Input::Found(run, n, decision) => core.found(token(run), n, decision),
                Input::Cancel(run) => { core.cancel(token(run)); }
                Input::Settled(run) => core.settled(token(run)),
                Input::Closed(run) => { core.closed(token(run)); }
                Input::Hold => core.hold("held"),
                Input::Release => core.release(),
            }
            core.check_invariants();
            core.schedule(0);
            core.check_invariants();
            for effect in core.take_effects() {
                if let Effect::Launch { token, .. } = effect {
                    let run = core.run(&token).unwrap();
                    prop_assert!(!run.cancelled || run.stage.incarnation() > 1, "a cancelled run is never launched first");
                }
            }
        }
    }
}

#[test]
fn a_submitted_run_neither_waits_nor_starts_here_until_its_task_is_over() {
    let mut core = core(1.0);
    accept(&mut core, 1, 1.0);
    accept(&mut core, 2, 1.0);
    assert!(!core.submit(token(1)), "it starts already");
    assert!(core.submit(token(2)));
    assert!(!core.submit(token(2)), "once is enough");
    core.found(token(1), 1, Decision::Ended);
    core.schedule(0);
    core.check_invariants();
    assert!(!prepared(&core.take_effects()).contains(&token(2)));
    // A host of the cluster has it, then the scheduler puts it back.
    core.found(token(2), 1, Decision::Elsewhere);
    assert_eq!(core.far(), 1);
    core.found(token(2), 1, Decision::AtScheduler);
    core.check_invariants();
    assert_eq!(core.far(), 0);
    assert_eq!(core.cancel(token(2)), Some(CancelDecision::Ask));
    core.found(token(2), 1, Decision::Vanished);
    assert_eq!(core.run(&token(2)).unwrap().stage, Stage::TakenAway);
    core.check_invariants();
}

#[test]
fn a_run_that_its_scheduler_lost_or_refused_is_submitted_again_or_refused() {
    let mut core = core(0.5);
    for number in [1, 2] {
        core.restore_submitted(
            token(number),
            id(number.into()),
            number.into(),
            Needs::of(9.0, 0),
        );
    }
    core.found(token(1), 1, Decision::Vanished);
    let vanished = Effect::Vanished { token: token(1) };
    assert!(core.take_effects().contains(&vanished));
    core.submit_again(token(1));
    core.check_invariants();
    assert_eq!(core.queue().collect::<Vec<_>>(), [token(1)]);
    core.turn_down(token(2), "no such partition");
    let refused = core.run(&token(2)).unwrap();
    assert_eq!(
        (&refused.stage, &*refused.why),
        (&Stage::Refused, "no such partition")
    );
    // A start that comes late counts more than the refusal.
    core.found(token(2), 1, Decision::Elsewhere);
    assert!(core.run(&token(2)).unwrap().stage.is_elsewhere());
    core.check_invariants();
}
