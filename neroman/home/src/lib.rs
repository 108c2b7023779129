//! The home of one neroman: the one writer of its two databases, and what their contents mean.
//!
//! [`ledger::Ledger`] takes decisions of `nero-life`, writes them and publishes the new state.
//! [`keep::Databases`] turns changes into rows, and rows into the state at the start. Nothing here
//! talks with a node or a client: a [`failure::Failure`] becomes a gRPC status at the edge of
//! the daemon.

pub mod adopt;
pub mod backup;
pub mod clock;
pub mod failure;
pub mod folding;
mod heap;
pub mod keep;
pub mod ledger;
pub mod restore;
pub mod spec;
pub mod upkeep;
