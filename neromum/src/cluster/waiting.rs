//! Why a job waits at its scheduler, and how long it may: the scheduler's word with ours
//! beside it.

use nero_warden::{QueueRow, Reason, State, Warden};

use super::Task;

/// Beginnings of SLURM's words, the longer ones before those that they begin with, and
/// what they mean.
const MEANINGS: &[(&str, &str)] = &[
    ("AssocGrp", "other jobs of your account use up its limit"),
    (
        "AssocMax",
        "your account has a limit for jobs or their size",
    ),
    ("BadConstraints", "no host has what it asks for"),
    ("BeginTime", "it may not start yet, as after a requeue"),
    ("InvalidAccount", "the scheduler has no such `account`"),
    ("InvalidQOS", "the scheduler has no such `qos`"),
    (
        "JobArrayTaskLimit",
        "as many tasks of its array run as may run at once",
    ),
    ("JobHeldAdmin", "an administrator holds it"),
    ("JobHeldUser", "it was held by you, or for you"),
    (
        "MaxJobsPerAccount",
        "as many jobs of your account run as may",
    ),
    (
        "Nodes_required_for_job_are_DOWN",
        "hosts that it needs are down or reserved",
    ),
    ("PartitionConfig", "the partition has no such hosts"),
    ("PartitionDown", "its partition starts nothing now"),
    ("PartitionInactive", "its partition starts nothing now"),
    ("PartitionNodeLimit", "the partition gives fewer hosts"),
    (
        "PartitionTimeLimit",
        "its time is above that of the partition",
    ),
    ("Priority", "other jobs come first"),
    (
        "QOSGrp",
        "other jobs of this quality of service use up its limit",
    ),
    (
        "QOSMax",
        "the quality of service has a limit for jobs or their size",
    ),
    (
        "QOSMin",
        "the quality of service is for jobs that ask for more",
    ),
    (
        "QOSUsageThreshold",
        "your account used too much for this quality of service",
    ),
    (
        "ReqNodeNotAvail",
        "a host that it needs is down or reserved",
    ),
    (
        "RequiresReservation",
        "the partition is for jobs of a reservation",
    ),
    ("ReservationDeleted", "its reservation is gone"),
    ("Reservation", "its reservation has not begun"),
    ("Resources", "its hosts are busy"),
    (
        "error state",
        "a start of it failed there; `qmod -cj` lets it wait again",
    ),
];
const BUDGET: &str = "the budget of your account is spent";

/// What a row of a listing says about a run; empty: nothing new.
#[derive(Clone, Debug)]
pub(super) struct RowText {
    /// Of a run that did not begin.
    pub waiting: String,
    /// Of a run that began.
    pub begun: String,
    /// Whether the wait does not pass until a person acts.
    pub needs_person: bool,
    /// Whether its job is in the queue: of a run that began, again.
    pub is_queued: bool,
}

impl RowText {
    pub fn waiting(text: String) -> Self {
        Self {
            waiting: text,
            begun: String::new(),
            needs_person: false,
            is_queued: false,
        }
    }

    /// A job that waits in the queue.
    fn queued(text: String) -> Self {
        Self {
            begun: format!("it was requeued and waits {text}"),
            is_queued: true,
            ..Self::waiting(text)
        }
    }

    /// The same for a run of the task; a paused one is told what its job does.
    pub fn of_run(mut self, warden: &dyn Warden, task: u32, row: &QueueRow, paused: bool) -> Self {
        if !paused {
            return self;
        }
        let name = warden.name();
        let index = row.tasks.as_ref().map(|_| task);
        if matches!(row.state, State::Starting | State::Running) {
            self.waiting = format!(
                "{name}'s job {} goes on without it, and keeps nothing for it",
                row.job
            );
        }
        if matches!(row.state, State::Waiting(_)) && warden.hold_calls(&[(row, index)]).is_empty() {
            self.waiting.push_str(&format!(
                "; {name} holds no jobs: when its turn comes the job leaves, \
                 and the run is submitted anew after a resume"
            ));
        }
        self
    }
}

