//! Records that neromum itself adds to a run: each in a new segment
//! `mum-<hex>.seg`, since a segment has one writer.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nero_journal::v1::{JobNotStarted, RecordKind, job_not_started, ledger_exited};
use nero_journal::{Clocks, RecordMessage, Segment, WriteError, Writer};
use nero_model::RunToken;
use nero_model::paths::run as names;

use super::segments;

/// The time of a copy that is written with the time of now.
pub const NO_TIME: Clocks = Clocks {
    wall_ns: 0,
    mono_ns: 0,
};

/// Writes one record, with the time of now.
///
/// # Errors
/// When the disk refuses; then no segment is left behind.
pub fn write(
    run_dir: &Path,
    token: RunToken,
    incarnation: u32,
    record: &impl RecordMessage,
) -> io::Result<()> {
    write_own(run_dir, token, incarnation, |segment| {
        plain(segment.record(Clocks::now(), record))
    })
}

/// Writes copies of an end's records, with the times of the originals.
///
/// # Errors
/// When the disk refuses; then no segment is left behind.
pub fn write_copies(
    run_dir: &Path,
    token: RunToken,
    incarnation: u32,
    copies: &[ledger_exited::Copy],
) -> io::Result<()> {
    write_own(run_dir, token, incarnation, |segment| {
        append_copies(segment, copies)
    })
}

fn append_copies(segment: &mut Segment, copies: &[ledger_exited::Copy]) -> io::Result<()> {
    copies.iter().try_for_each(|copy| {
        let kind = i32::try_from(copy.kind)
            .ok()
            .and_then(|kind| RecordKind::try_from(kind).ok())
            .unwrap_or_default();
        plain(segment.append(kind, clocks_of(copy), &Raw(&copy.payload)))
    })
}

/// Makes the claim of a start that nobody made, with its gate closed: whatever comes
/// for it loses, and the next start may be made. False when another made it before.
///
/// # Errors
/// When the disk refuses.
pub fn withhold_claim(run_dir: &Path, token: RunToken, incarnation: u32) -> io::Result<bool> {
    let closed = JobNotStarted {
        stage: job_not_started::Stage::Gate.into(),
        ..JobNotStarted::default()
    };
    claim_with(run_dir, token, incarnation, |segment| {
        plain(segment.record(Clocks::now(), &closed))
    })
}

/// Makes the claim of a start with these records. False when another made it before.
///
/// # Errors
/// When the disk refuses.
pub fn claim(
    run_dir: &Path,
    token: RunToken,
    incarnation: u32,
    records: &[ledger_exited::Copy],
) -> io::Result<bool> {
    claim_with(run_dir, token, incarnation, |segment| {
        append_copies(segment, records)
    })
}

fn claim_with(
    run_dir: &Path,
    token: RunToken,
    incarnation: u32,
    records: impl FnOnce(&mut Segment) -> io::Result<()>,
) -> io::Result<bool> {
    let folder = segments::folder(run_dir, incarnation);
    nero_model::paths::make_private(&folder)?;
    let private = folder.join(format!(
        ".{}",
        nero_model::ids::hex(&nero_model::ids::random::<8>())
    ));
    // A claim has its first record before it has its name.
    let made = Segment::create(&private, Writer::Mum, token.as_bytes(), incarnation)
        .and_then(|mut segment| {
            records(&mut segment)?;
            segment.sync()
        })
        .and_then(|()| std::fs::hard_link(&private, folder.join(names::CLAIM)));
    // When this fails, an unused file keeps the private name.
    let _ = std::fs::remove_file(&private);
    match made {
        Ok(()) => sync(&[folder]).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn plain(written: Result<&[u8], WriteError>) -> io::Result<()> {
    written.map(drop).map_err(io::Error::other)
}

/// The time at which the original of a copied record was written.
fn clocks_of(copy: &ledger_exited::Copy) -> Clocks {
    match copy.wall_ns {
        0 => Clocks::now(),
        wall_ns => Clocks {
            wall_ns,
            mono_ns: copy.mono_ns,
        },
    }
}

/// Syncs the records in the folders of starts, and their names.
///
/// # Errors
/// When the disk refuses.
pub fn sync(starts: &[PathBuf]) -> io::Result<()> {
    for folder in starts {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_segment = name
                .to_str()
                .is_some_and(|name| name == names::CLAIM || name.ends_with(names::SEGMENT_SUFFIX));
            if is_segment && entry.file_type()?.is_file() {
                nero_journal::open(&entry.path())?.sync_all()?;
            }
        }
        for folder in folder.ancestors().take(2) {
            File::open(folder)?.sync_all()?;
        }
    }
    Ok(())
}

/// Appends to a new segment `mum-<hex>.seg` of ours in an incarnation's folder.
fn write_own(
    run_dir: &Path,
    token: RunToken,
    incarnation: u32,
    append: impl FnOnce(&mut Segment) -> io::Result<()>,
) -> io::Result<()> {
    let folder = segments::folder(run_dir, incarnation);
    nero_model::paths::make_private(&folder)?;
    let name = format!(
        "mum-{}{}",
        nero_model::ids::hex(&nero_model::ids::random::<8>()),
        names::SEGMENT_SUFFIX
    );
    let path = folder.join(name);
    let written = Segment::create(&path, Writer::Mum, token.as_bytes(), incarnation)
        .and_then(|mut segment| append(&mut segment));
    written.inspect_err(|error| {
        // No reader has seen the file; each try on a full disk would leave
        // another.
        if error.kind() != io::ErrorKind::AlreadyExists {
            let _ = std::fs::remove_file(&path);
        }
    })
}

/// A payload that is written exactly as it was read.
#[derive(Debug)]
struct Raw<'a>(&'a [u8]);

impl prost::Message for Raw<'_> {
    fn encode_raw(&self, out: &mut impl bytes::BufMut) {
        out.put_slice(self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: prost::encoding::WireType,
        input: &mut impl bytes::Buf,
        context: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        prost::encoding::skip_field(wire_type, tag, input, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0 = &[];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_that_the_disk_refuses_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let token = RunToken::random();
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let refused = write_own(folder.path(), token, 1, |_| Err(full()));
        assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        let left = || std::fs::read_dir(folder.path().join("1")).unwrap().count();
        assert_eq!(left(), 0);
        write_own(folder.path(), token, 1, |_| Ok(())).unwrap();
        assert_eq!(left(), 1);
    }
}
