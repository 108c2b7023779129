//! From evidence to facts: records become the journal of a run, the journal its outcome, and changes
//! the state. The types here own facts of several kinds together; nothing is decided.

pub mod change;
pub(crate) mod commands;
pub(crate) mod errors;
pub mod experiment;
pub mod groups;
pub(crate) mod members;
pub(crate) mod names;
pub mod numbers;
pub mod outcome;
pub mod pasts;
pub(crate) mod processing;
pub mod records;
pub mod row;
pub mod run;
pub mod scope;
pub(crate) mod seen;
pub mod shelf;
pub mod state;
pub mod taken_over;

pub use records::{
    FoldOutput, FoldResult, Measurement, Notable, NotableKind, Part, Point, Position, emptied,
    fold, holds_series,
};