/// Why the runs of a task do not go on, by its row in a listing.
pub(super) fn row_text(warden: &dyn Warden, task: &Task, row: &QueueRow) -> RowText {
    let name = warden.name();
    let job = match row.tasks {
        Some(_) => warden.task_name(row.job, task.index),
        None => row.job.to_string(),
    };
    let waiting = match &row.state {
        State::Waiting(reason) | State::Held(reason) => {
            let held = matches!(row.state, State::Held(_));
            let held = if held { ", held" } else { "" };
            let word = self::reason(reason);
            let start = expected_start(row.start_s);
            if reason.never_passes {
                let what = if held.is_empty() {
                    "this does not pass by waiting: change what the run asks for"
                } else {
                    "it waits until a person releases it there"
                };
                // Without the task, so that the tasks of an array are told together.
                return RowText {
                    needs_person: true,
                    ..RowText::queued(format!(
                        "in {name}'s queue as job {}{held}{word}{start}; {what}",
                        row.job
                    ))
                };
            }
            let text = format!("in {name}'s queue as job {job}{held}{word}{start}");
            return RowText::queued(text);
        }
        State::Starting | State::Running => format!("{name} starts its job {job}"),
        State::Suspended => {
            let text = format!("{name} suspended its job {job}: it goes on when that is resumed");
            return RowText {
                waiting: text.clone(),
                begun: text,
                ..RowText::waiting(String::new())
            };
        }
        State::Ending => format!("{name} cleans up after its job {job}"),
        State::Ended(_) => String::new(),
        State::Unknown(word) => format!("{name} calls its job {job} {word}"),
    };
    RowText::waiting(waiting)
}

/// The scheduler's reason and its meaning, behind a colon; empty: it gave none.
fn reason(reason: &Reason) -> String {
    let word = reason.word.as_str();
    if word.is_empty() {
        return String::new();
    }
    // What a group may have and other jobs do not free again is a budget.
    let budget = (word.contains("Grp") && reason.never_passes).then_some(BUDGET);
    let known = MEANINGS.iter().find(|(begins, _)| word.starts_with(begins));
    match budget.or(known.map(|(_, meaning)| *meaning)) {
        Some(meaning) => format!(": {word} ({meaning})"),
        None => format!(": {word}"),
    }
}

/// When the scheduler expects the job to start, coarse enough to change seldom; empty: it
/// does not tell.
fn expected_start(start_s: Option<i64>) -> String {
    let now_s = nero_journal::Clocks::now().wall_ns / 1_000_000_000;
    start_s.map_or_else(String::new, |at| in_about(at - now_s))
}

fn in_about(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let about = match seconds {
        // What is due, or was, waits for something else.
        ..MINUTE => return String::new(),
        MINUTE..HOUR => format!("{} min", (seconds / (10 * MINUTE) + 1) * 10),
        HOUR..DAY => format!("{} h", seconds / HOUR + 1),
        // SLURM's word for never is a year and more.
        _ if seconds > 300 * DAY => return String::new(),
        _ => format!("{} days", seconds / DAY + 1),
    };
    format!(", expected to start within {about}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(word: &str) -> String {
        reason(&Reason {
            word: word.to_owned(),
            never_passes: nero_warden::slurm::never_passes(word),
        })
    }

    #[test]
    fn a_reason_of_the_scheduler_has_its_meaning_beside_it() {
        assert_eq!(said("Priority"), ": Priority (other jobs come first)");
        let budget = ": AssocGrpCPUMinutesLimit (the budget of your account is spent)";
        assert_eq!(said("AssocGrpCPUMinutesLimit"), budget);
        assert!(said("AssocGrpNodeLimit").contains("use up its limit"));
        assert_eq!(said("SomethingNew"), ": SomethingNew");
        assert_eq!(said(""), "");
    }

    #[test]
    fn an_expected_start_is_told_in_coarse_steps() {
        for (seconds, expected) in [
            (-5, ""),
            (59, ""),
            (60, ", expected to start within 10 min"),
            (1500, ", expected to start within 30 min"),
            (3600, ", expected to start within 2 h"),
            (5 * 86_400 + 1, ", expected to start within 6 days"),
            (400 * 86_400, ""),
        ] {
            assert_eq!(in_about(seconds), expected, "{seconds}");
        }
        assert_eq!(expected_start(None), "");
    }
}
