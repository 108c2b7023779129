//! The researcher's daemon: decides, keeps, drives the nodes.
//!
//! `nero-life` decides, `nero-home` has the one writer of both databases, `node/`
//! carries decisions to nodes and brings records back, `results/` brings files
//! home, `service/` is the gRPC edge that the command line speaks to, and
//! [`run()`] is the order of start and stop.

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
mod config_file;
mod connect;
mod door;
mod error;
mod log;
mod mail;
mod node;
mod outside;
mod pasts;
mod processing;
mod restored;
mod results;
mod run;
mod service;
mod snapshot;
mod transfer;

pub use error::DaemonError;
pub use run::{Served, run};

#[cfg(test)]
mod tests;
