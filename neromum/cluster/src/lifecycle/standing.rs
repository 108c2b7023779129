//! Where a submission stands: from the intent on disk, over the call, to an id, a
//! refusal, or a doubt that listings resolve.
//!
//! A failed call proves nothing: the job may have been accepted, and the first
//! listing after a controller's stall may miss it. A submission that was not found
//! is called again only after two listings far enough apart. A late twin is then
//! harmless, since the claim of each run lets one start happen.

use nero_warden::{JobId, JobName, Queue, State, SubmissionResult};

/// Times are of one clock that does not jump, in milliseconds.
pub type Ms = u64;

/// Time between the two listings that have to miss a submission: longer than a
/// controller lets a message wait (SLURM: `MessageTimeout`, 10 s by default).
pub const APART_MS: Ms = 30_000;
/// The same while a call that an earlier neromum left behind may go on by itself (at
/// `MaxJobCount` `sbatch` tries again for two minutes).
const LEFT_BEHIND_MS: Ms = 180_000;
/// Doublings of that time, one for each call: a scheduler that accepts nothing is
/// called a few times an hour.
const DOUBLINGS_MAX: u32 = 5;

/// Where a submission stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmissionState {
    /// Plan, script and intent are on disk, and no listing shows the submission.
    Intended {
        /// Number of calls so far, each of which may still arrive.
        calls: u32,
        /// Why the last call could not be executed; empty: it could, or there was none.
        why: String,
    },
    /// The call may be on its way, or its answer told nothing.
    InDoubt(Doubt),
    /// The scheduler has it.
    Accepted(JobId),
    /// The scheduler refused it, or no command could be executed.
    Refused(String),
    /// The scheduler took no more jobs and does not have it: its runs go into another
    /// submission.
    NotNow(String),
}

/// What is known of a submission that the scheduler may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Number of calls so far, 1 or more.
    pub calls: u32,
    /// When a successful listing first missed it, asked after the call's end.
    pub missed_ms: Option<Ms>,
    /// Time from that listing to the one that ends the doubt.
    pub apart_ms: Ms,
    /// The scheduler's words; empty: neromum ended before the answer.
    pub why: String,
    /// Whether these words refuse the last call; an earlier one may be accepted.
    pub refused: Option<Refusal>,
}

/// How a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The scheduler never takes it.
    ForGood,
    /// It takes no more jobs now.
    ForNow,
}

impl Refusal {
    fn standing(self, why: String) -> SubmissionState {
        match self {
            Self::ForGood => SubmissionState::Refused(why),
            Self::ForNow => SubmissionState::NotNow(why),
        }
    }
}

impl SubmissionState {
    /// Nothing was asked of the scheduler.
    pub const NEW: Self = Self::Intended {
        calls: 0,
        why: String::new(),
    };

    /// After a start of neromum with the intent, and no answer, on disk. The call may
    /// go on until [`call_is_over`](Self::call_is_over) tells.
    pub fn recovered() -> Self {
        Self::InDoubt(Doubt {
            calls: 1,
            missed_ms: None,
            apart_ms: LEFT_BEHIND_MS,
            why: String::new(),
            refused: None,
        })
    }

    /// Whether the call of an earlier neromum may go on.
    pub fn may_be_called(&self) -> bool {
        matches!(self, Self::InDoubt(doubt) if doubt.apart_ms == LEFT_BEHIND_MS)
    }

    /// No process of the call of an earlier neromum is left. Listings count that are
    /// asked for from now on.
    pub fn call_is_over(&mut self) {
        if let Self::InDoubt(doubt) = self {
            doubt.apart_ms = APART_MS;
            doubt.missed_ms = None;
        }
    }

    /// The submission is wanted no more; false when the scheduler may have it.
    pub fn give_up(&mut self, why: &str) -> bool {
        let is_free = matches!(self, Self::Intended { .. });
        if is_free {
            *self = Self::Refused(why.to_owned());
        }
        is_free
    }

    /// The call is about to be executed.
    pub fn sent(&mut self) {
        let calls = self.calls() + 1;
        *self = Self::in_doubt(calls, String::new(), None);
    }

