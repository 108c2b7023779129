//! Tables of the state machine: events with their times, and the effects of
//! each.

use proptest::prelude::*;

use super::*;

const PLAN: LaunchSettings = LaunchSettings {
    grace_ms: 100,
    strays: Strays::End,
    limit_at_ns: None,
    is_step: false,
};

const SECOND: u64 = 1000 * MS;

/// Short names of effects, so that a table reads as a story.
fn words(effects: Effects) -> String {
    let one = |effect: Effect| match effect {
        Effect::StopAsked(asked) => format!("asked:{}:{}", asked.cause, asked.cancel),
        Effect::Signal(signal) => format!("signal:{signal}"),
        Effect::Paused(paused) => format!("paused:{}", paused.request),
        Effect::Resumed(resumed) => format!("resumed:{}:{}", resumed.request, resumed.paused_ms),
        Effect::Stop => "stop".to_owned(),
        Effect::Continue => "continue".to_owned(),
        Effect::Kill { first: true } => "kill".to_owned(),
        Effect::Kill { first: false } => "again".to_owned(),
        Effect::Leave => "leave".to_owned(),
        Effect::JobExited => "exited".to_owned(),
        Effect::TreeGone(left) => format!("gone:{}", left.refused),
    };
    let all: Vec<String> = effects.into_iter().flatten().map(one).collect();
    all.join(" ")
}

fn story(plan: LaunchSettings, steps: &[(u64, Input, &str)]) -> Core {
    let mut core = Core::new(plan);
    for (at, (now_ns, input, expected)) in steps.iter().enumerate() {
        assert_eq!(words(core.step(*input, *now_ns)), *expected, "step {at}");
    }
    core
}

#[test]
fn srun_gets_no_signal_that_would_end_its_step_until_the_grace_is_over() {
    let step = LaunchSettings {
        is_step: true,
        ..PLAN
    };
    let signal = |number: u32, signal: i32| {
        Input::Cancel(Cancel {
            number,
            signal,
            ..Cancel::default()
        })
    };
    story(
        step,
        &[
            (0, signal(1, libc::SIGUSR1), "asked:0:1 signal:10"),
            (MS, signal(2, 0), "asked:0:2"),
            (99 * MS, Input::Tick, ""),
            (100 * MS, Input::Tick, "kill"),
        ],
    );
    // It has to see the end of a step that was paused.
    story(
        step,
        &[
            (0, Input::Pause { request: 1 }, "paused:1 stop"),
            (MS, Input::EndStart, "resumed:1:1 asked:4:0 continue"),
            (2 * MS, Input::LeaderEnded, "exited"),
            // What it leaves behind is signalled as ever.
            (3 * MS, cancel(1), "asked:1:1 signal:15"),
        ],
    );
}

fn cancel(number: u32) -> Input {
    Input::Cancel(Cancel {
        number,
        cause: StopCause::Person as i32,
        ..Cancel::default()
    })
}

fn swept(alive: u32, refused: u32, fingerprint: u64) -> Input {
    Input::Swept(SignalReport {
        alive,
        refused,
        sent: alive - refused,
        fingerprint,
        ..SignalReport::default()
    })
}

#[test]
fn a_job_that_ends_leaves_nothing() {
    let core = story(
        PLAN,
        &[
            (0, Input::Tick, ""),
            (5, Input::LeaderEnded, "exited"),
            (5, Input::Empty, "gone:0"),
            (6, Input::Tick, ""),
            (7, cancel(1), ""),
        ],
    );
    assert!(core.is_gone());
    assert_eq!(core.wake_at_ns(), None);
}

#[test]
fn a_run_without_a_limit_is_never_woken() {
    assert_eq!(Core::new(PLAN).wake_at_ns(), None);
}

#[test]
fn a_cancel_is_polite_then_final_until_nobody_is_left() {
    let mut core = story(
        PLAN,
        &[
            (SECOND, cancel(1), "asked:1:1 signal:15"),
            (SECOND + 99 * MS, Input::Tick, ""),
            (SECOND + 100 * MS, Input::Tick, "kill"),
            (SECOND + 100 * MS, swept(3, 0, 77), ""),
            (SECOND + 101 * MS, Input::Tick, "again"),
            (SECOND + 101 * MS, swept(1, 0, 78), ""),
            (SECOND + 102 * MS, Input::LeaderEnded, "exited"),
        ],
    );
    assert!(core.kills_strays(true));
    assert!(!core.kills_strays(false));
    assert_eq!(words(core.step(Input::Empty, 2 * SECOND)), "gone:0");
}

