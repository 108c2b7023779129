//! Runs that are recalled because another node may have them: a run that was
//! not started here never is, whichever process dies, and a run that was
//! started goes on.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use nero_journal::frame::{self, FrameKind};
use nero_journal::v1::{Claimed, RecordKind};
use nero_journal::{Clocks, Segment, Writer};
use nero_wire::v1::cancel_reply::Outcome;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{CancelRequest, CleanRequest, RunFolder, RunSpec, RunsRequest};
use rustix::process::Signal;

use crate::rig::{Follower, Known, Mum, Node, kill, reference, wait_for, wait_until_forgotten};

async fn recall(mum: &mut Mum, spec: &RunSpec, generation: u32) -> Outcome {
    let request = request(&[spec], generation);
    let reply = mum.client.cancel(request).await.unwrap().into_inner();
    reply.runs[0].outcome()
}

fn request(specs: &[&RunSpec], generation: u32) -> CancelRequest {
    CancelRequest {
        request: nero_model::RequestId::random().to_vec(),
        runs: specs.iter().map(|spec| reference(spec)).collect(),
        recall: generation,
        ..CancelRequest::default()
    }
}

/// Checks that the run is not accepted again, by any generation, and that neroman
/// learns that another node may have it.
async fn comes_in_no_more(mum: &mut Mum, spec: &RunSpec) {
    for generation in [1, 2] {
        let reply = mum.hand_over(vec![of_generation(generation, spec)]).await;
        assert!(reply.accepted.is_empty(), "{reply:?}");
        assert!(reply.refused[0].only_here, "{reply:?}");
    }
}

/// The folders that a take-over of the deployment gets.
async fn told_folders(mum: &mut Mum) -> Vec<RunFolder> {
    let mut folders = mum.client.runs(RunsRequest {}).await.unwrap().into_inner();
    let mut told = Vec::new();
    while let Some(folder) = folders.message().await.unwrap() {
        told.push(folder);
    }
    told
}

fn of_generation(generation: u32, spec: &RunSpec) -> RunSpec {
    RunSpec {
        generation,
        ..spec.clone()
    }
}

fn starts(node: &Node, spec: &RunSpec) -> bool {
    node.run_dir(spec).join("1").exists() || node.run_dir(spec).join("starts").exists()
}

/// A run that was accepted, then refused because its folder cannot be built.
/// The file in the way is removed again.
async fn refused(node: &mut Node) -> (Mum, Follower, RunSpec, PathBuf) {
    let in_the_way = node.paths.mum().join("no-params.json");
    fs::create_dir_all(&in_the_way).unwrap();
    let mut mum = node.start().await;
    let spec = of_generation(1, &node.sh(1, "echo x >> ../starts"));
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
async fn a_refused_run_is_recalled_and_never_starts_whoever_dies() {
    let mut node = Node::new();
    let (mut mum, mut follower, spec, in_the_way) = refused(&mut node).await;
    assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::NeverStarted);
    follower.stage(&spec, Stage::TakenAway).await;
    fs::remove_dir(&in_the_way).unwrap();
    // Its answer may have been lost, and a request may still be at work.
    comes_in_no_more(&mut mum, &spec).await;
    assert!(told_folders(&mut mum).await.is_empty());
    node.kill_mum();
    let mut mum = node.start().await;
    comes_in_no_more(&mut mum, &spec).await;
    let mut follower = mum.follow(Known::default()).await;
    let other = another_ends(&node, &mut mum, &mut follower, 9).await;
    assert_eq!(follower.of(&spec).stage(), Stage::TakenAway);
    assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::NeverStarted);
    // Only its folder proves that for a closed run.
    follower.close(&[&spec, &other]).await;
    wait_until_forgotten(&mut mum).await;
    for dies in [false, true] {
        if dies {
            node.kill_mum();
            mum = node.start().await;
        }
        assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::NeverStarted);
        comes_in_no_more(&mut mum, &spec).await;
    }
    let told = told_folders(&mut mum).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].spec.as_ref().unwrap().token, other.token);
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
    // The other run of the request gets its answer.
    let other = node.sh(2, "true");
    let both = request(&[&spec, &other], 1);
    for _ in 0..2 {
        let reply = mum.client.cancel(both.clone()).await.unwrap().into_inner();
        let outcomes: Vec<_> = reply.runs.iter().map(|one| one.outcome()).collect();
        assert_eq!(outcomes, [Outcome::Unspecified, Outcome::UnknownRun]);
    }
    node.kill_mum();
    let mut mum = node.start().await;
    assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::Unspecified);
    assert!(node.run_dir(&spec).join("spec").exists());
    fs::remove_file(&control).unwrap();
    fs::rename(&away, &control).unwrap();
    // The same request gets another answer then.
    let reply = mum.client.cancel(both).await.unwrap().into_inner();
    assert_eq!(reply.runs[0].outcome(), Outcome::NeverStarted);
    assert!(control.join("cancel.1").exists());
    assert!(!node.run_dir(&spec).join("spec").exists());
}

