//! Files of a node are damaged while none of our processes runs. A start of
//! neromum reports the truth, or names the file and does nothing about its run.

use std::path::{Path, PathBuf};

use nero_journal::v1::{JobExited, Lost, RecordKind, lost};
use nero_wire::v1::RunSpec;
use nero_wire::v1::run_state::Stage;
use rustix::process::Signal;

use crate::rig::{Follower, Known, Node, kill, reference, wait_for};
use crate::setup::settled;

/// A job that leaves a line per start and ends when told.
const COUNTED: &str =
    "echo x >> ../starts; echo loss 1; while [ ! -e ../go ]; do sleep 0.01; done; exit 5";

fn lines(node: &Node, spec: &RunSpec) -> usize {
    std::fs::read_to_string(node.run_dir(spec).join("starts"))
        .map_or(0, |text| text.lines().count())
}

fn go(node: &Node, spec: &RunSpec) {
    std::fs::write(node.run_dir(spec).join("go"), "").unwrap();
}

/// Runs whose jobs ended while neromum was dead; no ledger has their ends.
async fn ended_unseen(node: &mut Node, count: u64) -> Vec<RunSpec> {
    let mut mum = node.start().await;
    let specs: Vec<RunSpec> = (1..=count).map(|number| node.sh(number, COUNTED)).collect();
    mum.accept(&specs.iter().collect::<Vec<_>>()).await;
    for spec in &specs {
        let job = || (lines(node, spec) == 1).then_some(());
        wait_for("the job's first line", job).await;
    }
    let launcher = node.launcher().await;
    node.kill_mum();
    for spec in &specs {
        go(node, spec);
        let over = || kinds_of(&node.run_dir(spec).join("1/claim")).contains(&RecordKind::TreeGone);
        wait_for("the end of the job", || over().then_some(())).await;
    }
    kill(launcher, Signal::KILL);
    specs
}

fn kinds_of(path: &Path) -> Vec<RecordKind> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let Ok((_, records)) = nero_journal::scan(&bytes) else {
        return Vec::new();
    };
    records
        .map(|record| RecordKind::try_from(i32::from(record.kind)).unwrap_or_default())
        .collect()
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % end
    }
}

/// Damages one file of a run; returns what was done.
fn damage(node: &Node, spec: &RunSpec, other: &RunSpec, numbers: &mut Numbers) -> String {
    let run_dir = node.run_dir(spec);
    let mut files = vec![
        run_dir.join("spec"),
        run_dir.join("1/claim"),
        run_dir.join("1/claim"),
    ];
    let entries = std::fs::read_dir(run_dir.join("1")).unwrap().flatten();
    files.extend(
        entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "seg")),
    );
    files.sort();
    let path = files[numbers.below(files.len())].clone();
    let mut bytes = std::fs::read(&path).unwrap();
    let place = numbers.below(bytes.len());
    let how = match numbers.below(8) {
        0..=3 => {
            let bit = numbers.below(8);
            bytes[place] ^= 1 << bit;
            std::fs::write(&path, &bytes).unwrap();
            format!("bit {bit} of byte {place} flipped")
        }
        4 => {
            // A writer that died leaves its reserve, zeros up to the end.
            let half = bytes.len() / 2;
            let place = place % half;
            let end = half.min(place + 40);
            bytes[place..end].fill(0);
            std::fs::write(&path, &bytes).unwrap();
            format!("zeros from byte {place} to {end}")
        }
        5 => {
            std::fs::write(&path, "").unwrap();
            "cut to nothing".to_owned()
        }
        6 => {
            std::fs::remove_file(&path).unwrap();
            "removed".to_owned()
        }
        _ => {
            let theirs = node
                .run_dir(other)
                .join(path.strip_prefix(&run_dir).unwrap());
            if theirs.exists() {
                std::fs::copy(theirs, &path).unwrap();
            }
            "another run's".to_owned()
        }
    };
    format!("{}: {how}", path.display())
}

fn is_named(known: &Known, spec: &RunSpec) -> bool {
    known
        .runs
        .get(&spec.token)
        .is_some_and(|run| !run.unreadable.is_empty())
}

fn stage_of(known: &Known, spec: &RunSpec) -> Stage {
    let run = known.runs.get(&spec.token);
    run.map_or(Stage::Unspecified, |run| run.stage())
}

async fn told(follower: &mut Follower, specs: &[RunSpec]) {
    follower
        .until(|known| {
            specs
                .iter()
                .all(|spec| is_named(known, spec) || stage_of(known, spec) == Stage::Settled)
        })
        .await;
}

