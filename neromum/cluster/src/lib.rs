//! Submissions to the scheduler of a node: what a run asks for, and the files of each. Nothing here
//! asks a scheduler: the program of the node does. See `docs/design/schedulers.md`.

pub mod asked;
pub mod submission;
