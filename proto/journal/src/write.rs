//! A segment's one writer, for processes that may allocate.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::v1::RecordKind;
use crate::{
    Encoder, HEADER_BYTES, RECORD_OVERHEAD, RecordMessage, SegmentId, TooLong, Writer,
    encode_header,
};

/// The time, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Nanoseconds since 1970, for showing only.
    pub wall_ns: i64,
    /// Nanoseconds since boot, sleep included, for order and durations.
    pub mono_ns: u64,
}

impl Clocks {
    /// Reads both clocks; allocates nothing.
    pub fn now() -> Self {
        use rustix::time::{ClockId, clock_gettime};
        let wall = clock_gettime(ClockId::Realtime);
        let mono = clock_gettime(ClockId::Boottime);
        Self {
            wall_ns: wall.tv_sec * 1_000_000_000 + wall.tv_nsec,
            mono_ns: mono.tv_sec as u64 * 1_000_000_000 + mono.tv_nsec as u64,
        }
    }
}

/// Reason why a record is not in the file.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The record is too long to be ever written.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// The write failed. The segment ends where it ended before, so the same
    /// record may be appended again when there is space.
    #[error("cannot append to a segment")]
    Io(#[source] io::Error),
}

/// A segment that this process made and writes.
#[derive(Debug)]
pub struct Segment {
    file: File,
    id: SegmentId,
    encoder: Encoder,
    offset: u64,
    buffer: Vec<u8>,
}

impl Segment {
    /// Makes a new segment; its file must not exist.
    ///
    /// # Errors
    /// When the file cannot be made or its header cannot be written.
    pub fn create(
        path: &Path,
        writer: Writer,
        token: &[u8; 16],
        incarnation: u32,
    ) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let id = SegmentId::random();
        let boot_id = nero_model::process::boot_id()?;
        let clocks = Clocks::now();
        let mut header = [0; HEADER_BYTES];
        let encoder = encode_header(
            &mut header,
            writer,
            id,
            token,
            incarnation,
            &boot_id,
            clocks.wall_ns,
            clocks.mono_ns,
        );
        file.write_all_at(&header, 0)?;
        Ok(Self {
            file,
            id,
            encoder,
            offset: HEADER_BYTES as u64,
            buffer: header.to_vec(),
        })
    }

    /// Takes space beforehand, so that later records fit on a full disk.
    ///
    /// # Errors
    /// When the file system has no space. Where it cannot reserve at all,
    /// nothing happens.
    pub fn reserve(&self, bytes: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.offset, bytes) {
            Err(error)
                if error == rustix::io::Errno::NOSPC || error == rustix::io::Errno::DQUOT =>
            {
                Err(error.into())
            }
            _ => Ok(()),
        }
    }

    /// Appends a record with this message. Returns the bytes written, to be sent on as they are.
    ///
    /// # Errors
    /// As [`Segment::append`].
    pub fn record<M: RecordMessage>(
        &mut self,
        clocks: Clocks,
        message: &M,
    ) -> Result<&[u8], WriteError> {
        self.append(M::KIND, clocks, message)
    }

    /// Appends a record of a kind that is known only when the program runs. Returns the bytes
    /// written.
    ///
    /// # Errors
    /// See [`WriteError`]; after an error the segment ends where it ended
    /// before.
    pub fn append(
        &mut self,
        kind: RecordKind,
        clocks: Clocks,
        payload: &impl prost::Message,
    ) -> Result<&[u8], WriteError> {
        let mut encoder = self.encoder;
        self.buffer
            .resize(payload.encoded_len() + RECORD_OVERHEAD, 0);
        encoder.record(
            &mut self.buffer,
            kind as i32,
            clocks.wall_ns,
            clocks.mono_ns,
            payload,
        )?;
        if let Err(error) = self.file.write_all_at(&self.buffer, self.offset) {
            // Cut off the bytes of this attempt: behind a shorter record written
            // next, a reader would take them for damage.
            let _ = self.file.set_len(self.offset);
            return Err(WriteError::Io(error));
        }
        self.encoder = encoder;
        self.offset += self.buffer.len() as u64;
        Ok(&self.buffer)
    }

    /// The segment's id.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Offset of the next record, which is the length of the written bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Chain value at [`Segment::offset`].
    pub fn chain(&self) -> u32 {
        self.encoder.chain
    }

    /// Makes sure that the appended records survive a power loss.
    ///
    /// # Errors
    /// When the disk refuses; the segment must not be used again then.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
