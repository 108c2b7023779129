//! What the daemon decides: state, input and time go in, changes come out.
//!
//! No clock, randomness, file, wire type or await in here. The ledger applies
//! the changes and writes them; the service layer translates requests.

pub(crate) mod abort;
pub(crate) mod add;
pub(crate) mod change;
pub(crate) mod clean;
pub(crate) mod experiment;
pub(crate) mod fold;
pub(crate) mod gone;
pub(crate) mod hand_over;
pub(crate) mod homecoming;
pub(crate) mod identity;
pub(crate) mod journal;
pub(crate) mod judge;
pub(crate) mod later;
pub(crate) mod needs;
pub(crate) mod now;
pub(crate) mod outcome;
pub(crate) mod pick;
pub(crate) mod place;
pub(crate) mod placed;
pub(crate) mod refusal;
pub(crate) mod report;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod scope;
pub(crate) mod shelf;
pub(crate) mod start;
pub(crate) mod state;
pub(crate) mod taken_over;
pub(crate) mod text;
pub(crate) mod withdrawal;

#[cfg(test)]
pub(crate) mod tests;
