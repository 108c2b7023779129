//! What people look at: experiments, curves, pictures.

mod complete;
pub(crate) mod curve;
pub(crate) mod deliveries;
pub(crate) mod list;
pub(crate) mod metrics;
mod plots;
mod rules;
mod show;
pub(crate) mod view;
mod watch;
mod why;
pub(crate) mod window;
