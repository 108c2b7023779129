//! Work beside the agent's task: on a thread for files, or in a task for another
//! process. The agent owns it by its report, which always comes.

use tokio::sync::mpsc;

use super::{Agent, Driver, WorkResult};

/// Delivers the results of one piece of work. Its last result comes even when
/// the work panics: nothing may wait for it for ever.
#[derive(Debug)]
pub struct Report<O> {
    done: mpsc::UnboundedSender<WorkResult<O>>,
    /// The last result if the work panics.
    lost: Option<WorkResult<O>>,
}

impl<O> Report<O> {
    pub(super) fn new(done: mpsc::UnboundedSender<WorkResult<O>>, lost: WorkResult<O>) -> Self {
        let lost = Some(lost);
        Self { done, lost }
    }

    /// Delivers a result before the last.
    pub fn tell(&self, done: WorkResult<O>) {
        // Sending fails only when the agent is gone.
        let _ = self.done.send(done);
    }

    /// Delivers the last result.
    pub fn end(mut self, done: WorkResult<O>) {
        self.lost = None;
        self.tell(done);
    }
}

impl<O> Drop for Report<O> {
    fn drop(&mut self) {
        if let Some(lost) = self.lost.take() {
            self.tell(lost);
        }
    }
}

impl<D: Driver> Agent<D> {
    /// Delivers the results of a task; `lost` is the last one if it panics.
    pub fn work_report(&self, lost: WorkResult<D::Result>) -> Report<D::Result> {
        Report::new(self.done.clone(), lost)
    }

    /// Does file work on a thread; `lost` is its result if it panics.
    pub(super) fn off_reactor(
        &self,
        lost: WorkResult<D::Result>,
        work: impl FnOnce() -> WorkResult<D::Result> + Send + 'static,
    ) {
        let report = self.work_report(lost);
        tokio::task::spawn_blocking(move || report.end(work()));
    }

    /// The same for work of the driver.
    pub fn off_reactor_for_driver(
        &self,
        lost: D::Result,
        work: impl FnOnce() -> D::Result + Send + 'static,
    ) {
        self.off_reactor(WorkResult::Driver(lost), move || WorkResult::Driver(work()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_agent_learns_of_work_that_panics() {
        let (done, mut results) = mpsc::unbounded_channel();
        let report = Report::<()>::new(done, WorkResult::SettlerGone);
        let task = tokio::spawn(async move {
            let _report = report;
            panic!("this panic belongs to the test");
        });
        assert!(task.await.unwrap_err().is_panic());
        let result = results.try_recv().unwrap();
        assert!(matches!(result, WorkResult::SettlerGone));
        assert!(results.try_recv().is_err(), "there is one last result");
    }
}