#[tokio::test]
async fn of_a_damaged_file_nothing_is_told_but_the_truth_or_its_name() {
    let count = std::env::var("NERO_DAMAGES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(16);
    let mut node = Node::with(&["--cpus", "1000"]);
    let specs = ended_unseen(&mut node, count).await;
    let mut numbers = Numbers(count);
    let mut done = Vec::new();
    for (at, spec) in specs.iter().enumerate() {
        let other = &specs[(at + 1) % specs.len()];
        done.push(damage(&node, spec, other, &mut numbers));
    }
    let mut mum = node.start().await;
    let mut known = Known::default();
    known.name(&specs.iter().collect::<Vec<_>>());
    let mut follower = mum.follow(known).await;
    told(&mut follower, &specs).await;
    // When a run that came later has ended, all earlier ones have started if they
    // ever will.
    let later = node.sh(count + 1, "true");
    mum.accept(&[&later]).await;
    follower.stage(&later, Stage::Settled).await;
    for (spec, done) in specs.iter().zip(&done) {
        assert_eq!(lines(&node, spec), 1, "{done}");
        let run = follower.of(spec);
        let code = run.record::<JobExited>(RecordKind::JobExited);
        let is_true = code.is_some_and(|exited| exited.code == 5 && !exited.code_unknown)
            && run.kinds().contains(&RecordKind::TreeGone);
        assert!(is_true || !run.unreadable.is_empty(), "{done}: {run:?}");
        for kind in [RecordKind::Lost, RecordKind::JobNotStarted] {
            assert!(!run.kinds().contains(&kind), "{done}: {run:?}");
        }
    }
}

/// Waits until the node reports the run with this file.
async fn named(follower: &mut Follower, spec: &RunSpec, path: &Path) {
    follower.until(|known| is_named(known, spec)).await;
    let files = follower.of(spec).unreadable;
    assert_eq!(files[0].path, path.display().to_string(), "{files:?}");
}

async fn one_live(node: &mut Node) -> (RunSpec, PathBuf) {
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    wait_for("the job", || (lines(node, &spec) == 1).then_some(())).await;
    let launcher = node.launcher().await;
    let (shim, _) = node.claim(&spec);
    node.kill_mum();
    // A launcher that sees the shim's end records the job beside the claim.
    kill(launcher, Signal::KILL);
    kill(shim, Signal::KILL);
    let claim = node.run_dir(&spec).join("1/claim");
    (spec, claim)
}

/// A claim that lacks or garbles the record of its job, which lives, holds the
/// run; whole again, the run goes on. `damage` gets the claim's bytes and where
/// that record begins.
async fn damaged_claim(damage: impl FnOnce(&mut Vec<u8>, usize)) {
    let mut node = Node::with(&["--cpus", "2"]);
    let (spec, claim) = one_live(&mut node).await;
    let whole = std::fs::read(&claim).unwrap();
    let (_, mut records) = nero_journal::scan(&whole).unwrap();
    let started = records
        .find(|record| record.is(RecordKind::JobStarted))
        .unwrap();
    let mut damaged = whole.clone();
    damage(&mut damaged, started.offset as usize);
    std::fs::write(&claim, damaged).unwrap();
    let mut mum = node.start().await;
    let mut known = Known::default();
    known.name(&[&spec]);
    let mut follower = mum.follow(known).await;
    named(&mut follower, &spec, &claim).await;
    // Meanwhile it occupies no slot.
    let next = node.sh(2, "true");
    mum.accept(&[&next]).await;
    follower.stage(&next, Stage::Settled).await;
    assert_eq!(lines(&node, &spec), 1);
    std::fs::write(&claim, whole).unwrap();
    follower.stage(&spec, Stage::Running).await;
    go(&node, &spec);
    follower.stage(&spec, Stage::Settled).await;
    assert_eq!(lines(&node, &spec), 1);
}

#[tokio::test]
async fn a_job_whose_claim_has_a_flipped_bit_is_not_started_beside_itself() {
    damaged_claim(|bytes, at| bytes[at + 30] ^= 1).await;
}

#[tokio::test]
async fn a_job_whose_claim_is_cut_before_its_record_is_not_started_beside_itself() {
    damaged_claim(Vec::truncate).await;
}

#[tokio::test]
async fn a_job_whose_claim_has_zeros_from_its_record_on_is_not_started_beside_itself() {
    damaged_claim(|bytes, at| bytes[at + 1..].fill(0)).await;
}

#[tokio::test]
async fn a_waiting_run_whose_spec_is_damaged_starts_when_it_is_sent_again() {
    let mut node = Node::with(&["--cpus", "1", "--min-free", "1000000000000000"]);
    let mut mum = node.start().await;
    let spec = node.sh(1, "echo x >> ../starts");
    mum.accept(&[&spec]).await;
    node.kill_mum();
    let path = node.run_dir(&spec).join("spec");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    node.options.truncate(2);
    let mut mum = node.start().await;
    let mut known = Known::default();
    known.name(&[&spec]);
    let mut follower = mum.follow(known).await;
    named(&mut follower, &spec, &path).await;
    assert!(follower.of(&spec).unreadable[0].send_spec);
    // The same power cut took the files: nothing of the spec comes in before them.
    let lacking = RunSpec {
        tree: vec![9; 32],
        ..spec.clone()
    };
    let reply = mum.send_again(&lacking).await;
    assert_eq!(reply.accepted.len(), 0);
    assert!(reply.refused[0].later, "{reply:?}");
    // A reason that does not pass is told, and the run waits on.
    let refused = RunSpec {
        resume: Some(reference(&node.sh(9, "true"))),
        ..spec.clone()
    };
    let reply = mum.send_again(&refused).await;
    assert!(
        reply.accepted.is_empty() && !reply.refused[0].later,
        "{reply:?}"
    );
    let told = |known: &Known| {
        let file = known.runs.get(&spec.token)?.unreadable.first()?;
        let is_told = file.why.contains("run 9.1 is not on");
        (is_told && file.hint == "start it without --resume").then_some(())
    };
    follower.until(|known| told(known).is_some()).await;
    let reply = mum.send_again(&spec).await;
    assert_eq!((reply.accepted.len(), reply.refused), (1, vec![]));
    follower.stage(&spec, Stage::Settled).await;
    assert_eq!(lines(&node, &spec), 1);
}

#[tokio::test]
async fn a_run_whose_spec_is_sent_again_to_a_node_that_lost_the_run_is_not_taken_as_new() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, "echo x >> ../starts");
    settled(&mut mum, &[&spec]).await;
    node.kill_mum();
    let run_dir = node.run_dir(&spec);
    let folder = run_dir.parent().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::remove_dir_all(node.paths.mum().join("ledger")).unwrap();
    let mut mum = node.start().await;
    // The second time a person has made its empty folder again.
    for is_made in [false, true] {
        if is_made {
            std::fs::create_dir_all(&run_dir).unwrap();
        }
        let reply = mum.send_again(&spec).await;
        assert_eq!(reply.accepted.len(), 0);
        assert!(reply.refused[0].unknown_run, "{reply:?}");
        assert!(!reply.refused[0].later && !reply.refused[0].only_here);
        assert_eq!(folder.exists(), is_made);
        assert!(!run_dir.exists(), "nothing is made");
    }
    // A neroman that knows that it never began may hand it over.
    settled(&mut mum, &[&spec]).await;
    assert_eq!(lines(&node, &spec), 1);
}

