//! Decides the next step for a run, given the records on disk and its living
//! processes. A total, pure table: the agent uses it after a restart, when a
//! launcher came or went, and whenever a launcher reports a change.

use nero_model::process::Life;

use super::facts::Facts;

/// State of a run's processes, read *before* its segments: a process that was dead
/// then cannot have written a record that the reading missed. That holds only for
/// the processes named here, and not for a job without a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLives {
    /// The shim; `None` when its identity is not known.
    pub shim: Option<Life>,
    /// The job's main process.
    pub job: Option<Life>,
}

impl ProcessLives {
    /// For decisions that follow from records alone.
    pub const UNKNOWN: Self = Self {
        shim: None,
        job: None,
    };
}

/// The launchers' knowledge of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackingState {
    /// A launcher that answers looks after the run and will report its end.
    Tracked,
    /// A launcher reported that no further record can come.
    Over,
    /// No launcher that answers knows the run.
    Nobody,
}

/// Machine on which a claim was made, as far as it can be proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This machine, since its last boot.
    Here,
    /// A machine that was booted since.
    Over,
    /// Another machine, or an unknown one: nothing can be proven.
    Elsewhere,
    /// An earlier start of the same task of a scheduler, which is proven over.
    Earlier,
    /// A host of the cluster: this neromum submitted the run to a scheduler, in
    /// a task that stands so.
    Task(TaskWord),
}

/// Where a task of a scheduler stands, by the scheduler's word and the beats on
/// the disk together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskWord {
    /// It may begin, go on, or be begun once more.
    Open,
    /// The scheduler does not have it any more, and no start of it is alive.
    Over,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The run was never claimed: launch this incarnation (again). A shim that is
    /// still on its way loses or wins the same claim; both are right.
    Launch,
    /// The gate closed before user code ran: launch the next incarnation.
    LaunchNext,
    /// No record shows that the job was made or that the gate closed: close the
    /// gate and record that. If the job has passed the gate, decide anew.
    SayGateClosed,
    /// The run goes on and a launcher looks after it.
    Follow,
    /// A process of the run lives or may live, and no launcher looks after it: ask
    /// one to.
    Guard,
    /// The run ended and the records contain its end.
    Ended,
    /// The run is over and no record contains its end: record that.
    SayCodeUnknown,
    /// The machine was booted since, or the allocation of an earlier start is over,
    /// and with it every process of the run: record that. An exit code that is
    /// recorded stands.
    SayRebooted,
    /// The run's processes count in another pid name space, so nothing can be
    /// decided.
    CannotSee,
    /// The run was claimed on another host: follow its records on disk.
    Elsewhere,
    /// Its scheduler has it and may start it (again): wait.
    AtScheduler,
    /// Its task is over and began no user code.
    Vanished,
    /// Its task is over, and no record contains the run's end: record that.
    SayTaskOver,
}

/// Decides; see the table in `docs/design/runs.md`, "Who dies, what happens".
pub fn decide(
    facts: &Facts,
    lives: ProcessLives,
    tracking: TrackingState,
    origin: Origin,
) -> Decision {
    if let Origin::Task(word) = origin {
        return of_a_task(facts, word);
    }
    if facts.ended() {
        return match origin {
            Origin::Earlier if facts.may_go_on() => Decision::LaunchNext,
            Origin::Earlier | Origin::Here | Origin::Over | Origin::Elsewhere | Origin::Task(_) => {
                Decision::Ended
            }
        };
    }
    if !facts.claimed {
        return match tracking {
            TrackingState::Tracked => Decision::Follow,
            TrackingState::Over | TrackingState::Nobody => Decision::Launch,
        };
    }
    if facts.gate_closed {
        return Decision::LaunchNext;
    }
    if origin == Origin::Elsewhere {
        return match tracking {
            TrackingState::Tracked => Decision::Follow,
            TrackingState::Over | TrackingState::Nobody => Decision::Elsewhere,
        };
    }
    if origin == Origin::Over {
        return Decision::SayRebooted;
    }
    if origin == Origin::Earlier {
        return match tracking {
            TrackingState::Tracked => Decision::Follow,
            TrackingState::Over => after_an_earlier_start(facts, ProcessLives::UNKNOWN),
            TrackingState::Nobody => after_an_earlier_start(facts, lives),
        };
    }
    match tracking {
        TrackingState::Tracked => Decision::Follow,
        TrackingState::Over => without_end(facts),
        TrackingState::Nobody => match (lives.shim, lives.job) {
            (Some(Life::Elsewhere), _) | (_, Some(Life::Elsewhere)) => Decision::CannotSee,
            (Some(Life::Alive), _) | (_, Some(Life::Alive | Life::Zombie)) => Decision::Guard,
            // Other processes of its tree may live: the launcher that guards the
            // run ends them, and records that its code is unknown.
            (_, Some(_)) if facts.started => Decision::Guard,
            (None | Some(Life::Zombie | Life::Dead | Life::Rebooted), _) => without_end(facts),
        },
    }
}

