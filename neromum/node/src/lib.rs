//! What starts, watches and keeps the runs of a node: a bare one, or one allocation of a scheduler.
//! It asks no scheduler, answers no call and reads no argument: the program `neromum` does, over
//! the handle of [`agent`]. See `docs/design/runs.md`.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "the runtime of a test ends its tasks"
    )
)]

pub mod agent;
pub mod cards;
pub mod clean;
pub mod config;
pub mod containers;
pub mod files;
pub mod launch;
pub mod lease;
pub mod ledger;
mod letters;
pub mod runs;
pub mod staging;
pub mod watch;
