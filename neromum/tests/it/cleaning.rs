//! Removal of run folders and of stored files that no run names. neromum is
//! killed in the middle of all of it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nero_journal::v1::RecordKind;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{
    BlobList, BlobPart, CleanReply, CleanRequest, DiskUsageReply, DiskUsageRequest, RunSpec,
    RunsRequest, Tree, TreeEntry,
};
use prost::Message as _;

use crate::rig::{Known, Mum, Node, reference, wait_for, wait_until_forgotten};
use crate::setup::{hash, over, put};

async fn clean(mum: &mut Mum, request: CleanRequest) -> CleanReply {
    mum.client.clean(request).await.unwrap().into_inner()
}

fn runs(specs: &[&RunSpec]) -> CleanRequest {
    CleanRequest {
        request: vec![1; 16],
        runs: specs.iter().map(|spec| reference(spec)).collect(),
        ..CleanRequest::default()
    }
}

fn store(unnamed_ms: u64) -> CleanRequest {
    CleanRequest {
        store: true,
        unnamed_ms,
        ..CleanRequest::default()
    }
}

async fn usage(mum: &mut Mum) -> DiskUsageReply {
    let asked = mum.client.disk_usage(DiskUsageRequest { runs: true }).await;
    asked.unwrap().into_inner()
}

fn trash(node: &Node) -> PathBuf {
    node.paths.deployment().join("trash")
}

async fn wait_for_empty_trash(node: &Node) {
    wait_for("an empty trash", || {
        let left = std::fs::read_dir(trash(node)).map_or(0, |entries| entries.count());
        (left == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_ended_run_goes_and_whoever_asks_again_hears_its_end() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let outside = node.root.with_file_name("precious");
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("file"), "keep").unwrap();
    let line = format!(
        "ln -s {0} link; mkdir closed; ln -s {0}/file closed/l; chmod 0 closed; \
         d=.; for i in $(seq 200); do d=$d/d; done; mkdir -p $d; head -c 500000 /dev/zero > big; \
         echo said; exit 3",
        outside.display()
    );
    let spec = node.sh(1, &line);
    over(&mut mum, &[&spec]).await;
    let before = usage(&mut mum).await;
    assert!(before.runs_bytes > 500_000 && !before.runs[0].live);
    let dry = CleanRequest {
        dry_run: true,
        ..runs(&[&spec])
    };
    let reply = clean(&mut mum, dry).await;
    assert!(reply.freed_bytes > 500_000 && reply.cleaned.len() == 1);
    assert!(node.run_dir(&spec).join("work/big").exists());
    for _ in 0..2 {
        let reply = clean(&mut mum, runs(&[&spec])).await;
        assert_eq!(
            reply.cleaned,
            std::slice::from_ref(&spec.token),
            "{reply:?}"
        );
    }
    assert!(!node.run_dir(&spec).exists());
    wait_for_empty_trash(&node).await;
    assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"keep");
    assert_eq!(usage(&mut mum).await.runs_bytes, 0);
    // Handed over once more, it is the run that ended, and never runs again;
    // also after another restart.
    for restarted in [false, true] {
        if restarted {
            node.kill_mum();
            mum = node.start().await;
        }
        mum.accept(&[&spec]).await;
        let mut follower = mum.follow(Known::default()).await;
        follower.settled(&[&spec]).await;
        let run = follower.of(&spec);
        assert!(!run.stages.contains(&Stage::Running), "{:?}", run.stages);
        let exit: nero_journal::v1::JobExited = run.record(RecordKind::JobExited).unwrap();
        assert_eq!(exit.code, 3);
        assert_eq!(run.count(RecordKind::TreeGone), 1);
        follower.close(&[&spec]).await;
        wait_until_forgotten(&mut mum).await;
        assert!(!node.run_dir(&spec).join("work").exists());
        let reply = clean(&mut mum, runs(&[&spec])).await;
        assert_eq!(reply.cleaned.len(), 1, "{reply:?}");
    }
    // A follower that takes the run for open gets the same.
    let mut known = Known::default();
    known.name(&[&spec]);
    let mut follower = mum.follow(known).await;
    follower.settled(&[&spec]).await;
    assert_eq!(follower.of(&spec).count(RecordKind::TreeGone), 1);
}

#[tokio::test]
async fn a_damaged_record_of_a_cleaned_run_hides_no_other() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let (lost, other) = (node.sh(1, "exit 6"), node.sh(2, "exit 7"));
    mum.accept(&[&other]).await;
    let kept = node.run_dir(&lost).with_extension("gone");
    std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
    // As a power cut may leave it.
    std::fs::write(&kept, "").unwrap();
    let mut known = Known::default();
    known.name(&[&lost]);
    let mut follower = mum.follow(known).await;
    follower.stage(&lost, Stage::UnknownRun).await;
    follower.settled(&[&other]).await;
}

