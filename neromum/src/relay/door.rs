//! The leader's side: listens, and accepts peers that show a certificate.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nero_model::DeploymentId;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
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
/// Time for diallers to take the leader's last answers when it leaves.
const LAST_WORDS: Duration = Duration::from_secs(1);
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

    /// Accepts connections until the result is closed or dropped, a task for each socket.
    ///
    /// # Errors
    /// When the first certificate cannot be made.
    pub fn serve(self, keeper: Keeper) -> Result<OpenDoor, AuthorityError> {
        let mut accepting = JoinSet::new();
        let (close, closed) = watch::channel(());
        if !self.listeners.is_empty() {
            let keeper = Arc::new(keeper);
            keeper.acceptor()?;
            for listener in self.listeners {
                accepting.spawn(accept(listener, keeper.clone(), closed.clone()));
            }
        }
        Ok(OpenDoor { accepting, close })
    }
}

/// A door that answers.
#[derive(Debug)]
pub struct OpenDoor {
    accepting: JoinSet<()>,
    /// Dropped when the door closes.
    close: watch::Sender<()>,
}

impl OpenDoor {
    /// Reports every address that is not served any more, which takes a bug of ours.
    pub async fn watch(&mut self) -> Infallible {
        while let Some(ended) = self.accepting.join_next().await {
            tracing::error!(?ended, "other hosts are not heard at one address");
        }
        std::future::pending().await
    }

    /// Accepts nothing more. What the leader has sent still reaches the diallers, if they
    /// take it within [`LAST_WORDS`].
    pub async fn close(self) {
        let Self {
            mut accepting,
            close,
        } = self;
        drop(close);
        let all = async { while accepting.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_WORDS, all).await;
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

/// The next connection. Its pauses are part of the wait, so that a loop that waits for
/// other things, too, goes on with these meanwhile.
async fn next<T, F: Future<Output = io::Result<T>>>(accept: impl Fn() -> F) -> T {
    loop {
        match accept().await {
            Ok(connection) => return connection,
            Err(_) => tokio::time::sleep(PAUSE_WHEN_EXHAUSTED).await,
        }
    }
}

async fn accept(listener: TcpListener, keeper: Arc<Keeper>, mut closed: watch::Receiver<()>) {
    let (mut greetings, mut joined) = (JoinSet::new(), JoinSet::new());
    loop {
        let ended = tokio::select! {
            (stream, from) = next(|| listener.accept()) => {
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
            _ = closed.changed() => break,
        };
        match ended {
            Ok((from, Err(error))) => keeper.refuse(from, &error),
            // A greeting may have been dropped for a newer one.
            Err(error) if error.is_panic() => tracing::error!(%error, "a connection was dropped"),
            Ok((_, Ok(()))) | Err(_) => {}
        }
    }
    // Each ends once the leader has closed its side.
    while joined.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::call::call;
    use std::sync::atomic::AtomicBool;
    use tokio::io::AsyncReadExt;

    /// A door on loopback that nothing serves yet, with a leader behind it.
    struct Doorway {
        door: Door,
        addresses: Vec<String>,
        keeper: Keeper,
        authority: Authority,
        leader: tokio::net::UnixListener,
        _folder: tempfile::TempDir,
    }

    impl Doorway {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (ca, socket) = (folder.path().join("ca"), folder.path().join("socket"));
            let deployment = DeploymentId::random();
            let leader = tokio::net::UnixListener::bind(&socket).unwrap();
            let door = Door::open(&[IpAddr::from([127, 0, 0, 1])]).await;
            Self {
                addresses: door.addresses(),
                door,
                keeper: Keeper::new(ca.clone(), deployment, "login", 3, &socket),
                authority: Authority::open(&ca, deployment).unwrap(),
                leader,
                _folder: folder,
            }
        }
    }

    #[tokio::test]
    async fn the_last_answer_of_a_leader_that_leaves_reaches_the_dialler() {
        let site = Doorway::new().await;
        let serving = site.door.serve(site.keeper).unwrap();
        let mut dialler = call(&site.authority, &site.addresses, "login", 3)
            .await
            .unwrap();
        let (mut inside, _) = site.leader.accept().await.unwrap();
        let answer = vec![7; 100_000];
        inside.write_all(&answer).await.unwrap();
        drop(inside);
        let hearing = async {
            let mut heard = Vec::new();
            dialler.read_to_end(&mut heard).await.map(|_| heard)
        };
        let (heard, ()) = tokio::join!(hearing, serving.close());
        assert_eq!(heard.unwrap().len(), answer.len());
    }

    #[tokio::test]
    async fn a_lack_of_descriptors_delays_nothing_but_the_next_connection() {
        let exhausted = AtomicBool::new(true);
        let accept = || {
            std::future::ready(if exhausted.load(Ordering::SeqCst) {
                Err(io::Error::from(rustix::io::Errno::MFILE))
            } else {
                Ok(())
            })
        };
        let mut waiting = std::pin::pin!(next(accept));
        tokio::select! {
            biased;
            () = &mut waiting => panic!("nothing can be accepted yet"),
            () = std::future::ready(()) => {}
        }
        exhausted.store(false, Ordering::SeqCst);
        waiting.await;
    }

    #[tokio::test]
    async fn a_dialler_that_neither_reads_nor_leaves_holds_no_place() {
        let site = Doorway::new().await;
        let places = site.keeper.places.clone();
        let _accepting = site.door.serve(site.keeper).unwrap();
        let frozen = call(&site.authority, &site.addresses, "login", 3)
            .await
            .unwrap();
        let (inside, _) = site.leader.accept().await.unwrap();
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
        let site = Doorway::new().await;
        let _accepting = site.door.serve(site.keeper).unwrap();
        let mut strangers = Vec::new();
        for _ in 0..2 * GREETINGS_MAX {
            strangers.push(TcpStream::connect(&site.addresses[0]).await.unwrap());
        }
        call(&site.authority, &site.addresses, "login", 3)
            .await
            .unwrap();
    }
}
