//! The runner of schedulers' commands, whose words and meaning the crate `nero_warden` holds.

pub mod front;
pub mod login;
pub mod process_group;
pub mod runner;
