//! The folder of one incarnation of a run, and its spec.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nero_journal::frame::{self, FrameError, FrameKind};
use nero_journal::{Segment, SegmentId, Writer};
use nero_model::ids::{RunToken, hex};
use nero_model::paths::run::{self, METRIC_FILES_MAX, METRIC_READERS_MAX};
use nero_model::{ExperimentId, RunId};
use nero_wire::v1::{Container, RunSpec};

use crate::processes::marked::MarkedProcesses;

/// Interval of samples, unless the spec has its own.
const INTERVAL_MS: u64 = 10_000;
/// Shortest time between samples.
const INTERVAL_MIN_MS: u64 = 100;

/// Folder, spec and identity of the watched incarnation.
#[derive(Debug)]
pub struct WatchedStart {
    /// The run's folder.
    pub run: PathBuf,
    /// Number of the job's start.
    pub incarnation: u32,
    /// The incarnation's folder.
    pub folder: PathBuf,
    /// The frozen spec.
    pub spec: RunSpec,
    /// The run.
    pub token: RunToken,
}

/// Reason why a run cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The spec cannot be used.
    #[error("cannot use {path}")]
    Spec {
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        #[source]
        source: FrameError,
    },
    /// The spec names no run.
    #[error("{path} has no token of 16 bytes")]
    Token {
        /// The file.
        path: PathBuf,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {path}")]
    Lock {
        /// The file.
        path: PathBuf,
        /// Error of the file system.
        #[source]
        source: io::Error,
    },
}

impl WatchedStart {
    /// Reads the spec of the run to watch.
    ///
    /// # Errors
    /// When the spec cannot be read.
    pub fn open(run_dir: &Path, incarnation: u32) -> Result<Self, PlaceError> {
        let path = run_dir.join(run::SPEC);
        let spec: RunSpec = match frame::read(FrameKind::Spec, &path) {
            Ok(spec) => spec,
            Err(source) => return Err(PlaceError::Spec { path, source }),
        };
        let token = RunToken::from_slice(&spec.token).ok_or(PlaceError::Token { path })?;
        Ok(Self {
            run: run_dir.to_path_buf(),
            incarnation,
            folder: run_dir.join(incarnation.to_string()),
            spec,
            token,
        })
    }

    fn container(&self) -> Option<&Container> {
        self.spec.scheduler.as_ref()?.container.as_ref()
    }

    /// The image of its container with its digest; empty: it has none.
    pub fn image(&self) -> String {
        let text = self
            .container()
            .map(|one| format!("{} {}", one.image, one.digest));
        text.map(|text| text.trim().to_owned()).unwrap_or_default()
    }

    /// Its processes that belong to a daemon and are no descendants of its supervisor: those of
    /// docker's containers.
    pub fn of_daemon(&self) -> Option<MarkedProcesses> {
        let is_docker = |one: &&Container| one.runtime == "docker" && !one.image.is_empty();
        self.container().filter(is_docker)?;
        Some(MarkedProcesses::new(self.marks()))
    }

    /// Interval of samples.
    pub fn interval_ms(&self) -> u64 {
        match self.spec.monitor.map_or(0, |one| one.interval_ms) {
            0 => INTERVAL_MS,
            given => given.max(INTERVAL_MIN_MS),
        }
    }

    /// Variables that the run's processes have, and those of no other start.
    pub fn marks(&self) -> Vec<Vec<u8>> {
        let id = RunId {
            experiment: ExperimentId(self.spec.experiment),
            number: self.spec.number,
        };
        run::marks(id, &run::work_folder(&self.run, self.incarnation))
    }

    /// Makes this process the one watcher of the incarnation as long as the
    /// file is open; `None` when another process is.
    ///
    /// # Errors
    /// When the lock file cannot be made or locked.
    pub fn lock(&self) -> Result<Option<File>, PlaceError> {
        let path = self.folder.join(run::WATCH_LOCK);
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(source) => return Err(PlaceError::Lock { path, source }),
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(PlaceError::Lock { path, source }),
        }
    }

    /// Begins this watcher's own segment.
    ///
    /// # Errors
    /// When the segment cannot be made; no file is left then.
    pub fn begin_segment(&self) -> io::Result<Segment> {
        let name = format!(
            "watch-{}{}",
            hex(&SegmentId::random().0),
            run::SEGMENT_SUFFIX
        );
        let path = self.folder.join(name);
        Segment::create(
            &path,
            Writer::Watcher,
            self.token.as_bytes(),
            self.incarnation,
        )
        .inspect_err(|error| {
            // The file is ours and has no header, unless the name existed
            // before.
            if error.kind() != io::ErrorKind::AlreadyExists {
                let _ = fs::remove_file(&path);
            }
        })
    }

    /// What the job logs through `NERO_METRICS`.
    pub fn logged(&self) -> PathBuf {
        self.folder.join(run::LOGGED)
    }

    /// Files of metrics that the spec names: their names there, and their paths.
    pub fn metric_files(&self) -> impl Iterator<Item = (&str, PathBuf)> {
        let reading = self.spec.metric_reading.as_ref();
        let names = reading.map_or(&[][..], |reading| &reading.files);
        let work = run::work_folder(&self.run, self.incarnation);
        let path = move |name: &String| work.join(name);
        names
            .iter()
            .take(METRIC_FILES_MAX)
            .map(move |name| (name.as_str(), path(name)))
    }

    /// Programs that read the run's output for metrics.
    pub fn readers(&self) -> impl Iterator<Item = &[String]> {
        let reading = self.spec.metric_reading.as_ref();
        let readers = reading.map_or(&[][..], |reading| &reading.readers);
        readers
            .iter()
            .take(METRIC_READERS_MAX)
            .map(|reader| &*reader.argv)
    }

    /// The folder of cancel requests and rule sets.
    pub fn control(&self) -> PathBuf {
        self.run.join(run::CONTROL)
    }
}
