//! The configuration from outside: reading, naming, editing.

mod disk;
mod editing;
mod mail;
mod mlframework;
mod origins;
mod properties;
mod reading;
mod scheduler;
