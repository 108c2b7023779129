//! What the daemon and the process that reads a file for it agree on.

/// The word of our program's command line that begins such a process; no verb for people.
/// File and sheet follow, and the answer is JSON: a `Result<Sheet, UnreadableTable>`.
pub const VERB: &str = "read-table";
/// The address space of the process.
pub const ADDRESS_SPACE_MAX: u64 = 768 << 20;
/// Its time on a processor.
pub const CPU_SECONDS_MAX: u64 = 20;
/// The longest answer.
pub const ANSWER_BYTES_MAX: u64 = 256 << 20;
