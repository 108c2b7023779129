//! Sending the programs.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Mutex;

use nero_agents::{Progress, prospect_from, start_remote_from};

use crate::rig::{Node, names, programs, until};

#[tokio::test]
async fn a_first_start_sends_the_programs_and_a_second_sends_nothing() {
    let node = Node::new();
    let steps = Mutex::new(Vec::new());
    let note = |progress: Progress| steps.lock().unwrap().push(progress);
    let host = node.host().await;
    let first = start_remote_from(programs(), &host, &node.cancel(), &note)
        .await
        .unwrap();
    assert!(first.pushed_bytes > 100_000);
    assert_eq!(
        first.facts.root,
        node.home().join(".neronet").to_str().unwrap()
    );
    assert_eq!(first.facts.arch, std::env::consts::ARCH);
    assert!(first.facts.clock_offset_ms.unwrap().abs() < 60_000);
    assert_eq!(first.hello.deployment, node.deployment.as_bytes());
    let steps = steps.into_inner().unwrap();
    assert_eq!(steps.last().unwrap().done_bytes, first.pushed_bytes);
    assert_eq!(steps.last().unwrap().total_bytes, first.pushed_bytes);
    assert_eq!(node.litter(), [] as [&str; 0]);
    assert_eq!(names(&node.builds()).len(), 1);

    let second = node.start().await.unwrap();
    assert_eq!(second.pushed_bytes, 0);
    assert_eq!(second.hello.pid, first.hello.pid);
    assert_eq!(second.facts.builds, names(&node.builds()));
}

#[tokio::test]
async fn a_look_says_what_a_start_would_send_and_leaves_nothing() {
    let node = Node::new();
    let host = node.host().await;
    let look = async || prospect_from(programs(), &host, None).await.unwrap();
    let before = names(&node.home());
    let would = look().await;
    assert!(would.send_bytes > 100_000, "{would:?}");
    assert_eq!(names(&node.home()), before);
    node.start().await.unwrap();
    let (there, root) = (names(&node.builds()), names(&node.home().join(".neronet")));
    assert_eq!(there, std::slice::from_ref(&would.build));
    let again = look().await;
    assert_eq!((again.send_bytes, again.build), (0, would.build));
    assert_eq!(names(&node.builds()), there);
    assert_eq!(names(&node.home().join(".neronet")), root);
    let elsewhere = prospect_from(programs(), &host, Some("/proc/1/x")).await;
    assert!(elsewhere.is_err(), "{elsewhere:?}");
}

#[tokio::test]
async fn a_connection_that_breaks_while_sending_leaves_nothing_half_done() {
    let node = Node::new();
    // Of so many thousandths of the stream.
    for part in [1, 300, 700, 999] {
        let cut = tokio::sync::Notify::new();
        let at = |progress: Progress| {
            if progress.done_bytes * 1000 >= progress.total_bytes * part {
                cut.notify_one();
            }
        };
        let host = node.host().await;
        let cancel = node.cancel();
        let starting = start_remote_from(programs(), &host, &cancel, &at);
        let hang_up = async {
            cut.notified().await;
            node.hang_up();
            std::future::pending::<()>().await;
        };
        let error = tokio::select! {
            started = starting => started.err(),
            () = hang_up => None,
        };
        // At the very end it may have arrived all the same.
        assert!(error.is_some() || part == 999);
        until("the far side to clean up", || {
            node.litter().is_empty().then_some(())
        })
        .await;
    }
    node.start().await.unwrap();
    assert_eq!(node.litter(), [] as [&str; 0]);
    assert_eq!(names(&node.builds()).len(), 1);
}

#[tokio::test]
async fn two_pushes_at_once_are_one_build() {
    let node = Node::new();
    let (one, other) = (node.host().await, node.host().await);
    let (cancel, mut second) = (node.cancel(), node.cancel());
    second.deployment = nero_model::DeploymentId::random();
    let quiet = |_: Progress| {};
    let (one, other) = tokio::join!(
        start_remote_from(programs(), &one, &cancel, &quiet),
        start_remote_from(programs(), &other, &second, &quiet),
    );
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(one.pushed_bytes > 0 && other.pushed_bytes > 0);
    assert_ne!(one.hello.pid, other.hello.pid);
    assert_eq!(node.litter(), [] as [&str; 0]);
    assert_eq!(names(&node.builds()).len(), 1);
}

#[tokio::test]
async fn programs_that_changed_there_are_set_aside_and_sent_again() {
    let node = Node::new();
    let first = node.start().await.unwrap();
    let build = node.builds().join(&names(&node.builds())[0]);
    let program = build.join("nerokid");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&program).unwrap();
    file.write_all(b"x").unwrap();
    drop(file);
    let second = node.start().await.unwrap();
    assert!(second.pushed_bytes > 0);
    assert_eq!(second.hello.pid, first.hello.pid, "what runs goes on");
    assert!(nero_model::builds::is_sound(&build));
    let litter = node.litter();
    assert_eq!(litter.len(), 1);
    assert!(litter[0].starts_with(".unsound-"), "{litter:?}");
    // An empty one of that name, too.
    fs::remove_dir_all(&build).unwrap();
    fs::create_dir(&build).unwrap();
    assert!(node.start().await.unwrap().pushed_bytes > 0);
    assert!(nero_model::builds::is_sound(&build));
}

#[tokio::test]
async fn the_leftovers_of_dead_pushes_are_swept_by_the_next() {
    let node = Node::new();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let space = fs::read_link("/proc/self/ns/pid").unwrap();
    let owner = |pid: u32| format!("{} {} {pid}\n", boot.trim(), space.display());
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let leave = |name: &str, owner: Option<String>, age: &str| {
        let folder = node.builds().join(name);
        fs::create_dir_all(&folder).unwrap();
        if let Some(owner) = owner {
            fs::write(folder.join("owner"), owner).unwrap();
        }
        let aged = Command::new("touch")
            .args(["-d", age])
            .arg(&folder)
            .status();
        assert!(aged.unwrap().success());
    };
    leave(".push-dead", Some(owner(gone.id())), "now");
    leave(".push-alive", Some(owner(std::process::id())), "2 days ago");
    leave(
        ".push-elsewhere",
        Some("another-boot pid:[1] 1\n".to_owned()),
        "now",
    );
    leave(
        ".push-old",
        Some("another-boot pid:[1] 1\n".to_owned()),
        "2 days ago",
    );
    leave(".push-empty", None, "now");
    leave(".try-9", None, "2 days ago");
    node.start().await.unwrap();
    assert_eq!(
        node.litter(),
        [".push-alive", ".push-elsewhere", ".push-empty"]
    );
}
