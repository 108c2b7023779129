//! Writes a stream of files below the results, in the order of the request. A
//! part that does not fit the request is refused, since nodes are not trusted.
//! Blocks; never talks to a node itself.

use nero_model::plain::plain;
use nero_model::safe::Safe;
use nero_wire::v1;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use super::choice::FileToFetch;
use super::folder::Folder;
use super::notes::Notes;
use super::stamps::{FileStamps, Stamp};
use super::trouble::{MAKE_ROOM, Trouble};
use crate::transfer::RunningTransfer;
use nero_home::failure::Failure;

/// How many bytes may come between two looks at the free space.
pub(super) const LOOK_EVERY_BYTES: u64 = 4 * 1024 * 1024;

/// The result of a stream.
#[derive(Debug, Default)]
pub(super) struct StreamResult {
    /// Files that are whole.
    pub(super) files: u64,
    /// Bytes that travelled.
    pub(super) bytes: u64,
    /// How many of the requested files are done, from the first on.
    pub(super) next: usize,
    /// Files that changed while they were read.
    pub(super) changed: Vec<String>,
    /// Files that were gone or could not be read, and why.
    pub(super) unread: Vec<String>,
    pub(super) notes: Notes,
}

/// A file that is being written.
struct FileWrite {
    file: File,
    hasher: blake3::Hasher,
    /// The offset of the next byte.
    at: u64,
}

/// Takes parts until they end. A partial file stays and is continued at the
/// next try.
pub(super) fn receive(
    folder: &mut Folder,
    known: &mut FileStamps,
    wanted: &[FileToFetch],
    parts: impl Iterator<Item = v1::FilePart>,
    moving: &mut RunningTransfer,
    min_free: u64,
) -> (StreamResult, Result<(), Trouble>) {
    let mut receiver = Receiver {
        folder,
        known,
        wanted,
        moving,
        min_free,
        taking: None,
        received: StreamResult::default(),
        looked_at: 0,
    };
    for part in parts {
        match receiver.take(part) {
            Ok(true) => {}
            Ok(false) => return (receiver.received, Ok(())),
            Err(trouble) => return (receiver.received, Err(trouble)),
        }
    }
    (receiver.received, Ok(()))
}

struct Receiver<'a> {
    folder: &'a mut Folder,
    known: &'a mut FileStamps,
    wanted: &'a [FileToFetch],
    moving: &'a mut RunningTransfer,
    /// Bytes that stay free on the disk.
    min_free: u64,
    taking: Option<FileWrite>,
    received: StreamResult,
    looked_at: u64,
}

