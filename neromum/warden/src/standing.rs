//! Where a submission stands: from the intent on disk, over the call, to an id, a
//! refusal, or a doubt that listings resolve.
//!
//! A failed call proves nothing: the job may have been accepted, and the first
//! listing after a controller's stall may miss it. A submission that was not found
//! is called again only after two listings far enough apart. A late twin is then
//! harmless, since the claim of each run lets one start happen.

use crate::{JobId, JobName, Queue, State, Submitted};

/// Times are of one clock that does not jump, in milliseconds.
pub type Ms = u64;

/// Time between the two listings that have to miss a submission: longer than a
/// controller lets a message wait (SLURM: `MessageTimeout`, 10 s by default).
pub const APART_MS: Ms = 30_000;

/// Where a submission stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Plan, script and intent are on disk; nothing was asked of the scheduler.
    Intended,
    /// The call may be on its way, or its answer told nothing.
    InDoubt {
        /// When a successful listing first missed it, asked after the call's end.
        missed_ms: Option<Ms>,
        /// The scheduler's words; empty: neromum ended before the answer.
        why: String,
    },
    /// The scheduler has it.
    Accepted(JobId),
    /// The scheduler refused it, or no command could be executed.
    Refused(String),
}

/// What is to be done about a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Execute the call, after the intent is synced.
    Submit,
    /// Ask for the queue.
    List,
    /// Cancel these, which wait: the scheduler has the submission more than once.
    CancelTwins(Vec<JobId>),
    /// Nothing.
    Rest,
}

impl Standing {
    /// After a start of neromum with the intent, and no answer, on disk.
    pub fn recovered() -> Self {
        Self::InDoubt {
            missed_ms: None,
            why: String::new(),
        }
    }

    /// The call is about to be executed.
    pub fn sent(&mut self) {
        *self = Self::recovered();
    }

    /// The call ended with this answer.
    pub fn answered(&mut self, answer: Submitted) {
        *self = match answer {
            Submitted::Accepted(id) => Self::Accepted(id),
            Submitted::Refused(why) => Self::Refused(why),
            Submitted::NotSent(_) => Self::Intended,
            Submitted::Ambiguous(why) => Self::InDoubt {
                missed_ms: None,
                why,
            },
        };
    }

    /// A listing that was asked for at `asked_ms`, after the call had ended, and
    /// that the scheduler answered whole.
    pub fn listed(&mut self, asked_ms: Ms, queue: &Queue, name: &JobName) -> Step {
        let mut jobs: Vec<(JobId, bool)> = queue
            .of(name)
            .map(|row| {
                (
                    row.job,
                    matches!(row.state, State::Waiting(_) | State::Held(_)),
                )
            })
            .collect();
        jobs.sort_unstable();
        match self {
            Self::InDoubt { missed_ms, .. } => {
                if let Some(kept) = kept(&jobs) {
                    *self = Self::Accepted(kept);
                } else {
                    let first = *missed_ms.get_or_insert(asked_ms);
                    if asked_ms.saturating_sub(first) < APART_MS || queue.unreadable > 0 {
                        return Step::List;
                    }
                    *self = Self::Intended;
                    return Step::Submit;
                }
            }
            Self::Accepted(id) => {
                let waits = |job: JobId| jobs.iter().all(|(one, waits)| *one != job || *waits);
                // The job that we were told of waits or vanished, and a twin began; or
                // it vanished, and a twin waits.
                let is_listed = jobs.iter().any(|(job, _)| job == id);
                if let Some(kept) =
                    kept(&jobs).filter(|kept| !is_listed || waits(*id) && !waits(*kept))
                {
                    *id = kept;
                }
            }
            Self::Intended | Self::Refused(_) => {}
        }
        let Self::Accepted(id) = self else {
            return Step::Rest;
        };
        // A twin that began is left to the claims of its runs.
        let begun = |job: &JobId| jobs.iter().any(|(one, waits)| one == job && !waits);
        let mut twins: Vec<JobId> = jobs.iter().map(|(job, _)| *job).collect();
        twins.dedup();
        twins.retain(|job| job != id && !begun(job));
        match twins.is_empty() {
            true => Step::Rest,
            false => Step::CancelTwins(twins),
        }
    }

    /// What is to be done next, without a new listing.
    pub fn next(&self) -> Step {
        match self {
            Self::Intended => Step::Submit,
            Self::InDoubt { .. } => Step::List,
            Self::Accepted(_) | Self::Refused(_) => Step::Rest,
        }
    }
}

