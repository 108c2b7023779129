//! The files of the node that cannot be used, as neroman and people are told.

use nero_wire::v1;

use crate::runs::unreadable::{FileFault, Unreadable};

/// The parts of the ledger that cannot be used.
pub(super) fn of_ledger(state: &crate::ledger::LedgerState) -> Vec<Unreadable> {
    let damaged = state.damaged.iter().map(crate::ledger::LedgerError::file);
    damaged
        .map(|(path, why)| Unreadable::new(path, FileFault::Ledger(why)))
        .collect()
}

impl<D: super::Driver> super::Agent<D> {
    /// Files of the node, of any run, that cannot be used.
    pub fn unreadable_files(&self) -> Vec<v1::Unreadable> {
        const FILES_MAX: usize = 20;
        let of_runs = self.entries.values().flat_map(|entry| {
            let run_dir = self.setup.paths.run(entry.id);
            let files = entry.unreadable.values().flatten();
            files.map(move |file| file.to_wire(&run_dir))
        });
        let of_node = self.damaged_ledger.iter();
        of_node
            .map(|file| file.to_wire(self.setup.paths.deployment()))
            .chain(of_runs)
            .take(FILES_MAX)
            .collect()
    }
}
