//! Verbs about the files of runs: where they lie, what they take, what comes home, what goes.

pub mod clean;
pub mod du;
pub mod fetch;
pub mod open;
pub mod path;
