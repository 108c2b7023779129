//! The file `state.db.open`: it exists while the store is open, and contains
//! what the logs of both files must hold.
//!
//! SQLite takes a damaged, cut or missing log for one that ends earlier, so
//! commits that people rely on would vanish in silence. The mark has one line
//! per file: the log that is being written, and its number of frames. The line
//! is written after each commit, so a log with fewer frames than the mark was
//! damaged.
//!
//! The line never claims more than a crash leaves:
//! * After `kill -9`, everything written is there. After another start of the
//!   machine (the line has the boot id), only synced frames must be.
//! * Before frames move into the database, after which SQLite begins its log at
//!   the front again, `emptied` is written and synced. From then until the next
//!   commit another log, or none, is right as well.
//! * A line that is missing, torn or of an older build claims nothing.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use nero_model::process;

use crate::error::StoreError;
use crate::wal::{self, Salts, WalState};

/// Length of one line, with blanks behind its end.
const LINE_BYTES: usize = 128;

/// The required content of one file's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    boot: [u8; 16],
    /// Salts of the log that was written; `None` while it was empty.
    salts: Option<Salts>,
    /// Frames that were written.
    written: u32,
    /// Number of these frames that were synced.
    synced: u32,
    /// The frames are in the database, or on their way there: SQLite may have
    /// begun another log.
    emptied: bool,
}

/// How a log differs from its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogDifference {
    /// The log is missing or empty.
    Everything,
    /// The log's header is damaged.
    Header,
    /// It is a sound log, but not the claimed one.
    Another,
    /// Only `sound` of its frames are sound.
    Frames { sound: u32, of: u32 },
}

impl Claim {
    /// Compares a log with the claim.
    pub(crate) fn compare(&self, log: WalState, boot: &[u8; 16]) -> Result<(), LogDifference> {
        let of = if self.boot == *boot {
            self.written
        } else {
            self.synced
        };
        match (self.salts, log) {
            (Some(salts), WalState::Frames { salts: its, sound }) if salts == its && sound < of => {
                Err(LogDifference::Frames { sound, of })
            }
            (Some(salts), WalState::Frames { salts: its, .. }) if salts == its => Ok(()),
            (None, WalState::Frames { .. }) => Ok(()),
            // Only a power cut may tear the header of the next log.
            (_, WalState::NoHeader) if self.emptied && self.boot == *boot => {
                Err(LogDifference::Header)
            }
            (_, _) if self.emptied || of == 0 => Ok(()),
            (_, WalState::Nothing) => Err(LogDifference::Everything),
            (_, WalState::NoHeader) => Err(LogDifference::Header),
            (Some(_), WalState::Frames { .. }) => Err(LogDifference::Another),
        }
    }

    fn line(&self) -> String {
        let mut text = String::new();
        for byte in self.boot {
            let _ = write!(text, "{byte:02x}");
        }
        let salts = self
            .salts
            .map_or_else(|| "-".to_owned(), |salts| format!("{salts:016x}"));
        let emptied = if self.emptied { "emptied" } else { "-" };
        let _ = write!(text, " {salts} {} {} {emptied}", self.written, self.synced);
        let crc = crc32c::crc32c(text.as_bytes());
        let _ = write!(text, " {crc:08x} ");
        let text = format!("{text:<width$}", width = LINE_BYTES - 1);
        text + "\n"
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?.trim_end();
        let (text, crc) = text.rsplit_once(' ')?;
        if u32::from_str_radix(crc, 16).ok()? != crc32c::crc32c(text.as_bytes()) {
            return None;
        }
        let mut words = text.split(' ');
        let boot = u128::from_str_radix(words.next()?, 16).ok()?.to_be_bytes();
        let salts = match words.next()? {
            "-" => None,
            salts => Some(u64::from_str_radix(salts, 16).ok()?),
        };
        let claim = Self {
            boot,
            salts,
            written: words.next()?.parse().ok()?,
            synced: words.next()?.parse().ok()?,
            emptied: words.next()? == "emptied",
        };
        Some(claim)
    }
}

