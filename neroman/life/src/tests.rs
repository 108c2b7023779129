//! Decisions over a state, step by step, with the invariants checked after
//! each.

use std::sync::Arc;

use nero_format::{Definition, NotBuilt};
use nero_model::{EndReason, ExperimentId, Phase, RunId, RunToken};
use proptest::prelude::*;

use crate::facts::dispatch::RecordsSent;
use crate::facts::journal::{Incarnation, Journal, Key, SchedulerGrant};
use crate::facts::now::{PresentTime, Tick};
use crate::facts::stage::{HandOverStage, Stage, Verdict};
use crate::fold::change::Change;
use crate::fold::run::{Cancel, Dispatch, Results, RunRecord};
use crate::place::balance;
use crate::place::start::{Plan, StartOptions};
use crate::source::abort::{self, CancelOutcome};
use crate::source::add::{self, DiffKind};
use crate::step::input::Input;
use crate::step::needs;
use crate::step::report::{Report, ReportedStage};

mod any_order;
mod batches;
mod cohorts;
#[cfg(debug_assertions)]
mod growth;
pub(crate) mod lab;
mod ledgers;
mod locks;
mod matrix;
mod outlooks;
mod precedence;
mod processing;
mod promises;
mod reach;
mod restored;
mod retries;
mod sources;
mod standing;
mod verdicts;
mod waits;
mod walk;

pub(crate) use lab::{Lab, RESTART, definition, ended, moment, run, running, skipped, source};

#[test]
fn adding_again_keeps_numbers_and_says_what_changed() {
    let mut lab = Lab::default();
    let first = lab.add("/lab", vec![definition("a", "0.1"), definition("b", "0.2")]);
    assert_eq!(first.range(), "1-2");
    let again = lab.add("/lab", vec![definition("a", "0.1"), definition("b", "0.2")]);
    assert!(again.seen.iter().all(|seen| seen.what == DiffKind::Same));
    let changed = lab.add(
        "/lab",
        vec![
            definition("b", "0.003"),
            definition("c", "1"),
            definition("a", "0.1"),
        ],
    );
    let said: Vec<_> = changed
        .seen
        .iter()
        .map(|seen| (seen.id.0, seen.what, seen.changes.join(";")))
        .collect();
    assert_eq!(
        said,
        [
            (2, DiffKind::Changed, "lr 0.2 → 0.003".to_owned()),
            (3, DiffKind::Added, String::new()),
            (1, DiffKind::Same, String::new()),
        ]
    );
    let fewer = lab.add("/lab", vec![definition("a", "0.1")]);
    assert_eq!(fewer.range(), "1");
    assert_eq!(fewer.lines(), ["2-3: no longer in its source; kept"]);
    let back = lab.add(
        "/lab",
        vec![definition("a", "0.1"), definition("b", "0.003")],
    );
    assert_eq!(back.lines(), ["2: is in its source again"]);
    assert_eq!(lab.state.experiments.len(), 3);
}

#[test]
fn odd_names_and_words_not_built_are_pointed_out() {
    let mut lab = Lab::default();
    let mut odd = definition("12", "1");
    odd.not_built = vec![NotBuilt {
        word: "resources.gpus".to_owned(),
        place: (*odd.place).clone(),
    }]
    .into();
    let seen = lab.add("/lab", vec![odd]).seen;
    assert_eq!(
        seen[0].notes,
        ["the name `12` reads like an id: select it in backticks"]
    );
    let notes = |name: &str| {
        Lab::default().add("/lab", vec![definition(name, "1")]).seen[0]
            .notes
            .clone()
    };
    assert_eq!(notes("caf\u{e9}"), [""; 0]);
    let looks_alike = notes("cafe\u{301}");
    assert!(
        looks_alike[0].contains("select it by its number"),
        "{looks_alike:?}"
    );
    let plans = lab.start(&[1], StartOptions::default());
    assert_eq!(
        skipped(&plans),
        ["not built yet: resources.gpus (neronet.yaml:1:1)"]
    );
}

#[test]
fn numbers_are_ranges_again() {
    let text = |ids: &[u64]| add::ranges(ids.iter().map(|id| ExperimentId(*id)));
    assert_eq!(text(&[]), "");
    assert_eq!(text(&[3, 1, 2, 7, 9, 8, 20]), "1-3,7-9,20");
}

