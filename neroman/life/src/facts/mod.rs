//! What is: clocks, ids and records of runs, as they are kept. Types, and what follows from a value
//! alone; no decision.

pub mod actions;
pub mod follows;
pub mod hold;
pub mod nodes;
pub mod notice;
pub mod partition;
pub mod peers;
pub mod processed;
pub mod series;
