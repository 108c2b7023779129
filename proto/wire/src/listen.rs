//! Listening on a Unix socket that answers its owner alone.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::net::{UnixListener, UnixStream};
use tokio_stream::Stream;

/// Accepts connections of our own user; others are closed before a byte of
/// theirs is read. Running out of descriptors delays, and never ends it.
#[derive(Debug)]
pub struct OwnerOnly {
    listener: UnixListener,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
}

/// How long to wait when the system has no descriptor for a new connection.
const PAUSE_WHEN_EXHAUSTED: std::time::Duration = std::time::Duration::from_millis(100);

impl OwnerOnly {
    /// Binds `path` with mode 0600. A socket file left by a dead process is
    /// replaced: the caller must hold the lock that makes it the only server.
    ///
    /// # Errors
    /// When the path is too long, or cannot be bound.
    pub fn bind(path: &Path) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self {
            listener,
            pause: None,
        })
    }
}

impl Stream for OwnerOnly {
    type Item = io::Result<UnixStream>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = self.pause.as_mut() {
                std::task::ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match std::task::ready!(self.listener.poll_accept(cx)) {
                Ok((stream, _)) if is_ours(&stream) => return Poll::Ready(Some(Ok(stream))),
                Ok(_) => {}
                Err(_) => self.pause = Some(Box::pin(tokio::time::sleep(PAUSE_WHEN_EXHAUSTED))),
            }
        }
    }
}

fn is_ours(stream: &UnixStream) -> bool {
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}
