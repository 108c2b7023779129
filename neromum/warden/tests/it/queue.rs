//! Where jobs stand, and how they ended.

use nero_warden::oge::Oge;
use nero_warden::slurm::Slurm;
use nero_warden::{
    CallOutput, End, JobId, JobName, Queue, QueueRow, Reason, Record, SchedulerEnd, State, Tasks,
    Warden,
};

use crate::{known, recorded};

const ARRAY: &str = "nero-abcdefghijklmnopqrstuvwxyz";

fn name(short: &str) -> JobName {
    match short {
        "array" => JobName::read(ARRAY).unwrap(),
        short => JobName::read(&format!("nero-{short}{}", "2".repeat(22))).unwrap(),
    }
}

fn ended(short: &str) -> JobName {
    JobName::read(&format!("nero-{short}{}", "3".repeat(22))).unwrap()
}

fn only<'a>(queue: &'a Queue, name: &JobName) -> &'a QueueRow {
    let mut rows = queue.ours.iter().filter(|row| row.name == *name);
    let row = rows.next().unwrap_or_else(|| panic!("no {name}"));
    assert!(rows.next().is_none(), "several of {name}");
    row
}

/// Both ways to ask, of both clusters, answer the same.
fn slurm_queues() -> Vec<Queue> {
    let mut queues = Vec::new();
    for scheduler in ["slurm-22.05", "slurm-22.05-no-accounting"] {
        let json = [recorded(scheduler, "queue.json")];
        queues.push(Slurm::default().read_queue(&json, &[]).unwrap());
    }
    queues
}

#[test]
fn slurm_tells_where_each_job_and_each_task_stands() {
    for queue in slurm_queues() {
        assert_eq!(queue.unreadable, 0);
        let array = name("array");
        let states: Vec<(u64, bool, State)> = queue
            .of(&array)
            .map(|row| {
                let tasks = row.tasks.as_ref().unwrap();
                (tasks.count(), tasks.contains(5), row.state.clone())
            })
            .collect();
        let limit = Reason {
            word: "JobArrayTaskLimit".to_owned(),
            never_passes: false,
        };
        assert!(states.contains(&(1, false, State::Running)), "{states:?}");
        assert!(
            states.contains(&(3, true, State::Waiting(limit))),
            "{states:?}"
        );
        assert!(queue.of(&array).all(|row| row.job == JobId(1)));
        let never = |word: &str| {
            State::Waiting(Reason {
                word: word.to_owned(),
                never_passes: true,
            })
        };
        assert_eq!(
            only(&queue, &name("five")).state,
            never("PartitionNodeLimit")
        );
        let held = State::Held(Reason {
            word: "JobHeldUser".to_owned(),
            never_passes: false,
        });
        assert_eq!(only(&queue, &name("held")).state, held);
        for (short, how) in [
            ("code", SchedulerEnd::Failed),
            ("good", SchedulerEnd::Completed),
            ("kill", SchedulerEnd::Failed),
            ("memo", SchedulerEnd::OutOfMemory),
        ] {
            assert_eq!(
                only(&queue, &ended(short)).state,
                State::Ended(how),
                "{short}"
            );
        }
        let requeued = only(&queue, &ended("requ"));
        assert!(matches!(requeued.state, State::Waiting(_)), "{requeued:?}");
    }
}

#[test]
fn a_job_whose_name_is_a_row_of_another_is_counted_and_not_believed() {
    for queue in slurm_queues() {
        assert_eq!(queue.foreign, 1, "the forged one");
        // Six tasks of an array less one cancelled, six single jobs, the forged one.
        assert_eq!(queue.of(&name("array")).count(), 3);
        assert!(queue.not_ended() >= 10, "{}", queue.not_ended());
    }
}

