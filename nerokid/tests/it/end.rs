//! The end of a run.
