//! The input and output of a remote command as one stream.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use openssh::{ChildStderr, ChildStdin, ChildStdout};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::catch::{NOISE_BYTES_MAX, OutputSection, Overrun};
use crate::error::Trouble;
use crate::master::{Life, Master};
use crate::run::{BEGIN, Child, overrun_trouble};

/// Limit of the kept end of the command's standard error.
const WORDS_BYTES_MAX: usize = 8 * 1024;
/// Time to wait for the exit status and the last words; both follow the end of
/// the output at once.
const AFTERMATH: Duration = Duration::from_secs(2);

/// A command on the node: writing feeds its input, reading yields its output
/// from behind its mark. Dropping the pipe ends the input, and the task that
/// waits for the command.
///
/// When the output ends while the input is still open, reading fails with the
/// command's last words; after `shutdown` the end is an ordinary end.
pub struct Pipe {
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// Bytes that were read together with the mark and not yet handed out.
    rest: VecDeque<u8>,
    words: LastWords,
    state: SessionState,
    master: Master,
    heard: LastBytes,
}

/// Time of the last bytes from a node, in milliseconds on the boot clock. Cheap
/// to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastBytes(Arc<AtomicI64>);

impl LastBytes {
    fn now(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let ms = now.tv_sec.saturating_mul(1000) + now.tv_nsec / 1_000_000;
        self.0.store(ms, Ordering::Relaxed);
    }

    /// `None` before the first byte.
    pub(crate) fn last_boot_ms(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|ms| *ms > 0)
    }
}

enum SessionState {
    /// The handle that keeps the session open.
    Open(Option<Child>),
    /// The output has ended; the future finds out the reason.
    Ending(Pin<Box<dyn Future<Output = Trouble> + Send>>),
    Ended,
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe")
            .field("master", &self.master)
            .field("open", &matches!(self.state, SessionState::Open(_)))
            .finish_non_exhaustive()
    }
}

impl Pipe {
    /// Waits until the login shell has printed the line `begin`, with which the
    /// command starts, and then, for `patience`, until the command has printed
    /// the line `mark`.
    pub(crate) async fn begin(
        mut child: Child,
        master: Master,
        begin: &str,
        mark: &str,
        patience: Duration,
        heard: LastBytes,
    ) -> Result<Self, Trouble> {
        let stdin = child.stdin().take();
        let mut stdout = child.stdout().take().expect("stdout is a pipe");
        let words = LastWords::of(child.stderr().take().expect("stderr is a pipe"));
        let mut catch = OutputSection::first_only(begin);
        if let Err(unmarked) = until_mark(&mut stdout, &mut catch, BEGIN).await {
            return Err(match unmarked {
                MissingLine::Late => late(&catch, &words),
                MissingLine::Overrun(overrun) => overrun_trouble(overrun, &catch),
                MissingLine::Ended => unbegun(child, &master, catch, words).await,
                MissingLine::Io(source) => unread(source),
            });
        }
        let mut answer = OutputSection::first_only(mark);
        let first = answer
            .take(&catch.into_said())
            .map_err(MissingLine::Overrun);
        let marked = match first {
            Ok(()) => until_mark(&mut stdout, &mut answer, patience).await,
            overrun => overrun,
        };
        if let Err(unmarked) = marked {
            return Err(match unmarked {
                MissingLine::Late => Trouble::Unanswered {
                    seconds: patience.as_secs(),
                    said: [answer.noise(), &words.so_far()].concat(),
                },
                MissingLine::Overrun(_) => Trouble::TooMuch {
                    bytes_max: NOISE_BYTES_MAX,
                },
                MissingLine::Ended => unbegun(child, &master, answer, words).await,
                MissingLine::Io(source) => unread(source),
            });
        }
        Ok(Self {
            stdin,
            stdout,
            rest: answer.into_said().into(),
            heard,
            words,
            state: SessionState::Open(Some(child)),
            master,
        })
    }
}

/// Reason why an expected line did not come.
enum MissingLine {
    Late,
    Ended,
    Overrun(Overrun),
    Io(io::Error),
}

async fn until_mark(
    stdout: &mut ChildStdout,
    catch: &mut OutputSection,
    patience: Duration,
) -> Result<(), MissingLine> {
    let until = Instant::now() + patience;
    while !catch.begun() {
        let mut part = Vec::with_capacity(4096);
        match timeout_at(until, stdout.read_buf(&mut part)).await {
            Err(_) => return Err(MissingLine::Late),
            Ok(Ok(0)) => return Err(MissingLine::Ended),
            Ok(Ok(_)) => catch.take(&part).map_err(MissingLine::Overrun)?,
            Ok(Err(source)) => return Err(MissingLine::Io(source)),
        }
    }
    Ok(())
}