#[test]
fn newer_json_reads_as_the_older_does() {
    let newer = br#"{"jobs":[
      {"name":"nero-abcdefghijklmnopqrstuvwxyz","job_id":7,
       "array_job_id":{"set":true,"infinite":false,"number":7},
       "array_task_id":{"set":true,"infinite":false,"number":3},
       "array_task_string":"","job_state":["COMPLETED","COMPLETING"],
       "state_reason":"None","batch_host":"n1","start_time":{"set":true,"infinite":false,"number":5}},
      {"name":"nero-abcdefghijklmnopqrstuvwxyz","job_id":7,
       "array_job_id":{"set":true,"infinite":false,"number":7},
       "array_task_id":{"set":false,"infinite":false,"number":0},
       "array_task_string":"4-9%2","job_state":["PENDING"],"state_reason":"Priority"},
      {"name":"nero-abcdefghijklmnopqrstuvwxyz","job_id":9,
       "array_job_id":{"set":true,"infinite":false,"number":0},
       "array_task_id":{"set":false,"infinite":false,"number":0},
       "array_task_string":null,"job_state":["FROBNICATING"],"state_reason":null},
      {"name":5,"job_id":"x"}
    ]}"#;
    let said = CallOutput {
        end: End::Code(0),
        out: newer.to_vec(),
        err: Vec::new(),
    };
    let queue = Slurm::default().read_queue(&[said], &[]).unwrap();
    let [ending, waiting, unknown] = &queue.ours[..] else {
        panic!("{queue:?}");
    };
    assert_eq!((ending.job, &ending.state), (JobId(7), &State::Ending));
    assert_eq!(waiting.tasks.as_ref().unwrap().count(), 6);
    assert_eq!(unknown.state, State::Unknown("FROBNICATING".to_owned()));
    assert_eq!((unknown.job, unknown.tasks.is_none()), (JobId(9), true));
    assert_eq!(queue.unreadable, 1);
}

#[test]
fn slurm_without_json_tells_the_same_of_the_named_submissions() {
    let said = ["queue.plain", "queue.count"].map(|name| recorded("slurm-22.05", name));
    let (array, held) = (name("array"), name("held"));
    let plain = Slurm { is_plain: true };
    let names = [&array, &held];
    let queue = plain.read_queue(&said, &known(&names)).unwrap();
    assert_eq!(queue.of(&array).count(), 3);
    assert!(matches!(only(&queue, &held).state, State::Held(_)));
    assert_eq!(
        (queue.not_ended(), queue.foreign, queue.unreadable),
        (11, 5, 0)
    );
    let calls = plain.queue_calls(&names);
    let filter = format!("--name={array},{held}");
    assert!(
        calls[0].words.iter().any(|word| *word == filter),
        "{calls:?}"
    );
}

#[test]
fn an_answer_that_was_cut_or_refused_is_no_empty_queue() {
    let whole = recorded("slurm-22.05", "queue.json");
    for length in [0, 1, 500, whole.out.len() - 3] {
        let mut cut = whole.clone();
        cut.out.truncate(length);
        assert!(
            Slurm::default().read_queue(&[cut], &[]).is_err(),
            "{length}"
        );
    }
    let whole = recorded("gridengine-8.1.9", "queue.xml");
    for length in [0, 1, 500, whole.out.len() - 3] {
        let mut cut = whole.clone();
        cut.out.truncate(length);
        assert!(Oge::default().read_queue(&[cut], &[]).is_err(), "{length}");
    }
    let gone = recorded("slurm-22.05", "gone");
    assert!(Slurm::default().read_queue(&[gone], &[]).is_err());
    assert!(Slurm::default().read_queue(&[], &[]).is_err());
}

#[test]
fn grid_engine_tells_where_each_job_and_each_task_stands() {
    let said = [recorded("gridengine-8.1.9", "queue.xml")];
    let queue = Oge::default().read_queue(&said, &[]).unwrap();
    assert_eq!((queue.unreadable, queue.foreign), (0, 0));
    let array = name("array");
    let mut tasks: Vec<(u64, State)> = queue
        .of(&array)
        .map(|row| (row.tasks.as_ref().unwrap().count(), row.state.clone()))
        .collect();
    tasks.sort_by_key(|(count, _)| *count);
    let waiting = State::Waiting(Reason::default());
    assert_eq!(
        tasks,
        [
            (1, State::Running),
            (1, State::Running),
            (3, waiting.clone())
        ]
    );
    assert_eq!(only(&queue, &ended("susp")).state, State::Suspended);
    assert_eq!(only(&queue, &ended("requ")).state, waiting);
    let error = &only(&queue, &ended("erro")).state;
    assert!(
        matches!(error, State::Held(reason) if reason.never_passes),
        "{error:?}"
    );
    assert!(matches!(only(&queue, &name("held")).state, State::Held(_)));
}

