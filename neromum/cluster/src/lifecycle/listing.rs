//! A whole listing of the queue, and what it changes about a submission.

use nero_node_core::Core;
use nero_warden::{AdoptedJobState, JobId, Queue, QueueRow};

use super::{Ms, Submission};

/// What a listing changed about a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingChange {
    /// Whether it stands elsewhere now.
    pub has_moved: bool,
    /// Whether its rows are others.
    pub has_new_rows: bool,
}

impl Submission {
    /// Takes in a whole listing that was asked for at `asked_ms`, with what it tells of `adopted`
    /// jobs. `began`: the job of a start that left its record, while the scheduler's answer is
    /// not known.
    pub fn listed(
        &mut self,
        queue: &Queue,
        adopted: &[AdoptedJobState],
        asked_ms: Ms,
        began: Option<JobId>,
        runs: &Core,
    ) -> ListingChange {
        let before = self.standing.clone();
        if let Some(job) = began {
            self.standing.began(job);
        }
        let goes_on = |token| runs.run(token).is_some_and(|run| !run.cancelled);
        if queue.is_nameless && !self.runs().any(|run| goes_on(&run.token)) {
            // A start that comes late finds the cancel requests, or no plan.
            self.standing.abandon();
        }
        self.twins = self.standing.listed(asked_ms, queue, &self.name);
        let change = ListingChange {
            has_moved: self.standing != before,
            has_new_rows: self.take_rows(queue, adopted),
        };
        if let Some(job) = self.job() {
            let is_hidden = queue.hides(&self.name);
            for task in &mut self.tasks {
                let row = task.row(&self.rows, job);
                if row.is_some() || !is_hidden {
                    task.listed(row, asked_ms);
                }
            }
        }
        change
    }

    /// Takes its rows from a listing; whether they changed.
    fn take_rows(&mut self, queue: &Queue, adopted: &[AdoptedJobState]) -> bool {
        let of_it = |one: &&AdoptedJobState| one.row.name == self.name;
        let rows: Vec<QueueRow> = if self.adoption.is_some() {
            let rows = adopted.iter().filter(of_it);
            rows.map(|one| one.row.clone()).collect()
        } else {
            queue.of(&self.name).cloned().collect()
        };
        let changed = self.rows != rows;
        self.rows = rows;
        changed
    }
}
