//! The gRPC links: generated messages, clients and servers, and how a Unix
//! socket is served and dialled so that only its owner gets an answer.
//!
//! Wire types end in `service/` and in links; `core/` never sees them.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "the runtime of a test ends its tasks"
    )
)]

#[cfg(feature = "client")]
mod dial;
pub mod hello;
#[cfg(feature = "server")]
pub mod listen;

/// Generated from `proto/nero/v1/{common,mum,man}.proto`.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated code; which of them it meets depends on the features"
)]
pub mod v1 {
    include!("gen/nero.v1.rs");
}

#[cfg(feature = "client")]
pub use dial::{DialError, dial, dial_far, dial_io};

/// Bytes of one frame between machines: large ones cost a transfer fewer steps,
/// and on a slow line everything else waits for one.
pub const FRAME_BYTES: u32 = 64 * 1024;
/// How often a peer on another machine is asked whether it is there.
pub const KEEP_ALIVE_EVERY: std::time::Duration = std::time::Duration::from_secs(15);
/// How long its answer may take; then the connection is lost.
pub const KEEP_ALIVE_PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
