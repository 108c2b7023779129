//! From one login node to the leader on another: a TCP connection with mutual
//! TLS, whose bytes are joined to the leader's own socket. Only where a lease
//! leads; see `docs/design/shared-homes.md`.

pub mod addresses;
pub mod authority;
pub mod call;
pub mod door;

use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(3);
/// How long both sides may take to accept each other.
const HANDSHAKE: Duration = Duration::from_secs(5);
