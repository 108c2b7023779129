//! Definitions that were taken over from a node and have no source here: they come
//! from the specs of their runs.

use nero_format::{Definition, Source};

/// Folder below the data, as the source of definitions that were taken over. The
/// folder does not exist; adding the real source again replaces it.
pub const FOLDER: &str = "taken-over";

/// Note on every definition that was taken over, for people.
pub const NOTE: &str = "taken over from its runs: add its source again to change it";

/// Whether a definition was taken over and its source is not here: a new run would
/// have no code.
pub fn without_source(definition: &Definition) -> bool {
    // Those that were read from a source have a block, but not in the rows of the first
    // builds.
    definition.block.is_empty() && definition.folder.ends_with(FOLDER)
}

/// Folder below the data, as the source of experiments that stand for adopted jobs. It does
/// not exist, either.
pub const ADOPTED: &str = "adopted";

/// Whether a source is the placeholder for missing sources: it is never read.
pub fn stands_in(source: &Source) -> bool {
    let names = [FOLDER, ADOPTED];
    source.digest.is_empty() && names.iter().any(|name| source.path.ends_with(name))
}