#[test]
fn unknown_letters_and_words_are_shown_and_end_nothing() {
    assert_eq!(
        nero_warden::oge::state("qwZ"),
        State::Unknown("qwZ".to_owned())
    );
    assert_eq!(nero_warden::oge::state(""), State::Unknown(String::new()));
    assert_eq!(nero_warden::oge::state("dr"), State::Ending);
    assert_eq!(nero_warden::oge::state("Rr"), State::Running);
    let unknown = nero_warden::slurm::state("COMPLETED\u{7}X", "");
    assert_eq!(unknown, State::Unknown("COMPLETEDX".to_owned()));
}

#[test]
fn reasons_that_do_not_pass_by_waiting_are_known_by_the_form_of_the_word() {
    // Strings of libslurmfull.so 22.05.8.
    for word in [
        "AssocGrpCPUMinutesLimit",
        "AssocGrpEnergyMinutes",
        "AssocGrpLicenseMinutes",
        "AssocGrpMemMinutes",
        "AssocGrpNodeMinutes",
        "AssocGrpWallLimit",
        "AssocMaxCpuMinutesPerJobLimit",
        "AssocMaxCpuPerJobLimit",
        "AssocMaxCpuPerNode",
        "AssocMaxGRESMinutesPerJob",
        "AssocMaxGRESPerJob",
        "AssocMaxMemPerJob",
        "AssocMaxNodePerJobLimit",
        "AssocMaxWallDurationPerJobLimit",
        "MaxMemPerLimit",
        "PartitionTimeLimit",
        "QOSGrpCPUMinutesLimit",
        "QOSGrpMemoryMinutes",
        "QOSMaxCpuPerNode",
        "QOSMaxGRESPerJob",
        "QOSMaxGRESPerNode",
        "QOSMaxMemoryPerJob",
        "QOSMaxMemoryPerNode",
        "QOSMaxWallDurationPerJobLimit",
        "QOSMinCpuNotSatisfied",
        "QOSMinGRES",
        "QOSMinMemory",
        "QOSMinNode",
        "QOSNotAllowed",
        "QOSUsageThreshold",
        "ReservationDeleted",
    ] {
        assert!(nero_warden::slurm::never_passes(word), "{word}");
    }
    for word in [
        "",
        "AssocGrpCPURunMinutesLimit",
        "AssocGrpCpuLimit",
        "AssocGrpGRES",
        "AssocGrpJobsLimit",
        "AssocGrpSubmitJobsLimit",
        "AssocMaxJobsLimit",
        "AssocMaxSubmitJobLimit",
        "AssociationJobLimit",
        "FedJobLock",
        "JobArrayTaskLimit",
        "MaxGRESPerAccount",
        "MaxJobsPerAccount",
        "Priority",
        "QOSGrpMemoryRunMinutes",
        "QOSGrpNodeLimit",
        "QOSJobLimit",
        "QOSMaxCpuPerUserLimit",
        "QOSMaxGRESPerUser",
        "QOSMaxJobsPerUserLimit",
        "QOSMaxSubmitJobPerUserLimit",
        "QOSResourceLimit",
        "ReqNodeNotAvail",
        "Resources",
    ] {
        assert!(!nero_warden::slurm::never_passes(word), "{word}");
    }
}

#[test]
fn every_documented_state_of_slurm_is_known() {
    // squeue(1) of 25.05, JOB STATE CODES, and sacct(1).
    for word in [
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "CONFIGURING",
        "COMPLETING",
        "DEADLINE",
        "EXPEDITING",
        "FAILED",
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PENDING",
        "POWER_UP_NODE",
        "PREEMPTED",
        "RECONFIG_FAIL",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESIZING",
        "RESV_DEL_HOLD",
        "REVOKED",
        "RUNNING",
        "SIGNALING",
        "SPECIAL_EXIT",
        "STAGE_OUT",
        "STOPPED",
        "SUSPENDED",
        "TIMEOUT",
        "UPDATE_DB",
        "CANCELLED by 61001",
    ] {
        let state = nero_warden::slurm::state(word, "None");
        assert!(!matches!(state, State::Unknown(_)), "{word}");
    }
}

