//! The one segment that this process writes for a run. Nothing is allocated
//! by appending.
//!
//! Owned by the keeper of a run. A record that the disk refuses waits here and
//! is tried again: a full disk ends nothing of ours and loses no record.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use nero_journal::v1::{
    JobExited, JobNotStarted, Notice, Paused, RecordKind, Resumed, SignalSent, StopAsked, TreeGone,
};
use nero_journal::{
    Clocks, Encoder, HEADER_BYTES, RecordMessage, SegmentId, Writer, encode_header,
};
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, fallocate, openat};
use rustix::io::Errno;

/// Space reserved beforehand, for all records of an ordinary run.
const RESERVE_BYTES: u64 = 4096;
/// The part of it that is kept for the records of the run's end.
const LAST_BYTES: u64 = 1024;
/// Largest record written here.
const RECORD_BYTES_MAX: usize = 768;
/// Records that can wait for the disk.
const WAITING_MAX: usize = 12;

/// Subject of the segment.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The run.
    pub token: [u8; 16],
    /// Number of the job's start.
    pub incarnation: u32,
    /// Boot id of the machine.
    pub boot_id: [u8; 16],
}

/// A record that a keeper writes.
#[derive(Clone, Debug)]
pub enum KeeperRecord {
    /// A stop was asked for.
    StopAsked(StopAsked),
    /// A signal went through the tree.
    SignalSent(SignalSent),
    /// The tree is being stopped for a while.
    Paused(Paused),
    /// It goes on.
    Resumed(Resumed),
    /// A remark for people.
    Notice(Notice),
    /// There is no job.
    JobNotStarted(JobNotStarted),
    /// The main process ended.
    JobExited(JobExited),
    /// The last one.
    TreeGone(TreeGone),
}

/// A segment, with the position of its end.
#[derive(Debug)]
pub struct Segment {
    file: OwnedFd,
    encoder: Encoder,
    offset: u64,
    reserved: u64,
}

impl Segment {
    /// Makes the file with its header and first record, in one write, and
    /// takes space for the rest.
    ///
    /// # Errors
    /// `NOSPC` or `DQUOT` when there is no room, whichever step failed.
    pub fn create<M: RecordMessage>(
        path: &CStr,
        writer: Writer,
        id: SegmentId,
        subject: &Subject,
        first: &M,
    ) -> Result<Self, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?;
        let reserved = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, RESERVE_BYTES);
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT)) = reserved {
            return Err(error);
        }
        // A file system that cannot reserve reports a lack of room at each
        // write.
        let mut bytes = [0; HEADER_BYTES + RECORD_BYTES_MAX];
        let (head, rest) = bytes
            .split_first_chunk_mut::<HEADER_BYTES>()
            .expect("the buffer begins with a header");
        let clocks = Clocks::now();
        let encoder = encode_header(
            head,
            writer,
            id,
            &subject.token,
            subject.incarnation,
            &subject.boot_id,
            clocks.wall_ns,
            clocks.mono_ns,
        );
        let mut segment = Self {
            file,
            encoder,
            offset: 0,
            reserved: RESERVE_BYTES,
        };
        let mut encoder = segment.encoder;
        let length = encoder
            .record(rest, M::KIND as i32, clocks.wall_ns, clocks.mono_ns, first)
            .map_err(|_| Errno::MSGSIZE)?;
        segment.write(&bytes[..HEADER_BYTES + length])?;
        segment.encoder = encoder;
        Ok(segment)
    }

    /// Appends one record.
    ///
    /// # Errors
    /// When the disk refuses; the segment ends where it ended before.
    pub fn append<M: RecordMessage>(&mut self, clocks: Clocks, payload: &M) -> Result<(), Errno> {
        let mut bytes = [0; RECORD_BYTES_MAX];
        let mut encoder = self.encoder;
        let length = encoder
            .record(
                &mut bytes,
                M::KIND as i32,
                clocks.wall_ns,
                clocks.mono_ns,
                payload,
            )
            .map_err(|_| Errno::MSGSIZE)?;
        let last = matches!(
            M::KIND,
            RecordKind::JobNotStarted | RecordKind::JobExited | RecordKind::TreeGone
        );
        if !last && self.offset + length as u64 > self.reserved - LAST_BYTES {
            // The space reserved for the run's end is not used before it.
            match fallocate(
                &self.file,
                FallocateFlags::KEEP_SIZE,
                self.reserved,
                RESERVE_BYTES,
            ) {
                Err(error @ (Errno::NOSPC | Errno::DQUOT)) => return Err(error),
                Ok(()) | Err(_) => self.reserved += RESERVE_BYTES,
            }
        }
        self.write(&bytes[..length])?;
        self.encoder = encoder;
        Ok(())
    }

    /// Writes at the segment's end, so that the next try overwrites a cut
    /// write.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let mut written = 0;
        while written < bytes.len() {
            match rustix::io::pwrite(&self.file, &bytes[written..], self.offset + written as u64) {
                Ok(0) => return Err(Errno::IO),
                Ok(more) => written += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Whether the file has this many names; false if its file server does not
    /// answer.
    pub fn has_names(&self, names: u32) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|found| found.st_nlink == names.into())
    }
}

