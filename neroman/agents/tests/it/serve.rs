//! Starting neromum through a connection, leaving it there, and replacing it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nero_agents::{
    AgentError, AgentOptions, NodeFault, Progress, start_local_from, start_remote_from,
};
use nero_model::builds::PROGRAMS;
use nero_model::paths::NodePaths;
use nero_model::{DeploymentId, RunToken};
use nero_wire::v1::mum_client::MumClient;
use nero_wire::v1::{HandOverRequest, Hello, Resources, RunSpec};
use tonic::transport::Channel;

use crate::rig::{Node, programs, until};

#[tokio::test]
async fn neromum_outlives_its_connection_and_keeps_nothing_of_it() {
    let node = Node::new();
    node.login_shell(
        "SSH_AUTH_SOCK=/nowhere SSH_CONNECTION=x SSH_USER_AUTH=/tmp/x\n\
         export SSH_AUTH_SOCK SSH_CONNECTION SSH_USER_AUTH\n\
         exec \"$shell\" -c \"$SSH_ORIGINAL_COMMAND\"",
    );
    let first = node.start().await.unwrap();
    let pid = first.hello.pid;
    assert_eq!(node.serving(), [pid]);
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environ).contains("SSH_"));
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat.rsplit(')').next().unwrap().split_whitespace().nth(3);
    assert_eq!(session, Some(&*pid.to_string()), "a session of its own");
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let path = entry.unwrap().path();
        let number: i32 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let target = fs::read_link(&path).unwrap_or_default();
        let of_connection = number < 3 && target.to_string_lossy().starts_with("pipe:");
        assert!(!of_connection, "{number} is {}", target.display());
    }
    node.hang_up();
    until("the connection to end", || {
        let dials = node.processes();
        let left = dials.iter().any(|(_, line)| line.contains("neromum dial"));
        (!left).then_some(())
    })
    .await;
    assert_eq!(node.serving(), [pid]);
    // As a terminal does when it closes.
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::HUP).unwrap();
    let again = node.start().await.unwrap();
    assert_eq!((again.hello.pid, again.pushed_bytes), (pid, 0));
}

#[tokio::test]
async fn a_start_that_fails_there_says_why_here() {
    let node = Node::new();
    let paths = NodePaths::new(&node.home().join(".neronet"), &node.deployment, "node");
    fs::create_dir_all(paths.mum().join("lock")).unwrap();
    let error = node.start().await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        cause.contains("neromum ended before it answered"),
        "{cause}"
    );
    assert!(cause.contains("Is a directory"), "{cause}");
}

/// A folder with another build: the same programs, and one byte more.
fn other_build(node: &Node, name: &str) -> PathBuf {
    let folder = node.path(name);
    fs::create_dir(&folder).unwrap();
    for program in PROGRAMS {
        fs::copy(programs().join(program), folder.join(program)).unwrap();
    }
    let mum = folder.join("neromum");
    let mut file = fs::OpenOptions::new().append(true).open(mum).unwrap();
    file.write_all(name.as_bytes()).unwrap();
    folder
}

/// Hands over a job that shows the node's folder in its command line.
async fn hand_over(node: &Node, channel: &Channel) {
    let file = node.path("followed");
    fs::write(&file, "").unwrap();
    let words = ["tail", "-f", file.to_str().unwrap()];
    let spec = RunSpec {
        token: RunToken::random().to_vec(),
        experiment: 1,
        number: 1,
        deployment: node.deployment.to_vec(),
        argv: words.map(str::to_owned).to_vec(),
        resources: Some(Resources {
            cpus: 0.5,
            ..Resources::default()
        }),
        attempt: 1,
        node: "node".to_owned(),
        ..RunSpec::default()
    };
    let request = HandOverRequest {
        request: vec![7; 16],
        runs: vec![spec],
        ..HandOverRequest::default()
    };
    let reply = MumClient::new(channel.clone()).hand_over(request).await;
    assert_eq!(reply.unwrap().into_inner().accepted.len(), 1);
}

async fn job(node: &Node) -> i32 {
    until("the job", || {
        let all = node.processes();
        let job = all.iter().find(|(_, line)| line.starts_with("tail -f "));
        job.map(|(pid, _)| *pid)
    })
    .await
}

#[tokio::test]
async fn another_build_replaces_neromum_and_touches_no_job() {
    let node = Node::new();
    let first = node.start().await.unwrap();
    hand_over(&node, &first.channel).await;
    let job_pid = job(&node).await;
    let newer = other_build(&node, "newer");
    let host = node.host().await;
    let cancel = node.cancel();
    let quiet = |_: Progress| {};
    let second = start_remote_from(&newer, &host, &cancel, &quiet)
        .await
        .unwrap();
    assert!(second.pushed_bytes > 0);
    assert_ne!(second.hello.pid, first.hello.pid);
    assert_ne!(second.hello.build, first.hello.build);
    assert_eq!(node.serving(), [second.hello.pid]);
    assert_eq!(job(&node).await, job_pid);
    // Asking again changes nothing; between equal versions the asker's build
    // serves.
    let third = start_remote_from(&newer, &host, &cancel, &quiet)
        .await
        .unwrap();
    assert_eq!(third.hello.pid, second.hello.pid);
    let fourth = node.start().await.unwrap();
    assert_eq!(fourth.hello.build, first.hello.build);
    assert_eq!(job(&node).await, job_pid);
    // A neromum of another deployment is not touched.
    let mut other = node.cancel();
    other.deployment = DeploymentId::random();
    start_remote_from(&newer, &host, &other, &quiet)
        .await
        .unwrap();
    assert!(node.serving().contains(&fourth.hello.pid));
}

