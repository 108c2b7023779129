//! What was taken over from a node and has no source here: its definitions are what
//! its runs say of themselves.

use nero_format::{Definition, Source};

/// Below the data: where definitions that were taken over are said to lie.
/// There is no such folder; adding their source again says where they are.
pub const FOLDER: &str = "taken-over";

/// On every definition that was taken over.
pub const NOTE: &str = "taken over from its runs: add its source again to change it";

/// Whether a definition was taken over and its source is not here: there is no
/// code that a new run could have.
pub fn without_source(definition: &Definition) -> bool {
    definition.notes.iter().any(|note| note == NOTE)
}

/// Whether a source stands for sources that are not here: nothing of it is read.
pub fn stands_in(source: &Source) -> bool {
    source.digest.is_empty() && source.path.ends_with(FOLDER)
}