fn slurm_queue(jobs: &str) -> Queue {
    let said = CallOutput {
        end: End::Code(0),
        out: format!("{{\"jobs\":[{jobs}]}}").into_bytes(),
        err: Vec::new(),
    };
    Slurm::default().read_queue(&[said], &[]).unwrap()
}

#[test]
fn a_job_of_something_else_that_cannot_be_read_hides_nothing_of_ours() {
    let cut = r#"{"name":"x","job_id":7,"array_job_id":7,"array_task_string":"1,3,...",
        "job_state":"PENDING","state_reason":"None"}"#;
    let newer = r#"{"name":"x","job_id":"seven","job_state":{"current":1}}"#;
    let queue = slurm_queue(&format!("{cut},{newer}"));
    assert_eq!((queue.foreign, queue.unreadable), (2, 0));
    let queue = slurm_queue(&format!("{cut},{newer}").replace("\"x\"", &format!("\"{ARRAY}\"")));
    assert_eq!((queue.foreign, queue.unreadable), (0, 0));
    assert_eq!(queue.hidden, [name("array"), name("array")]);
}

#[test]
fn a_hundred_thousand_jobs_of_something_else_are_counted_and_hide_nothing_of_ours() {
    const MANY: usize = 100_000;
    let row = |name: &str, id: usize| {
        format!(r#"{{"name": "{name}", "job_id": {id}, "job_state": "PENDING"}}"#)
    };
    let mut rows: Vec<String> = (1..=MANY).map(|id| row("sweep", id)).collect();
    rows.insert(MANY / 2, row(ARRAY, MANY + 1));
    let queue = slurm_queue(&rows.join(","));
    assert_eq!(queue.ours.len(), 1);
    assert_eq!(queue.ours[0].name, name("array"));
    assert_eq!(queue.foreign, MANY as u64);

    let counted = CallOutput {
        end: End::Code(0),
        out: "0-9\nN/A\n".repeat(MANY / 2).into_bytes(),
        err: Vec::new(),
    };
    let slurm = Slurm::default();
    assert_eq!(slurm.read_count(&[counted]).unwrap(), 11 * MANY as u64 / 2);
}

#[test]
fn an_array_of_which_the_last_tasks_were_cancelled_while_they_waited_is_read() {
    let queue = slurm_queue(&format!(
        r#"{{"name":"{ARRAY}","job_id":1,"array_job_id":1,"array_task_id":null,
            "array_task_string":"","job_state":"CANCELLED","state_reason":"None"}}"#
    ));
    assert!(queue.hidden.is_empty(), "{queue:?}");
    assert_eq!(only(&queue, &name("array")).tasks, Some(Tasks::default()));
    let plain = Slurm { is_plain: true };
    let said = [
        format!("1|N/A|CANCELLED|None|n/a|{ARRAY}\n1|0|RUNNING|None|c0n1|{ARRAY}\n"),
        "RUNNING|1\n".to_owned(),
    ];
    let said = said.map(|text| CallOutput {
        end: End::Code(0),
        out: text.into_bytes(),
        err: Vec::new(),
    });
    let queue = plain.read_queue(&said, &known(&[&name("array")])).unwrap();
    assert_eq!(queue.ours[0].tasks, Some(Tasks::default()));
    assert_eq!(queue.not_ended(), 1);
}

#[test]
fn a_job_that_is_requeued_after_its_host_failed_did_not_end() {
    let queue = slurm_queue(&format!(
        r#"{{"name":"{ARRAY}","job_id":7,"job_state":["NODE_FAIL","REQUEUED"]}}"#
    ));
    assert_eq!(queue.ours[0].state, State::Ended(SchedulerEnd::Requeued));
}

