//! What is: clocks, ids and records of runs, as they are kept. Types, and what follows from a value
//! alone; no decision.

pub(crate) mod actions;
pub mod cells;
pub(crate) mod dispatch;
pub(crate) mod follows;
pub(crate) mod hold;
pub mod journal;
pub(crate) mod leaving;
pub(crate) mod mail;
pub(crate) mod nodes;
pub mod now;
pub(crate) mod partition;
pub(crate) mod peers;
pub(crate) mod processed;
pub mod reason;
pub(crate) mod results;
pub(crate) mod run_record;
pub(crate) mod series;
pub mod sorted;
pub(crate) mod stage;
pub mod text;
