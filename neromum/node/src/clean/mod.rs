//! Removing what is no longer needed: run folders that a person names, stored
//! files that no run names, builds that no process runs from. Everything is in
//! the deployment's own folder (builds: in `bin/`); no link is followed. A
//! thing is renamed before it is deleted, so that a kill in between leaves
//! either all of it or a leftover that the next start removes. The agent
//! decides which run may go, never a look at the disk alone.

mod builds;
pub mod measure;
mod named;
mod recalled;
pub mod remove;
pub mod sweep;

use std::sync::Arc;

use nero_model::paths::NodePaths;

use crate::lease::HeldEpoch;
use crate::staging::store::Store;

/// Cleans a deployment's folders. It works off the reactor, one piece at a
/// time.
#[derive(Clone, Debug)]
pub struct Janitor {
    paths: NodePaths,
    store: Store,
    trash: Arc<remove::Trash>,
    /// Our epoch, where several hosts share the root.
    lease: Option<Arc<HeldEpoch>>,
}

impl Janitor {
    /// For one deployment on one node. `store` is the one that receives files.
    pub fn new(paths: &NodePaths, store: &Store, lease: Option<Arc<HeldEpoch>>) -> Self {
        Self {
            paths: paths.clone(),
            store: store.clone(),
            trash: Arc::new(remove::Trash::new(paths.deployment().join("trash"))),
            lease,
        }
    }

    /// Moves a run's folder into the trash.
    ///
    /// # Errors
    /// When it cannot be moved; it is still in place then.
    pub fn discard(&self, run_dir: &std::path::Path) -> std::io::Result<()> {
        self.trash.take(run_dir)
    }

    /// Size of the trash.
    pub fn trash_size(&self) -> measure::Size {
        measure::measure(self.trash.folder()).unwrap_or_default()
    }

    /// Deletes the leftovers of an earlier neromum.
    pub fn empty_trash(&self) {
        self.trash.empty_behind();
    }
}
