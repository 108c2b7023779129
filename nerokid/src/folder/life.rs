//! What the claim and its neighbours say of a run: who supervises it, which
//! process is the job, whether it is over.

use std::io;
use std::path::Path;

use nero_journal::{Clocks, Content, JobLife, JobRecord, Record, v1};
use nero_model::ProcessId;
use nero_model::paths::run;
use nero_model::process::Life as ProcessLife;
use rustix::process::Signal;

use crate::core::facts::Moment;
use crate::folder::segments;

/// Most hosts of a run that are measured.
const HOSTS_MAX: usize = 10_000;

/// Everything that the records of a run's life say.
#[derive(Debug, Default)]
pub struct Life {
    /// The machine's start in which the claim was made.
    pub boot_id: Option<[u8; 16]>,
    /// The life of the job, by the records.
    pub known: JobLife,
    /// When the job's main process ended, or was asked to.
    pub ending: Option<Moment>,
    /// Ends of pauses: when, in ms since the machine's start, and the time of all pauses
    /// until then.
    pub pauses: Vec<(u64, u64)>,
    /// The signals of stops, pauses and their ends, in the order of the records.
    pub signals: Vec<i32>,
    /// What is known of its end.
    pub exited: Option<v1::JobExited>,
    /// Hosts of the allocation, where several or a launcher of the scheduler have
    /// processes of the job, and whether a helper measures these.
    pub hosts: Vec<(String, bool)>,
    /// When its scheduler ends the task, on the wall clock; 0: not told.
    pub granted_until_ms: i64,
    /// Bytes of the claim, or of a segment of launcher or neromum, were changed:
    /// an absent fact proves nothing.
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
        match record.content() {
            Content::Job(job) => {
                let at = record.clocks();
                self.known.apply(&job, at);
                self.apply(&job, at);
            }
            // The watcher's own records tell nothing about the job's life.
            Content::Watch(_)
            | Content::Observation(_)
            | Content::Rule(_)
            | Content::Ledger(_)
            | Content::Unknown(_) => {}
        }
    }

    /// Takes what only a watcher needs of a record: for the job's run time, its signals, its exit
    /// code and its hosts.
    fn apply(&mut self, record: &JobRecord<'_>, at: Clocks) {
        match record {
            JobRecord::StopAsked(asked) => {
                self.ending.get_or_insert(at.into());
                self.signals
                    .extend(asked.decode().map(|asked| asked.signal));
            }
            JobRecord::JobExited(exited) => {
                self.ending.get_or_insert(at.into());
                self.exited = exited.decode().ok();
            }
            JobRecord::Paused(paused) => {
                self.signals
                    .extend(paused.decode().map(|_| Signal::STOP.as_raw()));
            }
            JobRecord::Resumed(resumed) => {
                if let Ok(resumed) = resumed.decode() {
                    self.signals.push(Signal::CONT.as_raw());
                    self.pauses
                        .push((at.mono_ns / 1_000_000, resumed.paused_ms));
                }
            }
            JobRecord::Granted(granted) => {
                if let Ok(granted) = granted.decode() {
                    self.granted_until_ms = granted.until_ms;
                    self.keep_hosts(granted);
                }
            }
            JobRecord::Claimed(_)
            | JobRecord::JobStarted(_)
            | JobRecord::JobNotStarted(_)
            | JobRecord::SignalSent(_)
            | JobRecord::TreeGone(_)
            | JobRecord::TakenOver(_)
            | JobRecord::Lost(_)
            | JobRecord::TaskOver(_) => {}
        }
    }

    /// Keeps the hosts of an allocation if processes of the job run outside of the shim's tree.
    fn keep_hosts(&mut self, granted: v1::Granted) {
        if !granted.helped.is_empty() {
            let all = granted.hosts.into_iter().take(HOSTS_MAX);
            let helped = |host: &String| granted.helped.contains(host);
            self.hosts = all.map(|host| (host.clone(), helped(&host))).collect();
        }
    }

    /// The processes that supervise the job, and the job, which live on this host.
    pub fn here(&self) -> Vec<ProcessId> {
        let all = [self.known.shim, self.known.job, self.known.taken_over_by];
        let lives = |one: &ProcessId| one.life().is_ok_and(|life| life == ProcessLife::Alive);
        all.into_iter().flatten().filter(lives).collect()
    }

    /// Whether anything of the run may still change by itself.
    pub fn contact(&self) -> Contact {
        if self.known.is_over() {
            return Contact::Over;
        }
        let lives = [self.known.shim, self.known.job].map(|process| process.map(|one| one.life()));
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
        let guard = self.known.taken_over_by.map(|launcher| launcher.life());
        match guard {
            Some(Ok(ProcessLife::Alive)) => Contact::Alive,
            Some(_) | None => Contact::Silent,
        }
    }

    /// When the job was started.
    pub fn started(&self) -> Option<Moment> {
        self.known.started.map(Moment::from)
    }

    /// When the present pause began; `None`: the job is not paused.
    pub fn paused_since(&self) -> Option<Moment> {
        (self.known.pause_in_force()).map(|pause| pause.since.into())
    }

    /// The run time at a moment of this machine, in ms since its start.
    pub fn ran_ms_at(&self, mono_ms: u64) -> u64 {
        let Some(started) = self.started() else {
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
        let Some(started) = self.started() else {
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
    use nero_journal::v1::RecordKind;
    use nero_journal::{Clocks, HEADER_BYTES, Segment, Writer};

    use super::*;
    use crate::core::record::kinds_read;

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

    #[test]
    fn a_watcher_knows_the_life_of_its_job_by_these_kinds_of_records() {
        let known = || Life {
            known: JobLife {
                shim: ProcessId::own().ok(),
                job: ProcessId::own().ok(),
                taken_over_by: ProcessId::own().ok(),
                ..JobLife::default()
            },
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
        assert_eq!(kinds_read(&[], known, Life::fold), decoded);
        let by_kind = [
            "JOB_NOT_STARTED",
            "STOP_ASKED",
            "JOB_EXITED",
            "TREE_GONE",
            "LOST",
        ];
        assert_eq!(kinds_read(&[0], known, Life::fold), by_kind);
    }
}
