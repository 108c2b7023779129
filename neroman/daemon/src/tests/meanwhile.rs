//! What changes while something else is on its way.

use nero_wire::v1;
use tokio::sync::mpsc;

use super::nodes::{both, gone, start_on};
use super::{DEADLINE, Rig};

#[tokio::test]
async fn a_node_without_room_to_end_what_was_given_up_is_used_all_the_same() {
    let rig = both((4.0, 1.0));
    rig.add().await;
    start_on(&rig, "1", "alpha").await.unwrap();
    let alpha = rig.node("alpha");
    let token = alpha.token(1, 1).await;
    alpha.begin(&token);
    rig.state(1, "running").await;
    alpha.cut(true);
    rig.until_node("alpha", |node| node.unreachable_since_ms > 0)
        .await;
    gone(&rig, "alpha", false).await;
    alpha.take_no_wishes(true);
    alpha.cut(false);
    alpha.refused_wishes().await;
    start_on(&rig, "2", "alpha").await.unwrap();
    alpha.token(2, 1).await;
    alpha.take_no_wishes(false);
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
    let request = v1::ShowRequest {
        what: "2".to_owned(),
        zone: String::new(),
    };
    let shown = rig.man.show(request).await.unwrap();
    assert!(shown.notes.iter().any(|note| note.starts_with(why)));
    rig.stop().await;
}

#[tokio::test]
async fn what_was_aborted_stays_so_when_its_files_cannot_be_sent_after_that() {
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
    let rig = both((4.0, 1.0));
    rig.add().await;
    start_on(&rig, "1", "alpha").await.unwrap();
    let token = rig.node("alpha").token(1, 1).await;
    rig.node("alpha").begin(&token);
    rig.state(1, "running").await;
    // Only a person opens the way: nothing more is heard of the node.
    rig.node("alpha").lock(true);
    rig.node("alpha").cut(false);
    rig.until_node("alpha", |node| node.needs_person).await;
    let (tx, _rx) = mpsc::channel(8);
    let logs = v1::LogsRequest {
        what: "1".to_owned(),
        follow: true,
        ..v1::LogsRequest::default()
    };
    let man = rig.man.clone();
    let following = tokio::spawn(async move { man.logs(logs, tx).await });
    rig.man.ledger.stop().await;
    let ended = tokio::time::timeout(DEADLINE, following).await;
    let failure = ended.expect("it ends").unwrap().unwrap_err();
    assert_eq!(failure.to_string(), "the daemon is leaving");
    rig.stop().await;
}
