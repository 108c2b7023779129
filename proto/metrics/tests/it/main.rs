//! What printed lines give, from outside of the crate.

mod finding;
mod logs;
mod progress;
