//! The researcher's daemon: decides, keeps, drives the nodes.
//!
//! `nero-life` decides, `nero-home` has the one writer of both databases, `nero-link`
//! carries decisions to nodes and brings records and files back, `service/` is the
//! gRPC edge that the command line speaks to, and [`run()`] is the order of start and
//! stop.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "the runtime of a test ends its tasks"
    )
)]

mod acts;
mod blocking;
mod cells;
mod cohorts;
mod door;
mod error;
mod log;
mod mail;
mod pasts;
mod processing;
mod run;
mod service;

pub use error::DaemonError;
pub use run::{ServeOutcome, run};

#[cfg(test)]
mod tests;
