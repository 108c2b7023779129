//! The evidence in an incarnation's folder about a run that this launcher did not
//! see from its beginning, or whose shim is dead.
//!
//! Read at a takeover and when a run is to be guarded; never in the course of
//! an ordinary run. The disk is the truth, whatever a message claimed.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nero_journal::v1::StopAsked;
use nero_journal::{
    Content, HeaderError, JobLife, JobRecord, Pause, Payload, Reader, Record, SegmentId, Stop,
};
use nero_model::ProcessId;
use nero_model::paths::run::{CLAIM, SEGMENT_SUFFIX};

use crate::clock::MS;

/// The facts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Id of the segment that is the claim; none: there is no claim.
    pub claim: Option<SegmentId>,
    /// The run that the claim is about.
    pub token: [u8; 16],
    /// The start of the machine on which it was made.
    pub boot_id: [u8; 16],
    /// The life of its job.
    pub life: JobLife,
    /// The newest stop asked for, and when.
    pub stop: Option<(u64, StopAsked)>,
    /// How many cancel requests were carried out.
    pub cancels: u32,
    /// Bytes of the claim, or of a launcher's segment, were changed after they
    /// were written: an absent fact proves nothing.
    pub is_damaged: bool,
}

impl Evidence {
    /// Reads the claim and what launchers wrote.
    ///
    /// # Errors
    /// When something that is there cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut evidence = Self::default();
        match read(&folder.join(CLAIM)) {
            Ok(bytes) => evidence.claim(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(evidence),
            Err(error) => return Err(error),
        }
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            // Whatever else has such a name, a job put there.
            if !is_launchers(&entry.file_name()) || !entry.file_type()?.is_file() {
                continue;
            }
            let path = entry.path();
            let bytes = match read(&path) {
                Err(error) if nero_journal::is_shut(&path, &error) => continue,
                bytes => bytes?,
            };
            match nero_journal::scan(&bytes) {
                Ok((_, records)) => evidence.fold_all(records),
                // A launcher died before it had begun it.
                Err(HeaderError::Short) => {}
                Err(
                    HeaderError::NotASegment | HeaderError::Damaged | HeaderError::TooNew { .. },
                ) => evidence.is_damaged = true,
            }
        }
        Ok(evidence)
    }

    /// The job's main process, if a record names it.
    pub fn job(&self) -> Option<ProcessId> {
        self.life.job_taken_over.or(self.life.job)
    }

    /// Time for which the job was paused until `now_ns`, on the clock of records.
    pub fn paused_ns(&self, now_ns: u64) -> u64 {
        let before_ns = (self.life.resumed).map_or(0, |end| end.paused_ms.saturating_mul(MS));
        let present_ns = self
            .pause()
            .map_or(0, |pause| now_ns.saturating_sub(pause.since.mono_ns));
        before_ns + present_ns
    }

    /// The pause in force.
    pub fn pause(&self) -> Option<Pause> {
        self.life.pause_in_force().filter(|_| self.stop.is_none())
    }

    fn claim(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (header, records) = nero_journal::scan(bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.claim = Some(header.segment);
        self.token = header.token;
        self.boot_id = header.boot_id;
        self.fold_all(records);
        Ok(())
    }

    fn fold_all(&mut self, mut records: Reader<'_>) {
        for record in &mut records {
            self.fold(&record);
        }
        self.is_damaged |= matches!(records.stop(), Stop::Damaged(_));
    }

    fn fold(&mut self, record: &Record<'_>) {
        match record.content() {
            Content::Job(job) => {
                self.life.apply(&job, record.clocks());
                if let JobRecord::StopAsked(asked) = job {
                    self.stop(&asked, record.mono_ns);
                }
            }
            Content::Watch(_)
            | Content::Observation(_)
            | Content::Rule(_)
            | Content::Ledger(_)
            | Content::Unknown(_) => {}
        }
    }

    fn stop(&mut self, asked: &Payload<'_, StopAsked>, at_ns: u64) {
        let Ok(asked) = asked.decode() else { return };
        self.cancels = self.cancels.max(asked.cancel);
        if self.stop.is_none_or(|(newest_ns, _)| newest_ns <= at_ns) {
            self.stop = Some((at_ns, asked));
        }
    }
}

