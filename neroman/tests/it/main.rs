//! The real program against a daemon with prepared answers: exit codes, JSON,
//! tables, faults; and starts and stops of the real daemon. The tests of the
//! rig run real daemons.

mod book;
mod changing;
mod completing;
mod config;
mod fake;
mod faults;
mod files;
mod infra;
mod json;
mod nodes;
mod noodles;
mod plots;
mod pty;
mod samples;
mod start;
mod survey;
mod tables;
mod unasked_notes;
mod wrong;
