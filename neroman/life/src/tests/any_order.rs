//! Random orders of steps: no order breaks the state.

use nero_format::RetryOn;

use super::*;

/// Most retries in a row.
const MAX: u32 = 2;

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
        let again = retries::retrying(&RetryOn::ALL, MAX);
        let all = |count: usize| names[..count].iter().map(|n| Definition {
            again: again.clone().into(),
            ..definition(n, "1")
        }).collect();
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
                Step::Start(id) => { lab.start(&[id], StartOptions::default()); }
                Step::Restart(id) => { lab.start(&[id], RESTART); }
                Step::Abandon(id) => { lab.start(&[id], StartOptions { abandon: true, ..RESTART }); }
                Step::Cancel(id) => if let Some(id) = sent(&lab, id) { lab.cancel(id); },
                Step::Abort(id) => {
                    let experiment = Arc::clone(lab.state.experiment(ExperimentId(id)).unwrap());
                    for run in experiment.live() { lab.cancel(run.made.id); }
                }
                Step::Hand(id) => if let Some(id) = sent(&lab, id) {
                    lab.dispatch(id, |dispatch| dispatch.stage.advance(HandOverStage::Submitted));
                },
                Step::Run(id) => if let Some(id) = sent(&lab, id) { lab.say(id, running()); },
                Step::End(id, code) => if let Some(id) = sent(&lab, id) { lab.say(id, ended(code)); },
                Step::TakeAway(id) => if let Some(id) = sent(&lab, id) {

                    let report = Report { standing: ReportedStage::TakenAway, ..Report::unknown() };
                    let node = "local".to_owned();
                    lab.happens(id, &Input::Reported { node, report });
                },
                Step::Add(count) => { lab.add("/lab", all(count)); }
            }
            for (id, phase) in ends {
                prop_assert_eq!(lab.phase(id), phase);
            }
            // What the writer does after each message.
            let runs: Vec<RunId> = lab.state.experiments.iter()
                .flat_map(|experiment| experiment.runs.iter().map(|run| run.made.id))
                .collect();
            for id in runs {
                let before = lab.state.run(id).unwrap().clone();
                let Some(next) = lab.follow(id) else { continue };
                prop_assert!(before.cancel().is_none() && before.has_ended());
                let follows = lab.state.run(next).unwrap().made.follows.clone().unwrap();
                prop_assert!(follows.run == id.number && follows.retries <= MAX);
                prop_assert!(lab.follow(id).is_none());
                if lab.state.run(next).unwrap().unplaced() { lab.place(next); }
            }
        }
    }
}
