//! What people look at: experiments, curves, pictures.

mod complete;
pub(crate) mod curve;
pub(crate) mod list;
pub(crate) mod metrics;
mod plots;
mod show;
pub(crate) mod unseen;
pub(crate) mod view;
mod watch;
pub(crate) mod window;
