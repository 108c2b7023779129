//! Verdicts of nodes and people beside the journal of a run.

use super::*;
use crate::facts::reason::WaitReason;
use crate::facts::stage::Stage;
use crate::fold::row::DispatchRow;
use crate::fold::run::Run;
use crate::step::hand_over::{Answer, SendState};
use crate::step::input::Placement;
use crate::step::placement::Choice;
use crate::step::recall::RecallAnswer;

const GROUP: &str = "lab";
const NODE: &str = "a";

/// A run for a group that stands here.
fn stands(stage: Stage) -> Run {
    let made = lab::made(run(1, 1), GROUP);
    let dispatch = Dispatch {
        stage,
        rules_version: 1,
        ..Dispatch::default()
    };
    Run::judged(Arc::new(made), dispatch, Arc::default(), Arc::default())
}

fn offered() -> Run {
    stands(Stage::Offered {
        node: NODE.to_owned(),
        sending: false,
    })
}

/// Makes a run know these starts.
fn folds(run: &mut Run, starts: impl IntoIterator<Item = Incarnation>) {
    let incarnations = (1..).zip(starts.into_iter().map(Box::new)).collect();
    let journal = Journal {
        incarnations,
        ..Journal::default()
    };
    run.update(None, Some(Arc::new(journal)));
}

