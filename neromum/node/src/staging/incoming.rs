//! Blobs on their way into the store. A blob in one message is written under a
//! private name, a longer one under `store/partial/<hash>`, where a broken
//! transfer is resumed later. Neither gets its own name before all of its
//! content was hashed.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nero_blobs::WriteRefused;
use nero_model::ids::hex;

use super::flights::WriterLock;
use super::store::Store;
use super::verified::WrongHash;

/// Bytes of earlier content that are read at a time.
const PIECE_BYTES: usize = 1024 * 1024;

/// A blob on its way into the store.
#[derive(Debug)]
pub struct IncomingBlob {
    hash: [u8; 32],
    hasher: blake3::Hasher,
    path: PathBuf,
    file: File,
    bytes: u64,
    went_on: bool,
    /// `None`: the file is private, and is removed when the transfer breaks.
    held: Option<WriterLock>,
    named: bool,
}

/// Reason why a blob cannot begin, or does not get its name.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The disk refuses.
    #[error("cannot write {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        #[source]
        source: io::Error,
    },
    /// The node has less of the blob than the sender believes.
    #[error("of {} only {has} bytes lie here, not {offset}", hex(.hash))]
    NotThatFar {
        /// Hash of the blob.
        hash: [u8; 32],
        /// Bytes that the node has.
        has: u64,
        /// Offset at which the sender wants to resume.
        offset: u64,
    },
    /// The content has another hash; it was dropped.
    #[error("{wrong}")]
    Wrong {
        /// Hash of the blob.
        wrong: WrongHash,
        /// Whether a part came in an earlier transfer, which may be to blame.
        went_on: bool,
    },
}

impl Store {
    /// Bytes of a blob that a broken transfer left here.
    pub fn partial(&self, hash: &[u8; 32]) -> u64 {
        match fs::symlink_metadata(self.partial_path(hash)) {
            Ok(found) if found.is_file() => found.len(),
            _ => 0,
        }
    }

    /// Begins to receive a blob, from `offset` on; `whole` when all of it is in
    /// one message.
    ///
    /// # Errors
    /// When its file cannot be made, or the node has fewer bytes than `offset`.
    pub fn begin(
        &self,
        hash: [u8; 32],
        offset: u64,
        whole: bool,
    ) -> Result<IncomingBlob, PutError> {
        self.reservations().add(&hash);
        let folder = self.partials();
        let made = nero_model::paths::make_private(&folder);
        made.map_err(at(&folder))?;
        let held = if whole {
            None
        } else {
            self.flights().take(hash)
        };
        let path = match &held {
            Some(_) => self.partial_path(&hash),
            None => self.private_path(),
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(at(&path))?;
        let mut incoming = IncomingBlob {
            hash,
            hasher: blake3::Hasher::new(),
            path,
            file,
            bytes: 0,
            went_on: offset > 0,
            held,
            named: false,
        };
        if offset > 0 {
            let partial = self.partial_path(&hash);
            incoming.take_up(&partial, offset)?;
        }
        let length = incoming.bytes;
        incoming.file.set_len(length).map_err(at(&incoming.path))?;
        Ok(incoming)
    }

    /// Gives a blob its name; returns its size.
    ///
    /// # Errors
    /// When the disk refuses, or the content has another hash than announced.
    pub fn finish(&self, mut incoming: IncomingBlob) -> Result<u64, PutError> {
        let hash = incoming.hash;
        if *incoming.hasher.finalize().as_bytes() != hash {
            incoming.held = None;
            return Err(PutError::Wrong {
                wrong: WrongHash { hash },
                went_on: incoming.went_on,
            });
        }
        let path = self.path(&hash);
        let readable = Permissions::from_mode(0o400);
        incoming
            .file
            .set_permissions(readable)
            .map_err(at(&incoming.path))?;
        let named = match fs::rename(&incoming.path, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = path.parent().unwrap_or(&path);
                nero_model::paths::make_private(folder).map_err(at(folder))?;
                fs::rename(&incoming.path, &path)
            }
            done => done,
        };
        named.map_err(at(&path))?;
        self.verified().note(&incoming.file, &hash);
        incoming.named = true;
        Ok(incoming.bytes)
    }
}

impl IncomingBlob {
    /// Appends content.
    ///
    /// # Errors
    /// When the disk refuses; earlier bytes stay good.
    pub fn write(&mut self, data: &[u8]) -> Result<(), PutError> {
        self.file.write_all(data).map_err(at(&self.path))?;
        self.hasher.update(data);
        self.bytes += data.len() as u64;
        Ok(())
    }

    /// Bytes that have arrived.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Resumes behind the first `offset` bytes of `partial`: in place, or in a
    /// copy while another sender of the same blob has it.
    fn take_up(&mut self, partial: &Path, offset: u64) -> Result<(), PutError> {
        let copied = self.held.is_none();
        let opened = File::open(partial);
        let too_far = |has| PutError::NotThatFar {
            hash: self.hash,
            has,
            offset,
        };
        let mut before = match opened {
            Ok(file) => file.take(offset),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(too_far(0)),
            Err(error) => return Err(at(partial)(error)),
        };
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(offset).unwrap_or(PIECE_BYTES))];
        while self.bytes < offset {
            let length = before.read(&mut piece).map_err(at(partial))?;
            if length == 0 {
                return Err(too_far(self.bytes));
            }
            self.hasher.update(&piece[..length]);
            if copied {
                self.file
                    .write_all(&piece[..length])
                    .map_err(at(&self.path))?;
            }
            self.bytes += length as u64;
        }
        if !copied {
            use std::io::Seek as _;
            let place = io::SeekFrom::Start(offset);
            self.file.seek(place).map_err(at(&self.path))?;
        }
        Ok(())
    }
}

impl Drop for IncomingBlob {
    fn drop(&mut self) {
        // A part of a long file waits for the rest; a private file, or one with
        // wrong content, is removed.
        let keep = self.held.is_some() && self.file.metadata().is_ok_and(|found| found.len() > 0);
        if !self.named && !keep {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> PutError {
    let path = path.to_path_buf();
    move |source| PutError::Io { path, source }
}

impl From<WriteRefused> for PutError {
    fn from(WriteRefused { path, source }: WriteRefused) -> Self {
        Self::Io { path, source }
    }
}
