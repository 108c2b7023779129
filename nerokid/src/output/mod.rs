//! What a job writes: logs, files of metrics, and the user's own readers of its output.

pub mod document;
pub mod readers;
pub mod tail;
