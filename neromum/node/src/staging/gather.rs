//! Small contents of one transfer on their way into the store: checked, and asked
//! for, before [`nero_blobs::Gather`] takes them.

use nero_blobs::{Gather, Hash};

use super::incoming::PutError;
use super::store::Store;
use super::verified::WrongHash;

/// Contents that arrived and have no name yet.
#[derive(Debug)]
pub struct UnnamedContents {
    store: Store,
    small: Gather,
    /// The last content is held back: the list of a tree ends its transfer. It
    /// becomes a file of its own, named after what it lists, and is read for
    /// every run.
    last: Option<(Hash, Vec<u8>)>,
}

impl UnnamedContents {
    /// Without contents.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            // Nothing is synced: a pack without a sound end counts as missing.
            small: Gather::new(store.folder(), false),
            last: None,
        }
    }

    /// Bytes in the pack so far.
    pub fn bytes(&self) -> u64 {
        self.small.bytes()
    }

    /// Takes one content.
    ///
    /// # Errors
    /// When the content does not have this hash, or the disk refuses: the
    /// contents of the pack so far are dropped then.
    pub fn take(&mut self, hash: Hash, content: Vec<u8>) -> Result<(), PutError> {
        if *blake3::hash(&content).as_bytes() != hash {
            return Err(PutError::Wrong {
                wrong: WrongHash { hash },
                went_on: false,
            });
        }
        self.store.reservations().add(&hash);
        let Some((hash, content)) = self.last.replace((hash, content)) else {
            return Ok(());
        };
        // Later contents may list dropped ones, so they get no name, either.
        let added = self.small.add(hash, content);
        Ok(added.inspect_err(|_| self.last = None)?)
    }

    /// Gives all contents their names. Many packs are joined when there
    /// `is_room` for so many bytes.
    ///
    /// # Errors
    /// When the disk refuses: contents without a name are lost then.
    pub fn name(&mut self, is_room: impl FnOnce(u64) -> bool) -> Result<(), PutError> {
        let last = self.last.take();
        for (hash, content) in self.small.name()?.into_iter().chain(last) {
            let mut incoming = self.store.begin(hash, 0, true)?;
            incoming.write(&content)?;
            self.store.finish(incoming)?;
        }
        if let Err(error) = self.small.merge(is_room) {
            let folder = self.store.folder();
            tracing::warn!(store = %folder.display(), %error, "packs stay many");
        }
        Ok(())
    }
}
