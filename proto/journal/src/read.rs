//! Reading a segment. A reader gets a prefix of the written records or an error,
//! never other data.

use std::fs;
use std::io;
use std::path::Path;

use crate::{
    HEADER_BYTES, MAGIC, PAYLOAD_BYTES_MAX, RECORD_HEAD, RECORD_OVERHEAD, SegmentId, VERSION,
    Writer,
};

/// The beginning of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Format version of the writer.
    pub version: u16,
    /// The process that wrote the segment.
    pub writer: Writer,
    /// The segment's random id.
    pub segment: SegmentId,
    /// The run, or the deployment for a ledger.
    pub token: [u8; 16],
    /// Number of the job's start, from 1; 0 where that has no meaning.
    pub incarnation: u32,
    /// Boot id of the machine on which the segment was made.
    pub boot_id: [u8; 16],
    /// Wall time of its making, in ns since 1970.
    pub wall_ns: i64,
    /// Monotonic time of its making, in ns since boot.
    pub mono_ns: u64,
    /// Chain value behind the header.
    pub chain: u32,
}

/// Reason why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Fewer bytes than a header has: not written yet, or cut.
    #[error("shorter than a segment's header")]
    Short,
    /// Something else than a segment.
    #[error("not a segment")]
    NotASegment,
    /// The header's checksum is wrong.
    #[error("the segment's header is damaged")]
    Damaged,
    /// Written by a build that is too new for this one.
    #[error("segment format {found} is newer than {known}, the newest this build reads")]
    TooNew {
        /// Version in the header.
        found: u16,
        /// Newest version that this build reads.
        known: u16,
    },
}

impl Header {
    /// Parses the first [`HEADER_BYTES`] of a segment.
    ///
    /// # Errors
    /// When the bytes are not the header of a segment that this build reads.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let bytes: &[u8; HEADER_BYTES] = bytes
            .get(..HEADER_BYTES)
            .and_then(|head| head.try_into().ok())
            .ok_or(HeaderError::Short)?;
        if &bytes[0..8] != MAGIC {
            return Err(HeaderError::NotASegment);
        }
        let chain = u32_at(bytes, HEADER_BYTES - 4);
        if crc32c::crc32c(&bytes[..HEADER_BYTES - 4]) != chain {
            return Err(HeaderError::Damaged);
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version > VERSION {
            return Err(HeaderError::TooNew {
                found: version,
                known: VERSION,
            });
        }
        Ok(Self {
            version,
            writer: Writer::from_byte(bytes[10]),
            incarnation: u32_at(bytes, 12),
            segment: SegmentId(array(bytes, 16)),
            token: array(bytes, 24),
            boot_id: array(bytes, 40),
            wall_ns: i64::from_le_bytes(array(bytes, 56)),
            mono_ns: u64::from_le_bytes(array(bytes, 64)),
            chain,
        })
    }
}

/// One record, borrowed from the bytes read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Offset of the record in the segment.
    pub offset: u64,
    /// 0, 1, 2 …
    pub sequence: u32,
    /// A `RecordKind`, or a number that this build does not know.
    pub kind: u16,
    /// Monotonic time, in ns since boot.
    pub mono_ns: u64,
    /// Wall time, in ns since 1970.
    pub wall_ns: i64,
    /// An encoded message of its kind.
    pub payload: &'a [u8],
    /// Chain value behind the record.
    pub chain: u32,
}

impl Record<'_> {
    /// Decodes the payload.
    ///
    /// # Errors
    /// When the payload is no such message.
    pub fn decode<M: prost::Message + Default>(&self) -> Result<M, prost::DecodeError> {
        M::decode(self.payload)
    }

    /// Whether the record is of this kind.
    pub fn is(&self, kind: crate::v1::RecordKind) -> bool {
        i32::from(self.kind) == kind as i32
    }

    /// Offset of the next record.
    pub fn end(&self) -> u64 {
        self.offset + (self.payload.len() + RECORD_OVERHEAD) as u64
    }
}

/// Reason why reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Every byte was a good record.
    End,
    /// The bytes end within a record: its writer died in the middle of it, or is
    /// still writing. Zeros may follow.
    Unfinished,
    /// Bytes were changed after they were written.
    Damaged(Damage),
}

/// Where a segment is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("segment damaged at byte {offset}")]
pub struct Damage {
    /// Offset of the first bad record.
    pub offset: u64,
}

/// Reads records from a position whose chain value is known.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
    chain: u32,
    sequence: Option<u32>,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, which begin at `offset` in the segment; `chain` is the
    /// chain value at that offset.
    pub fn new(bytes: &'a [u8], offset: u64, chain: u32) -> Self {
        Self {
            bytes,
            at: 0,
            base: offset,
            chain,
            sequence: None,
        }
    }

    /// Offset of the next record, behind all good ones.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Chain value at [`Reader::offset`].
    pub fn chain(&self) -> u32 {
        self.chain
    }

    /// Reason why there is no further record; meaningful once `next` returned
    /// none.
    pub fn stop(&self) -> Stop {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Stop::End;
        }
        let offset = self.offset();
        if is_damaged(rest, self.chain) {
            Stop::Damaged(Damage { offset })
        } else {
            Stop::Unfinished
        }
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (record, length) = parse(&self.bytes[self.at..], self.chain)?;
        if self
            .sequence
            .is_some_and(|expected| expected != record.sequence)
        {
            return None;
        }
        let record = Record {
            offset: self.offset(),
            ..record
        };
        self.sequence = Some(record.sequence.wrapping_add(1));
        self.chain = record.chain;
        self.at += length;
        Some(record)
    }
}

