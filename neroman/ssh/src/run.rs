//! Running one command over a master, and separating its output from the login
//! shell's.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use openssh::{ChildStdin, Stdio};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep_until, timeout};

use crate::catch::{OutputSection, Overrun, SAID_BYTES_MAX};
use crate::error::Trouble;
use crate::master::{Life, Master};
use crate::quote::for_any_shell;

pub(crate) type Child = openssh::Child<Arc<openssh::Session>>;

/// Opening a session takes one round trip.
const OPEN: Duration = Duration::from_secs(20);
/// Time for opening a session and running a command that does nothing, when
/// there is another master to try.
const TRY: Duration = Duration::from_secs(10);
/// Time from there to our first mark: the login shell and its start-up files.
pub(crate) const BEGIN: Duration = Duration::from_secs(30);
/// The exit status follows the end of the output at once.
const STATUS: Duration = Duration::from_secs(5);

/// Size of a pipe's buffer, and limit of one read or write.
const PART_BYTES: usize = 64 * 1024;

/// How long a command may take, once it has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Longest time in which nothing of its input can be sent.
    pub(crate) stall: Duration,
    /// From the end of its input to its own end.
    pub(crate) answer: Duration,
}

/// Reason why a session does not begin.
#[derive(Debug)]
pub(crate) enum SessionRefusal {
    /// The node or the master's owner allows no more of them.
    Refused,
    /// No process listens at the control socket.
    Gone,
    /// No answer in time.
    Late,
    Other(openssh::Error),
}

impl SessionRefusal {
    pub(crate) fn into_trouble(self) -> Trouble {
        match self {
            Self::Refused => Trouble::TooManySessions,
            Self::Gone => Trouble::MasterGone { said: Vec::new() },
            Self::Late => Trouble::Deadline {
                what: "opening a session",
                seconds: OPEN.as_secs(),
            },
            Self::Other(source) => Trouble::Control {
                source: Box::new(source),
            },
        }
    }
}

/// Begins a command. Its three streams are pipes of ours: the master makes its
/// ends non-blocking, and no other process has these pipes.
pub(crate) async fn begin(master: &Master, line: &str) -> Result<Child, SessionRefusal> {
    let mut command = master.session().arc_raw_command(line);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let spawned = timeout(OPEN, command.spawn()).await;
    match spawned {
        Ok(Ok(child)) => Ok(child),
        Ok(Err(error)) => Err(not_begun(error)),
        Err(_) => Err(SessionRefusal::Late),
    }
}

fn not_begun(error: openssh::Error) -> SessionRefusal {
    if matches!(error, openssh::Error::Disconnected) {
        return SessionRefusal::Gone;
    }
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if text.contains("Session open refused by peer") || text.contains("ermission denied") {
            return SessionRefusal::Refused;
        }
        if inner.is::<io::Error>() {
            return SessionRefusal::Gone;
        }
        cause = inner.source();
    }
    SessionRefusal::Other(error)
}

/// Output and exit status of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// Exit status; 128 and more for a signal, as in `sh`.
    pub status: i32,
    /// Standard output, up to 1 MiB.
    pub out: Vec<u8>,
    /// Standard error, up to 1 MiB.
    pub err: Vec<u8>,
}

