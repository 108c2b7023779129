//! A YAML text as a tree of values that know where they stand.
//!
//! The typed interface of `serde-saphyr` loses how a scalar was written (`0.10`, `no`),
//! and where maps begin and end. Built from the events of the parser below it, one place
//! also sees tags, duplicate keys, merge keys and aliases. Mistakes are handed out one by
//! one and the reading goes on; only a text that does not parse, or is out of all bounds,
//! ends it. Used by the readers of experiments and of `config.yaml`.
//!
//! Never done here: what a value means, and files.

mod build;
mod tree;
mod wrong;

pub use build::{Limits, parse};
pub use tree::{Entry, Kind, Mark, Node, is_null_text};
pub use wrong::{What, Wrong};
