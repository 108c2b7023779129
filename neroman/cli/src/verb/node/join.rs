//! `node join`: a machine that `ssh` does not reach dials a person's neroman, the head, and
//! serves from here as one of its nodes.
//!
//! This machine opens one connection of `ssh` to the head, which forwards a socket there to this
//! program. For each connection to that socket the program starts an `sshd` as its own user; that
//! `sshd` lets in only the key that `node welcome` made. To the head this machine is then a node like
//! any other that `ssh` reaches. A lost connection is made again until a person ends the program;
//! runs do not depend on it.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nero_model::ids::{base32, random};
use nero_model::safe::Safe;
use nero_model::units::print_duration_ms;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::args::NodeJoin;
use crate::fault::{Fault, Stop, code};
use crate::session::Session;

use super::private::PrivateFolder;

/// Before each line of `node welcome` that its peer reads.
pub(super) const MARK: &str = "neronet-join ";
/// Time between two tries; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Serves the head until a person ends it.
pub async fn run(session: &Session, args: &NodeJoin) -> Result<u8, Stop> {
    if args.head.starts_with('-') || args.program.contains('\'') {
        return Err(Fault::usage(format!("`{}` is no machine", args.head)).into());
    }
    let here = OwnSshd::prepare().await?;
    let mut term = signal(SignalKind::terminate())
        .map_err(|error| Fault::failed("cannot catch signals").because(&error))?;
    tokio::select! {
        // What is private goes with this program.
        _ = term.recv() => Ok(code::OK),
        ended = keep_serving(session, args, &here) => ended,
    }
}

