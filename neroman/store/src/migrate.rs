//! The versions of the two files and the steps between them.

use rusqlite::{Connection, TransactionBehavior};

/// A step from one version to the next.
pub(crate) type Migration = fn(&Connection) -> rusqlite::Result<()>;

/// Properties of a file of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema {
    /// `application_id` of the file: "NEst", "NEse".
    pub(crate) application: i32,
    /// Step `n` (from 0) makes version `n + 1`. Steps are never changed.
    pub(crate) steps: &'static [Migration],
    /// Largest file that is copied before a step. Metrics may need more room than is left, and
    /// their steps add tables alone.
    pub(crate) copied_bytes_max: u64,
}

/// The database of facts.
pub(crate) const STATE: Schema = Schema {
    application: i32::from_be_bytes(*b"NEst"),
    copied_bytes_max: u64::MAX,
    steps: &[
        |conn| conn.execute_batch(include_str!("schema/state-1.sql")),
        // Rows of runs and experiments hold what builds of version 1 would drop:
        // places, and what a node must have. The tables are the same.
        |_| Ok(()),
        // Names are unique within a source only, and the reader of sources checks
        // that.
        |conn| conn.execute_batch("DROP INDEX experiment_name"),
        // Cells of the owner's tables are ours by what we wrote there. A build that does not
        // record that must not write on.
        |conn| conn.execute_batch(include_str!("schema/state-4.sql")),
        // A build that does not know notices would forget what of a run was noticed, and what
        // waits to be sent.
        |conn| conn.execute_batch(include_str!("schema/state-5.sql")),
        // Rows of experiments hold what a person typed about them: notes, tags, overrides. A
        // build of version 5 would drop it with the next change of a row.
        |_| Ok(()),
        // Rows of runs hold what a run waits for, and locks. A build of version 6 would start
        // what waits, and run beside each other what shares a lock.
        |_| Ok(()),
        // They hold which node a run gets beside others, and what it asks of nodes. A build of
        // version 7 would start it on another node.
        |_| Ok(()),
    ],
};

/// The database of metrics.
pub(crate) const SERIES: Schema = Schema {
    application: i32::from_be_bytes(*b"NEse"),
    copied_bytes_max: 64 << 20,
    steps: &[
        |conn| conn.execute_batch(include_str!("schema/series-1.sql")),
        // Points lie in blocks. A build of version 1 would count them as lost.
        |conn| conn.execute_batch(include_str!("schema/series-2.sql")),
    ],
};

impl Schema {
    /// The version of a new file, and the highest that this build knows.
    pub(crate) const fn version(self) -> i64 {
        self.steps.len() as i64
    }

    /// Brings a database from `version` to ours, each step in one transaction.
    pub(crate) fn migrate(self, conn: &Connection, version: i64) -> rusqlite::Result<()> {
        for (step, next) in self.steps.iter().zip(1..) {
            if next <= version {
                continue;
            }
            let tx = rusqlite::Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
            step(&tx)?;
            tx.pragma_update(None, "application_id", self.application)?;
            tx.pragma_update(None, "user_version", next)?;
            tx.commit()?;
        }
        Ok(())
    }

    /// The schema that this build expects, as SQLite keeps it.
    pub(crate) fn schema(self) -> rusqlite::Result<Vec<String>> {
        let conn = Connection::open_in_memory()?;
        self.migrate(&conn, 0)?;
        schema(&conn)
    }
}

/// The schema of a database, as SQLite keeps it.
pub(crate) fn schema(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    conn.prepare(
        "SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '')
         FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY 1",
    )?
    .query_map([], |row| row.get(0))?
    .collect()
}