#[test]
fn live_and_finished_ones_are_skipped_with_the_reason() {
    let mut lab = Lab::default();
    let all: Vec<Definition> = ["a", "b", "c", "d"]
        .iter()
        .map(|n| definition(n, "1"))
        .collect();
    lab.add("/lab", all);
    lab.start(&[1, 2, 3], StartOptions::default());
    lab.say(run(1, 1), running());
    lab.say(run(2, 1), ended(0));
    lab.say(run(3, 1), ended(1));
    let plans = lab.start(&[1, 2, 3, 4], StartOptions::default());
    assert_eq!(skipped(&plans), ["running", "finished"]);
    assert_eq!(lab.phase(run(3, 2)), Phase::Queued);
    assert_eq!(lab.phase(run(4, 1)), Phase::Queued);
    let plans = lab.start(&[2], RESTART);
    assert_eq!(skipped(&plans), Vec::<&str>::new());
}

#[test]
fn a_finished_one_whose_definition_changed_is_skipped_with_what_runs_it_anew() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    lab.say(run(1, 1), ended(0));
    lab.add("/lab", vec![definition("a", "2")]);
    let plans = lab.start(&[1], StartOptions::default());
    let [Plan::Skip { why, .. }] = plans.as_slice() else {
        panic!("{plans:?}");
    };
    assert_eq!(why.label(), "finished");
    assert!(
        why.to_string().contains("`neroman restart changed`"),
        "{why}"
    );
}

#[test]
fn a_source_that_is_added_after_a_take_over_changes_nothing_that_specs_do_not_hold() {
    let mut lab = Lab::default();
    let mut old = definition("a", "1");
    old.block = String::new().into();
    old.folder = std::path::PathBuf::from("/data/taken-over").into();
    old.results_max_bytes = Some(100);
    lab.add("/data/taken-over", vec![old]);
    let read = lab.add("/lab", vec![definition("a", "1")]);
    assert_eq!(read.lines(), ["1: is in its source again"]);
}

#[test]
fn restarting_a_live_run_ends_it_first() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    lab.dispatch(run(1, 1), |dispatch| {
        dispatch.stage.advance(HandOverStage::Submitted)
    });
    lab.say(run(1, 1), running());
    lab.start(&[1], RESTART);
    assert_eq!(lab.state.run(run(1, 2)).unwrap().after(), Some(1));
    assert!(needs::of(lab.state.run(run(1, 1)).unwrap()).cancel);
    assert!(needs::of(lab.state.run(run(1, 2)).unwrap()).nothing());
    // A second restart cancels the waiting run, and waits for the same end.
    lab.start(&[1], RESTART);
    assert_eq!(lab.phase(run(1, 2)), Phase::Aborted);
    assert!(lab.state.run(run(1, 3)).unwrap().after().is_some());
    lab.say(run(1, 1), ended(0));
    assert!(needs::of(lab.state.run(run(1, 3)).unwrap()).hand_over);
}

#[test]
fn no_step_of_the_clock_makes_a_run_older_than_its_record_while_its_node_is_out_of_reach() {
    const DAY: i64 = 24 * 3600 * 1000;
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    let there = |ms| {
        Some(Tick {
            boot: "there".to_owned(),
            ms,
        })
    };
    let live = Incarnation {
        started_ms: Some(1_000),
        started: there(70_000),
        ..Incarnation::default()
    };
    lab.say(run(1, 1), live);
    let mut run = lab.state.run(run(1, 1)).unwrap().clone();
    let made = RunRecord {
        created_ms: 1_000,
        created: Some(Tick {
            boot: "here".to_owned(),
            ms: 5_000,
        }),
        ..(*run.made).clone()
    };
    run.made = Arc::new(made);
    let now = |boots: &[(&str, i64)]| PresentTime {
        ms: 9_000 + DAY,
        boots: Arc::new(
            boots
                .iter()
                .map(|&(boot, ms)| (boot.to_owned(), ms))
                .collect(),
        ),
        ..PresentTime::default()
    };
    assert_eq!(run.runtime_s(&now(&[("here", 13_000)])), Some(8.0));
    let both = now(&[("here", 13_000), ("there", 77_000)]);
    assert_eq!(run.runtime_s(&both), Some(7.0), "its own clock counts more");
}

