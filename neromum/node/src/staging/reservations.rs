//! Reservations: files that were asked for lately and are on their way to a run
//! that does not name them yet. A sweep does not remove them. A task reserves a
//! file before it looks for it; if a sweep was faster, the look shows that the
//! file is gone.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::config;

/// Shared by the tasks that stage and by the sweep.
#[derive(Clone, Debug, Default)]
pub struct Reservations(Arc<Mutex<Generations>>);

/// Half of each hash suffices: a collision only keeps a file too many.
#[derive(Debug, Default)]
struct Generations {
    now: HashSet<u64>,
    before: HashSet<u64>,
    since: Option<Instant>,
}

impl Generations {
    fn turn(&mut self) {
        let since = *self.since.get_or_insert_with(Instant::now);
        let age = since.elapsed();
        if age >= config::RESERVED_FOR {
            self.before = std::mem::take(&mut self.now);
            self.since = Some(Instant::now());
        }
        if age >= 2 * config::RESERVED_FOR {
            self.before = HashSet::new();
        }
    }

    fn has(&self, hash: &[u8; 32]) -> bool {
        let key = key(hash);
        self.now.contains(&key) || self.before.contains(&key)
    }
}

fn key(hash: &[u8; 32]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(bytes)
}

impl Reservations {
    /// Reserves a file that the caller is about to look for.
    pub fn add(&self, hash: &[u8; 32]) {
        let mut reservations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reservations.turn();
        reservations.now.insert(key(hash));
    }

    /// Whether the file was reserved lately.
    pub fn has(&self, hash: &[u8; 32]) -> bool {
        let reservations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reservations.has(hash)
    }

    /// Removes files with these contents unless one of them is reserved;
    /// returns whether they were removed. None can be reserved in between.
    ///
    /// # Errors
    /// Those of `remove`.
    pub fn unless_reserved<'a>(
        &self,
        mut hashes: impl Iterator<Item = &'a [u8; 32]>,
        remove: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<bool> {
        let reservations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hashes.any(|hash| reservations.has(hash)) {
            return Ok(false);
        }
        remove()?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_files_are_not_removed() {
        let reservations = Reservations::default();
        reservations.add(&[1; 32]);
        let mut removed = Vec::new();
        for hash in [[1; 32], [2; 32]] {
            let done = reservations.unless_reserved([hash].iter(), || {
                removed.push(hash);
                Ok(())
            });
            assert_eq!(done.unwrap(), hash == [2; 32]);
        }
        assert_eq!(removed, [[2; 32]]);
        assert!(reservations.has(&[1; 32]) && !reservations.has(&[2; 32]));
    }
}
