//! Starts of a run after one whose job ended by itself, read from the run's own records.

use std::fs;
use std::path::{Path, PathBuf};

use nero_journal::v1::{RecordKind, StopAsked, StopCause};
use prost::Message as _;

/// What the claim of a start tells.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    number: u32,
    has_job: bool,
    /// The job ended, and not because the scheduler wanted it.
    has_ended: bool,
}

impl Start {
    fn of(folder: &Path) -> Option<Self> {
        let number = folder.file_name()?.to_str()?.parse().ok()?;
        let bytes = nero_journal::read_file(&folder.join("claim")).ok()?;
        let (_, records) = nero_journal::scan(&bytes).ok()?;
        let mut start = Self {
            number,
            ..Self::default()
        };
        let mut is_stopped = false;
        for record in records {
            let kind = RecordKind::try_from(i32::from(record.kind));
            if kind == Ok(RecordKind::JobStarted) {
                start.has_job = true;
            } else if kind == Ok(RecordKind::StopAsked) {
                let asked = StopAsked::decode(record.payload).ok()?;
                is_stopped |= asked.cause() == StopCause::Warden;
            } else if kind == Ok(RecordKind::JobExited) {
                start.has_ended = !is_stopped;
            }
        }
        Some(start)
    }
}

/// Whether a segment in the folder of a start has a record of this kind.
pub(super) fn has_record(folder: &Path, kind: RecordKind) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.any(|path| {
        let is_segment = path.ends_with("claim") || path.extension() == Some("seg".as_ref());
        let bytes = is_segment.then(|| nero_journal::read_file(&path).ok());
        let bytes = bytes.flatten().unwrap_or_default();
        let mut records = nero_journal::scan(&bytes)
            .into_iter()
            .flat_map(|(_, all)| all);
        records.any(|record| RecordKind::try_from(i32::from(record.kind)) == Ok(kind))
    })
}

/// Runs below a node's root that were started although they had ended.
pub(super) fn after_an_end(root: &Path) -> Vec<String> {
    let deployments = folders(root).into_iter();
    let experiments = deployments.flat_map(|deployment| folders(&deployment.join("runs")));
    let runs = experiments.flat_map(|experiment| folders(&experiment));
    runs.filter_map(|run| {
        let starts: Vec<Start> = folders(&run)
            .iter()
            .filter_map(|one| Start::of(one))
            .collect();
        let ended = starts.iter().filter(|start| start.has_ended);
        let ended = ended.min_by_key(|start| start.number)?;
        let later = |one: &&Start| one.has_job && one.number > ended.number;
        let later = starts.iter().find(later)?;
        let (run, ended, later) = (run.display(), ended.number, later.number);
        Some(format!(
            "{run}: start {later} although the job of start {ended} ended by itself"
        ))
    })
    .collect()
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use nero_journal::v1::{JobExited, JobStarted};
    use nero_journal::{Clocks, Segment, Writer};

    use super::*;

    fn start(run: &Path, number: u32, cause: Option<StopCause>, ends: bool) {
        let folder = run.join(number.to_string());
        fs::create_dir_all(&folder).unwrap();
        let claim = folder.join("claim");
        let mut segment = Segment::create(&claim, Writer::Shim, &[1; 16], number).unwrap();
        let clocks = Clocks::now();
        let started = JobStarted::default();
        segment
            .append(RecordKind::JobStarted, clocks, &started)
            .unwrap();
        if let Some(cause) = cause {
            let asked = StopAsked {
                cause: cause.into(),
                ..StopAsked::default()
            };
            segment
                .append(RecordKind::StopAsked, clocks, &asked)
                .unwrap();
        }
        if ends {
            let exited = JobExited::default();
            segment
                .append(RecordKind::JobExited, clocks, &exited)
                .unwrap();
        }
    }

    #[test]
    fn a_start_after_an_end_that_no_scheduler_wanted_is_found() {
        let root = tempfile::tempdir().unwrap();
        for (first, ends, wrong) in [
            (None, true, 1),
            (Some(StopCause::TimeLimit), true, 1),
            (Some(StopCause::Warden), true, 0),
            (None, false, 0),
        ] {
            let run = root.path().join("deployment/runs/7/1");
            start(&run, 1, first, ends);
            assert_eq!(after_an_end(root.path()), Vec::<String>::new());
            start(&run, 2, None, true);
            assert_eq!(after_an_end(root.path()).len(), wrong, "{first:?} {ends}");
            fs::remove_dir_all(&run).unwrap();
        }
    }
}