/// The claims of the mark, in the order of its lines.
///
/// # Errors
/// When the mark exists and cannot be read.
pub(crate) fn read(path: &Path) -> Result<[Option<Claim>; 2], StoreError> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => drop(read.map_err(StoreError::io("read", path))?),
    }
    let line = |index: usize| {
        let from = index * LINE_BYTES;
        Claim::parse(bytes.get(from..from + LINE_BYTES)?)
    };
    Ok([line(0), line(1)])
}

/// Makes the mark. A claim of an earlier mark stays until its file's new line
/// is written.
pub(crate) fn make(path: &Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(StoreError::io("make", path))
}

/// The line of one open file.
#[derive(Debug)]
pub(crate) struct Line {
    mark: File,
    index: u64,
    boot: [u8; 16],
    /// The log, once there is one.
    log: RefCell<Option<File>>,
    last: Cell<Option<Claim>>,
}

impl Line {
    /// Line `index` of the mark, for a file whose log has the frames that
    /// `before` claims, or more.
    ///
    /// # Errors
    /// When the boot id cannot be read.
    pub(crate) fn new(mark: File, index: u64, before: Option<Claim>) -> Result<Self, StoreError> {
        Ok(Self {
            mark,
            index,
            boot: boot()?,
            log: RefCell::new(None),
            last: Cell::new(before),
        })
    }

    /// Claims the frames of a commit. If the claim cannot be written, the line
    /// keeps the older claim, which requires less.
    pub(crate) fn wrote(&self, database: &Path, frames: u32, synced: bool) {
        let claim = self.claim(database, frames, synced);
        if self.put(&claim).is_ok() {
            self.last.set(Some(claim));
        }
    }

    /// Records, synced, that the log may begin anew. Without room for that, the
    /// line claims nothing any more.
    pub(crate) fn empties(&self, database: &Path, frames: u32) {
        let claim = Claim {
            emptied: true,
            ..self.claim(database, frames, false)
        };
        match self.put(&claim).and_then(|()| self.mark.sync_data()) {
            Ok(()) => self.last.set(Some(claim)),
            Err(_) => {
                let _ = self.mark.set_len(0).and_then(|()| self.mark.sync_all());
                self.last.set(None);
            }
        }
    }

    fn claim(&self, database: &Path, frames: u32, synced: bool) -> Claim {
        let salts = if frames == 0 {
            None
        } else {
            self.salts(database)
        };
        let before = self.last.get().filter(|last| last.salts == salts);
        let synced_before = before.map_or(0, |last| last.synced.min(frames));
        Claim {
            boot: self.boot,
            salts,
            written: frames,
            synced: if synced { frames } else { synced_before },
            emptied: frames == 0,
        }
    }

    fn salts(&self, database: &Path) -> Option<Salts> {
        let mut log = self.log.borrow_mut();
        if log.is_none() {
            *log = File::open(wal::path_of(database)).ok();
        }
        wal::salts(log.as_ref()?)
    }

    fn put(&self, claim: &Claim) -> io::Result<()> {
        let at = self.index * LINE_BYTES as u64;
        self.mark.write_all_at(claim.line().as_bytes(), at)
    }
}

/// Compares a file's log with the claim about it.
///
/// # Errors
/// When the log lacks written frames, or belongs to another file.
pub(crate) fn check(database: &Path, claim: Option<Claim>) -> Result<(), StoreError> {
    let path = wal::path_of(database);
    let log = wal::read(&path).map_err(StoreError::io("read", &path))?;
    // A backup copy put in place of the database is one file without a log;
    // SQLite would use any log beside it.
    if is_copy(database)? {
        return match log {
            WalState::Nothing => Ok(()),
            WalState::NoHeader | WalState::Frames { .. } => Err(StoreError::Log {
                database: database.to_path_buf(),
                path,
                what: "belongs to another file than the copy that lies there now".to_owned(),
            }),
        };
    }
    let Some(claim) = claim else { return Ok(()) };
    claim
        .compare(log, &boot()?)
        .map_err(|lacks| StoreError::Log {
            database: database.to_path_buf(),
            path,
            what: match lacks {
                LogDifference::Everything => "is missing".to_owned(),
                LogDifference::Header => "is damaged: it has no sound header".to_owned(),
                LogDifference::Another => "is not the one that was written last".to_owned(),
                LogDifference::Frames { sound, of } => {
                    format!("is damaged or cut: {sound} of {of} frames are sound")
                }
            },
        })
}