fn happens(run: &mut Run, input: &Input) {
    // A verdict or report may come late.
    for change in crate::step(run, input, 1000).unwrap_or_default() {
        match change {
            Change::Dispatch { dispatch, .. } => run.update(Some(*dispatch), None),
            Change::Journal { journal, .. } => run.update(None, Some(journal)),
            Change::Event { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

fn reports(run: &mut Run, standing: ReportedStage) {
    let report = Report {
        standing,
        ..Report::unknown()
    };
    let node = NODE.to_owned();
    happens(run, &Input::Reported { node, report });
}

fn refuses(run: &mut Run) {
    let answer = Answer::Refused {
        why: "no".to_owned(),
        lacks: None,
        hint: String::new(),
        only_here: false,
    };
    let (at, tick) = (run.placement().unwrap(), moment(1000).tick);
    happens(run, &Input::HandOver { at, answer, tick });
}

/// The run after a restart of the daemon.
fn restarted(run: &Run) -> Run {
    let stored = serde_json::to_string(&DispatchRow::of(run)).unwrap();
    let kept: DispatchRow = serde_json::from_str(&stored).unwrap();
    kept.run(
        (*run.made).clone(),
        Arc::clone(&run.journal),
        Arc::clone(&run.rules),
    )
}

fn cancel() -> Input {
    Input::Cancel(lab::cancel("me", 7))
}

/// The files of the run are gone, so that it cannot be sent any more.
fn cannot_be_sent() -> Input {
    Input::Sending {
        node: NODE.to_owned(),
        sending: SendState::Never("its files are gone".to_owned()),
        tick: moment(1000).tick,
    }
}

#[test]
fn a_late_refusal_does_not_end_a_run_that_has_begun() {
    let mut run = offered();
    folds(&mut run, [running()]);
    refuses(&mut run);
    assert!(run.takes_records(), "{run:?}");
    assert!(!needs::of(&run).close);
    folds(&mut run, [ended(0)]);
    assert_eq!(run.phase(), Phase::Finished);
}

#[test]
fn a_run_that_runs_by_its_journal_is_not_closed_whatever_its_node_said() {
    let mut run = offered();
    refuses(&mut run);
    assert!(needs::of(&run).close);
    let mut live = offered();
    folds(&mut live, [running()]);
    live.dispatch.stage = run.dispatch.stage.clone();
    assert_eq!(live.phase(), Phase::Running);
    assert!(!needs::of(&live).close);
}

#[test]
fn a_cancelled_run_stays_aborted_whatever_its_node_reports_and_after_a_restart() {
    let mut run = offered();
    happens(&mut run, &cancel());
    reports(&mut run, ReportedStage::TakenAway);
    assert_eq!(run.phase(), Phase::Aborted);
    reports(&mut run, ReportedStage::Refused);
    assert_eq!(restarted(&run).phase(), Phase::Aborted, "{run:?}");
}

#[test]
fn a_run_that_was_cancelled_at_its_scheduler_names_it_and_who_did_also_after_a_restart() {
    let mut run = offered();
    let report = Report {
        standing: ReportedStage::TakenAway,
        why: "SLURM by root".to_owned(),
        ..Report::unknown()
    };
    let node = NODE.to_owned();
    happens(&mut run, &Input::Reported { node, report });
    for run in [restarted(&run), run] {
        assert_eq!(run.phase(), Phase::Aborted);
        let reason = run.outcome.reason.as_ref().unwrap().to_string();
        assert_eq!(reason, "cancelled at SLURM by root");
    }
}

#[test]
fn a_run_that_was_refused_after_a_lost_hand_over_is_ended_on_a_node_that_comes_back() {
    let mut run = offered();
    happens(&mut run, &cannot_be_sent());
    assert_eq!(run.phase(), Phase::Queued, "its node may have it");
    refuses(&mut run);
    assert_eq!(run.phase(), Phase::Crashed);
    for mut run in [restarted(&run), run] {
        let input = Input::NodeGone {
            node: NODE.to_owned(),
            who: "me".to_owned(),
            others: true,
        };
        happens(&mut run, &input);
        assert_eq!(run.dispatch.left_behind, [NODE]);
    }
}

#[test]
fn a_begun_run_is_lost_if_its_node_forgets_it_while_its_journal_is_folded_anew() {
    let mut run = offered();
    folds(&mut run, [running()]);
    folds(&mut run, []);
    reports(&mut run, ReportedStage::Unknown);
    for mut run in [restarted(&run), run] {
        assert_eq!(run.phase(), Phase::Lost, "{run:?}");
        assert_eq!(run.outcome.ended_ms, Some(1000));
        assert_eq!(abort::comes_to(&run), CancelOutcome::GivenUp);
        happens(&mut run, &cancel());
        assert!(run.is_closed() && needs::of(&run).nothing());
    }
}

#[test]
fn a_run_that_was_given_up_is_not_warned_about_any_more() {
    let mut run = offered();
    folds(&mut run, [lost(3)]);
    reports(&mut run, ReportedStage::Unknown);
    let warned = |run: &Run| run.doubt_text(&PresentTime::wall(1000)).is_some();
    assert!(warned(&run));
    let input = Input::NodeGone {
        node: NODE.to_owned(),
        who: "me".to_owned(),
        others: true,
    };
    happens(&mut run, &input);
    assert_eq!(run.phase(), Phase::Lost);
    assert!(!warned(&run) && !warned(&restarted(&run)), "{run:?}");
}

#[test]
fn rules_that_were_changed_before_their_node_named_another_version_go_above_it() {
    let mut run = stands(Stage::Accepted {
        node: NODE.to_owned(),
        queued: true,
    });
    let ids = |ids: &[u64]| Input::Rules { ids: ids.into() };
    happens(&mut run, &ids(&[1]));
    let sent = run.rules_version();
    happens(
        &mut run,
        &Input::RulesDelivered {
            version: sent,
            kept: 7,
        },
    );
    assert_eq!((run.rules_version(), needs::of(&run).rules), (7, false));
    happens(&mut run, &ids(&[1, 2]));
    happens(&mut run, &ids(&[2]));
    let late = Input::RulesDelivered {
        version: 8,
        kept: 20,
    };
    happens(&mut run, &late);
    assert_eq!((run.rules_version(), needs::of(&run).rules), (21, true));
}

#[test]
fn a_watcher_that_takes_garbage_for_the_highest_version_keeps_no_rules_out() {
    let mut run = stands(Stage::Accepted {
        node: NODE.to_owned(),
        queued: true,
    });
    let refused = |version| Journal {
        rules_refused: Some((version, "no frame".to_owned())),
        ..Journal::default()
    };
    run.update(None, Some(Arc::new(refused(4))));
    assert_eq!(run.rules_version(), 5);
    run.update(None, Some(Arc::new(refused(u64::MAX))));
    assert_eq!(run.rules_version(), 1);
    happens(&mut run, &Input::Rules { ids: [1].into() });
    assert!(needs::of(&run).rules);
    let version = run.rules_version();
    happens(
        &mut run,
        &Input::RulesDelivered {
            version,
            kept: version,
        },
    );
    assert!(!needs::of(&run).rules);
}

#[test]
fn an_input_that_comes_too_late_is_refused_with_both_sides_named() {
    let mut run = offered();
    folds(&mut run, [running()]);
    let at = run.placement().unwrap();
    let late = crate::step(&run, &Input::RecallAsked { at }, 1000).unwrap_err();
    assert_eq!(
        late.to_string(),
        "run 1.1 is begun, so it takes no question for its recall"
    );
}

#[test]
fn what_belongs_to_another_hand_over_of_a_run_changes_nothing() {
    let tick = || moment(1000).tick;
    let of = |at: Placement| {
        let at = || at.clone();
        let (asked_ms, said) = (Some(7), crate::step::recall::RecallAnswer::Never);
        let cancelled = |answer| Input::CancelAnswered {
            at: at(),
            answer,
            asked_ms,
        };
        [
            Input::HandOver {
                at: at(),
                answer: Answer::Accepted { rules_version: 1 },
                tick: tick(),
            },
            cancelled(abort::Answer::NeverStarted),
            cancelled(abort::Answer::Unknown),
            Input::RecallAsked { at: at() },
            Input::RecallAnswered {
                at: at(),
                said,
                tick: tick(),
            },
            Input::RecallUnsupported { at: at() },
        ]
    };
    let mut run = offered();
    let (from, to, tick) = (NODE.to_owned(), "b".to_owned(), tick());
    happens(&mut run, &Input::Balance { from, to, tick });
    for (node, generation) in [("b", 1), (NODE, 0), (NODE, 2)] {
        let node = node.to_owned();
        for late in of(Placement { node, generation }) {
            assert!(crate::step(&run, &late, 1000).is_err(), "{late:?}");
        }
    }
    for fits in of(run.placement().unwrap()) {
        assert!(crate::step(&run, &fits, 1000).is_ok(), "{fits:?}");
    }
}

#[test]
fn a_late_report_that_a_run_was_given_back_counts_for_no_later_hand_over() {
    let unknown = |generation| Input::Reported {
        node: NODE.to_owned(),
        report: Report {
            generation,
            ..Report::unknown()
        },
    };
    // An earlier neromum names no generation.
    for first in [1, 0] {
        let mut run = offered();
        happens(&mut run, &unknown(first));
        assert_eq!(
            run.generation(),
            2,
            "handed over again, with the next number"
        );
        assert!(crate::step(&run, &unknown(1), 1000).is_err());
        assert!(crate::step(&run, &unknown(2), 1000).is_ok());
    }
}

#[test]
fn two_answers_about_one_run_count_one_after_the_other() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    let at = lab.state.run(run(1, 1)).unwrap().placement().unwrap();
    let answer = |answer| Input::HandOver {
        at: at.clone(),
        answer,
        tick: moment(1000).tick,
    };
    let rules_version = 1;
    let accepted = answer(Answer::Accepted { rules_version });
    let later = answer(Answer::Later {
        why: "no room".to_owned(),
        lacks: None,
        hint: String::new(),
    });
    let inputs = [(run(1, 1), &later), (run(1, 1), &accepted)];
    let changes = crate::steps(&lab.state, inputs, 1000, |late| panic!("{late}"));
    lab.take(changes);
    assert!(lab.state.run(run(1, 1)).unwrap().reached_its_node());
    let inputs = [(run(1, 1), &accepted), (run(1, 1), &later)];
    let changes = crate::steps(&lab.state, inputs, 1000, |late| panic!("{late}"));
    lab.take(changes);
    assert!(lab.state.run(run(1, 1)).unwrap().reached_its_node());
}

#[test]
fn a_run_that_starts_before_its_node_gives_it_back_shows_no_reason_to_wait() {
    let mut run = offered();
    let tick = moment(1000).tick;
    let (from, to) = (NODE.to_owned(), "b".to_owned());
    happens(&mut run, &Input::Balance { from, to, tick });
    let goes = matches!(run.why(), WaitReason::GoesTo { to, .. } if to == "b");
    assert!(goes, "{}", run.why());
    let stored = serde_json::to_string(&DispatchRow::of(&run)).unwrap();
    folds(&mut run, [Incarnation::default()]);
    assert_eq!(
        (run.phase(), run.why()),
        (Phase::Pending, &WaitReason::Unknown)
    );
    // The daemon dies before it stores more than the record of the start.
    let kept: DispatchRow = serde_json::from_str(&stored).unwrap();
    let read = kept.run(
        (*run.made).clone(),
        Arc::clone(&run.journal),
        Arc::default(),
    );
    assert_eq!(
        (read.phase(), read.why()),
        (Phase::Pending, &WaitReason::Unknown)
    );
}

#[test]
fn a_run_that_left_its_node_for_a_free_one_never_goes_back_there_for_room() {
    let mut run = offered();
    let tick = moment(1000).tick;
    let (from, to) = (NODE.to_owned(), "b".to_owned());
    happens(&mut run, &Input::Balance { from, to, tick });
    assert!(!balance::left(&run, NODE));
    let (at, tick) = (run.placement().unwrap(), moment(1000).tick);
    let said = RecallAnswer::Never;
    happens(&mut run, &Input::RecallAnswered { at, said, tick });
    assert!(balance::left(&run, NODE) && !balance::left(&run, "b"));
    assert!(balance::left(&restarted(&run), NODE));
}

#[test]
fn a_run_that_is_back_on_a_node_is_not_ended_there_as_one_that_was_left_behind() {
    let node = || NODE.to_owned();
    let mut run = stands(Stage::Offered {
        node: "b".to_owned(),
        sending: false,
    });
    happens(&mut run, &Input::Stray { node: node() });
    assert!(run.is_left_on(NODE));
    run.dispatch.stage = Stage::Unplaced;
    happens(&mut run, &Input::Choice(Choice::On(node())));
    assert_eq!(run.dispatch.left_behind, [""; 0]);
    // A run that is over here is ended on its own node, too.
    happens(&mut run, &Input::Offer { node: node() });
    happens(&mut run, &Input::Stray { node: node() });
    assert!(!run.is_left_on(NODE));
    refuses(&mut run);
    assert_eq!(run.phase(), Phase::Crashed);
    assert!(run.is_left_on(NODE));
}

#[test]
fn a_run_that_its_node_may_have_and_that_cannot_be_sent_says_that_the_node_is_asked() {
    let mut run = offered();
    happens(&mut run, &cannot_be_sent());
    let why = "its files are gone; node a is asked whether it has the run";
    assert_eq!(run.dispatch.why, WaitReason::from(why.to_owned()));
    let input = Input::HandOver {
        at: run.placement().unwrap(),
        answer: Answer::CannotTell {
            why: "replace its agent".to_owned(),
        },
        tick: moment(1000).tick,
    };
    happens(&mut run, &input);
    assert_eq!(run.phase(), Phase::Queued);
    assert_eq!(
        run.dispatch.why,
        WaitReason::from("replace its agent".to_owned())
    );
}

/// A requeued run that waits has no process: its job is cancelled at the scheduler.
#[test]
fn an_abort_that_the_scheduler_carries_out_is_the_persons() {
    use nero_journal::v1::{StopCause, task_over};
    use nero_model::EndReason;

    let asked = |author: &str| Cancel {
        delivered: true,
        ..lab::cancel(author, 9)
    };
    let mut start = ended(0);
    start.stop = Some(Box::new(crate::facts::journal::Stop {
        key: Key {
            rank: 0,
            made_ns: 0,
            offset: 1,
        },
        cause: StopCause::Warden.into(),
        rule: 0,
        at_ms: 5,
    }));
    start.task_over = Some(Box::new(crate::facts::journal::TaskOver {
        key: Key {
            rank: 0,
            made_ns: 0,
            offset: 7,
        },
        how: task_over::How::Cancelled.into(),
        scheduler: "SLURM".to_owned(),
        escalated: false,
    }));
    for cancel in [None, Some(Box::new(asked("ada")))] {
        let mut run = offered();
        run.dispatch.cancel.clone_from(&cancel);
        folds(&mut run, [start.clone()]);
        assert_eq!(run.phase(), Phase::Aborted);
        match cancel {
            Some(_) => assert_eq!(
                run.reason(),
                Some(&EndReason::ByPerson {
                    who: "ada".to_owned()
                })
            ),
            None => assert!(matches!(run.reason(), Some(EndReason::ByScheduler { .. }))),
        }
    }
    // The same for a run that no node had yet.
    let mut run = stands(Stage::Unplaced);
    happens(&mut run, &Input::Cancel(asked("ada")));
    let who = "ada".to_owned();
    assert_eq!(run.reason(), Some(&EndReason::TakenAway { who }));
}
