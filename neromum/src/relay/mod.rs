//! From one login node to the leader on another: a TCP connection with mutual
//! TLS, whose bytes are joined to the leader's own socket. Used only where a
//! lease decides who leads; see `docs/design/shared-homes.md`.

pub mod addresses;
pub mod authority;
pub mod call;
pub mod door;

use std::time::Duration;

/// Time for making a connection.
const CONNECT: Duration = Duration::from_secs(3);
/// Time for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