/// A segment, and the records that the disk has refused so far.
#[derive(Debug)]
pub struct Journal {
    segment: Option<Segment>,
    waiting: [Option<(KeeperRecord, Clocks)>; WAITING_MAX],
}

impl Journal {
    /// Over a segment; `None`: it could not be made yet.
    pub fn new(segment: Option<Segment>) -> Self {
        Self {
            segment,
            waiting: [const { None }; WAITING_MAX],
        }
    }

    /// Whether the segment is still to be made.
    pub fn lacks_segment(&self) -> bool {
        self.segment.is_none()
    }

    /// Takes the segment, which could be made at last.
    pub fn give_segment(&mut self, segment: Segment) {
        self.segment = Some(segment);
    }

    /// Appends a record now, or as soon as the disk takes it.
    pub fn append(&mut self, record: KeeperRecord) {
        let clocks = Clocks::now();
        if !self.flush() || !self.try_append(&record, clocks) {
            // The records of the run's end always find a place; of the records
            // before it, the newest is dropped.
            let places = match record {
                KeeperRecord::StopAsked(_)
                | KeeperRecord::SignalSent(_)
                | KeeperRecord::Paused(_)
                | KeeperRecord::Resumed(_)
                | KeeperRecord::Notice(_) => WAITING_MAX - 4,
                KeeperRecord::JobNotStarted(_)
                | KeeperRecord::JobExited(_)
                | KeeperRecord::TreeGone(_) => WAITING_MAX,
            };
            if let Some(place) = self.waiting[..places]
                .iter_mut()
                .find(|place| place.is_none())
            {
                *place = Some((record, clocks));
            }
        }
    }

    /// Writes the waiting records, in order. True when none waits any more.
    pub fn flush(&mut self) -> bool {
        for at in 0..WAITING_MAX {
            if let Some((record, clocks)) = self.waiting[at].take()
                && !self.try_append(&record, clocks)
            {
                self.waiting[at] = Some((record, clocks));
                self.waiting.rotate_left(at);
                return false;
            }
        }
        true
    }

    /// Whether a record waits for the disk.
    pub fn is_waiting(&self) -> bool {
        self.waiting[0].is_some()
    }

    fn try_append(&mut self, record: &KeeperRecord, clocks: Clocks) -> bool {
        let Some(segment) = &mut self.segment else {
            return false;
        };
        let done = match record {
            KeeperRecord::StopAsked(one) => segment.append(clocks, one),
            KeeperRecord::SignalSent(one) => segment.append(clocks, one),
            KeeperRecord::Paused(one) => segment.append(clocks, one),
            KeeperRecord::Resumed(one) => segment.append(clocks, one),
            KeeperRecord::Notice(one) => segment.append(clocks, one),
            KeeperRecord::JobNotStarted(one) => segment.append(clocks, one),
            KeeperRecord::JobExited(one) => segment.append(clocks, one),
            KeeperRecord::TreeGone(one) => segment.append(clocks, one),
        };
        done.is_ok()
    }
}
