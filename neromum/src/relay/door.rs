//! The leader's side: listens, and accepts peers that show a certificate.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nero_model::DeploymentId;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::HANDSHAKE;
use super::authority::{Authority, AuthorityError};

/// Limit of accepted connections; each neroman has one or two.
const CONNECTIONS_MAX: usize = 64;
/// Limit of connections without a certificate yet. Any process on the network
/// can make them: one more drops the oldest, so that no dialler is kept out.
const GREETINGS_MAX: usize = 64;
/// Time for one direction of a connection to go on when the other has ended.
const LEFT_TO_SAY: Duration = Duration::from_secs(5);
/// Time without a sign of life from a dialler's machine.
const SILENT_MAX: Duration = Duration::from_secs(45);
/// Pause when the system has no descriptor for a new connection.
const PAUSE_WHEN_EXHAUSTED: Duration = Duration::from_millis(100);
/// A certificate is made anew after half of its validity.
const RENEW: Duration = Duration::from_secs(12 * 3600);

/// Sockets that listen and do not answer yet, so that their addresses are known
/// before the lease with them is made.
#[derive(Debug, Default)]
pub struct Door {
    listeners: Vec<TcpListener>,
}

impl Door {
    /// Listens on every address that takes it, at ports of the kernel's choice.
    pub async fn open(addresses: &[IpAddr]) -> Self {
        let mut listeners = Vec::new();
        for address in addresses {
            match TcpListener::bind((*address, 0)).await {
                Ok(listener) => listeners.push(listener),
                Err(error) => crate::say(&format!("cannot listen on {address}: {error}")),
            }
        }
        Self { listeners }
    }

    /// `address:port` of each socket.
    pub fn addresses(&self) -> Vec<String> {
        let of = |listener: &TcpListener| Some(listener.local_addr().ok()?.to_string());
        self.listeners.iter().filter_map(of).collect()
    }

    /// Accepts connections until the result is dropped, a task for each socket.
    ///
    /// # Errors
    /// When the first certificate cannot be made.
    pub fn serve(self, keeper: Keeper) -> Result<JoinSet<()>, AuthorityError> {
        let mut accepting = JoinSet::new();
        if self.listeners.is_empty() {
            return Ok(accepting);
        }
        let keeper = Arc::new(keeper);
        keeper.acceptor()?;
        for listener in self.listeners {
            accepting.spawn(accept(listener, keeper.clone()));
        }
        Ok(accepting)
    }
}

/// The door's knowledge of the leader behind it.
#[derive(Debug)]
pub struct Keeper {
    ca: PathBuf,
    deployment: DeploymentId,
    node: String,
    epoch: u64,
    socket: PathBuf,
    made: Mutex<Option<(tokio::time::Instant, Arc<rustls::ServerConfig>)>>,
    refused: AtomicU64,
    places: Arc<Semaphore>,
    greetings: Mutex<VecDeque<AbortHandle>>,
}

impl Keeper {
    /// For the leader of an epoch, whose socket is `socket`.
    pub fn new(
        ca: PathBuf,
        deployment: DeploymentId,
        node: &str,
        epoch: u64,
        socket: &Path,
    ) -> Self {
        Self {
            ca,
            deployment,
            node: node.to_owned(),
            epoch,
            socket: socket.to_path_buf(),
            made: Mutex::default(),
            refused: AtomicU64::new(0),
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            greetings: Mutex::default(),
        }
    }

    fn acceptor(&self) -> Result<TlsAcceptor, AuthorityError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, config)) = made.as_ref()
            && at.elapsed() < RENEW
        {
            return Ok(TlsAcceptor::from(config.clone()));
        }
        let authority = Authority::open(&self.ca, self.deployment)?;
        let config = Arc::new(authority.server(&self.node, self.epoch)?);
        *made = Some((tokio::time::Instant::now(), config.clone()));
        Ok(TlsAcceptor::from(config))
    }

    /// Checks a certificate, and finds a place for its holder.
    async fn greet(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, OwnedSemaphorePermit)> {
        stream.set_nodelay(true)?;
        notice_death(&stream)?;
        let acceptor = self.acceptor().map_err(io::Error::other)?;
        let outside = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let place = self.places.clone().try_acquire_owned();
        let full = |_| io::Error::other("too many connections are let in already");
        Ok((outside, place.map_err(full)?))
    }

    /// Joins a connection to the leader's socket, and keeps its place until the end.
    async fn join(
        &self,
        mut outside: TlsStream<TcpStream>,
        _place: OwnedSemaphorePermit,
    ) -> io::Result<()> {
        let inside = UnixStream::connect(&self.socket).await?;
        // Tells the dialler that it was accepted: a TLS client learns of a
        // refusal only when it reads.
        outside.write_all(&self.epoch.to_be_bytes()).await?;
        outside.flush().await?;
        let (mut hears, mut says) = tokio::io::split(outside);
        let (mut reads, mut writes) = inside.into_split();
        let upward = async {
            let _ = tokio::io::copy(&mut hears, &mut writes).await;
            let _ = writes.shutdown().await;
        };
        let downward = async {
            let _ = tokio::io::copy(&mut reads, &mut says).await;
            let _ = says.shutdown().await;
        };
        let (mut upward, mut downward) = (std::pin::pin!(upward), std::pin::pin!(downward));
        // The result of a joined connection does not matter. When one side has
        // ended, the other has little left to send: a dialler whose machine
        // died would never end it, and keep its place.
        tokio::select! {
            () = &mut upward => drop(tokio::time::timeout(LEFT_TO_SAY, downward).await),
            () = &mut downward => drop(tokio::time::timeout(LEFT_TO_SAY, upward).await),
        }
        Ok(())
    }

    /// Makes room for one more greeting.
    fn begun(&self, greeting: AbortHandle) {
        let mut greetings = self
            .greetings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        greetings.retain(|one| !one.is_finished());
        if greetings.len() >= GREETINGS_MAX
            && let Some(oldest) = greetings.pop_front()
        {
            oldest.abort();
        }
        greetings.push_back(greeting);
    }

    fn refuse(&self, from: SocketAddr, error: &io::Error) {
        let before = self.refused.fetch_add(1, Ordering::Relaxed);
        // A scanner that connects all the time must not fill the log.
        if before < 100 || before.is_multiple_of(1000) {
            tracing::warn!(%from, %error, "a connection was not let in");
        }
    }
}

