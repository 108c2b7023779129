//! How far segments and logs were read.

use serde::{Deserialize, Serialize};

/// How far one segment is folded, and the state that its records depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    pub incarnation: u32,
    /// `nero_journal::Writer` as its byte.
    pub writer: u8,
    pub made_ns: u64,
    pub made_wall_ms: i64,
    /// The boot that `made_ns` counts from, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot: String,
    /// Everything before this offset is folded into facts.
    pub offset: u64,
    /// The chain value at that offset.
    pub chain: u32,
    /// Series by their index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// How far its watcher read both logs, by the records folded so far.
    #[serde(default, skip_serializing_if = "LogsRead::is_nothing")]
    pub read_to: LogsRead,
}

/// How far logs were read: standard output, standard error, files of metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsRead(Vec<LogRead>);

/// How far one log was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogRead {
    /// How often the job had truncated the file.
    pub part: u32,
    /// Bytes of this part.
    pub offset: u64,
}

impl LogsRead {
    /// How far one was read; `None` before its first record.
    pub fn of(&self, log: usize) -> Option<LogRead> {
        self.0.get(log).copied()
    }

    /// How far one was read, to be changed.
    pub fn of_mut(&mut self, log: usize) -> &mut LogRead {
        // Earlier builds read exactly two.
        let count = self.0.len().max(log + 1).max(2);
        self.0.resize(count, LogRead::default());
        &mut self.0[log]
    }

    fn is_nothing(&self) -> bool {
        self.0.iter().all(|one| *one == LogRead::default())
    }
}

impl Segment {
    /// Whether this segment's writer began before the other's; both belong to
    /// the same start of the run.
    pub fn is_before(&self, other: &Self) -> bool {
        if self.boot == other.boot {
            self.made_ns < other.made_ns
        } else {
            self.made_wall_ms < other.made_wall_ms
        }
    }
}
