//! Each failure, provoked from a real `sshd`, with its message.

use std::fs;
use std::path::Path;

use nero_ssh::{Asks, Fault, Ssh, SshError};

use crate::rig::{SshNode, closed_port, fingerprint, make_key, write_program};

/// The text that the user reads: the sentences and the hint.
fn shown(error: &SshError) -> String {
    let mut text = format!("{error}");
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    format!("{text} -> {}", error.hint().unwrap_or_default())
}

#[track_caller]
fn holds(error: &SshError, parts: &[&str]) {
    let text = shown(error);
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
    let names_connect = text.contains("neroman node connect");
    assert_eq!(names_connect, error.asks() != Asks::Nothing, "{text}");
    assert_eq!(
        text.contains("in the terminal"),
        error.asks() == Asks::InTerminal,
        "{text}"
    );
}

#[tokio::test]
async fn an_unknown_host_key_is_shown() {
    let node = SshNode::new();
    fs::write(node.path("known_hosts"), "").expect("a file");
    let error = node.try_connect().await.expect_err("unknown");
    assert_eq!(error.fault(), Fault::HostKeyUnknown);
    assert!(error.needs_user());
    let print = fingerprint(&node.path("host.pub"));
    holds(
        &error,
        &[
            "node node",
            &print,
            "ssh-ed25519",
            "`ssh node` once",
            "neroman node connect node",
        ],
    );
    // Even where the configuration would ask.
    let text = fs::read_to_string(node.config()).expect("text");
    fs::write(node.config(), text.replace("StrictHostKeyChecking yes", "")).expect("a file");
    let error = node.try_connect().await.expect_err("unknown");
    assert_eq!(error.fault(), Fault::HostKeyUnknown);
}

#[tokio::test]
async fn a_changed_host_key_stops_everything() {
    let node = SshNode::new();
    node.new_host_key();
    let error = node.try_connect().await.expect_err("changed");
    assert_eq!(error.fault(), Fault::HostKeyChanged);
    assert!(error.needs_user());
    let print = fingerprint(&node.path("host.pub"));
    let place = format!("{}:1", node.path("known_hosts").display());
    holds(
        &error,
        &["nothing was sent", &print, &place, "ssh-keygen", "-R"],
    );
    assert!(!node.log().contains("Accepted"), "{}", node.log());
}

#[tokio::test]
async fn a_refused_key_names_what_was_tried_and_what_is_offered() {
    let node = SshNode::new();
    fs::write(node.path("authorized"), "").expect("a file");
    let error = node.try_connect().await.expect_err("refused");
    assert_eq!(error.fault(), Fault::Refused);
    assert!(error.needs_user());
    let key = node.path("id");
    holds(
        &error,
        &[
            "the node offers publickey",
            &key.display().to_string(),
            &fingerprint(&key),
            "ssh-copy-id node",
        ],
    );
}

#[tokio::test]
async fn no_key_at_all_is_told() {
    let node = SshNode::new();
    fs::remove_file(node.path("id")).expect("a file");
    fs::remove_file(node.path("id.pub")).expect("a file");
    let error = node.try_connect().await.expect_err("refused");
    assert_eq!(error.fault(), Fault::Refused);
    holds(&error, &["no key was tried"]);
}

#[tokio::test]
async fn too_many_keys_are_told() {
    let node = SshNode::with("MaxAuthTries 1");
    make_key(&node.path("wrong"), "");
    let wrong = node.path("wrong");
    node.configure("node", &format!("IdentityFile {}", wrong.display()));
    let error = node.try_connect().await.expect_err("refused");
    assert_eq!(error.fault(), Fault::Refused);
    holds(
        &error,
        &[
            "too many keys",
            &wrong.display().to_string(),
            "IdentitiesOnly",
        ],
    );
}

#[tokio::test]
async fn a_second_factor_needs_a_person() {
    // Our options come first in the file, and the first one counts.
    let node = SshNode::with(
        "AuthenticationMethods publickey,keyboard-interactive\nKbdInteractiveAuthentication yes",
    );
    let error = node.try_connect().await.expect_err("nobody types");
    assert_eq!(error.fault(), Fault::NeedsPerson);
    assert!(error.needs_user());
    holds(
        &error,
        &[
            "second factor",
            "keyboard-interactive",
            "neroman node connect node",
        ],
    );
}

#[tokio::test]
async fn a_password_needs_a_person() {
    let node = SshNode::with("PasswordAuthentication yes");
    fs::write(node.path("authorized"), "").expect("a file");
    let error = node.try_connect().await.expect_err("nobody types");
    assert_eq!(error.fault(), Fault::NeedsPerson);
    holds(&error, &["password", "neroman node connect node"]);
}

#[tokio::test]
async fn hosts_that_are_not_there_are_told_apart() {
    let node = SshNode::new();
    let ssh = node.ssh();
    // Too long for any name service to be asked.
    let name = "x".repeat(70);
    let error = ssh
        .connect("n", &name, None)
        .await
        .expect_err("no such host");
    assert_eq!(error.fault(), Fault::NoSuchHost);
    assert!(!error.needs_user());
    holds(&error, &["cannot resolve", &name]);

    let (_held, port) = closed_port();
    let address = format!("ssh://127.0.0.1:{port}");
    let error = ssh.connect("n", &address, None).await.expect_err("refused");
    assert_eq!(error.fault(), Fault::Unreachable);
    assert!(!error.needs_user());
    holds(&error, &["Connection refused", &address]);
}

#[tokio::test]
async fn a_host_that_says_nothing_is_not_waited_for() {
    let node = SshNode::new();
    node.configure("node", "ConnectTimeout 2");
    node.freeze();
    let error = node.try_connect().await.expect_err("silent");
    assert_eq!(error.fault(), Fault::Timeout);
    assert!(!error.needs_user());
    holds(&error, &["no answer in time", "firewall"]);
}

