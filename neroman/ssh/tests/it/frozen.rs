//! A network or a node that has stopped answering.

use nero_ssh::Fault;
use rustix::process::{Signal, kill_process};
use tokio::time::timeout;

use crate::rig::{DEADLINE, SshNode, open, says, users_master};

#[tokio::test]
async fn a_frozen_node_ends_every_call() {
    let node = SshNode::new();
    let host = node.connect().await;
    let mut pipe = open(&host, "printf '\\nM4RK\\n'; cat")
        .await
        .expect("a stream");
    node.freeze();
    let script = host.script("echo hi");
    let feed = host.feed("cat >/dev/null", tokio::io::repeat(b'x'));
    let read = async {
        let mut part = [0; 10];
        tokio::io::AsyncReadExt::read(&mut pipe, &mut part).await
    };
    let (script, feed, read, ()) = timeout(DEADLINE, async {
        tokio::join!(script, feed, read, host.gone())
    })
    .await
    .expect("all of them end");
    for error in [script.expect_err("frozen"), feed.expect_err("frozen")] {
        assert!(
            matches!(error.fault(), Fault::MasterGone | Fault::Timeout),
            "{error:?}"
        );
        assert!(!error.needs_user());
    }
    read.expect_err("frozen");
    let error = node.try_connect().await.expect_err("frozen");
    assert_eq!(error.fault(), Fault::Timeout, "{error:?}");
}

#[tokio::test]
async fn a_frozen_connection_of_the_users_is_passed_by() {
    let node = SshNode::new();
    // This master would not notice for a quarter of an hour.
    users_master(&node, "ServerAliveInterval 0");
    let host = node.connect().await;
    node.freeze();
    let error = timeout(DEADLINE, host.script("echo hi"))
        .await
        .expect("a deadline");
    assert_eq!(error.expect_err("frozen").fault(), Fault::Timeout);
    node.thaw_new();
    let host = timeout(DEADLINE, node.connect()).await.expect("a deadline");
    assert_eq!(says(&host, "echo hi").await, "hi");
    assert_eq!(node.control_sockets().len(), 1, "it is one of ours");
}

#[tokio::test]
async fn a_stopped_connection_of_ours_is_passed_by() {
    let node = SshNode::new();
    node.connect().await;
    let socket = node.control_sockets().remove(0);
    let process = node.process(&socket);
    kill_process(process, Signal::STOP).expect("it runs");
    let host = timeout(DEADLINE, node.connect()).await.expect("a deadline");
    assert_eq!(says(&host, "echo hi").await, "hi");
    assert_eq!((node.connections(), node.control_sockets().len()), (2, 2));
    // The master that answers ends; the silent one is reported.
    let ended = timeout(DEADLINE, node.ssh().hang_up("node", "node"))
        .await
        .expect("a deadline");
    assert_eq!(ended.expect_err("stopped").fault(), Fault::Timeout);
    assert_eq!(node.control_sockets(), [socket]);
    kill_process(process, Signal::KILL).expect("it runs");
    node.ssh().hang_up("node", "node").await.expect("dead");
    assert!(node.control_sockets().is_empty());
}