#[tokio::test]
async fn a_run_that_cannot_be_taken_up_now_keeps_no_others_untold() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let (old, other) = (node.sh(1, "exit 6"), node.sh(2, "exit 7"));
    over(&mut mum, &[&old]).await;
    let spec = node.run_dir(&old).join("spec");
    let away = node.run_dir(&old).join("away");
    std::fs::rename(&spec, &away).unwrap();
    std::fs::create_dir(&spec).unwrap();
    let mut known = Known::default();
    known.name(&[&old]);
    let mut follower = mum.follow(known).await;
    follower.stage(&old, Stage::Unspecified).await;
    assert!(follower.of(&old).why.contains("spec"));
    mum.accept(&[&other]).await;
    follower.settled(&[&other]).await;
    assert_eq!(follower.of(&old).stages, [Stage::Unspecified]);
    // It is reported as soon as its spec can be read.
    std::fs::remove_dir(&spec).unwrap();
    std::fs::rename(&away, &spec).unwrap();
    follower.settled(&[&old]).await;
}

#[tokio::test]
async fn live_waiting_and_strange_runs_are_refused() {
    let mut node = Node::with(&["--cpus", "1"]);
    let mut mum = node.start().await;
    let live = node.sh(1, "while [ ! -e ../go ]; do sleep 0.01; done");
    let waiting = node.sh(2, "true");
    mum.accept(&[&live, &waiting]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&live, Stage::Running).await;
    let stranger = RunSpec {
        token: vec![9; 16],
        ..live.clone()
    };
    let absent = node.sh(7, "true");
    let all = [&live, &waiting, &stranger, &absent];
    let reply = clean(&mut mum, runs(&all)).await;
    assert!(reply.cleaned.is_empty());
    let why: Vec<&str> = reply.refused.iter().map(|one| &*one.why).collect();
    let expected = [
        "another run",
        "not on this node",
        "is live",
        "waits for its turn",
    ];
    for part in expected {
        assert!(why.iter().any(|why| why.contains(part)), "{why:?}");
    }
    assert!(usage(&mut mum).await.runs.iter().all(|run| run.live));
    std::fs::write(node.run_dir(&live).join("go"), "").unwrap();
    follower.settled(&[&live, &waiting]).await;
    let reply = clean(&mut mum, runs(&[&live])).await;
    assert!(reply.refused[0].why.contains("not taken over"), "{reply:?}");
    follower.close(&[&live, &waiting]).await;
    wait_until_forgotten(&mut mum).await;
    assert_eq!(
        clean(&mut mum, runs(&[&live, &waiting]))
            .await
            .cleaned
            .len(),
        2
    );
}

async fn put_tree(mum: &mut Mum, contents: &[&str]) -> Vec<u8> {
    let mut tree = Tree::default();
    for (index, content) in contents.iter().enumerate() {
        tree.entries.push(TreeEntry {
            path: format!("f{index}"),
            hash: put(mum, content.as_bytes()).await,
            size: content.len() as u64,
            ..TreeEntry::default()
        });
    }
    put(mum, &tree.encode_to_vec()).await
}

fn has(node: &Node, content: &[u8]) -> bool {
    let name = nero_model::ids::hex(&hash(content));
    node.paths.store().join(&name[..2]).join(name).exists()
}

