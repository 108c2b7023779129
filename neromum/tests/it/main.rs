//! neromum with real launchers, shims and watchers.

mod cleaning;
mod damaged;
mod deaths;
mod edge;
mod examine;
mod fetching;
mod files;
mod ledger;
mod owners;
mod placing;
mod rig;
mod runs;
mod setup;
mod shared;
mod together;
mod transfers;
mod unreadable;
mod wishes;
mod withdrawn;
