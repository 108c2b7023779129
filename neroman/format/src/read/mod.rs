//! Reads a tree of blocks into definitions: the text of a file, blocks with what they inherit, their
//! fields, and the experiments that their parameters multiply to. Knows no file of a source.

pub(crate) mod about;
pub(crate) mod block;
pub(crate) mod command;
pub(crate) mod define;
pub(crate) mod directives;
pub(crate) mod doubts;
pub(crate) mod expand;
pub(crate) mod fields;
pub(crate) mod fill;
pub(crate) mod groups;
pub(crate) mod names;
pub(crate) mod params;
pub(crate) mod parse;
pub(crate) mod reader;
pub(crate) mod scalar;
pub(crate) mod schema;
pub(crate) mod text;
