//! Processes of a job on this host: their usage, the marks that tell them, and signals to them.

pub mod marked;
pub mod sample;
pub mod signals;
