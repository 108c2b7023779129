//! Which connection is used, and when it ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nero_ssh::{Fault, Host, Pipe, Ssh, SshError};
use tokio::time::timeout;

use crate::rig::{
    Agent, DEADLINE, SshNode, exec, make_key, open, says, until, users_master, write_program,
};

#[tokio::test]
async fn the_users_own_master_is_used_and_never_ended() {
    let node = SshNode::new();
    let path = users_master(&node, "");
    let host = node.connect().await;
    assert_eq!(says(&host, "echo hi").await, "hi");
    node.ssh()
        .hang_up("node", "node")
        .await
        .expect("nothing of ours");
    assert!(path.exists());
    assert_eq!(says(&host, "echo hi").await, "hi");
    assert_eq!(node.connections(), 1);
    assert_eq!(node.control_sockets(), Vec::<PathBuf>::new());

    let ended = node.user(&["-O", "exit", "node"]);
    assert!(ended.status.success(), "{ended:?}");
    timeout(DEADLINE, host.gone()).await.expect("it is told");
    let error = host.script("echo hi").await.expect_err("it is gone");
    assert_eq!(error.fault(), Fault::MasterGone);
    // The next connection is one of ours.
    let host = node.connect().await;
    assert_eq!(says(&host, "echo hi").await, "hi");
    assert_eq!(node.control_sockets().len(), 1);
}

#[tokio::test]
async fn a_users_master_that_takes_no_session_is_left_alone() {
    let node = SshNode::with("MaxSessions 0");
    users_master(&node, "");
    let error = node
        .connect()
        .await
        .script("echo hi")
        .await
        .expect_err("none");
    // One master of the user's and two of ours: none takes another session.
    assert!(
        error.trouble.to_string().contains("no more sessions"),
        "{error:?}"
    );
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.contains("MaxSessions"))
    );
    assert_eq!(node.user(&["-O", "check", "node"]).status.code(), Some(0));
}

#[tokio::test]
async fn ciphers_are_the_quickest_unless_the_user_orders_them() {
    let info = fs::read_to_string("/proc/cpuinfo").expect("it can be read");
    let has_aes = info.split_whitespace().any(|word| word == "aes");
    let quick = if has_aes { "aes128-gcm@" } else { "chacha20-" };
    let chosen = "aes256-ctr,aes128-gcm@openssh.com";
    for (line, expected) in [("", quick), (&*format!("Ciphers {chosen}"), "aes256-ctr")] {
        let node = SshNode::with("LogLevel DEBUG1");
        node.configure("node", line);
        assert_eq!(says(&node.connect().await, "echo hi").await, "hi");
        let log = node.log();
        let used: Vec<&str> = log
            .lines()
            .filter_map(|line| line.split_once("client->server cipher: "))
            .map(|(_, cipher)| cipher)
            .collect();
        assert!(!used.is_empty(), "{log}");
        assert!(
            used.iter().all(|cipher| cipher.starts_with(expected)),
            "{used:?}"
        );
    }
}

#[tokio::test]
async fn a_command_that_ends_in_ssh_gets_nothing_but_its_own_words() {
    let node = SshNode::new();
    let (ran, wrapper) = (node.path("ran"), node.path("with"));
    let lines = format!(
        "#!/bin/bash\necho \"$*\" >> {}\nexec \"$@\"\n",
        ran.display()
    );
    write_program(&wrapper, &lines);
    let config = node.config().display().to_string();
    let words = [&*wrapper.display().to_string(), "ssh", "-F", &config].map(str::to_owned);
    let ssh = Ssh::new(words.to_vec(), &node.sockets());
    let host = ssh.connect("node", "node", None).await.expect("it opens");
    assert_eq!(says(&host, "echo hi").await, "hi");
    let ran = fs::read_to_string(ran).expect("what it ran");
    assert!(ran.lines().count() > 1, "{ran}");
    let expected = format!("ssh -F {config} ");
    assert!(ran.lines().all(|line| line.starts_with(&expected)), "{ran}");
}

