//! Getting rid of what is not needed any more: run folders that a person names,
//! stored files that nothing names, builds that nothing runs from. Everything
//! lies in the deployment's own folder (builds: in `bin/`); no link is ever
//! followed; what is to go is renamed first, so that whoever dies in between
//! leaves either all of it or something that the next start finishes. Which run
//! may go the agent decides, never a look at the disk alone.

mod builds;
pub mod gone;
pub mod measure;
mod named;
pub mod remove;
pub mod runs;
pub mod sweep;
mod withdrawn;

use std::sync::Arc;

use nero_model::paths::NodePaths;

use crate::lease::Held;
use crate::staging::store::Store;

/// Knows where everything lies. Its work is done off the reactor, one piece at
/// a time.
#[derive(Clone, Debug)]
pub struct Janitor {
    paths: NodePaths,
    store: Store,
    trash: Arc<remove::Trash>,
    /// Our epoch, where several hosts share the root.
    lease: Option<Arc<Held>>,
}

impl Janitor {
    /// For one deployment on one node. `store` is the one that files come into.
    pub fn new(paths: &NodePaths, store: &Store, lease: Option<Arc<Held>>) -> Self {
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
    /// When it cannot be moved; it is where it was then.
    pub fn discard(&self, run_dir: &std::path::Path) -> std::io::Result<()> {
        self.trash.take(run_dir)
    }

    /// What lies in the trash.
    pub fn trash_size(&self) -> measure::Size {
        measure::measure(self.trash.folder()).unwrap_or_default()
    }

    /// Goes on with what an earlier neromum did not get to.
    pub fn empty_trash(&self) {
        self.trash.empty_behind();
    }
}
