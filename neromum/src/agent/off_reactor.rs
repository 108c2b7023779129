//! Work beside the agent's task: on a thread for files, or in a task for another
//! process. The agent owns it by its report, which always comes.

use tokio::sync::mpsc;

use super::{Agent, Done, Message};

/// Delivers the results of one piece of work. Its last result comes even when
/// the work panics: nothing may wait for it for ever.
#[derive(Debug)]
pub(super) struct Report {
    done: mpsc::UnboundedSender<Message>,
    /// The last result if the work panics.
    lost: Option<Done>,
}

impl Report {
    pub fn new(done: mpsc::UnboundedSender<Message>, lost: Done) -> Self {
        let lost = Some(lost);
        Self { done, lost }
    }

    /// Delivers a result before the last.
    pub fn tell(&self, done: Done) {
        // Sending fails only when the agent is gone.
        let _ = self.done.send(Message::Done(done));
    }

    pub fn end(mut self, done: Done) {
        self.lost = None;
        self.tell(done);
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(lost) = self.lost.take() {
            self.tell(lost);
        }
    }
}

impl Agent {
    /// Does file work on a thread; `lost` is its result if it panics.
    pub(super) fn off_reactor(&self, lost: Done, work: impl FnOnce() -> Done + Send + 'static) {
        let report = Report::new(self.done.clone(), lost);
        tokio::task::spawn_blocking(move || report.end(work()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_agent_learns_of_work_that_panics() {
        let (done, mut results) = mpsc::unbounded_channel();
        let report = Report::new(done, Done::SettlerGone);
        let task = tokio::spawn(async move {
            let _report = report;
            panic!("this panic belongs to the test");
        });
        assert!(task.await.unwrap_err().is_panic());
        let result = results.try_recv().unwrap();
        assert!(matches!(result, Message::Done(Done::SettlerGone)));
        assert!(results.try_recv().is_err(), "there is one last result");
    }
}
