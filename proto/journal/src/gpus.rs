//! The page on which the helper `nerokid gpus` tells of the cards of its host: where it
//! lies, how it is replaced, and how old it may be.
//!
//! The helper writes it; neromum and watchers read it. No one locks anything: a helper
//! that hangs in the driver would keep its lock for ever.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::frame::{self, FrameError, FrameKind};
use crate::v1::GpuPage;

/// Name of the page in the folder for cards.
const PAGE: &str = "page";
/// Name of the file whose time tells when the page was last read.
const READ: &str = "read";

/// Age from which on what a page tells is not known any more.
pub const FRESH: Duration = Duration::from_secs(10);

/// The user's folder for cards of this host, the same for all homes and sessions.
pub fn folder() -> PathBuf {
    let uid = rustix::process::getuid().as_raw();
    PathBuf::from(format!("/tmp/neronet-{uid}/gpus"))
}

/// Makes the folder; each level that programs of the user share is ours and private.
///
/// # Errors
/// When it cannot be made, or belongs to another user.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    if let Some(above) = folder.parent() {
        nero_model::paths::make_private(above)?;
    }
    nero_model::paths::make_private(folder)
}

/// The slot file of a card. Ranges of its bytes, a million in all, are shares of the card.
pub fn slots(folder: &Path, uuid: &str) -> PathBuf {
    folder.join(format!("{}.slots", nero_model::paths::file_name(uuid)))
}

/// Replaces the page.
///
/// # Errors
/// When the disk refuses it.
pub fn write(folder: &Path, page: &GpuPage) -> io::Result<()> {
    let pid = page.helper.as_ref().map_or(0, |helper| helper.pid);
    let private = folder.join(format!(".{PAGE}-{pid}"));
    std::fs::write(&private, frame::encode(FrameKind::GpuPage, page))?;
    std::fs::rename(&private, folder.join(PAGE))
}

/// The page, however old; `None`: no helper has written one.
///
/// # Errors
/// When it cannot be read, or is damaged.
pub fn read(folder: &Path) -> Result<Option<GpuPage>, FrameError> {
    match frame::read(FrameKind::GpuPage, &folder.join(PAGE)) {
        Ok(page) => Ok(Some(page)),
        Err(FrameError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Tells the helper that the page is read: without readers it leaves.
pub fn note_reader(folder: &Path) {
    // A page that nobody can be noted at is read all the same; its helper leaves then.
    if let Ok(file) = std::fs::File::create(folder.join(READ)) {
        drop(file.set_modified(std::time::SystemTime::now()));
    }
}

/// Time since the page was last read; `None`: it never was, or that is not known.
pub fn unread(folder: &Path) -> Option<Duration> {
    let read = std::fs::metadata(folder.join(READ)).and_then(|found| found.modified());
    Some(read.ok()?.elapsed().unwrap_or_default())
}

/// Nanoseconds since boot, sleep included.
pub fn boot_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl GpuPage {
    /// Age at this time of the boot clock; `None`: it was written before this boot.
    pub fn age(&self, boot_ns: u64, boot_id: &[u8; 16]) -> Option<Duration> {
        let helper = self.helper.as_ref()?;
        let this_boot = helper.boot_id == boot_id && self.boot_ns <= boot_ns;
        this_boot.then(|| Duration::from_nanos(boot_ns - self.boot_ns))
    }

    /// Whether what it tells of cards holds now.
    pub fn is_fresh(&self, boot_ns: u64, boot_id: &[u8; 16]) -> bool {
        self.number > 0 && self.age(boot_ns, boot_id).is_some_and(|age| age <= FRESH)
    }
}