#[test]
fn no_step_of_the_clock_changes_the_time_that_a_scheduler_leaves_a_run() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    let granted = SchedulerGrant {
        scheduler: "SLURM".to_owned(),
        job: "7".to_owned(),
        host: "n1".to_owned(),
        partition: String::new(),
        cpus: 1.0,
        memory_bytes: 0,
        gpus: Vec::new(),
        hosts: Vec::new(),
        until_ms: 61_000,
    };
    let live = Incarnation {
        started_ms: Some(1_000),
        started: Some(Tick {
            boot: "there".to_owned(),
            ms: 70_000,
        }),
        granted: Some(Box::new(granted)),
        ..Incarnation::default()
    };
    lab.say(run(1, 1), live);
    let now = PresentTime {
        ms: 24 * 3600 * 1000,
        boots: Arc::new([("there".to_owned(), 80_000)].into()),
        ..PresentTime::default()
    };
    let run = lab.state.run(run(1, 1)).unwrap();
    assert_eq!(run.timeleft_s(&now), Some(50.0));
}

#[test]
fn a_paused_run_that_waits_stays_on_its_node() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start_batch(&[1], false);
    lab.dispatch(run(1, 1), |dispatch| {
        dispatch.stage = Stage::Accepted {
            node: "box".to_owned(),
            queued: true,
        };
    });
    let mut moves = |paused| {
        let report = Report {
            standing: ReportedStage::Waiting,
            paused,
            ..Report::unknown()
        };
        let node = "box".to_owned();
        lab.happens(run(1, 1), &Input::Reported { node, report });
        balance::waits_freely(lab.state.run(run(1, 1)).unwrap())
    };
    assert!(moves(false));
    assert!(!moves(true), "no other node knows of the pause");
}

#[test]
fn a_lost_run_ended_at_its_last_sign_and_not_when_its_node_looked() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    let lost = Incarnation {
        started_ms: Some(1_000),
        lost: Some(Box::new(crate::facts::journal::Lost {
            key: Key::default(),
            // The machine was rebooted, which was noticed a night later.
            reason: 1,
            detail: String::new(),
            at_ms: 40_000_000,
        })),
        ..Incarnation::default()
    };
    lab.say(run(1, 1), lost);
    let runtime = |lab: &Lab| {
        lab.state
            .run(run(1, 1))
            .unwrap()
            .runtime_s(&PresentTime::wall(50_000_000))
    };
    assert_eq!(lab.phase(run(1, 1)), Phase::Lost);
    assert_eq!(
        runtime(&lab),
        Some(0.0),
        "nothing was heard after its start"
    );
    let mut journal = (*lab.state.run(run(1, 1)).unwrap().journal).clone();
    journal.sample = Some(Box::new(crate::facts::journal::Sample {
        key: (1, Key::default()),
        at_ms: 88_000,
        tick: None,
        cpu_cores: 1.0,
        cpu_ms: 1,
        rss_bytes: 1,
        peak_rss_bytes: 1,
        written_bytes: 1,
        silent_ms: 0,
        gpu: None,
        gpumem_bytes: None,
        gpu_power_w: None,
        gpu_temperature_c: None,
    }));
    assert_eq!(journal.last_sign_ms(40_000_000), 88_000);
    assert_eq!(journal.last_sign_ms(50_000), 50_000, "never after the look");
    let dispatch = lab.state.run(run(1, 1)).unwrap().dispatch.clone();
    let outcome = crate::fold::outcome::judge(&dispatch, &journal);
    assert_eq!(outcome.ended_ms, Some(88_000));
}

#[test]
fn a_run_that_was_asked_to_end_keeps_its_experiment_from_starting_until_it_did() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    lab.dispatch(run(1, 1), |dispatch| {
        dispatch.stage.advance(HandOverStage::Submitted)
    });
    lab.say(run(1, 1), running());
    lab.start(&[1], RESTART);
    // `abort 1`: the waiting run is cancelled, the job takes its time.
    assert_eq!(lab.cancel(run(1, 2)), CancelOutcome::TakenAway);
    let state = |lab: &Lab| lab.state.experiment(ExperimentId(1)).unwrap().state();
    assert_eq!(state(&lab).as_str(), "running");
    let plans = lab.start(&[1], StartOptions::default());
    assert_eq!(skipped(&plans), ["running: 1.1 has not ended yet"]);
    lab.start(&[1], RESTART);
    assert_eq!(lab.state.run(run(1, 3)).unwrap().after(), Some(1));
    assert!(needs::of(lab.state.run(run(1, 3)).unwrap()).nothing());
    lab.say(run(1, 1), ended(0));
    assert!(needs::of(lab.state.run(run(1, 3)).unwrap()).hand_over);
}

