//! Messages for a mail server: one connection, one recipient, one message.
//!
//! `lettre` speaks the protocol. Each of its steps runs here under a deadline of its own, so that
//! the words tell where a server stands still, and what a server answers counts by the step: an
//! unknown recipient is one thing, a refused login another.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, AsyncTokioStream, Certificate, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use nero_config::{MailLogin, MailSecurity, Smtp};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::deadlines::Deadlines;
use super::outcome::safe_line;
use super::tls::{self, TlsFault};
use super::{Envelope, SendResult, child};

/// More than all answers to one message: a server that never ends a line fills no memory.
const ANSWERS_BYTES_MAX: usize = 1 << 20;
/// To say goodbye. Nothing depends on it.
const QUIT: Duration = Duration::from_secs(2);

/// Codes by which a server refuses the account, whatever it was asked: authentication needed, a
/// mechanism too weak, wrong credentials, encryption needed first.
const OF_LOGIN: [u16; 4] = [530, 534, 535, 538];

pub(crate) async fn send(
    server: &Smtp,
    envelope: &Envelope,
    message: &[u8],
    deadlines: &Deadlines,
) -> SendResult {
    let attempt = Attempt { server, deadlines };
    match attempt.send(envelope, message).await {
        Ok(words) => SendResult::Accepted(words),
        Err(outcome) => outcome,
    }
}

/// A step of the protocol, as words about its failure name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SmtpStep {
    Connect,
    Handshake,
    Greeting,
    StartTls,
    Login,
    Sender,
    Recipient,
    Data,
    Message,
}

impl SmtpStep {
    fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "the connection",
            Self::Handshake => "the TLS handshake",
            Self::Greeting => "the greeting",
            Self::StartTls => "STARTTLS",
            Self::Login => "the login",
            Self::Sender => "the sender",
            Self::Recipient => "the recipient",
            Self::Data => "the beginning of the message",
            Self::Message => "the message",
        }
    }
}

/// What encryption needs, read from the disk.
enum Trust {
    Open,
    StartTls(TlsParameters),
    Tls(Arc<ClientConfig>),
}

impl Trust {
    /// The error is for people.
    fn of(server: &Smtp) -> Result<Self, String> {
        let authorities = match &server.ca {
            Some(ca) => Some(tls::authorities("mail.ca", ca)?),
            None => None,
        };
        match server.security {
            MailSecurity::None => Ok(Self::Open),
            MailSecurity::Tls => tls::client_config(authorities.as_deref()).map(Self::Tls),
            MailSecurity::StartTls => {
                let told = |error: Error| error.to_string();
                let mut builder = TlsParameters::builder(server.host.clone());
                if let Some(pem) = authorities {
                    let certificate = Certificate::from_pem(&pem).map_err(told)?;
                    builder = builder.add_root_certificate(certificate);
                }
                builder.build().map(Self::StartTls).map_err(told)
            }
        }
    }
}

struct Attempt<'a> {
    server: &'a Smtp,
    deadlines: &'a Deadlines,
}

