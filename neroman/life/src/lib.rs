//! What neroman decides over experiments and their runs: state, input and time go
//! in, changes come out.
//!
//! No clock, randomness, file, wire type or await in here; the manifest has no crate
//! that brings one. The daemon's ledger applies the changes and writes them, its
//! other parts translate requests.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files"))]

pub mod abort;
pub mod acts;
pub mod add;
pub mod backtest;
pub mod balance;
pub mod batch;
mod cancel;
pub mod cells;
pub mod change;
pub mod choose;
pub mod clean;
pub mod cluster;
pub mod cohort;
mod commands;
pub mod deferred;
mod differences;
mod dispatch;
pub mod edits;
mod errors;
pub mod experiment;
pub mod facts;
pub mod fold;
pub mod gone;
pub mod groups;
pub mod hand_over;
pub mod held;
mod hold;
mod homecoming;
pub mod identity;
mod impossible;
mod in_force;
pub mod input;
pub mod journal;
pub mod judge;
pub mod kept;
mod late;
mod leaving;
pub mod ledgers;
pub mod locks;
mod lost;
mod made;
pub mod mail;
mod members;
pub mod needs;
pub mod now;
pub mod outcome;
pub mod outlook;
pub mod pasts;
pub mod pick;
pub mod place;
mod placed;
pub mod precedence;
pub mod processed;
mod processing;
pub mod reason;
pub mod recall;
pub mod refusal;
pub mod report;
pub mod reports;
pub mod restored;
mod results;
pub mod retry;
pub mod rules;
pub mod run;
pub mod scope;
mod seen;
pub mod shelf;
mod stage;
pub mod standing;
pub mod start;
pub mod state;
mod step;
pub mod taken_over;
pub mod text;
pub mod waits;

pub use step::{OutOfOrder, step, steps, with_points};

#[cfg(test)]
mod tests;
