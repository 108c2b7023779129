//! Runs from their handing over to their settling: order, capacity, refusals,
//! cancels, environment, trees.

use nero_journal::v1::{JobExited, JobNotStarted, RecordKind, job_not_started};
use nero_wire::v1::cancel_reply::Outcome;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{
    BlobList, BlobPart, CancelRequest, EnvVar, Param, Resources, RunSpec, Tree, TreeEntry,
};
use prost::Message as _;

use crate::rig::{Known, Mum, Node, reference, wait_for, wait_until_forgotten};
use crate::setup::{hash, settled};

#[tokio::test]
async fn a_run_is_started_ends_and_is_replicated() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, "echo hello; exit 3");
    let mut follower = mum.follow(Known::default()).await;
    follower.caught_up().await;
    mum.accept(&[&spec]).await;
    follower.settled(&[&spec]).await;
    let run = follower.of(&spec);
    let exited: JobExited = run.record(RecordKind::JobExited).unwrap();
    assert_eq!((exited.code, exited.signal), (3, 0));
    assert_eq!(run.count(RecordKind::JobStarted), 1);
    assert_eq!(run.count(RecordKind::TreeGone), 1);
    assert!(run.stages.contains(&Stage::Ended));
    let log = node.run_dir(&spec).join("1/stdout.log");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "hello\n");
    // A watcher read the output to its end.
    assert_eq!(run.count(RecordKind::WatchEnded), 1, "{:?}", run.kinds());
}

#[tokio::test]
async fn a_token_handed_twice_is_one_run() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, "echo once >> ../count");
    mum.accept(&[&spec, &spec]).await;
    let mut follower = settled(&mut mum, &[&spec]).await;
    mum.accept(&[&spec]).await;
    // Another run at that place is refused, with the place named.
    let other = RunSpec {
        token: vec![9; 16],
        ..spec.clone()
    };
    let reply = mum.hand_over(vec![other]).await;
    assert!(reply.refused[0].why.contains("another run lies at"));
    // neromum forgot it; the token is still that run.
    follower.close(&[&spec]).await;
    wait_until_forgotten(&mut mum).await;
    mum.accept(&[&spec]).await;
    let mut again = mum.follow(Known::default()).await;
    again.settled(&[&spec]).await;
    assert_eq!(again.of(&spec).count(RecordKind::JobExited), 1);
    let count = std::fs::read_to_string(node.run_dir(&spec).join("count")).unwrap();
    assert_eq!(count, "once\n");
}

#[tokio::test]
async fn runs_start_in_order_and_never_more_than_fit() {
    let mut node = Node::with(&["--cpus", "2"]);
    let mut mum = node.start().await;
    let line =
        "echo s >> ../../../log; while [ ! -e ../go ]; do sleep 0.01; done; echo e >> ../../../log";
    let specs: Vec<RunSpec> = (1..=6).map(|number| node.sh(number, line)).collect();
    let all: Vec<&RunSpec> = specs.iter().collect();
    mum.accept(&all).await;
    let mut follower = mum.follow(Known::default()).await;
    for (index, spec) in specs.iter().enumerate() {
        follower.stage(spec, Stage::Running).await;
        let busy = mum
            .client
            .describe(nero_wire::v1::DescribeRequest {})
            .await
            .unwrap()
            .into_inner();
        let expected = (specs.len() - index).min(2) as u32;
        assert!(busy.live <= 2 && busy.live >= expected.min(1), "{busy:?}");
        std::fs::write(node.run_dir(spec).join("go"), "").unwrap();
        follower.stage(spec, Stage::Ended).await;
    }
    follower.settled(&all).await;
    // Two at a time at most, by the jobs' own witness.
    let log = std::fs::read_to_string(node.paths.deployment().join("runs/log")).unwrap();
    let mut live = 0i32;
    for word in log.split_whitespace() {
        live += if word == "s" { 1 } else { -1 };
        assert!((0..=2).contains(&live), "{log}");
    }
    assert_eq!(log.lines().count(), 12);
}