#[test]
fn a_lost_run_keeps_its_experiment_from_starting_also_behind_one_that_was_taken_away() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    lab.dispatch(run(1, 1), |dispatch| {
        dispatch.stage.advance(HandOverStage::Submitted)
    });
    lab.say(run(1, 1), running());
    lab.start(&[1], RESTART);
    lab.say(run(1, 1), lost(3));
    assert_eq!(lab.cancel(run(1, 2)), CancelOutcome::TakenAway);
    let plans = lab.start(&[1], StartOptions::default());
    assert!(
        skipped(&plans)[0].contains("1.1 may still run on local"),
        "{plans:?}"
    );
}

fn lost(reason: i32) -> Incarnation {
    Incarnation {
        started_ms: Some(1),
        lost: Some(Box::new(crate::facts::journal::Lost {
            key: Key::default(),
            reason,
            detail: String::new(),
            at_ms: 2,
        })),
        ..Incarnation::default()
    }
}

#[test]
fn lost_runs_are_gone_beside_only_when_told_so() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    lab.say(run(1, 1), lost(3));
    assert_eq!(lab.phase(run(1, 1)), Phase::Lost);
    let plans = lab.start(&[1], StartOptions::default());
    assert_eq!(skipped(&plans), ["lost"]);
    let plans = lab.start(&[1], RESTART);
    assert!(skipped(&plans)[0].contains("1.1 may still run on local"));
    let plans = lab.start(
        &[1],
        StartOptions {
            restart: true,
            abandon: true,
            ..StartOptions::default()
        },
    );
    assert!(skipped(&plans).is_empty());
    // The evidence of its end still counts.
    lab.say(run(1, 1), ended(0));
    assert_eq!(lab.phase(run(1, 1)), Phase::Finished);
}

#[test]
fn a_cancel_reaches_what_was_sent_and_takes_away_what_waits() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    assert_eq!(lab.cancel(run(1, 1)), CancelOutcome::Asked);
    let needs_now = needs::of(lab.state.run(run(1, 1)).unwrap());
    assert!(needs_now.cancel && !needs_now.hand_over);
    lab.start(&[1], RESTART);
    assert_eq!(lab.cancel(run(1, 2)), CancelOutcome::TakenAway);
    assert_eq!(
        lab.cancel(run(1, 2)),
        CancelOutcome::Skipped("aborted".to_owned())
    );
    lab.dispatch(run(1, 1), |dispatch| {
        dispatch.stage.end(Verdict::TakenAway {
            who: "me".to_owned(),
            at_ms: 3,
        });
    });
    assert_eq!(lab.phase(run(1, 1)), Phase::Aborted);
    let reason = lab.state.run(run(1, 1)).unwrap().reason().cloned();
    assert_eq!(
        reason,
        Some(EndReason::TakenAway {
            who: "me".to_owned()
        })
    );
}

#[test]
fn a_run_is_closed_once_it_is_settled_and_its_results_are_home() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    let mut printed = ended(0);
    printed.gone.as_mut().unwrap().stdout_bytes = 5;
    lab.say(run(1, 1), printed);
    let now = |lab: &Lab| needs::of(lab.state.run(run(1, 1)).unwrap());
    assert!(now(&lab).results && !now(&lab).close);
    lab.dispatch(run(1, 1), |dispatch| {
        dispatch.sent = RecordsSent::All {
            made_nothing: false,
            missing: String::new(),
        };
    });
    assert!(now(&lab).results && !now(&lab).close);
    lab.dispatch(run(1, 1), |dispatch| {
        dispatch.results = Results::Done {
            folder: "/r".to_owned(),
            notes: Vec::new(),
            left: 0,
            warnings: Vec::new(),
        };
    });
    assert!(!now(&lab).results && now(&lab).close);
    assert_eq!(lab.state.on_node("local").open, 1);
    lab.dispatch(run(1, 1), |dispatch| dispatch.stage.close());
    assert!(now(&lab).nothing());
    assert_eq!(lab.state.on_node("local").open, 0);
}

#[test]
fn a_report_after_an_end_does_not_change_it() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], StartOptions::default());
    lab.say(run(1, 1), ended(0));
    let mut journal: Journal = (*lab.state.run(run(1, 1)).unwrap().journal).clone();
    journal.incarnations.insert(2, running().into());
    lab.take(vec![Change::Journal {
        run: run(1, 1),
        journal: Arc::new(journal),
    }]);
    assert_eq!(lab.phase(run(1, 1)), Phase::Finished);
}

#[test]
fn a_clone_is_what_readers_keep() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    let before = lab.state.clone();
    lab.start(&[1], StartOptions::default());
    assert!(before.experiment(ExperimentId(1)).unwrap().runs.is_empty());
    assert_eq!((before.runs, lab.state.runs), (0, 1));
    before.check_invariants();
}