    fn in_doubt(calls: u32, why: String, refused: Option<Refusal>) -> Self {
        Self::InDoubt(Doubt {
            calls,
            missed_ms: None,
            apart_ms: APART_MS << calls.saturating_sub(1).min(DOUBLINGS_MAX),
            why,
            refused,
        })
    }

    fn calls(&self) -> u32 {
        match self {
            Self::Intended { calls, .. } => *calls,
            Self::InDoubt(doubt) => doubt.calls,
            Self::Accepted(_) | Self::Refused(_) | Self::NotNow(_) => 0,
        }
    }

    /// The call ended with this answer. A refusal says nothing about earlier calls
    /// whose answers told nothing.
    pub fn answered(&mut self, answer: SubmissionResult) {
        let calls = self.calls();
        let refused = |how: Refusal, why: String| {
            if calls > 1 {
                Self::in_doubt(calls, why, Some(how))
            } else {
                how.standing(why)
            }
        };
        *self = match answer {
            SubmissionResult::Accepted(id) => Self::Accepted(id),
            SubmissionResult::Refused(why) => refused(Refusal::ForGood, why),
            SubmissionResult::Full(why) => refused(Refusal::ForNow, why),
            SubmissionResult::NotSent(why) => Self::Intended {
                calls: calls.saturating_sub(1),
                why,
            },
            SubmissionResult::Ambiguous(why) => Self::in_doubt(calls, why, None),
        };
    }

    /// Every run of it is to end, and no listing can tell whether the scheduler has it.
    pub fn abandon(&mut self) {
        if matches!(self, Self::InDoubt(_)) {
            *self = Self::Refused("it is not known whether it was taken".to_owned());
        }
    }

    /// A start of the job began: the scheduler has the submission, whatever it lists.
    pub fn began(&mut self, job: JobId) {
        if matches!(self, Self::Intended { .. } | Self::InDoubt(_)) {
            *self = Self::Accepted(job);
        }
    }

    /// A listing that was asked for at `asked_ms`, after the call had ended, and
    /// that the scheduler answered whole. Returns copies of the submission that wait there, and
    /// are to be cancelled.
    pub fn listed(&mut self, asked_ms: Ms, queue: &Queue, name: &JobName) -> Vec<JobId> {
        let mut jobs: Vec<(JobId, Row)> = queue
            .of(name)
            .map(|row| (row.job, Row::of(&row.state)))
            .collect();
        jobs.sort_unstable();
        if matches!(self, Self::Intended { .. } | Self::InDoubt(_))
            && let Some(kept) = kept(&jobs)
        {
            // Also a call whose doubt ended may have arrived late.
            *self = Self::Accepted(kept);
        }
        match self {
            Self::InDoubt(doubt) => {
                if queue.is_nameless || queue.hides(name) {
                    // It misses every submission whose number is not known, or one with an odd row.
                    return Vec::new();
                }
                let first = *doubt.missed_ms.get_or_insert(asked_ms);
                if asked_ms.saturating_sub(first) < doubt.apart_ms {
                    return Vec::new();
                }
                *self = match doubt.refused {
                    Some(how) => how.standing(std::mem::take(&mut doubt.why)),
                    None => Self::Intended {
                        calls: doubt.calls,
                        why: String::new(),
                    },
                };
            }
            Self::Accepted(id) => {
                let runs = |job: JobId| jobs.contains(&(job, Row::Began));
                // The job that we were told of waits, ended or vanished, and a twin
                // began; or it vanished, and a twin waits.
                // A copy that ended tells nothing about it: it was cancelled while it
                // waited, or left the task to another.
                let is_listed = jobs.iter().any(|(job, _)| job == id);
                let open = jobs.iter().filter(|(_, row)| *row != Row::Ended);
                let open: Vec<(JobId, Row)> = open.copied().collect();
                if let Some(kept) =
                    kept(&open).filter(|kept| !is_listed || !runs(*id) && runs(*kept))
                {
                    *id = kept;
                }
            }
            Self::Intended { .. } | Self::Refused(_) | Self::NotNow(_) => {}
        }
        let Self::Accepted(id) = self else {
            return Vec::new();
        };
        // A twin that began is left to the claims of its runs.
        let only_waits = |job: &JobId| {
            let mut rows = jobs.iter().filter(|(one, _)| one == job);
            rows.all(|(_, row)| *row == Row::Waits)
        };
        let mut twins: Vec<JobId> = jobs.iter().map(|(job, _)| *job).collect();
        twins.dedup();
        twins.retain(|job| job != id && only_waits(job));
        twins
    }