impl Attempt<'_> {
    async fn send(&self, envelope: &Envelope, message: &[u8]) -> Result<String, SendResult> {
        let from = address(&envelope.from)?;
        let to = address(&envelope.to)?;
        let trust = self.trust().await?;
        // Before the server is asked, which does not wait for a person.
        let credentials = match &self.server.login {
            Some(login) => Some(self.credentials(login).await?),
            None => None,
        };
        let mut connection = self.open(trust).await?;
        let sent = self
            .hand_over(&mut connection, credentials, from, to, message)
            .await;
        let _ = timeout(QUIT, connection.quit()).await;
        sent
    }

    async fn credentials(&self, login: &MailLogin) -> Result<Credentials, SendResult> {
        let password = child::secret(&login.password_command, self.deadlines.secret).await;
        let password =
            password.map_err(|why| later(format!("no password for {}: {why}", login.name)))?;
        Ok(Credentials::new(login.name.clone(), password))
    }

    /// Reads which authorities are trusted. The file may lie on a disk that does not answer.
    async fn trust(&self) -> Result<Trust, SendResult> {
        let (server, step) = (self.server.clone(), self.deadlines.step);
        tls::off_thread(step, move || Trust::of(&server))
            .await
            .map_err(later)
    }

    /// A connection that is encrypted as configured, behind the greetings.
    async fn open(&self, trust: Trust) -> Result<AsyncSmtpConnection, SendResult> {
        let Smtp { host, port, .. } = self.server;
        let connect = TcpStream::connect((host.as_str(), *port));
        let stream = self.step(SmtpStep::Connect, connect).await?;
        let peer = stream.peer_addr();
        let peer = peer.map_err(|error| self.failed(SmtpStep::Connect, &error, None))?;
        let stream = BoundedStream::boxed(stream, peer);
        let (stream, upgrade) = match trust {
            Trust::Tls(config) => {
                let handshake = tls::encrypt(stream, host, config);
                let encrypted = self.step(SmtpStep::Handshake, handshake).await?;
                (BoundedStream::boxed(encrypted, peer), None)
            }
            Trust::StartTls(parameters) => (stream, Some(parameters)),
            Trust::Open => (stream, None),
        };
        let hello = ClientId::default();
        let greet = AsyncSmtpConnection::connect_with_transport(stream, &hello);
        let mut connection = self.ask(SmtpStep::Greeting, greet).await?;
        if let Some(parameters) = upgrade {
            if !connection.can_starttls() {
                let hint = "a port that is encrypted from the start (465) needs \
                            `mail.security: tls`";
                let words = format!("{} offers no STARTTLS; {hint}", self.server.address());
                return Err(later(words));
            }
            let upgrade = connection.starttls(parameters, &hello);
            self.ask(SmtpStep::StartTls, upgrade).await?;
        }
        Ok(connection)
    }

    async fn hand_over(
        &self,
        connection: &mut AsyncSmtpConnection,
        credentials: Option<Credentials>,
        from: Address,
        to: Address,
        message: &[u8],
    ) -> Result<String, SendResult> {
        if let Some(credentials) = credentials {
            let offered = connection.server_info();
            if offered.get_auth_mechanism(MECHANISMS).is_none() {
                return Err(later(self.no_login()));
            }
            let login = connection.auth(MECHANISMS, &credentials);
            self.ask(SmtpStep::Login, login).await?;
        }
        let mut parameters = Vec::new();
        // Of a message with plain addresses every byte is ASCII.
        if !from.to_string().is_ascii() || !to.to_string().is_ascii() {
            let offered = connection.server_info();
            if !offered.supports_feature(Extension::SmtpUtfEight) {
                let words = "the server takes no addresses beyond ASCII (SMTPUTF8)";
                return Err(SendResult::Refused(words.to_owned()));
            }
            let eight_bits = MailParameter::Body(MailBodyParameter::EightBitMime);
            parameters.extend([eight_bits, MailParameter::SmtpUtfEight]);
        }
        let sender = connection.command(Mail::new(Some(from), parameters));
        self.ask(SmtpStep::Sender, sender).await?;
        let recipient = connection.command(Rcpt::new(to, Vec::new()));
        self.ask(SmtpStep::Recipient, recipient).await?;
        self.ask(SmtpStep::Data, connection.command(Data)).await?;
        let answer = self
            .ask(SmtpStep::Message, connection.message(message))
            .await?;
        let words: Vec<&str> = answer.message().collect();
        Ok(safe_line(&format!("{} {}", answer.code(), words.join(" "))))
    }

    /// A step of the network.
    async fn step<T>(
        &self,
        step: SmtpStep,
        work: impl Future<Output = io::Result<T>>,
    ) -> Result<T, SendResult> {
        match timeout(self.time(step), work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.failed(step, &error, None)),
            Err(_) => Err(later(self.silent(step))),
        }
    }

    /// A step that the server answers.
    async fn ask<T>(
        &self,
        step: SmtpStep,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, SendResult> {
        match timeout(self.time(step), work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.failed(step, &error, error.status().map(u16::from))),
            Err(_) => Err(later(self.silent(step))),
        }
    }

    fn time(&self, step: SmtpStep) -> Duration {
        match step {
            SmtpStep::Connect => self.deadlines.connect,
            SmtpStep::Message => self.deadlines.accept,
            SmtpStep::Handshake
            | SmtpStep::Greeting
            | SmtpStep::StartTls
            | SmtpStep::Login
            | SmtpStep::Sender
            | SmtpStep::Recipient
            | SmtpStep::Data => self.deadlines.step,
        }
    }

    /// What a failure of a step means; `code` is what the server answered.
    fn failed(
        &self,
        step: SmtpStep,
        error: &(dyn std::error::Error + 'static),
        code: Option<u16>,
    ) -> SendResult {
        let Some(code) = code else {
            return later(self.broken(step, error));
        };
        let said = error.source().map(ToString::to_string).unwrap_or_default();
        let said = format!("{code} {said}");
        if code < 500 {
            return later(said);
        }
        if OF_LOGIN.contains(&code) {
            let hint = match &self.server.login {
                None => "; set `mail.login` and `mail.password_command`",
                Some(_) => "",
            };
            return SendResult::LoginRefused(safe_line(&format!("{said}{hint}")));
        }
        match step {
            SmtpStep::Recipient | SmtpStep::Data | SmtpStep::Message => {
                SendResult::Refused(safe_line(&said))
            }
            SmtpStep::Login => SendResult::LoginRefused(safe_line(&said)),
            SmtpStep::Sender => {
                let words = format!("{said} (about the sender, `mail.from`)");
                SendResult::LoginRefused(safe_line(&words))
            }
            // A server in trouble greets with 554.
            SmtpStep::Connect | SmtpStep::Handshake | SmtpStep::Greeting | SmtpStep::StartTls => {
                later(said)
            }
        }
    }

    /// Words about a connection that broke.
    fn broken(&self, step: SmtpStep, error: &(dyn std::error::Error + 'static)) -> String {
        let (server, host) = (self.server.address(), &self.server.host);
        match tls::fault(error) {
            Some(TlsFault::NotTls) if step == SmtpStep::Handshake => format!(
                "{server} does not speak TLS from the start; take `mail.security: starttls`, or the port of TLS (465)"
            ),
            Some(TlsFault::NotTls) => format!("{server} answers STARTTLS with something else"),
            Some(TlsFault::UnknownAuthority) => format!(
                "the certificate of {host} is signed by an authority that is not trusted here; if it is your own, set `mail.ca` to its file"
            ),
            Some(TlsFault::OtherName) => {
                format!(
                    "the certificate of {server} is for other names than {host}; set `mail.smtp` to one of them"
                )
            }
            Some(TlsFault::Expired) => {
                format!("the certificate of {host} has expired, or a clock is wrong")
            }
            Some(TlsFault::Other(words)) => format!("{server}: {words}"),
            None if step == SmtpStep::Connect => format!("cannot reach {server}: {error}"),
            None => {
                let maybe = match step {
                    SmtpStep::Message => " (it may have been taken)",
                    _ => "",
                };
                format!("{server} broke off at {}: {error}{maybe}", step.as_str())
            }
        }
    }

    /// Words about a server that does not answer.
    fn silent(&self, step: SmtpStep) -> String {
        let server = self.server.address();
        let seconds = self.time(step).as_secs();
        match step {
            SmtpStep::Connect => format!("cannot reach {server}: no answer within {seconds} s"),
            SmtpStep::Greeting if self.server.security != MailSecurity::Tls => format!(
                "{server} took the connection and did not greet within {seconds} s; a port that is encrypted from the start (465) needs `mail.security: tls`"
            ),
            SmtpStep::Message => format!(
                "{server} did not answer to the message within {seconds} s; it may have been taken"
            ),
            SmtpStep::Handshake
            | SmtpStep::Greeting
            | SmtpStep::StartTls
            | SmtpStep::Login
            | SmtpStep::Sender
            | SmtpStep::Recipient
            | SmtpStep::Data => {
                format!(
                    "{server} did not answer to {} within {seconds} s",
                    step.as_str()
                )
            }
        }
    }

    fn no_login(&self) -> String {
        let server = self.server.address();
        match self.server.security {
            MailSecurity::None => format!(
                "{server} takes no login on an open connection; take `mail.security: starttls`"
            ),
            MailSecurity::StartTls | MailSecurity::Tls => format!(
                "{server} takes no login by name and password (PLAIN, LOGIN); leave `mail.login` out if it needs none"
            ),
        }
    }
}

const MECHANISMS: &[Mechanism] = &[Mechanism::Plain, Mechanism::Login];

fn later(words: impl AsRef<str>) -> SendResult {
    SendResult::Later(safe_line(words.as_ref()))
}

fn address(text: &str) -> Result<Address, SendResult> {
    let wrong = |_| SendResult::Refused(safe_line(&format!("{text:?} is no address of mail")));
    text.parse().map_err(wrong)
}

/// A connection that gives a bounded number of bytes.
struct BoundedStream<S> {
    stream: S,
    peer: SocketAddr,
    bytes_left: usize,
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static> BoundedStream<S> {
    fn boxed(stream: S, peer: SocketAddr) -> Box<dyn AsyncTokioStream> {
        Box::new(Self {
            stream,
            peer,
            bytes_left: ANSWERS_BYTES_MAX,
        })
    }
}

impl<S> fmt::Debug for BoundedStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bounded").field("peer", &self.peer).finish()
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> AsyncTokioStream for BoundedStream<S> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes_left == 0 {
            let error = io::Error::new(io::ErrorKind::InvalidData, "the server sends too much");
            return Poll::Ready(Err(error));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
