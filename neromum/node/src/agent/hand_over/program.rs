//! Checks that the program of a movable run is here, before the run's folder is
//! made.

use std::collections::HashMap;
use std::path::Path;

use nero_model::RunId;
use nero_wire::v1::RunSpec;

use super::Rejection;
use crate::staging::environment::{self, Base, JobContext};
use crate::staging::program::{self, HEAD_BYTES};
use crate::staging::store::Store;
use crate::staging::{self, data::DataPaths, tree, work_folder};

/// Cache of searches for programs.
#[derive(Default)]
pub(super) struct Programs {
    /// The missing program by trees, program and `PATH`; empty: nothing is
    /// missing.
    known: HashMap<[Vec<u8>; 4], String>,
}

impl Programs {
    /// Checks that the program is here; `data` is where the run's data lies.
    pub(super) fn find(
        &mut self,
        (spec, data): (&RunSpec, &DataPaths),
        base: &Base,
        id: RunId,
        run_dir: &Path,
        store: &Store,
    ) -> Result<(), Rejection> {
        // What its lines of the shell make of `PATH` shows at the start.
        let is_contained = staging::container::asked(spec).is_some();
        if is_contained || staging::prelude::lines(spec, false).is_some() {
            return Ok(());
        }
        let work = work_folder(run_dir, 1);
        let place = JobContext {
            id,
            node: &spec.node,
            work: &work,
            params: run_dir,
            logged: run_dir,
            resumed: false,
            in_allocation: false,
        };
        // A place that cannot be filled is reported at the start.
        let Ok((vars, argv)) = staging::filled(base, spec, &place, data) else {
            return Ok(());
        };
        let typed = argv.first().map(String::as_bytes).unwrap_or_default();
        let path = environment::value(&vars, b"PATH").unwrap_or_default();
        let key = [
            spec.tree.clone(),
            spec.overlay.clone(),
            typed.to_vec(),
            path.to_vec(),
        ];
        let lacks = self.known.entry(key).or_insert_with(|| {
            let frozen = |name: &str| head_in_trees(spec, store, name);
            program::lacking(typed, path, &frozen).unwrap_or_default()
        });
        if lacks.is_empty() {
            return Ok(());
        }
        const HINT: &str = "install it there, or correct the command";
        Err(super::lacks(&spec.node, lacks.clone(), HINT).here())
    }
}

/// The first bytes of a file that comes with the run; `None` when it is not
/// among them.
fn head_in_trees(spec: &RunSpec, store: &Store, name: &str) -> Option<Vec<u8>> {
    // A file of the overlay replaces that of the code.
    let trees = [&spec.overlay, &spec.tree];
    let hash = trees
        .into_iter()
        .filter(|hash| !hash.is_empty())
        .find_map(|hash| {
            let tree = tree::load(&store.view(), hash).ok()?;
            let entry = tree.entries.into_iter().find(|entry| entry.path == name)?;
            <[u8; 32]>::try_from(entry.hash).ok()
        })?;
    store.head(&hash, HEAD_BYTES).ok()
}