#[test]
fn strays_have_ten_seconds_then_the_ladder() {
    let core = story(
        PLAN,
        &[
            (SECOND, Input::LeaderEnded, "exited"),
            (10 * SECOND, Input::Tick, ""),
            (11 * SECOND, Input::Tick, "signal:15"),
            (11 * SECOND + 100 * MS, Input::Tick, "kill"),
        ],
    );
    assert!(core.kills_strays(false));
}

#[test]
fn strays_may_go_on_unless_the_run_is_cancelled() {
    let leaving = LaunchSettings {
        strays: Strays::Leave,
        ..PLAN
    };
    let core = story(
        leaving,
        &[
            (SECOND, Input::LeaderEnded, "exited"),
            (SECOND, Input::Tick, "leave"),
            (SECOND, Input::Empty, "gone:0"),
        ],
    );
    assert!(core.is_gone());
    story(
        leaving,
        &[
            (SECOND, cancel(1), "asked:1:1 signal:15"),
            (SECOND, Input::LeaderEnded, "exited"),
            (SECOND, Input::Tick, ""),
            (SECOND + 100 * MS, Input::Tick, "kill"),
        ],
    );
}

#[test]
fn strays_may_be_waited_for_and_still_be_cancelled() {
    let waiting = LaunchSettings {
        strays: Strays::Wait,
        ..PLAN
    };
    let core = story(
        waiting,
        &[
            (SECOND, Input::LeaderEnded, "exited"),
            (1_000_000 * SECOND, Input::Tick, ""),
        ],
    );
    assert_eq!(core.wake_at_ns(), None);
    story(
        waiting,
        &[
            (SECOND, Input::LeaderEnded, "exited"),
            (2 * SECOND, cancel(1), "asked:1:1 signal:15"),
            (2 * SECOND + 100 * MS, Input::Tick, "kill"),
            (3 * SECOND, Input::Empty, "gone:0"),
        ],
    );
}

#[test]
fn the_time_limit_stops_once() {
    let limited = LaunchSettings {
        limit_at_ns: Some(5 * SECOND),
        ..PLAN
    };
    assert_eq!(Core::new(limited).wake_at_ns(), Some(5 * SECOND));
    story(
        limited,
        &[
            (4 * SECOND, Input::Tick, ""),
            (5 * SECOND, Input::Tick, "asked:3:0 signal:15"),
            (5 * SECOND + MS, Input::Tick, ""),
            (6 * SECOND, Input::Tick, "kill"),
        ],
    );
}

#[test]
fn a_second_cancel_can_only_shorten_the_grace() {
    let long = Input::Cancel(Cancel {
        number: 2,
        cause: 1,
        grace_ms: 60_000,
        signal: libc::SIGINT,
        rule: 0,
    });
    story(
        PLAN,
        &[
            (SECOND, cancel(1), "asked:1:1 signal:15"),
            (SECOND, long, "asked:1:2 signal:2"),
            (SECOND + 100 * MS, Input::Tick, "kill"),
            (SECOND + 100 * MS, cancel(3), "asked:1:3"),
        ],
    );
}

#[test]
fn a_cancel_for_the_final_signal_knows_no_grace() {
    let kill = Input::Cancel(Cancel {
        number: 1,
        cause: 1,
        grace_ms: 60_000,
        signal: libc::SIGKILL,
        rule: 0,
    });
    story(PLAN, &[(SECOND, kill, "asked:1:1 kill")]);
}

#[test]
fn processes_out_of_reach_are_named_after_two_seconds() {
    story(
        PLAN,
        &[
            (SECOND, cancel(1), "asked:1:1 signal:15"),
            (2 * SECOND, Input::Tick, "kill"),
            (2 * SECOND, swept(2, 2, 5), ""),
            (3 * SECOND, swept(2, 2, 5), ""),
            (4 * SECOND, swept(2, 1, 6), ""),
            (4 * SECOND, swept(2, 2, 6), "gone:2"),
        ],
    );
}

#[test]
fn a_cancel_with_an_odd_signal_is_a_polite_one() {
    let odd = Input::Cancel(Cancel {
        number: 1,
        cause: 1,
        signal: -9,
        ..Cancel::default()
    });
    story(PLAN, &[(0, odd, "asked:1:1 signal:15")]);
}

#[test]
fn a_stop_under_way_goes_on() {
    let mut core = Core::new(PLAN);
    core.stop_under_way(7 * SECOND);
    assert_eq!(core.wake_at_ns(), Some(7 * SECOND));
    assert_eq!(words(core.step(Input::Tick, 7 * SECOND)), "kill");
}

