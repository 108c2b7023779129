//! The watcher's decisions over tables and properties, and the real program
//! against real files, processes and sockets.

mod end;
mod finding;
mod intake;
mod line;
mod rig;
mod rules;
mod tailing;
mod watching;
