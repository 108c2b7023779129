use super::*;
use nero_life::start;
use nero_life::taken_over;

fn spec(experiment: u64, number: u32) -> v1::RunSpec {
    v1::RunSpec {
        token: RunToken::random().to_vec(),
        experiment,
        number,
        name: format!("e{experiment}"),
        collection: "lab".to_owned(),
        argv: vec!["true".to_owned()],
        params: vec![v1::Param {
            name: "lr".to_owned(),
            text: "0.10".to_owned(),
            json: "0.1".to_owned(),
        }],
        rules: Some(v1::RuleSet {
            version: 3,
            rules: vec![v1::Rule {
                id: 7,
                action: "warn".to_owned(),
                text: "loss > 2".to_owned(),
                ..v1::Rule::default()
            }],
            cohort: Vec::new(),
        }),
        ..v1::RunSpec::default()
    }
}

fn take_all(state: &mut State, node: &str, specs: Vec<v1::RunSpec>) -> TakeOver {
    let adopted = adopt(state, node, Path::new("/home/taken-over"), specs, 1000);
    for change in &adopted.changes {
        state.apply(change);
    }
    adopted
}

#[test]
fn runs_keep_numbers_tokens_and_rules() {
    let mut state = State::default();
    let (first, mut later) = (spec(2, 1), spec(9, 3));
    later.generation = 4;
    let told = take_all(&mut state, "alpha", vec![later.clone(), first.clone()]);
    state.check_invariants();
    assert_eq!((told.experiments, told.runs), (2, 2));
    // 9.1 and 9.2 were elsewhere.
    assert_eq!(told.notes.len(), 2);
    let id = RunId {
        experiment: ExperimentId(9),
        number: 3,
    };
    assert_eq!(
        state.by_token(&RunToken::from_slice(&later.token).unwrap()),
        Some(id)
    );
    let run = state.run(id).unwrap();
    assert_eq!((run.node(), run.rules_version()), (Some("alpha"), 3));
    assert_eq!(run.generation(), 4, "the node takes no earlier hand-over");
    assert_eq!(*run.rules, [7]);
    assert_eq!(state.rules[&7].text, "loss > 2");
    assert!(
        state
            .run(RunId { number: 1, ..id })
            .unwrap()
            .phase()
            .is_end()
    );
    let experiment = state.experiment(ExperimentId(2)).unwrap();
    assert_eq!(experiment.definition.params[0].value, Value::Float(0.1));
    assert_eq!(state.highest, 9);
}

#[test]
fn taking_over_again_adds_what_is_new_alone() {
    let mut state = State::default();
    let first = spec(1, 1);
    take_all(&mut state, "alpha", vec![first.clone()]);
    let told = take_all(&mut state, "alpha", vec![first.clone(), spec(1, 2)]);
    assert_eq!((told.experiments, told.runs), (0, 1));
    let told = take_all(&mut state, "beta", vec![spec(1, 2), spec(1, 3)]);
    assert_eq!((told.runs, told.notes.len()), (1, 1));
    let mut stranger = spec(1, 4);
    stranger.name = "another".to_owned();
    let told = take_all(&mut state, "beta", vec![stranger]);
    assert_eq!((told.runs, told.notes.len()), (0, 1));
    assert!(told.notes[0].contains("experiment 1 here is another one, `e1`"));
    for (experiment, number) in [(u64::MAX, 1), (5, u32::MAX), (0, 1), (5, 0)] {
        let absurd = take_all(&mut state, "alpha", vec![spec(experiment, number)]);
        assert_eq!(
            (absurd.experiments, absurd.runs),
            (0, 0),
            "{experiment}.{number}"
        );
        assert_eq!(absurd.notes.len(), 1);
    }
    let mut odd = spec(1, 4);
    let set = odd.rules.as_mut().unwrap();
    set.rules[0].id = u64::MAX;
    assert_eq!(take_all(&mut state, "beta", vec![odd]).runs, 1);
    let odd = state.run("1.4".parse().unwrap()).unwrap();
    assert!(odd.rules.is_empty(), "no rule has such a number");
    let broken = v1::RunSpec {
        token: vec![1],
        ..spec(4, 1)
    };
    assert_eq!(take_all(&mut state, "alpha", vec![broken]).notes.len(), 1);
}

#[test]
fn a_run_of_the_next_node_takes_the_place_that_was_kept_for_it() {
    let mut state = State::default();
    let (first, second, third) = (spec(1, 1), spec(1, 2), spec(1, 3));
    assert_eq!(take_all(&mut state, "alpha", vec![third]).notes.len(), 2);
    let told = take_all(&mut state, "beta", vec![first.clone(), spec(2, 1)]);
    assert_eq!((state.runs, state.live), (4, 3));
    assert_eq!((told.experiments, told.runs), (1, 2));
    assert!(told.notes.is_empty(), "{:?}", told.notes);
    let run = state.run("1.1".parse().unwrap()).unwrap();
    assert_eq!((run.node(), run.phase().is_live()), (Some("beta"), true));
    // Once it is read, its place is not given to another.
    let told = take_all(&mut state, "gamma", vec![spec(1, 1), second]);
    assert_eq!((state.runs, state.live), (4, 4));
    assert_eq!((told.runs, told.notes.len()), (1, 1));
    assert!(told.notes[0].starts_with("1.1: another run has this number"));
    let token = RunToken::from_slice(&first.token).unwrap();
    assert_eq!(state.by_token(&token), Some("1.1".parse().unwrap()));
}

#[test]
fn a_rule_of_another_text_under_its_number_is_not_taken_for_it() {
    let mut state = State::default();
    take_all(&mut state, "alpha", vec![spec(1, 1)]);
    let mut other = spec(2, 1);
    other.rules.as_mut().unwrap().rules[0].text = "loss > 9".to_owned();
    take_all(&mut state, "beta", vec![other]);
    assert!(state.run("2.1".parse().unwrap()).unwrap().rules.is_empty());
    assert_eq!(state.rules[&7].text, "loss > 2");
}

#[test]
fn an_experiment_without_code_here_gets_no_new_run() {
    let mut state = State::default();
    take_all(&mut state, "alpha", vec![spec(1, 1)]);
    let experiment = state.experiment(ExperimentId(1)).unwrap();
    assert!(taken_over::without_source(&experiment.definition));
    let origin = state.origins.values().next().unwrap();
    assert!(taken_over::stands_in(&origin.source));
    let wanted = start::StartOptions {
        restart: true,
        abandon: true,
        ..start::StartOptions::default()
    };
    let plan = start::plan(&state, &[ExperimentId(1)], wanted);
    let [start::Plan::Skip { why, .. }] = plan.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(*why, start::Skip::NoSource);
    assert!(why.to_string().contains("neroman add FOLDER"), "{why}");
}
