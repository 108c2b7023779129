//! Commands and streams on one node.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nero_model::ids::{base32, random};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::error::{Fault, SshError, Trouble};
use crate::master::Master;
use crate::pipe::{LastBytes, Pipe};
use crate::quote::{for_any_shell, quoted, words_for_any_shell};
use crate::run::{self, Child, CommandOutput, Patience, SessionRefusal};
use crate::ssh::{Ssh, Target};

/// A script is short: it probes, makes folders, starts something.
const SCRIPT: Patience = Patience {
    stall: Duration::from_secs(60),
    answer: Duration::from_secs(120),
};
/// After the last byte was handed to `ssh`, megabytes may still wait for a slow
/// line and then for a slow disk.
const FEED: Patience = Patience {
    stall: Duration::from_secs(60),
    answer: Duration::from_secs(600),
};
/// Limit of connections to a node that allows few sessions over each.
const MASTERS_MAX: usize = 4;

/// A node that can be reached. Cheap to clone; the connection outlives it.
#[derive(Clone, Debug)]
pub struct Host {
    link: Arc<Connection>,
}

#[derive(Debug)]
struct Connection {
    ssh: Ssh,
    target: Target,
    /// The connections. The first is the one in use; each further one was made
    /// when those before it took no more sessions.
    masters: Mutex<Vec<Master>>,
    heard: LastBytes,
}

impl Ssh {
    /// A connection to `node` at `address`: the user's own where one works,
    /// else ours, made when there is none. `auth_sock` is the agent for a new
    /// connection; without it, only the agent of the configuration is used.
    ///
    /// # Errors
    /// The reason why there is no connection; see [`Fault`](crate::Fault).
    pub async fn connect(
        &self,
        node: &str,
        address: &str,
        auth_sock: Option<&Path>,
    ) -> Result<Host, SshError> {
        let found = async {
            let target = self.target(node, address, auth_sock).await?;
            let master = self.master(&target).await?;
            Ok(Host::new(self.clone(), target, master))
        };
        found
            .await
            .map_err(|trouble| SshError::new(node, address, trouble))
    }
}

impl Host {
    pub(crate) fn new(ssh: Ssh, target: Target, master: Master) -> Self {
        Self {
            link: Arc::new(Connection {
                ssh,
                target,
                masters: Mutex::new(vec![master]),
                heard: LastBytes::default(),
            }),
        }
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.link.target.node
    }

    /// When bytes last came through a [`Pipe`], in milliseconds since this
    /// machine was started; `None` before the first byte.
    pub fn heard_boot_ms(&self) -> Option<i64> {
        self.link.heard.last_boot_ms()
    }

    /// The address given to `ssh`.
    pub fn address(&self) -> &str {
        &self.link.target.address
    }

    /// User, host and port that the configuration of `ssh` makes of the
    /// address, for a person.
    pub fn place(&self) -> String {
        self.link.target.settings.place()
    }

    /// Runs a script with `sh` on the node, whatever the login shell is. The
    /// script's standard input is empty. Output of login files is left out.
    /// Takes at most 2 minutes.
    ///
    /// # Errors
    /// When the script cannot be run to its end. An exit status other than 0 is
    /// no error.
    pub async fn script(&self, script: &str) -> Result<CommandOutput, SshError> {
        let end = base32(&random::<16>());
        let body = format!("{script}\n#{end}");
        self.followed(&reader(&end), body.as_bytes(), SCRIPT).await
    }

    /// Runs a line of `sh` on the node and feeds it `body`. There is no limit
    /// in time as long as the command takes its input: 1 minute without taking
    /// any, 10 minutes for the rest. Where this fails or is dropped, `command`
    /// sees an ordinary end of its input, so it has to check by itself that it
    /// got everything.
    ///
    /// # Errors
    /// As [`script`](Self::script); also when `body` cannot be read.
    pub async fn feed(
        &self,
        command: &str,
        body: impl AsyncRead + Unpin + Send,
    ) -> Result<CommandOutput, SshError> {
        let command = format!("(eval {})", quoted(command));
        self.followed(&command, body, FEED).await
    }

    /// Runs a line of `sh` on the node that prints the line `mark` and then
    /// speaks with us. Returns its input and output from there on as one
    /// stream. `patience` limits the time of the command until `mark`, without
    /// the time of the login shell.
    ///
    /// # Errors
    /// When the login shell does not run the line within half a minute and 64
    /// KiB, or the command prints no `mark` within `patience` and 64 KiB.
    pub async fn open(
        &self,
        command: &str,
        mark: &str,
        patience: Duration,
    ) -> Result<Pipe, SshError> {
        let begin = base32(&random::<16>());
        let line = format!("printf '\\n{begin}\\n'; {command}");
        let open = async {
            let (child, master) = self.begin(&line).await?;
            let heard = self.link.heard.clone();
            Pipe::begin(child, master, &begin, mark, patience, heard).await
        };
        open.await.map_err(|trouble| self.error(trouble))
    }

    /// The words of a command that runs `tail` on the node over a connection
    /// with a free session, in a terminal there or not; an empty `tail` is the
    /// login shell. Each word of `tail` arrives as it is. If the connection has
    /// gone, the command fails and opens no other.
    ///
    /// # Errors
    /// When no connection takes a session.
    pub async fn argv(&self, terminal: bool, tail: &[String]) -> Result<Vec<OsString>, SshError> {
        let master = self
            .with_room()
            .await
            .map_err(|trouble| self.error(trouble))?;
        let mut words = self.link.ssh.words();
        words.push("-S".into());
        words.push(master.escaped_path());
        for option in ARGV_OPTIONS {
            words.extend(["-o".into(), OsString::from(option)]);
        }
        for option in self.link.target.settings.undoing() {
            words.extend(["-o".into(), OsString::from(option)]);
        }
        words.push(if terminal { "-t".into() } else { "-T".into() });
        words.extend(["--".into(), OsString::from(self.address())]);
        if !tail.is_empty() {
            words.push(words_for_any_shell(tail).into());
        }
        Ok(words)
    }