    /// Whether the call is to be made, after the intent is synced.
    pub fn is_intended(&self) -> bool {
        matches!(self, Self::Intended { .. })
    }
}

/// Where a row of a submission stands, as far as copies of it are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Began,
    Waits,
    Ended,
}

impl Row {
    fn of(state: &State) -> Self {
        match state {
            State::Waiting(_) | State::Held(_) => Self::Waits,
            State::Ended(_) => Self::Ended,
            State::Starting
            | State::Running
            | State::Suspended
            | State::Ending
            | State::Unknown(_) => Self::Began,
        }
    }
}

/// Of several jobs with one name: one that has begun, else one that waits, else any;
/// of these the oldest.
fn kept(jobs: &[(JobId, Row)]) -> Option<JobId> {
    let first = jobs.iter().min_by_key(|(job, row)| (*row, *job));
    first.map(|(job, _)| *job)
}

#[cfg(test)]
mod tests {
    use nero_warden::{QueueRow, Reason, SchedulerEnd};

    use super::*;

    /// What is to be done about a submission.
    #[derive(Debug, PartialEq, Eq)]
    enum Step {
        Submit,
        List,
        CancelTwins(Vec<JobId>),
        Rest,
    }

    impl SubmissionState {
        fn next(&self) -> Step {
            match self {
                Self::Intended { .. } => Step::Submit,
                Self::InDoubt(_) => Step::List,
                Self::Accepted(_) | Self::Refused(_) | Self::NotNow(_) => Step::Rest,
            }
        }

        fn step(&mut self, asked_ms: Ms, queue: &Queue) -> Step {
            let twins = self.listed(asked_ms, queue, &name());
            if twins.is_empty() {
                self.next()
            } else {
                Step::CancelTwins(twins)
            }
        }
    }

    fn name() -> JobName {
        JobName::of("abcdefghijklmnopqrstuvwxyz").unwrap()
    }

