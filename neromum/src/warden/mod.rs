//! The starters of jobs on a node: the bare node's launcher, and the runner of
//! schedulers' commands, whose words and meaning the crate `nero_warden` holds.

pub mod asked;
pub mod bare;
pub mod front;
pub mod login;
pub mod orders;
pub mod process_group;
pub mod runner;
