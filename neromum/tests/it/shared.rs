//! The source of leadership: a file lock on a local root, without further
//! effect or wake-ups; a lease if several hosts share the root.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nero_wire::hello;
use nero_wire::v1::mum_client::MumClient;
use nero_wire::v1::{DescribeRequest, Role, StopRequest};

use crate::rig::{Mum, Node, mum, removed, wait_for};

/// Names of the threads of a process.
fn threads(pid: i32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let name = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("comm"));
    entries
        .flatten()
        .filter_map(|entry| Some(name(entry).ok()?.trim().to_owned()))
        .collect()
}

/// Inodes of a process's sockets that are sockets of TCP.
fn tcp_sockets(pid: i32) -> Vec<String> {
    let tables = ["tcp", "tcp6"].map(|table| {
        std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default()
    });
    let known: Vec<&str> = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|line| line.split_whitespace().nth(9))
        .collect();
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let to = std::fs::read_link(entry.path()).ok()?;
            let inode = to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            known.contains(&inode).then(|| inode.to_owned())
        })
        .collect()
}

/// Every Unix socket below a folder.
fn sockets(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(sockets(&entry.path())),
            Ok(kind) if kind.is_socket() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

/// Dials as neroman does.
async fn dial(node: &Node, options: &[&str]) -> Result<(Mum, tokio::process::Child), String> {
    let mut command = Command::new(mum());
    command
        .arg("dial")
        .arg("--root")
        .arg(&node.root)
        .args(["--deployment", &node.deployment.to_string()])
        .args(["--node", "n"])
        .args(&node.options)
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = tokio::process::Command::from(command).spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let channel = nero_wire::dial_io(tokio::io::join(stdout, stdin)).await;
    let mut client = MumClient::new(channel.unwrap());
    let own = hello::own(Role::Neroman, "test", Some(node.deployment));
    match client.greet(own).await {
        Ok(_) => Ok((Mum { client }, child)),
        Err(_) => {
            let said = child.wait_with_output().await.unwrap().stderr;
            Err(String::from_utf8_lossy(&said).into_owned())
        }
    }
}

fn serving(node: &Node) -> Vec<i32> {
    let all = node.processes().into_iter();
    all.filter(|(_, line)| line.contains(" serve "))
        .map(|(pid, _)| pid)
        .collect()
}

/// The folder of the lease's sockets; removed with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lease_sockets(node: &Node) -> Folder {
    let boot = nero_model::process::boot_id().unwrap();
    Folder(node.paths.make_shared_sockets(&boot).unwrap())
}

#[tokio::test]
async fn a_local_root_has_no_lease_no_tcp_socket_and_nothing_that_wakes() {
    let mut node = Node::new();
    let mut mum = node.start().await;
    let run = node.sh(1, "exit 0");
    let mut follower = mum.follow(crate::rig::Known::default()).await;
    mum.accept(&[&run]).await;
    follower.settled(&[&run]).await;
    let pid = node.mum_pid();
    assert!(!node.paths.lease().exists());
    assert!(!node.paths.authority().exists());
    assert_eq!(tcp_sockets(pid), Vec::<String>::new());
    assert!(!threads(pid).contains(&"lease".to_owned()));
    assert!(node.socket().exists());
}

#[tokio::test]
async fn a_shared_root_holds_a_lease_and_no_socket() {
    let node = Node::new();
    let folder = lease_sockets(&node);
    let (mut mum, _child) = dial(&node, &["--shared", "yes"]).await.unwrap();
    let run = node.sh(1, "exit 0");
    let mut follower = mum.follow(crate::rig::Known::default()).await;
    mum.accept(&[&run]).await;
    follower.settled(&[&run]).await;
    let serving = serving(&node);
    assert_eq!(serving.len(), 1);
    assert!(threads(serving[0]).contains(&"lease".to_owned()));
    assert_eq!(sockets(&node.root), Vec::<PathBuf>::new());
    let names = sockets(&folder.0);
    assert_eq!(names.len(), 2, "neromum's and the launcher's: {names:?}");
    assert!(node.paths.lease().join("epoch.1").exists());
    // Later dials need no option.
    let (mut again, _child) = dial(&node, &[]).await.unwrap();
    again.client.describe(DescribeRequest {}).await.unwrap();
    assert!(!node.paths.lease().join("epoch.2").exists());
}

#[tokio::test]
async fn a_socket_that_somebody_removed_is_bound_again() {
    let node = Node::new();
    let folder = lease_sockets(&node);
    let (mum, _child) = dial(&node, &["--shared", "yes"]).await.unwrap();
    let before = serving(&node);
    std::fs::remove_dir_all(&folder.0).unwrap();
    let (mut again, _child) = dial(&node, &["--shared", "yes"]).await.unwrap();
    again.client.describe(DescribeRequest {}).await.unwrap();
    assert_eq!(serving(&node), before, "the same one answers");
    drop(mum);
}

#[tokio::test]
async fn lock_and_lease_know_of_each_other() {
    let mut node = Node::new();
    let folder = lease_sockets(&node);
    let mum = node.start().await;
    let error = dial(&node, &["--shared", "yes"]).await.err().unwrap();
    assert!(error.contains("holds a file lock"), "{error}");
    drop(mum);
    node.kill_mum();
    let (mum, _child) = dial(&node, &["--shared", "yes"]).await.unwrap();
    let error = dial(&node, &["--shared", "no"]).await.err().unwrap();
    assert!(error.contains("holds a lease"), "{error}");
    drop((mum, folder));
}

#[tokio::test]
async fn a_neromum_from_before_the_node_had_a_scheduler_is_reached_and_can_be_replaced() {
    let mut node = Node::new();
    let folder = lease_sockets(&node);
    let before = node.start().await;
    let scheduler = ["--warden", "slurm"];
    let (mut known, child) = dial(&node, &scheduler).await.unwrap();
    assert!(!node.paths.lease().join("epoch.1").exists());
    let stop = StopRequest {
        upgrade: true,
        ..StopRequest::default()
    };
    known.client.stop(stop).await.unwrap();
    drop((known, before, child));
    let (next, _child) = dial(&node, &scheduler).await.unwrap();
    assert!(node.paths.lease().join("epoch.1").exists());
    drop((next, folder));
}

#[tokio::test]
async fn a_leader_that_left_in_order_is_followed_at_once() {
    let node = Node::with(&["--cpus", "2", "--leave-after", "0.2"]);
    let _folder = lease_sockets(&node);
    let (mum, child) = dial(&node, &["--shared", "yes"]).await.unwrap();
    drop((mum, child));
    wait_for("the first to leave", || {
        let left = node.paths.lease().join("left.1").exists();
        (left && serving(&node).is_empty()).then_some(())
    })
    .await;
    let (mut mum, _child) = dial(&node, &["--shared", "yes"]).await.unwrap();
    mum.client.describe(DescribeRequest {}).await.unwrap();
    assert!(node.paths.lease().join("epoch.2").exists());
}

#[tokio::test]
async fn everything_ends_when_the_shared_folder_was_deleted() {
    let node = Node::new();
    let _folder = lease_sockets(&node);
    let dialled = dial(&node, &["--shared", "yes", "--beat", "0.1"]).await;
    let (mum, _child) = dialled.unwrap();
    node.launcher().await;
    removed(&node.root).await;
    wait_for("neromum and launcher to leave", || {
        let left = node.processes();
        left.iter()
            .all(|(_, line)| line.contains(" dial "))
            .then_some(())
    })
    .await;
    assert!(!node.root.exists(), "nothing is made anew");
    drop(mum);
}
