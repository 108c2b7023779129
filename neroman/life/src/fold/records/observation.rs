//! Applies what a watcher read from a job's output or measured of its processes.

use nero_journal::{ObservationRecord, v1};

use crate::facts::journal::{AskedStep, EndHold, Journal, Metric, Progress, Remark, Sample};
use crate::fold::records::apply::{REMARKS_MAX, RecordPlace};
use crate::fold::records::log_positions::{self, LogPositions};
use crate::fold::records::text::{bounded, text};

/// Most series that are kept for one run; a hostile node cannot fill the memory.
const SERIES_MAX: usize = 10_000;
/// Longest name of a series that is kept, in characters; a watcher takes 200
/// bytes.
const NAME_CHARS_MAX: usize = 400;
/// Most names of series over all segments of one run; every watcher sends its
/// own anew.
pub const NAMES_MAX: usize = 200_000;

/// Applies a record to the facts of a run.
pub(super) fn apply(
    journal: &mut Journal,
    place: &mut RecordPlace<'_>,
    record: &ObservationRecord<'_>,
) -> Result<(), prost::DecodeError> {
    match record {
        ObservationRecord::Metrics(batch) => metrics(journal, place, &batch.decode()?),
        ObservationRecord::MetricsFolded(folded) => {
            journal.folded_points += folded.decode()?.points;
        }
        ObservationRecord::Sample(measured) => sample(journal, place, &measured.decode()?),
        ObservationRecord::Progress(told) => progress(journal, place, &told.decode()?),
        ObservationRecord::LogTruncated(cut) => truncated(journal, place, &cut.decode()?),
        ObservationRecord::StepAsked(asked) => {
            let of = (place.number, asked.decode()?.step);
            if journal.step.as_ref().is_none_or(|old| old.of < of) {
                let at_ms = place.at_ms;
                journal.step = Some(AskedStep { of, at_ms });
            }
        }
        ObservationRecord::Notice(notice) => {
            let notice = notice.decode()?;
            if notice.holds_end {
                hold_end(journal, place, &notice.text);
            }
            remark(journal, place, notice.text);
        }
    }
    Ok(())
}

fn sample(journal: &mut Journal, place: &RecordPlace<'_>, sample: &v1::Sample) {
    let key = place.of_run();
    if journal.sample.as_ref().is_none_or(|old| old.key < key) {
        journal.sample = Some(Box::new(Sample {
            key,
            at_ms: place.at_ms,
            tick: place.tick(),
            cpu_cores: sample.cpu_cores,
            cpu_ms: sample.cpu_ms,
            rss_bytes: sample.rss_bytes,
            peak_rss_bytes: sample.peak_rss_bytes,
            written_bytes: sample.written_bytes,
            silent_ms: sample.silent_ms,
            gpu: sample.gpu.filter(|used| (0.0..=1.0).contains(used)),
            gpumem_bytes: sample.gpumem_bytes,
            gpu_power_w: sample.gpu_power_w.filter(|power| power.is_finite()),
            gpu_temperature_c: (sample.gpu_temperature_c).filter(|degrees| degrees.is_finite()),
        }));
    }
}

fn progress(journal: &mut Journal, place: &RecordPlace<'_>, progress: &v1::Progress) {
    let key = place.of_run();
    let newer = journal.progress.as_ref().is_none_or(|old| old.key < key);
    if newer && (0.0..=1.0).contains(&progress.done) {
        journal.progress = Some(Box::new(Progress {
            key,
            done: progress.done,
            ran_ms: progress.ran_ms,
            left_ms: progress.left_ms,
        }));
    }
}

fn truncated(journal: &mut Journal, place: &mut RecordPlace<'_>, cut: &v1::LogTruncated) {
    let begin = v1::LogPosition {
        stream: cut.stream,
        part: cut.part,
        ..v1::LogPosition::default()
    };
    log_positions::read_to(place.segment, &[begin]);
    let stream = match v1::Stream::try_from(cut.stream) {
        Ok(v1::Stream::Stderr) => "stderr",
        Ok(v1::Stream::Unspecified | v1::Stream::Stdout) => "stdout",
        // Many programs write their files of metrics anew all the time.
        Ok(v1::Stream::File) | Err(_) => return,
    };
    remark(journal, place, format!("the job truncated its {stream}"));
}

fn hold_end(journal: &mut Journal, place: &RecordPlace<'_>, why: &str) {
    let start = journal.incarnations.get_or_default(place.number);
    if start
        .end_hold
        .as_ref()
        .is_none_or(|old| old.key < place.key)
    {
        start.end_hold = Some(Box::new(EndHold {
            key: place.key,
            why: text(why.to_owned()),
        }));
    }
}

fn remark(journal: &mut Journal, place: &RecordPlace<'_>, given: String) {
    let key = place.of_run();
    let remark = Remark {
        key,
        at_ms: place.at_ms,
        text: text(given),
    };
    let at = journal.notices.partition_point(|old| old.key < key);
    journal.notices.insert(at, remark);
    journal.notices.truncate(REMARKS_MAX);
}

fn metrics(journal: &mut Journal, place: &mut RecordPlace<'_>, batch: &v1::Metrics) {
    take_names(journal, place, batch);
    let told = LogPositions::before(journal, place.segment, batch);
    log_positions::read_to(place.segment, &batch.read_to);
    let key = place.of_run();
    for (index, series) in batch.series.iter().enumerate() {
        if told.has(batch, index) {
            continue;
        }
        let (Some(name), Some(&value)) = (
            place.segment.names.get(*series as usize),
            batch.values.get(index),
        ) else {
            continue;
        };
        let since_ms = batch.mono_ms.get(index).copied().unwrap_or(0);
        let point = Metric {
            key,
            last: value,
            step: batch.steps.get(index).copied().unwrap_or(f64::NAN),
            min: value,
            max: value,
            count: 1,
            at_ms: place.segment.made_wall_ms + i64::try_from(since_ms).unwrap_or(0),
        };
        let room = journal.metrics.len() < SERIES_MAX;
        match journal.metrics.get_mut(name) {
            Some(metric) => add(metric, point),
            None if !room => {}
            None => journal.metrics.insert(name.clone(), point),
        }
    }
}

/// Keeps the names that a batch gives its new series.
fn take_names(journal: &mut Journal, place: &mut RecordPlace<'_>, batch: &v1::Metrics) {
    if batch.names.is_empty() {
        return;
    }
    let held: usize = journal.segments.values().map(|one| one.names.len()).sum();
    let room = SERIES_MAX
        .saturating_sub(place.segment.names.len())
        .min(NAMES_MAX.saturating_sub(held));
    journal.overflows |= batch.names.len() > room;
    let kept = batch.names.iter().take(room).cloned();
    let kept = kept.map(|name| bounded(name, NAME_CHARS_MAX));
    place.segment.names.extend(kept);
}

/// Adds one point to the summary of its series.
fn add(metric: &mut Metric, point: Metric) {
    metric.count += 1;
    // f64::min ignores NaN on either side, as these should.
    metric.min = metric.min.min(point.min);
    metric.max = metric.max.max(point.max);
    if point.key >= metric.key {
        metric.key = point.key;
        metric.last = point.last;
        metric.step = point.step;
        metric.at_ms = point.at_ms;
    }
}
