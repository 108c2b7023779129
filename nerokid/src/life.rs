//! What the claim and its neighbours say of a run: who supervises it, which
//! process is the job, whether it is over.

use std::io;
use std::path::Path;

use nero_journal::Record;
use nero_journal::v1::{self, RecordKind};
use nero_model::ProcessId;
use nero_model::paths::run;
use nero_model::process::Life as ProcessLife;
use rustix::process::Signal;

use crate::core::facts::Moment;
use crate::segments;

/// Most hosts of a run that are measured.
const HOSTS_MAX: usize = 10_000;

/// Everything that the records of a run's life say.
#[derive(Debug, Default)]
pub struct Life {
    /// The machine's start in which the claim was made.
    pub boot_id: Option<[u8; 16]>,
    /// Who claimed.
    pub shim: Option<ProcessId>,
    /// The job's main process.
    pub job: Option<ProcessId>,
    /// When the job was started.
    pub started: Option<Moment>,
    /// When the job's main process ended, or was asked to.
    pub ending: Option<Moment>,
    /// The newest pause: its request, and when it began first.
    pub paused: Option<(u32, Moment)>,
    /// The newest end of a pause: its request, the time of all pauses until then, and
    /// when it was, in ms since the machine's start.
    pub resumed: Option<(u32, u64, u64)>,
    /// Ends of pauses: when, in ms since the machine's start, and the time of all pauses
    /// until then.
    pub pauses: Vec<(u64, u64)>,
    /// The signals of stops, pauses and their ends, in the order of the records.
    pub signals: Vec<i32>,
    /// What is known of its end.
    pub exited: Option<v1::JobExited>,
    /// The time limit; 0 when there is none.
    pub time_limit_ms: u64,
    /// Hosts of the allocation, where several or a launcher of the scheduler have
    /// processes of the job, and whether a helper measures these.
    pub hosts: Vec<(String, bool)>,
    /// When its scheduler ends the task, on the wall clock; 0: not told.
    pub granted_until_ms: i64,
    /// The launcher that took over.
    pub taken_over_by: Option<ProcessId>,
    /// A record reports that nothing of the job is alive, or ever was.
    pub over: bool,
    /// Bytes of the claim, or of a segment of launcher or neromum, were changed:
    /// what is not in here may have been recorded all the same.
    pub is_damaged: bool,
}

