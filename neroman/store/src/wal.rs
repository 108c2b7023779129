//! Reading a write-ahead log as SQLite would at its next start, without
//! SQLite and without changing anything.
//!
//! SQLite takes the first damaged frame for the end of the log and reports
//! nothing. [`crate::mark`] compares the number of sound frames with the number
//! written.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The lowest bit of the magic number names the byte order of the checksums.
const MAGIC: u32 = 0x377f_0682;

/// Identity of a log among those written to the same file: SQLite draws these 8
/// bytes anew whenever it begins at the front again.
pub(crate) type Salts = u64;

/// A log as it lies on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalState {
    /// There is no file, or an empty one.
    Nothing,
    /// The file does not begin with a sound header.
    NoHeader,
    /// So many sound frames lie behind the header.
    Frames { salts: Salts, sound: u32 },
}

/// The log that belongs to a database.
pub(crate) fn path_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// Reads a log from its beginning to the first frame that is not sound.
pub(crate) fn read(path: &Path) -> io::Result<WalState> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(WalState::Nothing),
        file => file?,
    };
    if file.metadata()?.len() == 0 {
        return Ok(WalState::Nothing);
    }
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut header = [0; HEADER_BYTES];
    if !filled(&mut reader, &mut header)? {
        return Ok(WalState::NoHeader);
    }
    let Some(big_endian) = byte_order(&header) else {
        return Ok(WalState::NoHeader);
    };
    let mut sum = checksum([0, 0], &header[..24], big_endian);
    let page_bytes = read_u32(&header, 8) as usize;
    let fits = (512..=65536).contains(&page_bytes) && page_bytes.is_power_of_two();
    if !fits || sum != [read_u32(&header, 24), read_u32(&header, 28)] {
        return Ok(WalState::NoHeader);
    }
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    let mut sound = 0;
    while filled(&mut reader, &mut frame)? && frame[8..16] == header[16..24] {
        sum = checksum(sum, &frame[..8], big_endian);
        sum = checksum(sum, &frame[FRAME_HEADER_BYTES..], big_endian);
        if sum != [read_u32(&frame, 16), read_u32(&frame, 20)] {
            break;
        }
        sound += 1;
    }
    Ok(WalState::Frames {
        salts: salts_in(&header),
        sound,
    })
}

/// The salts of the log that is being written; `None` before its first frame.
pub(crate) fn salts(log: &File) -> Option<Salts> {
    let mut header = [0; HEADER_BYTES];
    log.read_exact_at(&mut header, 0).ok()?;
    Some(salts_in(&header))
}

fn salts_in(header: &[u8; HEADER_BYTES]) -> Salts {
    (u64::from(read_u32(header, 16)) << 32) | u64::from(read_u32(header, 20))
}

/// Whether checksums are big-endian; `None` when the header is not that of a
/// log.
fn byte_order(header: &[u8; HEADER_BYTES]) -> Option<bool> {
    let magic = read_u32(header, 0);
    (magic & !1 == MAGIC).then_some(magic & 1 == 1)
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// SQLite's running checksum over pairs of words.
fn checksum([mut one, mut two]: [u32; 2], bytes: &[u8], big_endian: bool) -> [u32; 2] {
    for pair in bytes.chunks_exact(8) {
        let [first, second] = [0, 4].map(|at| {
            let word = read_u32(pair, at);
            if big_endian { word } else { word.swap_bytes() }
        });
        one = one.wrapping_add(first).wrapping_add(two);
        two = two.wrapping_add(second).wrapping_add(one);
    }
    [one, two]
}

/// Fills the buffer; false when the file ends before.
fn filled(reader: &mut impl io::Read, buffer: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buffer) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}
