//! Real launchers, shims and jobs: started as programs, spoken to over the
//! socket, judged by the segments that they leave.

mod allocation;
mod containers;
mod deaths;
mod disk;
mod launcher;
mod memory;
mod outfit;
mod rig;
mod run;
mod runs;
mod stops;
mod trees;
mod unseen;
mod watchers;
