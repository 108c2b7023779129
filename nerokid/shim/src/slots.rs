//! The launcher's stock of [`Slot`]s: the pages, and which slots are free.

use std::io;

use crate::slot::Slot;
use crate::sys;

/// The launcher's stock of slots.
#[derive(Debug, Default)]
pub struct Slots {
    free: Vec<&'static Slot>,
}

impl Slots {
    /// An empty slot.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn take(&mut self) -> io::Result<&'static Slot> {
        if self.free.is_empty() {
            self.free.extend(sys::shared_slots()?);
        }
        let slot = self.free.pop().expect("a page was just added");
        slot.clear();
        Ok(slot)
    }

    /// Gives a slot back. No process may write to it any more: the shim has been
    /// reaped, and the job executes, has been reaped, or was never made.
    pub fn give(&mut self, slot: &'static Slot) {
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    #[test]
    fn more_slots_than_a_page_holds() {
        let mut slots = Slots::default();
        let taken: Vec<_> = (0..200).map(|_| slots.take().unwrap()).collect();
        taken[0].place_of_pid().store(7, SeqCst);
        assert!(taken[1..].iter().all(|slot| slot.pid() == 0));
    }
}
