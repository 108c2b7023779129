//! Submissions to the scheduler of a node: the files of each. Nothing here asks a scheduler: the
//! agent of the node does. See `docs/design/schedulers.md`.

pub mod submission;