    fn queue(jobs: &[(u64, State)]) -> Queue {
        let row = |(job, state): &(u64, State)| QueueRow {
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

    fn in_doubt() -> SubmissionState {
        let mut standing = SubmissionState::NEW;
        standing.sent();
        standing.answered(SubmissionResult::Ambiguous("Socket timed out".to_owned()));
        standing
    }

    #[test]
    fn a_doubt_ends_with_the_first_listing_that_shows_the_job() {
        let mut standing = in_doubt();
        assert_eq!(standing.next(), Step::List);
        assert_eq!(standing.step(1000, &queue(&[])), Step::List);
        let found = queue(&[(7, waiting())]);
        assert_eq!(standing.step(2000, &found), Step::Rest);
        assert_eq!(standing, SubmissionState::Accepted(JobId(7)));
    }

    #[test]
    fn one_listing_without_the_job_never_submits_it_again() {
        let mut standing = in_doubt();
        for asked_ms in [0, 1, APART_MS - 1] {
            assert_eq!(standing.step(asked_ms, &queue(&[])), Step::List);
        }
        assert_eq!(standing.step(APART_MS, &queue(&[])), Step::Submit);
        assert_eq!(standing.next(), Step::Submit);
    }

    #[test]
    fn a_job_that_is_listed_after_the_doubt_about_it_ended_is_not_submitted_again() {
        let mut standing = in_doubt();
        standing.step(0, &queue(&[]));
        assert_eq!(standing.step(APART_MS, &queue(&[])), Step::Submit);
        let late = queue(&[(7, waiting()), (9, waiting())]);
        let step = standing.step(2 * APART_MS, &late);
        assert_eq!(step, Step::CancelTwins(vec![JobId(9)]));
        assert_eq!(standing, SubmissionState::Accepted(JobId(7)));
    }

    #[test]
    fn a_row_that_cannot_be_read_holds_up_its_own_submission_alone() {
        let mut standing = in_doubt();
        let mut odd = queue(&[]);
        odd.hidden = vec![name()];
        for asked_ms in [0, APART_MS, 10 * APART_MS] {
            assert_eq!(standing.step(asked_ms, &odd), Step::List);
        }
        odd.hidden = vec![JobName::of("abcdefghijklmnopqrstuvwxy2").unwrap()];
        odd.unreadable = 3;
        standing.step(20 * APART_MS, &odd);
        let step = standing.step(21 * APART_MS, &odd);
        assert_eq!(step, Step::Submit);
    }

    #[test]
    fn of_twins_the_one_that_began_stays() {
        let mut standing = in_doubt();
        let twins = queue(&[(7, waiting()), (9, State::Running), (12, waiting())]);
        let step = standing.step(0, &twins);
        assert_eq!(step, Step::CancelTwins(vec![JobId(7), JobId(12)]));
        assert_eq!(standing, SubmissionState::Accepted(JobId(9)));
        // A twin that arrives after the answer.
        let mut standing = SubmissionState::Accepted(JobId(7));
        let late = queue(&[(7, waiting()), (9, waiting())]);
        assert_eq!(standing.step(0, &late), Step::CancelTwins(vec![JobId(9)]));
        let begun = queue(&[(7, waiting()), (9, State::Running)]);
        assert_eq!(standing.step(0, &begun), Step::CancelTwins(vec![JobId(7)]));
        assert_eq!(standing, SubmissionState::Accepted(JobId(9)));
        let both = queue(&[(7, State::Running), (9, State::Running)]);
        assert_eq!(standing.step(0, &both), Step::Rest, "claims decide");
    }

    #[test]
    fn an_id_that_vanished_is_replaced_by_a_twin_and_never_submitted_again() {
        let mut standing = SubmissionState::Accepted(JobId(7));
        assert_eq!(standing.step(0, &queue(&[])), Step::Rest);
        assert_eq!(standing, SubmissionState::Accepted(JobId(7)));
        assert_eq!(standing.step(0, &queue(&[(9, waiting())])), Step::Rest);
        assert_eq!(standing, SubmissionState::Accepted(JobId(9)));
    }

    #[test]
    fn a_copy_that_ended_does_not_stand_for_a_job_that_vanished() {
        let over = |how| queue(&[(9, State::Ended(how))]);
        for how in [SchedulerEnd::Cancelled { by: None }, SchedulerEnd::Failed] {
            let mut standing = SubmissionState::Accepted(JobId(7));
            standing.step(0, &over(how));
            assert_eq!(standing, SubmissionState::Accepted(JobId(7)));
        }
        let mut standing = in_doubt();
        standing.step(0, &over(SchedulerEnd::Failed));
        assert_eq!(
            standing,
            SubmissionState::Accepted(JobId(9)),
            "it was there"
        );
    }

    #[test]
    fn a_scheduler_without_names_never_gets_a_submission_twice() {
        let mut standing = in_doubt();
        let nameless = Queue {
            is_nameless: true,
            ..Queue::default()
        };
        for asked_ms in [0, APART_MS, 100 * APART_MS] {
            assert_eq!(standing.step(asked_ms, &nameless), Step::List);
        }
        let mut begun = standing.clone();
        begun.began(JobId(7));
        assert_eq!(begun, SubmissionState::Accepted(JobId(7)));
        standing.abandon();
        assert_eq!(standing.next(), Step::Rest);
        begun.abandon();
        assert_eq!(begun, SubmissionState::Accepted(JobId(7)));
    }

    #[test]
    fn a_call_that_was_not_executed_is_made_again_and_a_refusal_is_not() {
        let mut standing = in_doubt();
        standing.answered(SubmissionResult::NotSent("no fork".to_owned()));
        assert_eq!(standing.next(), Step::Submit);
        standing.answered(SubmissionResult::Refused("no such partition".to_owned()));
        assert_eq!(standing.next(), Step::Rest);
        assert_eq!(standing.step(0, &queue(&[])), Step::Rest);
    }

    #[test]
    fn a_refusal_of_a_second_call_is_believed_when_the_first_is_listed_nowhere() {
        let mut standing = in_doubt();
        standing.step(0, &queue(&[]));
        standing.step(APART_MS, &queue(&[]));
        standing.sent();
        standing.answered(SubmissionResult::Refused("job submit limit".to_owned()));
        assert!(
            matches!(standing, SubmissionState::InDoubt(_)),
            "{standing:?}"
        );
        let mut late = standing.clone();
        late.listed(100_000, &queue(&[(7, waiting())]), &name());
        assert_eq!(late, SubmissionState::Accepted(JobId(7)));
        standing.step(100_000, &queue(&[]));
        let step = standing.step(100_000 + 2 * APART_MS, &queue(&[]));
        assert_eq!(step, Step::Rest);
        assert_eq!(
            standing,
            SubmissionState::Refused("job submit limit".to_owned())
        );
    }

    #[test]
    fn a_full_queue_is_no_refusal_and_no_doubt_unless_an_earlier_call_may_have_arrived() {
        let full = || SubmissionResult::Full("job submit limit".to_owned());
        let mut standing = SubmissionState::NEW;
        standing.sent();
        standing.answered(full());
        assert_eq!(
            standing,
            SubmissionState::NotNow("job submit limit".to_owned())
        );
        assert_eq!(standing.next(), Step::Rest);
        let mut again = in_doubt();
        again.step(0, &queue(&[]));
        again.step(APART_MS, &queue(&[]));
        again.sent();
        again.answered(full());
        assert_eq!(again.step(100_000, &queue(&[])), Step::List);
        again.step(100_000 + 2 * APART_MS, &queue(&[]));
        assert_eq!(again, standing);
    }

    #[test]
    fn each_call_of_which_nothing_comes_doubles_the_time_to_the_next() {
        let mut standing = SubmissionState::NEW;
        let mut now_ms = 0;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            standing.sent();
            standing.answered(SubmissionResult::Ambiguous("Something new".to_owned()));
            let begun = now_ms;
            while standing.step(now_ms, &queue(&[])) != Step::Submit {
                now_ms += APART_MS;
            }
            pauses.push((now_ms - begun) / APART_MS);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32, 32]);
    }

