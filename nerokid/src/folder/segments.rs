//! Reading the segments of a run from its folders, in bounded memory.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nero_journal::{
    HEADER_BYTES, Header, HeaderError, PAYLOAD_BYTES_MAX, RECORD_OVERHEAD, Reader, Record, Stop,
    is_shut, open,
};
use nero_model::paths::run::SEGMENT_SUFFIX;

/// Bytes read at once; grows up to one record when that is longer.
const BLOCK_BYTES: usize = 64 * 1024;
const BLOCK_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + RECORD_OVERHEAD;

/// What reading a segment to its end found beside its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentEnd {
    /// None when it has no good header.
    pub header: Option<Header>,
    /// Bytes were changed after they were written: records may be missing. An
    /// unfinished end is no damage.
    pub is_damaged: bool,
}

/// Calls `each` with every good record of a segment, in order.
///
/// # Errors
/// When the file cannot be read.
pub fn for_each(path: &Path, mut each: impl FnMut(&Record<'_>)) -> io::Result<SegmentEnd> {
    for_each_of(path, |_, record| each(record))
}

/// Calls `each` with the segment's header and every good record, in order.
///
/// # Errors
/// When the file cannot be read.
pub fn for_each_of(
    path: &Path,
    mut each: impl FnMut(&Header, &Record<'_>),
) -> io::Result<SegmentEnd> {
    let no_header = |is_damaged| SegmentEnd {
        header: None,
        is_damaged,
    };
    let file = open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(no_header(false));
    }
    let mut buffer = vec![0; HEADER_BYTES];
    let got = read_at(&file, &mut buffer, 0)?;
    let header = match Header::parse(&buffer[..got]) {
        Ok(header) => header,
        // It was never really begun.
        Err(HeaderError::Short) => return Ok(no_header(false)),
        Err(HeaderError::NotASegment | HeaderError::Damaged | HeaderError::TooNew { .. }) => {
            return Ok(no_header(true));
        }
    };
    let mut offset = HEADER_BYTES as u64;
    let mut chain = header.chain;
    let mut size = BLOCK_BYTES;
    loop {
        buffer.resize(size, 0);
        let got = read_at(&file, &mut buffer, offset)?;
        let mut reader = Reader::new(&buffer[..got], offset, chain);
        for record in &mut reader {
            each(&header, &record);
        }
        let moved = reader.offset() != offset;
        (offset, chain) = (reader.offset(), Reader::chain(&reader));
        // The file's end, or a whole block without a good record: what is left is
        // unfinished, not written yet, or damaged.
        if got < size || !moved && size == BLOCK_BYTES_MAX {
            return Ok(SegmentEnd {
                header: Some(header),
                is_damaged: matches!(reader.stop(), Stop::Damaged(_)),
            });
        }
        if !moved {
            size = BLOCK_BYTES_MAX;
        }
    }
}

/// Names of an incarnation's segments that begin with `prefix`, in the order
/// in which they were begun.
///
/// # Errors
/// When the folder or a header cannot be read.
pub fn list(folder: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if !(name.starts_with(prefix.as_bytes()) && name.ends_with(SEGMENT_SUFFIX.as_bytes())) {
            continue;
        }
        // Whatever else has such a name, a job put there.
        if !entry.file_type()?.is_file() {
            continue;
        }
        let path = entry.path();
        let mut head = [0; HEADER_BYTES];
        let file = match open(&path) {
            // A job or a person took the rights away: its records are left out.
            Err(error) if is_shut(&path, &error) => continue,
            opened => opened?,
        };
        let got = read_at(&file, &mut head, 0)?;
        if let Ok(header) = Header::parse(&head[..got]) {
            found.push((header, path));
        }
    }
    // Within one start of the machine the monotonic time decides, which a
    // person cannot set back; between two of them only the wall time is left.
    let begun: Vec<([u8; 16], i64)> = found
        .iter()
        .map(|(header, _)| (header.boot_id, header.wall_ns))
        .collect();
    found.sort_by_key(|(header, _)| {
        let same_boot = begun
            .iter()
            .filter(|(boot_id, _)| *boot_id == header.boot_id);
        let first = same_boot.map(|(_, wall_ns)| *wall_ns).min();
        (first, header.mono_ns)
    });
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Fills `buffer` from `offset` on, as far as the file goes.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_that_nobody_may_read_hides_no_other() {
        use nero_journal::{Segment, Writer};
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        mode(folder.path(), 0o755);
        let paths = ["watch-00.seg", "watch-01.seg"].map(|name| folder.path().join(name));
        for (path, bits) in paths.iter().zip([0, 0o644]) {
            Segment::create(path, Writer::Watcher, &[1; 16], 1).unwrap();
            mode(path, bits);
        }
        // A file's mode binds a thread that is not root.
        let listed = std::thread::scope(|scope| {
            let nobody = scope.spawn(|| {
                if rustix::process::geteuid().is_root() {
                    let nobody = rustix::process::Uid::from_raw(65534);
                    rustix::thread::set_thread_uid(nobody).unwrap();
                }
                list(folder.path(), "watch-")
            });
            nobody.join().unwrap()
        });
        assert_eq!(listed.unwrap(), paths[1..]);
    }

    #[test]
    fn a_pipe_is_no_segment_and_nobody_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watch-00.seg");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        assert!(list(folder.path(), "watch-").unwrap().is_empty());
        assert_eq!(for_each(&path, |_| {}).unwrap().header, None);
    }
}
