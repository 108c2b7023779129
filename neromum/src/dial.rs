//! Joins stdin and stdout to neromum's socket, for a caller at the other end of
//! an ssh channel. Starts neromum when none answers.
//!
//! Messages for people go to stderr; stdout carries the mark and then the
//! socket's bytes, nothing else.

pub mod ends;
mod shared;
mod start;

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nero_model::paths::NodePaths;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::args::Options;
use crate::run::SOCKET;
use ends::{Output, Requests};

/// Size of one copied part.
const PART_BYTES: usize = 64 * 1024;
/// After the end of requests, the longest time between two answers.
const LAST_ANSWER: Duration = Duration::from_secs(10);

/// Reason why no neromum can be reached through this dial.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Something of our own cannot be used.
    #[error("cannot {what}")]
    Io {
        /// The action that failed.
        what: &'static str,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// A process of another user listens there.
    #[error("the socket {path} belongs to another user")]
    NotOurs {
        /// The socket.
        path: PathBuf,
    },
    /// The leases of a root that several hosts share cannot be used.
    #[error(transparent)]
    Lease(nero_node::lease::LeaseError),
    /// No leader was reached from here, and none could be started.
    #[error("no neromum of this node is reached from here within {seconds} s; last met: {met}")]
    Unreachable {
        /// Seconds of the search.
        seconds: u64,
        /// The last neromum that was met, or the last failure.
        met: String,
    },
    /// The neromum that was started ended.
    #[error("neromum ended before it answered ({status}){log}")]
    Ended {
        /// Exit status or signal.
        status: String,
        /// End of its log and of its standard error.
        log: String,
    },
    /// The neromum that was started lives and does not answer.
    #[error("neromum does not answer within {seconds} s{log}")]
    Silent {
        /// Seconds that we waited.
        seconds: u64,
        /// End of its log and of its standard error.
        log: String,
    },
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> DialError {
    move |source| DialError::Io { what, source }
}

/// Joins until the socket's side ends.
///
/// # Errors
/// When no neromum can be reached, or one of the two sides fails.
pub fn dial(options: &Options) -> Result<(), DialError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed("begin"))?;
    let joined = runtime.block_on(async {
        let paths = NodePaths::new(&options.root, &options.deployment, &options.node);
        let by_lease = options.by_lease(&paths);
        let stream = if by_lease.map_err(failed("see what file system the root lies on"))? {
            match start::before_scheduler(options, &paths).await? {
                Some(stream) => shared::Way::Socket(stream),
                None => shared::reach(options, &paths).await?,
            }
        } else {
            let socket = paths.sockets().join(SOCKET);
            shared::Way::Socket(start::reach(options, &paths, &socket).await?)
        };
        let input = Requests::stdin().map_err(failed("read stdin"))?;
        let mut output = Output::stdout().map_err(failed("write to stdout"))?;
        if let Some(mark) = &options.mark {
            // The line before it ends what a login shell may have printed.
            let line = format!("\n{mark}\n");
            send(&mut output, line.as_bytes())
                .await
                .map_err(failed("write to stdout"))?;
        }
        join(stream, input, output)
            .await
            .map_err(failed("pass bytes on"))
    });
    // Where stdin is a file or a terminal, a thread may still wait for it.
    runtime.shutdown_background();
    joined
}

/// Copies both ways until the side of `stream` ends. The end of the input is
/// the end of requests. Answers may still come, but a frozen neromum sends none
/// and is not waited for: sshd counts this process as a session.
///
/// # Errors
/// When bytes cannot be passed on while both sides are there.
pub async fn join<S>(stream: S, mut input: Requests, mut output: Output) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite,
{
    let (mut from_mum, mut to_mum) = tokio::io::split(stream);
    let answers = Cell::new(0u64);
    let up = async {
        match copy(&mut input, &mut to_mum, || {}).await {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
        let mut heard = answers.get();
        // If the peer has left, the other direction ends.
        let _ = tokio::time::timeout(LAST_ANSWER, to_mum.shutdown()).await;
        loop {
            tokio::time::sleep(LAST_ANSWER).await;
            if answers.get() == heard {
                return Ok(());
            }
            heard = answers.get();
        }
    };
    let down = copy(&mut from_mum, &mut output, || {
        answers.set(answers.get() + 1);
    });
    let ended = tokio::select! {
        ended = up => ended,
        ended = down => ended,
    };
    match ended {
        // Our caller has left: no peer needs the error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        // neromum was killed.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        ended => ended,
    }
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    passed: impl Fn(),
) -> io::Result<()> {
    let mut buffer = vec![0; PART_BYTES];
    loop {
        match from.read(&mut buffer).await? {
            0 => return Ok(()),
            length => send(to, &buffer[..length]).await?,
        }
        passed();
    }
}

/// Writes and flushes, so that no answer waits for a full buffer.
async fn send(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}
