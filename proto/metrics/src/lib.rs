//! From what a job prints to metrics: lines, and the names, numbers and steps in
//! them. The watcher beside a job and `neroman` read by the same code, so that what
//! the one shows beforehand is what the other finds. No clock and no file.

pub mod file;
pub mod finder;
pub mod found;
pub mod labels;
pub mod lines;
pub mod pattern;
pub mod progress;
pub mod recipe;
pub mod survey;
pub mod tables;

mod json;
mod text;
mod tokens;
