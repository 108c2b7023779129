//! Runs that are withdrawn since another node may have them: what was not
//! started here never is, whoever dies, and what was started goes on.

use std::fs;
use std::path::PathBuf;

use nero_journal::v1::{Claimed, RecordKind};
use nero_journal::{Clocks, Segment, Writer};
use nero_wire::v1::cancel_reply::Outcome;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{CancelRequest, RunSpec};

use crate::rig::{Follower, Known, Mum, Node, reference, wait_until_forgotten};

async fn withdraw(mum: &mut Mum, spec: &RunSpec, turn: u32) -> Outcome {
    try_to_withdraw(mum, spec, turn).await.unwrap()
}

async fn try_to_withdraw(
    mum: &mut Mum,
    spec: &RunSpec,
    turn: u32,
) -> Result<Outcome, tonic::Status> {
    let request = CancelRequest {
        request: nero_model::RequestId::random().to_vec(),
        runs: vec![reference(spec)],
        withdraw: turn,
        ..CancelRequest::default()
    };
    let reply = mum.client.cancel(request).await?.into_inner();
    Ok(reply.runs[0].outcome())
}

fn of_turn(turn: u32, spec: &RunSpec) -> RunSpec {
    RunSpec {
        turn,
        ..spec.clone()
    }
}

fn starts(node: &Node, spec: &RunSpec) -> bool {
    node.run_dir(spec).join("1").exists() || node.run_dir(spec).join("starts").exists()
}

/// A run that was accepted, and refused since its folder cannot be built; gone,
/// the file that is in the way hinders nothing more.
async fn refused(node: &mut Node) -> (Mum, Follower, RunSpec, PathBuf) {
    let in_the_way = node.paths.mum().join("no-params.json");
    fs::create_dir_all(&in_the_way).unwrap();
    let mut mum = node.start().await;
    let spec = of_turn(1, &node.sh(1, "echo x >> ../starts"));
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Refused).await;
    (mum, follower, spec, in_the_way)
}

/// Waits until a run that was accepted last had its turn.
async fn another_ends(node: &Node, mum: &mut Mum, follower: &mut Follower, number: u64) -> RunSpec {
    let other = node.sh(number, "true");
    mum.accept(&[&other]).await;
    follower.settled(&[&other]).await;
    other
}

#[tokio::test]
async fn a_refused_run_is_withdrawn_and_never_starts_whoever_dies() {
    let mut node = Node::new();
    let (mut mum, mut follower, spec, in_the_way) = refused(&mut node).await;
    assert_eq!(withdraw(&mut mum, &spec, 1).await, Outcome::NeverStarted);
    follower.stage(&spec, Stage::TakenAway).await;
    fs::remove_dir(&in_the_way).unwrap();
    // Its answer may have been lost, and a request may still be at work.
    mum.accept(&[&spec]).await;
    node.kill_mum();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    let other = another_ends(&node, &mut mum, &mut follower, 9).await;
    assert_eq!(follower.of(&spec).stage(), Stage::TakenAway);
    assert_eq!(withdraw(&mut mum, &spec, 1).await, Outcome::NeverStarted);
    // Of a run that is closed its folder alone tells.
    follower.close(&[&spec, &other]).await;
    wait_until_forgotten(&mut mum).await;
    node.kill_mum();
    let mut mum = node.start().await;
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    another_ends(&node, &mut mum, &mut follower, 10).await;
    assert!(!starts(&node, &spec));
}

#[tokio::test]
async fn a_word_that_the_disk_refused_is_on_it_before_it_is_given_after_a_kill() {
    let mut node = Node::new();
    let (mut mum, _, spec, _) = refused(&mut node).await;
    let control = node.run_dir(&spec).join("control");
    let away = node.run_dir(&spec).join("away");
    fs::rename(&control, &away).unwrap();
    fs::write(&control, "no folder").unwrap();
    let failed = try_to_withdraw(&mut mum, &spec, 1).await.unwrap_err();
    assert_eq!(failed.code(), tonic::Code::ResourceExhausted);
    node.kill_mum();
    let mut mum = node.start().await;
    assert!(try_to_withdraw(&mut mum, &spec, 1).await.is_err());
    fs::remove_file(&control).unwrap();
    fs::rename(&away, &control).unwrap();
    assert_eq!(withdraw(&mut mum, &spec, 1).await, Outcome::NeverStarted);
    assert!(control.join("cancel.1").exists());
}

#[tokio::test]
async fn a_refusal_that_neromum_forgot_is_withdrawn_or_the_run_goes_on_and_says_so() {
    let mut node = Node::new();
    let (_, _, spec, in_the_way) = refused(&mut node).await;
    node.kill_mum();
    fs::remove_dir(&in_the_way).unwrap();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&spec]).await;
    let outcome = withdraw(&mut mum, &spec, 1).await;
    assert_eq!(outcome, Outcome::Ended, "it was started after all");
    assert_eq!(follower.of(&spec).count(RecordKind::JobStarted), 1);
    assert!(!node.run_dir(&spec).join("control/cancel.1").exists());
}