/// Of several jobs with one name: one that has begun, else the oldest.
fn kept(jobs: &[(JobId, bool)]) -> Option<JobId> {
    let begun = jobs.iter().find(|(_, waits)| !waits);
    begun.or(jobs.first()).map(|(job, _)| *job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Listed, Reason};

    fn name() -> JobName {
        JobName::of("abcdefghijklmnopqrstuvwxyz").unwrap()
    }

    fn queue(jobs: &[(u64, State)]) -> Queue {
        let row = |(job, state): &(u64, State)| Listed {
            name: name(),
            job: JobId(*job),
            tasks: None,
            state: state.clone(),
            host: None,
            start_s: None,
        };
        Queue {
            ours: jobs.iter().map(row).collect(),
            ..Queue::default()
        }
    }

    fn waiting() -> State {
        State::Waiting(Reason::default())
    }

    fn in_doubt() -> Standing {
        let mut standing = Standing::Intended;
        standing.sent();
        standing.answered(Submitted::Ambiguous("Socket timed out".to_owned()));
        standing
    }

    #[test]
    fn a_doubt_ends_with_the_first_listing_that_shows_the_job() {
        let mut standing = in_doubt();
        assert_eq!(standing.next(), Step::List);
        assert_eq!(standing.listed(1000, &queue(&[]), &name()), Step::List);
        let found = queue(&[(7, waiting())]);
        assert_eq!(standing.listed(2000, &found, &name()), Step::Rest);
        assert_eq!(standing, Standing::Accepted(JobId(7)));
    }

    #[test]
    fn one_listing_without_the_job_never_submits_it_again() {
        let mut standing = in_doubt();
        for asked_ms in [0, 1, APART_MS - 1] {
            assert_eq!(standing.listed(asked_ms, &queue(&[]), &name()), Step::List);
        }
        let mut half = queue(&[]);
        half.unreadable = 1;
        assert_eq!(standing.listed(APART_MS, &half, &name()), Step::List);
        assert_eq!(
            standing.listed(APART_MS, &queue(&[]), &name()),
            Step::Submit
        );
        assert_eq!(standing.next(), Step::Submit);
    }

    #[test]
    fn of_twins_the_one_that_began_stays() {
        let mut standing = in_doubt();
        let twins = queue(&[(7, waiting()), (9, State::Running), (12, waiting())]);
        let step = standing.listed(0, &twins, &name());
        assert_eq!(step, Step::CancelTwins(vec![JobId(7), JobId(12)]));
        assert_eq!(standing, Standing::Accepted(JobId(9)));
        // A twin that arrives after the answer.
        let mut standing = Standing::Accepted(JobId(7));
        let late = queue(&[(7, waiting()), (9, waiting())]);
        assert_eq!(
            standing.listed(0, &late, &name()),
            Step::CancelTwins(vec![JobId(9)])
        );
        let begun = queue(&[(7, waiting()), (9, State::Running)]);
        assert_eq!(
            standing.listed(0, &begun, &name()),
            Step::CancelTwins(vec![JobId(7)])
        );
        assert_eq!(standing, Standing::Accepted(JobId(9)));
        let both = queue(&[(7, State::Running), (9, State::Running)]);
        assert_eq!(
            standing.listed(0, &both, &name()),
            Step::Rest,
            "claims decide"
        );
    }

    #[test]
    fn an_id_that_vanished_is_replaced_by_a_twin_and_never_submitted_again() {
        let mut standing = Standing::Accepted(JobId(7));
        assert_eq!(standing.listed(0, &queue(&[]), &name()), Step::Rest);
        assert_eq!(standing, Standing::Accepted(JobId(7)));
        assert_eq!(
            standing.listed(0, &queue(&[(9, waiting())]), &name()),
            Step::Rest
        );
        assert_eq!(standing, Standing::Accepted(JobId(9)));
    }

    #[test]
    fn a_call_that_was_not_executed_is_made_again_and_a_refusal_is_not() {
        let mut standing = in_doubt();
        standing.answered(Submitted::NotSent("no fork".to_owned()));
        assert_eq!(standing.next(), Step::Submit);
        standing.answered(Submitted::Refused("no such partition".to_owned()));
        assert_eq!(standing.next(), Step::Rest);
        assert_eq!(standing.listed(0, &queue(&[]), &name()), Step::Rest);
    }
}
