//! Jobs that a person submitted, as the recordings show them.

use nero_warden::oge::Oge;
use nero_warden::slurm::Slurm;
use nero_warden::{
    AdoptedJobRef, AdoptedJobState, CallOutput, End, JobId, JobName, JobRef, NotFound,
    SchedulerEnd, State, Warden,
};

use crate::recorded;

const SLURM: &str = "slurm-22.05";
const OGE: &str = "gridengine-8.1.9";
/// When the recorded jobs were submitted.
const SLURM_S: i64 = 1_795_502_856;
const OGE_S: i64 = 1_795_502_859;

fn name(letter: char) -> JobName {
    JobName::of(&letter.to_string().repeat(26)).unwrap()
}

fn job(job: u64, task: Option<u32>) -> JobRef {
    JobRef {
        job: JobId(job),
        task,
    }
}

fn adopted(name: &JobName, job: JobRef, submitted_s: i64) -> AdoptedJobRef<'_> {
    AdoptedJobRef {
        name,
        job,
        submitted_s,
    }
}

/// The only sighting of a submission.
#[track_caller]
fn only<'a>(all: &'a [AdoptedJobState], name: &JobName) -> &'a AdoptedJobState {
    let found: Vec<&AdoptedJobState> = all.iter().filter(|one| one.row.name == *name).collect();
    assert_eq!(found.len(), 1, "{all:?}");
    found[0]
}

#[test]
fn jobs_of_slurm_are_seen_with_their_times_and_codes() {
    let (runs, task, waits, fails, signal) =
        (name('a'), name('b'), name('c'), name('d'), name('e'));
    let all = [
        adopted(&runs, job(11, None), SLURM_S),
        adopted(&task, job(12, Some(0)), SLURM_S),
        adopted(&waits, job(12, Some(2)), SLURM_S),
        adopted(&fails, job(14, None), SLURM_S),
        adopted(&signal, job(15, None), SLURM_S),
    ];
    let json = [recorded(SLURM, "adopted.json")];
    let seen = Slurm::default().read_adopted(&json, &[], &all).unwrap();
    let plain = [recorded(SLURM, "adopted.plain")];
    let without_json = Slurm { is_plain: true };
    let plain = without_json.read_adopted(&[], &plain, &all).unwrap();
    for seen in [&seen, &plain] {
        let one = only(seen, &runs);
        assert_eq!(one.row.state, State::Running);
        assert!(one.began());
        assert_eq!(one.row.start_s, Some(SLURM_S));
        assert_eq!(one.row.host.as_ref().unwrap().as_str(), "c0n1");
        assert_eq!((one.ended_s, one.exit), (None, None));
        let one = only(seen, &task);
        assert_eq!(one.row.job, JobId(12));
        assert!(one.row.tasks.as_ref().unwrap().contains(0) && one.began());
        let one = only(seen, &waits);
        assert!(matches!(one.row.state, State::Waiting(_)) && !one.began());
        let one = only(seen, &fails);
        assert_eq!(one.row.state, State::Ended(SchedulerEnd::Failed));
        assert_eq!(one.ended_s, Some(SLURM_S));
    }
    assert_eq!(only(&seen, &fails).exit, Some((3, 0)));
    assert_eq!(only(&seen, &signal).exit, Some((0, 11)));
    let ends = [recorded(SLURM, "adopted.ends")];
    let ends = Slurm::default().read_adopted_ends(&ends, &all).unwrap();
    assert_eq!(only(&ends, &fails).exit, Some((3, 0)));
    assert_eq!(only(&ends, &signal).exit, Some((0, 11)));
    assert!(!only(&ends, &waits).began(), "it has no host");
}

