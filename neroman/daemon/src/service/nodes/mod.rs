//! Nodes that are added, examined, changed and removed.

mod add;
mod change;
mod examine;
mod infra;
mod scheduler;
pub(crate) mod state;
mod take_over;
pub(crate) mod unseen;
mod way;