#[tokio::test]
async fn neromum_dies_wherever_a_run_is_recalled_and_the_run_is_recalled() {
    let spoilt_ledger = |node: &Node| fs::remove_dir_all(node.paths.mum().join("ledger")).unwrap();
    let back = |node: &Node, spec: &RunSpec| {
        let run_dir = node.run_dir(spec);
        fs::rename(run_dir.join("withdrawn"), run_dir.join("spec")).unwrap();
    };
    type Spoil<'a> = &'a dyn Fn(&Node, &RunSpec);
    let before_the_spec_went: Spoil<'_> = &|node, spec| back(node, spec);
    let without_ledger: Spoil<'_> = &|node, _| spoilt_ledger(node);
    let both: Spoil<'_> = &|node, spec| {
        back(node, spec);
        spoilt_ledger(node);
    };
    for spoil in [before_the_spec_went, without_ledger, both] {
        let mut node = Node::new();
        let (mut mum, _, spec, in_the_way) = refused(&mut node).await;
        assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::NeverStarted);
        fs::remove_dir(&in_the_way).unwrap();
        node.kill_mum();
        spoil(&node, &spec);
        let mut mum = node.start().await;
        assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::NeverStarted);
        comes_in_no_more(&mut mum, &spec).await;
        assert!(told_folders(&mut mum).await.is_empty());
        let mut follower = mum.follow(Known::default()).await;
        another_ends(&node, &mut mum, &mut follower, 9).await;
        assert!(!starts(&node, &spec));
    }
}

#[tokio::test]
async fn a_run_whose_spec_went_before_the_ledger_had_it_is_not_lost() {
    let mut node = Node::new();
    let (mut mum, _, spec, _) = refused(&mut node).await;
    let run_dir = node.run_dir(&spec);
    // The ledger has the cancel request, but not yet that the run is taken
    // away.
    fs::rename(run_dir.join("control"), run_dir.join("away")).unwrap();
    assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::Unspecified);
    node.kill_mum();
    fs::rename(run_dir.join("away"), run_dir.join("control")).unwrap();
    fs::rename(run_dir.join("spec"), run_dir.join("withdrawn")).unwrap();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::TakenAway).await;
    assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::NeverStarted);
    assert!(run_dir.join("control/cancel.1").exists());
}

#[tokio::test]
async fn the_leftovers_of_a_recalled_run_go_when_they_are_old() {
    let mut node = Node::new();
    let (mut mum, _, spec, _) = refused(&mut node).await;
    assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::NeverStarted);
    let sweep = CleanRequest {
        store: true,
        ..CleanRequest::default()
    };
    let reply = mum.client.clean(sweep.clone()).await.unwrap().into_inner();
    assert!(reply.notes.is_empty(), "{reply:?}");
    let run_dir = node.run_dir(&spec);
    assert!(run_dir.exists());
    let cancel = fs::File::open(run_dir.join("control/cancel.1")).unwrap();
    let old = SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
    cancel.set_modified(old).unwrap();
    let reply = mum.client.clean(sweep).await.unwrap().into_inner();
    assert!(reply.freed_files > 0, "{reply:?}");
    assert!(!run_dir.exists());
}

#[tokio::test]
async fn a_refusal_that_neromum_forgot_is_recalled_or_the_run_goes_on_and_says_so() {
    let mut node = Node::new();
    let (_, _, spec, in_the_way) = refused(&mut node).await;
    node.kill_mum();
    fs::remove_dir(&in_the_way).unwrap();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&spec]).await;
    let outcome = recall(&mut mum, &spec, 1).await;
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

/// A run that is held, and one that waits for its end.
async fn one_runs_and_one_waits(node: &mut Node) -> (Mum, Follower, RunSpec, RunSpec) {
    let mut mum = node.start().await;
    let first = node.sh(1, "while [ ! -e ../go ]; do sleep 0.01; done");
    let second = of_generation(1, &node.sh(2, "echo x >> ../starts"));
    mum.accept(&[&first, &second]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&first, Stage::Running).await;
    (mum, follower, first, second)
}

