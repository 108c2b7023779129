//! The dialler's side: calls every address of the leader at once and takes the
//! first that proves to be the leader.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::authority::Authority;
use super::{CONNECT, HANDSHAKE};

/// Limit of addresses of one lease that are called.
const ADDRESSES_MAX: usize = 8;

/// Connects to the leader of `epoch`.
///
/// # Errors
/// When no address leads to the leader; the error is that of the first address.
pub async fn call(
    authority: &Authority,
    addresses: &[String],
    node: &str,
    epoch: u64,
) -> io::Result<TlsStream<TcpStream>> {
    let (config, name) = authority.client(node, epoch).map_err(io::Error::other)?;
    let config = Arc::new(config);
    let mut calls: FuturesUnordered<_> = addresses
        .iter()
        .take(ADDRESSES_MAX)
        .filter_map(|address| address.parse::<SocketAddr>().ok())
        .map(|address| call_one(address, config.clone(), name.clone(), epoch))
        .collect();
    let mut first = None;
    while let Some(called) = calls.next().await {
        match called {
            Ok(stream) => return Ok(stream),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable)))
}

async fn call_one(
    address: SocketAddr,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    epoch: u64,
) -> io::Result<TlsStream<TcpStream>> {
    let said = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("{address}: no answer"));
    let stream = tokio::time::timeout(CONNECT, TcpStream::connect(address))
        .await
        .map_err(late)?
        .map_err(said)?;
    stream.set_nodelay(true)?;
    let greeted = async {
        let mut stream = TlsConnector::from(config).connect(name, stream).await?;
        match stream.read_u64().await? {
            theirs if theirs == epoch => Ok(stream),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the leader of another epoch answers",
            )),
        }
    };
    tokio::time::timeout(HANDSHAKE, greeted)
        .await
        .map_err(late)?
        .map_err(said)
}
