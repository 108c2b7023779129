//! The real program against real files, processes and sockets.

mod end;
mod finding;
mod rig;
mod watching;
