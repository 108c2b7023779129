//! Events for a webhook: one request (HTTP/1.1) on a connection of its own.

use std::fmt::Write as _;
use std::path::PathBuf;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use nero_config::Webhook;
use ring::hmac;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::deadlines::Deadlines;
use super::outcome::safe_line;
use super::tls::{self, TlsFault};
use super::{SendResult, child};

/// The header that names the delivery.
const DELIVERY: &str = "neronet-delivery";
/// The header with the signature: `sha256=` and the HMAC of the body.
const SIGNATURE: &str = "neronet-signature";

pub(crate) async fn post(
    webhook: &Webhook,
    id: &str,
    event: &[u8],
    deadlines: &Deadlines,
) -> SendResult {
    let key = match &webhook.secret_command {
        Some(command) => match child::secret(command, deadlines.secret).await {
            Ok(secret) => Some(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())),
            Err(why) => {
                let words = format!("no key for the webhook: {why}");
                return SendResult::Later(safe_line(&words));
            }
        },
        None => None,
    };
    let request = match WebhookServer::new(&webhook.url) {
        Some(target) => target
            .request(id, event, key.as_ref())
            .map(|request| (target, request)),
        None => None,
    };
    let Some((target, request)) = request else {
        let words = format!("{:?} is no address of the web", webhook.url);
        return SendResult::LoginRefused(safe_line(&words));
    };
    match target
        .exchange(request, webhook.ca.as_ref(), deadlines)
        .await
    {
        Ok(status) => outcome(status),
        Err(why) => SendResult::Later(safe_line(&format!("{}: {why}", target.authority))),
    }
}

/// What an answer means.
fn outcome(status: StatusCode) -> SendResult {
    let words = status.to_string();
    match status {
        status if status.is_success() => SendResult::Accepted(words),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => SendResult::Later(words),
        status if status.is_server_error() => SendResult::Later(words),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => SendResult::LoginRefused(words),
        status if status.is_redirection() => {
            let hint = "no redirection is followed: set `notify.webhook` to the last address";
            SendResult::LoginRefused(format!("{words}; {hint}"))
        }
        _ => SendResult::Refused(words),
    }
}

/// The server of a webhook.
struct WebhookServer {
    host: String,
    port: u16,
    /// As in the header `Host`.
    authority: String,
    path: String,
    is_encrypted: bool,
}

impl WebhookServer {
    fn new(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let is_encrypted = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Some(Self {
            host: host.to_owned(),
            port: uri
                .port_u16()
                .unwrap_or(if is_encrypted { 443 } else { 80 }),
            authority: uri.authority()?.as_str().to_owned(),
            path: path.to_owned(),
            is_encrypted,
        })
    }

    fn request(
        &self,
        id: &str,
        event: &[u8],
        key: Option<&hmac::Key>,
    ) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::post(&self.path)
            .header(HOST, &self.authority)
            .header(USER_AGENT, concat!("neronet/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .header(DELIVERY, HeaderValue::from_str(id).ok()?);
        if let Some(key) = key {
            request = request.header(SIGNATURE, signature(key, event));
        }
        request.body(Full::new(Bytes::copy_from_slice(event))).ok()
    }

    /// Sends the request. The error is for people.
    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        ca: Option<&PathBuf>,
        deadlines: &Deadlines,
    ) -> Result<StatusCode, String> {
        let silent = |what: &str| format!("no answer to {what} in time");
        let connect = TcpStream::connect((self.host.as_str(), self.port));
        let stream = timeout(deadlines.connect, connect).await;
        let stream = stream.map_err(|_| silent("the connection"))?;
        let stream = stream.map_err(|error| format!("cannot be reached: {error}"))?;
        if !self.is_encrypted {
            let answered = timeout(deadlines.step, answer(stream, request)).await;
            return answered.map_err(|_| silent("the request"))?;
        }
        let ca = ca.cloned();
        let trust = move || {
            let authorities = ca.map(|ca| tls::authorities("notify.webhook.ca", &ca));
            tls::client_config(authorities.transpose()?.as_deref())
        };
        let config = tls::off_thread(deadlines.step, trust).await?;
        let encrypted = timeout(deadlines.step, tls::encrypt(stream, &self.host, config)).await;
        let stream = encrypted.map_err(|_| silent("the TLS handshake"))?;
        let stream = stream.map_err(|error| match tls::fault(&error) {
            Some(TlsFault::NotTls) => "does not speak TLS; is it `http://`?".to_owned(),
            Some(TlsFault::UnknownAuthority) => {
                "its certificate is signed by an authority that is not trusted here; \
                 `notify.webhook.ca` names a file of others"
                    .to_owned()
            }
            Some(TlsFault::OtherName) => "its certificate is for other names".to_owned(),
            Some(TlsFault::Expired) => "its certificate has expired".to_owned(),
            Some(TlsFault::Other(words)) => words,
            None => error.to_string(),
        })?;
        let answered = timeout(deadlines.step, answer(stream, request)).await;
        answered.map_err(|_| silent("the request"))?
    }
}

/// The status that the server answers with. The error is for people.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<StatusCode, String> {
    let told = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(told)?;
    let exchange = async move {
        // The sender and the answer go with this block, and the connection with them.
        sender
            .send_request(request)
            .await
            .map(|answer| answer.status())
    };
    let (status, _) = tokio::join!(exchange, connection);
    status.map_err(told)
}

fn signature(key: &hmac::Key, event: &[u8]) -> String {
    let mut text = String::from("sha256=");
    for byte in hmac::sign(key, event).as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
