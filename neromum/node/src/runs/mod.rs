//! Run folders: what lies in them, and the files that neromum makes there. The
//! agent, cleaning and the service build on this; it knows none of them, and
//! decides nothing about a run.

pub mod control;
pub mod folders;
pub mod own;
pub mod segments;
pub mod spec;
pub mod tombstone;
pub(crate) mod unreadable;
