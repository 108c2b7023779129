//! The daemon itself: its state, its backup, its mail.

mod backup;
pub(crate) mod mail;
pub(crate) mod status;
