//! Applies each kind of record to the facts of a run.

use nero_journal::Record;
use nero_journal::v1::{self, RecordKind};

use crate::facts::journal::{
    AskedStep, Claimed, Exit, Gone, Granted, Host, Incarnation, Journal, Key, Lost, Metric,
    NotStarted, Paused, Progress, Ran, Remark, RuleFacts, RuleOff, Sample, Segment, Stop, Stray,
    TaskOver,
};
use crate::facts::now::Tick;
use crate::fold::records::text::{bounded, short_text, text};
use crate::fold::records::told::{self, Told};

/// Most processes named that outlived a main process.
const STRAYS_MAX: usize = 16;
/// Most GPUs named that a start was given.
const GPUS_MAX: usize = 64;
/// Most hosts named that a start was given.
const HOSTS_MAX: usize = 1024;
/// Most remarks, series and bound names that are kept for one run; a hostile
/// node cannot fill the memory.
const REMARKS_MAX: usize = 100;
/// See [`REMARKS_MAX`].
const SERIES_MAX: usize = 10_000;
/// Longest name of a series that is kept, in characters; a watcher takes 200
/// bytes.
const NAME_CHARS_MAX: usize = 400;
/// Most names of series over all segments of one run; every watcher sends its
/// own anew.
pub const NAMES_MAX: usize = 200_000;

/// Applies one record of any writer.
pub(super) fn apply(
    journal: &mut Journal,
    segment: &mut Segment,
    number: u32,
    key: Key,
    record: &Record<'_>,
) {
    let Ok(kind) = RecordKind::try_from(i32::from(record.kind)) else {
        journal.unknown_records += 1;
        return;
    };
    let at_ms = record.wall_ns / 1_000_000;
    let place = (number, key);
    if is_sign(kind)
        && let Some(at) = tick(segment, record)
    {
        journal.sign(number, at);
    }
    let applied = match kind {
        RecordKind::Unspecified => {
            journal.unknown_records += 1;
            Ok(())
        }
        RecordKind::Claimed
        | RecordKind::JobStarted
        | RecordKind::JobNotStarted
        | RecordKind::StopAsked
        | RecordKind::SignalSent
        | RecordKind::Paused
        | RecordKind::Resumed
        | RecordKind::JobExited
        | RecordKind::TreeGone
        | RecordKind::TakenOver
        | RecordKind::Lost
        | RecordKind::Granted
        | RecordKind::TaskOver => {
            let incarnation = journal.incarnations.entry(number).or_default();
            let at = tick(segment, record);
            if kind == RecordKind::JobStarted {
                incarnation.started.clone_from(&at);
            }
            match kind {
                RecordKind::Paused => pause(incarnation, key, at_ms, at, record),
                _ => life(incarnation, kind, key, at_ms, record),
            }
        }
        RecordKind::Metrics => metrics(journal, segment, place, record),
        RecordKind::Sample => record.decode().map(|sample: v1::Sample| {
            let newer = journal.sample.as_ref().is_none_or(|old| old.key < place);
            if newer {
                journal.sample = Some(Sample {
                    key: place,
                    at_ms,
                    tick: tick(segment, record),
                    cpu_cores: sample.cpu_cores,
                    cpu_ms: sample.cpu_ms,
                    rss_bytes: sample.rss_bytes,
                    peak_rss_bytes: sample.peak_rss_bytes,
                    written_bytes: sample.written_bytes,
                    silent_ms: sample.silent_ms,
                    gpu: sample.gpu.filter(|used| (0.0..=1.0).contains(used)),
                    gpumem_bytes: sample.gpumem_bytes,
                    gpu_power_w: sample.gpu_power_w.filter(|power| power.is_finite()),
                    gpu_temperature_c: (sample.gpu_temperature_c)
                        .filter(|degrees| degrees.is_finite()),
                });
            }
        }),
        RecordKind::Progress => record.decode().map(|progress: v1::Progress| {
            let newer = journal.progress.as_ref().is_none_or(|old| old.key < place);
            if newer && (0.0..=1.0).contains(&progress.done) {
                journal.progress = Some(Progress {
                    key: place,
                    done: progress.done,
                    ran_ms: progress.ran_ms,
                    left_ms: progress.left_ms,
                });
            }
        }),
        RecordKind::RulesApplied
        | RecordKind::RulesRefused
        | RecordKind::RuleBound
        | RecordKind::RuleFired
        | RecordKind::RuleHeld
        | RecordKind::RuleRan => rule(journal, kind, place, at_ms, record),
        RecordKind::StepAsked => record.decode().map(|v1::StepAsked { step }| {
            let newer = |old: &AskedStep| old.of < (number, step);
            if journal.step.as_ref().is_none_or(newer) {
                journal.step = Some(AskedStep {
                    of: (number, step),
                    at_ms,
                });
            }
        }),
        RecordKind::WatchStarted => record.decode().map(|started: v1::WatchStarted| {
            if started.settling {
                // Output that is read after the end is then no sign of life.
                segment.boot.clear();
            }
            watch_started(journal, place, started);
        }),
        RecordKind::LogTruncated => record.decode().map(|cut: v1::LogTruncated| {
            let begin = v1::LogPosition {
                stream: cut.stream,
                part: cut.part,
                ..v1::LogPosition::default()
            };
            told::read_to(segment, &[begin]);
            let stream = match v1::Stream::try_from(cut.stream) {
                Ok(v1::Stream::Stderr) => "stderr",
                Ok(v1::Stream::Unspecified | v1::Stream::Stdout) => "stdout",
                // Many programs write their files of metrics anew all the time.
                Ok(v1::Stream::File) | Err(_) => return,
            };
            remark(
                journal,
                place,
                at_ms,
                format!("the job truncated its {stream}"),
            );
        }),
        RecordKind::MetricsFolded => record
            .decode()
            .map(|folded: v1::MetricsFolded| journal.folded_points += folded.points),
        RecordKind::Notice => record
            .decode()
            .map(|notice: v1::Notice| remark(journal, place, at_ms, notice.text)),
        RecordKind::WatchEnded => record
            .decode()
            .map(|ended: v1::WatchEnded| told::read_to(segment, &ended.read_to)),
        // Records of neromum's own ledger belong to no run's journal.
        RecordKind::LedgerAccepted
        | RecordKind::LedgerTakenAway
        | RecordKind::LedgerCancelAsked
        | RecordKind::LedgerExited
        | RecordKind::LedgerClosed
        | RecordKind::LedgerAnswered
        | RecordKind::LedgerSubmission
        | RecordKind::LedgerSubmitted
        | RecordKind::LedgerRefused
        | RecordKind::LedgerCards => Ok(()),
    };
    if applied.is_err() {
        journal.damaged_records += 1;
    }
}

