//! Finds and reads the contents of packs.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use nero_model::ids::hex;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::{
    CONTENTS_READ_MAX, END_BYTES, ENTRY_BYTES, FOLDER, Hash, LENGTH_READ_MAX, MAGIC, is_gone,
    unsound,
};

/// Packs that stay open for the next read: a process may open few files.
pub(crate) const OPEN_MAX: usize = 32;
/// How often the folder is listed again when a pack vanished meanwhile.
const LISTINGS_MAX: usize = 32;

/// All sound packs of a store as they were when they were opened. Each has its
/// index in memory, 44 bytes per content; some packs that were read from stay
/// open.
#[derive(Debug, Default)]
pub struct Packs {
    packs: Vec<Pack>,
    open: AtomicUsize,
}

/// One pack.
#[derive(Debug)]
pub struct Pack {
    id: Hash,
    path: PathBuf,
    file: OnceLock<File>,
    bytes: u64,
    modified: SystemTime,
    index: Vec<u8>,
}

/// The place of a content.
#[derive(Clone, Copy, Debug)]
pub struct PackEntry<'a> {
    pack: &'a Pack,
    /// How many of all packs are open.
    open: &'a AtomicUsize,
    hash: &'a Hash,
    offset: u64,
    length: u32,
}

impl Packs {
    /// Opens the packs of a store. A file that is no pack, not complete, or
    /// cannot be read, is passed over.
    ///
    /// # Errors
    /// When the folder cannot be read, or this process may open no more files.
    pub fn open(store: &Path) -> io::Result<Self> {
        let mut packs = Vec::new();
        let mut gone = HashSet::new();
        for _ in 0..LISTINGS_MAX {
            let complete = list(store, &mut packs, &mut gone)?;
            if complete {
                break;
            }
        }
        Ok(Self {
            packs,
            open: AtomicUsize::new(0),
        })
    }

    /// Whether the store has no packs.
    pub fn is_empty(&self) -> bool {
        self.packs.is_empty()
    }

    /// Every pack.
    pub fn iter(&self) -> impl Iterator<Item = &Pack> {
        self.packs.iter()
    }

    /// The place of a content.
    pub fn find<'a>(&'a self, hash: &'a Hash) -> Option<PackEntry<'a>> {
        self.packs.iter().find_map(|pack| {
            let (offset, length) = pack.find(hash)?;
            Some(PackEntry {
                pack,
                open: &self.open,
                hash,
                offset,
                length,
            })
        })
    }
}

/// Opens all packs of a store. Returns false if a pack vanished meanwhile that
/// is not in `gone`: its contents may be in a new pack that was not listed yet,
/// so the caller lists again.
fn list(store: &Path, packs: &mut Vec<Pack>, gone: &mut HashSet<PathBuf>) -> io::Result<bool> {
    packs.clear();
    let entries = match fs::read_dir(store.join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        entries => entries?,
    };
    let mut complete = true;
    for entry in entries {
        let path = entry?.path();
        match Pack::open(&path) {
            Ok(pack) => packs.push(pack),
            Err(error) if is_gone(&error) => complete &= !gone.insert(path),
            Err(error) if is_ours(&error) => return Err(error),
            // A remnant of a power cut, a file that a person closed to us, or
            // one that the disk does not return counts as absent. It harms no
            // other pack.
            Err(_) => {}
        }
    }
    Ok(complete)
}

/// Whether this process lacks a resource, so that the pack may be sound.
fn is_ours(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM)
    )
}