#[tokio::test]
async fn connections_to_removed_nodes_are_ended() {
    let node = SshNode::new();
    let host = node.connect().await;
    assert_eq!(says(&host, "echo hi").await, "hi");
    // The `Ssh` that made it is gone, and another configuration is read.
    let ssh = node.ssh();
    assert_eq!(ssh.end_strangers(["other", "node"]).await, 0);
    assert_eq!(says(&host, "echo hi").await, "hi");
    assert_eq!(ssh.end_strangers(["other"]).await, 1);
    timeout(DEADLINE, host.gone()).await.expect("it is ended");
    assert_eq!(node.control_sockets(), Vec::<PathBuf>::new());
    // A connection that is opened meanwhile is not among those to end.
    let later = ssh.end_strangers(["other"]);
    let host = node.connect().await;
    assert_eq!(later.await, 0);
    assert_eq!(says(&host, "echo hi").await, "hi");
}

#[tokio::test]
async fn ours_outlives_its_maker_and_is_found_by_the_next() {
    let node = SshNode::new();
    assert_eq!(says(&node.connect().await, "echo hi").await, "hi");
    let sockets = node.control_sockets();
    assert_eq!(sockets.len(), 1);
    let host = node.connect().await;
    assert_eq!(says(&host, "echo hi").await, "hi");
    assert_eq!(
        (node.connections(), node.control_sockets()),
        (1, sockets.clone())
    );

    // The master has a session of its own: a signal to ours does not end it.
    let pid = node.process(&sockets[0]).as_raw_nonzero();
    assert_ne!(
        stat_of(&pid.to_string()).expect("it lives").session,
        stat_of("self").expect("ours").session
    );

    node.ssh().hang_up("node", "node").await.expect("it ends");
    assert_eq!(node.control_sockets(), Vec::<PathBuf>::new());
    timeout(DEADLINE, host.gone()).await.expect("it is told");
    assert_eq!(
        host.script(":").await.expect_err("gone").fault(),
        Fault::MasterGone
    );
    until("its process to end", || {
        stat_of(&pid.to_string()).is_none_or(|stat| stat.state == "Z")
    })
    .await;
}

/// Fields of `/proc/PID/stat`; `None` when there is no such process.
struct Stat {
    /// `Z` for a process that has ended and whose parent has not waited for it
    /// yet.
    state: String,
    /// 0 when this name space of processes does not hold the session's leader,
    /// as in a container.
    session: u32,
}

fn stat_of(process: &str) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = after_name.split(' ').collect();
    Some(Stat {
        state: fields[0].to_owned(),
        session: fields[3].parse().expect("a number"),
    })
}

#[tokio::test]
async fn a_single_connection_is_made_however_many_ask_at_once() {
    let node = SshNode::new();
    let ssh = node.ssh();
    let connect = || ssh.connect("node", "node", None);
    let (a, b, c) = tokio::join!(connect(), connect(), connect());
    for host in [a, b, c] {
        assert_eq!(says(&host.expect("one"), "echo hi").await, "hi");
    }
    assert_eq!(node.connections(), 1);
}

#[tokio::test]
async fn a_killed_connection_is_told_and_its_socket_cleared() {
    let node = SshNode::new();
    let host = node.connect().await;
    let gone = tokio::spawn({
        let host = host.clone();
        async move { host.gone().await }
    });
    assert_eq!(says(&host, "echo hi").await, "hi");
    assert!(!gone.is_finished());
    let sockets = node.control_sockets();
    node.cut();
    timeout(DEADLINE, gone)
        .await
        .expect("it is told")
        .expect("no panic");

    // A socket file at which no process listens, as a killed ssh leaves it.
    let stale = &sockets[0];
    let _ = fs::remove_file(stale);
    drop(std::os::unix::net::UnixListener::bind(stale).expect("the name is free"));
    let other = node.sockets().join("neroman.sock");
    drop(std::os::unix::net::UnixListener::bind(&other).expect("a socket"));
    let host = node.connect().await;
    assert_eq!(says(&host, "echo hi").await, "hi");
    assert!(!stale.exists() && other.exists());
}

