//! What a person types on a command line.

pub(crate) mod template;
pub(crate) mod values;
