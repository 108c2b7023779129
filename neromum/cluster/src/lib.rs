//! Submissions to the scheduler of a node: what a run asks for, the files of each, and what is
//! decided about them. Nothing here asks a scheduler: the program of the node does. See
//! `docs/design/schedulers.md`.

pub mod lifecycle;
pub mod request;
pub mod submission;
