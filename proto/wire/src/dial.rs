//! Dialling a Unix socket that our own user listens on.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::{FRAME_BYTES, KEEP_ALIVE_EVERY, KEEP_ALIVE_PATIENCE};

/// Reason why a socket does not answer.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// No process listens there (any more). Starting the server may help.
    #[error("nobody answers at {path}")]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// A process of another user listens there.
    #[error("the socket {path} belongs to another user")]
    NotOurs {
        /// The socket.
        path: PathBuf,
    },
    /// The connection was made and HTTP/2 could not begin.
    #[error("cannot speak gRPC at {path}")]
    Transport {
        /// The socket.
        path: PathBuf,
        /// Error of the transport.
        #[source]
        source: tonic::transport::Error,
    },
}

/// Connects to the socket at `path`, once: a lost connection is an error of
/// the next call and is never replaced behind the caller's back.
///
/// # Errors
/// See [`DialError`].
pub async fn dial(path: &Path) -> Result<Channel, DialError> {
    let nobody = |source| DialError::Nobody {
        path: path.to_path_buf(),
        source,
    };
    let stream = UnixStream::connect(path).await.map_err(nobody)?;
    let peer = stream.peer_cred().map_err(nobody)?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        return Err(DialError::NotOurs {
            path: path.to_path_buf(),
        });
    }
    dial_io(stream)
        .await
        .map_err(|source| DialError::Transport {
            path: path.to_path_buf(),
            source,
        })
}

/// Speaks gRPC over any stream, once.
///
/// # Errors
/// When HTTP/2 cannot begin.
pub async fn dial_io<T>(stream: T) -> Result<Channel, tonic::transport::Error>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let endpoint = Endpoint::from_static("http://neronet")
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024);
    join(endpoint, stream).await
}

/// Speaks gRPC once over a stream to another machine. Keep-alives detect a
/// silent peer, even without a call under way; the windows fill a fast and long
/// line.
///
/// # Errors
/// When HTTP/2 cannot begin.
pub async fn dial_far<T>(stream: T) -> Result<Channel, tonic::transport::Error>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let endpoint = Endpoint::from_static("http://neronet")
        .initial_stream_window_size(4 * 1024 * 1024)
        .initial_connection_window_size(8 * 1024 * 1024)
        .max_frame_size(FRAME_BYTES)
        .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
        .keep_alive_timeout(KEEP_ALIVE_PATIENCE)
        .keep_alive_while_idle(true);
    join(endpoint, stream).await
}

async fn join<T>(endpoint: Endpoint, stream: T) -> Result<Channel, tonic::transport::Error>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Mutex::new(Some(stream));
    let connector = tower::service_fn(move |_: Uri| {
        let taken = stream
            .lock()
            .map(|mut held| held.take())
            .unwrap_or_default();
        async move {
            taken.map(TokioIo::new).ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotConnected, "the connection was lost")
            })
        }
    });
    endpoint.connect_with_connector(connector).await
}
