//! Runs and faults at random, from a seed: experiments of every kind are started, aborted and
//! restarted while processes are killed and frozen, disks are full, hosts crash and networks are
//! cut. A harsh chaos also sets clocks, holds system calls, stops shims for good, kills a shim
//! together with its launcher and takes all inodes. Runs have priorities, are paused and resumed, and
//! share the cards of this machine; rules compare them with their peers. All of them may be in containers,
//! what belongs to these dies as well, and no run has ended while its container lives. Then the faults stop,
//! and every promise is checked: each run once, each exit code, each byte of output, each metric point.

mod again;
mod check;
mod client;
pub mod clock;
mod contained;
mod fault;
mod history;
mod judge;
mod plan;
pub mod random;
mod run;
pub mod script;
mod settle;
mod step;
mod world;

pub(crate) use client::{Answer, Client};
pub use run::{Chaos, Options, Outcome};
pub(crate) use settle::is_open;
