//! What is read for metrics: the two logs of a job, and files that it writes.

use nero_journal::v1::Stream;
use nero_model::paths::run::{METRIC_FILES_MAX, METRIC_READERS_MAX};

/// Limit of the files of metrics of one run: those of its spec, what the job logs, and what
/// its readers print.
pub const FILES_MAX: usize = METRIC_FILES_MAX + 1 + METRIC_READERS_MAX;

/// One of the two logs, or a file of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file of metrics, by its place in the spec.
    File(u8),
}

impl Log {
    /// Both logs and so many files.
    pub fn all(files: usize) -> impl Iterator<Item = Self> {
        let files = (0..files.min(FILES_MAX)).map(|number| Self::File(number as u8));
        [Self::Stdout, Self::Stderr].into_iter().chain(files)
    }

    /// Whether it is a file of metrics, not what the job prints.
    pub const fn is_file(self) -> bool {
        match self {
            Self::Stdout | Self::Stderr => false,
            Self::File(_) => true,
        }
    }

    /// Index of the log among all.
    pub const fn index(self) -> usize {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
            Self::File(number) => 2 + number as usize,
        }
    }

    /// Number of the log in records.
    pub const fn stream(self) -> i32 {
        match self {
            Self::Stdout => Stream::Stdout as i32,
            Self::Stderr => Stream::Stderr as i32,
            Self::File(number) => Stream::File as i32 + number as i32,
        }
    }

    /// The log of a number in records.
    pub fn of_stream(stream: i32) -> Option<Self> {
        Self::all(FILES_MAX).find(|log| log.stream() == stream)
    }

    /// Whether steps of both follow one another. The two logs are one output; what a
    /// file has is written at other times.
    pub fn shares_steps_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Stdout | Self::Stderr, Self::Stdout | Self::Stderr) => true,
            (one, other) => one == other,
        }
    }
}
