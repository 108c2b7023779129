//! Applies records of the life of a start's job.

use nero_journal::{JobRecord, v1};

use crate::facts::journal::{
    Exit, Incarnation, Lost, NotStarted, SchedulerGrant, StartClaim, StartPause, Stop, Stray,
    TaskOver, TreeEnd,
};
use crate::fold::records::apply::{GPUS_MAX, RecordPlace};
use crate::fold::records::text::{short_text, text};

/// Most processes named that outlived a main process.
const STRAYS_MAX: usize = 16;
/// Most hosts named that a start was given.
const HOSTS_MAX: usize = 1024;

/// Applies a record to the facts of its start.
pub(super) fn apply(
    start: &mut Incarnation,
    place: &RecordPlace<'_>,
    record: &JobRecord<'_>,
) -> Result<(), prost::DecodeError> {
    let (key, at_ms) = (place.key, place.at_ms);
    match record {
        JobRecord::Claimed(claimed) => {
            start.claimed = Some(StartClaim {
                at_ms,
                time_limit_ms: claimed.decode()?.time_limit_ms,
            });
        }
        JobRecord::JobStarted(started) => {
            start.pid = started.decode()?.job.map(|job| job.pid);
            start.started = place.tick();
            start.started_ms = Some(at_ms);
        }
        JobRecord::JobNotStarted(not) => {
            let not = not.decode()?;
            if start.not_started.as_ref().is_none_or(|old| key < old.key) {
                start.not_started = Some(Box::new(NotStarted {
                    key,
                    stage: not.stage,
                    errno: not.errno,
                    program: short_text(&not.program),
                    at_ms,
                }));
            }
        }
        JobRecord::StopAsked(asked) => {
            let asked = asked.decode()?;
            if start.stop.as_ref().is_none_or(|old| key < old.key) {
                start.stop = Some(Box::new(Stop {
                    key,
                    cause: asked.cause,
                    rule: asked.rule,
                    at_ms,
                }));
            }
        }
        JobRecord::Paused(paused) => pause(start, place, paused.decode()?.request),
        JobRecord::Resumed(resumed) => {
            let resumed = resumed.decode()?;
            let end = (resumed.request, resumed.paused_ms);
            start.resumed = start.resumed.max(Some(end));
        }
        JobRecord::JobExited(exited) => exit(start, place, &exited.decode()?),
        JobRecord::TreeGone(all_gone) => gone(start, place, &all_gone.decode()?),
        JobRecord::TakenOver(_) => start.taken_over += 1,
        JobRecord::Lost(lost) => {
            let lost = lost.decode()?;
            if start.lost.as_ref().is_none_or(|old| key < old.key) {
                start.lost = Some(Box::new(Lost {
                    key,
                    reason: lost.reason,
                    detail: text(lost.detail),
                    at_ms,
                }));
            }
        }
        JobRecord::Granted(given) => start.granted = Some(Box::new(granted(given.decode()?))),
        JobRecord::TaskOver(over) => {
            let over = over.decode()?;
            if start.task_over.as_ref().is_none_or(|old| key < old.key) {
                start.task_over = Some(Box::new(TaskOver {
                    key,
                    how: over.how,
                    scheduler: text(over.scheduler),
                    escalated: over.escalated,
                }));
            }
        }
        // A signal changes nothing.
        JobRecord::SignalSent(_) => {}
    }
    Ok(())
}

/// A pause of the job; of one that was recorded twice, the first record counts.
fn pause(start: &mut Incarnation, place: &RecordPlace<'_>, request: u32) {
    let key = place.key;
    let newer = |old: &StartPause| (request, old.key) > (old.request, key);
    if start.paused.as_deref().is_none_or(newer) {
        start.paused = Some(Box::new(StartPause {
            key,
            request,
            at_ms: place.at_ms,
            at: place.tick(),
        }));
    }
}

/// The end of the main process; a known exit code counts more than an unknown one.
fn exit(start: &mut Incarnation, place: &RecordPlace<'_>, exited: &v1::JobExited) {
    let key = place.key;
    let better = |old: &Exit| (exited.code_unknown, key) < (old.code_unknown, old.key);
    if start.exit.as_ref().is_none_or(better) {
        start.exit = Some(Exit {
            key,
            code: exited.code,
            signal: exited.signal,
            core_dumped: exited.core_dumped,
            code_unknown: exited.code_unknown,
            user_cpu_us: exited.user_cpu_us,
            system_cpu_us: exited.system_cpu_us,
            peak_rss_bytes: exited.peak_rss_bytes,
            disk_free_bytes: exited.disk_free_bytes,
            oom_kills: exited.oom_kills.unwrap_or(0),
            stderr_line: short_text(&exited.stderr_line),
            run_ms: exited.run_ms,
            at_ms: place.at_ms,
        });
    }
}

fn gone(start: &mut Incarnation, place: &RecordPlace<'_>, gone: &v1::TreeGone) {
    let key = place.key;
    if start.gone.as_ref().is_none_or(|old| key < old.key) {
        start.gone = Some(TreeEnd {
            key,
            strays_killed: gone.strays_killed,
            stdout_bytes: gone.stdout_bytes,
            stderr_bytes: gone.stderr_bytes,
            left_alive: u32::try_from(gone.left_alive.len()).unwrap_or(u32::MAX),
            strays_ms: gone.strays_ms,
            strays_left: gone.strays_left.into(),
            strays: gone.strays.iter().take(STRAYS_MAX).map(stray).collect(),
            at_ms: place.at_ms,
        });
    }
}

fn stray(told: &v1::Stray) -> Stray {
    Stray {
        pid: told.pid,
        name: short_text(&told.name),
    }
}

fn granted(granted: v1::Granted) -> SchedulerGrant {
    let gpus = granted.gpus.into_iter().take(GPUS_MAX);
    let hosts = granted.hosts.into_iter().take(HOSTS_MAX);
    SchedulerGrant {
        scheduler: text(granted.scheduler),
        job: text(granted.job),
        host: text(granted.host),
        partition: text(granted.partition),
        cpus: granted.cpus,
        memory_bytes: granted.memory_bytes,
        gpus: gpus.map(text).collect(),
        hosts: hosts.map(text).collect(),
        until_ms: granted.until_ms,
    }
}
