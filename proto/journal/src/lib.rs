//! Segments: append-only files of checksummed records, one per writing
//! process. A run's whole truth lies in them.
//!
//! A segment is made with exclusive create (or by `link()`, for the claim), and
//! only its maker writes to it. It begins with a [`Header`] of [`HEADER_BYTES`];
//! records follow. Each record carries a CRC-32C that is chained to the one
//! before, so a reader who knows (segment id, offset, chain value) can tell
//! whether the following bytes continue that position.
//!
//! ```text
//! header  magic "NEROSEG1" · version u16 · role u8 · 0 u8 · incarnation u32
//!         segment id [8] · run token [16] · boot id [16]
//!         wall time ns i64 · monotonic ns u64 · 0 [4] · crc u32      = 80 bytes
//! record  payload length u32 · sequence u32 · kind u16 · 0 u16
//!         monotonic ns u64 · wall ns i64 · payload · crc u32         = 32 + n
//! ```
//! All numbers are little endian. The header's CRC is the first chain value;
//! a record's CRC is CRC-32C over its bytes, begun with the chain value before.
//!
//! The encoder allocates nothing, since the shim must not.

mod content;
mod encode;
pub mod frame;
pub mod gate;
pub mod gpus;
mod life;
mod open;
mod read;
pub mod request;
mod write;

/// Messages in records, and messages between neromum and the launcher.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated code; which of them it meets depends on the features"
)]
pub mod v1 {
    include!("gen/nero.journal.v1.rs");
}

pub use content::{
    Content, JobRecord, LedgerRecord, ObservationRecord, Payload, RecordMessage, RuleRecord,
    WatchRecord,
};
pub use encode::{Encoder, TooLong, encode_header};
pub use life::{JobLife, Pause, PauseEnd};
pub use open::{is_shut, open};
pub use read::{Damage, Header, HeaderError, Reader, Record, Stop, read_file, scan};
pub use write::{Clocks, Segment, WriteError};

/// Bytes of a segment's header.
pub const HEADER_BYTES: usize = 80;
/// Bytes of a record around its payload.
pub const RECORD_OVERHEAD: usize = 32;
/// Largest payload of a record, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// The format written by this build.
pub const VERSION: u16 = 1;

pub(crate) const MAGIC: &[u8; 8] = b"NEROSEG1";
pub(crate) const RECORD_HEAD: usize = 28;

/// Which process writes a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writer {
    /// Claims and starts the job.
    Shim,
    /// Took over from a dead shim.
    Launcher,
    /// Reads output, samples, evaluates rules.
    Watcher,
    /// Records facts that only neromum can state, beside the job's own
    /// processes.
    Mum,
    /// neromum's own ledger.
    Ledger,
    /// Written by a later build, with a role that this build does not know.
    Unknown(u8),
}

impl Writer {
    /// The byte in a header.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Shim => 1,
            Self::Launcher => 2,
            Self::Watcher => 3,
            Self::Mum => 4,
            Self::Ledger => 5,
            Self::Unknown(byte) => byte,
        }
    }

    /// The writer that a header's byte stands for.
    pub const fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Shim,
            2 => Self::Launcher,
            3 => Self::Watcher,
            4 => Self::Mum,
            5 => Self::Ledger,
            other => Self::Unknown(other),
        }
    }
}

/// Random name of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub [u8; 8]);

impl SegmentId {
    /// A new one.
    pub fn random() -> Self {
        Self(nero_model::ids::random())
    }

    /// Parses what came over a wire.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl std::fmt::Display for SegmentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&nero_model::ids::hex(&self.0))
    }
}

impl From<nero_model::ProcessId> for v1::Process {
    fn from(id: nero_model::ProcessId) -> Self {
        Self {
            boot_id: id.boot_id.to_vec(),
            pid_namespace: id.pid_namespace,
            pid: id.pid,
            start_ticks: id.start_ticks,
        }
    }
}

impl v1::Process {
    /// The process described; `None` when a field is out of range.
    pub fn identity(&self) -> Option<nero_model::ProcessId> {
        Some(nero_model::ProcessId {
            boot_id: self.boot_id.as_slice().try_into().ok()?,
            pid_namespace: self.pid_namespace,
            pid: (self.pid > 0).then_some(self.pid)?,
            start_ticks: self.start_ticks,
        })
    }
}