#[tokio::test]
async fn a_recalled_run_leaves_without_a_trace_and_a_running_one_goes_on() {
    let mut node = Node::with(&["--cpus", "1"]);
    let (mut mum, mut follower, first, second) = one_runs_and_one_waits(&mut node).await;
    assert_eq!(recall(&mut mum, &first, 1).await, Outcome::GoesOn);
    // The first answer may have been lost.
    for _ in 0..2 {
        assert_eq!(recall(&mut mum, &second, 1).await, Outcome::UnknownRun);
        assert!(!node.run_dir(&second).exists());
    }
    fs::write(node.run_dir(&first).join("go"), "").unwrap();
    follower.settled(&[&first]).await;
    assert_eq!(follower.of(&first).count(RecordKind::StopAsked), 0);
    another_ends(&node, &mut mum, &mut follower, 9).await;
    assert!(!starts(&node, &second));
}

#[tokio::test]
async fn a_run_that_left_before_its_start_comes_back_by_a_later_generation_alone_whoever_dies() {
    for dies in [false, true] {
        let mut node = Node::with(&["--cpus", "1"]);
        let (mut mum, _, first, second) = one_runs_and_one_waits(&mut node).await;
        assert_eq!(recall(&mut mum, &second, 1).await, Outcome::UnknownRun);
        // The request of the first generation, which lost its caller.
        let reply = mum.hand_over(vec![second.clone()]).await;
        assert!(reply.accepted.is_empty(), "{reply:?}");
        assert!(!node.run_dir(&second).exists());
        if dies {
            node.kill_mum();
            mum = node.start().await;
        }
        let again = of_generation(3, &second);
        mum.accept(&[&again]).await;
        fs::write(node.run_dir(&first).join("go"), "").unwrap();
        let mut follower = mum.follow(Known::default()).await;
        follower.settled(&[&first, &again]).await;
        assert_eq!(follower.of(&again).count(RecordKind::JobStarted), 1);
        let started = fs::read_to_string(node.run_dir(&again).join("starts")).unwrap();
        assert_eq!(started, "x\n", "dies: {dies}");
    }
}

#[tokio::test]
async fn neromum_dies_wherever_a_waiting_run_leaves_and_the_run_never_starts_here() {
    let ledger_forgets = |node: &Node| fs::remove_dir_all(node.paths.mum().join("ledger")).unwrap();
    for forgets in [false, true] {
        let mut node = Node::with(&["--cpus", "1"]);
        let (_, _, first, second) = one_runs_and_one_waits(&mut node).await;
        node.kill_mum();
        let run_dir = node.run_dir(&second);
        fs::rename(run_dir.join("spec"), run_dir.join("withdrawn")).unwrap();
        if forgets {
            ledger_forgets(&node);
        }
        let mut mum = node.start().await;
        assert_eq!(recall(&mut mum, &second, 1).await, Outcome::NeverStarted);
        comes_in_no_more(&mut mum, &second).await;
        fs::write(node.run_dir(&first).join("go"), "").unwrap();
        let mut follower = mum.follow(Known::default()).await;
        another_ends(&node, &mut mum, &mut follower, 9).await;
        assert!(!starts(&node, &second), "ledger lost: {forgets}");
        if forgets {
            // It has no cancel request that tells its age.
            assert!(!run_dir.join("control/cancel.1").exists());
            let old = SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
            fs::File::open(&run_dir).unwrap().set_modified(old).unwrap();
            let sweep = CleanRequest {
                store: true,
                ..CleanRequest::default()
            };
            mum.client.clean(sweep).await.unwrap();
            assert!(!run_dir.exists());
        }
    }
}

#[tokio::test]
async fn a_waiting_run_of_an_earlier_neromum_leaves_for_good() {
    let mut node = Node::with(&["--cpus", "1"]);
    let (_, _, _, second) = one_runs_and_one_waits(&mut node).await;
    node.kill_mum();
    let mut mum = node.start().await;
    // That one may have sent it to a launcher.
    assert_eq!(recall(&mut mum, &second, 1).await, Outcome::NeverStarted);
    comes_in_no_more(&mut mum, &second).await;
}

