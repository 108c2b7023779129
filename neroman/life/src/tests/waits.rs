//! What a change of a run lets go on, beside a look at all runs.

use nero_format::{Dependency, DependsUntil, InStage, Precedence};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Experiments that need each other in each way, of two sources.
fn sources() -> [(&'static str, Vec<Definition>); 2] {
    let with = |name: &str, precedence| Definition {
        precedence,
        ..definition(name, "1")
    };
    let needing = |name: &str, needs: &[(DependsUntil, &str)]| {
        let need = |(until, on): &(DependsUntil, &str)| Dependency {
            until: *until,
            on: (*on).to_owned(),
        };
        let needs = needs.iter().map(need).collect();
        with(
            name,
            Precedence {
                needs,
                ..Precedence::default()
            }
            .into(),
        )
    };
    let staged = |name: &str, stage: &str, before: &[&str]| {
        let stage = InStage {
            name: stage.to_owned(),
            before: before.iter().map(|stage| (*stage).to_owned()).collect(),
        };
        with(
            name,
            Precedence {
                stage: Some(stage),
                ..Precedence::default()
            }
            .into(),
        )
    };
    let (finished, ended) = (DependsUntil::Finished, DependsUntil::Ended);
    let (started, placed) = (DependsUntil::Started, DependsUntil::Placed);
    let lab = vec![
        staged("p1", "prepare", &[]),
        staged("p2", "prepare", &[]),
        staged("m1", "main", &["prepare"]),
        staged("c", "cleanup", &["prepare", "main"]),
        needing("a", &[(finished, "p1"), (started, "p*")]),
        needing("b", &[(ended, "a"), (finished, "10")]),
        needing("last", &[(ended, "*")]),
        needing("beside", &[(placed, "b")]),
        needing("lonely", &[(finished, "nobody"), (finished, "p2")]),
    ];
    let other = vec![
        definition("p1", "1"),
        needing("far", &[(finished, "p1"), (started, "3")]),
    ];
    [("/lab", lab), ("/other", other)]
}

/// What happens to an experiment.
fn happens(lab: &mut Lab, what: u8, id: u64) {
    let current = lab.state.experiment(ExperimentId(id)).unwrap().current();
    let current = current.map(|run| (run.made.id, run.placed_on().is_some(), run.phase()));
    match (what, current) {
        (0, _) => lab.start_batch(&[id], false),
        (1, _) => drop(lab.start(&[id], RESTART)),
        (2..=4, Some((run, true, phase))) if phase.is_live() => {
            lab.say(run, running());
            if what > 2 {
                lab.say(run, ended(i32::from(what) - 3));
            }
        }
        (5, Some((run, _, phase))) if phase.is_live() => drop(lab.cancel(run)),
        (6, Some((run, false, phase))) if phase.is_live() => {
            let lifted = Input::HoldLifted;
            if lab.state.run(run).unwrap().waits_for_others() {
                lab.happens(run, &lifted);
            }
        }
        (7, _) => {
            let [(path, mut definitions), _] = sources();
            definitions.remove(id as usize % 9);
            lab.add(path, definitions);
        }
        (8, _) => {
            let [(path, definitions), _] = sources();
            lab.add(path, definitions);
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The laboratory compares both after every step.
    #[test]
    fn a_change_lets_those_go_on_that_a_look_at_all_finds(steps in vec((0u8..9, 1u64..=11), 1..60)) {
        let mut lab = Lab::default();
        for (path, definitions) in sources() {
            lab.add(path, definitions);
        }
        for (what, id) in steps {
            happens(&mut lab, what, id);
            lab.start(&[], StartOptions::default());
        }
    }
}