#[tokio::test]
async fn an_abort_of_a_refused_run_holds_after_a_kill() {
    let mut node = Node::new();
    let (mut mum, mut follower, spec, in_the_way) = refused(&mut node).await;
    let reply = mum.cancel(&[&spec]).await;
    assert_eq!(reply.runs[0].outcome(), Outcome::NeverStarted);
    follower.stage(&spec, Stage::TakenAway).await;
    fs::remove_dir(&in_the_way).unwrap();
    node.kill_mum();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    another_ends(&node, &mut mum, &mut follower, 9).await;
    assert_eq!(follower.of(&spec).stage(), Stage::TakenAway);
    assert!(!starts(&node, &spec));
}

#[tokio::test]
async fn what_waits_is_taken_away_and_what_runs_goes_on() {
    let mut node = Node::with(&["--cpus", "1"]);
    let mut mum = node.start().await;
    let first = node.sh(1, "while [ ! -e ../go ]; do sleep 0.01; done");
    let second = node.sh(2, "echo x >> ../starts");
    mum.accept(&[&first, &second]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&first, Stage::Running).await;
    assert_eq!(withdraw(&mut mum, &first, 1).await, Outcome::GoesOn);
    assert_eq!(withdraw(&mut mum, &second, 1).await, Outcome::NeverStarted);
    follower.stage(&second, Stage::TakenAway).await;
    fs::write(node.run_dir(&first).join("go"), "").unwrap();
    follower.settled(&[&first]).await;
    assert_eq!(follower.of(&first).count(RecordKind::StopAsked), 0);
    assert!(!starts(&node, &second));
}

#[tokio::test]
async fn a_run_that_never_got_here_comes_in_by_a_later_turn_alone() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = of_turn(1, &node.sh(1, "true"));
    assert_eq!(withdraw(&mut mum, &spec, 1).await, Outcome::UnknownRun);
    // A request of that turn that was on its way.
    let reply = mum.hand_over(vec![spec.clone()]).await;
    assert!(reply.accepted.is_empty(), "{reply:?}");
    assert!(!node.run_dir(&spec).exists());
    let again = of_turn(2, &spec);
    mum.accept(&[&again]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&again]).await;
    assert_eq!(follower.of(&again).count(RecordKind::JobStarted), 1);
}

#[tokio::test]
async fn a_claim_that_an_earlier_start_of_neromum_brought_about_keeps_the_run_here() {
    let mut node = Node::with(&["--cpus", "1"]);
    let mut mum = node.start().await;
    let first = node.sh(1, "sleep 600");
    let second = node.sh(2, "true");
    mum.accept(&[&first, &second]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&first, Stage::Running).await;
    node.kill_mum();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&second, Stage::Waiting).await;
    // Of a shim that was on its way all the time.
    let folder = node.run_dir(&second).join("1");
    fs::create_dir(&folder).unwrap();
    let token = second.token.as_slice().try_into().unwrap();
    let claim = folder.join("claim");
    let mut segment = Segment::create(&claim, Writer::Shim, &token, 1).unwrap();
    segment
        .append(RecordKind::Claimed, Clocks::now(), &Claimed::default())
        .unwrap();
    assert_eq!(withdraw(&mut mum, &second, 1).await, Outcome::GoesOn);
    assert!(!node.run_dir(&second).join("control/cancel.1").exists());
    let told = |known: &Known| known.runs[&second.token].count(RecordKind::Claimed) == 1;
    follower.until(told).await;
}

#[tokio::test]
async fn a_withdrawn_run_comes_back_by_a_later_turn_and_starts_once() {
    for dies in [false, true] {
        let mut node = Node::with(&["--cpus", "1"]);
        let mut mum = node.start().await;
        let first = node.sh(1, "while [ ! -e ../go ]; do sleep 0.01; done");
        let second = of_turn(1, &node.sh(2, "echo x >> ../starts"));
        mum.accept(&[&first, &second]).await;
        let mut follower = mum.follow(Known::default()).await;
        follower.stage(&first, Stage::Running).await;
        assert_eq!(withdraw(&mut mum, &second, 1).await, Outcome::NeverStarted);
        let again = of_turn(2, &second);
        let reply = mum.hand_over(vec![again.clone()]).await;
        assert!(reply.refused[0].later, "{reply:?}");
        if dies {
            node.kill_mum();
            mum = node.start().await;
        }
        mum.accept(&[&again]).await;
        fs::write(node.run_dir(&first).join("go"), "").unwrap();
        let mut follower = mum.follow(Known::default()).await;
        follower.settled(&[&again]).await;
        let run = follower.of(&again);
        assert_eq!(run.count(RecordKind::JobStarted), 1);
        let starts = fs::read_to_string(node.run_dir(&again).join("starts"));
        assert_eq!(starts.unwrap(), "x\n");
    }
}

#[tokio::test]
async fn a_run_that_waits_since_nothing_is_started_says_so() {
    let mut node = Node::with(&["--cpus", "1", "--min-free", "1000000000000000000"]);
    let mut mum = node.start().await;
    let spec = node.sh(1, "true");
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    let held = |known: &Known| known.runs.get(&spec.token).is_some_and(|run| run.held);
    follower.until(held).await;
}
