//! Streams: the input and output of a remote command as one.

use std::fs;
use std::time::Duration;

use nero_ssh::{Fault, Pipe, Trouble};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::rig::{DEADLINE, Node, until};

const SAY_MARK: &str = "printf '\\nM4RK\\n'; ";

#[tokio::test]
async fn bytes_go_both_ways_under_every_login_shell() {
    let node = Node::new();
    fs::write(node.home().join(".bashrc"), "echo M4RK?; echo Welcome\n").expect("a file");
    let host = node.connect().await;
    for shell in ["/bin/bash", "/usr/bin/tcsh", "/usr/bin/fish", "/bin/rbash"] {
        node.login_shell(shell);
        let command = format!("{SAY_MARK}exec cat");
        let mut pipe = host.open(&command, "M4RK").await.expect(shell);
        let sent: Vec<u8> = (0..2_000_000u32).map(|i| (i % 251) as u8).collect();
        let mut got = vec![0; sent.len()];
        let (mut from, mut into) = tokio::io::split(&mut pipe);
        let both = async { tokio::try_join!(into.write_all(&sent), from.read_exact(&mut got)) };
        timeout(DEADLINE, both)
            .await
            .expect("in time")
            .expect(shell);
        assert!(got == sent, "{shell}");
        pipe.shutdown().await.expect("it closes");
        assert_eq!(pipe.read(&mut got).await.expect("a plain end"), 0);
    }
}

#[tokio::test]
async fn what_comes_with_the_mark_is_not_lost() {
    let node = Node::new();
    let host = node.connect().await;
    let mut pipe = host
        .open("printf '\\nM4RK\\n\\nM4RK\\nfirst'; cat", "M4RK")
        .await
        .expect("a stream");
    pipe.shutdown().await.expect("it closes");
    let mut text = String::new();
    pipe.read_to_string(&mut text).await.expect("text");
    assert_eq!(text, "\nM4RK\nfirst");
}

#[tokio::test]
async fn dropping_it_ends_the_command() {
    let node = Node::new();
    let host = node.connect().await;
    let command = format!("{SAY_MARK}cat >/dev/null; echo done >\"$HOME/ended\"");
    let pipe = host.open(&command, "M4RK").await.expect("a stream");
    assert!(!node.home().join("ended").exists());
    drop(pipe);
    until("the command to end", || node.home().join("ended").exists()).await;
}

#[tokio::test]
async fn an_early_end_says_what_the_command_said_last() {
    let node = Node::new();
    let host = node.connect().await;
    let command = format!("{SAY_MARK}echo 'no room \u{1b}[31m left' >&2; exit 9");
    let mut pipe = host.open(&command, "M4RK").await.expect("a stream");
    let error = read_fault(&mut pipe).await;
    assert!(error.contains("exit status: 9"), "{error}");
    assert!(
        error.contains("no room") && !error.contains('\u{1b}'),
        "{error:?}"
    );

    let error = host
        .open("nowhere/neromum dial", "M4RK")
        .await
        .expect_err("no program");
    let said = error.trouble.to_string();
    assert!(
        said.contains("127") && said.contains("nowhere/neromum"),
        "{said}"
    );
}

async fn read_fault(pipe: &mut Pipe) -> String {
    let mut part = [0; 10];
    let read = timeout(DEADLINE, pipe.read(&mut part)).await;
    read.expect("in time")
        .expect_err("an end before its time")
        .to_string()
}

#[tokio::test]
async fn the_end_of_the_connection_is_told_apart_from_the_end_of_the_command() {
    let node = Node::new();
    let host = node.connect().await;
    let mut pipe = host
        .open(&format!("{SAY_MARK}cat"), "M4RK")
        .await
        .expect("a stream");
    node.cut();
    let mut part = [0; 10];
    let error = timeout(DEADLINE, pipe.read(&mut part))
        .await
        .expect("in time");
    let error = error.expect_err("it is cut").into_inner().expect("a cause");
    let trouble = error.downcast_ref::<Trouble>().expect("a trouble");
    assert_eq!(trouble.fault(), Fault::MasterGone, "{trouble}");
}

#[tokio::test]
async fn no_mark_is_a_fault_of_the_shell() {
    let node = Node::new();
    let host = node.connect().await;
    let error = host
        .open("head -c 100000 /dev/zero | tr '\\0' y; cat", "M4RK")
        .await
        .expect_err("no mark");
    assert_eq!(error.fault(), Fault::Shell);
    let started = tokio::time::Instant::now();
    let error = host
        .open("echo what do you want; cat", "M4RK")
        .await
        .expect_err("no mark");
    assert_eq!(error.fault(), Fault::Shell);
    assert!(error.trouble.to_string().contains("what do you want"));
    assert!(started.elapsed() < Duration::from_secs(45));
}
