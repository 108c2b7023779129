//! Accepted and refused peers, over a real TLS handshake in memory. Each
//! refusal stands beside the same handshake with correct values.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const NODE: &str = "login";

struct TempAuthority {
    _folder: tempfile::TempDir,
    authority: Authority,
    deployment: DeploymentId,
}

fn place() -> TempAuthority {
    let folder = tempfile::tempdir().unwrap();
    let deployment = DeploymentId::random();
    let authority = Authority::open(&folder.path().join("ca"), deployment).unwrap();
    TempAuthority {
        _folder: folder,
        authority,
        deployment,
    }
}

/// One byte from the server to the client, once both have accepted each other.
async fn meet(
    server: ServerConfig,
    (client, name): (ClientConfig, ServerName<'static>),
) -> Result<u8, String> {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let serving = tokio::spawn(async move {
        let mut stream = TlsAcceptor::from(Arc::new(server)).accept(far).await?;
        stream.write_all(b"!").await?;
        stream.flush().await?;
        // Until the client has read it.
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.map(drop)
    });
    let calling = async {
        let mut stream = TlsConnector::from(Arc::new(client))
            .connect(name, near)
            .await?;
        let byte = stream.read_u8().await?;
        stream.shutdown().await?;
        Ok::<u8, io::Error>(byte)
    };
    let called = calling.await.map_err(|error| error.to_string());
    let served = serving.await.unwrap().map_err(|error| error.to_string());
    match (called, served) {
        (Ok(byte), Ok(())) => Ok(byte),
        (called, served) => Err(format!("client {called:?}, server {served:?}")),
    }
}

fn client_with(place: &TempAuthority, own: CertifiedKey) -> (ClientConfig, ServerName<'static>) {
    let config = place
        .authority
        .client_with(Arc::new(SingleCertificate(Arc::new(own))))
        .unwrap();
    let name = name(place.deployment, NODE, 3);
    (config, ServerName::try_from(name).unwrap())
}

#[tokio::test]
async fn a_dialler_and_a_leader_of_one_deployment_meet() {
    let place = place();
    let server = place.authority.server(NODE, 3).unwrap();
    let client = place.authority.client(NODE, 3).unwrap();
    assert_eq!(meet(server, client).await, Ok(b'!'));
}

#[tokio::test]
async fn the_authority_is_the_same_for_all_who_open_it() {
    let place = place();
    let folder = place._folder.path().join("ca");
    let again = Authority::open(&folder, place.deployment).unwrap();
    let server = place.authority.server(NODE, 3).unwrap();
    assert_eq!(meet(server, again.client(NODE, 3).unwrap()).await, Ok(b'!'));
    let mode = |path: &Path| {
        let found = std::fs::metadata(path).unwrap();
        std::os::unix::fs::MetadataExt::mode(&found) & 0o777
    };
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("authority")), 0o600);
}

#[tokio::test]
async fn a_dialler_of_another_deployment_is_refused() {
    let (place, other) = (place(), place());
    let stranger = other
        .authority
        .certify(Role::Dialler, "dialler.neronet", now())
        .unwrap();
    let server = place.authority.server(NODE, 3).unwrap();
    meet(server, client_with(&place, stranger))
        .await
        .unwrap_err();
    let own = place
        .authority
        .certify(Role::Dialler, "dialler.neronet", now())
        .unwrap();
    let server = place.authority.server(NODE, 3).unwrap();
    meet(server, client_with(&place, own)).await.unwrap();
}

#[tokio::test]
async fn a_leader_of_another_deployment_is_refused() {
    let (place, other) = (place(), place());
    // It even uses the right name.
    let name = name(place.deployment, NODE, 3);
    let own = other.authority.certify(Role::Leader, &name, now()).unwrap();
    let server = other
        .authority
        .server_with(Arc::new(SingleCertificate(Arc::new(own))))
        .unwrap();
    meet(server, place.authority.client(NODE, 3).unwrap())
        .await
        .unwrap_err();
}

#[tokio::test]
async fn the_leader_of_another_epoch_or_node_is_refused() {
    let place = place();
    for (node, epoch) in [(NODE, 2), ("other", 3)] {
        let server = place.authority.server(node, epoch).unwrap();
        let client = place.authority.client(NODE, 3).unwrap();
        meet(server, client).await.unwrap_err();
    }
}

#[tokio::test]
async fn certificates_of_yesterday_and_of_tomorrow_are_refused() {
    let place = place();
    let off = VALID + Duration::from_secs(60);
    for at in [now() - off, now() + off] {
        let own = place
            .authority
            .certify(Role::Dialler, "dialler.neronet", at)
            .unwrap();
        let server = place.authority.server(NODE, 3).unwrap();
        let error = meet(server, client_with(&place, own)).await.unwrap_err();
        assert!(
            error.to_lowercase().contains("expired") || error.contains("NotValidYet"),
            "{error}"
        );
    }
    // Clocks that differ by hours are no reason to refuse.
    let own = place
        .authority
        .certify(Role::Dialler, "dialler.neronet", now() - VALID / 2)
        .unwrap();
    let server = place.authority.server(NODE, 3).unwrap();
    meet(server, client_with(&place, own)).await.unwrap();
}

#[tokio::test]
async fn a_leaders_certificate_is_no_diallers() {
    let place = place();
    let own = place
        .authority
        .certify(Role::Leader, "dialler.neronet", now())
        .unwrap();
    let server = place.authority.server(NODE, 3).unwrap();
    meet(server, client_with(&place, own)).await.unwrap_err();
}

#[tokio::test]
async fn a_certificate_replayed_without_its_key_is_refused() {
    let place = place();
    let seen = place
        .authority
        .certify(Role::Dialler, "dialler.neronet", now())
        .unwrap();
    let own = place
        .authority
        .certify(Role::Dialler, "dialler.neronet", now())
        .unwrap();
    let replayed = CertifiedKey::new(seen.cert.clone(), own.key);
    let server = place.authority.server(NODE, 3).unwrap();
    meet(server, client_with(&place, replayed))
        .await
        .unwrap_err();
    let server = place.authority.server(NODE, 3).unwrap();
    meet(server, client_with(&place, seen)).await.unwrap();
}

#[tokio::test]
async fn no_client_without_a_certificate_is_let_in() {
    let place = place();
    let config = ClientConfig::builder_with_provider(place.authority.provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(place.authority.roots().unwrap())
        .with_no_client_auth();
    let name = ServerName::try_from(name(place.deployment, NODE, 3)).unwrap();
    let server = place.authority.server(NODE, 3).unwrap();
    meet(server, (config, name)).await.unwrap_err();
}

#[test]
fn an_authority_that_others_may_read_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let deployment = DeploymentId::random();
    let ca = folder.path().join("ca");
    Authority::open(&ca, deployment).unwrap();
    let path = ca.join("authority");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&path, open).unwrap();
    let error = Authority::open(&ca, deployment).unwrap_err();
    assert!(matches!(error, AuthorityError::Open { .. }), "{error}");
}