/// Without waiting for anybody, whatever a job put there: we serve all runs.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    nero_journal::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_launchers(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b"launcher-") && name.ends_with(SEGMENT_SUFFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_journal::v1::{
        Claimed, JobExited, JobStarted, Process, RecordKind, StopCause, TakenOver,
    };
    use nero_journal::{Clocks, Segment, Writer};

    fn process(pid: i32) -> Option<Process> {
        Some(Process {
            boot_id: vec![7; 16],
            pid_namespace: 1,
            pid,
            start_ticks: 5,
        })
    }

    fn asked(cancel: u32) -> StopAsked {
        StopAsked {
            cause: StopCause::Person as i32,
            cancel,
            ..StopAsked::default()
        }
    }

    #[test]
    fn a_folder_is_read_whole_and_a_torn_end_is_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Evidence::read(folder.path()).unwrap(), Evidence::default());
        let make = |name: &str, writer| {
            Segment::create(&folder.path().join(name), writer, &[3; 16], 1).unwrap()
        };
        let now = Clocks::now();
        let mut claim = make(CLAIM, Writer::Shim);
        let claimed = Claimed {
            shim: process(10),
            time_limit_ms: 99,
            ..Claimed::default()
        };
        let job = process(11);
        claim.append(RecordKind::Claimed, now, &claimed).unwrap();
        claim
            .append(RecordKind::JobStarted, now, &JobStarted { job })
            .unwrap();
        claim.append(RecordKind::StopAsked, now, &asked(1)).unwrap();
        let mut taken = make("launcher-00.seg", Writer::Launcher);
        taken
            .append(RecordKind::TakenOver, now, &TakenOver::default())
            .unwrap();
        taken.append(RecordKind::StopAsked, now, &asked(2)).unwrap();
        taken
            .append(RecordKind::JobExited, now, &JobExited::default())
            .unwrap();
        std::fs::write(folder.path().join("launcher-01.seg"), "torn").unwrap();
        std::fs::write(folder.path().join("watch-00.seg"), "not ours").unwrap();
        let evidence = Evidence::read(folder.path()).unwrap();
        assert_eq!(evidence.claim, Some(claim.id()));
        assert_eq!((evidence.token, evidence.life.time_limit_ms), ([3; 16], 99));
        assert_eq!(evidence.life.shim.unwrap().pid, 10);
        assert_eq!(evidence.job().unwrap().pid, 11);
        assert_eq!(
            (evidence.cancels, evidence.stop),
            (2, Some((now.mono_ns, asked(2))))
        );
        let life = &evidence.life;
        assert!(life.exited && !life.gone && !life.not_started);
        assert!(!evidence.is_damaged);
        for name in [CLAIM, "launcher-00.seg"] {
            let path = folder.path().join(name);
            let whole = std::fs::read(&path).unwrap();
            let records = nero_journal::HEADER_BYTES..whole.len();
            for at in records.step_by(7) {
                let mut bytes = whole.clone();
                bytes[at] ^= 4;
                std::fs::write(&path, bytes).unwrap();
                let evidence = Evidence::read(folder.path()).unwrap();
                assert!(evidence.is_damaged, "byte {at} of {name}");
            }
            std::fs::write(&path, whole).unwrap();
        }
    }

    #[test]
    fn a_claim_that_is_none_is_an_error_not_an_absence() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(CLAIM), "somebody's").unwrap();
        assert!(Evidence::read(folder.path()).is_err());
    }

    /// A record with this payload.
    fn record(kind: u16, payload: &[u8]) -> Record<'_> {
        Record {
            offset: 80,
            sequence: 0,
            kind,
            mono_ns: 9_000_000,
            wall_ns: 2_000_000,
            payload,
            chain: 0,
        }
    }

    /// Names of the kinds of records with this payload that change what is known.
    fn read(payload: &[u8], known: impl Fn() -> Evidence) -> Vec<&'static str> {
        let before = format!("{:?}", known());
        let kinds = (0..=100).filter(|kind| {
            let mut after = known();
            after.fold(&record(*kind, payload));
            format!("{after:?}") != before
        });
        let name = |kind| RecordKind::try_from(kind).map_or("?", |kind| kind.as_str_name());
        let names = kinds.map(|kind| name(i32::from(kind)).trim_start_matches("RECORD_KIND_"));
        names.collect()
    }

    #[test]
    fn a_launcher_reads_these_kinds_of_records() {
        let known = || Evidence {
            life: JobLife {
                shim: ProcessId::own().ok(),
                job: ProcessId::own().ok(),
                // No decision of a launcher asks for this one.
                lost: true,
                ..JobLife::default()
            },
            ..Evidence::default()
        };
        let decoded = [
            "CLAIMED",
            "JOB_STARTED",
            "JOB_NOT_STARTED",
            "STOP_ASKED",
            "JOB_EXITED",
            "TREE_GONE",
            "PAUSED",
            "RESUMED",
        ];
        assert_eq!(read(&[], known), decoded);
        let by_kind = ["JOB_NOT_STARTED", "JOB_EXITED", "TREE_GONE"];
        assert_eq!(read(&[0], known), by_kind);
    }
}