impl Pack {
    /// Opens a pack.
    ///
    /// # Errors
    /// `InvalidData` when it is not complete, and errors of the kernel.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        let found = file.metadata()?;
        let bytes = found.len();
        let before_end = bytes
            .checked_sub(END_BYTES as u64)
            .filter(|_| found.is_file());
        let before_end = before_end.ok_or_else(|| unsound("it is too short for a pack"))?;
        let mut end = [0; END_BYTES];
        file.read_exact_at(&mut end, before_end)?;
        let (numbers, rest) = end.split_at(12);
        let (id, magic) = rest.split_at(32);
        let begin = u64_at(numbers, 0);
        let count = u64::from(u32_at(numbers, 8));
        let length = count * ENTRY_BYTES as u64;
        if count > CONTENTS_READ_MAX {
            return Err(unsound("its count is more than a pack can hold"));
        }
        if magic != MAGIC || begin.checked_add(length) != Some(before_end) {
            return Err(unsound("it has no sound end"));
        }
        let mut index = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut index, begin)?;
        let is_named = path.file_name().is_some_and(|name| *name == *hex(id));
        if blake3::hash(&index).as_bytes() != id || !is_named {
            return Err(unsound("its index is damaged"));
        }
        let within = |entry: &[u8]| {
            let length = u32_at(entry, 40);
            let end = u64_at(entry, 32).checked_add(u64::from(length));
            length <= LENGTH_READ_MAX && end.is_some_and(|end| end <= begin)
        };
        if !index.chunks_exact(ENTRY_BYTES).all(within) {
            return Err(unsound("its index leads out of it"));
        }
        Ok(Self {
            id: blake3::hash(&index).into(),
            path: path.to_path_buf(),
            file: OnceLock::new(),
            bytes,
            modified: found.modified()?,
            index,
        })
    }

    /// The pack's name.
    pub fn id(&self) -> &Hash {
        &self.id
    }

    /// The pack's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The pack's size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The time of its last renewal.
    pub fn modified(&self) -> SystemTime {
        self.modified
    }

    /// The hashes of its contents.
    pub fn hashes(&self) -> impl Iterator<Item = &Hash> {
        self.contents().map(|(hash, _)| hash)
    }

    /// The hashes and lengths of its contents.
    pub fn contents(&self) -> impl Iterator<Item = (&Hash, u64)> {
        self.entries()
            .map(|(hash, _, length)| (hash, length.into()))
    }

    /// Hash, offset and length of each content.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Hash, u64, u32)> {
        let entries = self.index.chunks_exact(ENTRY_BYTES);
        entries
            .filter_map(|entry| Some((entry.first_chunk()?, u64_at(entry, 32), u32_at(entry, 40))))
    }

    fn find(&self, hash: &Hash) -> Option<(u64, u32)> {
        let (mut low, mut high) = (0, self.index.len() / ENTRY_BYTES);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = &self.index[middle * ENTRY_BYTES..][..ENTRY_BYTES];
            match entry[..32].cmp(hash) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some((u64_at(entry, 32), u32_at(entry, 40))),
            }
        }
        None
    }
}

impl PackEntry<'_> {
    /// Length of the content.
    pub fn size(&self) -> u64 {
        self.length.into()
    }

    /// The path of its pack.
    pub fn pack(&self) -> &Path {
        &self.pack.path
    }

    /// Reads the content; from another pack if this one is gone, since it was
    /// then merged with others.
    ///
    /// # Errors
    /// `InvalidData` when a disk changed it, and errors of the kernel.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut read = self.read_here();
        let store = self.pack.path.parent().and_then(Path::parent);
        for _ in 0..LISTINGS_MAX {
            match &read {
                Err(error) if is_gone(error) => {}
                _ => break,
            }
            match Packs::open(store.unwrap_or(Path::new("")))?.find(self.hash) {
                Some(place) => read = place.read_here(),
                None => break,
            }
        }
        read
    }

    fn read_here(&self) -> io::Result<Vec<u8>> {
        if let Some(file) = self.pack.file.get() {
            return content(file, self.hash, self.offset, self.length);
        }
        let file = open(&self.pack.path)?;
        let content = content(&file, self.hash, self.offset, self.length);
        // Readers at the same time may exceed the limit by one each.
        let few = self.open.load(Ordering::Relaxed) < OPEN_MAX;
        if few && self.pack.file.set(file).is_ok() {
            self.open.fetch_add(1, Ordering::Relaxed);
        }
        content
    }
}

/// Opens a file without blocking on a fifo.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
}

/// Reads a content and checks it.
pub(crate) fn content(file: &File, hash: &Hash, offset: u64, length: u32) -> io::Result<Vec<u8>> {
    let mut content = vec![0; length as usize];
    match file.read_exact_at(&mut content, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(unsound("the pack was cut"));
        }
        read => read?,
    }
    if blake3::hash(&content).as_bytes() != hash {
        return Err(unsound("a content of the pack is damaged"));
    }
    Ok(content)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u64::from_le_bytes(*eight.unwrap_or(&[0; 8]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u32::from_le_bytes(*four.unwrap_or(&[0; 4]))
}
