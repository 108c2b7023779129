//! Reads experiment descriptions into definitions.
//!
//! The original Neronet `config.yaml` and the native `neronet.yaml` are one format:
//! blocks named `+name` that inherit, parameters whose lists multiply, and fields
//! that say how to run, what to watch and what to bring home. [`read_source`] reads a
//! folder or a YAML file completely and answers with every experiment in it, or with
//! every mistake in it; nothing is half read. Called by neroman only.
//!
//! The steps, each in its module: [`source`](crate::source) finds and decodes the
//! file, `tree` makes positioned nodes of it, `block` applies inheritance, `define`
//! reads the fields of a block, `params` and `product` expand it, `command` fills it.
//!
//! Never done here: running anything, expanding `$NAME`, looking at a node.

mod definition;
mod problem;
mod pyformat;
mod range;
mod scalar;
mod source;
mod tree;
mod words;

pub use definition::{
    Buffering, Definition, Fetch, Monitor, NotBuilt, Note, Output, Param, Place, Resources,
    RuleAction, RuleDef, Source, SourceKind, Strays, Stream, Value,
};
pub use problem::{FormatErrors, PROBLEMS_MAX, Problem};

/// A source that was read without a mistake.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Where it came from.
    pub source: Source,
    /// Every experiment, in the order of the file.
    pub definitions: Vec<Definition>,
    /// Remarks for the user.
    pub notes: Vec<Note>,
}

/// Reads an experiment folder or a YAML file.
pub fn read_source(path: &std::path::Path) -> Result<Loaded, FormatErrors> {
    Err(Problem::of_file(
        format!("cannot read {}", path.display()),
        "the reader is being written",
    )
    .into())
}