/// Makes the kernel end a connection whose other machine is gone. By default it
/// would do so after a quarter of an hour, or never.
fn notice_death(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    let silent_ms = SILENT_MAX.as_millis() as u32;
    sockopt::set_tcp_user_timeout(stream, silent_ms)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENT_MAX / 3)?;
    sockopt::set_tcp_keepintvl(stream, SILENT_MAX / 9)?;
    Ok(())
}

async fn accept(listener: TcpListener, keeper: Arc<Keeper>) {
    let (mut greetings, mut joined) = (JoinSet::new(), JoinSet::new());
    loop {
        let ended = tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, from)) = accepted else {
                    tokio::time::sleep(PAUSE_WHEN_EXHAUSTED).await;
                    continue;
                };
                let keeper_of_it = keeper.clone();
                let greet = async move { (from, keeper_of_it.greet(stream).await) };
                keeper.begun(greetings.spawn(greet));
                continue;
            }
            Some(greeted) = greetings.join_next() => match greeted {
                Ok((from, Ok((outside, place)))) => {
                    let keeper = keeper.clone();
                    joined.spawn(async move { (from, keeper.join(outside, place).await) });
                    continue;
                }
                Ok((from, Err(error))) => Ok((from, Err(error))),
                Err(error) => Err(error),
            },
            Some(ended) = joined.join_next() => ended,
        };
        match ended {
            Ok((from, Err(error))) => keeper.refuse(from, &error),
            // A greeting may have been dropped for a newer one.
            Err(error) if error.is_panic() => tracing::error!(%error, "a connection was dropped"),
            Ok((_, Ok(()))) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::call::call;

    #[tokio::test]
    async fn a_dialler_that_neither_reads_nor_leaves_holds_no_place() {
        let folder = tempfile::tempdir().unwrap();
        let (ca, socket) = (folder.path().join("ca"), folder.path().join("socket"));
        let deployment = DeploymentId::random();
        let leader = tokio::net::UnixListener::bind(&socket).unwrap();
        let door = Door::open(&[IpAddr::from([127, 0, 0, 1])]).await;
        let addresses = door.addresses();
        let keeper = Keeper::new(ca.clone(), deployment, "login", 3, &socket);
        let places = keeper.places.clone();
        let _accepting = door.serve(keeper).unwrap();
        let authority = Authority::open(&ca, deployment).unwrap();
        let frozen = call(&authority, &addresses, "login", 3).await.unwrap();
        let (inside, _) = leader.accept().await.unwrap();
        assert_eq!(places.available_permits(), CONNECTIONS_MAX - 1);
        // The leader has closed it.
        drop(inside);
        let patience = Duration::from_secs(90);
        let all = places.acquire_many(CONNECTIONS_MAX as u32);
        let freed = tokio::time::timeout(patience, all).await;
        assert!(freed.is_ok(), "the place of a frozen dialler is not freed");
        drop(frozen);
    }

    #[tokio::test]
    async fn strangers_who_say_nothing_keep_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let (ca, socket) = (folder.path().join("ca"), folder.path().join("socket"));
        let deployment = DeploymentId::random();
        let _leader = tokio::net::UnixListener::bind(&socket).unwrap();
        let door = Door::open(&[IpAddr::from([127, 0, 0, 1])]).await;
        let addresses = door.addresses();
        let _accepting = door
            .serve(Keeper::new(ca.clone(), deployment, "login", 3, &socket))
            .unwrap();
        let mut strangers = Vec::new();
        for _ in 0..2 * GREETINGS_MAX {
            strangers.push(TcpStream::connect(&addresses[0]).await.unwrap());
        }
        let authority = Authority::open(&ca, deployment).unwrap();
        call(&authority, &addresses, "login", 3).await.unwrap();
    }
}