#[test]
fn a_job_of_another_time_is_another_job() {
    let (before, after, requeued) = (name('a'), name('b'), name('c'));
    let all = [
        adopted(&before, job(11, None), SLURM_S - 1),
        adopted(&after, job(12, Some(0)), SLURM_S + 1),
        adopted(&requeued, job(16, None), SLURM_S),
    ];
    let json = [recorded(SLURM, "adopted.json")];
    assert_eq!(
        Slurm::default().read_adopted(&json, &[], &all),
        Ok(Vec::new())
    );
    let plain = Slurm { is_plain: true };
    let rows = [recorded(SLURM, "adopted.plain")];
    assert_eq!(plain.read_adopted(&[], &rows, &all), Ok(Vec::new()));
    let ends = [recorded(SLURM, "adopted.ends")];
    let ends = Slurm::default().read_adopted_ends(&ends, &all).unwrap();
    // SLURM gives a job a new time when it goes back into the queue.
    let one = only(&ends, &requeued);
    assert_eq!(one.row.state, State::Ended(SchedulerEnd::Requeued));
    assert_eq!(ends.len(), 1);

    let all = [adopted(&before, job(5, None), OGE_S - 1)];
    let listing = [recorded(OGE, "adopted.xml")];
    let details = [recorded(OGE, "adopted.details")];
    assert_eq!(
        Oge::default().read_adopted(&listing, &details, &all),
        Ok(Vec::new())
    );
    let all = [adopted(&before, job(8, None), OGE_S + 1)];
    let ends = [recorded(OGE, "adopted.ends")];
    assert_eq!(
        Oge::default().read_adopted_ends(&ends, &all),
        Ok(Vec::new())
    );
}

#[test]
fn jobs_of_grid_engine_are_seen_with_their_times_and_codes() {
    let (runs, task, waits, held, ended) = (name('a'), name('b'), name('c'), name('d'), name('e'));
    let all = [
        adopted(&runs, job(5, None), OGE_S),
        adopted(&task, job(6, Some(2)), OGE_S),
        adopted(&waits, job(6, Some(6)), OGE_S),
        adopted(&held, job(7, None), OGE_S),
        adopted(&ended, job(8, None), OGE_S),
    ];
    let listing = [recorded(OGE, "adopted.xml")];
    let details = [recorded(OGE, "adopted.details")];
    let seen = Oge::default()
        .read_adopted(&listing, &details, &all)
        .unwrap();
    let one = only(&seen, &runs);
    assert!(one.began());
    assert_eq!(one.row.start_s, Some(OGE_S));
    assert_eq!(one.row.host.as_ref().unwrap().as_str(), "h1");
    assert!(only(&seen, &task).began());
    assert!(matches!(only(&seen, &waits).row.state, State::Waiting(_)));
    assert!(matches!(only(&seen, &held).row.state, State::Held(_)));
    assert!(!seen.iter().any(|one| one.row.name == ended));
    let ends = [recorded(OGE, "adopted.ends")];
    let ends = Oge::default().read_adopted_ends(&ends, &all[4..]).unwrap();
    let one = only(&ends, &ended);
    assert_eq!(one.exit, Some((3, 0)));
    assert_eq!(
        (one.row.start_s, one.ended_s),
        (Some(OGE_S), Some(OGE_S + 2))
    );
    let none = CallOutput {
        end: End::Code(1),
        out: Vec::new(),
        err: b"error: job id 9 not found\n".to_vec(),
    };
    assert_eq!(
        Oge::default().read_adopted_ends(&[none], &all[..1]),
        Ok(Vec::new())
    );
}