/// Whether a record of this kind proves that a process of the run was alive.
fn is_sign(kind: RecordKind) -> bool {
    use RecordKind as Kind;
    match kind {
        Kind::Claimed
        | Kind::JobStarted
        | Kind::StopAsked
        | Kind::SignalSent
        | Kind::Paused
        | Kind::Resumed
        | Kind::JobExited
        | Kind::TreeGone
        | Kind::TakenOver
        | Kind::Metrics
        | Kind::Progress
        | Kind::Sample => true,
        Kind::Unspecified
        | Kind::JobNotStarted
        | Kind::Lost
        | Kind::RulesApplied
        | Kind::RulesRefused
        | Kind::RuleBound
        | Kind::RuleFired
        | Kind::RuleHeld
        | Kind::RuleRan
        | Kind::StepAsked
        | Kind::WatchStarted
        | Kind::LogTruncated
        | Kind::MetricsFolded
        | Kind::Notice
        | Kind::WatchEnded
        | Kind::LedgerAccepted
        | Kind::LedgerTakenAway
        | Kind::LedgerCancelAsked
        | Kind::LedgerExited
        | Kind::LedgerClosed
        | Kind::LedgerAnswered
        | Kind::LedgerSubmission
        | Kind::LedgerSubmitted
        | Kind::LedgerRefused
        | Kind::LedgerCards
        | Kind::Granted
        | Kind::TaskOver => false,
    }
}

/// The time of a record, on its machine's boot clock.
fn tick(segment: &Segment, record: &Record<'_>) -> Option<Tick> {
    (!segment.boot.is_empty()).then(|| Tick {
        boot: segment.boot.clone(),
        ms: i64::try_from(record.mono_ns / 1_000_000).unwrap_or(i64::MAX),
    })
}

