//! How far segments are folded: a table of the same shape in both files, each
//! for what that file keeps, moved in the transaction of the fold.

use crate::db::Db;
use crate::error::StoreError;
use crate::row::{Advance, At, Position, RunKey};
use crate::state;
use crate::table::cell;

/// Moves positions on, or refuses when a step does not begin where the file stands.
pub(crate) fn advance(db: &Db, run: RunKey, steps: &[Advance]) -> Result<(), StoreError> {
    for step in steps {
        let key = [cell::int(run.0), cell::bytes(&step.segment.0)];
        let stored = state::SEGMENT
            .get(db, &key, state::position)?
            .map_or(At::default(), |position| position.at);
        if stored != step.from {
            return Err(StoreError::Position {
                run,
                segment: step.segment,
                stored,
                expected: step.from,
            });
        }
        state::put_position(
            db,
            &Position {
                run,
                incarnation: step.incarnation,
                segment: step.segment,
                at: step.to,
            },
        )?;
    }
    Ok(())
}

/// Forgets all positions of a run.
pub(crate) fn forget(db: &Db, run: RunKey) -> Result<(), StoreError> {
    db.change("DELETE FROM segment WHERE run = ?", [run.0])
        .map(drop)
}

/// All positions.
pub(crate) fn all(db: &Db) -> Result<Vec<Position>, StoreError> {
    state::SEGMENT.all(db, state::position)
}
