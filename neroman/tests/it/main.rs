//! The real program against a daemon that says what a test wants: exit codes,
//! JSON, tables, faults; and the real daemon being started and stopped. What
//! real daemons do is tested by the rig.

mod config;
mod fake;
mod faults;
mod json;
mod nodes;
mod pty;
mod samples;
mod start;
mod tables;
mod told;