#[tokio::test]
async fn files_go_that_nothing_has_named_for_long() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let shared = put_tree(&mut mum, &["both", "first"]).await;
    let kept = put_tree(&mut mum, &["both", "second"]).await;
    let first = RunSpec {
        tree: shared,
        ..node.sh(1, "true")
    };
    let second = RunSpec {
        tree: kept,
        ..node.sh(2, "true")
    };
    over(&mut mum, &[&first, &second]).await;
    clean(&mut mum, runs(&[&first])).await;
    // A dry run counts the files that a killed neromum left in its trash.
    wait_for_empty_trash(&node).await;
    // Asked for within the hour: it may be on its way to a run.
    assert_eq!(clean(&mut mum, store(1)).await.freed_files, 0);
    assert!(has(&node, b"first"));
    // A new neromum has not been asked for any file yet.
    node.kill_mum();
    mum = node.start().await;
    let usage = usage(&mut mum).await;
    assert!(usage.store_unused_bytes > 0 && usage.store_unused_bytes < usage.store_bytes);
    assert_eq!(
        clean(&mut mum, store(0)).await.freed_files,
        0,
        "7 days are not over"
    );
    let dry = CleanRequest {
        dry_run: true,
        ..store(1)
    };
    assert_eq!(clean(&mut mum, dry).await.freed_files, 2);
    assert!(has(&node, b"first"));
    assert_eq!(clean(&mut mum, store(1)).await.freed_files, 2);
    assert!(!has(&node, b"first"));
    assert!(has(&node, b"both") && has(&node, b"second"));
    // A run whose spec cannot be read may name any file.
    std::fs::write(node.run_dir(&second).join("spec"), "damaged").unwrap();
    let reply = clean(&mut mum, store(1)).await;
    assert_eq!(reply.freed_files, 0);
    assert!(reply.notes[0].contains("not swept"), "{reply:?}");
    let mut folders = mum.client.runs(RunsRequest {}).await.unwrap().into_inner();
    let folder = folders.message().await.unwrap().unwrap();
    assert!(folder.spec.is_none() && folder.problem.contains("damaged"));
    assert_eq!(folder.segments[0].segment.len(), 8);
    assert!(folders.message().await.unwrap().is_none());
}

#[tokio::test]
async fn of_small_files_that_came_together_those_go_that_nothing_names() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let contents: Vec<String> = (0..100).map(|number| format!("small {number}")).collect();
    let parts = contents.iter().map(|content| BlobPart {
        hash: hash(content.as_bytes()),
        data: content.clone().into_bytes(),
        last: true,
        offset: 0,
    });
    let parts = tokio_stream::iter(parts.collect::<Vec<_>>());
    mum.client.put_blobs(parts).await.unwrap();
    let packs = node.paths.store().join("packs");
    let count = || std::fs::read_dir(&packs).unwrap().count();
    assert_eq!(count(), 1);
    // A run names one of them.
    let tree = Tree {
        entries: vec![TreeEntry {
            path: "f".to_owned(),
            hash: hash(b"small 7"),
            size: 7,
            ..TreeEntry::default()
        }],
    };
    let tree = put(&mut mum, &tree.encode_to_vec()).await;
    let run = RunSpec {
        tree,
        ..node.sh(1, "cat f")
    };
    over(&mut mum, &[&run]).await;
    node.kill_mum();
    mum = node.start().await;
    let length = || {
        let packs = std::fs::read_dir(&packs).unwrap();
        packs
            .map(|pack| pack.unwrap().metadata().unwrap().len())
            .sum::<u64>()
    };
    let before = length();
    let dry = CleanRequest {
        dry_run: true,
        ..store(1)
    };
    assert_eq!(clean(&mut mum, dry.clone()).await.freed_files, 99);
    assert_eq!(length(), before, "that was a rehearsal");
    assert_eq!(clean(&mut mum, store(1)).await.freed_files, 99);
    assert_eq!(count(), 1, "one of them is named");
    assert!(length() < before / 10, "{} of {before}", length());
    let all = contents.iter().map(|content| hash(content.as_bytes()));
    let asked = BlobList {
        hashes: all.collect(),
        ..BlobList::default()
    };
    let lacking = mum.client.missing_blobs(asked).await.unwrap().into_inner();
    assert_eq!(lacking.hashes.len(), 99);
    assert!(!lacking.hashes.contains(&hash(b"small 7")));
    clean(&mut mum, runs(&[&run])).await;
    node.kill_mum();
    mum = node.start().await;
    let pack = std::fs::read_dir(&packs).unwrap().next().unwrap().unwrap();
    let usage = usage(&mut mum).await;
    assert!(usage.store_unused_bytes > pack.metadata().unwrap().len());
    assert!(clean(&mut mum, dry).await.freed_files > 0);
    assert_eq!(count(), 1);
    clean(&mut mum, store(1)).await;
    assert_eq!(count(), 0);
}