/// Whether a command runs over this master. A master with a dead network still
/// answers `-O check`.
pub(crate) async fn works(master: &Master) -> bool {
    let mut command = master.session().arc_raw_command(for_any_shell(":"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match timeout(TRY, command.status()).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => match not_begun(error) {
            // The login shell is at fault, so another connection does not help.
            SessionRefusal::Other(_) => true,
            SessionRefusal::Refused | SessionRefusal::Gone | SessionRefusal::Late => false,
        },
        Err(_) => false,
    }
}

/// Follows a command that prints `mark` lines around its output. Its input is
/// sent once it has begun, so that login files cannot swallow any of it.
pub(crate) async fn follow(
    mut child: Child,
    master: &Master,
    mark: &str,
    body: impl AsyncRead + Unpin,
    patience: Patience,
) -> Result<CommandOutput, Trouble> {
    let mut out = Stream::new(child.stdout().take(), OutputSection::new(mark));
    let mut err = Stream::new(child.stderr().take(), OutputSection::new(mark));
    let mut input = CommandInput::new(child.stdin().take(), body);
    let mut until = Instant::now() + BEGIN;
    let mut begun = false;
    while !(out.complete() && err.complete()) {
        tokio::select! {
            read = out.read() => read?,
            read = err.read() => read?,
            sent = input.send(), if begun && input.open() => {
                sent?;
                let wait = if input.open() { patience.stall } else { patience.answer };
                until = Instant::now() + wait;
            }
            () = sleep_until(until) => {
                let said = noise(&out.catch, &err.catch);
                return Err(late(begun, input.open(), said, patience));
            }
        }
        if !begun && out.catch.begun() {
            begun = true;
            until = Instant::now() + patience.stall;
        }
    }
    match out.catch.status() {
        Some(status) => Ok(CommandOutput {
            status,
            out: out.catch.into_said(),
            err: err.catch.into_said(),
        }),
        None => Err(cut(child, master, out.catch, err.catch).await),
    }
}

/// The command's output ended before the command did.
async fn cut(child: Child, master: &Master, out: OutputSection, err: OutputSection) -> Trouble {
    // However the command ended, it matters only whether the master lives.
    let _ = timeout(STATUS, child.wait()).await;
    if master.life().await == Life::Dead {
        Trouble::MasterGone { said: Vec::new() }
    } else if out.begun() {
        Trouble::Shell {
            what: "ended before the command did",
            said: err.into_said(),
        }
    } else {
        Trouble::Shell {
            what: "ends without running a command",
            said: noise(&out, &err),
        }
    }
}

fn late(begun: bool, sending: bool, said: Vec<u8>, patience: Patience) -> Trouble {
    if !begun && !said.trim_ascii().is_empty() {
        return Trouble::Shell {
            what: "does not come to running a command",
            said,
        };
    }
    let (what, time) = match (begun, sending) {
        (false, _) => ("the start of a command", BEGIN),
        (true, true) => ("sending its input to a command", patience.stall),
        (true, false) => ("a command", patience.answer),
    };
    Trouble::Deadline {
        what,
        seconds: time.as_secs(),
    }
}

/// The output before our command, on both streams.
fn noise(out: &OutputSection, err: &OutputSection) -> Vec<u8> {
    [out.noise(), err.noise()].concat()
}

/// One output stream of a command.
struct Stream<R> {
    /// `None` at its end.
    pipe: Option<R>,
    catch: OutputSection,
}

impl<R: AsyncRead + Unpin> Stream<R> {
    fn new(pipe: Option<R>, catch: OutputSection) -> Self {
        Self { pipe, catch }
    }

    /// Whether the stream is at its last mark or at its end.
    fn complete(&self) -> bool {
        self.catch.status().is_some() || self.pipe.is_none()
    }

    /// Reads the next bytes; never returns when there are no more. Loses nothing
    /// when dropped.
    async fn read(&mut self) -> Result<(), Trouble> {
        let Some(pipe) = self.pipe.as_mut().filter(|_| self.catch.status().is_none()) else {
            return std::future::pending().await;
        };
        let mut part = Vec::with_capacity(PART_BYTES);
        let bytes = pipe
            .read_buf(&mut part)
            .await
            .map_err(|source| Trouble::Io {
                what: "read the output of the command",
                source,
            })?;
        if bytes == 0 {
            self.pipe = None;
            return Ok(());
        }
        self.catch
            .take(&part)
            .map_err(|overrun| overrun_trouble(overrun, &self.catch))
    }
}

/// The failure for a stream that is longer than its limit.
pub(crate) fn overrun_trouble(overrun: Overrun, catch: &OutputSection) -> Trouble {
    match overrun {
        Overrun::Noise => Trouble::Shell {
            what: "prints more than 64 KiB before it runs a command",
            said: catch.noise().to_vec(),
        },
        Overrun::Said => Trouble::TooMuch {
            bytes_max: SAID_BYTES_MAX,
        },
    }
}

/// The input of a command.
struct CommandInput<B> {
    /// `None` once everything is sent, or the command takes no more.
    stdin: Option<ChildStdin>,
    body: B,
    /// Bytes that were read and not yet sent.
    part: Vec<u8>,
}

impl<B: AsyncRead + Unpin> CommandInput<B> {
    fn new(stdin: Option<ChildStdin>, body: B) -> Self {
        Self {
            stdin,
            body,
            part: Vec::new(),
        }
    }

    fn open(&self) -> bool {
        self.stdin.is_some()
    }

    /// One step: reads a part, sends some of it, or closes. Loses nothing when
    /// dropped. When a command takes no more input, its exit status holds the
    /// reason.
    async fn send(&mut self) -> Result<(), Trouble> {
        let Some(stdin) = &mut self.stdin else {
            return Ok(());
        };
        if self.part.is_empty() {
            self.part.reserve(PART_BYTES);
            let read = self.body.read_buf(&mut self.part).await;
            let bytes = read.map_err(|source| Trouble::Io {
                what: "read what is to be sent",
                source,
            })?;
            if bytes == 0 {
                self.stdin = None;
            }
            return Ok(());
        }
        match stdin.write(&self.part).await {
            Ok(0) | Err(_) => self.stdin = None,
            Ok(bytes) => drop(self.part.drain(..bytes)),
        }
        Ok(())
    }
}
