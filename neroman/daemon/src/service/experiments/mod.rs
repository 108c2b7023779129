//! What a person changes about experiments and their sources, and their rules.

pub(crate) mod add;
mod add_rows;
mod annotate;
mod backtest;
pub(crate) mod edit;
mod numbers;
mod remove;
mod rules;
pub(crate) mod sources;
pub(crate) mod tables;
