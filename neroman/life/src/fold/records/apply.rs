//! Applies a record of any writer to the facts of a run.

use nero_journal::{Content, JobRecord, ObservationRecord, Record, WatchRecord, v1};

use crate::facts::journal::{Host, Journal, Key, Segment};
use crate::facts::now::Tick;
use crate::fold::records::text::text;
use crate::fold::records::{job, log_positions, observation, rule};

/// Most GPUs named that a start was given.
pub(super) const GPUS_MAX: usize = 64;
/// Most remarks, rules and bound names that are kept for one run; a hostile
/// node cannot fill the memory.
pub(super) const REMARKS_MAX: usize = 100;

/// The place of a record in a run.
pub(super) struct RecordPlace<'a> {
    /// Number of the start that it belongs to.
    pub(super) number: u32,
    pub(super) key: Key,
    /// Its time on the node's wall clock.
    pub(super) at_ms: i64,
    /// Its time on the node's boot clock.
    pub(super) boot_ms: i64,
    pub(super) segment: &'a mut Segment,
}

impl RecordPlace<'_> {
    /// The place in the order of all records of a run.
    pub(super) fn of_run(&self) -> (u32, Key) {
        (self.number, self.key)
    }

    /// The record's time on its machine's boot clock, if the boot is known.
    pub(super) fn tick(&self) -> Option<Tick> {
        let boot = &self.segment.boot;
        (!boot.is_empty()).then(|| Tick {
            boot: boot.clone(),
            ms: self.boot_ms,
        })
    }
}

/// Applies one record of any writer.
pub(super) fn apply(
    journal: &mut Journal,
    segment: &mut Segment,
    number: u32,
    key: Key,
    record: &Record<'_>,
) {
    let content = record.content();
    let mut place = RecordPlace {
        number,
        key,
        at_ms: record.wall_ns / 1_000_000,
        boot_ms: i64::try_from(record.mono_ns / 1_000_000).unwrap_or(i64::MAX),
        segment,
    };
    if is_sign(&content)
        && let Some(at) = place.tick()
    {
        journal.sign(number, at);
    }
    let applied = match &content {
        Content::Job(job) => {
            let incarnation = journal.incarnations.get_or_default(number);
            job::apply(incarnation, &place, job)
        }
        Content::Watch(watch) => watcher(journal, &mut place, watch),
        Content::Observation(observation) => observation::apply(journal, &mut place, observation),
        Content::Rule(rule) => rule::apply(journal, &place, rule),
        // Records of neromum's own ledger belong to no run's journal.
        Content::Ledger(_) => Ok(()),
        Content::Unknown(_) => {
            journal.unknown_records += 1;
            Ok(())
        }
    };
    if applied.is_err() {
        journal.damaged_records += 1;
    }
}

/// Whether a record proves that a process of the run was alive.
fn is_sign(content: &Content<'_>) -> bool {
    match content {
        Content::Job(job) => match job {
            JobRecord::Claimed(_)
            | JobRecord::JobStarted(_)
            | JobRecord::StopAsked(_)
            | JobRecord::SignalSent(_)
            | JobRecord::Paused(_)
            | JobRecord::Resumed(_)
            | JobRecord::JobExited(_)
            | JobRecord::TreeGone(_)
            | JobRecord::TakenOver(_) => true,
            JobRecord::JobNotStarted(_)
            | JobRecord::Lost(_)
            | JobRecord::TaskOver(_)
            | JobRecord::Granted(_) => false,
        },
        Content::Observation(observation) => match observation {
            ObservationRecord::Metrics(_)
            | ObservationRecord::Progress(_)
            | ObservationRecord::Sample(_) => true,
            ObservationRecord::MetricsFolded(_)
            | ObservationRecord::LogTruncated(_)
            | ObservationRecord::StepAsked(_)
            | ObservationRecord::Notice(_) => false,
        },
        Content::Watch(_) | Content::Rule(_) | Content::Ledger(_) | Content::Unknown(_) => false,
    }
}

fn watcher(
    journal: &mut Journal,
    place: &mut RecordPlace<'_>,
    record: &WatchRecord<'_>,
) -> Result<(), prost::DecodeError> {
    match record {
        WatchRecord::WatchStarted(started) => {
            let started = started.decode()?;
            if started.settling {
                // Output that is read after the end is then no sign of life.
                place.segment.boot.clear();
            }
            if let Some(found) = started.environment {
                host(journal, place, found);
            }
        }
        WatchRecord::WatchEnded(ended) => {
            log_positions::read_to(place.segment, &ended.decode()?.read_to)
        }
    }
    Ok(())
}

fn host(journal: &mut Journal, place: &RecordPlace<'_>, found: v1::Environment) {
    let key = place.of_run();
    // The first record of the newest start contains the host of the job.
    let better = journal
        .host
        .as_ref()
        .is_none_or(|old| key.0 > old.key.0 || (key.0 == old.key.0 && key.1 < old.key.1));
    if better {
        journal.host = Some(Host {
            key,
            host: text(found.host),
            kernel: text(found.kernel),
            cpus: found.cpus,
            memory_bytes: found.memory_bytes,
            cpu_model: text(found.cpu_model),
            disk_free_bytes: found.disk_free_bytes,
            gpus: found.gpus.into_iter().take(REMARKS_MAX).map(text).collect(),
            given_gpus: (found.given_gpus.into_iter().take(GPUS_MAX).map(text)).collect(),
            image: text(found.image),
        });
    }
}
