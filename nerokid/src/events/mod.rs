//! What ends a watcher's sleep: the clock, changed files, ended processes, and neromum.

pub mod alarm;
pub mod link;
pub mod notify;
pub mod pace;
pub mod readable;
pub mod wake;
