//! Reaching the leader where several hosts share the root: at its socket, over
//! its relay, or by having the next epoch begun here.

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use nero_journal::v1::Lease;
use nero_model::paths::NodePaths;
use nero_model::process::ProcessHandle;
use nero_model::safe::Safe;
use nero_node::lease::files::NewestLease;
use nero_node::lease::{Eye, Leases};
use nero_node_core::lease::{FailedAttempts, ObservedLease, Step, decide};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::Child;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use super::start::{self, log, spawn};
use super::{DialError, failed};
use crate::args::Options;
use crate::relay::authority::Authority;
use crate::relay::call::call;

/// Time added to the beats after which a silent leader is replaced.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of beats for which the search goes on.
const BEATS: u32 = 5;
/// First and longest pause between two looks.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));
/// Time after which a relay that did not answer is tried again.
const RELAY_AGAIN: Duration = Duration::from_secs(3);

/// A way to the leader.
#[derive(Debug)]
pub enum Way {
    /// To a leader on this host.
    Socket(UnixStream),
    /// To a leader on another host.
    Relay(Box<TlsStream<TcpStream>>),
}

/// State of the search.
struct Search<'a> {
    options: &'a Options,
    paths: &'a NodePaths,
    leases: Leases,
    eye: Eye,
    epoch: u64,
    socket_since: Option<Instant>,
    rebind: bool,
    relay_at: Option<Instant>,
    met: String,
    child: Option<Child>,
}

/// Finds the way to the leading neromum.
///
/// # Errors
/// When no leader can be reached for several beats.
pub async fn reach(options: &Options, paths: &NodePaths) -> Result<Way, DialError> {
    let leases = Leases::open(&paths.lease()).map_err(DialError::Lease)?;
    let mut search = Search {
        options,
        paths,
        leases,
        eye: Eye::own().map_err(failed("read /proc"))?,
        epoch: 0,
        socket_since: None,
        rebind: false,
        relay_at: None,
        met: String::new(),
        child: None,
    };
    let patience = options.terms.beat * BEATS + PATIENCE;
    let deadline = Instant::now() + patience;
    let (mut pause, longest) = PAUSES;
    loop {
        if let Some(way) = search.turn().await? {
            return Ok(way);
        }
        if Instant::now() >= deadline {
            return Err(DialError::Unreachable {
                seconds: patience.as_secs(),
                met: search.met,
            });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

impl Search<'_> {
    /// Looks once and takes the next step; returns the way when there is one.
    async fn turn(&mut self) -> Result<Option<Way>, DialError> {
        let ended = self.child_ended();
        let found = self
            .leases
            .newest_lease(&self.eye)
            .map_err(DialError::Lease)?;
        self.meet(found.as_ref().map(|found| &found.seen));
        let step = decide(found.as_ref().map(|found| &found.seen), self.tried());
        match (step, &found) {
            (Step::Connect, Some(found)) => {
                return Ok(self.connect(found).await?.map(Way::Socket));
            }
            (Step::Relay, Some(found)) => return Ok(self.relay(found).await),
            (Step::Rebind, Some(found)) => {
                self.rebind = true;
                hang_up(&found.lease);
            }
            (Step::Lead(_), _) => self.start(ended, found.as_ref())?,
            (Step::Wait, _) | (Step::Connect | Step::Relay | Step::Rebind, None) => {}
        }
        Ok(None)
    }

    /// Forgets the tries when the lease is another than before: they prove
    /// nothing about it.
    fn meet(&mut self, seen: Option<&ObservedLease>) {
        let epoch = seen.map_or(0, |seen| seen.epoch);
        if self.epoch != epoch {
            self.epoch = epoch;
            self.socket_since = None;
            self.rebind = false;
            self.relay_at = None;
        }
    }

    fn tried(&self) -> FailedAttempts {
        FailedAttempts {
            socket: self.socket_since.map(|since| since.elapsed()),
            rebind: self.rebind,
            relay: self.relay_at.is_some(),
        }
    }

    async fn connect(&mut self, found: &NewestLease) -> Result<Option<UnixStream>, DialError> {
        let socket = Path::new(&found.lease.socket);
        match UnixStream::connect(socket).await {
            Ok(stream) => start::checked(stream, socket).map(Some),
            Err(error) => {
                self.met = format!("{}: {error}", Safe::line(&found.lease.socket));
                self.socket_since.get_or_insert_with(Instant::now);
                Ok(None)
            }
        }
    }

    async fn relay(&mut self, found: &NewestLease) -> Option<Way> {
        if let Err(error) = self.leases.note_host(&self.eye) {
            crate::say(&error.to_string());
        }
        let node = &self.options.node;
        let called = match Authority::open(&self.paths.authority(), self.options.deployment) {
            Ok(authority) => call(&authority, &found.lease.relay, node, found.seen.epoch).await,
            Err(error) => Err(std::io::Error::other(error)),
        };
        match called {
            Ok(stream) => Some(Way::Relay(Box::new(stream))),
            Err(error) => {
                let host = Safe::line(&found.lease.host);
                self.met = format!("{host} at {error}");
                self.relay_at = Some(Instant::now());
                None
            }
        }
    }

    /// Starts a `serve` that begins the next epoch, unless one runs.
    fn start(&mut self, ended: LastServe, found: Option<&NewestLease>) -> Result<(), DialError> {
        match ended {
            LastServe::Not => return Ok(()),
            LastServe::Badly(status) => {
                let log = log(self.paths);
                return Err(DialError::Ended { status, log });
            }
            // Another neromum was faster, or it left at once: look anew.
            LastServe::Well => {}
        }
        let mut options = self.options.clone();
        if self.relay_at.is_some() || found.is_some_and(|found| !found.seen.listens) {
            options.terms.over = found.map(|found| found.seen.epoch);
            options.terms.because.clone_from(&self.met);
        }
        self.child = Some(spawn(&options, self.paths)?);
        Ok(())
    }

    fn child_ended(&mut self) -> LastServe {
        // A relay that did not answer may answer by now.
        if self.relay_at.is_some_and(|at| at.elapsed() >= RELAY_AGAIN) {
            self.relay_at = None;
        }
        let Some(child) = &mut self.child else {
            return LastServe::Well;
        };
        match child.try_wait() {
            Ok(Some(status)) if status.success() => LastServe::Well,
            Ok(Some(status)) => LastServe::Badly(status.to_string()),
            Ok(None) | Err(_) => LastServe::Not,
        }
    }
}

/// State of the last started `serve`.
enum LastServe {
    Not,
    Well,
    Badly(String),
}

/// Asks the leader to bind its socket again. The signal reaches exactly this
/// process, or none.
fn hang_up(lease: &Lease) {
    let process = lease.process.as_ref().and_then(|one| one.identity());
    let handle = process.and_then(|process| ProcessHandle::open(&process));
    if let Some(handle) = handle.filter(ProcessHandle::is_alive) {
        // If this does not help, the search looks again.
        let _ = handle.signal(rustix::process::Signal::HUP);
    }
}

impl AsyncRead for Way {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Socket(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Relay(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Way {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Self::Socket(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Relay(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Socket(stream) => Pin::new(stream).poll_flush(cx),
            Self::Relay(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Socket(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Relay(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