/// Decides about an open claim whose `neromum job` is over. Processes that live
/// on this machine are followed to their end first, and the leftovers of a dead
/// one are swept, which ends without an exit code. Elsewhere they ended with
/// their allocation. A run whose main process had exited by itself is not executed
/// again. A job without a record may be on its way on any host: its gate is closed
/// first.
fn after_an_earlier_start(facts: &Facts, lives: ProcessLives) -> Decision {
    match (lives.shim, lives.job) {
        (Some(Life::Alive), _) | (_, Some(Life::Alive | Life::Zombie)) => Decision::Guard,
        (_, Some(Life::Dead)) if facts.started => Decision::Guard,
        _ if facts.exited_by_itself() => Decision::SayRebooted,
        _ if !facts.started => Decision::SayGateClosed,
        (
            None | Some(Life::Zombie | Life::Dead | Life::Rebooted | Life::Elsewhere),
            None | Some(Life::Dead | Life::Rebooted | Life::Elsewhere),
        ) => Decision::LaunchNext,
    }
}

/// Decides about a run that this neromum submitted. Its processes are out of
/// sight: the records on the disk decide, and the scheduler's word only about what
/// they leave open. An end that the scheduler wanted is held back while the task
/// may be begun once more.
fn of_a_task(facts: &Facts, word: TaskWord) -> Decision {
    let goes_on = facts.ended() && facts.may_go_on();
    match word {
        _ if facts.ended() && !goes_on => Decision::Ended,
        TaskWord::Open if facts.claimed && !facts.gate_closed && !goes_on => Decision::Elsewhere,
        TaskWord::Open => Decision::AtScheduler,
        TaskWord::Over if goes_on => Decision::Ended,
        TaskWord::Over if facts.claimed && !facts.gate_closed => Decision::SayTaskOver,
        TaskWord::Over => Decision::Vanished,
    }
}