#[test]
fn a_flag_tells_more_of_a_live_job_than_its_base_state() {
    let held = |word: &str| {
        State::Held(Reason {
            word: word.to_owned(),
            never_passes: false,
        })
    };
    for (words, state) in [
        (r#"["RUNNING","STOPPED"]"#, State::Suspended),
        (r#"["RUNNING","CONFIGURING"]"#, State::Starting),
        (r#"["PENDING","REQUEUE_HOLD"]"#, held("")),
        (r#"["RUNNING","SIGNALING"]"#, State::Running),
        (r#"["RUNNING","CONFIGURING","COMPLETING"]"#, State::Ending),
        (
            r#"["FAILED","STOPPED"]"#,
            State::Ended(SchedulerEnd::Failed),
        ),
    ] {
        let queue = slurm_queue(&format!(
            r#"{{"name":"{ARRAY}","job_id":7,"job_state":{words}}}"#
        ));
        assert_eq!(queue.ours[0].state, state, "{words}");
    }
}

#[test]
fn slurm_built_without_json_is_asked_for_plain_rows_and_a_failure_of_another_kind_is_no_reason() {
    let failed = |code: i32, err: &str| CallOutput {
        end: End::Code(code),
        out: Vec::new(),
        err: err.as_bytes().to_vec(),
    };
    let slurm = Slurm::default();
    for text in [
        "squeue: unrecognized option '--json'\nTry \"squeue --help\" for more information",
        "squeue: error: cannot find serializer plugin for serializer/json",
    ] {
        let plain = slurm.without_json(&[failed(1, text)]).expect(text);
        let all = plain.queue_calls(&[]);
        assert_eq!(all.len(), 1, "no name, no question for names: {all:?}");
        assert!(plain.without_json(&[failed(1, text)]).is_none());
    }
    let away = "slurm_load_jobs error: Unable to contact slurm controller";
    assert!(slurm.without_json(&[failed(1, away)]).is_none());
    assert!(slurm.without_json(&[failed(0, "json")]).is_none());
}

#[test]
fn any_number_of_submissions_fits_into_commands_of_plain_slurm() {
    let plain = Slurm { is_plain: true };
    let names = vec![name("array"); 5000];
    let names: Vec<&JobName> = names.iter().collect();
    let calls = plain.queue_calls(&names);
    let longest = calls
        .iter()
        .flat_map(|call| &call.words)
        .map(|word| word.len());
    assert!(longest.max().unwrap() < 128 << 10);
    let whole: Vec<CallOutput> = calls
        .iter()
        .map(|_| recorded("slurm-22.05", "queue.count"))
        .collect();
    assert!(
        plain.read_queue(&whole[1..], &known(&names)).is_err(),
        "an answer is missing"
    );
}

fn record<'a>(records: &'a [Record], name: &JobName) -> Vec<&'a Record> {
    records
        .iter()
        .filter(|record| record.name == *name)
        .collect()
}

#[test]
fn slurms_accounting_tells_ends_and_codes_of_our_submissions_alone() {
    let said = [recorded("slurm-22.05", "accounting.txt")];
    let (code, kill, memo, gone, requ) = (
        ended("code"),
        ended("kill"),
        ended("memo"),
        name("gone"),
        ended("requ"),
    );
    let names = [&code, &kill, &memo, &gone, &requ];
    let records = Slurm::default().read_ends(&said, &names).unwrap();
    let of = |name: &JobName| {
        let found = record(&records, name);
        assert_eq!(found.len(), 1, "{name}");
        (found[0].state.clone(), found[0].exit)
    };
    assert_eq!(
        of(&code),
        (State::Ended(SchedulerEnd::Failed), Some((3, 0)))
    );
    assert_eq!(
        of(&kill),
        (State::Ended(SchedulerEnd::Failed), Some((0, 9)))
    );
    assert_eq!(
        of(&memo),
        (State::Ended(SchedulerEnd::OutOfMemory), Some((0, 125)))
    );
    let by_root = State::Ended(SchedulerEnd::Cancelled { by: Some(0) });
    assert_eq!(of(&gone).0, by_root);
    assert_eq!(of(&requ).0, State::Ended(SchedulerEnd::Requeued));
    let array = name("array");
    let only_array = Slurm::default().read_ends(&said, &[&array]).unwrap();
    assert_eq!(only_array.len(), 2);
    assert!(
        only_array
            .iter()
            .all(|record| record.name == array && record.task.is_some())
    );
}

#[test]
fn accounting_that_is_absent_is_no_accounting_without_records() {
    let said = [recorded("slurm-22.05-no-accounting", "accounting.txt")];
    let error = Slurm::default().read_ends(&said, &[]).unwrap_err();
    assert!(
        error.to_string().contains("accounting storage is disabled"),
        "{error}"
    );
}

#[test]
fn grid_engines_accounting_takes_a_rescheduling_for_no_end() {
    let said = recorded("gridengine-8.1.9", "accounting");
    let ends = |name: JobName| {
        let records = Oge::default()
            .read_ends(std::slice::from_ref(&said), &[&name])
            .unwrap();
        let ends = records
            .into_iter()
            .map(|record| (record.state, record.exit));
        ends.collect::<Vec<_>>()
    };
    let failed = State::Ended(SchedulerEnd::Failed);
    let again = State::Ended(SchedulerEnd::Requeued);
    assert_eq!(ends(ended("code")), [(failed.clone(), Some((3, 0)))]);
    assert_eq!(ends(ended("gone")), [(failed, Some((0, 9)))]);
    assert_eq!(ends(ended("resc")).len(), 2);
    assert!(ends(ended("resc")).iter().all(|(state, _)| *state == again));
    assert_eq!(ends(ended("requ")), [(again.clone(), Some((0, 0)))]);
    assert_eq!(ends(ended("erro")), [(again, Some((100, 0)))]);
    assert_eq!(ends(name("held")), []);
}

#[test]
fn grid_engines_accounting_without_a_record_is_an_answer() {
    let code = ended("code");
    let said = |out: &str, err: &str| CallOutput {
        end: End::Code(1),
        out: out.as_bytes().to_vec(),
        err: err.as_bytes().to_vec(),
    };
    let none = said("", &format!("error: job name {code} not found\n"));
    assert_eq!(Oge::default().read_ends(&[none], &[&code]), Ok(Vec::new()));
    let file = "common/accounting: No such file or directory\n";
    let first = said("no jobs running since startup\n", file);
    assert_eq!(Oge::default().read_ends(&[first], &[&code]), Ok(Vec::new()));
    assert!(
        Oge::default()
            .read_ends(&[said("", file)], &[&code])
            .is_err()
    );
    // One of several questions that is not answered takes nothing from the others.
    let told = recorded("gridengine-8.1.9", "accounting");
    let lost = name("lost");
    let records = Oge::default().read_ends(&[said("", file), told], &[&lost, &code]);
    assert_eq!(records.map(|records| records.len()), Ok(1));
}

#[test]
fn lines_of_a_wrapper_around_a_queue_are_passed_over_and_quoted_where_there_is_no_queue() {
    let around = |said: &CallOutput| CallOutput {
        out: [b"notice: mirrored every 10 s\n", &*said.out, b"\nbye\n"].concat(),
        ..said.clone()
    };
    let json = recorded("slurm-22.05", "queue.json");
    let read = |said: &CallOutput| Slurm::default().read_queue(std::slice::from_ref(said), &[]);
    assert_eq!(read(&around(&json)).unwrap(), read(&json).unwrap());
    let nothing = CallOutput {
        out: b"notice: mirrored\n".to_vec(),
        ..json.clone()
    };
    let told = read(&nothing).unwrap_err().to_string();
    assert!(
        told.contains("it begins with \"notice: mirrored\""),
        "{told}"
    );
    let cut = CallOutput {
        out: json.out[..json.out.len() / 2].to_vec(),
        ..json
    };
    assert!(read(&cut).is_err());
    let xml = recorded("gridengine-8.1.9", "queue.xml");
    let read = |said: &CallOutput| Oge::default().read_queue(std::slice::from_ref(said), &[]);
    assert_eq!(read(&around(&xml)).unwrap(), read(&xml).unwrap());
}
