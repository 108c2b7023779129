use std::path::Path;

use super::*;
use nero_life::journal::Journal;
use nero_model::Phase;

use nero_home::adopt::adopt;

/// A run on the node `beta`, and its token.
fn on_beta() -> (State, Vec<u8>) {
    let spec = v1::RunSpec {
        token: RunToken::random().to_vec(),
        experiment: 1,
        number: 1,
        name: "e".to_owned(),
        collection: "lab".to_owned(),
        ..v1::RunSpec::default()
    };
    let token = spec.token.clone();
    let mut state = State::default();
    for change in adopt(&state, "beta", Path::new("/f"), vec![spec], 1).changes {
        state.apply(&change);
    }
    (state, token)
}

#[test]
fn a_run_that_its_node_cannot_read_now_stays_as_it_is_and_says_why() {
    let (mut state, token) = on_beta();
    let id = state.by_token(&RunToken::from_slice(&token).unwrap());
    let words = [
        v1::RunState {
            token: token.clone(),
            stage: Stage::Waiting.into(),
            host: "h".to_owned(),
            ..v1::RunState::default()
        },
        v1::RunState {
            token,
            stage: Stage::Unspecified.into(),
            why: "cannot use spec".to_owned(),
            ..v1::RunState::default()
        },
    ];
    for change in said(&state, "beta", &words, 2) {
        state.apply(&change);
    }
    let run = state.run(id.unwrap()).unwrap();
    assert_eq!(
        (&*run.why().to_string(), run.far_host(), run.phase()),
        ("cannot use spec", "h", Phase::Pending)
    );
}

#[test]
fn a_run_that_lies_there_and_cannot_be_read_is_not_forgotten() {
    let (mut state, token) = on_beta();
    let id = state.by_token(&RunToken::from_slice(&token).unwrap());
    let claimed = Journal {
        incarnations: [(1, Box::default())].into_iter().collect(),
        ..Journal::default()
    };
    state.apply(&Change::Journal {
        run: id.unwrap(),
        journal: Arc::new(claimed),
    });
    let unknown = v1::RunState {
        token: token.clone(),
        stage: Stage::UnknownRun.into(),
        ..v1::RunState::default()
    };
    for change in said(&state, "beta", &[unknown], 1) {
        state.apply(&change);
    }
    assert!(state.run(id.unwrap()).unwrap().forgotten());
    let word = v1::RunState {
        token,
        stage: Stage::Unspecified.into(),
        why: "cannot use spec".to_owned(),
        ..v1::RunState::default()
    };
    for change in said(&state, "beta", &[word], 2) {
        state.apply(&change);
    }
    let run = state.run(id.unwrap()).unwrap();
    assert_eq!(
        (run.forgotten(), &*run.why().to_string()),
        (false, "cannot use spec")
    );
}

#[test]
fn the_reports_of_an_earlier_node_count_nothing() {
    let (state, token) = on_beta();
    let word = v1::RunState {
        token,
        stage: Stage::Refused.into(),
        ..v1::RunState::default()
    };
    assert!(said(&state, "alpha", std::slice::from_ref(&word), 2).is_empty());
    assert_eq!(said(&state, "beta", &[word], 2).len(), 1);
}