impl Life {
    /// Reads the claim and the segments of launcher and neromum.
    ///
    /// # Errors
    /// When the claim cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut life = Self::default();
        let claim = segments::for_each(&folder.join(run::CLAIM), |record| life.fold(record))?;
        // A claim has its name once its header is whole.
        life.is_damaged = claim.is_damaged || claim.header.is_none();
        life.boot_id = claim.header.map(|header| header.boot_id);
        for prefix in ["launcher-", "mum-"] {
            for path in segments::list(folder, prefix)? {
                let seen = segments::for_each(&path, |record| life.fold(record))?;
                life.is_damaged |= seen.is_damaged;
            }
        }
        Ok(life)
    }

    fn fold(&mut self, record: &Record<'_>) {
        let moment = Moment {
            mono_ms: record.mono_ns / 1_000_000,
            wall_ms: record.wall_ns / 1_000_000,
        };
        let Ok(kind) = RecordKind::try_from(i32::from(record.kind)) else {
            return;
        };
        match kind {
            RecordKind::Claimed => {
                if let Ok(claimed) = record.decode::<v1::Claimed>() {
                    self.shim = claimed.shim.and_then(|shim| shim.identity());
                    self.time_limit_ms = claimed.time_limit_ms;
                }
            }
            RecordKind::JobStarted => {
                if let Ok(started) = record.decode::<v1::JobStarted>() {
                    self.job = started.job.and_then(|job| job.identity());
                    self.started = Some(moment);
                }
            }
            RecordKind::StopAsked => {
                self.ending.get_or_insert(moment);
                if let Ok(asked) = record.decode::<v1::StopAsked>() {
                    self.signals.push(asked.signal);
                }
            }
            RecordKind::JobExited => {
                self.ending.get_or_insert(moment);
                self.exited = record.decode().ok();
            }
            RecordKind::Paused => {
                if let Ok(v1::Paused { request }) = record.decode() {
                    self.signals.push(Signal::STOP.as_raw());
                    let newer = |old: (u32, Moment)| {
                        let again = old.0 == request && moment.mono_ms < old.1.mono_ms;
                        request > old.0 || again
                    };
                    if self.paused.is_none_or(newer) {
                        self.paused = Some((request, moment));
                    }
                }
            }
            RecordKind::Resumed => {
                if let Ok(v1::Resumed { request, paused_ms }) = record.decode() {
                    self.signals.push(Signal::CONT.as_raw());
                    self.pauses.push((moment.mono_ms, paused_ms));
                    let new = (request, paused_ms, moment.mono_ms);
                    self.resumed = self.resumed.max(Some(new));
                }
            }
            RecordKind::TakenOver => {
                if let Ok(taken) = record.decode::<v1::TakenOver>() {
                    self.taken_over_by = taken.launcher.and_then(|one| one.identity());
                }
            }
            RecordKind::Granted => {
                if let Ok(granted) = record.decode::<v1::Granted>() {
                    self.granted_until_ms = granted.until_ms;
                    if !granted.helped.is_empty() {
                        let all = granted.hosts.into_iter().take(HOSTS_MAX);
                        let helped = |host: &String| granted.helped.contains(host);
                        self.hosts = all.map(|host| (host.clone(), helped(&host))).collect();
                    }
                }
            }
            RecordKind::TreeGone | RecordKind::JobNotStarted | RecordKind::Lost => {
                self.over = true;
            }
            // The watcher's own records tell nothing about the job's life.
            RecordKind::Unspecified
            | RecordKind::SignalSent
            | RecordKind::WatchStarted
            | RecordKind::Metrics
            | RecordKind::Sample
            | RecordKind::RulesApplied
            | RecordKind::RulesRefused
            | RecordKind::RuleBound
            | RecordKind::RuleFired
            | RecordKind::RuleHeld
            | RecordKind::RuleRan
            | RecordKind::StepAsked
            | RecordKind::LogTruncated
            | RecordKind::MetricsFolded
            | RecordKind::Progress
            | RecordKind::Notice
            | RecordKind::WatchEnded
            | RecordKind::LedgerAccepted
            | RecordKind::LedgerTakenAway
            | RecordKind::LedgerCancelAsked
            | RecordKind::LedgerExited
            | RecordKind::LedgerClosed
            | RecordKind::LedgerAnswered
            | RecordKind::LedgerSubmission
            | RecordKind::LedgerSubmitted
            | RecordKind::LedgerRefused
            | RecordKind::LedgerCards
            | RecordKind::TaskOver => {}
        }
    }

    /// The processes that supervise the job, and the job, which live on this host.
    pub fn here(&self) -> Vec<ProcessId> {
        let all = [self.shim, self.job, self.taken_over_by];
        let lives = |one: &ProcessId| one.life().is_ok_and(|life| life == ProcessLife::Alive);
        all.into_iter().flatten().filter(lives).collect()
    }

    /// Whether anything of the run may still change by itself.
    pub fn contact(&self) -> Contact {
        if self.over {
            return Contact::Over;
        }
        let lives = [self.shim, self.job].map(|process| process.map(|one| one.life()));
        let is = |wanted: ProcessLife| {
            lives
                .iter()
                .flatten()
                .any(|life| life.as_ref().is_ok_and(|life| *life == wanted))
        };
        if is(ProcessLife::Rebooted) {
            return Contact::Over;
        }
        let unsure = lives.iter().flatten().any(Result::is_err);
        if is(ProcessLife::Alive) || is(ProcessLife::Elsewhere) || unsure {
            return Contact::Alive;
        }
        if self.is_damaged {
            return Contact::Unknown;
        }
        let guard = self.taken_over_by.map(|launcher| launcher.life());
        match guard {
            Some(Ok(ProcessLife::Alive)) => Contact::Alive,
            Some(_) | None => Contact::Silent,
        }
    }

    /// When the present pause began; `None`: the job is not paused.
    pub fn paused_since(&self) -> Option<Moment> {
        let (ended, ..) = self.resumed.unwrap_or_default();
        let present = self.paused.filter(|(request, _)| *request > ended);
        present.map(|(_, since)| since)
    }

    /// The run time at a moment of this machine, in ms since its start.
    pub fn ran_ms_at(&self, mono_ms: u64) -> u64 {
        let Some(started) = self.started else {
            return 0;
        };
        let until = self
            .ending
            .map_or(mono_ms, |ending| ending.mono_ms.min(mono_ms));
        let over = self
            .pauses
            .iter()
            .filter(|(ended_ms, _)| *ended_ms <= mono_ms);
        let paused_ms = over.map(|(_, paused_ms)| *paused_ms).max().unwrap_or(0);
        until
            .saturating_sub(started.mono_ms)
            .saturating_sub(paused_ms)
    }

    /// How long the job ran, or runs by now.
    pub fn run_ms(&self, now: Moment) -> u64 {
        let Some(started) = self.started else {
            return 0;
        };
        let same_boot = nero_model::process::boot_id().ok() == self.boot_id;
        let until = self.ending.unwrap_or(now);
        if same_boot || self.ending.is_some() {
            until.mono_ms.saturating_sub(started.mono_ms)
        } else {
            u64::try_from(until.wall_ms - started.wall_ms).unwrap_or(0)
        }
    }
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    /// Its shim, job or launcher lives, or cannot be looked at.
    Alive,
    /// A damaged record may name a process that lives.
    Unknown,
    /// Shim and job are dead; a launcher may still say how it ended.
    Silent,
    /// It is over.
    Over,
}