#[tokio::test]
async fn a_damaged_part_of_the_ledger_stops_no_run_and_is_named_and_left() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let specs: Vec<RunSpec> = (1..=5).map(|number| node.sh(number, "true")).collect();
    settled(&mut mum, &specs.iter().collect::<Vec<_>>()).await;
    node.kill_mum();
    let path = node.paths.mum().join("ledger/00000001.seg");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[120] ^= 4;
    std::fs::write(&path, &bytes).unwrap();
    let mut mum = node.start().await;
    let about = mum
        .client
        .describe(nero_wire::v1::DescribeRequest::default());
    let files = about.await.unwrap().into_inner().unreadable;
    assert_eq!(files[0].path, path.display().to_string(), "{files:?}");
    let next = node.sh(6, "true");
    let mut known = Known::default();
    known.name(&specs.iter().collect::<Vec<_>>());
    mum.accept(&[&next]).await;
    let mut follower = mum.follow(known).await;
    follower
        .settled(&specs.iter().chain([&next]).collect::<Vec<_>>())
        .await;
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "it is left");
}

#[tokio::test]
async fn a_start_of_which_a_power_cut_left_neither_spec_nor_claim_is_lost_and_not_refused() {
    let mut node = Node::with(&["--min-free", "1000000000000000"]);
    let mut mum = node.start().await;
    let spec = node.sh(1, COUNTED);
    mum.accept(&[&spec]).await;
    node.kill_mum();
    let run_dir = node.run_dir(&spec);
    std::fs::create_dir(run_dir.join("1")).unwrap();
    for name in ["1/stdout.log", "1/stderr.log", "spec"] {
        std::fs::write(run_dir.join(name), "").unwrap();
    }
    std::fs::remove_dir_all(node.paths.mum().join("ledger")).unwrap();
    node.options.clear();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    // neroman has the run, and never learned that it began.
    mum.accept(&[&spec]).await;
    follower.settled(&[&spec]).await;
    let lost: Lost = follower.of(&spec).record(RecordKind::Lost).unwrap();
    assert_eq!(lost.reason(), lost::Reason::Rebooted);
    assert_eq!(lines(&node, &spec), 0);
}

#[tokio::test]
async fn removed_files_of_a_live_run_are_named_until_they_are_back() {
    for part in ["1/claim", "1"] {
        let mut node = Node::with(&["--cpus", "2"]);
        let mut mum = node.start().await;
        let spec = node.sh(1, COUNTED);
        mum.accept(&[&spec]).await;
        let mut known = Known::default();
        known.name(&[&spec]);
        let mut follower = mum.follow(known).await;
        follower.stage(&spec, Stage::Running).await;
        let run_dir = node.run_dir(&spec);
        let (path, aside) = (run_dir.join(part), run_dir.join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        named(&mut follower, &spec, &path).await;
        assert_eq!(follower.of(&spec).stage(), Stage::Running);
        std::fs::rename(&aside, &path).unwrap();
        follower.until(|known| !is_named(known, &spec)).await;
        go(&node, &spec);
        follower.stage(&spec, Stage::Settled).await;
        assert_eq!(lines(&node, &spec), 1);
    }
}
