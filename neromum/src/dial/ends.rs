//! stdin and stdout as they are behind sshd: pipes or sockets, read and written
//! without a thread. Files and terminals, which cannot be waited for, are read
//! by a thread instead.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::fs::{FileType, OFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// The stream of requests.
#[derive(Debug)]
pub enum Requests {
    /// A pipe or socket.
    Ready(AsyncFd<OwnedFd>),
    /// Anything else.
    Thread(tokio::io::Stdin),
}

/// The stream of answers.
#[derive(Debug)]
pub enum Output {
    /// A pipe or socket.
    Ready(AsyncFd<OwnedFd>),
    /// Anything else.
    Thread(tokio::io::Stdout),
}

impl Requests {
    /// Our standard input.
    ///
    /// # Errors
    /// When it is closed.
    pub fn stdin() -> io::Result<Self> {
        Ok(
            match waited_for(std::io::stdin().as_fd(), Interest::READABLE)? {
                Some(fd) => Self::Ready(fd),
                None => Self::Thread(tokio::io::stdin()),
            },
        )
    }
}

impl Output {
    /// Our standard output.
    ///
    /// # Errors
    /// When it is closed.
    pub fn stdout() -> io::Result<Self> {
        Ok(
            match waited_for(std::io::stdout().as_fd(), Interest::WRITABLE)? {
                Some(fd) => Self::Ready(fd),
                None => Self::Thread(tokio::io::stdout()),
            },
        )
    }
}

/// A second descriptor that never blocks; `None` when the kernel cannot wait
/// for it.
fn waited_for(fd: impl AsFd, interest: Interest) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    let own = fd.as_fd().try_clone_to_owned()?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&own)?.st_mode);
    if !matches!(kind, FileType::Fifo | FileType::Socket) {
        return Ok(None);
    }
    let flags = rustix::fs::fcntl_getfl(&own)?;
    rustix::fs::fcntl_setfl(&own, flags | OFlags::NONBLOCK)?;
    #[expect(
        deprecated,
        reason = "its replacement is unsafe for the sake of types that may close their descriptor; an OwnedFd does not"
    )]
    AsyncFd::with_interest(own, interest).map(Some)
}

impl AsyncRead for Requests {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let fd = match &mut *self {
            Self::Ready(fd) => fd,
            Self::Thread(stdin) => return Pin::new(stdin).poll_read(cx, buffer),
        };
        loop {
            let mut ready = ready!(fd.poll_read_ready(cx))?;
            let read = ready.try_io(|fd| {
                Ok(rustix::io::read(
                    fd.get_ref(),
                    buffer.initialize_unfilled(),
                )?)
            });
            if let Ok(read) = read {
                return Poll::Ready(read.map(|length| buffer.advance(length)));
            }
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let fd = match &mut *self {
            Self::Ready(fd) => fd,
            Self::Thread(stdout) => return Pin::new(stdout).poll_write(cx, bytes),
        };
        loop {
            let mut ready = ready!(fd.poll_write_ready(cx))?;
            if let Ok(written) = ready.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), bytes)?)) {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Ready(_) => Poll::Ready(Ok(())),
            Self::Thread(stdout) => Pin::new(stdout).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