#[tokio::test]
async fn an_address_that_leads_elsewhere_gets_a_new_connection() {
    let node = SshNode::new();
    let host = node.connect().await;
    let (port, other) = (node.port(), SshNode::new());
    fs::copy(other.config(), node.config()).expect("the user changes it");
    let there = node.connect().await;
    assert_eq!(
        says(&there, "pwd").await,
        other.home().display().to_string()
    );
    assert_eq!(node.control_sockets().len(), 1);
    timeout(DEADLINE, host.gone())
        .await
        .expect("the old one is ended");
    assert_ne!(port, other.port());
}

#[tokio::test]
async fn no_agent_reaches_the_node() {
    let node = SshNode::with("AllowAgentForwarding yes");
    node.configure("node", "ForwardAgent yes\nForwardX11 yes");
    let agent = Agent::new(&node).await;
    let socket = agent.socket.clone();
    let ask = "echo agent=$SSH_AUTH_SOCK";

    // The control: a plain ssh of the user's takes the agent along.
    let plain = Command::new("ssh")
        .arg("-F")
        .arg(node.config())
        .args(["node", ask])
        .env("SSH_AUTH_SOCK", &socket)
        .stdin(Stdio::null())
        .output()
        .expect("ssh runs");
    assert!(
        String::from_utf8_lossy(&plain.stdout).starts_with("agent=/"),
        "{plain:?}"
    );

    let ssh = node.ssh();
    let host = ssh
        .connect("node", "node", Some(&socket))
        .await
        .expect("a connection");
    no_agent(&host, ask).await;
    ssh.hang_up("node", "node").await.expect("it ends");

    let path = node.path("own");
    node.configure(
        "node",
        &format!("ForwardAgent yes\nControlPath {}", path.display()),
    );
    let opened = Command::new("ssh")
        .arg("-F")
        .arg(node.config())
        .args(["-A", "-f", "-M", "-N", "node"])
        .env("SSH_AUTH_SOCK", &socket)
        .stdin(Stdio::null())
        .status();
    assert!(opened.expect("ssh runs").success());
    let before = node.connections();
    let host = ssh
        .connect("node", "node", Some(&socket))
        .await
        .expect("a connection");
    no_agent(&host, ask).await;
    assert_eq!(node.connections(), before, "over the user's own");
}

async fn no_agent(host: &Host, ask: &str) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    assert_eq!(says(host, ask).await, "agent=");
    let said = host.feed(ask, b"".as_slice()).await.expect("it runs");
    assert_eq!(said.out, b"agent=\n");
    let command = format!("printf '\\nM4RK\\n'; {ask}; cat");
    let mut pipe = open(host, &command).await.expect("a stream");
    pipe.shutdown().await.expect("it closes");
    let mut text = String::new();
    pipe.read_to_string(&mut text).await.expect("text");
    assert_eq!(text, "agent=\n");
    let words = ["sh", "-c", ask].map(str::to_owned);
    assert_eq!(exec(host, &words).await.stdout, b"agent=\n");
}

#[tokio::test]
async fn a_key_of_the_callers_agent_opens_a_connection() {
    let node = SshNode::new();
    let agent = Agent::new(&node).await;
    agent.add(&node.path("id"));
    fs::remove_file(node.path("id")).expect("its own");
    let ssh = node.ssh();
    let error = ssh.connect("node", "node", None).await.expect_err("no key");
    assert_eq!(error.fault(), Fault::NeedsPerson);
    let said = error.trouble.to_string();
    assert!(said.contains("agent is missing"), "{said}");
    assert!(
        ssh.connect("node", "node", Some(&agent.socket))
            .await
            .is_ok()
    );
}

/// Sessions of one connection. sshd frees a session's place a moment after its
/// client has gone: no test asks for more sessions on a connection than this.
const PLACES: usize = 4;

const HELD: &str = "printf '\\nM4RK\\n'; cat";

/// Opens `count` sessions.
async fn hold(host: &Host, count: usize) -> Vec<Pipe> {
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(open(host, HELD).await.expect("a place"));
    }
    held
}

/// Opens sessions until there is no place; returns the failure.
async fn fill(host: &Host, held: &mut Vec<Pipe>, places: usize) -> SshError {
    loop {
        assert!(held.len() <= places, "more sessions than places");
        match open(host, HELD).await {
            Ok(one) => held.push(one),
            Err(error) => return error,
        }
    }
}

