//! What neroman decides over experiments and their runs: state, input and time go
//! in, changes come out.
//!
//! No clock, randomness, file, wire type or await in here; the manifest has no crate
//! that brings one. The daemon's ledger applies the changes and writes them, its
//! other parts translate requests.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files"))]

mod after;
mod facts;
pub mod fold;
pub mod notices;
pub mod place;
mod source;
mod step;

pub use after::{acts, backtest, cohort, processed, retry, rules, standing};
pub use facts::{cells, journal, now, reason, sorted, text};
pub use fold::{
    change, experiment, groups, outcome, pasts, row, run, scope, shelf, state, taken_over,
};
pub use place::{
    balance, batch, choose, cluster, gone, held, judge, ledgers, locks, outlook, precedence,
    restored, start, waits,
};
pub use source::{abort, add, annotate, clean, edits, identity, pick, remove, take_over};
pub use step::{LateInputError, step, steps, with_points};
pub use step::{deferred, hand_over, input, needs, recall, refusal, report, reports};

#[cfg(test)]
mod tests;