fn parse(bytes: &[u8], chain: u32) -> Option<(Record<'_>, usize)> {
    let head = bytes.get(..RECORD_HEAD)?;
    let length = u32_at(head, 0) as usize;
    if length > PAYLOAD_BYTES_MAX {
        return None;
    }
    let total = length + RECORD_OVERHEAD;
    let whole = bytes.get(..total)?;
    let crc = u32_at(whole, total - 4);
    if crc32c::crc32c_append(chain, &whole[..total - 4]) != crc {
        return None;
    }
    let record = Record {
        offset: 0,
        sequence: u32_at(head, 4),
        kind: u16::from_le_bytes([head[8], head[9]]),
        mono_ns: u64::from_le_bytes(array(head, 12)),
        wall_ns: i64::from_le_bytes(array(head, 20)),
        payload: &whole[RECORD_HEAD..total - 4],
        chain: crc,
    };
    Some((record, total))
}

/// Whether `rest`, which begins with no good record, is more than an unfinished
/// record. A writer writes a record in one call, front to back, and begins the
/// next only behind a complete record, so an unfinished one is the last.
fn is_damaged(rest: &[u8], chain: u32) -> bool {
    is_whole(rest, chain) || has_wrong_length(rest, chain) || later_good_record(rest)
}

/// Whether the first record is complete and its checksum is wrong. In an
/// incomplete record the checksum is missing, is zeros, or ends in zeros that
/// continue behind it.
fn is_whole(rest: &[u8], chain: u32) -> bool {
    let length = rest
        .first_chunk::<4>()
        .map_or(u32::MAX, |head| u32::from_le_bytes(*head)) as usize;
    if length > PAYLOAD_BYTES_MAX || rest.len() < length + RECORD_OVERHEAD {
        return false;
    }
    let (record, behind) = rest.split_at(length + RECORD_OVERHEAD);
    let (record, found) = record.split_at(record.len() - 4);
    let right = crc32c::crc32c_append(chain, record).to_le_bytes();
    let are_zeros = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let is_cut_at = |at: usize| found[..at] == right[..at] && are_zeros(&found[at..]);
    let cuts = if behind.is_empty() { 1 } else { 4 };
    !(are_zeros(behind) && (0..cuts).any(is_cut_at))
}

/// Whether `rest` is one good record except for its length field. Its last bytes
/// may be zeros, as may the bytes behind it.
fn has_wrong_length(rest: &[u8], chain: u32) -> bool {
    let text = rest
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    (text..=rest.len().min(text + 3)).any(|end| {
        let Some(length) = end.checked_sub(RECORD_OVERHEAD) else {
            return false;
        };
        let Ok(length) = u32::try_from(length) else {
            return false;
        };
        let sum = crc32c::crc32c_append(chain, &length.to_le_bytes());
        crc32c::crc32c_append(sum, &rest[4..end - 4]) == u32_at(rest, end - 4)
    })
}

/// Whether a good record follows a bad one. The good record's chain begins with
/// the bad record's checksum, which is any four bytes before it.
fn later_good_record(rest: &[u8]) -> bool {
    const LOOK_BYTES: usize = PAYLOAD_BYTES_MAX + 2 * RECORD_OVERHEAD;
    /// Limit of bytes that are summed up: a payload may look like the beginnings
    /// of many records.
    const SUM_BYTES_MAX: usize = 64 * PAYLOAD_BYTES_MAX;
    let mut summed = 0;
    (RECORD_OVERHEAD..rest.len().min(LOOK_BYTES)).any(|at| {
        // Zeros would otherwise look like empty records.
        let plausible = rest.len() >= at + RECORD_OVERHEAD && rest[at..at + 10] != [0; 10];
        if !plausible || summed > SUM_BYTES_MAX {
            return false;
        }
        let length = u32_at(rest, at) as usize;
        if length <= PAYLOAD_BYTES_MAX && at + length + RECORD_OVERHEAD <= rest.len() {
            summed += length;
        }
        parse(&rest[at..], u32_at(rest, at - 4)).is_some()
    })
}

/// Reads a whole segment from bytes: its header and a reader of its records.
///
/// # Errors
/// When the bytes begin with no good header.
pub fn scan(bytes: &[u8]) -> Result<(Header, Reader<'_>), HeaderError> {
    let header = Header::parse(bytes)?;
    let reader = Reader::new(&bytes[HEADER_BYTES..], HEADER_BYTES as u64, header.chain);
    Ok((header, reader))
}

/// Reads a segment's file whole.
///
/// # Errors
/// Errors of the file system.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N]
        .try_into()
        .expect("the caller checked the length")
}
