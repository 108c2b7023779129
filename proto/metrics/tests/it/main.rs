//! What printed lines give, from outside of the crate.

mod corpus;
mod files;
mod finding;
mod logs;
mod progress;
