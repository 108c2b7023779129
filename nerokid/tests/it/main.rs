//! The real program against real files, processes and sockets.

mod end;
mod rig;
mod watching;
