//! The folder of a run: its spec, its segments and what they say of its life, the watcher's own
//! segment, and the requests in `control/`.

pub mod control;
pub mod journal;
pub mod life;
pub mod place;
pub mod segments;
