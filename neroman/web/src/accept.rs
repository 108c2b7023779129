//! The socket: who may connect, how many, and how long a connection may do nothing.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::peer;
use crate::server::Site;

/// Connections at a time; a browser opens six.
const CONNECTIONS_MAX: usize = 256;
/// How long the head of a request may take, and a connection wait for the next one.
const HEAD_DEADLINE: Duration = Duration::from_secs(20);
/// How long the other end may leave unread what was sent.
const UNREAD_DEADLINE: Duration = Duration::from_secs(60);
/// Bytes of a head, and of what waits to be sent.
const BUFFER_MAX: usize = 64 * 1024;
/// The pause after an error that closing connections mends, as of too many open files.
const REST: Duration = Duration::from_millis(100);

/// Where a browser connects.
#[derive(Debug)]
pub struct Door {
    kind: DoorKind,
}

#[derive(Debug)]
enum DoorKind {
    Loopback(TcpListener, SocketAddr),
    Socket(UnixListener, PathBuf),
}

/// Why no browser can connect.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The port is taken, or not ours to take.
    #[error("cannot listen on port {port} of 127.0.0.1")]
    Port {
        /// The port; 0: any.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// There is something else at the path.
    #[error("{} is there already and is no socket", .path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// Another program listens there.
    #[error("a program listens on {} already", .path.display())]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// No socket can be made there.
    #[error("cannot make the socket {}", .path.display())]
    Socket {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Door {
    /// Listens on a port of loopback; 0: a free one.
    ///
    /// # Errors
    /// When the port is taken.
    pub async fn loopback(port: u16) -> Result<Self, DoorError> {
        let failed = |source| DoorError::Port { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            kind: DoorKind::Loopback(listener, address),
        })
    }

    /// Listens on a Unix socket that its owner alone may use. One that a program left behind is
    /// replaced.
    ///
    /// # Errors
    /// When something else is there, or the folder cannot be written.
    pub async fn socket(path: &Path) -> Result<Self, DoorError> {
        let owned = path.to_owned();
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(DoorError::NoSocket { path: owned });
            }
            Ok(_) if UnixStream::connect(path).await.is_ok() => {
                return Err(DoorError::Taken { path: owned });
            }
            Ok(_) | Err(_) => {}
        }
        let make = || {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let listener = UnixListener::bind(path)?;
            // Who connects before that is of another user at worst, and refused as such.
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            Ok(listener)
        };
        let listener = make().map_err(|source| DoorError::Socket {
            path: owned.clone(),
            source,
        })?;
        Ok(Self {
            kind: DoorKind::Socket(listener, owned),
        })
    }

    /// The port in addresses; none for a socket.
    pub fn port(&self) -> Option<u16> {
        match &self.kind {
            DoorKind::Loopback(_, address) => Some(address.port()),
            DoorKind::Socket(..) => None,
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let DoorKind::Socket(_, path) = &self.kind {
            // A socket that stays is replaced the next time.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Answers whoever may connect, until it is dropped.
pub async fn serve(door: &Door, site: &Site) {
    serve_by(door, &site.router()).await;
}

/// The same with these answers.
pub(crate) async fn serve_by(door: &Door, router: &Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        // Those for whom there is no place wait in the queue of the kernel.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let accepted = match &door.kind {
            DoorKind::Loopback(listener, ours) => {
                listener.accept().await.map(|(stream, theirs)| {
                    if is_ours_over_loopback(&stream, *ours, theirs) {
                        connections.spawn(answer(stream, router.clone(), place));
                    }
                })
            }
            DoorKind::Socket(listener, _) => listener.accept().await.map(|(stream, _)| {
                if stream.peer_cred().is_ok_and(|peer| peer.uid() == own_uid()) {
                    connections.spawn(answer(stream, router.clone(), place));
                }
            }),
        };
        if accepted.is_err() {
            tokio::time::sleep(REST).await;
        }
    }
}

/// Whether the user at the other end is ours; prepares the connection.
fn is_ours_over_loopback(stream: &TcpStream, ours: SocketAddr, theirs: SocketAddr) -> bool {
    let deadline = u32::try_from(UNREAD_DEADLINE.as_millis()).unwrap_or(u32::MAX);
    // Without it a reader that stopped keeps its place until it leaves.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, deadline);
    peer::uid(ours, theirs) == Some(own_uid())
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Answers the requests of one connection.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    place: OwnedSemaphorePermit,
) {
    let answered = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(BUFFER_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A browser that leaves in the middle of an answer is no error of ours.
    let _ = answered.await;
    drop(place);
}