/// Whether [`crate::backup`] made the database: its copies have no log.
fn is_copy(database: &Path) -> Result<bool, StoreError> {
    /// Offset of the format version for writers in a database; 2 means a log is
    /// used.
    const WRITE_VERSION: u64 = 18;
    let mut version = [0];
    File::open(database)
        .and_then(|file| file.read_at(&mut version, WRITE_VERSION))
        .map_err(StoreError::io("read", database))?;
    Ok(version[0] == 1)
}

/// The kernel's id of this start of the machine.
fn boot() -> Result<[u8; 16], StoreError> {
    process::boot_id().map_err(StoreError::io(
        "read",
        "/proc/sys/kernel/random/boot_id".as_ref(),
    ))
}

/// Removes the mark after both files were closed.
pub(crate) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: [u8; 16] = [3; 16];

    fn claim() -> Claim {
        Claim {
            boot: BOOT,
            salts: Some(0x0102_0304_0506_0708),
            written: 9,
            synced: 5,
            emptied: false,
        }
    }

    fn frames(salts: Salts, sound: u32) -> WalState {
        WalState::Frames { salts, sound }
    }

    #[test]
    fn a_claim_is_read_as_it_was_written_and_a_torn_one_claims_nothing() {
        for claim in [
            claim(),
            Claim {
                salts: None,
                emptied: true,
                ..claim()
            },
        ] {
            let line = claim.line();
            assert_eq!(line.len(), LINE_BYTES);
            assert_eq!(Claim::parse(line.as_bytes()), Some(claim));
            for at in 0..line.trim_end().len() {
                let mut torn = line.clone().into_bytes();
                torn[at] ^= 1;
                assert_eq!(Claim::parse(&torn), None, "byte {at}");
            }
        }
    }

    #[test]
    fn after_a_kill_everything_written_must_be_there() {
        let salts = claim().salts.unwrap();
        assert_eq!(claim().compare(frames(salts, 9), &BOOT), Ok(()));
        assert_eq!(claim().compare(frames(salts, 12), &BOOT), Ok(()));
        let cut = LogDifference::Frames { sound: 8, of: 9 };
        assert_eq!(claim().compare(frames(salts, 8), &BOOT), Err(cut));
        assert_eq!(
            claim().compare(WalState::Nothing, &BOOT),
            Err(LogDifference::Everything)
        );
        assert_eq!(
            claim().compare(WalState::NoHeader, &BOOT),
            Err(LogDifference::Header)
        );
        assert_eq!(
            claim().compare(frames(1, 90), &BOOT),
            Err(LogDifference::Another)
        );
    }

    #[test]
    fn after_a_power_cut_what_was_synced_must_be_there() {
        let (salts, other) = (claim().salts.unwrap(), [4; 16]);
        assert_eq!(claim().compare(frames(salts, 5), &other), Ok(()));
        let cut = LogDifference::Frames { sound: 4, of: 5 };
        assert_eq!(claim().compare(frames(salts, 4), &other), Err(cut));
        let unsynced = Claim {
            synced: 0,
            ..claim()
        };
        for log in [
            WalState::Nothing,
            WalState::NoHeader,
            frames(salts, 0),
            frames(1, 3),
        ] {
            assert_eq!(unsynced.compare(log, &other), Ok(()));
        }
    }

    #[test]
    fn a_log_whose_frames_were_moved_may_begin_anew() {
        let salts = claim().salts.unwrap();
        let emptied = Claim {
            emptied: true,
            ..claim()
        };
        for log in [
            WalState::Nothing,
            frames(salts, 9),
            frames(7, 0),
            frames(7, 3),
        ] {
            assert_eq!(emptied.compare(log, &BOOT), Ok(()));
        }
        // SQLite reads the frames that exist, so they have to be sound.
        assert!(emptied.compare(frames(salts, 3), &BOOT).is_err());
        assert!(emptied.compare(WalState::NoHeader, &BOOT).is_err());
        assert_eq!(emptied.compare(WalState::NoHeader, &[4; 16]), Ok(()));
    }
}
