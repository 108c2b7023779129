//! Nodes that are added, examined, changed and removed.

mod add;
mod change;
mod examine;
mod infra;
mod scheduler;
mod state;
mod take_over;
mod way;
