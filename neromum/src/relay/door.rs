//! The leader's side: listens, and lets in who shows a certificate.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nero_model::DeploymentId;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::HANDSHAKE;
use super::authority::{Authority, AuthorityError};

/// Connections at once; each neroman has one or two.
const CONNECTIONS_MAX: usize = 64;
/// Pause when the system has no descriptor for a new connection.
const PAUSE_WHEN_EXHAUSTED: Duration = Duration::from_millis(100);
/// A certificate is made anew after half of the time that it is good for.
const RENEW: Duration = Duration::from_secs(12 * 3600);

/// Sockets that listen and answer nobody yet: their addresses are known before
/// the lease that names them is made.
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
                Err(error) => eprintln!("neromum: cannot listen on {address}: {error}"),
            }
        }
        Self { listeners }
    }

    /// `address:port` of each.
    pub fn addresses(&self) -> Vec<String> {
        let of = |listener: &TcpListener| Some(listener.local_addr().ok()?.to_string());
        self.listeners.iter().filter_map(of).collect()
    }

    /// Serves for as long as the runtime lives, or until the certificates
    /// cannot be made any more.
    ///
    /// # Errors
    /// When the first one cannot be made.
    pub fn serve(self, keeper: Keeper) -> Result<(), AuthorityError> {
        if self.listeners.is_empty() {
            return Ok(());
        }
        let keeper = Arc::new(keeper);
        keeper.acceptor()?;
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        for listener in self.listeners {
            tokio::spawn(accept(listener, keeper.clone(), places.clone()));
        }
        Ok(())
    }
}

/// What the door knows of the leader behind it.
#[derive(Debug)]
pub struct Keeper {
    ca: PathBuf,
    deployment: DeploymentId,
    node: String,
    epoch: u64,
    socket: PathBuf,
    made: std::sync::Mutex<Option<(tokio::time::Instant, Arc<rustls::ServerConfig>)>>,
    refused: AtomicU64,
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
            made: std::sync::Mutex::default(),
            refused: AtomicU64::new(0),
        }
    }

    fn acceptor(&self) -> Result<TlsAcceptor, AuthorityError> {
        let mut made = self.made.lock().unwrap_or_else(|held| held.into_inner());
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

    async fn let_in(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let acceptor = self.acceptor().map_err(io::Error::other)?;
        let mut outside = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let mut inside = UnixStream::connect(&self.socket).await?;
        // Tells the dialler that it was accepted: a client hears of a refusal
        // only when it reads.
        outside.write_all(&self.epoch.to_be_bytes()).await?;
        outside.flush().await?;
        // How a joined connection ends says nothing to us.
        let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
        Ok(())
    }
}

async fn accept(listener: TcpListener, keeper: Arc<Keeper>, places: Arc<Semaphore>) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(PAUSE_WHEN_EXHAUSTED).await;
            continue;
        };
        let keeper = keeper.clone();
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = keeper.let_in(stream).await {
                let before = keeper.refused.fetch_add(1, Ordering::Relaxed);
                // A scanner that comes all the time fills no log.
                if before < 100 || before.is_multiple_of(1000) {
                    tracing::warn!(%from, %error, "a connection was not let in");
                }
            }
        });
    }
}
