//! The words of the language, and values: facts, states, patterns, aggregates over the past.

pub(crate) mod direction;
pub(crate) mod error;
pub(crate) mod fact;
pub(crate) mod known;
pub(crate) mod node;
pub(crate) mod past;
pub(crate) mod pattern;
pub(crate) mod slips;
pub(crate) mod state;
pub(crate) mod value;
