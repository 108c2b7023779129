use std::path::Path;

use super::*;
use crate::adopt::adopt;
use nero_life::change::desk_change;
use nero_life::run::Handing;

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
    let (state, token) = on_beta();
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
    let changes = said(&state, "beta", &words, 2);
    let [Change::Desk { desk, .. }] = &changes[..] else {
        panic!("{changes:?}");
    };
    assert_eq!(
        (&*desk.why, &*desk.far_host, desk.handing),
        ("cannot use spec", "h", Handing::Pending)
    );
}

#[test]
fn a_run_that_lies_there_and_cannot_be_read_is_not_forgotten() {
    let (mut state, token) = on_beta();
    let id = state.by_token(&RunToken::from_slice(&token).unwrap());
    let forgotten = desk_change(&state, id.unwrap(), |desk| desk.unknown_ms = Some(1));
    state.apply(&forgotten.unwrap());
    let word = v1::RunState {
        token,
        stage: Stage::Unspecified.into(),
        why: "cannot use spec".to_owned(),
        ..v1::RunState::default()
    };
    let changes = said(&state, "beta", &[word], 2);
    let [Change::Desk { desk, .. }] = &changes[..] else {
        panic!("{changes:?}");
    };
    assert_eq!((desk.unknown_ms, &*desk.why), (None, "cannot use spec"));
}

#[test]
fn what_an_earlier_node_says_of_a_run_counts_nothing() {
    let (state, token) = on_beta();
    let word = v1::RunState {
        token,
        stage: Stage::Refused.into(),
        ..v1::RunState::default()
    };
    assert!(said(&state, "alpha", std::slice::from_ref(&word), 2).is_empty());
    assert_eq!(said(&state, "beta", &[word], 2).len(), 1);
}
