//! One connection: counted while it is open, marked with its hello, and ended
//! when its neroman is no longer the owner.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use nero_node::agent::AgentHandle;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;

/// A connection of our own user.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
    info: LinkInfo,
    agent: AgentHandle,
}

/// A connection as its calls see it.
#[derive(Clone, Debug)]
pub struct LinkInfo(Arc<LinkState>);

/// State of a connection.
#[derive(Debug, Default)]
pub struct LinkState {
    greeted: AtomicBool,
    tenure: AtomicU64,
    over: AtomicBool,
    reader: AtomicWaker,
}

impl LinkState {
    /// The tenure of the connection's neroman; 0 for a connection without hello, and the highest
    /// number for a watcher's.
    pub fn tenure(&self) -> u64 {
        self.tenure.load(Ordering::Acquire)
    }

    /// Ends the connection with all its calls.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.reader.wake();
    }

    fn check(&self) -> io::Result<()> {
        if self.over.load(Ordering::Acquire) {
            Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the deployment was taken over",
            ))
        } else {
            Ok(())
        }
    }
}

impl LinkInfo {
    /// Whether this connection's hello was accepted.
    pub fn is_greeted(&self) -> bool {
        self.0.greeted.load(Ordering::Acquire)
    }

    /// Records that the hello was accepted.
    pub fn greet(&self, tenure: u64) {
        self.0.tenure.store(tenure, Ordering::Release);
        self.0.greeted.store(true, Ordering::Release);
    }

    /// The tenure of the connection's neroman.
    pub fn tenure(&self) -> u64 {
        self.0.tenure()
    }

    /// A reference for the task that may have to end the connection.
    pub fn state(&self) -> Weak<LinkState> {
        Arc::downgrade(&self.0)
    }
}

impl Link {
    /// Counts the connection until it is dropped.
    pub fn new(stream: UnixStream, agent: &AgentHandle) -> Self {
        agent.connection(1);
        Self {
            stream,
            info: LinkInfo(Arc::default()),
            agent: agent.clone(),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.agent.connection(-1);
    }
}

impl Connected for Link {
    type ConnectInfo = LinkInfo;

    fn connect_info(&self) -> LinkInfo {
        self.info.clone()
    }
}

impl AsyncRead for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Registered before the check: an end in between is seen, or wakes the
        // reader.
        self.info.0.reader.register(cx.waker());
        self.info.0.check()?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Link {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.info.0.check()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.info.0.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
