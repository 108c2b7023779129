//! Decisions over a state, step by step, with the invariants checked after
//! each.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use nero_format::{
    Buffering, Definition, Loaded, Monitor, NotBuilt, Param, Place, Resources, Source, SourceKind,
    Value,
};
use nero_model::{EndReason, ExperimentId, Phase, RunId, RunToken};
use proptest::prelude::*;

use super::abort::{self, CancelOutcome};
use super::add::{self, Merged, Read, What};
use super::change::{Change, NewRun};
use super::dispatch::Sent;
use super::experiment::Stamp;
use super::input::Input;
use super::journal::{Exit, Gone, Incarnation, Journal, Key};
use super::needs;
use super::now::{Moment, Now, Tick};
use super::report::{Report, Standing};
use super::run::{Cancel, Dispatch, Made, Results, Takes};
use super::stage::{Handing, Verdict};
use super::start::{self, Plan, Wanted};
use super::state::State;

mod matrix;
mod reach;
mod sources;
mod verdicts;

pub(crate) fn definition(name: &str, lr: &str) -> Definition {
    Definition {
        name: name.to_owned(),
        block: name.to_owned(),
        varied: Vec::new(),
        collections: vec!["lab".to_owned()],
        folder: PathBuf::from("/lab"),
        place: Place {
            file: "neronet.yaml".to_owned(),
            line: 1,
            column: 1,
        },
        argv: vec!["true".to_owned(), lr.to_owned()],
        command_text: format!("true {lr}"),
        params: vec![Param {
            name: "lr".to_owned(),
            text: lr.to_owned(),
            value: Value::Text(lr.to_owned()),
        }],
        env: Vec::new(),
        data: Vec::new(),
        resources: Resources::default(),
        node: None,
        requires: None,
        files: None,
        linked_files: Vec::new(),
        required_files: Vec::new(),
        main_file: None,
        outputs: Vec::new(),
        checkpoint: Vec::new(),
        rules: Vec::new(),
        metric_patterns: Vec::new(),
        metric_reading: Default::default(),
        monitor: Monitor::default(),
        buffering: Buffering::default(),
        results_dir: None,
        results_max_bytes: None,
        custom_msg: None,
        sbatch_args: None,
        scheduling: nero_format::Scheduling::default(),
        not_built: Vec::new(),
        notes: Vec::new(),
    }
}

fn source(path: &str, definitions: Vec<Definition>) -> Read {
    Read {
        loaded: Loaded {
            source: Source {
                path: PathBuf::from(path),
                kind: SourceKind::Folder,
                file: PathBuf::from(path).join("neronet.yaml"),
                folder: PathBuf::from(path),
                digest: String::new(),
            },
            definitions,
            notes: Vec::new(),
        },
        stamp: Stamp::default(),
    }
}

/// A state that only decisions change.
#[derive(Default)]
pub(crate) struct Lab {
    pub state: State,
    now_ms: i64,
}

/// A moment of this boot at which both clocks show this time.
pub(crate) fn moment(ms: i64) -> Moment {
    let boot = "boot".to_owned();
    let tick = Tick { boot, ms };
    Moment { ms, tick }
}

impl Lab {
    pub(crate) fn take(&mut self, changes: Vec<Change>) {
        for change in changes {
            self.state.apply(&change);
        }
        self.state.check_invariants();
    }

    pub(crate) fn add(&mut self, path: &str, definitions: Vec<Definition>) -> Merged {
        self.now_ms += 1;
        let reads = [source(path, definitions)];
        let merged = add::merge(&self.state, &reads, &HashSet::new(), &moment(self.now_ms));
        self.take(merged.changes.clone());
        merged
    }

    /// Starts the picked experiments; returns the plans.
    fn start(&mut self, ids: &[u64], wanted: Wanted) -> Vec<Plan> {
        self.now_ms += 1;
        let ids: Vec<ExperimentId> = ids.iter().map(|id| ExperimentId(*id)).collect();
        let plans = start::plan(&self.state, &ids, wanted);
        for plan in &plans {
            let Plan::Run { id, after } = plan else {
                continue;
            };
            let experiment = Arc::clone(self.state.experiment(id.experiment).unwrap());
            if after.is_some() {
                let cancels = abort::for_restart(&experiment, "restart", self.now_ms);
                for change in cancels {
                    self.state.apply(&change);
                }
            }
            let still = self
                .state
                .experiment(id.experiment)
                .unwrap()
                .runs
                .iter()
                .any(|run| run.phase().is_live());
            let made = Made {
                token: RunToken::random(),
                id: *id,
                node: "local".to_owned(),
                created_ms: self.now_ms,
                created: None,
                tree: String::new(),
                git: String::new(),
                fingerprint: experiment.fingerprint.to_string(),
                time_ms: 0,
                outputs: false,
                all_made: false,
                placing: false,
                takes: Takes::default(),
                resume: None,
            };
            let new = NewRun {
                made: Arc::new(made),
                dispatch: Dispatch::planned(None, after.filter(|_| still)),
                rules: Arc::default(),
                spec: Arc::default(),
            };
            self.take(vec![Change::Run(Arc::new(new))]);
        }
        plans
    }

