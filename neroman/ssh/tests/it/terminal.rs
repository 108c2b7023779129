//! The words that the command line runs in the user's terminal.

use std::fs;
use std::process::{Command, Stdio};

use nero_ssh::Fault;

use crate::rig::{SshNode, exec, make_key, run, says, write_program};

#[tokio::test]
async fn words_of_the_terminal_use_this_very_connection_or_fail() {
    let node = SshNode::new();
    let host = node.connect().await;
    let nasty = "a'b\"c!d\\e$HOME`id`%s #;&|<>(){}[]*?~^ ü\t!!\nx".to_owned();
    for shell in ["/bin/bash", "/usr/bin/tcsh", "/usr/bin/fish"] {
        node.login_shell(shell);
        let tail = ["printf", "<%s>", &nasty, "", "end"].map(str::to_owned);
        let output = exec(&host, &tail).await;
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text, format!("<{nasty}><><end>"), "{shell}: {output:?}");
    }
    let plain = ["sh".to_owned(), "-c".to_owned(), "exit 42".to_owned()];
    assert_eq!(exec(&host, &plain).await.status.code(), Some(42));
    // In a terminal there: it has a name, and the login shell takes no words.
    let words = host.argv(true, &["tty".to_owned()]).await;
    let tty = run(&words.expect("a connection"));
    assert!(tty.status.code().is_some());
    assert_eq!(node.connections(), 1);

    let words = host.argv(false, &plain).await.expect("a connection");
    node.ssh().hang_up("node", "node").await.expect("it ends");
    let error = host.argv(false, &plain).await.expect_err("it is gone");
    assert_eq!(error.fault(), Fault::MasterGone);
    let output = run(&words);
    assert_eq!(output.status.code(), Some(255));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("the ssh connection to this node has ended"),
        "{text}"
    );
    assert_eq!(node.connections(), 1, "no other one was opened");
    // The control: ssh by itself would have opened one.
    let path = node.path("gone").display().to_string();
    assert!(node.user(&["-S", &path, "node", "true"]).status.success());
    assert_eq!(node.connections(), 2);
}

#[tokio::test]
async fn a_person_opens_the_connection_in_the_terminal() {
    let node = SshNode::new();
    make_key(&node.path("locked"), "open sesame");
    fs::copy(node.path("locked.pub"), node.path("authorized")).expect("a file");
    fs::rename(node.path("locked"), node.path("id")).expect("a file");
    fs::rename(node.path("locked.pub"), node.path("id.pub")).expect("a file");
    let error = node.try_connect().await.expect_err("nobody types");
    assert_eq!(error.fault(), Fault::NeedsPerson);
    assert!(
        error.trouble.to_string().contains("passphrase"),
        "{}",
        error.trouble
    );
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.contains("node connect node"))
    );
    assert!(error.needs_user());

    // The person's fingers.
    write_program(&node.path("types"), "#!/bin/sh\necho open sesame\n");
    let login = |words: &[std::ffi::OsString]| {
        Command::new(&words[0])
            .args(&words[1..])
            .env("SSH_ASKPASS", node.path("types"))
            .env("SSH_ASKPASS_REQUIRE", "force")
            .stdin(Stdio::null())
            .status()
            .expect("ssh runs")
    };
    let words = node.ssh().login("node", "node").await.expect("words");
    assert!(login(&words).success());
    let connections = node.connections();
    let host = node.connect().await;
    assert_eq!(says(&host, "echo hi").await, "hi");
    assert_eq!(node.connections(), connections);

    // A daemon that leaves, and the next one, leave it alone.
    for _ in 0..2 {
        node.ssh().hang_up("node", "node").await.expect("nothing");
        assert_eq!(says(&node.connect().await, "echo hi").await, "hi");
    }
    assert_eq!(node.connections(), connections);

    // Once more does no harm, and opens none.
    let words = node.ssh().login("node", "node").await.expect("words");
    assert!(login(&words).success());
    assert_eq!(
        (node.connections(), node.control_sockets().len()),
        (connections, 1)
    );
    node.ssh().forget("node", "node").await.expect("it ends");
    assert!(node.control_sockets().is_empty());
}
