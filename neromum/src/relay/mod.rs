//! From one login node to the leader on another, where a lease decides who leads, and to workers
//! of Python calls in jobs: a TCP connection with mutual TLS, whose bytes are joined to a Unix
//! socket; see `docs/design/shared-homes.md`.

pub mod addresses;
pub mod authority;
pub mod call;
pub mod door;
pub mod worker;

use std::time::Duration;

/// Time for making a connection.
const CONNECT: Duration = Duration::from_secs(3);
/// Time for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
