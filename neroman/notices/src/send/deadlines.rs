//! How long each step may take.

use std::time::Duration;

/// How long each step may take. A server may stand still at any of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    /// To reach a server.
    pub(crate) connect: Duration,
    /// One command of the protocol with its answer, or a TLS handshake.
    pub(crate) step: Duration,
    /// From the end of the message to its answer: servers look for spam meanwhile.
    pub(crate) accept: Duration,
    /// The program that prints a password or a key: it may ask its owner.
    pub(crate) secret: Duration,
    /// The owner's program for an event, or `sendmail`.
    pub(crate) program: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(20),
            step: Duration::from_secs(30),
            accept: Duration::from_secs(120),
            secret: Duration::from_secs(60),
            program: Duration::from_secs(60),
        }
    }
}
