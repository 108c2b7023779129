//! One transaction over `state.db`.

use nero_model::{DeploymentId, ExperimentId, RequestId};

use crate::db::Db;
use crate::error::StoreError;
use crate::positions;
use crate::row::{
    CellRow, Event, Experiment, Request, Rule, RuleId, Run, RunKey, Source, SourceId,
};
use crate::state::{self, meta};
use crate::table::cell;

/// An open transaction; given to the closure of [`crate::Store::write`].
///
/// Reads through it include its own writes. A number that it assigns is
/// assigned again only after a rollback, when no other process has seen it.
#[derive(Debug)]
pub struct Tx<'a> {
    pub(crate) db: &'a Db,
}

impl Tx<'_> {
    /// Runs a part of the transaction that may fail alone: when `part` fails,
    /// its writes are undone and the rest of the transaction stands.
    ///
    /// # Errors
    /// The error that `part` returns. After a [`StoreError::Full`] or
    /// [`StoreError::Broken`] the whole transaction is undone, and every
    /// further step of it fails.
    pub fn attempt<T, E: From<StoreError>>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.db.change("SAVEPOINT part", [])?;
        let done = part(self);
        if let Err(undone) = self.db.in_transaction() {
            // A full disk undid everything; the part's own error has the
            // reason.
            return done.and(Err(undone.into()));
        }
        if done.is_err() {
            self.db.change("ROLLBACK TO part", [])?;
        }
        self.db.change("RELEASE part", [])?;
        done
    }

    /// Takes the next number of a kind, never given again.
    fn next(&self, key: &str) -> Result<u64, StoreError> {
        let number = state::counter(self.db, key)?;
        state::put_meta(self.db, key, &(number + 1).to_le_bytes())?;
        Ok(number)
    }

    /// A number for a new source.
    ///
    /// # Errors
    /// As every step of a transaction: [`StoreError`].
    pub fn new_source(&mut self) -> Result<SourceId, StoreError> {
        self.next(meta::NEXT_SOURCE).map(SourceId)
    }

    /// Adds a source, or replaces the one with its number.
    ///
    /// # Errors
    /// Also [`StoreError::Twice`] when another source has its path.
    pub fn put_source(&mut self, source: &Source) -> Result<(), StoreError> {
        state::put_source(self.db, source)
    }

    /// A number for a new experiment: 1, 2, 3 …, never reused.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn new_experiment(&mut self) -> Result<ExperimentId, StoreError> {
        self.next(meta::NEXT_EXPERIMENT).map(ExperimentId)
    }

    /// Counts the numbers up to `last` as given, whether or not an experiment has each.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn give_experiments(&mut self, last: ExperimentId) -> Result<(), StoreError> {
        let next = state::counter(self.db, meta::NEXT_EXPERIMENT)?;
        if next <= last.0 {
            let next = (last.0 + 1).to_le_bytes();
            state::put_meta(self.db, meta::NEXT_EXPERIMENT, &next)?;
        }
        Ok(())
    }

    /// Adds an experiment, or replaces the one with its number.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_experiment(&mut self, experiment: &Experiment) -> Result<(), StoreError> {
        state::put_experiment(self.db, experiment)
    }

    /// Deletes an experiment and its history for good; its number is never given again.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn delete_experiment(&mut self, id: ExperimentId) -> Result<bool, StoreError> {
        self.db.change(
            "DELETE FROM event WHERE experiment = ?",
            [id.0.cast_signed()],
        )?;
        self.db.change(
            "DELETE FROM cell WHERE experiment = ?",
            [id.0.cast_signed()],
        )?;
        state::EXPERIMENT.delete(self.db, &[cell::unsigned(id.0)])
    }

    /// Adds a run with its encoded `nero.v1.RunSpec`, which never changes, an
    /// empty record and empty facts. Returns its key; `run.key` is ignored.
    ///
    /// # Errors
    /// Also [`StoreError::Twice`] when its number or token exists.
    pub fn insert_run(&mut self, run: &Run, spec: &[u8]) -> Result<RunKey, StoreError> {
        let key = RunKey(self.next(meta::NEXT_RUN)?.cast_signed());
        state::insert_run(self.db, key, run, spec)?;
        state::put_dispatch(self.db, key, &[])?;
        state::put_facts(self.db, key, &[])?;
        Ok(key)
    }

    /// Replaces neroman's decisions about a run.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_dispatch(&mut self, run: RunKey, dispatch: &[u8]) -> Result<(), StoreError> {
        state::put_dispatch(self.db, run, dispatch)
    }

    /// Replaces the folded facts of a run.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_facts(&mut self, run: RunKey, facts: &[u8]) -> Result<(), StoreError> {
        state::put_facts(self.db, run, facts)
    }

    /// Deletes a run of an experiment that is deleted, and what belongs to it.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn delete_run(&mut self, run: RunKey) -> Result<(), StoreError> {
        let key = [cell::int(run.0)];
        for table in [
            &state::RUN,
            &state::RUN_SPEC,
            &state::RUN_DESK,
            &state::RUN_FACTS,
        ] {
            table.delete(self.db, &key)?;
        }
        positions::forget(self.db, run)?;
        self.db
            .change("DELETE FROM rule_state WHERE run = ?", [run.0])
            .map(drop)
    }

    /// A number for a new rule; never reused.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn new_rule(&mut self) -> Result<RuleId, StoreError> {
        self.next(meta::NEXT_RULE).map(RuleId)
    }

    /// Adds a rule, or replaces the one with its number.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_rule(&mut self, rule: &Rule) -> Result<(), StoreError> {
        state::put_rule(self.db, rule)
    }

    /// The reply that a request got, if it was made before.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn request(&self, id: &RequestId) -> Result<Option<Request>, StoreError> {
        state::request(self.db, id)
    }

    /// Keeps the reply to a request.
    ///
    /// # Errors
    /// Also [`StoreError::Twice`] when it was answered before.
    pub fn insert_request(&mut self, request: &Request) -> Result<(), StoreError> {
        state::insert_request(self.db, request)
    }

    /// Forgets replies older than `ms`; returns their number.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn forget_requests_before(&mut self, ms: i64) -> Result<usize, StoreError> {
        self.db.change("DELETE FROM request WHERE at_ms < ?", [ms])
    }

    /// Adds a line to an experiment's history.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn insert_event(&mut self, event: &Event) -> Result<(), StoreError> {
        let id = self
            .db
            .conn
            .prepare_cached("SELECT coalesce(max(id), 0) + 1 FROM event")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(|error| self.db.failed(error))?;
        state::insert_event(self.db, id, event)
    }

    /// Keeps what was written into a cell, in the place of the row with the same part.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_cell(&mut self, cell: &CellRow) -> Result<(), StoreError> {
        state::put_cell(self.db, cell)
    }

    /// Keeps a notice, in the place of the one with its number.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_notice(&mut self, id: u64, content: &[u8]) -> Result<(), StoreError> {
        state::put_numbered(self.db, &state::NOTICE, id, content)
    }

    /// Deletes a notice whose deliveries are made.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn delete_notice(&mut self, id: u64) -> Result<bool, StoreError> {
        state::NOTICE.delete(self.db, &[cell::unsigned(id)])
    }

    /// Keeps a delivery, in the place of the one with its number.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_delivery(&mut self, id: u64, content: &[u8]) -> Result<(), StoreError> {
        state::put_numbered(self.db, &state::DELIVERY, id, content)
    }

    /// Deletes a delivery. Its bytes were deleted when it came to its end.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn delete_delivery(&mut self, id: u64) -> Result<bool, StoreError> {
        state::DELIVERY.delete(self.db, &[cell::unsigned(id)])
    }

    /// Keeps the bytes that a delivery sends.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn put_letter(&mut self, delivery: u64, bytes: &[u8]) -> Result<(), StoreError> {
        state::put_numbered(self.db, &state::LETTER, delivery, bytes)
    }

    /// Deletes the bytes of a delivery that came to its end.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn delete_letter(&mut self, delivery: u64) -> Result<bool, StoreError> {
        state::LETTER.delete(self.db, &[cell::unsigned(delivery)])
    }

    /// Sets the experiments that the selector `last` picks.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn set_last(&mut self, last: &[ExperimentId]) -> Result<(), StoreError> {
        let bytes: Vec<u8> = last.iter().flat_map(|id| id.0.to_le_bytes()).collect();
        state::put_meta(self.db, meta::LAST, &bytes)
    }

    /// Takes another deployment's id: its machine was lost. The series, which
    /// must hold nothing, follow when the files are opened next.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn adopt(&mut self, deployment: DeploymentId) -> Result<(), StoreError> {
        state::put_meta(self.db, meta::DEPLOYMENT, deployment.as_bytes())
    }

    /// Keeps a value of the caller under a name.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn set_meta(&mut self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        state::put_meta(self.db, &format!("{}{name}", meta::OWN), value)
    }
}
