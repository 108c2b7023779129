//! The set, or the numbered part of the run, that numbers belong to: by their own line, by the
//! lines above it.

pub mod label;
pub(crate) mod labeller;
mod memo;
pub mod scope;
