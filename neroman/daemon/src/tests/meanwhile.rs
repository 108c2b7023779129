//! What changes while something else is on its way.

use super::Rig;
use super::away::followed_unheard;
use super::nodes::{both, gone, lose, running_on_alpha, start_on};
use super::stories::notes;

#[tokio::test]
async fn a_node_without_room_to_end_what_was_given_up_is_used_all_the_same() {
    let (rig, token) = running_on_alpha().await;
    let alpha = rig.node("alpha");
    lose(&rig, "alpha").await;
    gone(&rig, "alpha", false).await;
    alpha.take_no_cancels(true);
    alpha.cut(false);
    alpha.refused_cancels().await;
    start_on(&rig, "2", "alpha").await.unwrap();
    alpha.token(2, 1).await;
    alpha.take_no_cancels(false);
    let rig = rig.restart().await;
    rig.node("alpha").cancelled(&token).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_the_node_cannot_take_holds_back_no_other() {
    let rig = both((4.0, 1.0));
    let alpha = rig.node("alpha");
    alpha.choke(Some(2));
    rig.add().await;
    start_on(&rig, "1-4", "alpha").await.unwrap();
    for id in [1, 3, 4] {
        alpha.token(id, 1).await;
    }
    let why = "the node does not take runs: a task of the node panicked";
    rig.until(2, "said why it waits", |view| {
        view.waiting_for.contains(why)
    })
    .await;
    assert!(!alpha.has(2, 1));
    assert_eq!(alpha.tries(), 1, "its connection was kept");
    alpha.choke(None);
    let rig = rig.restart().await;
    rig.node("alpha").token(2, 1).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_damaged_spec_ends_its_own_run_and_no_other() {
    let rig = both((4.0, 1.0));
    rig.node("alpha").cut(true);
    rig.add().await;
    start_on(&rig, "1-4", "alpha").await.unwrap();
    let state = rig.home.state_db();
    let (base, fakes) = rig.stop().await;
    let damage = "UPDATE run_spec SET spec = x'00' WHERE run IN \
                  (SELECT key FROM run WHERE experiment = 2)";
    let damaged = rusqlite::Connection::open(state)
        .unwrap()
        .execute(damage, []);
    assert_eq!(damaged.unwrap(), 1);
    let alpha = fakes.mum("alpha");
    alpha.cut(false);
    let tries = alpha.tries();
    let rig = Rig::over(base, fakes);
    for id in [1, 3, 4] {
        alpha.token(id, 1).await;
    }
    let view = rig.state(2, "crashed").await;
    let why = "the spec of 2.1 cannot be read: the database could not be used";
    assert!(view.reason.starts_with(why), "{}", view.reason);
    assert_eq!(alpha.tries(), tries + 1, "its connection was kept");
    let notes = notes(&rig, "2").await;
    assert!(notes.iter().any(|note| note.starts_with(why)));
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_its_node_took_is_not_ended_because_it_cannot_be_sent_again() {
    for word in ["alpha", "both"] {
        let rig = both((4.0, 1.0));
        let alpha = rig.node("alpha");
        alpha.swallow(true);
        rig.add().await;
        start_on(&rig, "1", word).await.unwrap();
        let token = alpha.token(1, 1).await;
        let state = rig.home.state_db();
        let (base, fakes) = rig.stop().await;
        let damaged = rusqlite::Connection::open(state)
            .unwrap()
            .execute("UPDATE run_spec SET spec = x'00'", []);
        assert_eq!(damaged.unwrap(), 1);
        let alpha = fakes.mum("alpha");
        // Its first report comes later than its other answers.
        alpha.keep_quiet(&token);
        alpha.swallow(false);
        alpha.cut(false);
        let rig = Rig::over(base, fakes);
        rig.state(1, "submitted").await;
        rig.node("alpha").begin(&token);
        rig.state(1, "running").await;
        rig.stop().await;
    }
}

#[tokio::test]
async fn an_aborted_run_stays_aborted_when_its_files_cannot_be_sent() {
    let rig = both((4.0, 1.0));
    rig.node("alpha").ponder(true);
    rig.add().await;
    start_on(&rig, "1", "both").await.unwrap();
    rig.node("alpha").asked_for_files().await;
    start_on(&rig, "2", "alpha").await.unwrap();
    rig.abort("1").await;
    std::fs::remove_dir_all(rig.home.store()).unwrap();
    rig.node("alpha").ponder(false);
    // It comes after the other one, and fares the same.
    rig.state(2, "crashed").await;
    let rig = rig.restart().await;
    assert_eq!(rig.view(1).await.state, "aborted");
    rig.stop().await;
}

#[tokio::test]
async fn a_log_that_is_followed_ends_with_the_database() {
    let (rig, log) = followed_unheard().await;
    rig.man.ledger.stop().await;
    let failure = log.end().await.unwrap_err();
    assert_eq!(failure.to_string(), "the daemon is leaving");
    rig.stop().await;
}