#[tokio::test]
async fn with_few_sessions_a_connection_more_is_made() {
    let node = SshNode::with(&format!("MaxSessions {PLACES}"));
    let host = node.connect().await;
    let mut held = hold(&host, PLACES).await;
    assert_eq!(node.connections(), 1);
    assert_eq!(says(&host, "echo hi").await, "hi");
    let words = ["echo".to_owned(), "hi".to_owned()];
    assert_eq!(exec(&host, &words).await.stdout, b"hi\n");
    assert_eq!(node.connections(), 2);
    let error = fill(&host, &mut held, 4 * PLACES).await;
    assert!(
        error.trouble.to_string().contains("no more sessions"),
        "{error:?}"
    );
    assert_eq!(node.connections(), 4);
    drop(held);
    node.ssh().hang_up("node", "node").await.expect("all end");
    assert_eq!(node.control_sockets(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_connection_more_is_found_by_the_next() {
    let node = SshNode::with(&format!("MaxSessions {PLACES}"));
    let host = node.connect().await;
    let full = node.control_sockets().remove(0);
    let mut held = hold(&host, PLACES).await;
    assert_eq!(says(&host, "echo hi").await, "hi");
    assert_eq!(node.connections(), 2);
    // The full connection is met first.
    let mut sockets = node.control_sockets();
    sockets.retain(|socket| *socket != full);
    let name = sockets[0].file_name().expect("a name").to_string_lossy();
    let last = format!("{}zzzzz", &name[..name.len() - 5]);
    fs::rename(&sockets[0], node.sockets().join(last)).expect("its own");
    for _ in 0..3 {
        assert_eq!(says(&node.connect().await, "echo hi").await, "hi");
    }
    assert_eq!(node.connections(), 2);
    // Another connection would need a person's password.
    fs::write(node.path("authorized"), "").expect("a file");
    make_key(&node.path("locked"), "a passphrase");
    fs::copy(node.path("locked.pub"), node.path("authorized")).expect("a file");
    fs::rename(node.path("locked"), node.path("id")).expect("a file");
    fs::rename(node.path("locked.pub"), node.path("id.pub")).expect("a file");
    let error = fill(&node.connect().await, &mut held, 2 * PLACES).await;
    assert!(!error.needs_user());
    let hint = error.hint().expect("it has one");
    assert!(hint.contains("MaxSessions"), "{hint}");
}

#[tokio::test]
async fn our_folder_is_private_or_refused() {
    let node = SshNode::new();
    fs::remove_dir(node.sockets()).expect("it is empty");
    let host = node.connect().await;
    let mode = fs::metadata(node.sockets())
        .expect("it was made")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    node.ssh().hang_up("node", "node").await.expect("it ends");
    drop(host);
    fs::remove_dir_all(node.sockets()).expect("its own");
    fs::write(node.sockets(), b"in the way").expect("a file");
    let error = node.try_connect().await.expect_err("no folder");
    assert_eq!(error.fault(), Fault::Program);
    assert!(
        error.trouble.to_string().contains("/s "),
        "{}",
        error.trouble
    );
}

#[tokio::test]
async fn a_long_folder_and_a_percent_sign_are_no_hindrance() {
    let node = SshNode::new();
    let config = node.config().display().to_string();
    for name in ["x".repeat(120), "50%h".to_owned()] {
        let folder = node.path(&name);
        let words = ["ssh", "-F", config.as_str()].map(str::to_owned).to_vec();
        let ssh = nero_ssh::Ssh::new(words, &folder);
        let host = ssh
            .connect("node", "node", None)
            .await
            .expect("a connection");
        assert_eq!(says(&host, "echo hi").await, "hi");
        let hi = exec(&host, &["echo".to_owned(), "hi".to_owned()]).await;
        assert_eq!(hi.stdout, b"hi\n", "{hi:?}");
        ssh.hang_up("node", "node").await.expect("it ends");
        timeout(Duration::from_secs(10), host.gone())
            .await
            .expect("it ended");
    }
}
