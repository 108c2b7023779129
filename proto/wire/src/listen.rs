//! Listening on a Unix socket that answers its owner alone.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_stream::Stream;

/// Accepts connections of our own user and closes others before it reads a byte
/// from them. A lack of descriptors delays a connection and never ends the
/// listener.
#[derive(Debug)]
pub struct OwnerOnly {
    listener: UnixListener,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
    again: Option<mpsc::UnboundedReceiver<UnixListener>>,
}

/// Binds the path of an [`OwnerOnly`] again after another program removed the
/// socket file.
#[derive(Debug)]
pub struct Rebind {
    path: PathBuf,
    listeners: mpsc::UnboundedSender<UnixListener>,
}

impl Rebind {
    /// Binds the same path again; further connections are accepted there.
    ///
    /// # Errors
    /// When the path cannot be bound.
    pub fn rebind(&self) -> io::Result<()> {
        self.rebind_at(&self.path)
    }

    /// Binds another path; further connections are accepted there.
    ///
    /// # Errors
    /// When the path cannot be bound.
    pub fn rebind_at(&self, path: &Path) -> io::Result<()> {
        let listener = bind(path)?;
        // Sending fails when the server has ended. Then a new listener is of no
        // use.
        let _ = self.listeners.send(listener);
        Ok(())
    }
}

/// Pause when the system has no descriptor for a new connection.
const PAUSE_WHEN_EXHAUSTED: std::time::Duration = std::time::Duration::from_millis(100);

impl OwnerOnly {
    /// Binds `path` with mode 0600. A socket file left by a dead process is
    /// replaced: the caller must hold the lock that makes it the only server.
    ///
    /// # Errors
    /// When the path is too long, or cannot be bound.
    pub fn bind(path: &Path) -> io::Result<Self> {
        Ok(Self {
            listener: bind(path)?,
            pause: None,
            again: None,
        })
    }

    /// As [`OwnerOnly::bind`], with the means to bind again later.
    ///
    /// # Errors
    /// As [`OwnerOnly::bind`].
    pub fn bind_again(path: &Path) -> io::Result<(Self, Rebind)> {
        #[expect(
            clippy::disallowed_methods,
            reason = "one message for each signal that asks for the socket"
        )]
        let (listeners, again) = mpsc::unbounded_channel();
        let own = Self {
            again: Some(again),
            ..Self::bind(path)?
        };
        let path = path.to_path_buf();
        Ok((own, Rebind { path, listeners }))
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

impl Stream for OwnerOnly {
    type Item = io::Result<UnixStream>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(again) = self.again.as_mut()
                && let Poll::Ready(Some(listener)) = again.poll_recv(cx)
            {
                self.listener = listener;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_stream::StreamExt as _;

    #[tokio::test]
    async fn a_socket_whose_file_was_removed_is_bound_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (mut listener, rebind) = OwnerOnly::bind_again(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        UnixStream::connect(&path).await.unwrap_err();
        let accepted = tokio::spawn(async move { listener.next().await.unwrap().is_ok() });
        tokio::task::yield_now().await;
        rebind.rebind().unwrap();
        let stream = UnixStream::connect(&path).await.unwrap();
        assert!(accepted.await.unwrap());
        drop(stream);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