#[tokio::test]
async fn a_run_that_cannot_start_is_refused_with_reason_and_hint() {
    let mut node = Node::with(&["--cpus", "2", "--memory", "1000000000"]);
    let mut mum = node.start().await;
    let with = |change: &dyn Fn(&mut RunSpec)| {
        let mut spec = node.sh(1, "true");
        change(&mut spec);
        spec
    };
    let resources = |cpus, memory_bytes| {
        Some(Resources {
            cpus,
            memory_bytes,
            time_ms: 0,
        })
    };
    let cases = [
        (with(&|spec| spec.resources = resources(3.0, 0)), "3 CPUs"),
        (
            with(&|spec| spec.resources = resources(1.0, 2_000_000_000)),
            "memory",
        ),
        (
            with(&|spec| spec.resources = resources(f64::NAN, 0)),
            "CPUs",
        ),
        (with(&|spec| spec.deployment = vec![1; 16]), "deployment"),
        (with(&|spec| spec.argv.clear()), "no command"),
        (with(&|spec| spec.argv.push("a\0b".to_owned())), "zero byte"),
        (
            with(&|spec| spec.argv.push("x".repeat(200_000))),
            "200000 bytes",
        ),
        (with(&|spec| spec.tree = vec![3; 32]), "list"),
        (with(&|spec| spec.experiment = 0), "count from 1"),
        (with(&|spec| spec.token = vec![1]), "16 bytes"),
    ];
    for (spec, expected) in cases {
        let reply = mum.hand_over(vec![spec]).await;
        let refused = &reply.refused[0];
        assert!(refused.why.contains(expected), "{refused:?} {expected}");
        assert!(!refused.hint.is_empty());
    }
    assert!(!node.paths.deployment().join("runs/1/1/1").exists());
}

#[tokio::test]
async fn a_cancel_works_at_every_stage_and_can_be_repeated() {
    let mut node = Node::with(&["--cpus", "1"]);
    let mut mum = node.start().await;
    let running = node.sh(
        1,
        "trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done",
    );
    let waiting = node.sh(2, "echo never > ../ran");
    let quick = node.sh(3, "exit 0");
    mum.accept(&[&running, &waiting]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&running, Stage::Running).await;
    let log = node.run_dir(&running).join("1/stdout.log");
    wait_for("the trap to be set", || {
        std::fs::read(&log).ok().filter(|text| !text.is_empty())
    })
    .await;
    let unknown = node.sh(9, "true");
    let request = CancelRequest {
        request: vec![5; 16],
        runs: [&waiting, &running, &unknown].map(reference).to_vec(),
        grace_ms: 20_000,
        signal: 0,
        author: "tester".to_owned(),
        ..CancelRequest::default()
    };
    let reply = mum
        .client
        .cancel(request.clone())
        .await
        .unwrap()
        .into_inner();
    let outcomes: Vec<Outcome> = reply.runs.iter().map(|one| one.outcome()).collect();
    let expected = [Outcome::NeverStarted, Outcome::Asked, Outcome::UnknownRun];
    assert_eq!(outcomes, expected);
    follower.settled(&[&running]).await;
    follower.stage(&waiting, Stage::TakenAway).await;
    // The same request later gets its first answer and does nothing more.
    let repeated = mum.client.cancel(request).await.unwrap().into_inner();
    assert_eq!(repeated, reply);
    let run = follower.of(&running);
    let exited: JobExited = run.record(RecordKind::JobExited).unwrap();
    assert_eq!(exited.code, 9, "the polite signal came first");
    assert_eq!(run.count(RecordKind::StopAsked), 1);
    assert!(!node.run_dir(&waiting).join("ran").exists());
    mum.accept(&[&quick]).await;
    follower.settled(&[&quick]).await;
    let late = mum.cancel(&[&quick]).await;
    assert_eq!(late.runs[0].outcome(), Outcome::Ended);
}

#[tokio::test]
async fn a_cancel_right_behind_the_start_is_never_lost() {
    let mut node = Node::with(&["--cpus", "64"]);
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    let specs: Vec<RunSpec> = (1..=40)
        .map(|number| node.sh(number, "sleep 600"))
        .collect();
    for spec in &specs {
        mum.accept(&[spec]).await;
        mum.cancel(&[spec]).await;
    }
    for spec in &specs {
        let token = spec.token.clone();
        follower
            .until(|known| {
                known
                    .runs
                    .get(&token)
                    .is_some_and(|run| matches!(run.stage(), Stage::Settled | Stage::TakenAway))
            })
            .await;
    }
}

