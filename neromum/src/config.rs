//! Numbers that somebody might want to change, each with its reason.

use std::time::Duration;

/// neromum leaves when it had nothing to do for this long.
pub const LEAVE_AFTER: Duration = Duration::from_secs(60);

/// How often free disk (or whatever held starts) is looked at while held.
pub const HOLD_RETRY: Duration = Duration::from_secs(5);

/// How often it is looked whether a leader that was replaced has left.
pub const LEADER_RETRY: Duration = Duration::from_secs(1);

/// First pause after starts that came to nothing; doubled up to `HOLD_RETRY`.
pub const VAIN_RETRY: Duration = Duration::from_millis(250);
/// Longest pause between starts of one run whose shims die.
pub const VAIN_RETRY_MAX: Duration = Duration::from_secs(60);

/// How often the segments of live runs without a watcher that talks to us are
/// looked at. Only while such runs and somebody who follows exist.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How soon a segment that could not be read for a follower is read again.
pub const UNREAD_RETRY: Duration = Duration::from_secs(2);

/// Largest part of a segment in one message.
pub const PART_BYTES_MAX: usize = 256 * 1024;

/// What may wait in memory for one follower; more stays on disk.
pub const FOLLOWER_BYTES_MAX: usize = 1024 * 1024;
/// The same, in messages: a thousand tiny runs' worth.
pub const FOLLOWER_EVENTS_MAX: usize = 4096;

/// Messages that may wait for the agent; a sender waits when it is full.
pub const MAILBOX: usize = 1024;
/// Messages handled before effects are carried out together.
pub const BATCH: usize = 256;

/// Runs whose changes are sent to a follower in one turn, so that a follower
/// who begins anew with many runs does not stop everything else.
pub const PUMP_RUNS_MAX: usize = 256;

/// Runs settled by one `nerokid settle`.
pub const SETTLE_BATCH: usize = 1000;
/// Failures before a run is told as settled without its watcher's records. A
/// disk without room is none.
pub const SETTLE_FAILURES: u8 = 3;
/// Tries, over some minutes, before a watcher that nobody knows and that holds
/// the lock counts as a failure: a file server may keep the lock of a dead host.
pub const SETTLE_BUSY_TRIES: u8 = 40;
/// How long one `nerokid settle` may say nothing.
pub const SETTLE_SILENCE: Duration = Duration::from_secs(300);
/// How long it may take to end after it said everything.
pub const SETTLE_END: Duration = Duration::from_secs(30);
/// How often the watcher of an ended run on another host is waited for so long,
/// when it began and when it was never seen.
pub const FAR_WATCHER_WAITS: (u8, u8) = (6, 1);
/// How often it is looked whether an ended run's watcher, which lives, is done.
pub const WATCHER_PATIENCE: Duration = Duration::from_secs(10);
/// A job that lived this long has (or is about to have) a watcher.
pub const WATCHER_DUE: Duration = Duration::from_millis(150);
/// How long a watcher that is only expected is waited for.
pub const WATCHER_COMES: Duration = Duration::from_millis(400);
/// Pause before a failed settling is tried again, times the tries so far.
pub const SETTLE_RETRY: Duration = Duration::from_millis(500);
/// The longest of these pauses.
pub const SETTLE_RETRY_MAX: Duration = Duration::from_secs(10);

/// How long a new launcher may take to answer.
pub const LAUNCHER_PATIENCE: Duration = Duration::from_secs(10);
/// How long neromum, leaving, waits for the launcher to leave.
pub const RETIRE_PATIENCE: Duration = Duration::from_millis(500);
/// Pause before the next try to start a launcher.
pub const LAUNCHER_RETRY: Duration = Duration::from_millis(500);

/// Answers kept for repeated requests.
pub const ANSWERS_MAX: usize = 10_000;

/// Refused runs remembered: far more than requests can be at work with.
pub const TURNED_AWAY_MAX: usize = 100_000;

/// Space taken for the ledger beforehand, so that ends can be kept on a full
/// disk.
pub const LEDGER_RESERVE_BYTES: u64 = 1024 * 1024;
/// A ledger smaller than this is not worth compacting.
pub const LEDGER_COMPACT_BYTES: u64 = 256 * 1024;

/// Nor is one of fewer segments: every start begins one.
pub const LEDGER_SEGMENTS_MAX: usize = 16;

/// A ledger that grows beyond this while neromum runs is compacted, and what
/// one open run takes of it at most, nearly always.
pub const LEDGER_COMPACT_LIVE_BYTES: u64 = 16 * 1024 * 1024;
/// See [`LEDGER_COMPACT_LIVE_BYTES`].
pub const LEDGER_BYTES_PER_RUN: u64 = 1024;

/// The log is begun anew when it would grow beyond this; the one before is kept.
pub const LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Files that are made by one thread; with more, others help.
pub const FILES_MADE_ALONE: usize = 500;
/// Threads that make the files of one work folder at most.
pub const FILE_MAKERS_MAX: usize = 4;

/// Entries looked at by `ListFiles`, and entries listed or named as left out.
pub const LIST_ENTRIES_MAX: usize = 100_000;
/// Entries looked at for what a job made.
pub const MADE_ENTRIES_MAX: usize = 1_000_000;
/// Files of a run's code that are compared when it ends, to see at once whether it
/// made nothing; of more, neroman has to ask.
pub const CODE_COMPARED_MAX: usize = 64;
/// See [`LIST_ENTRIES_MAX`].
pub const LIST_LEFT_OUT_MAX: usize = 1000;

/// Longest single argument or variable that the kernel takes, with its zero.
pub const ARGUMENT_BYTES_MAX: usize = 128 * 1024;
/// All arguments and variables together (a quarter of the usual stack).
pub const ARGUMENTS_BYTES_MAX: usize = 2 * 1024 * 1024 - 64 * 1024;
/// Runs in one `HandOver`; the message is bounded as well.
pub const HAND_OVER_MAX: usize = 10_000;

/// After a group of at least so many ends, the next sync begins no sooner than
/// `SYNC_GROUP` after the last: a burst of tiny runs shares its syncs, and one
/// run alone never waits.
pub const SYNC_BURST: usize = 3;
/// See [`SYNC_BURST`].
pub const SYNC_GROUP: Duration = Duration::from_millis(20);

/// How long a call may wait for the agent.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// From the polite signal to the final one, where a run says nothing.
pub const GRACE_MS: u32 = 30_000;

/// For how long a file that somebody asked for is not swept, named or not.
pub const WISH_KEPT: Duration = Duration::from_secs(3600);
/// Files go that nothing has named for so long, unless somebody says otherwise.
pub const UNNAMED_KEPT_MS: u64 = 7 * 24 * 3600 * 1000;
/// Builds that nothing runs from stay for so long.
pub const BUILD_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How often a silent connection is asked for a sign of life.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// How long the answer may take before the connection is given up.
pub const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(20);

/// How long the GPUs that were found are told again without asking the driver.
pub const GPUS_FRESH: Duration = Duration::from_secs(60);
/// How long the driver may take to answer.
pub const GPUS_PATIENCE: Duration = Duration::from_secs(5);
/// How long a driver that did not answer is left alone.
pub const GPUS_PAUSE: Duration = Duration::from_secs(600);
