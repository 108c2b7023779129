//! The watcher's decisions over tables and properties, and the real program
//! against real files, processes and sockets.

#![allow(
    clippy::disallowed_methods,
    reason = "the runtime of a test ends its tasks"
)]

mod acts;
mod end;
mod files;
mod gpus;
mod hosts;
mod intake;
mod line;
mod progress;
mod readers;
mod rig;
mod rules;
mod tailing;
mod watching;
