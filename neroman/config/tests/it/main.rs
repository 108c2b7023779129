//! The configuration from outside: reading, naming, editing.

mod disk;
mod editing;
mod origins;
mod properties;
mod reading;
mod scheduler;
