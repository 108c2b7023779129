//! Proof that a peer on the cluster's network is a neromum of this deployment:
//! an authority in the deployment's folder, and certificates for a day that
//! every process makes for itself, in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nero_journal::frame::{self, FrameError, FrameKind};
use nero_journal::v1;
use nero_model::DeploymentId;
use nero_model::paths::make_private;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Time before and after now for which a certificate is valid; clocks of one cluster
/// differ by less.
const VALID: Duration = Duration::from_secs(24 * 3600);

/// Reason why there is no secure connection.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The authority's file cannot be made or read.
    #[error("cannot use {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// The file is damaged; it is left untouched.
    #[error(
        "cannot read {path}; move it away to have a new one made when the last neromum has left"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        #[source]
        source: FrameError,
    },
    /// Others may read the signing key.
    #[error(
        "{path} can be read by others; remove it to have a new one made, and look who did that"
    )]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate")]
    Certificate(#[source] rcgen::Error),
    /// TLS cannot be set up with it.
    #[error("cannot set TLS up")]
    Tls(#[source] rustls::Error),
    /// The authority's certificate cannot be used to verify peers.
    #[error("cannot verify certificates")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}

/// A deployment's authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    deployment: DeploymentId,
    provider: Arc<CryptoProvider>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authority({})", self.deployment)
    }
}

/// Role of a certificate's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Leader,
    Dialler,
}

impl Authority {
    /// Reads the authority of this deployment; makes it when there is none.
    ///
    /// # Errors
    /// When the authority cannot be read or made.
    pub fn open(folder: &Path, deployment: DeploymentId) -> Result<Self, AuthorityError> {
        let path = folder.join("authority");
        let io_error = |source| AuthorityError::Io {
            path: path.clone(),
            source,
        };
        if !path.exists() {
            make_private(folder).map_err(io_error)?;
            match frame::create_synced(FrameKind::Authority, &path, &new(deployment)?) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(io_error(error));
                }
                // Whether we made it or a faster process did, it is read below.
                Ok(()) | Err(_) => {}
            }
        }
        let mode = std::fs::metadata(&path).map_err(io_error)?;
        if std::os::unix::fs::MetadataExt::mode(&mode) & 0o077 != 0 {
            return Err(AuthorityError::Open { path });
        }
        match frame::read(FrameKind::Authority, &path) {
            Ok(kept) => Self::of(kept, deployment),
            Err(FrameError::Io(source)) => Err(io_error(source)),
            Err(source) => Err(AuthorityError::Damaged { path, source }),
        }
    }

    fn of(kept: v1::Authority, deployment: DeploymentId) -> Result<Self, AuthorityError> {
        let key = KeyPair::try_from(kept.key).map_err(AuthorityError::Certificate)?;
        Ok(Self {
            issuer: Issuer::new(params(deployment), key),
            certificate: CertificateDer::from(kept.certificate),
            deployment,
            provider: Arc::new(rustls::crypto::ring::default_provider()),
        })
    }

    /// Configuration of the leader of an epoch: it accepts holders of a
    /// dialler's certificate of this deployment, and no other peer.
    ///
    /// # Errors
    /// When a key or certificate cannot be made.
    pub fn server(&self, node: &str, epoch: u64) -> Result<ServerConfig, AuthorityError> {
        let own = self.certify(Role::Leader, &name(self.deployment, node, epoch), now())?;
        self.server_with(Arc::new(SingleCertificate(Arc::new(own))))
    }

    fn server_with(
        &self,
        own: Arc<dyn rustls::server::ResolvesServerCert>,
    ) -> Result<ServerConfig, AuthorityError> {
        let verifier =
            WebPkiClientVerifier::builder_with_provider(self.roots()?, self.provider.clone())
                .build()
                .map_err(AuthorityError::Verifier)?;
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(AuthorityError::Tls)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(own);
        // No session tickets: each connection shows its certificate.
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// Configuration of a dialler, and the name in the certificate of that
    /// epoch's leader.
    ///
    /// # Errors
    /// When a key or certificate cannot be made.
    pub fn client(
        &self,
        node: &str,
        epoch: u64,
    ) -> Result<(ClientConfig, ServerName<'static>), AuthorityError> {
        let own = self.certify(Role::Dialler, "dialler.neronet", now())?;
        let config = self.client_with(Arc::new(SingleCertificate(Arc::new(own))))?;
        let name = name(self.deployment, node, epoch);
        let name = ServerName::try_from(name).expect("letters, digits and dots are a name");
        Ok((config, name))
    }

    fn client_with(
        &self,
        own: Arc<dyn rustls::client::ResolvesClientCert>,
    ) -> Result<ClientConfig, AuthorityError> {
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(AuthorityError::Tls)?
            .with_root_certificates(self.roots()?)
            .with_client_cert_resolver(own);
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, AuthorityError> {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.certificate.clone())
            .map_err(AuthorityError::Tls)?;
        Ok(Arc::new(roots))
    }

    /// Makes a new key and a certificate for it, valid for a day before and
    /// after `at`.
    fn certify(
        &self,
        role: Role,
        name: &str,
        at: SystemTime,
    ) -> Result<CertifiedKey, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Certificate)?;
        let mut leaf =
            CertificateParams::new([name.to_owned()]).map_err(AuthorityError::Certificate)?;
        leaf.distinguished_name = rcgen::DistinguishedName::new();
        leaf.distinguished_name.push(DnType::CommonName, "neromum");
        leaf.not_before = (at - VALID).into();
        leaf.not_after = (at + VALID).into();
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![match role {
            Role::Leader => ExtendedKeyUsagePurpose::ServerAuth,
            Role::Dialler => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        let signed = leaf
            .signed_by(&key, &self.issuer)
            .map_err(AuthorityError::Certificate)?;
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        CertifiedKey::from_der(vec![signed.der().clone()], private, &self.provider)
            .map_err(AuthorityError::Tls)
    }
}

/// Shows one certificate to every peer.
#[derive(Debug)]
struct SingleCertificate(Arc<CertifiedKey>);

impl rustls::server::ResolvesServerCert for SingleCertificate {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

impl rustls::client::ResolvesClientCert for SingleCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn now() -> SystemTime {
    SystemTime::now()
}

/// Contents of the authority's own certificate; always the same.
fn params(deployment: DeploymentId) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, format!("neronet {deployment}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn new(deployment: DeploymentId) -> Result<v1::Authority, AuthorityError> {
    let key = KeyPair::generate().map_err(AuthorityError::Certificate)?;
    let certificate = params(deployment)
        .self_signed(&key)
        .map_err(AuthorityError::Certificate)?;
    Ok(v1::Authority {
        key: key.serialize_der(),
        certificate: certificate.der().to_vec(),
    })
}

/// The name of an epoch's leader. Leaders of other deployments, nodes or epochs
/// have other names.
fn name(deployment: DeploymentId, node: &str, epoch: u64) -> String {
    let node = blake3::hash(node.as_bytes());
    let node = nero_model::ids::hex(&node.as_bytes()[..10]);
    format!("e{epoch}.{node}.{deployment}.neronet")
}

#[cfg(test)]
mod tests;
