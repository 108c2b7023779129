//! A YAML text as a tree of values that know where they stand.
//!
//! The typed interface of `serde-saphyr` loses how a scalar was written (`0.10`, `no`),
//! and where maps begin and end. Built from the events of the parser below it, one place
//! also sees tags, duplicate keys, merge keys and aliases. [`Fields`] reads values of the tree
//! and collects every mistake with its place; only a text that does not parse, or is out
//! of all bounds, ends the reading. Used by the readers of experiments and of `config.yaml`.
//!
//! Never done here: which fields there are, what they mean, and files.

mod build;
mod fields;
mod scalar;
mod tree;
mod wrong;

pub use build::{Limits, parse};
pub use fields::{Fields, MISTAKES_MAX, Mistake, Mistakes, Zero};
pub use scalar::{Number, boolean, number};
pub use tree::{Entry, Kind, Mark, Node, is_null_text};
pub use wrong::{MistakeKind, Wrong, not_yaml};