    fn cancel(&mut self, id: RunId) -> CancelOutcome {
        self.now_ms += 1;
        let cancel = Cancel {
            asked_ms: self.now_ms,
            author: "me".to_owned(),
            grace_ms: 0,
            signal: 0,
            delivered: false,
        };
        let run = self.state.run(id).unwrap();
        let cancelled = abort::comes_to(run);
        let changes = crate::step(run, &Input::Cancel(cancel), self.now_ms).unwrap_or_default();
        self.take(changes);
        cancelled
    }

    /// Folds a start as a node would send it.
    fn say(&mut self, id: RunId, incarnation: Incarnation) {
        let mut journal = (*self.state.run(id).unwrap().journal).clone();
        journal.incarnations.insert(1, incarnation);
        self.take(vec![Change::Journal {
            run: id,
            journal: Arc::new(journal),
        }]);
        if let Some((_, changes)) = abort::released(&self.state, id, self.now_ms) {
            self.take(changes);
        }
    }

    fn happens(&mut self, id: RunId, input: &Input) {
        let changes = crate::step(self.state.run(id).unwrap(), input, self.now_ms).unwrap();
        self.take(changes);
        if let Some((_, changes)) = abort::released(&self.state, id, self.now_ms) {
            self.take(changes);
        }
    }

    fn dispatch(&mut self, id: RunId, change: impl FnOnce(&mut Dispatch)) {
        let mut dispatch = self.state.run(id).unwrap().dispatch.clone();
        change(&mut dispatch);
        self.take(vec![Change::Dispatch {
            run: id,
            dispatch: Box::new(dispatch),
            rules: None,
        }]);
        if let Some((_, changes)) = abort::released(&self.state, id, self.now_ms) {
            self.take(changes);
        }
    }

    fn phase(&self, id: RunId) -> Phase {
        self.state.run(id).unwrap().phase()
    }
}

fn run(experiment: u64, number: u32) -> RunId {
    RunId {
        experiment: ExperimentId(experiment),
        number,
    }
}

fn running() -> Incarnation {
    Incarnation {
        started_ms: Some(5),
        ..Incarnation::default()
    }
}

fn ended(code: i32) -> Incarnation {
    let key = |offset| Key {
        rank: 0,
        made_ns: 0,
        offset,
    };
    Incarnation {
        started_ms: Some(5),
        exit: Some(Exit {
            key: key(5),
            code,
            signal: 0,
            core_dumped: false,
            code_unknown: false,
            user_cpu_us: 0,
            system_cpu_us: 0,
            peak_rss_bytes: 0,
            disk_free_bytes: None,
            oom_kills: 0,
            stderr_line: String::new(),
            run_ms: 1,
            at_ms: 6,
        }),
        gone: Some(Gone {
            key: key(6),
            strays_killed: 0,
            stdout_bytes: 0,
            stderr_bytes: 0,
            left_alive: 0,
            strays_ms: 0,
            strays_left: 0,
            strays: Vec::new(),
            at_ms: 6,
        }),
        ..Incarnation::default()
    }
}

fn skipped(plans: &[Plan]) -> Vec<String> {
    plans
        .iter()
        .filter_map(|plan| match plan {
            Plan::Skip { why, .. } => Some(why.to_string()),
            Plan::Run { .. } => None,
        })
        .collect()
}

const RESTART: Wanted = Wanted {
    restart: true,
    abandon: false,
    resume: false,
};

#[test]
fn adding_again_keeps_numbers_and_says_what_changed() {
    let mut lab = Lab::default();
    let first = lab.add("/lab", vec![definition("a", "0.1"), definition("b", "0.2")]);
    assert_eq!(first.range(), "1-2");
    let again = lab.add("/lab", vec![definition("a", "0.1"), definition("b", "0.2")]);
    assert!(again.seen.iter().all(|seen| seen.what == What::Same));
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
            (2, What::Changed, "lr 0.2 → 0.003".to_owned()),
            (3, What::Added, String::new()),
            (1, What::Same, String::new()),
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
        place: odd.place.clone(),
    }];
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
    let plans = lab.start(&[1], Wanted::default());
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
    lab.start(&[1, 2, 3], Wanted::default());
    lab.say(run(1, 1), running());
    lab.say(run(2, 1), ended(0));
    lab.say(run(3, 1), ended(1));
    let plans = lab.start(&[1, 2, 3, 4], Wanted::default());
    assert_eq!(skipped(&plans), ["running", "finished"]);
    assert_eq!(lab.phase(run(3, 2)), Phase::Queued);
    assert_eq!(lab.phase(run(4, 1)), Phase::Queued);
    let plans = lab.start(&[2], RESTART);
    assert_eq!(skipped(&plans), Vec::<&str>::new());
}

