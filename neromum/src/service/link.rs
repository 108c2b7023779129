//! One connection: counted while it is open, and whether it said hello.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;

use crate::agent::{AgentHandle, Message};

/// A connection of our own user.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
    info: LinkInfo,
    agent: AgentHandle,
}

/// What calls know of their connection.
#[derive(Clone, Debug)]
pub struct LinkInfo {
    greeted: Arc<AtomicBool>,
}

impl LinkInfo {
    /// Whether this connection's hello was accepted.
    pub fn is_greeted(&self) -> bool {
        self.greeted.load(Ordering::Acquire)
    }

    /// Its hello was accepted.
    pub fn greet(&self) {
        self.greeted.store(true, Ordering::Release);
    }
}

impl Link {
    /// Counts the connection until it is dropped.
    pub fn new(stream: UnixStream, agent: &AgentHandle) -> Self {
        agent.tell_now(Message::Connection(1));
        Self {
            stream,
            info: LinkInfo {
                greeted: Arc::new(AtomicBool::new(false)),
            },
            agent: agent.clone(),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.agent.tell_now(Message::Connection(-1));
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
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Link {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
