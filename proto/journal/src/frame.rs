//! Files that hold one message: a run's `spec`, cancel requests, rule sets.
//! Complete or absent, and checked when read.
//!
//! ```text
//! "NERO" · kind u8 · 0 [3] · payload length u32 · payload · CRC-32C u32
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nero_model::paths::run;
use rustix::io::Errno;

const MAGIC: &[u8; 4] = b"NERO";
const HEAD: usize = 12;

/// Most memory taken before anything of a file was read: a damaged length may be huge.
const READ_AT_ONCE: u64 = 1 << 20;

/// Kind of message in a framed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// `nero.v1.RunSpec`.
    Spec = 1,
    /// `nero.v1.Cancel`.
    Cancel = 2,
    /// `nero.v1.RuleSet`.
    Rules = 3,
    /// `nero.v1.Pause`.
    Pause = 4,
    /// `nero.journal.v1.Lease`.
    Lease = 10,
    /// `nero.journal.v1.HostSeen`.
    HostSeen = 11,
    /// `nero.journal.v1.Authority`.
    Authority = 12,
    /// `nero.journal.v1.Owner`.
    Owner = 20,
    /// `nero.journal.v1.Gone`.
    Gone = 21,
    /// `nero.journal.v1.Unnamed`.
    Unnamed = 22,
    /// `nero.journal.v1.Plan`.
    Plan = 30,
    /// `nero.journal.v1.TaskStart`.
    TaskStart = 31,
    /// `nero.journal.v1.TaskLeft`.
    TaskLeft = 32,
    /// `nero.journal.v1.HostSample`.
    HostSample = 40,
    /// `nero.journal.v1.GpuPage`.
    GpuPage = 50,
    /// `nero.v1.RelayOrder`.
    RelayOrder = 60,
    /// `nero.v1.RelayClaim`.
    RelayClaim = 61,
    /// `nero.journal.v1.LedgerIdentity`.
    LedgerIdentity = 70,
}

/// Reason why a framed file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The file cannot be read.
    #[error("cannot read it")]
    Io(#[source] io::Error),
    /// The file is of another kind, cut off, or changed.
    #[error("it is damaged, or not the file of its name")]
    Damaged,
    /// The message cannot be decoded.
    #[error("its content cannot be decoded")]
    Decode(#[source] prost::DecodeError),
}

/// The bytes of a framed file.
pub fn encode(kind: FrameKind, message: &impl prost::Message) -> Vec<u8> {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(HEAD + length + 4);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[kind as u8, 0, 0, 0]);
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    message.encode(&mut bytes).expect("a vector grows");
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// The message in the bytes of a framed file.
///
/// # Errors
/// When the bytes are damaged or of another kind.
pub fn decode<M: prost::Message + Default>(kind: FrameKind, bytes: &[u8]) -> Result<M, FrameError> {
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or(FrameError::Damaged)?;
    let sound = body.len() >= HEAD
        && &body[..4] == MAGIC
        && body[4] == kind as u8
        && body[8..HEAD] == ((body.len() - HEAD) as u32).to_le_bytes()
        && crc32c::crc32c(body) == u32::from_le_bytes(*crc);
    if !sound {
        return Err(FrameError::Damaged);
    }
    M::decode(&body[HEAD..]).map_err(FrameError::Decode)
}

/// Reads a framed file.
///
/// # Errors
/// When the file cannot be read, is damaged, or of another kind.
pub fn read<M: prost::Message + Default>(kind: FrameKind, path: &Path) -> Result<M, FrameError> {
    decode(kind, &read_file(path).map_err(FrameError::Io)?)
}

/// Reads without waiting: a job may have put a pipe there.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = crate::open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    let mut bytes = Vec::new();
    if found.is_file() {
        // Only this length is read: to search the end would be three more calls
        // for each run that starts. A spec that is being written is too short
        // either way, and is read again.
        bytes.reserve_exact(found.len().min(READ_AT_ONCE) as usize);
        file.take(found.len()).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Makes `path` with this content, all or nothing.
///
/// # Errors
/// `AlreadyExists` when the name is taken; nothing is changed then.
pub fn create(kind: FrameKind, path: &Path, message: &impl prost::Message) -> io::Result<()> {
    link(kind, path, message, |_| Ok(()))
}

/// Makes the spare of a run whose spec exists. Best effort: without a spare, a
/// cancel request needs room on the disk.
pub fn make_spare(run_dir: &Path) {
    let _ = fs::hard_link(run_dir.join(run::SPEC), run_dir.join(run::SPARE));
}

/// Whether an error means that the disk has no room or no inodes left.
pub fn has_no_room(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// As [`create`], and syncs the content before the name appears: a name found
/// after a power cut has its content. For files that are not written again when
/// they are damaged.
///
/// # Errors
/// As [`create`].
pub fn create_synced(
    kind: FrameKind,
    path: &Path,
    message: &impl prost::Message,
) -> io::Result<()> {
    link(kind, path, message, File::sync_all)
}

/// Puts this content in the place of what `path` is, all or nothing, and syncs it with its name.
///
/// # Errors
/// When it cannot be written; what was there stays.
pub fn replace(kind: FrameKind, path: &Path, message: &impl prost::Message) -> io::Result<()> {
    let folder = path
        .parent()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no folder in the path"))?;
    let name = nero_model::ids::hex(&nero_model::ids::random::<8>());
    let private = folder.join(format!(".{name}"));
    let written = create_synced(kind, &private, message).and_then(|()| fs::rename(&private, path));
    if written.is_err() {
        // The private name is ours; a leftover only takes space.
        let _ = fs::remove_file(&private);
    }
    written?;
    File::open(folder)?.sync_all()
}

fn link(
    kind: FrameKind,
    path: &Path,
    message: &impl prost::Message,
    sync: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let folder = path
        .parent()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no folder in the path"))?;
    let private = folder.join(format!(
        ".{}",
        nero_model::ids::hex(&nero_model::ids::random::<8>())
    ));
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&private)
        .and_then(|mut file| {
            file.write_all(&encode(kind, message))?;
            sync(&file)
        })
        .and_then(|()| fs::hard_link(&private, path));
    // When this fails, an unused file keeps the private name.
    let _ = fs::remove_file(&private);
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::Notice;

    #[test]
    fn cut_or_flipped_it_is_refused() {
        let bytes = encode(FrameKind::Spec, &Notice::of("hello"));
        assert_eq!(
            decode::<Notice>(FrameKind::Spec, &bytes).unwrap().text,
            "hello"
        );
        assert!(decode::<Notice>(FrameKind::Cancel, &bytes).is_err());
        for length in 0..bytes.len() {
            assert!(decode::<Notice>(FrameKind::Spec, &bytes[..length]).is_err());
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                decode::<Notice>(FrameKind::Spec, &flipped).is_err(),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_pipe_is_no_framed_file_and_nobody_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spec");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let error = read::<Notice>(FrameKind::Spec, &path).unwrap_err();
        assert!(matches!(error, FrameError::Damaged), "{error}");
    }

    #[test]
    fn the_first_to_make_a_name_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cancel.1");
        let note = |text: &str| Notice::of(text);
        create_synced(FrameKind::Cancel, &path, &note("first")).unwrap();
        let second = create(FrameKind::Cancel, &path, &note("second")).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(
            read::<Notice>(FrameKind::Cancel, &path).unwrap().text,
            "first"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
