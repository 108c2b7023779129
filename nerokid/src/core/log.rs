//! The two logs of a job.

use nero_journal::v1::Stream;

/// One of the two logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Log {
    /// Both logs.
    pub const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Index of the log in arrays.
    pub const fn index(self) -> usize {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
        }
    }

    /// Name of the log in records.
    pub const fn stream(self) -> Stream {
        match self {
            Self::Stdout => Stream::Stdout,
            Self::Stderr => Stream::Stderr,
        }
    }
}