#[test]
fn a_job_of_slurm_is_found_by_its_number_with_its_log() {
    let json = [recorded(SLURM, "adopted.json")];
    let find = |asked| Slurm::default().read_found(&json, asked);
    let found = find(job(11, None)).unwrap();
    assert_eq!((found.name.as_str(), found.uid), ("a job", Some(0)));
    assert_eq!((found.submitted_s, found.has_ended), (SLURM_S, false));
    assert_eq!(found.folder, "/srv/rig");
    let log = "/srv/rig/log-a job-00011-c0n1.txt";
    assert_eq!(found.stdout.as_deref(), Ok(log));
    assert_eq!(found.stderr, None);
    let found = find(job(13, None)).unwrap();
    assert_eq!(found.stdout.as_deref(), Ok("/srv/rig/slurm-13.out"));
    assert_eq!(found.stderr.as_deref(), Some("/srv/rig/err.txt"));
    assert!(find(job(14, None)).unwrap().has_ended);

    // Each task has a number of its own, too.
    for asked in [job(12, Some(0)), job(17, None)] {
        let found = find(asked).unwrap();
        assert_eq!(found.job, job(12, Some(0)));
        assert_eq!(found.stdout.as_deref(), Ok("/srv/rig/slurm-12_0.out"));
    }
    let found = find(job(12, Some(3))).unwrap();
    assert_eq!(found.stdout.as_deref(), Ok("/srv/rig/slurm-12_3.out"));
    let array = find(job(12, None)).unwrap_err();
    assert!(
        matches!(&array, NotFound::Array(has) if has.contains("1-3")),
        "{array}"
    );
    assert!(matches!(find(job(12, Some(9))), Err(NotFound::Task(_))));
    assert_eq!(find(job(99, None)), Err(NotFound::Absent));
    let none = CallOutput {
        end: End::Code(1),
        out: Vec::new(),
        err: b"slurm_load_jobs error: Invalid job id specified\n".to_vec(),
    };
    let unknown = Slurm::default().read_found(&[none], job(99, None));
    assert_eq!(unknown, Err(NotFound::Absent));
}

#[test]
fn a_job_of_grid_engine_is_found_by_its_number_with_its_log() {
    let find = |file: &str, asked| Oge::default().read_found(&[recorded(OGE, file)], asked);
    let found = find("job.5.xml", job(5, None)).unwrap();
    assert_eq!(
        (found.name.as_str(), found.owner.as_str()),
        ("gjob", "root")
    );
    assert_eq!((found.submitted_s, found.uid), (OGE_S, Some(0)));
    assert_eq!(found.stdout.as_deref(), Ok("/srv/rig/g.5.txt"));
    assert_eq!(found.stderr, None);
    let found = find("job.6.xml", job(6, Some(4))).unwrap();
    assert_eq!(found.stdout.as_deref(), Ok("/srv/rig/garr.o6.4"));
    assert_eq!(found.stderr.as_deref(), Some("/srv/rig/garr.e6.4"));
    let array = find("job.6.xml", job(6, None)).unwrap_err();
    assert!(
        matches!(&array, NotFound::Array(has) if has == "2-6:2"),
        "{array}"
    );
    assert!(matches!(
        find("job.6.xml", job(6, Some(3))),
        Err(NotFound::Task(_))
    ));
    // It was submitted without `-cwd`.
    let found = find("job.7.xml", job(7, None)).unwrap();
    assert_eq!(found.stdout.as_deref(), Ok("/root/gheld.o7"));
    assert_eq!(find("job.none.xml", job(99, None)), Err(NotFound::Absent));
}

#[test]
fn one_adopted_task_is_cancelled_by_its_own_number() {
    let one = name('a');
    let all = [adopted(&one, job(12, Some(2)), SLURM_S)];
    let json = [recorded(SLURM, "adopted.json")];
    let seen = Slurm::default().read_adopted(&json, &[], &all).unwrap();
    let words = |calls: Vec<nero_warden::Call>| {
        assert_eq!(calls.len(), 1);
        calls[0].words.join(" ")
    };
    let row = &only(&seen, &one).row;
    let calls = Slurm::default().cancel_adopted_calls(&[(row, Some(2))]);
    assert_eq!(words(calls), "12_2");
    assert_eq!(
        words(Oge::default().cancel_adopted_calls(&[(row, Some(2))])),
        "12.2"
    );
    assert_eq!(
        words(Oge::default().cancel_adopted_calls(&[(row, None)])),
        "12"
    );
}