async fn keep_serving(session: &Session, args: &NodeJoin, here: &OwnSshd) -> Result<u8, Stop> {
    let mut pause = PAUSE_MIN;
    let mut has_served = false;
    loop {
        let began = Instant::now();
        let lost = match here.serve(session, args, &mut has_served).await {
            // The head refuses, or never took us.
            Err(fault) if fault.exit_code == code::USAGE || !has_served => return Err(fault.into()),
            Err(fault) => fault,
            Ok(()) => Fault::no_node("the connection ended"),
        };
        if began.elapsed() > PAUSE_MAX {
            pause = PAUSE_MIN;
        }
        let (head, why) = (
            &args.head,
            Safe::line(lost.causes.last().unwrap_or(&lost.what)),
        );
        let next = print_duration_ms(pause.as_millis() as u64);
        let note = format!("note: the way to {head} was lost ({why}); it is tried again in {next}");
        session.out.note(&note);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What this machine offers: an `sshd` for one user and one key.
struct OwnSshd {
    folder: PrivateFolder,
    user: String,
    sshd: PathBuf,
    host_key: String,
}

impl OwnSshd {
    async fn prepare() -> Result<Self, Fault> {
        let sshd = find("sshd").ok_or_else(|| {
            Fault::failed("there is no program `sshd` here")
                .cause("sessions of the head are served by it, as this user, without a port")
                .hint("install the package openssh-server; its service need not run")
        })?;
        let folder = PrivateFolder::make()?;
        let host_key = make_key(&folder.path().join("host")).await?;
        let user = said("id", &["-un"]).await?;
        if rustix::process::geteuid().is_root() {
            // It begins nothing without this folder of its own.
            let _ = fs::create_dir_all("/run/sshd");
        }
        let here = Self {
            folder,
            user,
            sshd,
            host_key,
        };
        here.write("sshd", &here.settings())?;
        Ok(here)
    }

    /// The settings of `sshd`: this user, by one key, for commands alone.
    fn settings(&self) -> String {
        let folder = self.folder.path().display();
        format!(
            "HostKey {folder}/host\nAuthorizedKeysFile {folder}/key\nAllowUsers {}\n\
             AuthenticationMethods publickey\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n\
             StrictModes no\nUsePAM no\nPidFile none\nAllowTcpForwarding no\n\
             AllowStreamLocalForwarding no\nAllowAgentForwarding no\nX11Forwarding no\n\
             PermitTunnel no\nMaxSessions 1000\nLogLevel ERROR\n\
             Subsystem sftp internal-sftp\n",
            self.user
        )
    }

    /// The description of this machine that the head receives when the machine joins.
    fn offer(&self, args: &NodeJoin, socket: &str, has_served: bool) -> Value {
        json!({
            "name": args.name.clone().unwrap_or_else(host_name),
            "user": self.user,
            "machine": machine(),
            "host_key": self.host_key,
            "socket": socket,
            "root": args.root,
            "cpus": args.cpus,
            "gpus": args.gpus,
            "again": has_served,
        })
    }

    /// Makes one connection and serves the head over it until it ends.
    async fn serve(
        &self,
        session: &Session,
        args: &NodeJoin,
        has_served: &mut bool,
    ) -> Result<(), Fault> {
        let near = self.folder.path().join("near");
        // A file that an earlier connection left is in the way.
        let _ = fs::remove_file(&near);
        let listener = UnixListener::bind(&near)
            .map_err(|error| Fault::failed("cannot make a socket").because(&error))?;
        // The folder is open to all users of the head: the name is random, so that none of them has
        // taken it, and the sshd there makes the socket for its own user alone.
        let far = format!("/tmp/neronet-join-{}", base32(&random::<16>()));
        let mut ssh = self.ssh(args, &near, &far)?;
        let mut stdin = ssh.stdin.take().expect("it is piped");
        let stdout = ssh.stdout.take().expect("it is piped");
        let asked = self.offer(args, &far, *has_served);
        // What fails here is told by the end of ssh.
        let _ = stdin.write_all(format!("{asked}\n").as_bytes()).await;
        let mut lines = BufReader::new(stdout).lines();
        let mut refused = None;
        let mut sessions = JoinSet::new();
        let ended = loop {
            tokio::select! {
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else {
                        break ssh.wait().await;
                    };
                    let Some(told) = line.strip_prefix(MARK) else {
                        session.out.note(&line);
                        continue;
                    };
                    let told: Value = serde_json::from_str(told).unwrap_or_default();
                    if let Some(key) = told["key"].as_str() {
                        self.write("key", &format!("{key}\n"))?;
                        let _ = stdin.write_all(b"go\n").await;
                    } else if let Some(name) = told["ready"].as_str() {
                        *has_served = true;
                        session.out.note(&format!(
                            "this machine is the node {} of {}, until Ctrl-C",
                            Safe::line(name), Safe::line(&args.head)
                        ));
                    } else if let Some(what) = told["error"].as_str() {
                        refused = Some(error_of(&told, what));
                    }
                }
                Ok((stream, _)) = listener.accept() => {
                    let mut sshd = self.sshd(stream)?;
                    sessions.spawn(async move { sshd.wait().await });
                }
                Some(_) = sessions.join_next() => {}
            }
        };
        match (refused, ended) {
            (Some(fault), _) => Err(fault),
            (None, Ok(status)) if status.success() => Ok(()),
            (None, Ok(status)) => Err(Fault::no_node(format!(
                "{} did not take this machine",
                args.head
            ))
            .cause(format!("ssh ended with {status}"))
            .hint(format!(
                "its output is above; `ssh {} {} --version` has to work",
                args.head, args.program
            ))),
            (None, Err(error)) => Err(Fault::no_node("cannot wait for ssh").because(&error)),
        }
    }

    /// The connection, with `node welcome` at its other end. Both end with each other.
    fn ssh(&self, args: &NodeJoin, near: &Path, far: &str) -> Result<tokio::process::Child, Fault> {
        let given = std::env::var("NERONET_SSH").unwrap_or_default();
        let mut words = shlex::split(&given)
            .ok_or_else(|| Fault::usage("NERONET_SSH is no command line: a quote is open"))?;
        if words.is_empty() {
            words.push("ssh".to_owned());
        }
        let mut ssh = Command::new(&words[0]);
        ssh.args(&words[1..]);
        for option in [
            // A shared connection would keep the socket when this one has ended.
            "ControlPath=none",
            "ExitOnForwardFailure=yes",
            "ServerAliveInterval=15",
            "ServerAliveCountMax=2",
            "ForwardAgent=no",
            "ForwardX11=no",
            "RemoteCommand=none",
        ] {
            ssh.args(["-o", option]);
        }
        let line = format!(
            "/bin/sh -c 'PATH=$PATH:$HOME/.local/bin exec {} node welcome'",
            args.program
        );
        ssh.args(["-T", "-R"])
            .arg(format!("{far}:{}", near.display()))
            .arg("--")
            .args([&args.head, &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        ssh.spawn()
            .map_err(|error| Fault::no_node("cannot start ssh").because(&error))
    }

    /// An `sshd` that serves one connection.
    fn sshd(&self, stream: UnixStream) -> Result<tokio::process::Child, Fault> {
        let begin = || {
            let stream = stream.into_std()?;
            stream.set_nonblocking(false)?;
            let input = OwnedFd::from(stream);
            let output = input.try_clone()?;
            let log = File::options()
                .create(true)
                .append(true)
                .open(self.folder.path().join("log"))?;
            Command::new(&self.sshd)
                .args(["-i", "-e", "-f"])
                .arg(self.folder.path().join("sshd"))
                .stdin(input)
                .stdout(output)
                .stderr(log)
                .kill_on_drop(true)
                .spawn()
        };
        begin().map_err(|error| Fault::failed("cannot start sshd").because(&error))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Fault> {
        let path = self.folder.path().join(name);
        let write = || {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(true).mode(0o600);
            options.open(&path)?.write_all(text.as_bytes())
        };
        write().map_err(|error| Fault::cannot("write", &path).because(&error))
    }
}

fn error_of(told: &Value, what: &str) -> Fault {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let exit_code = told["exit_code"]
        .as_u64()
        .and_then(|code| code.try_into().ok());
    let mut fault = Fault::new(exit_code.unwrap_or(code::FAILED), what).hint(text(&told["hint"]));
    for cause in told["causes"].as_array().into_iter().flatten() {
        fault = fault.cause(text(cause));
    }
    fault
}

/// Makes a key for one connection; returns its public half.
pub(super) async fn make_key(path: &Path) -> Result<String, Fault> {
    let file = path.display().to_string();
    said(
        "ssh-keygen",
        &["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", &file],
    )
    .await?;
    let public = fs::read_to_string(path.with_extension("pub"))
        .map_err(|error| Fault::failed("cannot read a new key").because(&error))?;
    Ok(public.trim_end().to_owned())
}

/// The output of a program.
async fn said(program: &str, words: &[&str]) -> Result<String, Fault> {
    let failed = || Fault::failed(format!("`{program}` failed"));
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|error| failed().because(&error))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(failed().cause(text.trim_end().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

/// A program of administrators, whose folders a person's `PATH` often lacks. `sshd` wants its
/// whole path.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(more)
        .map(|folder| folder.join(program))
        .find(|path| path.is_absolute() && path.is_file())
}

/// A word that stands for this machine and tells nothing of it.
fn machine() -> String {
    let id = fs::read("/etc/machine-id").unwrap_or_default();
    let host = rustix::system::uname();
    let id = [b"neronet node join", &*id, host.nodename().to_bytes()].concat();
    base32(&blake3::hash(&id).as_bytes()[..5])
}

/// The name of this machine, without its domain.
fn host_name() -> String {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}
