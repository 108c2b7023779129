//! Cancel requests: obeyed whatever went wrong when they were made.

use std::fs;

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::RecordKind;
use nero_model::paths::run::rules_version;
use nero_wire::v1::cancel_reply::Outcome;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{
    CancelReply, CancelRequest, CohortNumber, Rule, RuleSet, RunSpec, SetRulesRequest,
};

use crate::rig::{Follower, Known, Mum, Node, reference, wait_for, wait_until_forgotten};

/// Cancels a run while its control folder accepts no file, as on a full disk.
async fn cancel_in_vain(node: &Node, mum: &mut Mum, spec: &RunSpec) {
    let control = node.run_dir(spec).join("control");
    let away = node.run_dir(spec).join("away");
    fs::rename(&control, &away).unwrap();
    fs::write(&control, "no folder").unwrap();
    let request = CancelRequest {
        request: nero_model::RequestId::random().to_vec(),
        runs: vec![reference(spec)],
        ..CancelRequest::default()
    };
    let refused = mum.client.cancel(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    fs::remove_file(&control).unwrap();
    fs::rename(&away, &control).unwrap();
}

async fn running(node: &mut Node) -> (Mum, Follower, RunSpec) {
    let mut mum = node.start().await;
    let spec = node.sh(1, "sleep 600");
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    (mum, follower, spec)
}

#[tokio::test]
async fn a_cancel_that_the_disk_refused_is_honoured_when_sent_again() {
    let mut node = Node::new();
    let (mut mum, mut follower, spec) = running(&mut node).await;
    for _ in 0..2 {
        cancel_in_vain(&node, &mut mum, &spec).await;
    }
    mum.cancel(&[&spec]).await;
    follower.settled(&[&spec]).await;
    assert_eq!(follower.of(&spec).count(RecordKind::StopAsked), 1);
}

#[tokio::test]
async fn a_cancel_lost_in_a_crash_is_honoured_when_sent_again() {
    let mut node = Node::new();
    let (mut mum, _, spec) = running(&mut node).await;
    cancel_in_vain(&node, &mut mum, &spec).await;
    node.kill_mum();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    mum.cancel(&[&spec]).await;
    follower.settled(&[&spec]).await;
    assert_eq!(follower.of(&spec).count(RecordKind::StopAsked), 1);
}

/// A run that waits behind another one, and is cancelled there.
async fn aborted_while_it_waits(node: &mut Node) -> (Mum, Follower, [RunSpec; 2]) {
    let mut mum = node.start().await;
    let first = node.sh(1, "while [ ! -e ../go ]; do sleep 0.01; done");
    let second = node.sh(2, "echo x >> ../starts");
    mum.accept(&[&first, &second]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&first, Stage::Running).await;
    mum.cancel(&[&second]).await;
    follower.stage(&second, Stage::TakenAway).await;
    (mum, follower, [first, second])
}

#[tokio::test]
async fn a_run_that_was_aborted_before_its_start_is_started_by_nobody_who_takes_it_up_again() {
    let mut node = Node::with(&["--cpus", "1"]);
    let (mut mum, mut follower, [first, second]) = aborted_while_it_waits(&mut node).await;
    follower.close(&[&second]).await;
    fs::write(node.run_dir(&first).join("go"), "").unwrap();
    follower.settled(&[&first]).await;
    follower.close(&[&first]).await;
    crate::rig::wait_until_forgotten(&mut mum).await;
    // As `node take-over` asks: for every run that has a folder here.
    let mut known = Known::default();
    known.name(&[&second]);
    let mut follower = mum.follow(known).await;
    let over = [Stage::TakenAway, Stage::Settled];
    follower
        .until(|known| over.contains(&known.runs[&second.token].stage()))
        .await;
    assert_eq!(follower.of(&second).stage(), Stage::TakenAway);
    assert!(!node.run_dir(&second).join("starts").exists());
}

#[tokio::test]
async fn an_abort_of_a_waiting_run_that_the_disk_refuses_is_not_answered_as_done() {
    let mut node = Node::with(&["--cpus", "1"]);
    let (mut mum, mut follower, [_, second]) = aborted_while_it_waits(&mut node).await;
    let third = node.sh(3, "echo x >> ../starts");
    mum.accept(&[&third]).await;
    cancel_in_vain(&node, &mut mum, &third).await;
    mum.cancel(&[&third]).await;
    follower.stage(&third, Stage::TakenAway).await;
    // The next start knows it, too.
    node.kill_mum();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.caught_up().await;
    for run in [&second, &third] {
        assert_eq!(follower.of(run).stage(), Stage::TakenAway);
    }
}

#[tokio::test]
async fn rules_whose_version_is_taken_by_others_hold_all_the_same() {
    let mut node = Node::new();
    let (mum, _, spec) = running(&mut node).await;
    let set = |version: u64, text: &str| RuleSet {
        version,
        rules: vec![Rule {
            id: 1,
            text: text.to_owned(),
            ..Rule::default()
        }],
        cohort: Vec::new(),
    };
    let file = |version: u64| node.run_dir(&spec).join(format!("control/rules.{version}"));
    let asked = |rules: RuleSet| {
        let request = SetRulesRequest {
            request: nero_model::RequestId::random().to_vec(),
            run: Some(reference(&spec)),
            rules: Some(rules),
        };
        let mut client = mum.client.clone();
        async move {
            client
                .set_rules(request)
                .await
                .unwrap()
                .into_inner()
                .version
        }
    };
    assert_eq!(asked(set(5, "loss > 1")).await, 5);
    // Its answer was lost.
    assert_eq!(asked(set(5, "loss > 1")).await, 5);
    // From a neroman whose database is an older copy; asked twice as well.
    assert_eq!(asked(set(5, "loss > 2")).await, 6);
    assert_eq!(asked(set(5, "loss > 2")).await, 6);
    let lies: RuleSet = frame::read(FrameKind::Rules, &file(6)).unwrap();
    assert_eq!(lies, set(6, "loss > 2"));
    // As a power cut may leave it.
    fs::write(file(7), "").unwrap();
    assert_eq!(asked(set(7, "loss > 3")).await, 8);
    // From an older copy again: the same rules lie there but newer ones hold,
    // or no such rules lie there and newer ones hold.
    assert_eq!(asked(set(5, "loss > 1")).await, 9);
    assert_eq!(asked(set(4, "loss > 4")).await, 10);
    assert_eq!(asked(set(4, "loss > 4")).await, 10);
    assert!(!file(4).exists() && !file(11).exists());
    // A number that no version has, in a name or in a request.
    fs::write(file(u64::MAX), "").unwrap();
    assert_eq!(asked(set(11, "loss > 5")).await, 11);
    assert_eq!(asked(set(u64::MAX, "loss > 6")).await, 12);
}

#[tokio::test]
async fn a_new_number_of_peers_is_a_new_version_and_old_ones_do_not_pile_up() {
    let mut node = Node::new();
    let (mum, _, spec) = running(&mut node).await;
    let asked = |version: u64, value: f64| {
        let request = SetRulesRequest {
            request: nero_model::RequestId::random().to_vec(),
            run: Some(reference(&spec)),
            rules: Some(RuleSet {
                version,
                rules: vec![Rule::default()],
                cohort: vec![CohortNumber {
                    value: Some(value),
                    ..CohortNumber::default()
                }],
            }),
        };
        let mut client = mum.client.clone();
        async move {
            client
                .set_rules(request)
                .await
                .unwrap()
                .into_inner()
                .version
        }
    };
    assert_eq!(asked(5, 0.5).await, 5);
    assert_eq!(asked(5, 0.5).await, 5, "its answer was lost");
    assert_eq!(
        asked(5, 0.25).await,
        6,
        "a later number by the same version"
    );
    for version in 7..30 {
        assert_eq!(asked(version, 0.1).await, version);
    }
    let control = node.run_dir(&spec).join("control");
    let names = fs::read_dir(control)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut left: Vec<u64> = names.filter_map(|name| rules_version(&name)).collect();
    left.sort_unstable();
    assert_eq!(left, Vec::from_iter(22..30));
}

#[tokio::test]
async fn an_aborted_run_whose_records_cannot_be_read_now_is_not_told_as_never_started() {
    let mut node = Node::new();
    let (mut mum, mut follower, spec) = running(&mut node).await;
    mum.cancel(&[&spec]).await;
    follower.settled(&[&spec]).await;
    follower.close(&[&spec]).await;
    wait_until_forgotten(&mut mum).await;
    let records = node.run_dir(&spec).join("1");
    let aside = records.with_extension("aside");
    fs::rename(&records, &aside).unwrap();
    fs::write(&records, "").unwrap();
    let mut known = Known::default();
    known.name(&[&spec]);
    let mut follower = mum.follow(known).await;
    follower
        .until(|known| known.runs.values().any(|run| !run.stages.is_empty()))
        .await;
    fs::remove_file(&records).unwrap();
    fs::rename(&aside, &records).unwrap();
    follower.settled(&[&spec]).await;
    let run = follower.of(&spec);
    let stages = &run.stages;
    assert!(!stages.contains(&Stage::TakenAway), "{stages:?}");
    assert_eq!(run.count(RecordKind::JobStarted), 1);
    assert!(!node.run_dir(&spec).join("2").exists());
}

fn outcome(reply: &CancelReply) -> Outcome {
    reply.runs[0].outcome()
}

#[tokio::test]
async fn a_cancel_ends_a_run_whose_hand_over_came_no_farther_than_its_spec() {
    let mut node = Node::new();
    let spec = node.sh(1, "echo x > ../starts");
    let run_dir = node.run_dir(&spec);
    fs::create_dir_all(run_dir.join("control")).unwrap();
    frame::create(FrameKind::Spec, &run_dir.join("spec"), &spec).unwrap();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    assert_eq!(outcome(&mum.cancel(&[&spec]).await), Outcome::NeverStarted);
    follower.stage(&spec, Stage::TakenAway).await;
    // The hand-over comes once more from a connection that was held up.
    mum.hand_over(vec![spec.clone()]).await;
    let other = node.sh(2, "true");
    mum.accept(&[&other]).await;
    follower.settled(&[&other]).await;
    assert!(!run_dir.join("starts").exists() && !run_dir.join("1").exists());
}

#[tokio::test]
async fn a_run_that_was_cancelled_before_it_came_in_comes_in_no_more() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, "true");
    assert_eq!(outcome(&mum.cancel(&[&spec]).await), Outcome::UnknownRun);
    for generation in [0, 1, 2] {
        let late = RunSpec {
            generation,
            ..spec.clone()
        };
        let reply = mum.hand_over(vec![late]).await;
        assert!(reply.accepted.is_empty(), "{generation}: {reply:?}");
        assert!(!node.run_dir(&spec).exists());
    }
}

#[tokio::test]
async fn checkpoints_are_looked_for_when_a_time_limit_ended_a_run_and_not_after_a_cancel() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    // A file as new as the folder, by the coarse clock of the file system, is taken for carried over.
    let line = "while :; do echo 1 > ckpt; sleep 0.05; done";
    let [aborted, mut over] = [1, 2].map(|experiment| RunSpec {
        checkpoint: vec!["ckpt*".to_owned()],
        ..node.sh(experiment, line)
    });
    // A busy machine must have begun the job and let it write within this time.
    over.resources.as_mut().unwrap().time_ms = 5_000;
    mum.accept(&[&aborted, &over]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&aborted, Stage::Running).await;
    let made = node.run_dir(&aborted).join("work/ckpt");
    wait_for("the checkpoint", || made.exists().then_some(())).await;
    mum.cancel(&[&aborted]).await;
    follower.settled(&[&aborted, &over]).await;
    assert_eq!(follower.of(&over).made_checkpoint, Some(true));
    assert_eq!(follower.of(&aborted).made_checkpoint, None);
}
