//! What follows by itself: the next run after an end, commands, standing rules, aggregates over
//! peers, and the replay of rules over past runs.

pub mod acts;
pub mod backtest;
pub mod cohort;
pub mod processed;
pub mod retry;
pub mod rules;
pub mod standing;
