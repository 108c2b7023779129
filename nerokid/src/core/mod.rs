//! What decides: from bytes, samples and time to records. No clock, no file,
//! no socket; times are given in ms since the machine was started.

pub mod batch;
pub mod facts;
pub mod finder;
pub mod fold;
pub mod found;
pub mod history;
pub mod intake;
pub mod json;
pub mod lines;
pub mod log;
pub mod number;
pub mod pairs;
pub mod pattern;
pub mod record;
pub mod rules;
pub mod series;
pub mod step;