#[tokio::test]
async fn without_room_for_ours_the_agent_that_is_there_is_used() {
    let node = Node::new();
    let first = node.start().await.unwrap();
    // As with a quota: a file ends before the pack does.
    node.login_shell("ulimit -f 4000; exec \"$shell\" -c \"$SSH_ORIGINAL_COMMAND\"");
    let newer = other_build(&node, "newer");
    let (host, cancel) = (node.host().await, node.cancel());
    let quiet = |_: Progress| {};
    let second = start_remote_from(&newer, &host, &cancel, &quiet)
        .await
        .unwrap();
    assert_eq!(second.hello.pid, first.hello.pid);
    let why = second.kept.expect("ours was not sent");
    assert!(matches!(why, NodeFault::NoSpace { .. }), "{why}");
    // The deployment was taken over elsewhere: the error reports that, not the
    // lack of room.
    let mut elsewhere = node.cancel();
    elsewhere.tenure = 1;
    start_remote_from(programs(), &host, &elsewhere, &quiet)
        .await
        .unwrap();
    let error = start_remote_from(&newer, &host, &cancel, &quiet)
        .await
        .unwrap_err();
    assert!(error.needs_user(), "{error}");
    assert!(matches!(error, AgentError::Greeting(_)), "{error}");
    let cancel = elsewhere;
    // With room, our build serves.
    node.login_shell("exec \"$shell\" -c \"$SSH_ORIGINAL_COMMAND\"");
    let third = start_remote_from(&newer, &host, &cancel, &quiet)
        .await
        .unwrap();
    assert_ne!(third.hello.build, first.hello.build);
    assert_eq!(third.kept, None);
}

#[tokio::test]
async fn a_newer_build_replaces_the_local_neromum_of_an_older_one() {
    let node = Node::new();
    let root = node.home().join("local");
    let newer = other_build(&node, "newer");
    let start = async |from: &Path| -> Hello {
        let options = AgentOptions::default();
        let started = start_local_from(from, &root, node.deployment, "local", &options);
        started.await.unwrap().1
    };
    let first = start(programs()).await;
    assert_eq!(start(programs()).await.pid, first.pid);
    let second = start(&newer).await;
    assert_ne!(second.build, first.build);
    assert_eq!(start(&newer).await.pid, second.pid);
    assert_eq!(node.serving(), [second.pid]);
}

/// `neromum dial` for a node below `root`, with pipes.
fn dial(root: &Path, deployment: DeploymentId) -> Child {
    Command::new(programs().join("neromum"))
        .args(["dial", "--mark", "here-it-begins", "--root"])
        .arg(root)
        .args(["--deployment", &deployment.to_string(), "--node", "n"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn dial_does_not_outlive_its_caller_where_neromum_is_frozen() {
    let temp = tempfile::Builder::new().prefix("na").tempdir().unwrap();
    let deployment = DeploymentId::random();
    let sockets = NodePaths::new(temp.path(), &deployment, "n").sockets();
    nero_model::paths::make_private(&sockets).unwrap();
    // The kernel accepts the connection, and no process ever answers.
    let _frozen = UnixListener::bind(sockets.join("mum.sock")).unwrap();
    let mut dial = dial(temp.path(), deployment);
    let mut mark = [0; 16];
    dial.stdout.as_mut().unwrap().read_exact(&mut mark).unwrap();
    assert_eq!(&mark, b"\nhere-it-begins\n");
    drop(dial.stdin.take());
    let mut rest = Vec::new();
    let mut stdout = dial.stdout.take().unwrap();
    stdout.read_to_end(&mut rest).unwrap();
    assert!(dial.wait().unwrap().success() && rest.is_empty());
}

#[test]
fn dial_marks_its_beginning_and_answers_come_after_the_end_of_requests() {
    let temp = tempfile::Builder::new().prefix("na").tempdir().unwrap();
    let deployment = DeploymentId::random();
    let sockets = NodePaths::new(temp.path(), &deployment, "n").sockets();
    nero_model::paths::make_private(&sockets).unwrap();
    let listener = UnixListener::bind(sockets.join("mum.sock")).unwrap();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        stream.read_to_end(&mut asked).unwrap();
        stream.write_all(&asked).unwrap();
        stream.write_all(b"that is all").unwrap();
    });
    let mut dial = dial(temp.path(), deployment);
    let mut answers = BufReader::new(dial.stdout.take().unwrap());
    let mut mark = String::new();
    answers.read_line(&mut mark).unwrap();
    answers.read_line(&mut mark).unwrap();
    assert_eq!(mark, "\nhere-it-begins\n");
    // More than any pipe or socket buffers: neither end may wait for the other.
    let question: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    let mut stdin = dial.stdin.take().unwrap();
    let asked = question.clone();
    let asking = std::thread::spawn(move || stdin.write_all(&asked).unwrap());
    let mut answered = Vec::new();
    answers.read_to_end(&mut answered).unwrap();
    asking.join().unwrap();
    serving.join().unwrap();
    assert!(dial.wait().unwrap().success());
    let (echo, last) = answered.split_at(question.len());
    assert!(echo == question && last == b"that is all");
}
