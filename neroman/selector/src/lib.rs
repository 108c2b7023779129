//! What picks experiments: `124-186`, `crashed,144-149`, `fib*`, `tmod<1h`.
//!
//! Owns the split at commas, the order in which an element is tried (backticks,
//! numbers, words, names, `collection/`, globs, expressions) and what picking
//! nothing means. Called by neroman for every verb that takes a selection.
//! Expressions are `nero-expr`'s; the experiments come through [`Catalogue`];
//! nothing here changes anything.
//!
//! ```text
//! Selector::parse(text, context)?.pick(&catalogue)? -> PickResult { ids, runs, notes, .. }
//! ```
//!
//! An element that is letter for letter the name of an experiment is that one,
//! whatever characters it has, so whether other texts are expressions shows only
//! when picking.

mod catalogue;
mod element;
mod error;
mod numbers;
mod pick;
mod scope;
mod split;
mod unknown;

pub use catalogue::Catalogue;
pub use element::{SELECTOR_BYTES_MAX, Selector, reads_as};
pub use error::{SelectorError, SelectorErrorKind};
pub use pick::{PickResult, PickedRun};