fn unread(source: io::Error) -> Trouble {
    Trouble::Io {
        what: "read the output of the command",
        source,
    }
}

/// The login shell does not reach the command in time.
fn late(catch: &OutputSection, words: &LastWords) -> Trouble {
    let said = [catch.noise(), &words.so_far()].concat();
    if said.trim_ascii().is_empty() {
        Trouble::Deadline {
            what: "the start of a command",
            seconds: BEGIN.as_secs(),
        }
    } else {
        Trouble::Shell {
            what: "does not come to running a command",
            said,
        }
    }
}

/// The output ended before a mark: the command failed, or never ran.
async fn unbegun(child: Child, master: &Master, catch: OutputSection, words: LastWords) -> Trouble {
    let ended = ended(Some(child), master.clone(), words).await;
    match ended {
        Trouble::PipeEnded { status, said } => Trouble::PipeEnded {
            status,
            said: [catch.noise(), &said].concat(),
        },
        other => other,
    }
}

/// The failure of a command whose output has ended.
async fn ended(child: Option<Child>, master: Master, words: LastWords) -> Trouble {
    let status = match child {
        Some(child) => timeout(AFTERMATH, child.wait()).await,
        None => return Trouble::MasterGone { said: Vec::new() },
    };
    let said = words.finish().await;
    let status = match status {
        Ok(Ok(status)) => status.to_string(),
        // The crate returns exit status 127 as an error.
        Ok(Err(openssh::Error::Remote(_))) => "exit status: 127".to_owned(),
        Ok(Err(_)) | Err(_) if master.life().await == Life::Dead => {
            return Trouble::MasterGone { said };
        }
        Ok(Err(_)) => "by a signal".to_owned(),
        Err(_) => "its output only".to_owned(),
    };
    Trouble::PipeEnded { status, said }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let pipe = &mut *self;
        if !pipe.rest.is_empty() {
            let (part, _) = pipe.rest.as_slices();
            let bytes = part.len().min(into.remaining());
            into.put_slice(&part[..bytes]);
            pipe.rest.drain(..bytes);
            return Poll::Ready(Ok(()));
        }
        loop {
            match &mut pipe.state {
                SessionState::Open(child) => {
                    let before = into.filled().len();
                    ready!(Pin::new(&mut pipe.stdout).poll_read(cx, into))?;
                    if into.filled().len() > before || into.remaining() == 0 {
                        pipe.heard.now();
                        return Poll::Ready(Ok(()));
                    }
                    if pipe.stdin.is_none() {
                        pipe.state = SessionState::Ended;
                        continue;
                    }
                    let why = ended(child.take(), pipe.master.clone(), pipe.words.clone());
                    pipe.state = SessionState::Ending(Box::pin(why));
                }
                SessionState::Ending(why) => {
                    let trouble = ready!(why.as_mut().poll(cx));
                    pipe.state = SessionState::Ended;
                    let told = io::Error::new(io::ErrorKind::UnexpectedEof, trouble);
                    return Poll::Ready(Err(told));
                }
                SessionState::Ended => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stdin {
            Some(stdin) => Pin::new(stdin).poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A pipe holds nothing back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stdin = None;
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stdin {
            Some(stdin) => Pin::new(stdin).poll_write_vectored(cx, parts),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stdin
            .as_ref()
            .is_some_and(AsyncWrite::is_write_vectored)
    }
}

/// Collects the end of a command's standard error.
#[derive(Clone)]
struct LastWords {
    kept: Arc<Mutex<Vec<u8>>>,
    /// Returns an error once everything is read.
    more: watch::Receiver<()>,
    _reader: Arc<ReaderTask>,
}

/// The task; it goes with the last handle.
struct ReaderTask(JoinHandle<()>);

impl Drop for ReaderTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl LastWords {
    fn of(mut stderr: ChildStderr) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&kept);
        let (reading, more) = watch::channel(());
        #[expect(
            clippy::disallowed_methods,
            reason = "`Reader` ends it; a panic closes the channel that `finish` waits for"
        )]
        let reader = tokio::spawn(async move {
            let _reading = reading;
            let mut part = [0; 1024];
            while let Ok(bytes @ 1..) = stderr.read(&mut part).await {
                let mut kept = into.lock().expect("no holder panics");
                kept.extend_from_slice(&part[..bytes]);
                let over = kept.len().saturating_sub(WORDS_BYTES_MAX);
                kept.drain(..over);
            }
        });
        Self {
            kept,
            more,
            _reader: Arc::new(ReaderTask(reader)),
        }
    }

    fn so_far(&self) -> Vec<u8> {
        self.kept.lock().expect("no holder panics").clone()
    }

    /// The complete last words, once the command has ended.
    async fn finish(mut self) -> Vec<u8> {
        let _ = timeout(AFTERMATH, self.more.changed()).await;
        self.so_far()
    }
}
