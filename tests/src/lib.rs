//! The rig: a Neronet home of its own for each test, with the real programs,
//! an environment that holds nothing by accident, and an end that leaves
//! nothing behind.
//!
//! Tests wait for conditions with a deadline and print the last state seen.

pub mod chaos;
pub mod chromium;
pub mod cluster;
pub mod containers;
pub mod damage;
pub mod disk;
pub mod golden;
pub mod home;
pub mod hosts;
pub mod late;
pub mod login;
pub mod login_nodes;
pub mod mail;
mod power;
pub mod previous;
pub mod processes;
pub mod steps;
pub mod tracer;
mod umask;
pub mod wait;

pub use chromium::Chromium;
pub use containers::{Containers, Registry};
pub use home::{Home, Ran, end};
pub use hosts::Hosts;
pub use mail::{CaughtMail, MailServer, WebhookServer};
pub use processes::{Part, parts, peak_bytes, peak_bytes_now};
pub use wait::{DEADLINE, until};
