//! Reading bytes of a segment file at any position.

use std::fs::File;
use std::io;
use std::path::Path;

use nero_journal::{HEADER_BYTES, Header, Reader};
use rustix::io::Errno;

/// Opens a segment without waiting: a job may have put a pipe there. A link is
/// refused.
pub(super) fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => io::ErrorKind::NotFound.into(),
        _ => error,
    })
}

/// Reads whole good records of a segment file from `offset` on, about `max`
/// bytes, and the chain value before them. Empty when there is no whole record,
/// or when `expected` is given and differs from the chain value there.
///
/// # Errors
/// When the file cannot be read.
pub fn read_part(
    path: &Path,
    offset: u64,
    end: u64,
    max: usize,
    expected: Option<u32>,
) -> io::Result<(u32, Vec<u8>)> {
    let file = open(path)?;
    let lead = if offset == 0 { 0 } else { 4 };
    let wanted = end.saturating_sub(offset);
    let mut take = wanted.min(max as u64) as usize;
    loop {
        let mut data = vec![0; lead + take];
        let length = read_at_most(&file, &mut data, offset - lead as u64)?;
        data.truncate(length);
        if length <= lead {
            return Ok((0, Vec::new()));
        }
        let chain = if lead == 0 { 0 } else { last_four(&data[..4]) };
        if expected.is_some_and(|expected| expected != chain) {
            return Ok((chain, Vec::new()));
        }
        let whole = whole_records(&data[lead..], offset, chain);
        // A record larger than a part is sent alone.
        if whole == 0 && take as u64 != wanted && length == lead + take {
            take = wanted.min((nero_journal::PAYLOAD_BYTES_MAX + 4096) as u64) as usize;
            if data.len() == lead + take {
                return Ok((chain, Vec::new()));
            }
            continue;
        }
        data.truncate(lead + whole);
        data.drain(..lead);
        return Ok((chain, data));
    }
}

/// Length of the header (at offset 0) and the whole good records.
fn whole_records(data: &[u8], offset: u64, chain: u32) -> usize {
    let (header, chain) = if offset == 0 {
        match Header::parse(data) {
            Ok(header) => (HEADER_BYTES, header.chain),
            Err(_) => return 0,
        }
    } else {
        (0, chain)
    };
    let mut reader = Reader::new(&data[header..], offset + header as u64, chain);
    reader.by_ref().for_each(drop);
    (reader.offset() - offset) as usize
}

/// Fills the buffer as far as the file has bytes; anything but a file counts as
/// empty.
pub(super) fn read_at_most(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        let read = rustix::io::pread(file, &mut buffer[filled..], offset + filled as u64);
        match read {
            Ok(0) | Err(Errno::ISDIR | Errno::SPIPE) => break,
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

/// The chain value behind whole records: the last one's checksum.
pub(super) fn last_four(bytes: &[u8]) -> u32 {
    bytes
        .last_chunk::<4>()
        .map_or(0, |chain| u32::from_le_bytes(*chain))
}
