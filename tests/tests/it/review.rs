//! Faults that the first users met: words that were wrong, missing, or
//! repeated.

use nero_tests::Home;

use crate::story::added;

const TWO: &str = "collection: w\n+w:\n  command: sh -c 'echo train loss = 0.5'\n  \
                   parameters: {x: [1, 2]}\n  rules:\n    - abort: loss > 2\n";

#[test]
fn a_mistake_in_a_selector_is_said_once_with_its_place() {
    let home = Home::new();
    added(&home, "w", TWO);
    let ran = home.run(&["status", "99"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(
        ran.err,
        "error: there is no experiment 99\n  99\n  ^^\nhint: numbers go from 1 to 2\n"
    );
    let ran = home.run(&["rule", "add", "1", "abort: tstart < today"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(
        ran.err.matches("another day tomorrow").count(),
        1,
        "{ran:?}"
    );
    assert!(
        ran.err.contains("hint: a standing rule needs a date"),
        "{ran:?}"
    );
}

#[test]
fn a_rule_on_a_name_that_was_never_printed_says_so() {
    let home = Home::new();
    added(&home, "w", &TWO.replace("loss > 2", "accuracy > 2"));
    home.ok(&["start", "1"]);
    assert_eq!(home.run(&["wait", "1"]).code, Some(0));
    home.until_settled(1);
    let listed = home.json(&["rule", "list", "1"]);
    let problem = listed["rules"][0]["problem"].as_str().unwrap_or_default();
    assert_eq!(problem, "`accuracy` not seen: the run printed train loss");
}

#[test]
fn a_rule_on_a_bare_name_watches_the_metric_of_the_set_to_train_with() {
    let home = Home::new();
    added(
        &home,
        "w",
        &TWO.replace("abort: loss > 2", "warn: loss > 0.4"),
    );
    home.ok(&["start", "1"]);
    assert_eq!(home.run(&["wait", "1"]).code, Some(0));
    home.until_settled(1);
    let rule = home.json(&["rule", "list", "1"])["rules"][0].clone();
    assert_eq!(rule["fired"], 1, "{rule:#}");
    assert!(rule["problem"].is_null(), "{rule:#}");
    assert_eq!(rule["bound"][0], "loss → train loss");
    assert_eq!(home.run(&["status", "loss == 0.5"]).code, Some(0));
    let printed = home.run(&["metrics", "1", "loss", "--csv"]);
    assert!(printed.out.contains("train loss"), "{printed:?}");
}

#[test]
fn a_rule_added_behind_the_end_of_a_run_is_listed_for_the_next() {
    let home = Home::new();
    added(&home, "w", TWO);
    home.ok(&["start", "1"]);
    home.run(&["wait", "1"]);
    home.ok(&["rule", "add", "1", "warn: runtime > 1h"]);
    let listed = home.json(&["rule", "list", "1"]);
    assert_eq!(
        listed["rules"].as_array().map(Vec::len),
        Some(2),
        "{listed:#}"
    );
    assert_eq!(
        listed["rules"][1]["problem"],
        "not in its run: the next run takes it"
    );
}

#[test]
fn a_metric_that_nobody_printed_is_named_with_those_that_are_there() {
    let home = Home::new();
    added(&home, "w", TWO);
    home.ok(&["start", "1"]);
    home.until_settled(1);
    let ran = home.run(&["metrics", "1", "accuracy"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.err
            .contains("no metric `accuracy` was printed; there are: train loss"),
        "{ran:?}"
    );
}

#[test]
fn equal_changes_of_several_experiments_are_one_line() {
    let home = Home::new();
    let folder = added(&home, "w", TWO);
    let changed = TWO.replace("loss > 2", "loss > 3");
    std::fs::write(format!("{folder}/neronet.yaml"), changed).expect("the source");
    let ran = home.run(&["start", "1", "--dry-run"]);
    assert!(ran.err.contains("1-2: rules changed"), "{ran:?}");
}

#[test]
fn a_folder_that_was_moved_is_added_again_and_keeps_its_numbers() {
    let home = Home::new();
    let folder = added(&home, "w", TWO);
    let moved = format!("{folder}-moved");
    std::fs::rename(&folder, &moved).expect("the folder");
    let ran = home.run(&["start", "1"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("`neroman add` its new place"), "{ran:?}");
    home.ok(&["add", &moved]);
    home.ok(&["start", "1-2"]);
    assert_eq!(home.run(&["wait", "1-2"]).code, Some(0));
}
