//! Writing a pack.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nero_model::ids::hex;

use crate::{END_BYTES, ENTRY_BYTES, FOLDER, FULL_BYTES, FULL_CONTENTS, Hash, MAGIC};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// A pack that is being written. If it is dropped before it was finished, its
/// file is removed.
#[derive(Debug)]
pub struct Writer {
    store: PathBuf,
    private: PathBuf,
    file: BufWriter<File>,
    /// The offset and the length of each content.
    index: BTreeMap<Hash, (u64, u32)>,
    at: u64,
    named: bool,
}

impl Writer {
    /// Begins a pack in a store, which exists, under a private name that begins
    /// with a dot.
    ///
    /// # Errors
    /// When its file cannot be made.
    pub fn begin(store: &Path) -> io::Result<Self> {
        let private = crate::private(store);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&private)?;
        Ok(Self {
            store: store.to_path_buf(),
            private,
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            index: BTreeMap::new(),
            at: 0,
            named: false,
        })
    }

    /// The path of the file that is being written.
    pub fn path(&self) -> &Path {
        &self.private
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    /// Whether it should be finished, and another begun.
    pub fn is_full(&self) -> bool {
        self.index.len() >= FULL_CONTENTS || self.at >= FULL_BYTES
    }

    /// Whether it contains this content.
    pub fn contains(&self, hash: &Hash) -> bool {
        self.index.contains_key(hash)
    }

    /// Adds a content; the caller guarantees the hash.
    ///
    /// # Errors
    /// When the disk cannot be written: the pack is then unusable.
    pub fn add(&mut self, hash: Hash, content: &[u8]) -> io::Result<()> {
        if self.contains(&hash) {
            return Ok(());
        }
        let length = u32::try_from(content.len())
            .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, "too long for a pack"))?;
        self.file.write_all(content)?;
        self.index.insert(hash, (self.at, length));
        self.at += u64::from(length);
        Ok(())
    }

    /// Ends the pack and names it. With `durable` it is on the disk before it
    /// has its name; the caller syncs the folder of packs.
    ///
    /// # Errors
    /// When the disk cannot be written; no file is left then.
    pub fn finish(mut self, durable: bool) -> io::Result<PathBuf> {
        let mut index = Vec::with_capacity(self.index.len() * ENTRY_BYTES + END_BYTES);
        for (hash, (offset, length)) in &self.index {
            index.extend_from_slice(hash);
            index.extend_from_slice(&offset.to_le_bytes());
            index.extend_from_slice(&length.to_le_bytes());
        }
        let id = *blake3::hash(&index).as_bytes();
        index.extend_from_slice(&self.at.to_le_bytes());
        let count = u32::try_from(self.index.len()).map_err(io::Error::other)?;
        index.extend_from_slice(&count.to_le_bytes());
        index.extend_from_slice(&id);
        index.extend_from_slice(MAGIC);
        self.file.write_all(&index)?;
        self.file.flush()?;
        let file = self.file.get_ref();
        file.set_permissions(Permissions::from_mode(0o400))?;
        if durable {
            file.sync_data()?;
        }
        let folder = self.store.join(FOLDER);
        nero_model::paths::make_private(&folder)?;
        let path = folder.join(hex(&id));
        fs::rename(&self.private, &path)?;
        self.named = true;
        Ok(path)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.named {
            // A leftover takes space and does no harm.
            let _ = fs::remove_file(&self.private);
        }
    }
}