/// A pause of the job; of one that was recorded twice, the first record counts.
fn pause(
    one: &mut Incarnation,
    key: Key,
    at_ms: i64,
    at: Option<Tick>,
    record: &Record<'_>,
) -> Result<(), prost::DecodeError> {
    let v1::Paused { request } = record.decode()?;
    let newer = |old: &Paused| (request, old.key) > (old.request, key);
    if one.paused.as_ref().is_none_or(newer) {
        one.paused = Some(Paused {
            key,
            request,
            at_ms,
            at,
        });
    }
    Ok(())
}

/// Records about the life of the job.
fn life(
    one: &mut Incarnation,
    kind: RecordKind,
    key: Key,
    at_ms: i64,
    record: &Record<'_>,
) -> Result<(), prost::DecodeError> {
    match kind {
        RecordKind::Claimed => {
            let claimed: v1::Claimed = record.decode()?;
            one.claimed = Some(Claimed {
                at_ms,
                time_limit_ms: claimed.time_limit_ms,
            });
        }
        RecordKind::JobStarted => {
            let started: v1::JobStarted = record.decode()?;
            one.started_ms = Some(at_ms);
            one.pid = started.job.map(|job| job.pid);
        }
        RecordKind::JobNotStarted => {
            let not: v1::JobNotStarted = record.decode()?;
            if one.not_started.as_ref().is_none_or(|old| key < old.key) {
                one.not_started = Some(NotStarted {
                    key,
                    stage: not.stage,
                    errno: not.errno,
                    program: short_text(&not.program),
                    at_ms,
                });
            }
        }
        RecordKind::StopAsked => {
            let asked: v1::StopAsked = record.decode()?;
            if one.stop.as_ref().is_none_or(|old| key < old.key) {
                one.stop = Some(Stop {
                    key,
                    cause: asked.cause,
                    rule: asked.rule,
                    at_ms,
                });
            }
        }
        RecordKind::JobExited => {
            let exited: v1::JobExited = record.decode()?;
            let better = |old: &Exit| (exited.code_unknown, key) < (old.code_unknown, old.key);
            if one.exit.as_ref().is_none_or(better) {
                one.exit = Some(Exit {
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
                    at_ms,
                });
            }
        }
        RecordKind::TreeGone => {
            let gone: v1::TreeGone = record.decode()?;
            if one.gone.as_ref().is_none_or(|old| key < old.key) {
                one.gone = Some(Gone {
                    key,
                    strays_killed: gone.strays_killed,
                    stdout_bytes: gone.stdout_bytes,
                    stderr_bytes: gone.stderr_bytes,
                    left_alive: u32::try_from(gone.left_alive.len()).unwrap_or(u32::MAX),
                    strays_ms: gone.strays_ms,
                    strays_left: gone.strays_left.into(),
                    strays: gone.strays.iter().take(STRAYS_MAX).map(stray).collect(),
                    at_ms,
                });
            }
        }
        RecordKind::TakenOver => one.taken_over += 1,
        RecordKind::Lost => {
            let lost: v1::Lost = record.decode()?;
            if one.lost.as_ref().is_none_or(|old| key < old.key) {
                one.lost = Some(Lost {
                    key,
                    reason: lost.reason,
                    detail: text(lost.detail),
                    at_ms,
                });
            }
        }
        RecordKind::Granted => {
            let granted: v1::Granted = record.decode()?;
            let gpus = granted.gpus.into_iter().take(GPUS_MAX);
            let hosts = granted.hosts.into_iter().take(HOSTS_MAX);
            one.granted = Some(Granted {
                scheduler: text(granted.scheduler),
                job: text(granted.job),
                host: text(granted.host),
                partition: text(granted.partition),
                cpus: granted.cpus,
                memory_bytes: granted.memory_bytes,
                gpus: gpus.map(text).collect(),
                hosts: hosts.map(text).collect(),
                until_ms: granted.until_ms,
            });
        }
        RecordKind::TaskOver => {
            let over: v1::TaskOver = record.decode()?;
            if one.task_over.as_ref().is_none_or(|old| key < old.key) {
                one.task_over = Some(TaskOver {
                    key,
                    how: over.how,
                    scheduler: text(over.scheduler),
                    escalated: over.escalated,
                });
            }
        }
        RecordKind::Resumed => {
            let v1::Resumed { request, paused_ms } = record.decode()?;
            one.resumed = one.resumed.max(Some((request, paused_ms)));
        }
        // The signal changes nothing; the others are not passed here.
        RecordKind::Unspecified
        | RecordKind::SignalSent
        | RecordKind::Paused
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
        | RecordKind::LedgerCards => {}
    }
    Ok(())
}

