//! Points of stories at which a promise was once broken.

use nero_tests::steps::{self, STORIES, Story};

/// Plays the points of a story that begin with these words.
fn keeps(story: &str, point: &str) {
    let stories: Vec<Story> = STORIES
        .into_iter()
        .filter(|one| one.name == story)
        .collect();
    let Some(outcome) = steps::run(&stories, usize::MAX, 0, Some(point)) else {
        return;
    };
    assert!(outcome.broken.is_empty(), "{:#?}", outcome.broken);
    assert!(outcome.tried.0 > 0, "{story} passes no {point}");
}

#[test]
fn a_database_that_could_not_be_opened_for_writing_once_holds_up_no_run() {
    keeps("steered", "1 5 0 Daemon open home/data/series.db");
}

#[test]
fn numbers_come_into_a_sheet_although_the_daemon_died_behind_add() {
    keeps("written", "1 0 0 Daemon write home/data/state.db");
}

#[test]
fn a_home_is_restored_although_a_name_beside_it_cannot_be_removed() {
    keeps("restored", "1 5 0 Client unlink home/data/restoring");
}

#[test]
fn a_restore_that_was_killed_behind_its_last_effect_is_answered_as_done() {
    keeps("restored", "1 0 0 Client unlink home/data/restoring");
}
