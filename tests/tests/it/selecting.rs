//! The sentences that must just work.

use nero_tests::Home;

use crate::story::added;

fn ten(home: &Home) {
    added(
        home,
        "s",
        "collection: s\n+s:\n  command: sh -c 'echo \"loss = $1\"; exit $2' x {i} {code}\n  parameters: {i: {range: [0, 5, 1]}, code: [0, 1]}\n",
    );
}

#[test]
fn ranges_states_and_expressions_pick_what_a_researcher_expects() {
    let home = Home::new();
    ten(&home);
    assert!(home.ok(&["--start", "1-4"]).contains("started 4"));
    home.run(&["wait", "1-4"]);
    assert!(home.ok(&["--restart", "crashed,5-6"]).contains("started 4"));
    home.run(&["wait", "all"]);
    for id in 1..=6 {
        home.until_settled(id);
    }
    let ids = |selector: &str| -> Vec<u64> {
        let value = home.json(&["status", selector]);
        value["experiments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(ids("defined"), [7, 8, 9, 10]);
    assert_eq!(ids("crashed"), [2, 4, 6]);
    assert_eq!(ids("1-9:2"), [1, 3, 5, 7, 9]);
    assert_eq!(ids("loss>=1 && crashed"), [4, 6]);
    assert_eq!(ids("1-6 && finished"), [1, 3, 5]);
    assert_eq!(ids("tmod<1h"), (1..=10).collect::<Vec<_>>());
    assert_eq!(ids("param.i==4"), [9, 10]);
    assert_eq!(ids("s/s_code-1_i-3"), [8]);
    assert_eq!(ids("*_i-0"), [1, 2]);
    assert_eq!(
        ids("lost"),
        Vec::<u64>::new(),
        "a state that picks nothing is an empty set"
    );
}

#[test]
fn bad_selectors_point_at_the_place_and_exit_2() {
    let home = Home::new();
    ten(&home);
    for (selector, hint) in [
        ("99", "99"),
        ("loss>", "^"),
        ("nosuch>1", "nosuch"),
        ("1-4,!2", "1-4 && !2"),
        ("9-1", "^"),
        ("", "nothing is selected"),
    ] {
        let ran = home.run(&["start", selector]);
        assert_eq!(ran.code, Some(2), "{selector}: {ran:#?}");
        assert!(
            ran.err.contains("error:") && ran.err.contains(hint),
            "{selector}: {}",
            ran.err
        );
    }
}

#[test]
fn abort_by_expression_ends_what_it_names_and_nothing_else() {
    let home = Home::new();
    added(
        &home,
        "a",
        "collection: a\n+a:\n  command: sh -c 'echo errorrate $1; sleep 600' x {e}\n  parameters: {e: [0.1, 0.9]}\n",
    );
    home.ok(&["start", "all"]);
    for (id, want) in [(1, 0.1), (2, 0.9)] {
        nero_tests::until("metrics", || {
            let seen = home.experiment_json(id);
            if seen["metrics"]["errorrate"]["last"].as_f64() == Some(want) {
                Ok(())
            } else {
                Err((seen, home.logs()))
            }
        });
    }
    home.ok(&["--abort", "runtime>0&&errorrate>0.40"]);
    home.until_state(2, "aborted");
    assert_eq!(home.experiment_json(1)["state"], "running");
    home.ok(&["abort", "all", "--yes"]);
    home.until_state(1, "aborted");
}
