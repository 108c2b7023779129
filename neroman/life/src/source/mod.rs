//! From sources to experiments, and what a person asks of experiments.

pub mod abort;
pub mod add;
pub mod annotate;
pub mod clean;
pub(crate) mod differences;
pub mod edits;
pub mod identity;
pub(crate) mod impossible;
pub mod pick;
pub mod remove;
pub mod take_over;
