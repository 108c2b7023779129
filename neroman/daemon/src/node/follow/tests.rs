use std::path::Path;

use super::*;
use crate::adopt::adopt;

#[test]
fn what_an_earlier_node_says_of_a_run_counts_nothing() {
    let spec = v1::RunSpec {
        token: RunToken::random().to_vec(),
        experiment: 1,
        number: 1,
        name: "e".to_owned(),
        collection: "lab".to_owned(),
        ..v1::RunSpec::default()
    };
    let word = v1::RunState {
        token: spec.token.clone(),
        stage: Stage::Refused.into(),
        ..v1::RunState::default()
    };
    let mut state = State::default();
    for change in adopt(&state, "beta", Path::new("/f"), vec![spec], 1).changes {
        state.apply(&change);
    }
    assert!(said(&state, "alpha", std::slice::from_ref(&word), 2).is_empty());
    assert_eq!(said(&state, "beta", &[word], 2).len(), 1);
}