#[test]
fn a_paused_run_is_stopped_again_and_again_and_its_limit_moves() {
    let limited = LaunchSettings {
        limit_at_ns: Some(10 * SECOND),
        ..PLAN
    };
    let mut core = story(
        limited,
        &[
            (SECOND, Input::Pause { request: 1 }, "paused:1 stop"),
            (SECOND + MS, Input::Tick, "stop"),
            (SECOND + 2 * MS, Input::Tick, ""),
            (SECOND + 3 * MS, Input::Tick, "stop"),
            (SECOND + 4 * MS, Input::Pause { request: 3 }, ""),
            (20 * SECOND, Input::Tick, "stop"),
            (
                21 * SECOND,
                Input::Resume { request: 4 },
                "resumed:4:20000 continue",
            ),
            (29 * SECOND, Input::Tick, ""),
        ],
    );
    assert_eq!(core.wake_at_ns(), Some(30 * SECOND));
    assert_eq!(core.paused_ns(29 * SECOND), 20 * SECOND);
    let ended = core.step(Input::Tick, 30 * SECOND);
    assert_eq!(words(ended), "asked:3:0 signal:15");
}

#[test]
fn a_cancel_ends_a_pause_first_and_what_is_being_ended_is_not_paused() {
    story(
        PLAN,
        &[
            (0, Input::Pause { request: 1 }, "paused:1 stop"),
            (SECOND, cancel(1), "resumed:1:1000 asked:1:1 signal:15"),
            (SECOND, Input::Pause { request: 3 }, ""),
            (SECOND, Input::Resume { request: 4 }, ""),
            (2 * SECOND, Input::Tick, "kill"),
        ],
    );
}

#[test]
fn a_pause_of_a_dead_predecessor_goes_on() {
    let mut core = Core::new(PLAN);
    core.paused_before(5 * SECOND, Some(1), 9 * SECOND);
    assert_eq!(
        words(core.step(Input::Pause { request: 1 }, 9 * SECOND)),
        ""
    );
    assert_eq!(words(core.step(Input::Tick, 9 * SECOND + MS)), "stop");
    let resumed = core.step(Input::Resume { request: 2 }, 10 * SECOND);
    assert_eq!(words(resumed), "resumed:2:6000 continue");
}

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(Input::Tick),
        (1..5u32, 0..3000u32, -2..70i32).prop_map(|(number, grace_ms, signal)| Input::Cancel(
            Cancel {
                number,
                cause: 1,
                grace_ms,
                signal,
                rule: 0
            }
        )),
        (1..5u32).prop_map(|request| Input::Pause { request }),
        (1..5u32).prop_map(|request| Input::Resume { request }),
        Just(Input::LeaderEnded),
        Just(Input::Empty),
        (0..4u32, any::<u64>()).prop_map(|(alive, print)| swept(alive, 0, print)),
        (1..4u32).prop_map(|alive| swept(alive, alive, 1)),
    ]
}

proptest! {
    /// The laws of any run: its end is reported once, after the main process's
    /// end or when every remaining process is out of reach, and nothing follows
    /// it; the final signal comes only after an end was asked for.
    #[test]
    fn laws(
        steps in prop::collection::vec((any_input(), 0..3 * SECOND), 0..60),
        strays in prop::sample::select(vec![Strays::End, Strays::Wait, Strays::Leave]),
        limit_at_ns in prop::option::of(0..20 * SECOND),
    ) {
        let mut core = Core::new(LaunchSettings { grace_ms: 100, strays, limit_at_ns, is_step: false });
        let mut now_ns = 0;
        let (mut exits, mut ends, mut polite, mut paused) = (0, 0, false, false);
        for (input, pause) in steps {
            now_ns += pause;
            for effect in core.step(input, now_ns).into_iter().flatten() {
                prop_assert_eq!(ends, 0, "nothing follows the end");
                match effect {
                    Effect::JobExited => exits += 1,
                    Effect::TreeGone(left) => {
                        ends += 1;
                        prop_assert!(exits == 1 || left.refused > 0);
                    }
                    Effect::Paused(_) => paused = true,
                    Effect::Resumed(_) => paused = false,
                    Effect::Stop => prop_assert!(paused),
                    Effect::Continue => prop_assert!(!paused),
                    Effect::StopAsked(_) | Effect::Signal(_) => {
                        prop_assert!(!paused, "what is to end can act on its signal");
                        polite = true;
                    }
                    Effect::Kill { .. } => prop_assert!(polite),
                    Effect::Leave => prop_assert!(exits == 1 && strays == Strays::Leave),
                }
            }
            prop_assert!(exits <= 1);
            prop_assert_eq!(core.is_gone(), ends == 1);
        }
    }
}
