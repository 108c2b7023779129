//! The configuration from outside: reading, naming, editing.

mod disk;
mod editing;
mod properties;
mod reading;
