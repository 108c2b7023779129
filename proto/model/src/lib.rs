//! The parts that two tiers share: ids, the states of a run, the identity of a process, paths,
//! units, suggestions for misspelt names, and text that is safe to print.
//!
//! No I/O beyond reading `/proc` for process identities, making private
//! folders, putting a node's programs in place, the record of written files, the end of a file and limits of a process; no
//! wire types.

pub mod builds;
pub mod data;
pub mod holder;
pub mod home;
pub mod ids;
pub mod json;
pub mod limits;
pub mod names;
pub mod part;
pub mod paths;
pub mod plain;
pub mod process;
pub mod safe;
pub mod sets;
pub mod setup;
pub mod state;
pub mod units;
pub mod whole;
pub mod written;

pub use holder::Holder;
pub use home::Home;
pub use ids::{DeploymentId, ExperimentId, LedgerId, RequestId, RunId, RunToken, SubmissionId};
pub use paths::tail;
pub use process::ProcessId;
pub use state::{EndReason, Phase, StateWord, TaskEnd};

/// Lowest protocol number that this build still speaks.
pub const PROTOCOL_LOWEST: u32 = 1;
/// Highest protocol number that this build speaks.
pub const PROTOCOL_HIGHEST: u32 = 1;

/// The version of the program, as in `--version` and `Hello`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Largest message on any link, in bytes; longer things are streams.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Free disk in bytes below which a node starts nothing new, unless it is
/// configured otherwise.
pub const MIN_FREE_BYTES: u64 = 64 * 1024 * 1024;
