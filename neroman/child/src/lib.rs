//! Other programs as processes of their own: what they get, what they print and how long they
//! take is bounded ([`run()`]).
//!
//! One of them is ours: [`Office`], `neroman-office`, which reads and writes files of people and
//! limits itself before it looks at them ([`limit`]). Its callers and its `main` agree here on
//! the build ([`BUILD`]) and on the limits. The words and messages of each kind of work lie with
//! their types (`nero_table::child`, `nero_plot::child`, `nero_python`).

mod error;
mod office;
mod run;

pub use error::ChildError;
pub use office::{OFFICE, OTHER_BUILD, Office, blocking, json_line, next_line};
pub use run::{ChildLimits, EndedChild, KeptOutput, run};

/// The revision that this program is built of.
pub const REVISION: &str = env!("NERONET_REVISION");
/// The kind of machine that it is built for.
pub const TARGET: &str = env!("NERONET_TARGET");
/// What neroman and `neroman-office` have in common when they are of one build. It is the first
/// word of each call.
pub const BUILD: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("NERONET_REVISION"),
    ")"
);

/// The address space of a process of `neroman-office`.
pub const ADDRESS_SPACE_MAX: u64 = 768 << 20;
/// Its time on a processor.
pub const CPU_SECONDS_MAX: u64 = 20;

/// Limits this process to [`ADDRESS_SPACE_MAX`] and [`CPU_SECONDS_MAX`]; returns whether both hold.
pub fn limit() -> bool {
    nero_model::limits::limit(ADDRESS_SPACE_MAX, CPU_SECONDS_MAX)
}
