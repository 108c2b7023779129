//! What an incarnation's folder says about a run that this launcher did not
//! see from its beginning, or whose shim is dead.
//!
//! Read at a takeover and when a run is to be guarded; never in the course of
//! an ordinary run. The disk is the truth, whatever a message claimed.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nero_journal::v1::{Claimed, JobStarted, Process, RecordKind, StopAsked, TakenOver};
use nero_journal::{Record, SegmentId};
use nero_model::ProcessId;
use nero_model::paths::run::{CLAIM, SEGMENT_SUFFIX};

/// The facts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Id of the segment that is the claim; none: there is no claim.
    pub claim: Option<SegmentId>,
    /// The run that the claim is about.
    pub token: [u8; 16],
    /// The start of the machine on which it was made.
    pub boot_id: [u8; 16],
    /// Who holds it.
    pub shim: Option<ProcessId>,
    /// The time limit in it, 0: none.
    pub time_limit_ms: u64,
    /// The job, if it was written down.
    pub job: Option<ProcessId>,
    /// When, in ns since boot.
    pub started_ns: u64,
    /// The newest stop asked for, and when.
    pub stop: Option<(u64, StopAsked)>,
    /// How many wishes were carried out.
    pub wishes: u32,
    /// It is written that no user code ran.
    pub not_started: bool,
    /// It is written how the main process ended.
    pub exited: bool,
    /// The last record is written.
    pub gone: bool,
}

impl Evidence {
    /// Reads the claim and what launchers wrote.
    ///
    /// # Errors
    /// When something that is there cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut evidence = Self::default();
        match std::fs::read(folder.join(CLAIM)) {
            Ok(bytes) => evidence.claim(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(evidence),
            Err(error) => return Err(error),
        }
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if is_launchers(&entry.file_name())
                && let Ok((_, records)) = nero_journal::scan(&std::fs::read(entry.path())?)
            {
                records.for_each(|record| evidence.fold(&record));
            }
        }
        Ok(evidence)
    }

    fn claim(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (header, records) = nero_journal::scan(bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.claim = Some(header.segment);
        self.token = header.token;
        self.boot_id = header.boot_id;
        records.for_each(|record| self.fold(&record));
        Ok(())
    }

    fn fold(&mut self, record: &Record<'_>) {
        if record.is(RecordKind::Claimed) {
            if let Ok(claimed) = record.decode::<Claimed>() {
                self.shim = identity(claimed.shim.as_ref());
                self.time_limit_ms = claimed.time_limit_ms;
            }
        } else if record.is(RecordKind::JobStarted) {
            if let Ok(started) = record.decode::<JobStarted>() {
                self.job = identity(started.job.as_ref());
                self.started_ns = record.mono_ns;
            }
        } else if record.is(RecordKind::TakenOver) {
            if let Ok(taken) = record.decode::<TakenOver>() {
                self.job = identity(taken.job.as_ref()).or(self.job);
            }
        } else if record.is(RecordKind::StopAsked)
            && let Ok(asked) = record.decode::<StopAsked>()
        {
            self.wishes = self.wishes.max(asked.cancel);
            if self.stop.is_none_or(|(at, _)| at <= record.mono_ns) {
                self.stop = Some((record.mono_ns, asked));
            }
        }
        self.not_started |= record.is(RecordKind::JobNotStarted);
        self.exited |= record.is(RecordKind::JobExited);
        self.gone |= record.is(RecordKind::TreeGone);
    }
}

fn identity(process: Option<&Process>) -> Option<ProcessId> {
    process?.identity()
}

fn is_launchers(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b"launcher-") && name.ends_with(SEGMENT_SUFFIX.as_bytes())
}
