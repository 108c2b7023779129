//! The configuration from outside: reading, naming, editing.

mod reading;
