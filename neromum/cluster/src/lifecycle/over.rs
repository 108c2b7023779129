//! What the end of a task waits for.

use std::time::Instant;

use nero_warden::Ended;

use super::{Presence, Submission, Task};

/// Number of times that the accounting is asked for a task that left the queue.
pub const ACCOUNTED_MAX: u8 = 4;

impl Submission {
    /// Whether the accounting may still tell with which code its job failed.
    pub fn lacks_its_code(&self, task: &Task) -> bool {
        let Some(adoption) = &self.adoption else {
            return false;
        };
        let exit = adoption.sighting.as_ref().and_then(|one| one.exit);
        let failed = matches!(task.seen, Presence::Gone(Some(Ended::Failed)));
        failed && exit.is_none() && task.asked < ACCOUNTED_MAX
    }

    /// Whether the logs of its job were copied since then.
    pub fn is_copied_since(&self, gone: Instant) -> bool {
        let adoption = self.adoption.as_ref();
        adoption.is_none_or(|one| one.copied.is_some_and(|at| at >= gone))
    }
}