/// Whether this very process runs.
pub fn is_alive(process: &ProcessId) -> bool {
    matches!(process.life(), Ok(ProcessLife::Alive))
}

#[cfg(test)]
mod tests {
    use nero_journal::{Clocks, HEADER_BYTES, Segment, Writer};

    use super::*;

    /// A claim whose shim is dead.
    fn claim(folder: &Path) -> std::path::PathBuf {
        let path = folder.join(run::CLAIM);
        let mut claim = Segment::create(&path, Writer::Shim, &[1; 16], 1).unwrap();
        let dead = ProcessId {
            start_ticks: 1,
            ..ProcessId::own().unwrap()
        };
        let claimed = v1::Claimed {
            shim: Some(dead.into()),
            ..v1::Claimed::default()
        };
        let started = v1::JobStarted {
            job: Some(dead.into()),
        };
        let now = Clocks::now();
        claim.append(RecordKind::Claimed, now, &claimed).unwrap();
        claim.append(RecordKind::JobStarted, now, &started).unwrap();
        path
    }

    #[test]
    fn a_run_with_a_damaged_claim_is_not_taken_for_one_without_processes() {
        let folder = tempfile::tempdir().unwrap();
        let path = claim(folder.path());
        let whole = std::fs::read(&path).unwrap();
        let contact = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Life::read(folder.path()).unwrap().contact()
        };
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 4;
            assert_eq!(contact(&flipped), Contact::Unknown, "byte {at}");
        }
        assert_eq!(contact(&whole[..HEADER_BYTES - 1]), Contact::Unknown);
        assert_eq!(contact(&whole), Contact::Silent);
        assert_eq!(contact(&whole[..whole.len() - 1]), Contact::Silent);
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
    fn read(payload: &[u8], known: impl Fn() -> Life) -> Vec<&'static str> {
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
    fn a_watcher_knows_the_life_of_its_job_by_these_kinds_of_records() {
        let known = || Life {
            shim: ProcessId::own().ok(),
            job: ProcessId::own().ok(),
            taken_over_by: ProcessId::own().ok(),
            exited: Some(v1::JobExited::default()),
            granted_until_ms: 7,
            ..Life::default()
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
            "TAKEN_OVER",
            "LOST",
            "GRANTED",
        ];
        assert_eq!(read(&[], known), decoded);
        let by_kind = [
            "JOB_NOT_STARTED",
            "STOP_ASKED",
            "JOB_EXITED",
            "TREE_GONE",
            "LOST",
        ];
        assert_eq!(read(&[0], known), by_kind);
    }
}
