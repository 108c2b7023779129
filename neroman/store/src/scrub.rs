//! Checking everything: weekly, and after an unclean end of a large store.

use nero_model::Home;

use crate::block::BLOCK;
use crate::db::Db;
use crate::error::StoreError;
use crate::migrate;
use crate::positions;
use crate::reader;
use crate::series;
use crate::state;

/// Result of a check without damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubResult {
    /// Rows with a correct checksum.
    pub rows: u64,
    /// Points with a correct checksum.
    pub points: u64,
}

/// Verifies every page, index and row of both files, on connections of its own:
/// any thread may call it while the writer goes on.
///
/// # Errors
/// The first damage found.
pub fn scrub(home: &Home) -> Result<ScrubResult, StoreError> {
    let mut scrubbed = ScrubResult::default();
    let db = Db::open_to_read(&home.state_db(), migrate::STATE)?;
    at_one_moment(&db, || {
        for table in state::ALL {
            scrubbed.rows += table.verify(&db)?;
        }
        db.integrity_check()
    })?;
    let db = Db::open_to_read(&home.series_db(), migrate::SERIES)?;
    at_one_moment(&db, || {
        scrubbed.rows += state::META.verify(&db)? + series::SAMPLE.verify(&db)?;
        scrubbed.rows += positions::all(&db)?.len() as u64 + BLOCK.verify(&db)?;
        for series in reader::all_series(&db)? {
            scrubbed.rows += 1;
            scrubbed.points += reader::points(&db, &series)?.len() as u64;
        }
        db.integrity_check()
    })?;
    Ok(scrubbed)
}

fn at_one_moment(db: &Db, look: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
    let moment =
        rusqlite::Transaction::new_unchecked(&db.conn, rusqlite::TransactionBehavior::Deferred)
            .map_err(|error| db.failed(error))?;
    look()?;
    moment.finish().map_err(|error| db.failed(error))
}
