//! neromum with real launchers, shims and watchers.

#![allow(
    clippy::disallowed_methods,
    reason = "the runtime of a test ends its tasks"
)]

mod cancels;
mod cleaning;
mod damaged;
mod deaths;
mod edge;
mod examine;
mod fetching;
mod files;
mod gpus;
mod job;
mod ledger;
mod letters;
mod owners;
mod paused;
mod placing;
mod recalled;
mod rig;
mod runs;
mod setup;
mod shared;
mod together;
mod transfers;
mod unreadable;