fn metrics(
    journal: &mut Journal,
    segment: &mut Segment,
    place: (u32, Key),
    record: &Record<'_>,
) -> Result<(), prost::DecodeError> {
    let batch: v1::Metrics = record.decode()?;
    if !batch.names.is_empty() {
        let held: usize = journal.segments.values().map(|one| one.names.len()).sum();
        let room = SERIES_MAX
            .saturating_sub(segment.names.len())
            .min(NAMES_MAX.saturating_sub(held));
        journal.overflows |= batch.names.len() > room;
        let kept = batch.names.iter().take(room).cloned();
        segment
            .names
            .extend(kept.map(|name| bounded(name, NAME_CHARS_MAX)));
    }
    let told = Told::before(journal, segment, &batch);
    told::read_to(segment, &batch.read_to);
    for (index, series) in batch.series.iter().enumerate() {
        if told.has(&batch, index) {
            continue;
        }
        let (Some(name), Some(&value)) =
            (segment.names.get(*series as usize), batch.values.get(index))
        else {
            continue;
        };
        let step = batch.steps.get(index).copied().unwrap_or(f64::NAN);
        let at_ms = segment.made_wall_ms
            + batch
                .mono_ms
                .get(index)
                .map_or(0, |ms| i64::try_from(*ms).unwrap_or(0));
        let room = journal.metrics.len() < SERIES_MAX;
        match journal.metrics.get_mut(name) {
            Some(metric) => {
                metric.count += 1;
                // f64::min ignores NaN on either side, as these should.
                metric.min = metric.min.min(value);
                metric.max = metric.max.max(value);
                if place >= metric.key {
                    metric.key = place;
                    metric.last = value;
                    metric.step = step;
                    metric.at_ms = at_ms;
                }
            }
            None if !room => {}
            None => {
                let metric = Metric {
                    key: place,
                    last: value,
                    step,
                    min: value,
                    max: value,
                    count: 1,
                    at_ms,
                };
                journal.metrics.insert(name.clone(), metric);
            }
        }
    }
    Ok(())
}

