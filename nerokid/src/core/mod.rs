//! What decides: from bytes, samples and time to records. No clock, no file,
//! no socket; times are given in ms since the machine was started.

pub mod batch;
pub mod facts;
pub mod fold;
pub mod history;
pub mod intake;
pub mod log;
pub mod progress;
pub mod record;
pub mod rows;
pub mod rules;
pub mod scope;
pub mod series;
