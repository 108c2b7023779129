//! Files of runs: brought, measured, removed, read.

mod clean;
mod clean_node;
pub(crate) mod code;
mod du;
mod fetch;
mod frozen;
mod keep;
pub(crate) mod logs;
pub(crate) mod paths;
