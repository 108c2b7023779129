//! Marking: the stored files and trees that runs here name.

use std::collections::{HashMap, HashSet};
use std::io;

use nero_wire::v1::Tree;
use prost::Message as _;

use super::Janitor;
use crate::runs::{folders, spec};
use crate::staging::store::Look;

/// Everything that runs name.
#[derive(Debug, Default)]
pub struct ReferencedBlobs {
    /// Stored files.
    pub files: HashSet<[u8; 32]>,
    /// Lists of trees.
    pub trees: HashSet<[u8; 32]>,
    /// Faults that do not stop the marking.
    pub notes: Vec<String>,
}

/// Reason why the marking cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// Folders cannot be listed.
    #[error("cannot list the run folders")]
    List(#[source] io::Error),
    /// A run with an unreadable spec could name anything.
    #[error("{why}")]
    Spec {
        /// The spec, and its fault.
        why: String,
    },
    /// The list of a tree cannot be read now.
    #[error("cannot read the list of files {hash}")]
    Tree {
        /// Hash of the list.
        hash: String,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
}

impl Janitor {
    /// Reads the spec of every run here.
    ///
    /// # Errors
    /// When something that may name files cannot be read.
    pub fn mark(&self) -> Result<ReferencedBlobs, MarkError> {
        let mut named = ReferencedBlobs::default();
        let mut seen = HashMap::new();
        let look = self.store.view();
        for (_, run_dir) in folders::all(&self.paths).map_err(MarkError::List)? {
            let spec = match spec::of_folder(&run_dir) {
                Ok(spec) => spec,
                // A folder without a spec was given up before it named any file.
                Err(_) if is_bare(&run_dir) => continue,
                Err(why) => return Err(MarkError::Spec { why }),
            };
            for hash in [&spec.tree, &spec.overlay] {
                if let Ok(hash) = <[u8; 32]>::try_from(hash.as_slice())
                    && seen.insert(hash, ()).is_none()
                {
                    self.mark_tree(&look, hash, &mut named)?;
                }
            }
        }
        Ok(named)
    }

    fn mark_tree(
        &self,
        look: &Look<'_>,
        hash: [u8; 32],
        named: &mut ReferencedBlobs,
    ) -> Result<(), MarkError> {
        named.files.insert(hash);
        named.trees.insert(hash);
        let text = nero_model::ids::hex(&hash);
        let read = match look.read(&hash) {
            // It may have arrived since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.store.read(&hash),
            read => read,
        };
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) if is_lost(&error) => {
                named
                    .notes
                    .push(format!("the list of files {text} is lost"));
                return Ok(());
            }
            Err(source) => return Err(MarkError::Tree { hash: text, source }),
        };
        match Tree::decode(&*bytes) {
            Ok(tree) => named.files.extend(
                tree.entries
                    .iter()
                    .filter_map(|entry| <[u8; 32]>::try_from(entry.hash.as_slice()).ok()),
            ),
            Err(_) => named
                .notes
                .push(format!("the list of files {text} cannot be decoded")),
        }
        Ok(())
    }
}

fn is_lost(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::InvalidData
    )
}

fn is_bare(run_dir: &std::path::Path) -> bool {
    let spec = run_dir.join(nero_model::paths::run::SPEC);
    matches!(spec.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound)
}
