//! Small contents on their way into a store: a few become files of their own,
//! many become packs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::{CONTENTS_MIN, Hash, Writer, merge};

/// The disk refuses a file of the store.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}")]
pub struct WriteRefused {
    /// Which file.
    pub path: PathBuf,
    /// The kernel's word.
    pub source: io::Error,
}

/// What came and has no name yet. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Gather {
    store: PathBuf,
    durable: bool,
    /// Too few for a pack so far.
    few: BTreeMap<Hash, Vec<u8>>,
    pack: Option<Writer>,
    /// Whether a pack got its name.
    named: bool,
}

impl Gather {
    /// Nothing yet. `durable`: a pack is on the disk before it counts as named.
    pub fn new(store: &Path, durable: bool) -> Self {
        Self {
            store: store.to_path_buf(),
            durable,
            few: BTreeMap::new(),
            pack: None,
            named: false,
        }
    }

    /// Bytes that are in the pack so far.
    pub fn bytes(&self) -> u64 {
        self.pack.as_ref().map_or(0, Writer::bytes)
    }

    /// Whether this content came and has no name yet.
    pub fn has(&self, hash: &Hash) -> bool {
        let is_packed = |pack: &Writer| pack.contains(hash);
        self.few.contains_key(hash) || self.pack.as_ref().is_some_and(is_packed)
    }

    /// Takes a content in, whose hash the caller knows to be right.
    ///
    /// # Errors
    /// When the disk refuses: what came so far and has no name is given up.
    pub fn add(&mut self, hash: Hash, content: Vec<u8>) -> Result<(), WriteRefused> {
        let added = if self.pack.is_some() {
            self.pack(hash, &content)
        } else {
            self.few.insert(hash, content);
            if self.few.len() < CONTENTS_MIN {
                return Ok(());
            }
            let mut few = std::mem::take(&mut self.few).into_iter();
            few.try_for_each(|(hash, content)| self.pack(hash, &content))
        };
        added.inspect_err(|_| (self.pack, self.few) = (None, BTreeMap::new()))
    }

    fn pack(&mut self, hash: Hash, content: &[u8]) -> Result<(), WriteRefused> {
        let pack = match &mut self.pack {
            Some(pack) => pack,
            none => {
                let begun = nero_model::paths::make_private(&self.store)
                    .and_then(|()| Writer::begin(&self.store));
                none.insert(begun.map_err(at(&self.store))?)
            }
        };
        pack.add(hash, content).map_err(at(pack.path()))?;
        if pack.is_full() {
            // What comes next begins another.
            self.name_pack()
        } else {
            Ok(())
        }
    }

    /// Gives the pack its name; returns the contents that were too few for one.
    ///
    /// # Errors
    /// When the disk refuses: what has no name then is given up.
    pub fn name(&mut self) -> Result<BTreeMap<Hash, Vec<u8>>, WriteRefused> {
        let few = std::mem::take(&mut self.few);
        self.name_pack().map(|()| few)
    }

    fn name_pack(&mut self) -> Result<(), WriteRefused> {
        let Some(pack) = self.pack.take() else {
            return Ok(());
        };
        let private = pack.path().to_path_buf();
        let path = pack.finish(self.durable).map_err(at(&private))?;
        let folders = [path.parent().unwrap_or(&self.store), &self.store];
        for folder in folders.into_iter().filter(|_| self.durable) {
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(at(folder))?;
        }
        self.named = true;
        Ok(())
    }

    /// [`merge`]s the packs of the store when this named one.
    ///
    /// # Errors
    /// As [`merge`]: they stay many then.
    pub fn merge(&mut self, is_room: impl FnOnce(u64) -> bool) -> io::Result<()> {
        if std::mem::take(&mut self.named) {
            merge(&self.store, is_room)
        } else {
            Ok(())
        }
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> WriteRefused {
    let path = path.to_path_buf();
    move |source| WriteRefused { path, source }
}
