//! A store of contents by their BLAKE3: `<2 hex>/<64 hex>` for each file of its
//! own, and packs of many small ones. neroman freezes code into one, neromum
//! stages files from another; [`Gather`] and [`sweep`] serve both. Whether packs are
//! synced, what is named and how long an unnamed content stays are their own:
//! at home one process renews the time of what it takes again; on a node several
//! processes share a store, so requests keep files and the age is counted from
//! the first sweep that found a file unnamed.
//!
//! Ten thousand files of two kilobytes cost a file system far more to name than to store.
//! A store keeps small contents that come together in one pack; a content that is long, or
//! comes alone, stays a file of its own.
//!
//! A pack is written once, under a private name, and named by the BLAKE3 of its index when
//! it is complete. A pack that a power cut left half-written has no sound end and is
//! passed over, as if it did not exist.
//!
//! ```text
//! contents, one after another
//! index    per content, by hash: hash [32] · offset u64 · length u32
//! end      offset of the index u64 · contents u32 · BLAKE3 of the index [32] · "NEROPAK1"
//! ```
//! All numbers are little endian.
//!
//! [`merge`] puts many small packs together, and [`rewrite`] makes another pack without
//! the contents that are to go. The new pack has its name before the old ones are removed,
//! so a content that was found in an old one is also in the new one.

mod anew;
mod folder;
mod gather;
mod read;
mod stamp;
mod sweep;
mod write;

use std::io;

pub use anew::{heal, merge, remove, rewrite};
pub use folder::{alone, hashed, leftovers, parse, path, private};
pub use gather::{Gather, WriteRefused};
pub use read::{Pack, PackEntry, Packs};
pub use stamp::Stamp;
pub use sweep::{SweepTotals, Sweeper, sweep};
pub use write::Writer;

/// A content.
pub type Hash = [u8; 32];

/// Contents up to this many bytes are put into packs.
pub const CONTENT_BYTES_MAX: usize = 64 * 1024;
/// So many contents that come together are worth a pack.
pub const CONTENTS_MIN: usize = 64;

/// A pack of so many contents is full: its index stays small in memory, and rewriting it
/// to drop unused contents copies little.
const FULL_CONTENTS: usize = 64 * 1024;
/// A pack of so many bytes is full, too.
const FULL_BYTES: u64 = 256 * 1024 * 1024;
/// Limit of contents in a file: a file that claims more, or a longer content, is no pack
/// of ours; it is refused before memory is reserved for it.
const CONTENTS_READ_MAX: u64 = 1024 * 1024;
/// See [`CONTENTS_READ_MAX`].
const LENGTH_READ_MAX: u32 = 16 * 1024 * 1024;

/// The folder of packs within a store.
pub const FOLDER: &str = "packs";

const MAGIC: &[u8; 8] = b"NEROPAK1";
/// Bytes of one entry of the index.
const ENTRY_BYTES: usize = 32 + 8 + 4;
/// Bytes of the end.
const END_BYTES: usize = 8 + 4 + 32 + 8;

fn unsound(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Whether the error means that a file is gone; a file server reports that in its own way.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::StaleNetworkFileHandle
    )
}

#[cfg(test)]
mod tests;