#[test]
fn restarting_a_live_run_ends_it_first() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], Wanted::default());
    lab.dispatch(run(1, 1), |dispatch| {
        dispatch.stage.advance(Handing::Submitted)
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
    lab.start(&[1], Wanted::default());
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
    let made = Made {
        created_ms: 1_000,
        created: Some(Tick {
            boot: "here".to_owned(),
            ms: 5_000,
        }),
        ..(*run.made).clone()
    };
    run.made = Arc::new(made);
    let now = |boots: &[(&str, i64)]| Now {
        ms: 9_000 + DAY,
        boots: Arc::new(
            boots
                .iter()
                .map(|&(boot, ms)| (boot.to_owned(), ms))
                .collect(),
        ),
    };
    assert_eq!(run.runtime_s(&now(&[("here", 13_000)])), Some(8.0));
    let both = now(&[("here", 13_000), ("there", 77_000)]);
    assert_eq!(run.runtime_s(&both), Some(7.0), "its own clock counts more");
}

#[test]
fn a_lost_run_ended_at_its_last_sign_and_not_when_its_node_looked() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], Wanted::default());
    let lost = Incarnation {
        started_ms: Some(1_000),
        lost: Some(super::journal::Lost {
            key: Key::default(),
            // The machine was rebooted, which was noticed a night later.
            reason: 1,
            detail: String::new(),
            at_ms: 40_000_000,
        }),
        ..Incarnation::default()
    };
    lab.say(run(1, 1), lost);
    let runtime = |lab: &Lab| {
        lab.state
            .run(run(1, 1))
            .unwrap()
            .runtime_s(&Now::wall(50_000_000))
    };
    assert_eq!(lab.phase(run(1, 1)), Phase::Lost);
    assert_eq!(
        runtime(&lab),
        Some(0.0),
        "nothing was heard after its start"
    );
    let mut journal = (*lab.state.run(run(1, 1)).unwrap().journal).clone();
    journal.sample = Some(super::journal::Sample {
        key: (1, Key::default()),
        at_ms: 88_000,
        tick: None,
        cpu_cores: 1.0,
        cpu_ms: 1,
        rss_bytes: 1,
        peak_rss_bytes: 1,
        written_bytes: 1,
        silent_ms: 0,
    });
    assert_eq!(journal.last_sign_ms(40_000_000), 88_000);
    assert_eq!(journal.last_sign_ms(50_000), 50_000, "never after the look");
    let dispatch = lab.state.run(run(1, 1)).unwrap().dispatch.clone();
    let outcome = super::outcome::judge(&dispatch, &journal);
    assert_eq!(outcome.ended_ms, Some(88_000));
}

#[test]
fn a_run_that_was_asked_to_end_keeps_its_experiment_from_starting_until_it_did() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], Wanted::default());
    lab.dispatch(run(1, 1), |dispatch| {
        dispatch.stage.advance(Handing::Submitted)
    });
    lab.say(run(1, 1), running());
    lab.start(&[1], RESTART);
    // `abort 1`: the waiting run is cancelled, the job takes its time.
    assert_eq!(lab.cancel(run(1, 2)), CancelOutcome::TakenAway);
    let state = |lab: &Lab| lab.state.experiment(ExperimentId(1)).unwrap().state();
    assert_eq!(state(&lab).word(), "running");
    let plans = lab.start(&[1], Wanted::default());
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
    lab.start(&[1], Wanted::default());
    lab.dispatch(run(1, 1), |dispatch| {
        dispatch.stage.advance(Handing::Submitted)
    });
    lab.say(run(1, 1), running());
    lab.start(&[1], RESTART);
    lab.say(run(1, 1), lost(3));
    assert_eq!(lab.cancel(run(1, 2)), CancelOutcome::TakenAway);
    let plans = lab.start(&[1], Wanted::default());
    assert!(
        skipped(&plans)[0].contains("1.1 may still run on local"),
        "{plans:?}"
    );
}

fn lost(reason: i32) -> Incarnation {
    Incarnation {
        started_ms: Some(1),
        lost: Some(super::journal::Lost {
            key: Key::default(),
            reason,
            detail: String::new(),
            at_ms: 2,
        }),
        ..Incarnation::default()
    }
}