    /// Returns when the connection has ended. A user's own master with
    /// `ControlPersist` stays as long as this waits.
    pub async fn gone(&self) {
        // The master sends nothing to a silent client; the kernel closes the
        // socket when the master ends.
        let Ok(mut socket) = UnixStream::connect(&self.master().path).await else {
            return;
        };
        let mut part = [0; 64];
        while let Ok(1..) = socket.read(&mut part).await {}
    }

    fn master(&self) -> Master {
        let masters = self.link.masters.lock().expect("no holder panics");
        masters[0].clone()
    }

    fn error(&self, trouble: Trouble) -> SshError {
        SshError::new(self.node(), self.address(), trouble)
    }

    /// Runs `command` between two marks, which cut off the output of login
    /// files before and after it.
    async fn followed(
        &self,
        command: &str,
        body: impl AsyncRead + Unpin,
        patience: Patience,
    ) -> Result<CommandOutput, SshError> {
        let mark = base32(&random::<16>());
        let line = format!(
            "printf '\\n{mark}\\n'; printf '\\n{mark}\\n' >&2; {command}; r=$?; \
             printf '\\n{mark} %s\\n' $r; printf '\\n{mark} %s\\n' $r >&2; exit $r"
        );
        let run = async {
            let (child, master) = self.begin(&line).await?;
            run::follow(child, &master, &mark, body, patience).await
        };
        run.await.map_err(|trouble| self.error(trouble))
    }

    /// Begins a line of `sh` over the first connection that takes it, or over
    /// one more when all are full.
    async fn begin(&self, command: &str) -> Result<(Child, Master), Trouble> {
        if command.contains('\0') {
            return Err(Trouble::ZeroByte);
        }
        let line = for_any_shell(command);
        let mut full = Vec::new();
        while let Some(master) = self.one_beside(&full).await? {
            match run::begin(&master, &line).await {
                Ok(child) => return Ok((child, master)),
                Err(SessionRefusal::Refused) => full.push(master),
                Err(SessionRefusal::Gone) if master != self.master() => {
                    self.forget(&master);
                    full.push(master);
                }
                Err(other) => return Err(other.into_trouble()),
            }
        }
        Err(Trouble::TooManySessions)
    }

    /// A connection other than the `full` ones; `None` when the limit is
    /// reached.
    async fn one_beside(&self, full: &[Master]) -> Result<Option<Master>, Trouble> {
        let known = self.link.masters.lock().expect("no holder panics").clone();
        if let Some(other) = known.into_iter().find(|master| !full.contains(master)) {
            return Ok(Some(other));
        }
        if full.len() >= MASTERS_MAX {
            return Ok(None);
        }
        let more = match self.link.ssh.another(&self.link.target, full).await {
            // A command runs without a person at hand, so no password can be
            // asked for.
            Err(trouble) if trouble.fault() == Fault::NeedsPerson => return Ok(None),
            more => more?,
        };
        let mut masters = self.link.masters.lock().expect("no holder panics");
        if !masters.contains(&more) {
            masters.push(more.clone());
        }
        Ok(Some(more))
    }

    /// A connection that takes a session.
    async fn with_room(&self) -> Result<Master, Trouble> {
        let (child, master) = self.begin(":").await?;
        // The trial session has to end before the caller's takes its place.
        match timeout(run::BEGIN, child.wait()).await {
            Ok(_) => Ok(master),
            Err(_) => Err(Trouble::Deadline {
                what: "the start of a command",
                seconds: run::BEGIN.as_secs(),
            }),
        }
    }

    fn forget(&self, gone: &Master) {
        let mut masters = self.link.masters.lock().expect("no holder panics");
        masters.retain(|master| master != gone);
    }
}

/// Line of `sh` that reads a script from standard input, since the length of a
/// command line is limited, and runs it. `end` is the last line of the script:
/// a script that was cut off is not run.
fn reader(end: &str) -> String {
    format!(
        "s=$(cat); case $s in *{end}) (eval \"$s\") </dev/null;; \
         *) echo 'the script came cut off' >&2; (exit 90);; esac"
    )
}

/// Options of commands in the user's terminal. With the last one, `ssh` fails
/// with a message, instead of making a new connection, when the connection has
/// gone.
const ARGV_OPTIONS: [&str; 9] = [
    "ControlMaster=no",
    "ControlPersist=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "Tunnel=no",
    "LogLevel=ERROR",
    "ProxyCommand=sh -c 'echo the ssh connection to this node has ended >&2; exit 1'",
];

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_script_that_is_cut_off_does_nothing() {
        let run = |text: &str| {
            let mut sh = Command::new("/bin/sh")
                .args(["-c", &reader("3ND")])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("a shell");
            let mut stdin = sh.stdin.take().expect("a pipe");
            stdin.write_all(text.as_bytes()).expect("it reads all");
            drop(stdin);
            let done = sh.wait_with_output().expect("it ends");
            (done.status.code(), done.stdout)
        };
        let whole = "echo one\necho two; exit 7\n#3ND";
        for length in 0..whole.len() {
            assert_eq!(run(&whole[..length]), (Some(90), Vec::new()), "{length}");
        }
        assert_eq!(run(whole), (Some(7), b"one\ntwo\n".to_vec()));
    }
}
