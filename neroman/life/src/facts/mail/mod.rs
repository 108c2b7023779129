//! Notices for people, and deliveries of letters about them.

pub(crate) mod delivery;
pub(crate) mod notice;
pub(crate) mod post;