#[tokio::test]
async fn a_job_begins_with_exactly_its_environment() {
    let mut node = Node::new();
    let env = [
        ("HOME", "/nowhere"),
        ("PATH", "/usr/bin:/bin"),
        ("SECRET", "x"),
        ("TZ", "UTC"),
    ];
    let mut mum = node.start_with_env(&env).await;
    let var = |name: &str, value: &str, expand: bool| EnvVar {
        name: name.to_owned(),
        value: value.to_owned(),
        unset: false,
        expand,
    };
    let mut spec = node.run(7, &["env", "-0"]);
    spec.name = "n;$(id)".to_owned();
    spec.env = vec![
        var("GREETING", "$HOME/${TZ} `id` $CONDA_X.", true),
        var("RAW", "$HOME", false),
        var("NERO_RESUME", "", false),
    ];
    spec.params = vec![Param {
        name: "x.y".to_owned(),
        text: "0.10".to_owned(),
        json: "0.1".to_owned(),
    }];
    settled(&mut mum, &[&spec]).await;
    let run_dir = node.run_dir(&spec);
    let printed = std::fs::read_to_string(run_dir.join("1/stdout.log")).unwrap();
    let mut lines: Vec<&str> = printed.split_terminator('\0').collect();
    lines.sort_unstable();
    let user = printed
        .split('\0')
        .find_map(|line| line.strip_prefix("USER="))
        .unwrap_or("root");
    let shell = printed
        .split('\0')
        .find_map(|line| line.strip_prefix("SHELL="))
        .unwrap_or("/bin/sh");
    let work = run_dir.join("work");
    let mut expected = vec![
        // A run that asks for no GPU sees none.
        "CUDA_VISIBLE_DEVICES=".to_owned(),
        "NERO_GPUS=0".to_owned(),
        "ROCR_VISIBLE_DEVICES=".to_owned(),
        "GFORTRAN_UNBUFFERED_PRECONNECTED=1".to_owned(),
        "GREETING=/nowhere/UTC `id` .".to_owned(),
        "HOME=/nowhere".to_owned(),
        "LANG=C.UTF-8".to_owned(),
        format!("LOGNAME={user}"),
        "NERO_ATTEMPT=1".to_owned(),
        "NERO_COLLECTION=tests".to_owned(),
        "NERO_CPUS=1".to_owned(),
        format!("NERO_DIR={}", work.display()),
        "NERO_ID=7".to_owned(),
        format!("NERO_METRICS={}", run_dir.join("1/metrics.jsonl").display()),
        "NERO_NAME=n;$(id)".to_owned(),
        "NERO_NODE=n".to_owned(),
        format!("NERO_OUT={}", work.display()),
        format!("NERO_PARAMS={}", run_dir.join("params.json").display()),
        "NERO_PARAM_X_Y=0.10".to_owned(),
        "NERO_RUN=7.1".to_owned(),
        "OMP_NUM_THREADS=1".to_owned(),
        "PATH=/usr/bin:/bin".to_owned(),
        "PYTHONUNBUFFERED=1".to_owned(),
        "RAW=$HOME".to_owned(),
        format!("SHELL={shell}"),
        "TZ=UTC".to_owned(),
        format!("USER={user}"),
    ];
    expected.sort();
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn neromum_works_in_an_empty_environment_and_under_any_umask() {
    for umask in ["077", "022", "000"] {
        let mut node = Node::new();
        let mut command = std::process::Command::new("/bin/sh");
        command
            .args(["-c", "umask $0; exec \"$@\"", umask])
            .arg(crate::rig::mum())
            .args(node.command().get_args())
            .env_clear();
        let mut mum = node.start_as(command).await;
        let spec = node.run(1, &["sh", "-c", "umask; env | wc -l; exit 0"]);
        mum.accept(&[&spec]).await;
        let mut follower = mum.follow(Known::default()).await;
        follower.settled(&[&spec]).await;
        let exited: JobExited = follower.of(&spec).record(RecordKind::JobExited).unwrap();
        assert_eq!(exited.code, 0);
        assert_private(node.paths.deployment());
    }
}

/// No other user can read our files. (Jobs own the files that they make.)
fn assert_private(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let found = entry.metadata().unwrap();
        if found.is_symlink() {
            continue;
        }
        let mode = found.permissions().mode() & 0o777;
        assert_eq!(
            mode & 0o077,
            0,
            "{} has mode {mode:o}",
            entry.path().display()
        );
        if found.is_dir() {
            assert_private(&entry.path());
        }
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told_as_such() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let missing = node.run(1, &["no-such-program-anywhere"]);
    let follower = settled(&mut mum, &[&missing]).await;
    let failed: JobNotStarted = follower
        .of(&missing)
        .record(RecordKind::JobNotStarted)
        .unwrap();
    assert_eq!(failed.stage(), job_not_started::Stage::Exec);
    assert_eq!(failed.errno, 2);
}

async fn put(mum: &mut Mum, contents: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut hashes = Vec::new();
    for content in contents {
        let hash = hash(content);
        hashes.push(hash.clone());
        let (one, two) = content.split_at(content.len() / 2);
        for (index, data) in [one, two].into_iter().enumerate() {
            parts.push(BlobPart {
                hash: if index == 0 { hash.clone() } else { Vec::new() },
                data: data.to_vec(),
                last: index == 1,
                offset: 0,
            });
        }
    }
    mum.client
        .put_blobs(tokio_stream::iter(parts))
        .await
        .unwrap();
    hashes
}

#[tokio::test]
async fn code_travels_by_content_and_every_run_has_its_own_copy() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let script = b"#!/bin/sh\necho $0 $1; cat data/x; echo changed > data/x\n";
    let entry = |path: &str, content: &[u8], executable| TreeEntry {
        path: path.to_owned(),
        hash: hash(content),
        size: content.len() as u64,
        executable,
        ..TreeEntry::default()
    };
    let tree = Tree {
        entries: vec![
            entry("go.sh", script, true),
            entry("data/x", b"original\n", false),
        ],
    }
    .encode_to_vec();
    let listed = hash(&tree);
    let specs: Vec<RunSpec> = (1..=2)
        .map(|number| RunSpec {
            tree: listed.clone(),
            ..node.run(number, &["./go.sh", "arg"])
        })
        .collect();
    let refused = mum.hand_over(specs.clone()).await.refused;
    assert_eq!(refused.len(), 2);
    put(&mut mum, &[&tree, script]).await;
    let refused = mum.hand_over(specs.clone()).await.refused;
    assert!(refused[0].why.contains("1 of 2 files"), "{refused:?}");
    assert!(refused.iter().all(|no| no.later && !no.only_here));
    let wanted = BlobList {
        hashes: [&b"original\n"[..], script]
            .iter()
            .map(|content| hash(content))
            .collect(),
        ..BlobList::default()
    };
    let missing = mum.client.missing_blobs(wanted).await.unwrap().into_inner();
    assert_eq!(missing.hashes, put(&mut mum, &[b"original\n"]).await);
    settled(&mut mum, &specs.iter().collect::<Vec<_>>()).await;
    for spec in &specs {
        let log = node.run_dir(spec).join("1/stdout.log");
        let printed = std::fs::read_to_string(log).unwrap();
        assert!(printed.ends_with(" arg\noriginal\n"), "{printed}");
    }
    let wrong = vec![BlobPart {
        hash: vec![1; 32],
        data: b"not that".to_vec(),
        last: true,
        offset: 0,
    }];
    let refused = mum.client.put_blobs(tokio_stream::iter(wrong)).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn below_the_reserve_of_disk_runs_wait_and_say_so() {
    let mut node = Node::with(&["--cpus", "1", "--min-free", "1000000000000000"]);
    let mut mum = node.start().await;
    let spec = node.sh(1, "true");
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    let token = spec.token.clone();
    follower
        .until(|known| {
            known
                .runs
                .get(&token)
                .is_some_and(|run| run.why.starts_with("disk full"))
        })
        .await;
    let described = mum
        .client
        .describe(nero_wire::v1::DescribeRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(described.hold.starts_with("disk full"), "{described:?}");
    assert_eq!((described.waiting, described.live), (1, 0));
    // With room, the same run starts.
    node.kill_mum();
    node.options.truncate(2);
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&spec]).await;
}
