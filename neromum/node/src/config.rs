//! Numbers that a developer might want to change, each with its reason.

use std::time::Duration;

/// neromum leaves when it had nothing to do for this long.
pub const LEAVE_AFTER: Duration = Duration::from_secs(60);

/// Interval of looks at free disk (or another reason for a hold) during a hold.
pub const HOLD_RETRY: Duration = Duration::from_secs(5);

/// Interval of looks whether a replaced leader has left.
pub const LEADER_RETRY: Duration = Duration::from_secs(1);

/// First pause after failed starts; doubled up to `HOLD_RETRY`.
pub const VAIN_RETRY: Duration = Duration::from_millis(250);
/// Longest pause between starts of one run whose shims die.
pub const VAIN_RETRY_MAX: Duration = Duration::from_secs(60);

/// Interval of looks at the segments of live runs without a connected watcher.
/// Only while there are such runs and a follower.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How soon a segment that could not be read for a follower is read again.
pub const UNREAD_RETRY: Duration = Duration::from_secs(2);
/// How late a file server may show what another process wrote, before it counts as damage.
pub const SHOWN_LATE: Duration = Duration::from_secs(1);

/// Largest part of a segment in one message.
pub const PART_BYTES_MAX: usize = 256 * 1024;

/// Limit of the bytes that wait in memory for one follower; more stays on disk.
pub const FOLLOWER_BYTES_MAX: usize = 1024 * 1024;
/// The same in messages: enough for a thousand tiny runs.
pub const FOLLOWER_EVENTS_MAX: usize = 4096;

/// Messages that may wait for the agent; a sender waits when it is full.
pub const MAILBOX: usize = 1024;
/// Messages handled before effects are carried out together.
pub const BATCH: usize = 256;

/// Limit of runs whose changes are sent to a follower in one turn, so that a
/// new follower of many runs does not delay everything else.
pub const PUMP_RUNS_MAX: usize = 256;

/// Runs settled by one `nerokid settle`.
pub const SETTLE_BATCH: usize = 1000;
/// Failures before a run is reported as settled without its watcher's records.
/// A disk without room does not count.
pub const SETTLE_FAILURES: u8 = 3;
/// Tries, over some minutes, before an unknown watcher that holds the lock
/// counts as a failure: a file server may keep the lock of a dead host.
pub const SETTLE_BUSY_TRIES: u8 = 40;
/// Time for which one `nerokid settle` may print nothing.
pub const SETTLE_SILENCE: Duration = Duration::from_secs(300);
/// Time for its end after its last answer.
pub const SETTLE_END: Duration = Duration::from_secs(30);
/// Number of waits for the watcher of an ended run on another host, when it
/// began and when it was never seen.
pub const FAR_WATCHER_WAITS: (u8, u8) = (6, 1);
/// Interval of looks whether the living watcher of an ended run is done.
pub const WATCHER_PATIENCE: Duration = Duration::from_secs(10);
/// A job that lived this long has (or is about to have) a watcher.
pub const WATCHER_DUE: Duration = Duration::from_millis(150);
/// Time to wait for a watcher that is only expected.
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

/// Number of replies kept for repeated requests.
pub const ANSWERS_MAX: usize = 10_000;

/// Limit of remembered refused runs: far more than requests can be at work
/// with.
pub const RECALLED_MAX: usize = 100_000;

/// Space reserved for the ledger, so that ends can be kept on a full disk.
pub const LEDGER_RESERVE_BYTES: u64 = 1024 * 1024;
/// A ledger smaller than this is not worth compacting.
pub const LEDGER_COMPACT_BYTES: u64 = 256 * 1024;

/// A ledger of fewer segments is not worth compacting, either: every start
/// begins one.
pub const LEDGER_SEGMENTS_MAX: usize = 16;

/// Size beyond which the ledger of a running neromum is compacted.
pub const LEDGER_COMPACT_LIVE_BYTES: u64 = 16 * 1024 * 1024;
/// Limit of a ledger's bytes for one open run, nearly always. See
/// [`LEDGER_COMPACT_LIVE_BYTES`].
pub const LEDGER_BYTES_PER_RUN: u64 = 1024;

/// The log is begun anew when it would grow beyond this; the one before is kept.
pub const LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Number of files that one thread makes alone; with more, others help.
pub const FILES_MADE_ALONE: usize = 500;
/// Limit of threads that make the files of one work folder.
pub const FILE_MAKERS_MAX: usize = 4;

/// Limit of entries that `ListFiles` reads.
pub const LIST_ENTRIES_MAX: usize = 100_000;
/// Limit of entries read to find the files that a job made.
pub const MADE_ENTRIES_MAX: usize = 1_000_000;
/// Limit of files of a run's code that are compared at its end, to see at once
/// whether it made nothing; with more files neroman has to ask.
pub const CODE_COMPARED_MAX: usize = 64;
/// Limit of entries that a list names as left out. See [`LIST_ENTRIES_MAX`].
pub const LIST_LEFT_OUT_MAX: usize = 1000;

/// Longest single argument or variable that the kernel takes, with its zero.
pub const ARGUMENT_BYTES_MAX: usize = 128 * 1024;
/// All arguments and variables together (a quarter of the usual stack).
pub const ARGUMENTS_BYTES_MAX: usize = 2 * 1024 * 1024 - 64 * 1024;
/// Runs in one `HandOver`; the message is bounded as well.
pub const HAND_OVER_MAX: usize = 10_000;

/// Number of ends in a group after which the next sync begins no sooner than
/// `SYNC_GROUP` after the last; while runs wait for a slot, one end is enough. A
/// burst of tiny runs shares its syncs, and a single run never waits.
pub const SYNC_BURST: usize = 3;
/// See [`SYNC_BURST`]. While runs wait for a slot, followers are sent changes no
/// more often than this, either: each message costs neroman a transaction.
pub const SYNC_GROUP: Duration = Duration::from_millis(20);
/// News of watchers alone are sent no more often than this. Runs that began
/// together are sampled together; a person who follows lines sees no pause.
pub const NEWS_GROUP: Duration = Duration::from_millis(50);

/// Time for which a task of a scheduler waits for a file that cannot be used,
/// when nothing else is left to do.
pub const HELD_PATIENCE: Duration = Duration::from_secs(30);

/// Time for which a call may wait for the agent.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// Time from the polite signal to the final one, for a run without its own.
pub const GRACE_MS: u32 = 30_000;

/// Time for which a file that was asked for is not swept, named or not.
pub const RESERVED_FOR: Duration = Duration::from_secs(3600);
/// Time after which an unnamed file is swept, unless the request has another.
pub const UNNAMED_KEPT_MS: u64 = 7 * 24 * 3600 * 1000;
/// Time for which builds stay that no process runs from.
pub const BUILD_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Interval at which a silent connection is asked for a sign of life.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// Time for the answer before the connection is given up.
pub const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(20);

/// Time between two looks at the node's cards while a run waits for some.
pub const CARDS_WAITED_FOR: Duration = Duration::from_secs(1);
/// The same while runs have some: their helper leaves when nobody reads it for a minute.
pub const CARDS_READ: Duration = Duration::from_secs(20);
/// Time for the first reading of the cards, when somebody asks for them.
pub const CARDS_PATIENCE: Duration = Duration::from_secs(3);

/// The file, in a node's own folder, whose lock allows only one neromum.
pub const LOCK: &str = "lock";
