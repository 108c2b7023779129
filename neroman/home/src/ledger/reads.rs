//! What the writer reads from the databases for its callers.

use nero_life::cells::CellRecord;
use nero_model::{ExperimentId, RunId};
use nero_store::{Event, RunKey};
use nero_wire::v1;
use prost::Message as _;
use tokio::sync::oneshot;

use super::message::{Message, PerRun, Query};
use super::{Ledger, leaving};
use crate::failure::Failure;
use crate::folding::Stand;

impl Ledger {
    async fn query<T>(
        &self,
        query: impl FnOnce(oneshot::Sender<T>) -> Query,
    ) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Query(query(reply))).await?;
        answer.await.map_err(|_| leaving())
    }

    /// The specs of runs, as they were made. A damaged spec fails alone.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn specs(&self, runs: Vec<RunId>) -> Result<PerRun<v1::RunSpec>, Failure> {
        let found = self.query(|reply| Query::Specs { runs, reply }).await??;
        let read = |(id, encoded): (RunId, Result<Vec<u8>, Failure>)| {
            let decoded = encoded.and_then(|encoded| {
                v1::RunSpec::decode(encoded.as_slice())
                    .map_err(|error| Failure::bug("it is no spec").caused_by(&error))
            });
            let unread = |failure: Failure| {
                Failure::failed(format!("the spec of {id} cannot be read"))
                    .because(failure.to_string())
                    .hint("start its experiment again: that makes a new run")
            };
            (id, decoded.map_err(unread))
        };
        Ok(found.into_iter().map(read).collect())
    }

    /// The spec of one run, as it was made, or why it cannot be read.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn spec(&self, run: RunId) -> Result<Result<v1::RunSpec, Failure>, Failure> {
        match self.specs(vec![run]).await?.pop() {
            Some((_, spec)) => Ok(spec),
            None => Err(Failure::bug(format!("run {run} has no spec"))),
        }
    }

    /// The positions of both databases.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn positions(&self, runs: Vec<RunId>) -> Result<Vec<(RunId, Vec<Stand>)>, Failure> {
        self.query(|reply| Query::Positions { runs, reply }).await
    }

    /// The keys of runs in the database of series.
    ///
    /// # Errors
    /// When the daemon is leaving.
    pub async fn keys(&self, runs: Vec<RunId>) -> Result<Vec<(RunId, RunKey)>, Failure> {
        self.query(|reply| Query::Keys { runs, reply }).await
    }

    /// The history of an experiment, oldest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn events(&self, experiment: ExperimentId) -> Result<Vec<Event>, Failure> {
        self.query(|reply| Query::Events { experiment, reply })
            .await?
    }

    /// What was ever written into the cells of experiments; with `is_newest` the last part of
    /// each cell.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn cells(
        &self,
        experiments: Vec<ExperimentId>,
        is_newest: bool,
    ) -> Result<Vec<CellRecord>, Failure> {
        let query = |reply| Query::Cells {
            experiments,
            is_newest,
            reply,
        };
        self.query(query).await?
    }

    /// The bytes that a delivery sends.
    ///
    /// # Errors
    /// When it came to its end, or the database cannot be read.
    pub async fn letter(&self, delivery: u64) -> Result<Vec<u8>, Failure> {
        self.query(|reply| Query::Letter { delivery, reply })
            .await?
    }
}
