//! Encrypted connections: which authorities are trusted, and what a failure means.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Encrypts a connection to `host`.
pub(crate) async fn encrypt<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    host: &str,
    config: Arc<ClientConfig>,
) -> io::Result<TlsStream<S>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(config).connect(name, stream).await
}

/// Does work with the disk on a thread of its own, within a deadline. The error is for people.
pub(crate) async fn off_thread<T: Send + 'static>(
    deadline: Duration,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match timeout(deadline, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            Err("the certificates to trust cannot be read: their disk does not answer".to_owned())
        }
    }
}

/// Trusts the authorities of the system and those of `authorities` (PEM). The error is for
/// people.
pub(crate) fn client_config(authorities: Option<&[u8]>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    // A certificate of the system that cannot be read is one authority less.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for one in CertificateDer::pem_slice_iter(authorities.unwrap_or_default()) {
        let one = one.map_err(|error| error.to_string())?;
        roots.add(one).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(
        config.with_root_certificates(roots).with_no_client_auth(),
    ))
}

/// The content of the file that a word of the configuration names. The error is for people.
pub(crate) fn authorities(word: &str, ca: &Path) -> Result<Vec<u8>, String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let path = match (ca.strip_prefix("~"), home) {
        (Ok(below), Some(home)) => home.join(below),
        (Ok(_), None) | (Err(_), _) => ca.to_path_buf(),
    };
    let cannot = |why: &str| format!("cannot read `{word}` {}: {why}", path.display());
    let pem = fs::read(&path).map_err(|error| cannot(&error.to_string()))?;
    let mut certificates = CertificateDer::pem_slice_iter(&pem);
    match certificates.next() {
        Some(Ok(_)) => Ok(pem),
        Some(Err(error)) => Err(cannot(&error.to_string())),
        None => Err(cannot("there is no certificate (PEM) in it")),
    }
}

/// What a failed handshake means.
pub(crate) enum TlsFault {
    /// The other side does not speak TLS.
    NotTls,
    /// Its certificate is signed by an authority that is not trusted.
    UnknownAuthority,
    /// Its certificate is of another name.
    OtherName,
    /// Its certificate holds no longer, or not yet.
    Expired,
    /// Anything else, in words.
    Other(String),
}

/// What an error means, if it comes from TLS.
pub(crate) fn fault(error: &(dyn Error + 'static)) -> Option<TlsFault> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(found) = inner.or_else(|| error.downcast_ref::<rustls::Error>()) {
            return Some(fault_of(found));
        }
        cause = error.source();
    }
    None
}

fn fault_of(error: &rustls::Error) -> TlsFault {
    match error {
        rustls::Error::InvalidMessage(_) => TlsFault::NotTls,
        rustls::Error::InvalidCertificate(fault) => match fault {
            CertificateError::UnknownIssuer => TlsFault::UnknownAuthority,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsFault::OtherName
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => TlsFault::Expired,
            other => TlsFault::Other(other.to_string()),
        },
        other => TlsFault::Other(other.to_string()),
    }
}