fn make_old(path: &Path) {
    let before = SystemTime::now() - Duration::from_secs(30 * 24 * 3600);
    let folder = std::fs::File::open(path).unwrap();
    folder.set_modified(before).unwrap();
}

#[tokio::test]
async fn builds_that_nothing_runs_from_go_and_others_stay() {
    let mut node = Node::new();
    let bin = node.paths.bin();
    for build in ["old", "young", "newest", ".broken", "used"] {
        std::fs::create_dir_all(bin.join(build)).unwrap();
        std::fs::write(bin.join(build).join("neromum"), "x").unwrap();
    }
    let sleep = bin.join("used/sleep");
    std::fs::copy("/bin/sleep", &sleep).unwrap();
    let mut user = std::process::Command::new(&sleep)
        .arg("1000")
        .spawn()
        .unwrap();
    for build in ["old", ".broken", "used"] {
        make_old(&bin.join(build));
    }
    let mut mum = node.start().await;
    assert!(usage(&mut mum).await.agents_unused_bytes > 0);
    let reply = clean(&mut mum, store(0)).await;
    assert_eq!(reply.freed_files, 2, "{reply:?}");
    let mut left: Vec<_> = std::fs::read_dir(&bin)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["newest", "used", "young"]);
    user.kill().unwrap();
    user.wait().unwrap();
    make_old(&bin.join("newest"));
    make_old(&bin.join("young"));
    clean(&mut mum, store(0)).await;
    assert_eq!(std::fs::read_dir(&bin).unwrap().count(), 1);
}

/// neromum is killed at any moment of cleaning and sweeping: every run is
/// complete or recorded as ended, named files stay, and the next start finishes.
#[tokio::test]
async fn killed_in_the_middle_nothing_is_half_gone() {
    let mut node = Node::with(&["--cpus", "4"]);
    let mut mum = node.start().await;
    for round in 0..6u64 {
        let tree = put_tree(&mut mum, &[&format!("own {round}"), "common"]).await;
        let specs: Vec<RunSpec> = (1..=8)
            .map(|index| RunSpec {
                tree: tree.clone(),
                ..node.sh(
                    round * 10 + index,
                    "for i in $(seq 40); do mkdir -p d$i; : > d$i/x; done",
                )
            })
            .collect();
        let all: Vec<&RunSpec> = specs.iter().collect();
        over(&mut mum, &all).await;
        node.kill_mum();
        mum = node.start().await;
        let request = CleanRequest {
            store: true,
            unnamed_ms: 1,
            ..runs(&all[1..])
        };
        let mut client = mum.client.clone();
        let cleaning = tokio::spawn(async move { client.clean(request).await });
        let some = specs.clone();
        let dirs: Vec<PathBuf> = some.iter().map(|spec| node.run_dir(spec)).collect();
        wait_for("some of it to be gone", || {
            let gone = dirs.iter().filter(|dir| !dir.exists()).count() as u64;
            (gone > round || cleaning.is_finished()).then_some(())
        })
        .await;
        node.kill_mum();
        let _ = cleaning.await;
        mum = node.start().await;
        assert!(node.run_dir(&specs[0]).join("work/d40/x").exists());
        for spec in &specs[1..] {
            let dir = node.run_dir(spec);
            let whole = dir.join("work/d40/x").exists();
            let remembered = dir.with_extension("gone").exists();
            assert!(whole || (remembered && !dir.exists()), "{}", dir.display());
        }
        let reply = clean(&mut mum, runs(&all[1..])).await;
        assert_eq!(reply.cleaned.len(), 7, "{reply:?}");
        clean(&mut mum, store(1)).await;
        assert!(has(&node, format!("own {round}").as_bytes()) && has(&node, b"common"));
        wait_for_empty_trash(&node).await;
    }
    let left = std::fs::read_dir(node.paths.store()).unwrap().flatten();
    let hidden = left.filter(|entry| entry.file_name().as_encoded_bytes()[0] == b'.');
    assert_eq!(hidden.count(), 0);
}
