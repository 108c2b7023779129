//! Which callers may ask, which process serves, and when it leaves.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use nero_journal::v1::{JobExited, RecordKind, RulesApplied};
use nero_model::DeploymentId;
use nero_wire::hello;
use nero_wire::v1::mum_client::MumClient;
use nero_wire::v1::run_state::Stage;
use nero_wire::v1::{DescribeRequest, Role, Rule, RuleSet, SetRulesRequest, StopRequest};
use rustix::process::Signal;

use crate::rig::{Known, Node, kill, reference, removed, wait_for, wait_until_forgotten};
use crate::setup::settled;

#[tokio::test]
async fn no_client_is_answered_before_a_fitting_hello() {
    let mut node = Node::new();
    let _mum = node.start().await;
    let channel = nero_wire::dial(&node.socket()).await.unwrap();
    let mut client = MumClient::new(channel);
    let refused = client.describe(DescribeRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    let stranger = hello::own(Role::Neroman, "x", Some(DeploymentId::random()));
    let refused = client.greet(stranger).await.unwrap_err();
    assert!(refused.message().contains("another deployment"));
    let mut future = hello::own(Role::Neroman, "x", Some(node.deployment));
    future.protocol_lowest = 99;
    future.protocol_highest = 99;
    let refused = client.greet(future).await.unwrap_err();
    let said = refused.message();
    assert!(
        said.contains("protocols 99 to 99") && said.contains("end this neromum"),
        "{said}"
    );
    assert!(client.describe(DescribeRequest {}).await.is_err());
    let ours = hello::own(Role::Neroman, "x", Some(node.deployment));
    let theirs = client.greet(ours).await.unwrap().into_inner();
    assert!(theirs.capabilities.contains(&hello::RECALL.to_owned()));
    let min_free = nero_model::MIN_FREE_BYTES;
    let same = hello::gives(Some(2.0), None, min_free, &[]);
    assert!(!hello::gives_otherwise(&theirs, &same), "{theirs:?}");
    let never = ["--listen never".to_owned()];
    for (other, more) in [(Some(1.0), &[][..]), (None, &[]), (Some(2.0), &never)] {
        let other = hello::gives(other, None, min_free, more);
        assert!(hello::gives_otherwise(&theirs, &other), "{theirs:?}");
    }
    let described = client
        .describe(DescribeRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(described.cpus, 2.0);
    assert!(described.memory_bytes > 0 && described.disk_total_bytes > 0);
    assert_eq!(described.boot_id.len(), 32);
}

#[tokio::test]
async fn the_second_leaves_and_the_first_leaves_when_there_is_nothing_to_do() {
    let mut node = Node::with(&["--cpus", "1", "--leave-after", "0.2"]);
    let mut mum = node.start().await;
    let second = node.command().output().unwrap();
    assert!(second.status.success(), "{second:?}");
    let spec = node.sh(1, "exit 0");
    let mut follower = settled(&mut mum, &[&spec]).await;
    follower.close(&[&spec]).await;
    wait_until_forgotten(&mut mum).await;
    drop((follower, mum));
    assert_eq!(node.ended().await, Some(0));
    assert!(!node.socket().exists(), "its socket went with it");
    wait_for("the launcher to leave, too", || {
        node.processes().is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_unclosed_run_keeps_neromum_alive() {
    let mut node = Node::with(&["--cpus", "1", "--leave-after", "0.1"]);
    let mut mum = node.start().await;
    let spec = node.sh(1, "exit 0");
    let follower = settled(&mut mum, &[&spec]).await;
    drop((follower, mum));
    // Asked several times over more than its patience, it still answers.
    for _ in 0..3 {
        let mut mum = node.connect().await;
        let mut follower = mum.follow(Known::default()).await;
        follower.caught_up().await;
        assert_eq!(follower.of(&spec).stage(), Stage::Settled);
        drop((follower, mum));
        let asked = std::time::Instant::now();
        wait_for("a little time", || {
            (asked.elapsed().as_millis() > 150).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn sigterm_and_stop_end_neromum_and_no_job() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(1, "while [ ! -e ../go ]; do sleep 0.01; done; exit 4");
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    kill(node.mum_pid(), Signal::TERM);
    assert_eq!(node.ended().await, Some(0));
    let mut mum = node.start().await;
    mum.client.stop(StopRequest::default()).await.unwrap();
    assert_eq!(node.ended().await, Some(0));
    std::fs::write(node.run_dir(&spec).join("go"), "").unwrap();
    let mut mum = node.start().await;
    let mut follower = mum.follow(Known::default()).await;
    follower.settled(&[&spec]).await;
    let exited: JobExited = follower.of(&spec).record(RecordKind::JobExited).unwrap();
    assert_eq!(exited.code, 4);
}

#[tokio::test]
async fn a_watcher_is_attached_and_gets_rules() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let spec = node.sh(
        1,
        "echo loss 1; while [ ! -e ../go ]; do sleep 0.01; done; echo loss 2",
    );
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    let token = spec.token.clone();
    follower
        .until(|known| {
            known
                .runs
                .get(&token)
                .is_some_and(|run| run.count(RecordKind::Metrics) > 0)
        })
        .await;
    let request = SetRulesRequest {
        request: vec![1; 16],
        run: Some(reference(&spec)),
        rules: Some(RuleSet {
            version: 3,
            rules: vec![Rule {
                id: 1,
                action: "warn".to_owned(),
                text: "loss > 100".to_owned(),
                ..Rule::default()
            }],
            cohort: Vec::new(),
        }),
    };
    for _ in 0..2 {
        let reply = mum.client.set_rules(request.clone()).await.unwrap();
        assert_eq!(reply.into_inner().version, 3);
    }
    follower
        .until(|known| {
            known.runs[&token]
                .record::<RulesApplied>(RecordKind::RulesApplied)
                .is_some()
        })
        .await;
    std::fs::write(node.run_dir(&spec).join("go"), "").unwrap();
    follower.settled(&[&spec]).await;
    let run = follower.of(&spec);
    assert_eq!(run.count(RecordKind::WatchEnded), 1, "{:?}", run.kinds());
    let unknown = SetRulesRequest {
        run: Some(reference(&node.sh(9, "x"))),
        ..request
    };
    let refused = mum.client.set_rules(unknown).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn dial_starts_a_neromum_and_joins_its_socket() {
    let node = Node::with(&["--cpus", "1", "--leave-after", "0.3"]);
    let mut command = std::process::Command::new(crate::rig::mum());
    let serve = node.command();
    command
        .arg("dial")
        .args(serve.get_args().skip(1))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut dial = command.spawn().unwrap();
    let mut stdin = dial.stdin.take().unwrap();
    let mut stdout = dial.stdout.take().unwrap();
    // The beginning of HTTP/2, and an empty SETTINGS frame.
    stdin
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    let answered = tokio::task::spawn_blocking(move || {
        let mut frame = [0; 9];
        stdout.read_exact(&mut frame).unwrap();
        (frame, stdout)
    });
    let (frame, _stdout) = tokio::time::timeout(crate::rig::PATIENCE, answered)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(frame[3], 4, "the server's own SETTINGS");
    drop(stdin);
    let ended = tokio::task::spawn_blocking(move || dial.wait().unwrap());
    assert!(ended.await.unwrap().success());
    wait_for("neromum to leave", || {
        node.processes().is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn without_a_launcher_runs_wait_and_say_why() {
    let mut node = Node::new();
    // neromum alone in a folder, as a push that was cut would leave it.
    let alone = node.root.with_file_name("alone");
    std::fs::create_dir(&alone).unwrap();
    let program = alone.join("neromum");
    std::fs::copy(crate::rig::mum(), &program).unwrap();
    let mut command = std::process::Command::new(&program);
    command.args(node.command().get_args());
    let mut mum = node.start_as(command).await;
    let spec = node.sh(1, "exit 0");
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    let token = spec.token.clone();
    follower
        .until(|known| {
            let run = known.runs.get(&token);
            run.is_some_and(|run| run.why.contains("nerokid-shim"))
        })
        .await;
    // A missing program is looked for again and again.
    for name in ["nerokid-shim", "nerokid"] {
        let from = crate::rig::programs().join(name);
        let private = alone.join(format!(".{name}"));
        std::fs::copy(from, &private).unwrap();
        std::fs::rename(private, alone.join(name)).unwrap();
    }
    follower.settled(&[&spec]).await;
}

#[tokio::test]
async fn neromum_and_launcher_end_when_their_folder_was_deleted() {
    let mut node = Node::new();
    let mum = node.start().await;
    let launcher = node.launcher().await;
    removed(&node.root).await;
    assert_eq!(node.ended().await, Some(0));
    wait_for("the launcher to leave, too", || {
        (!lives(launcher) && node.processes().is_empty()).then_some(())
    })
    .await;
    assert!(!node.root.exists(), "nothing is made anew");
    drop(mum);
}

#[tokio::test]
async fn a_job_whose_folder_was_deleted_goes_on_and_its_launcher_leaves_after_it() {
    let mut node = Node::new();
    let go = node.root.with_file_name("go");
    let mut mum = node.start().await;
    let line = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let spec = node.sh(1, &line);
    mum.accept(&[&spec]).await;
    let mut follower = mum.follow(Known::default()).await;
    follower.stage(&spec, Stage::Running).await;
    let launcher = node.launcher().await;
    let (shim, job) = node.claim(&spec);
    removed(&node.root).await;
    assert_eq!(node.ended().await, Some(0));
    for pid in [launcher, shim, job] {
        assert!(lives(pid), "a job that runs is still supervised");
    }
    std::fs::write(&go, "").unwrap();
    wait_for("job, shim and launcher to end", || {
        node.processes().is_empty().then_some(())
    })
    .await;
    assert!(!node.root.exists(), "nothing is made anew");
}

/// Whether a process runs; a zombie does not.
fn lives(pid: i32) -> bool {
    nero_model::process::Stat::read(pid).is_ok_and(|stat| stat.state != b'Z')
}