fn rule(
    journal: &mut Journal,
    kind: RecordKind,
    place: (u32, Key),
    at_ms: i64,
    record: &Record<'_>,
) -> Result<(), prost::DecodeError> {
    match kind {
        RecordKind::RulesApplied => {
            let applied: v1::RulesApplied = record.decode()?;
            if applied.version > journal.rules_applied {
                journal.rules_applied = applied.version;
                journal.rules_off.clear();
            }
            if applied.version == journal.rules_applied {
                rules_off(journal, applied.off);
            }
        }
        RecordKind::RulesRefused => {
            let refused: v1::RulesRefused = record.decode()?;
            let newer = journal
                .rules_refused
                .as_ref()
                .is_none_or(|(version, _)| *version < refused.version);
            if newer {
                journal.rules_refused = Some((refused.version, text(refused.why)));
            }
        }
        RecordKind::RuleBound => {
            let bound: v1::RuleBound = record.decode()?;
            let Some(facts) = rule_facts(journal, bound.rule) else {
                return Ok(());
            };
            if facts.bound.len() < REMARKS_MAX {
                facts
                    .bound
                    .insert(text(bound.written.clone()), text(bound.exact.clone()));
            }
            if !bound.also.is_empty() {
                facts.problem = text(format!(
                    "`{}` fits {} and {}",
                    bound.written,
                    bound.exact,
                    bound.also.join(", ")
                ));
            }
        }
        RecordKind::RuleFired => {
            let fired: v1::RuleFired = record.decode()?;
            let Some(facts) = rule_facts(journal, fired.rule) else {
                return Ok(());
            };
            let times = fired.times.max(1);
            facts.fired = facts.fired.max(times);
            // Watchers that took over may tell one firing twice.
            let at = facts.firings.entry(times).or_insert(at_ms);
            *at = at_ms.min(*at);
            if facts.firings.len() > FIRINGS_MAX {
                facts.firings.pop_first();
            }
            if place >= facts.key {
                facts.key = place;
                facts.action = text(fired.action);
                facts.text = text(fired.text);
                facts.last_values = text(fired.values);
                facts.last_fired_ms = at_ms;
            }
        }
        RecordKind::RuleHeld => {
            let held: v1::RuleHeld = record.decode()?;
            let Some(facts) = rule_facts(journal, held.rule) else {
                return Ok(());
            };
            if place >= facts.held_key {
                facts.held_key = place;
                let since = held.since_s.into_iter().take(HELD_MAX);
                facts.held = since
                    .map(|one| Some(one).filter(|one| one.is_finite()))
                    .collect();
            }
        }
        RecordKind::RuleRan => {
            let ran: v1::RuleRan = record.decode()?;
            let Some(facts) = rule_facts(journal, ran.rule) else {
                return Ok(());
            };
            facts.ran.entry(ran.times).or_insert(Ran {
                at_ms,
                how: text(ran.how),
                output: text(ran.output),
            });
            if facts.ran.len() > RAN_MAX {
                facts.ran.pop_first();
            }
        }
        // These are not passed here.
        RecordKind::Unspecified
        | RecordKind::Claimed
        | RecordKind::JobStarted
        | RecordKind::JobNotStarted
        | RecordKind::StopAsked
        | RecordKind::SignalSent
        | RecordKind::Paused
        | RecordKind::Resumed
        | RecordKind::JobExited
        | RecordKind::TreeGone
        | RecordKind::TakenOver
        | RecordKind::WatchStarted
        | RecordKind::Metrics
        | RecordKind::Sample
        | RecordKind::LogTruncated
        | RecordKind::MetricsFolded
        | RecordKind::Progress
        | RecordKind::StepAsked
        | RecordKind::Notice
        | RecordKind::WatchEnded
        | RecordKind::Lost
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
        | RecordKind::Granted
        | RecordKind::TaskOver => {}
    }
    Ok(())
}

/// Most `for` of one rule: its text has no room for more.
const HELD_MAX: usize = 2048;
/// Commands of a rule whose ends are kept.
const RAN_MAX: usize = 10;
/// Firings of a rule whose times are kept.
const FIRINGS_MAX: usize = 100;

fn rule_facts(journal: &mut Journal, rule: u64) -> Option<&mut RuleFacts> {
    if journal.rules.len() >= REMARKS_MAX && !journal.rules.contains_key(&rule) {
        return None;
    }
    Some(journal.rules.entry(rule).or_default())
}

/// The rules of the version in force that are off. Every watcher sends the same
/// for one version.
fn rules_off(journal: &mut Journal, told: Vec<v1::RuleOff>) {
    let room = REMARKS_MAX.saturating_sub(journal.rules_off.len());
    for off in told.into_iter().take(room) {
        let rule = RuleOff {
            text: text(off.text),
            why: text(off.why),
        };
        journal.rules_off.insert(off.rule, rule);
    }
}

fn watch_started(journal: &mut Journal, place: (u32, Key), started: v1::WatchStarted) {
    let Some(found) = started.environment else {
        return;
    };
    // The first record of the newest start contains the host of the job.
    let better = journal
        .host
        .as_ref()
        .is_none_or(|old| place.0 > old.key.0 || (place.0 == old.key.0 && place.1 < old.key.1));
    if better {
        journal.host = Some(Host {
            key: place,
            host: text(found.host),
            kernel: text(found.kernel),
            cpus: found.cpus,
            memory_bytes: found.memory_bytes,
            cpu_model: text(found.cpu_model),
            disk_free_bytes: found.disk_free_bytes,
            gpus: found.gpus.into_iter().take(REMARKS_MAX).map(text).collect(),
            given_gpus: (found.given_gpus.into_iter().take(GPUS_MAX).map(text)).collect(),
        });
    }
}

fn remark(journal: &mut Journal, key: (u32, Key), at_ms: i64, given: String) {
    let remark = Remark {
        key,
        at_ms,
        text: text(given),
    };
    let at = journal.notices.partition_point(|old| old.key < key);
    journal.notices.insert(at, remark);
    journal.notices.truncate(REMARKS_MAX);
}

fn stray(told: &v1::Stray) -> Stray {
    Stray {
        pid: told.pid,
        name: short_text(&told.name),
    }
}