#[tokio::test]
async fn jump_hosts_are_named() {
    let (node, gate) = (SshNode::new(), SshNode::new());
    let through = |node: &SshNode, gate: &SshNode| {
        let text = format!(
            "Host gate\nHostName 127.0.0.1\nPort {}\nUserKnownHostsFile {}\nIdentityFile {}\nHostKeyAlias node\nIdentitiesOnly yes\nHost node\nProxyJump gate\n{}",
            gate.port(),
            gate.path("known_hosts").display(),
            gate.path("id").display(),
            fs::read_to_string(node.config()).expect("text"),
        );
        fs::write(node.config(), text).expect("a file");
    };
    through(&node, &gate);
    // It works when gate and node both accept the key.
    let host = node.connect().await;
    let said = host.script("pwd").await.expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&said.out).trim(),
        node.home().display().to_string()
    );
    assert_eq!((node.connections(), gate.connections()), (1, 1));
    node.ssh().hang_up("node", "node").await.expect("it ends");

    fs::write(node.path("authorized"), "").expect("a file");
    let error = node.try_connect().await.expect_err("the node's own");
    assert_eq!(error.fault(), Fault::Refused);
    assert!(
        !shown(&error).contains("the way through"),
        "{}",
        shown(&error)
    );

    fs::write(gate.path("authorized"), "").expect("a file");
    let error = node.try_connect().await.expect_err("refused");
    assert_eq!(error.fault(), Fault::Refused);
    holds(
        &error,
        &["the way through gate", "publickey", "ssh-copy-id gate"],
    );

    gate.new_host_key();
    let error = node.try_connect().await.expect_err("changed");
    assert_eq!(error.fault(), Fault::HostKeyChanged);
    holds(&error, &["the way through gate", "ssh-keygen"]);
}

#[tokio::test]
async fn a_jump_host_asks_nothing_in_a_terminal() {
    let node = SshNode::new();
    let gate = SshNode::with("PasswordAuthentication yes");
    fs::write(gate.path("authorized"), "").expect("a file");
    let text = format!(
        "Host gate\nHostName 127.0.0.1\nPort {}\nUserKnownHostsFile {}\nHostKeyAlias node\n\
         Host node\nProxyJump gate\n{}",
        gate.port(),
        gate.path("known_hosts").display(),
        fs::read_to_string(node.config()).expect("text"),
    );
    fs::write(node.config(), text).expect("a file");
    // As where the daemon is started by hand: ssh finds the terminal.
    let (seen, wrapper) = (node.path("seen"), node.path("ssh"));
    let lines = format!(
        "#!/bin/bash\ncase \" $* \" in *' -G '*) exec ssh \"$@\" ;; esac\n\
         SHELL=/bin/bash exec script -qefc \"exec ssh ${{*@Q}}\" {} >&2\n",
        seen.display()
    );
    write_program(&wrapper, &lines);
    let words = ["-F", &node.config().display().to_string()].map(str::to_owned);
    let words = [vec![wrapper.display().to_string()], words.to_vec()].concat();
    let error = Ssh::new(words, &node.sockets())
        .connect("node", "node", None)
        .await
        .expect_err("a password is wanted");
    let seen = fs::read_to_string(seen).expect("what the terminal showed");
    assert!(
        seen.contains("Permission denied (publickey,password)"),
        "{seen}"
    );
    assert!(!seen.contains("password:"), "{seen}");
    assert_eq!(error.fault(), Fault::NeedsPerson, "{}", shown(&error));
    holds(&error, &["the way through gate", "a password"]);
}

#[tokio::test]
async fn a_failure_behind_a_jump_host_is_not_its_fault() {
    let gate = SshNode::new();
    let (_held, port) = closed_port();
    let text = fs::read_to_string(gate.config()).expect("text");
    let text = format!("Host behind\nProxyJump node\nHostName 127.0.0.1\nPort {port}\n{text}");
    fs::write(gate.config(), text).expect("a file");
    let error = gate
        .ssh()
        .connect("b", "behind", None)
        .await
        .expect_err("refused");
    assert_eq!(error.fault(), Fault::Unreachable);
    holds(&error, &["Connection refused"]);
}

#[tokio::test]
async fn the_program_and_its_configuration_can_be_at_fault() {
    let node = SshNode::new();
    let ssh = Ssh::new(vec!["/nowhere/ssh".to_owned()], &node.sockets());
    let error = ssh
        .connect("n", "node", None)
        .await
        .expect_err("no program");
    assert_eq!(error.fault(), Fault::Program);
    assert!(error.needs_user());
    holds(&error, &["/nowhere/ssh", "openssh-client"]);

    fs::write(node.config(), "Host node\nFoo bar\n").expect("a file");
    let error = node.try_connect().await.expect_err("bad configuration");
    assert_eq!(error.fault(), Fault::Program);
    holds(
        &error,
        &["Bad configuration option: foo", "line 2", "ssh -G node"],
    );
}

#[tokio::test]
async fn an_address_that_is_an_option_never_reaches_ssh() {
    let folder = tempfile::tempdir().expect("a folder");
    let spoiled = folder.path().join("spoiled");
    let ssh = Ssh::new(vec!["ssh".to_owned()], Path::new(folder.path()));
    let options = format!("-oProxyCommand=touch {}", spoiled.display());
    for address in [options.as_str(), "-V", "a\nb", ""] {
        let error = ssh.connect("n", address, None).await.expect_err("refused");
        assert_eq!(error.fault(), Fault::Program);
        holds(&error, &["cannot be used"]);
        assert!(ssh.login("n", address).await.is_err());
    }
    assert!(!spoiled.exists());
}
