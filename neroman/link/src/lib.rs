//! All that talks to a node: what the daemon decides goes there, and records and files come back.
//!
//! [`node::Nodes`] has a task for each node, which connects when it has work. It hands runs over,
//! delivers cancel requests and reports what happened to the ledger of `nero-home`. [`outside`]
//! starts agents and freezes folders, whose files `results` brings home at the end.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "the runtime of a test ends its tasks"
    )
)]

pub mod config_file;
pub mod connect;
pub mod node;
pub mod outside;
mod restored;
pub mod results;
pub mod snapshot;
pub mod transfer;