/// Decides about a run without living processes whose end is not recorded.
fn without_end(facts: &Facts) -> Decision {
    if facts.started {
        Decision::SayCodeUnknown
    } else {
        // The job's process outlives its supervisors and may be on its way: only
        // a gate that could be closed proves that no user code runs.
        Decision::SayGateClosed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGINS: [Origin; 6] = [
        Origin::Here,
        Origin::Over,
        Origin::Elsewhere,
        Origin::Earlier,
        Origin::Task(TaskWord::Open),
        Origin::Task(TaskWord::Over),
    ];
    const LIVES: [Option<Life>; 6] = [
        None,
        Some(Life::Alive),
        Some(Life::Zombie),
        Some(Life::Dead),
        Some(Life::Rebooted),
        Some(Life::Elsewhere),
    ];
    const TRACKING: [TrackingState; 3] = [
        TrackingState::Tracked,
        TrackingState::Over,
        TrackingState::Nobody,
    ];

    fn every_case(mut check: impl FnMut(Facts, ProcessLives, TrackingState, Origin, Decision)) {
        for bits in 0u32..128 {
            let bit = |n: u32| bits & (1 << n) != 0;
            let facts = Facts {
                claimed: bit(0),
                started: bit(1),
                gate_closed: bit(2),
                not_started: bit(3),
                leader_ended: bit(4),
                gone: bit(5),
                lost: bit(6),
                ..Facts::default()
            };
            for origin in ORIGINS {
                for (shim, job) in LIVES.iter().flat_map(|shim| LIVES.map(|job| (*shim, job))) {
                    for tracking in TRACKING {
                        let lives = ProcessLives { shim, job };
                        let decision = decide(&facts, lives, tracking, origin);
                        check(facts, lives, tracking, origin, decision);
                    }
                }
            }
        }
    }

    #[test]
    fn of_a_run_on_another_host_nothing_is_made_up() {
        every_case(|facts, _, tracking, origin, decision| {
            let claimed = facts.claimed && !facts.gate_closed && !facts.ended();
            if origin == Origin::Elsewhere && claimed {
                let followed = match tracking {
                    TrackingState::Tracked => Decision::Follow,
                    TrackingState::Over | TrackingState::Nobody => Decision::Elsewhere,
                };
                assert_eq!(decision, followed, "{facts:?} {tracking:?}");
            } else if origin != Origin::Task(TaskWord::Open) {
                assert_ne!(decision, Decision::Elsewhere);
            }
        });
    }

    #[test]
    fn no_launch_happens_where_user_code_may_have_run() {
        every_case(|facts, lives, tracking, origin, decision| {
            if origin == Origin::Earlier {
                // Its processes are over; what lives here is guarded first.
                return;
            }
            let launches = matches!(
                decision,
                Decision::Launch | Decision::LaunchNext | Decision::SayGateClosed
            );
            let may_have_run = facts.claimed
                && !facts.gate_closed
                && (facts.started || lives.shim == Some(Life::Alive));
            let tracked = tracking == TrackingState::Tracked && !facts.gate_closed;
            let over = tracking == TrackingState::Over;
            if launches && !over {
                assert!(
                    !may_have_run && !tracked,
                    "{facts:?} {lives:?} {tracking:?}"
                );
            }
            if launches {
                assert!(
                    !(facts.started && !facts.gate_closed && facts.claimed),
                    "{facts:?}"
                );
            }
        });
    }

    #[test]
    fn a_tree_that_nobody_looked_at_is_guarded_before_it_is_called_over() {
        every_case(|facts, lives, tracking, origin, decision| {
            let open = facts.claimed && facts.started && !facts.ended() && !facts.gate_closed;
            let ours = origin == Origin::Here;
            let seen = !matches!(lives.shim, Some(Life::Elsewhere)) && lives.job.is_some();
            if open && ours && seen && tracking == TrackingState::Nobody {
                let right = match lives.job {
                    Some(Life::Elsewhere) => Decision::CannotSee,
                    _ => Decision::Guard,
                };
                assert_eq!(decision, right, "{facts:?} {lives:?}");
            }
        });
    }

    #[test]
    fn an_earlier_start_is_followed_while_it_lives_and_its_gate_is_closed_before_the_next() {
        every_case(|facts, lives, tracking, _, _| {
            for tells in [false, true] {
                let facts = Facts {
                    code_unknown: !tells,
                    ..facts
                };
                let decision = decide(&facts, lives, tracking, Origin::Earlier);
                let alive = lives.shim == Some(Life::Alive) || lives.job == Some(Life::Alive);
                let open = facts.claimed && !facts.ended() && !facts.gate_closed;
                if facts.ended() {
                    let exited = tells && facts.leader_ended;
                    let last = facts.not_started || exited || (tells && !facts.lost);
                    assert_eq!(decision == Decision::Ended, last, "{facts:?}");
                } else if open && tracking == TrackingState::Nobody && alive {
                    assert_eq!(decision, Decision::Guard, "{facts:?} {lives:?}");
                } else if open && tracking != TrackingState::Tracked && facts.exited_by_itself() {
                    let end = [Decision::Guard, Decision::SayRebooted];
                    assert!(end.contains(&decision), "{facts:?} {lives:?}");
                    continue;
                } else if open && tracking != TrackingState::Tracked && !facts.started {
                    let gate = [Decision::Guard, Decision::SayGateClosed];
                    assert!(gate.contains(&decision), "{facts:?} {lives:?}");
                }
                let guess = [
                    Decision::SayCodeUnknown,
                    Decision::SayRebooted,
                    Decision::Elsewhere,
                    Decision::CannotSee,
                ];
                assert!(!guess.contains(&decision), "{facts:?} {lives:?}");
            }
        });
    }

    #[test]
    fn of_a_run_at_a_scheduler_the_records_decide_and_its_word_only_what_they_leave_open() {
        every_case(|facts, lives, tracking, _, _| {
            for stopped_by_scheduler in [false, true] {
                let facts = Facts {
                    stopped_by_scheduler,
                    ..facts
                };
                let of = |word| decide(&facts, lives, tracking, Origin::Task(word));
                let (open, over) = (of(TaskWord::Open), of(TaskWord::Over));
                if facts.ended() && !facts.may_go_on() {
                    assert_eq!((open, over), (Decision::Ended, Decision::Ended));
                } else if facts.ended() {
                    assert_eq!((open, over), (Decision::AtScheduler, Decision::Ended));
                } else if facts.claimed && !facts.gate_closed {
                    assert_eq!((open, over), (Decision::Elsewhere, Decision::SayTaskOver));
                } else {
                    assert_eq!((open, over), (Decision::AtScheduler, Decision::Vanished));
                }
            }
        });
    }

    #[test]
    fn records_come_before_any_guess() {
        every_case(|facts, lives, tracking, origin, decision| {
            if facts.ended() {
                let right = match origin {
                    Origin::Earlier if facts.may_go_on() => Decision::LaunchNext,
                    Origin::Task(TaskWord::Open) if facts.may_go_on() => Decision::AtScheduler,
                    _ => Decision::Ended,
                };
                assert_eq!(decision, right, "{facts:?} {origin:?}");
            }
            let guess = matches!(decision, Decision::SayCodeUnknown | Decision::SayRebooted);
            if guess {
                assert!(
                    !facts.ended() && tracking != TrackingState::Tracked
                        || decision == Decision::SayRebooted
                );
            }
            let alive = lives.shim == Some(Life::Alive) || lives.job == Some(Life::Alive);
            if decision == Decision::SayCodeUnknown {
                assert!(
                    !alive || tracking == TrackingState::Over,
                    "{facts:?} {lives:?}"
                );
            }
        });
    }
}