#[test]
fn lost_runs_are_gone_beside_only_when_told_so() {
    let mut lab = Lab::default();
    lab.add("/lab", vec![definition("a", "1")]);
    lab.start(&[1], Wanted::default());
    lab.say(run(1, 1), lost(3));
    assert_eq!(lab.phase(run(1, 1)), Phase::Lost);
    let plans = lab.start(&[1], Wanted::default());
    assert_eq!(skipped(&plans), ["lost"]);
    let plans = lab.start(&[1], RESTART);
    assert!(skipped(&plans)[0].contains("1.1 may still run on local"));
    let plans = lab.start(
        &[1],
        Wanted {
            restart: true,
            abandon: true,
            resume: false,
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
    lab.start(&[1], Wanted::default());
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
    lab.start(&[1], Wanted::default());
    let mut printed = ended(0);
    printed.gone.as_mut().unwrap().stdout_bytes = 5;
    lab.say(run(1, 1), printed);
    let now = |lab: &Lab| needs::of(lab.state.run(run(1, 1)).unwrap());
    assert!(now(&lab).results && !now(&lab).close);
    lab.dispatch(run(1, 1), |dispatch| {
        dispatch.sent = Sent::All {
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
    lab.start(&[1], Wanted::default());
    lab.say(run(1, 1), ended(0));
    let mut journal: Journal = (*lab.state.run(run(1, 1)).unwrap().journal).clone();
    journal.incarnations.insert(2, running());
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
    lab.start(&[1], Wanted::default());
    assert!(before.experiment(ExperimentId(1)).unwrap().runs.is_empty());
    assert_eq!((before.runs, lab.state.runs), (0, 1));
    before.check_invariants();
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Start(u64),
    Restart(u64),
    Abandon(u64),
    Cancel(u64),
    Abort(u64),
    Hand(u64),
    Run(u64),
    End(u64, i32),
    TakeAway(u64),
    Add(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let id = 1..4u64;
    prop_oneof![
        id.clone().prop_map(Step::Start),
        id.clone().prop_map(Step::Restart),
        id.clone().prop_map(Step::Abandon),
        id.clone().prop_map(Step::Cancel),
        id.clone().prop_map(Step::Abort),
        id.clone().prop_map(Step::Hand),
        id.clone().prop_map(Step::Run),
        (id.clone(), 0..2i32).prop_map(|(id, code)| Step::End(id, code)),
        id.prop_map(Step::TakeAway),
        (1..5usize).prop_map(Step::Add),
    ]
}

proptest! {
    /// Whatever people and nodes do, an experiment has at most one live run
    /// that was sent anywhere, ends stay ends, and the counts are right.
    #[test]
    fn no_order_of_steps_breaks_the_state(steps in proptest::collection::vec(step(), 1..60)) {
        let mut lab = Lab::default();
        let names = ["a", "b", "c", "d", "e"];
        let all = |count: usize| names[..count].iter().map(|n| definition(n, "1")).collect();
        lab.add("/lab", all(4));
        for step in steps {
            // The oldest live run is on a node.
            let sent = |lab: &Lab, id: u64| {
                let experiment = lab.state.experiment(ExperimentId(id)).unwrap();
                let live = experiment.runs.iter().find(|run| run.phase().is_live());
                live.filter(|run| run.after().is_none()).map(|run| run.made.id)
            };
            let ends: Vec<(RunId, Phase)> = lab.state.experiments.iter()
                .flat_map(|experiment| experiment.runs.iter())
                .filter(|run| run.phase().is_end() && run.phase() != Phase::Lost)
                .map(|run| (run.made.id, run.phase()))
                .collect();
            match step {
                Step::Start(id) => { lab.start(&[id], Wanted::default()); }
                Step::Restart(id) => { lab.start(&[id], RESTART); }
                Step::Abandon(id) => { lab.start(&[id], Wanted { abandon: true, ..RESTART }); }
                Step::Cancel(id) => if let Some(id) = sent(&lab, id) { lab.cancel(id); },
                Step::Abort(id) => {
                    let experiment = Arc::clone(lab.state.experiment(ExperimentId(id)).unwrap());
                    for run in experiment.live() { lab.cancel(run.made.id); }
                }
                Step::Hand(id) => if let Some(id) = sent(&lab, id) {
                    lab.dispatch(id, |dispatch| dispatch.stage.advance(Handing::Submitted));
                },
                Step::Run(id) => if let Some(id) = sent(&lab, id) { lab.say(id, running()); },
                Step::End(id, code) => if let Some(id) = sent(&lab, id) { lab.say(id, ended(code)); },
                Step::TakeAway(id) => if let Some(id) = sent(&lab, id) {

                    let report = Report { standing: Standing::TakenAway, ..Report::unknown() };
                    let node = "local".to_owned();
                    lab.happens(id, &Input::Reported { node, report });
                },
                Step::Add(count) => { lab.add("/lab", all(count)); }
            }
            for (id, phase) in ends {
                prop_assert_eq!(lab.phase(id), phase);
            }
        }
    }
}
