//! Streams: the input and output of a remote command as one.

use std::fs;
use std::time::Duration;

use nero_ssh::{Fault, Pipe, Trouble};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::rig::{DEADLINE, SshNode, open, until};

const SAY_MARK: &str = "printf '\\nM4RK\\n'; ";

#[tokio::test]
async fn bytes_go_both_ways_under_every_login_shell() {
    let node = SshNode::new();
    fs::write(node.home().join(".bashrc"), "echo M4RK?; echo Welcome\n").expect("a file");
    let host = node.connect().await;
    for shell in ["/bin/bash", "/usr/bin/tcsh", "/usr/bin/fish", "/bin/rbash"] {
        node.login_shell(shell);
        let command = format!("{SAY_MARK}exec cat");
        let mut pipe = open(&host, &command).await.expect(shell);
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
async fn bytes_that_come_with_the_mark_are_not_lost() {
    let node = SshNode::new();
    let host = node.connect().await;
    let command = "printf '\\nM4RK\\n\\nM4RK\\nfirst'; cat";
    let mut pipe = open(&host, command).await.expect("a stream");
    pipe.shutdown().await.expect("it closes");
    let mut text = String::new();
    pipe.read_to_string(&mut text).await.expect("text");
    assert_eq!(text, "\nM4RK\nfirst");
}

#[tokio::test]
async fn dropping_it_ends_the_command() {
    let node = SshNode::new();
    let host = node.connect().await;
    let command = format!("{SAY_MARK}cat >/dev/null; echo done >\"$HOME/ended\"");
    let pipe = open(&host, &command).await.expect("a stream");
    assert!(!node.home().join("ended").exists());
    drop(pipe);
    until("the command to end", || node.home().join("ended").exists()).await;
}

#[tokio::test]
async fn an_early_end_says_what_the_command_said_last() {
    let node = SshNode::new();
    let host = node.connect().await;
    let command = format!("{SAY_MARK}echo 'no room \u{1b}[31m left' >&2; exit 9");
    let mut pipe = open(&host, &command).await.expect("a stream");
    let error = read_fault(&mut pipe).await;
    assert!(error.contains("exit status: 9"), "{error}");
    assert!(
        error.contains("no room") && !error.contains('\u{1b}'),
        "{error:?}"
    );

    let error = open(&host, "nowhere/neromum dial")
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
    let node = SshNode::new();
    let host = node.connect().await;
    let command = format!("{SAY_MARK}cat");
    let mut pipe = open(&host, &command).await.expect("a stream");
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
async fn a_login_shell_that_comes_to_no_command_is_told() {
    let node = SshNode::new();
    let host = node.connect().await;
    let file = node.home().join(".bashrc");
    fs::write(&file, "head -c 100000 /dev/zero | tr '\\0' y\n").expect("a file");
    let error = open(&host, "cat").await.expect_err("a flood");
    assert_eq!(error.fault(), Fault::Shell);
    fs::write(&file, "echo what do you want; cat\n").expect("a file");
    let started = tokio::time::Instant::now();
    let error = open(&host, "cat").await.expect_err("it never comes to it");
    assert_eq!(error.fault(), Fault::Shell);
    assert!(error.trouble.to_string().contains("what do you want"));
    assert!(started.elapsed() < Duration::from_secs(45));
}

#[tokio::test]
async fn a_command_that_does_not_answer_is_told_with_its_words() {
    let node = SshNode::new();
    let host = node.connect().await;
    let patience = Duration::from_secs(1);
    let error = host
        .open("echo login2 is frozen >&2; cat", "M4RK", patience)
        .await
        .expect_err("no mark");
    assert_eq!(error.fault(), Fault::Timeout);
    let said = error.trouble.to_string();
    assert_eq!(
        said,
        "the command does not answer within 1 s: login2 is frozen"
    );
    let error = open(&host, "yes").await.expect_err("no mark");
    assert_eq!(error.fault(), Fault::Other);
    let said = error.trouble.to_string();
    assert_eq!(said, "the command printed more than 65536 bytes");
}