impl Receiver<'_> {
    /// Takes one part; returns whether more may come.
    fn take(&mut self, part: v1::FilePart) -> Result<bool, Trouble> {
        let Some(want) = self.wanted.get(self.received.next) else {
            return Err(refused("more files came than were asked for"));
        };
        let first = self.taking.is_none();
        if (first || !part.path.is_empty()) && part.path != want.name {
            return Err(refused(format!(
                "{} came where {} was asked for",
                Safe::line(&part.path),
                Safe::line(&want.name)
            )));
        }
        if !part.problem.is_empty() {
            self.unread(want, &part.problem);
            return Ok(self.received.next < self.wanted.len());
        }
        let mut taking = match self.taking.take() {
            Some(taking) => taking,
            None => self.begin(want, part.offset)?,
        };
        if part.offset != taking.at || (part.data.is_empty() && !part.last) {
            return Err(refused(format!(
                "{} came with a gap at byte {}",
                Safe::line(&want.name),
                taking.at
            )));
        }
        let bytes = part.data.len() as u64;
        if taking.at.saturating_add(bytes) > want.most {
            self.drop_half(want)?;
            self.received.notes.add(format!(
                "{} grew beyond {} bytes while it was fetched",
                Safe::line(&want.name),
                want.most
            ));
            self.received.changed.push(want.name.clone());
            self.received.next += 1;
            // Further parts of this stream are not awaited.
            return Ok(false);
        }
        taking.hasher.update(&part.data);
        taking
            .file
            .write_all(&part.data)
            .map_err(|error| unwritten(self.folder, want, &error))?;
        taking.at += bytes;
        self.received.bytes += bytes;
        self.moving.add(bytes, 0);
        self.look_at_room()?;
        if part.last {
            self.finish(want, taking, &part)?;
        } else {
            self.taking = Some(taking);
        }
        Ok(self.received.next < self.wanted.len())
    }

    fn begin(&mut self, want: &FileToFetch, offset: u64) -> Result<FileWrite, Trouble> {
        let go_on = want.from > 0 && offset == want.from;
        let failed = |folder: &Folder, error| unwritten(folder, want, &error);
        if !go_on {
            self.known
                .begin(&want.name, want.stamp)
                .map_err(|error| failed(self.folder, error))?;
        }
        let part = self.folder.begin(&want.path, go_on);
        let part = part.map_err(|error| failed(self.folder, error))?;
        if go_on && part.there != offset {
            return Err(refused("half a file changed here while it was fetched"));
        }
        Ok(FileWrite {
            file: part.file,
            hasher: blake3::Hasher::new(),
            at: part.there,
        })
    }

    fn finish(
        &mut self,
        want: &FileToFetch,
        taking: FileWrite,
        part: &v1::FilePart,
    ) -> Result<(), Trouble> {
        let hash = taking.hasher.finalize();
        if !part.hash.is_empty() && hash.as_bytes().as_slice() != part.hash {
            self.drop_half(want)?;
            return Err(refused(format!(
                "{} came damaged: its hash is another",
                Safe::line(&want.name)
            )));
        }
        let changed = part.changed || taking.at != want.stamp.size;
        // A file that differs from the list gets another time, too: it is then
        // fetched again even if a kill prevents the record.
        let at = (!changed).then_some(want.stamp.modified_ms);
        let kept = if changed {
            Stamp::default()
        } else {
            want.stamp
        };
        self.folder
            .finish(&want.path, taking.file, at, want.executable)
            .map_err(|error| unwritten(self.folder, want, &error))?;
        self.note_known(want, |known| known.keep(&want.name, kept))?;
        if changed {
            self.received.changed.push(want.name.clone());
        }
        self.received.files += 1;
        self.received.next += 1;
        self.moving.add(0, 1);
        Ok(())
    }

    /// The node cannot read the file.
    fn unread(&mut self, want: &FileToFetch, why: &str) {
        self.taking = None;
        self.folder.discard(&want.path);
        let why = plain(why);
        let why = &why[..why.floor_char_boundary(300)];
        self.received
            .unread
            .push(format!("{}: {}", Safe::line(&want.name), Safe::line(why)));
        self.received.next += 1;
    }

    fn drop_half(&mut self, want: &FileToFetch) -> Result<(), Trouble> {
        self.folder.discard(&want.path);
        self.note_known(want, |known| known.drop_half(&want.name))
    }

    fn note_known(
        &mut self,
        want: &FileToFetch,
        note: impl FnOnce(&mut FileStamps) -> std::io::Result<()>,
    ) -> Result<(), Trouble> {
        note(self.known).map_err(|error| unwritten(self.folder, want, &error))
    }

    /// Checks the free space: no node may fill this machine's disk.
    fn look_at_room(&mut self) -> Result<(), Trouble> {
        if self.received.bytes < self.looked_at.saturating_add(LOOK_EVERY_BYTES) {
            return Ok(());
        }
        self.looked_at = self.received.bytes;
        enough_room(self.folder, 0, self.min_free)
    }
}

/// How many bytes may come before only `min_free` are free.
pub(super) fn room(folder: &Folder, min_free: u64) -> Result<u64, Trouble> {
    let free = folder.free_bytes();
    free.map(|free| free.saturating_sub(min_free))
        .map_err(|error| Trouble::unwritten(folder.path(), &error))
}

/// Fails if so many more bytes leave less than `min_free`.
pub(super) fn enough_room(folder: &Folder, bytes: u64, min_free: u64) -> Result<(), Trouble> {
    let free = folder
        .free_bytes()
        .map_err(|error| Trouble::unwritten(folder.path(), &error))?;
    if bytes.saturating_add(min_free) <= free {
        return Ok(());
    }
    let size = crate::snapshot::size;
    let failure = Failure::failed(format!(
        "there is no room for the results in {}",
        folder.path().display()
    ));
    Err(Trouble::Full(
        failure
            .because(format!(
                "{} are to come, {} are free, and {} stay free (`results_min_free`)",
                size(bytes),
                size(free),
                size(min_free)
            ))
            .hint(MAKE_ROOM),
    ))
}

fn refused(why: impl Into<String>) -> Trouble {
    Trouble::Refused(Failure::node_errs("answers with something else").because(why))
}

fn unwritten(folder: &Folder, want: &FileToFetch, error: &std::io::Error) -> Trouble {
    let path: PathBuf = folder.path().join(&want.path);
    Trouble::unwritten(&path, error)
}
