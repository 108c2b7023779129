//! The blobs with a partial file that is being written, each by one writer.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Blobs with a partial file that is being written.
#[derive(Clone, Debug, Default)]
pub struct Flights(Arc<Mutex<HashSet<[u8; 32]>>>);

/// Holds a partial file for one writer.
#[derive(Debug)]
pub(super) struct WriterLock {
    hash: [u8; 32],
    flights: Flights,
}

impl Flights {
    /// Holds the partial file of a blob; `None` while another writer does.
    pub(super) fn take(&self, hash: [u8; 32]) -> Option<WriterLock> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(hash).then(|| WriterLock {
            hash,
            flights: self.clone(),
        })
    }

    /// Whether its partial file is being written.
    pub fn has(&self, hash: &[u8; 32]) -> bool {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.contains(hash)
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        let mut held = self
            .flights
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        held.remove(&self.hash);
    }
}
