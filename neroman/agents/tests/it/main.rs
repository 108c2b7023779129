//! Agents sent to and started on a real ssh server.

mod faults;
mod push;
mod rig;
mod serve;
