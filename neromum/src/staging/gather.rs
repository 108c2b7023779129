//! Small contents of one transfer on their way into the store: a few become
//! files of their own, many become one pack.

use std::collections::BTreeMap;

use nero_pack::{CONTENTS_MIN, Hash, Writer};

use super::incoming::{PutError, at};
use super::store::{Store, WrongHash};

/// Contents that arrived and have no name yet.
#[derive(Debug)]
pub struct Gathering {
    store: Store,
    /// Contents that are too few for a pack so far.
    few: BTreeMap<Hash, Vec<u8>>,
    /// The last content is held back: the list of a tree ends its transfer. It
    /// becomes a file of its own, named after what it lists, and is read for
    /// every run.
    last: Option<(Hash, Vec<u8>)>,
    pack: Option<Writer>,
}

impl Gathering {
    /// Without contents.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            few: BTreeMap::new(),
            last: None,
            pack: None,
        }
    }

    /// Bytes in the pack so far.
    pub fn bytes(&self) -> u64 {
        self.pack.as_ref().map_or(0, Writer::bytes)
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
        self.store.wishes().add(&hash);
        match self.last.replace((hash, content)) {
            Some((hash, content)) => self.keep(hash, content),
            None => Ok(()),
        }
    }

    fn keep(&mut self, hash: Hash, content: Vec<u8>) -> Result<(), PutError> {
        if self.pack.is_none() {
            self.few.insert(hash, content);
            if self.few.len() < CONTENTS_MIN {
                return Ok(());
            }
            let few = std::mem::take(&mut self.few);
            let mut few = few.into_iter();
            return few.try_for_each(|(hash, content)| self.pack(hash, &content));
        }
        self.pack(hash, &content)
    }

    fn pack(&mut self, hash: Hash, content: &[u8]) -> Result<(), PutError> {
        let added = self.add(hash, content);
        if added.is_err() {
            self.give_up();
        }
        added
    }

    fn add(&mut self, hash: Hash, content: &[u8]) -> Result<(), PutError> {
        let folder = self.store.folder();
        let pack = match &mut self.pack {
            Some(pack) => pack,
            none => {
                let begun = nero_model::paths::make_private(folder)
                    .and_then(|()| Writer::begin(folder))
                    .map_err(at(folder))?;
                none.insert(begun)
            }
        };
        pack.add(hash, content).map_err(at(pack.path()))?;
        match pack.is_full() {
            // The next content begins another pack.
            true => self.name_pack(),
            false => Ok(()),
        }
    }

    /// Later contents may list dropped ones, so they get no name, either.
    fn give_up(&mut self) {
        self.pack = None;
        self.few.clear();
        self.last = None;
    }

    /// Gives all contents their names. Many packs are joined when there
    /// `is_room` for so many bytes.
    ///
    /// # Errors
    /// When the disk refuses: contents without a name are lost then.
    pub fn name(&mut self, is_room: impl FnOnce(u64) -> bool) -> Result<(), PutError> {
        let packed = self.pack.is_some();
        let named = self.name_pack();
        if named.is_err() {
            self.give_up();
            return named;
        }
        let alone = std::mem::take(&mut self.few).into_iter();
        for (hash, content) in alone.chain(self.last.take()) {
            let mut incoming = self.store.begin(hash, 0, true)?;
            incoming.write(&content)?;
            self.store.finish(incoming)?;
        }
        let folder = self.store.folder();
        if packed && let Err(error) = nero_pack::merge_where_room(folder, is_room) {
            tracing::warn!(store = %folder.display(), %error, "packs stay many");
        }
        Ok(())
    }

    fn name_pack(&mut self) -> Result<(), PutError> {
        let Some(pack) = self.pack.take() else {
            return Ok(());
        };
        let path = pack.path().to_path_buf();
        let named = pack.finish(false);
        named.map(drop).map_err(at(&path))
    }
}