#[tokio::test]
async fn a_run_that_never_got_here_comes_in_by_a_later_generation_alone() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = of_generation(1, &node.sh(1, "true"));
    assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::UnknownRun);
    // A request of that generation that was on its way.
    let reply = mum.hand_over(vec![spec.clone()]).await;
    assert!(reply.accepted.is_empty(), "{reply:?}");
    assert!(!node.run_dir(&spec).exists());
    let again = of_generation(2, &spec);
    mum.accept(&[&again]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&again]).await;
    assert_eq!(follower.of(&again).count(RecordKind::JobStarted), 1);
}

#[tokio::test]
async fn a_later_generation_does_not_wait_for_what_an_earlier_one_left() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let left = |spec: &RunSpec| {
        let run_dir = node.run_dir(spec);
        fs::create_dir_all(run_dir.join("control")).unwrap();
        frame::create(FrameKind::Spec, &run_dir.join("spec"), spec).unwrap();
    };
    // A folder of that generation whose request died before it removed the folder.
    let first = of_generation(1, &node.sh(1, "true"));
    assert_eq!(recall(&mut mum, &first, 1).await, Outcome::UnknownRun);
    left(&first);
    let reply = mum.hand_over(vec![first.clone()]).await;
    assert!(reply.refused[0].unknown_run, "{reply:?}");
    let first = of_generation(2, &first);
    let reply = mum.hand_over(vec![first.clone()]).await;
    assert!(reply.refused[0].later, "{reply:?}");
    mum.accept(&[&first]).await;
    // A folder of this very generation, from a request that lost its asker.
    let second = of_generation(1, &node.sh(2, "true"));
    assert_eq!(recall(&mut mum, &second, 1).await, Outcome::UnknownRun);
    let second = of_generation(2, &second);
    left(&second);
    mum.accept(&[&second]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&first, &second]).await;
    for spec in [&first, &second] {
        assert_eq!(follower.of(spec).count(RecordKind::JobStarted), 1);
    }
}

/// The claim of a shim that was on its way all the time.
fn claim(node: &Node, spec: &RunSpec) {
    let folder = node.run_dir(spec).join("1");
    fs::create_dir_all(&folder).unwrap();
    let token = spec.token.as_slice().try_into().unwrap();
    let mut segment = Segment::create(&folder.join("claim"), Writer::Shim, &token, 1).unwrap();
    segment
        .append(RecordKind::Claimed, Clocks::now(), &Claimed::default())
        .unwrap();
}

#[tokio::test]
async fn a_claim_of_a_shim_whose_launcher_died_keeps_a_refused_run_here() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = of_generation(1, &node.sh(1, "true"));
    let mut follower = mum.follow(Known::default()).await;
    another_ends(&node, &mut mum, &mut follower, 9).await;
    let launcher = node.launcher().await;
    kill(launcher, Signal::STOP);
    mum.accept(&[&spec]).await;
    follower.stage(&spec, Stage::Starting).await;
    // The launcher was told to start the run; its progress is unknown.
    wait_for("the launch", || {
        node.run_dir(&spec).join("work").exists().then_some(())
    })
    .await;
    let params = node.paths.mum().join("no-params.json");
    let _ = fs::remove_file(&params);
    fs::create_dir_all(&params).unwrap();
    kill(launcher, Signal::KILL);
    follower.stage(&spec, Stage::Refused).await;
    claim(&node, &spec);
    assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::GoesOn);
    assert!(!node.run_dir(&spec).join("control/cancel.1").exists());
    let told = |known: &Known| known.runs[&spec.token].count(RecordKind::Claimed) == 1;
    follower.until(told).await;
}

#[tokio::test]
async fn a_claim_that_comes_after_the_word_finds_the_cancel_and_changes_nothing() {
    let mut node = Node::new();
    let (mut mum, mut follower, spec, _) = refused(&mut node).await;
    assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::NeverStarted);
    claim(&node, &spec);
    for dies in [false, true] {
        if dies {
            node.kill_mum();
            mum = node.start().await;
            follower = mum.follow(Known::default()).await;
        }
        assert_eq!(recall(&mut mum, &spec, 1).await, Outcome::NeverStarted);
        follower.stage(&spec, Stage::TakenAway).await;
        assert_eq!(follower.of(&spec).count(RecordKind::Claimed), 0);
    }
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
    claim(&node, &second);
    assert_eq!(recall(&mut mum, &second, 1).await, Outcome::GoesOn);
    assert!(!node.run_dir(&second).join("control/cancel.1").exists());
    let told = |known: &Known| known.runs[&second.token].count(RecordKind::Claimed) == 1;
    follower.until(told).await;
}
