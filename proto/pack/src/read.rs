//! Finding and reading what packs hold.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nero_model::ids::hex;
use rustix::fs::OFlags;

use crate::{END_BYTES, ENTRY_BYTES, FOLDER, Hash, MAGIC, unsound};

/// All sound packs of a store as they were when they were opened. Each holds a
/// descriptor and its index: 44 bytes per content.
#[derive(Debug, Default)]
pub struct Packs {
    packs: Vec<Pack>,
}

/// One pack.
#[derive(Debug)]
pub struct Pack {
    id: Hash,
    path: PathBuf,
    file: File,
    bytes: u64,
    index: Vec<u8>,
}

/// Where a content lies.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pack: &'a Pack,
    hash: &'a Hash,
    offset: u64,
    length: u32,
}

impl Packs {
    /// Opens those of a store. What is no pack, or not whole, is passed over.
    ///
    /// # Errors
    /// When the folder or a pack cannot be read now.
    pub fn open(store: &Path) -> io::Result<Self> {
        let entries = match fs::read_dir(store.join(FOLDER)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            entries => entries?,
        };
        let mut packs = Vec::new();
        for entry in entries {
            match Pack::open(&entry?.path()) {
                Ok(pack) => packs.push(pack),
                // Swept meanwhile, or what a power cut left of it, or what a
                // person closed: as if it were not there.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound
                            | io::ErrorKind::InvalidData
                            | io::ErrorKind::PermissionDenied
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { packs })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packs.is_empty()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Pack> {
        self.packs.iter()
    }

    /// Where a content lies.
    pub fn find<'a>(&'a self, hash: &'a Hash) -> Option<Place<'a>> {
        self.packs.iter().find_map(|pack| pack.find(hash))
    }
}

impl Pack {
    /// Opens one.
    ///
    /// # Errors
    /// `InvalidData` when it is not whole, and what the kernel says.
    pub fn open(path: &Path) -> io::Result<Self> {
        // A fifo that somebody put there is not waited for.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path)?;
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
        let length = u64::from(u32_at(numbers, 8)) * ENTRY_BYTES as u64;
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
            let end = u64_at(entry, 32).checked_add(u64::from(u32_at(entry, 40)));
            end.is_some_and(|end| end <= begin)
        };
        if !index.chunks_exact(ENTRY_BYTES).all(within) {
            return Err(unsound("its index leads out of it"));
        }
        Ok(Self {
            id: blake3::hash(&index).into(),
            path: path.to_path_buf(),
            file,
            bytes,
            index,
        })
    }

    /// Its name.
    pub fn id(&self) -> &Hash {
        &self.id
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it holds.
    pub fn hashes(&self) -> impl Iterator<Item = &Hash> {
        let entries = self.index.chunks_exact(ENTRY_BYTES);
        entries.filter_map(|entry| entry.first_chunk())
    }

    fn find<'a>(&'a self, hash: &'a Hash) -> Option<Place<'a>> {
        let (mut low, mut high) = (0, self.index.len() / ENTRY_BYTES);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = &self.index[middle * ENTRY_BYTES..][..ENTRY_BYTES];
            match entry[..32].cmp(hash) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    return Some(Place {
                        pack: self,
                        hash,
                        offset: u64_at(entry, 32),
                        length: u32_at(entry, 40),
                    });
                }
            }
        }
        None
    }
}

impl Place<'_> {
    /// Length of the content.
    pub fn size(&self) -> u64 {
        self.length.into()
    }

    /// The pack that holds it.
    pub fn pack(&self) -> &Path {
        &self.pack.path
    }

    /// Orders places as they lie on the disk.
    pub fn order(&self) -> (Hash, u64) {
        (self.pack.id, self.offset)
    }

    /// Reads the content.
    ///
    /// # Errors
    /// `InvalidData` when a disk changed it, and what the kernel says.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut content = vec![0; self.length as usize];
        self.pack.file.read_exact_at(&mut content, self.offset)?;
        if blake3::hash(&content).as_bytes() != self.hash {
            return Err(unsound("a content of the pack is damaged"));
        }
        Ok(content)
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u64::from_le_bytes(*eight.unwrap_or(&[0; 8]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u32::from_le_bytes(*four.unwrap_or(&[0; 4]))
}
