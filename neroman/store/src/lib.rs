//! neroman's two SQLite files behind one typed API.
//!
//! `state.db` holds facts that people and nodes rely on: experiments, runs,
//! rules, answers. `series.db` holds metrics and samples, which can be folded
//! again.
//! One thread writes, through a [`Store`]; [`SeriesReader`], [`backup`] and
//! [`scrub`] have connections of their own and may run beside it.
//!
//! * A commit is [`Durability::Synced`] when its effect is reported to anyone,
//!   and [`Durability::Ordered`] where the journals could be folded again. Both
//!   go through one connection: a synced commit takes all ordered ones along.
//! * How far a segment is folded moves in the transaction of the fold, in each
//!   file for what it keeps; a fold that does not begin there is refused.
//! * Every row has a checksum, every table a count and a sum of them. Any
//!   difference from the written rows is an error that names file, table and
//!   row.
//! * A file that is damaged, foreign, newer or missing stops the opening and is
//!   left as it was. Nothing is ever replaced by something empty.
//! * A log that lacks written frames stops the opening, too: SQLite would take
//!   it for a shorter log. See `mark.rs`.
//!
//! Nothing here decides, logs, knows wire types or looks at the clock.

mod backup;
mod block;
mod db;
mod error;
mod fold;
mod mark;
mod migrate;
mod place;
mod positions;
mod reader;
mod row;
mod scrub;
mod series;
mod state;
mod store;
mod table;
mod tx;
mod wal;

/// What is stored, and the version that this build writes.
pub const VERSIONS: [(&str, i64); 2] = [
    ("home", migrate::STATE.version()),
    ("metrics", migrate::SERIES.version()),
];

pub use backup::{backup, copy_series, folder as backup_folder};
pub use error::StoreError;
pub use place::{Verdict, doubt, verdict};
pub use reader::{SeriesCursor, SeriesReader};
pub use row::{
    Advance, At, CellRow, Event, Experiment, Point, Position, Request, Rule, RuleId, Run, RunFold,
    RunKey, RunRow, Sample, Series, Source, SourceId, StoredState,
};
pub use scrub::{ScrubResult, scrub};
pub use store::{Durability, OpenOutcome, Store};
pub use tx::Tx;
