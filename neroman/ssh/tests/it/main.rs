//! nero-ssh against a real `sshd`.

mod commands;
mod faults;
mod frozen;
mod masters;
mod rig;
mod streams;
mod terminal;