    #[test]
    fn a_call_that_an_earlier_neromum_left_behind_has_three_minutes_to_arrive() {
        let mut standing = SubmissionState::recovered();
        for asked_ms in [0, 130_000] {
            assert_eq!(standing.step(asked_ms, &queue(&[])), Step::List);
        }
        let mut over = standing.clone();
        let step = standing.step(LEFT_BEHIND_MS, &queue(&[]));
        assert_eq!(step, Step::Submit);
        // Its processes were seen to be gone.
        over.call_is_over();
        for asked_ms in [150_000, 150_000 + APART_MS - 1] {
            assert_eq!(over.step(asked_ms, &queue(&[])), Step::List);
        }
        let step = over.step(150_000 + APART_MS, &queue(&[]));
        assert_eq!(step, Step::Submit);
    }

    #[test]
    fn a_twin_of_a_job_that_ended_is_cancelled_while_it_waits_and_followed_once_it_began() {
        let over = || State::Ended(SchedulerEnd::TimeLimit);
        let mut standing = SubmissionState::Accepted(JobId(7));
        let waits = queue(&[(7, over()), (9, waiting())]);
        let step = standing.step(0, &waits);
        assert_eq!(step, Step::CancelTwins(vec![JobId(9)]));
        assert_eq!(standing, SubmissionState::Accepted(JobId(7)));
        let runs = queue(&[(7, over()), (9, State::Running)]);
        assert_eq!(standing.step(0, &runs), Step::Rest);
        assert_eq!(standing, SubmissionState::Accepted(JobId(9)));
    }

    #[test]
    fn a_job_that_began_ends_a_doubt_though_no_listing_shows_it() {
        let mut standing = in_doubt();
        standing.began(JobId(7));
        assert_eq!(standing, SubmissionState::Accepted(JobId(7)));
        standing.began(JobId(9));
        assert_eq!(
            standing,
            SubmissionState::Accepted(JobId(7)),
            "the first stays"
        );
    }
}
