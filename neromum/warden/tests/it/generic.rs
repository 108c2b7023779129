//! Schedulers that a configuration describes.

use std::path::PathBuf;

use nero_warden::generic::{Generic, Recipe, RecipeError, WordValue};
use nero_warden::{
    CallOutput, End, Fields, Job, JobId, JobKey, JobName, Order, OrderError, Queue, QueueRow,
    Reason, Resources, SchedulerEnd, State, SubmissionResult, Tasks, Warden, Word,
};

use crate::recorded;

const ID: &str = "abcdefghijklmnopqrstuvwxyz";

fn named(recipe: &str) -> Generic {
    Generic::new(&Recipe::named(recipe).unwrap()).unwrap()
}

fn text(text: &str) -> WordValue {
    WordValue::Text(text.to_owned())
}

fn list(texts: &[&str]) -> WordValue {
    WordValue::List(texts.iter().map(|one| (*one).to_owned()).collect())
}

fn without_names() -> Recipe {
    let mut recipe = Recipe::default();
    for (word, value) in [
        ("name", text("Jobman")),
        ("submit", list(&["jobman", "submit", "{script}"])),
        ("id", text("^job (\\d+) queued")),
        ("job", text("JOBMAN_ID")),
        ("list", list(&["jobman", "list"])),
        ("row", text("^(?<id>\\d+) (?<state>\\w+)")),
        ("states.running", text("running")),
        ("cancel", list(&["jobman", "kill", "{id}"])),
    ] {
        recipe.set(word, value).unwrap();
    }
    recipe
}

fn order(tasks: Option<u32>) -> Order {
    Order {
        name: JobName::of(ID).unwrap(),
        tasks,
        at_once: tasks.map(|_| 2),
        resources: Resources {
            cpus: 4,
            memory_bytes: Some(3 << 30),
            time_s: Some(3_725),
            ..Resources::default()
        },
        fields: Fields::default(),
        setup: Vec::new(),
        job: Job {
            program: PathBuf::from("/home/ada/bin/neromum"),
            folder: PathBuf::from("/home/ada/s"),
            min_free: 64 << 20,
        },
    }
}

fn words(warden: &Generic, order: &Order) -> Vec<String> {
    let script = warden.script(order).unwrap();
    let call = warden.submit_call(order, &script);
    let words = call.words.iter().map(ToString::to_string);
    std::iter::once(call.program.to_string())
        .chain(words)
        .collect()
}

fn said(code: i32, out: &str, err: &str) -> CallOutput {
    CallOutput {
        end: End::Code(code),
        out: out.as_bytes().to_vec(),
        err: err.as_bytes().to_vec(),
    }
}

fn queue(warden: &Generic, out: &str, known: &[JobKey<'_>]) -> Queue {
    warden.read_queue(&[said(0, out, "")], known).unwrap()
}

#[test]
fn each_recipe_makes_a_scheduler_and_travels_as_one_line() {
    for name in Recipe::names() {
        let recipe = Recipe::named(name).unwrap();
        let line = recipe.text();
        assert!(!line.contains('\n'), "{name}");
        assert_eq!(Recipe::read(&line), Ok(recipe), "{name}");
        named(name).script(&order(None)).unwrap();
    }
}

#[test]
fn the_header_has_what_the_run_asks_for_and_no_line_about_anything_else() {
    let mut order = order(None);
    order.fields.queue = Some(Word::new("long").unwrap());
    let script = named("pbs").script(&order).unwrap();
    let lines: Vec<&str> = script.lines().collect();
    let expected = [
        "#!/bin/sh",
        "#PBS -N nero-abcdefghijklmnopqrstuvwxyz",
        "#PBS -j oe",
        "#PBS -o /home/ada/s/0.scheduler",
        "#PBS -r y",
        "#PBS -l ncpus=4",
        "#PBS -l mem=3072mb",
        "#PBS -l walltime=01:02:05",
        "#PBS -q long",
        "exec '/home/ada/bin/neromum' job '/home/ada/s' --task \"0\" --cpus 4 --memory 3221225472 \
         --min-free 67108864 --job \"${PBS_JOBID%%[!0-9]*}\"",
    ];
    assert_eq!(lines, expected);
    order.resources.exclusive = true;
    let script = named("pbs").script(&order).unwrap();
    assert!(script.contains("\n#PBS -l place=pack:excl\n"), "{script}");
}

#[test]
fn arrays_are_asked_for_in_the_header_or_in_the_command() {
    let order = order(Some(3));
    let script = named("pbs").script(&order).unwrap();
    assert!(script.contains("\n#PBS -J 1-3%2\n"), "{script}");
    assert!(
        script.contains("-o /home/ada/s/^array_index^.scheduler"),
        "no such file name"
    );
    assert!(script.contains("--task \"$PBS_ARRAY_INDEX\""), "{script}");
    let name = format!("nero-{ID}[1-3]%2");
    assert_eq!(words(&named("lsf"), &order), ["bsub", "-J", &name]);
}

#[test]
fn a_limit_of_tasks_is_known_to_be_passed_on_and_a_constraint_goes_into_the_header() {
    assert!(named("pbs").limits_arrays() && named("lsf").limits_arrays());
    assert!(!named("slurm-torque").limits_arrays());
    let mut recipe = Recipe::named("torque").unwrap();
    recipe
        .set("header", text("#PBS -l feature={constraint}"))
        .unwrap();
    let torque = Generic::new(&recipe).unwrap();
    let mut order = order(None);
    order.resources = Resources {
        cpus: 1,
        ..Resources::default()
    };
    order.fields.constraint = Some("ib".to_owned());
    let script = torque.script(&order).unwrap();
    assert!(script.contains("\n#PBS -l feature=ib\n"), "{script}");
    order.fields.constraint = Some("ib;rm".to_owned());
    assert!(torque.script(&order).is_err());
}

#[test]
fn what_a_run_asks_for_and_no_line_passes_on_is_refused() {
    let mut order = order(None);
    order.resources.gpus = 2;
    let torque = named("torque");
    let refused = torque.script(&order).unwrap_err();
    assert_eq!(
        refused,
        OrderError::NotPassed {
            field: "gpus",
            name: "gpus",
            here: "Torque".to_owned()
        }
    );
    let text = refused.to_string();
    assert!(
        text.contains("no line of its `header` contains {gpus}"),
        "{text}"
    );
    // The message names a place as lines of the `header` have it: `{memory_mb}`, not `{memory}`.
    let jobman = Generic::new(&without_names()).unwrap();
    (order.resources.gpus, order.resources.cpus) = (0, 1);
    order.resources.time_s = Some(60);
    for (memory_bytes, name) in [(Some(1 << 30), "{memory_mb}"), (None, "{time_minutes}")] {
        order.resources.memory_bytes = memory_bytes;
        let refused = jobman.script(&order).unwrap_err().to_string();
        assert!(refused.ends_with(name), "{refused}");
    }
}

#[test]
fn a_line_that_is_left_out_passes_nothing_on() {
    let mut recipe = without_names();
    let line = "#PBS -l select=1:ncpus={cpus}:ngpus={gpus}";
    recipe.set("header", list(&[line])).unwrap();
    let warden = Generic::new(&recipe).unwrap();
    let mut order = order(None);
    order.resources.gpus = 1;
    order.resources.memory_bytes = None;
    order.resources.time_s = None;
    assert!(warden.script(&order).unwrap().contains("ncpus=4:ngpus=1"));
    order.resources.gpus = 0;
    let refused = warden.script(&order).unwrap_err().to_string();
    assert!(refused.contains("{cpus}"), "{refused}");
}

#[test]
fn a_script_goes_by_its_file_where_the_command_asks_for_one() {
    let jobman = Generic::new(&without_names()).unwrap();
    let mut order = order(None);
    // Its configuration passes nothing on.
    order.resources = Resources {
        cpus: 1,
        ..Resources::default()
    };
    let expected = ["jobman", "submit", "/home/ada/s/script"];
    assert_eq!(words(&jobman, &order), expected);
    assert!(jobman.submit_call(&order, "x").input.is_empty());
    assert_eq!(named("pbs").submit_call(&order, "x").input, b"x");
}

#[test]
fn answers_to_a_submission_are_an_id_a_known_refusal_or_a_doubt() {
    let (pbs, lsf) = (named("pbs"), named("lsf"));
    assert_eq!(
        pbs.read_submit(&said(0, "71[].server.example.org\n", "")),
        SubmissionResult::Accepted(JobId(71))
    );
    assert_eq!(
        lsf.read_submit(&said(
            0,
            "note\nJob <9> is submitted to queue <normal>.\n",
            ""
        )),
        SubmissionResult::Accepted(JobId(9))
    );
    let unknown = "qsub: Unknown queue";
    assert_eq!(
        pbs.read_submit(&said(170, "", unknown)),
        SubmissionResult::Refused(unknown.to_owned())
    );
    for (code, out, err) in [(1, "", "cannot connect"), (0, "", ""), (1, "71.server", "")] {
        let answer = pbs.read_submit(&said(code, out, err));
        assert!(
            matches!(answer, SubmissionResult::Ambiguous(_)),
            "{answer:?}"
        );
    }
}

const PBS: &str = "\n\
rig: \n                       Req'd\n\
Job ID                 Username Queue Jobname         SessID NDS TSK Memory Time  S Time\n\
---------------------- -------- ----- --------------- ------ --- --- ------ ----- - -----\n\
7.rig                  ada      work  nero-abcdefghi*  4242   1   4  3072mb 01:02 R 00:00\n\
9[].rig                ada      work  nero-abcdefghi*     --  1   4  3072mb 01:02 B    --\n\
9[2].rig               ada      work  nero-abcdefghi*     --  1   4  3072mb 01:02 Q    --\n\
12.rig                 ada      work  STDIN               --  1   1     --  01:00 Z    --\n\
13.rig                 ada      work  nero-zzzzzzzzz*     --  1   1     --  01:00 R    --\n";

#[test]
fn rows_with_names_that_are_cut_are_told_apart() {
    let (name, other) = (
        JobName::of(ID).unwrap(),
        JobName::of(&"q".repeat(26)).unwrap(),
    );
    let known = [&name, &other].map(|name| JobKey { name, job: None });
    let pbs = named("pbs");
    let queue = queue(&pbs, PBS, &known);
    let row = |job, tasks: Option<u32>, state| QueueRow {
        name: name.clone(),
        job: JobId(job),
        tasks: tasks.map(Tasks::single),
        state,
        host: None,
        start_s: None,
    };
    let waits = State::Waiting(Reason::default());
    assert_eq!(
        queue.ours,
        [row(7, None, State::Running), row(9, Some(2), waits)]
    );
    assert_eq!((queue.foreign, queue.unreadable), (2, 0));
    let told = pbs.unread_lines(&[said(0, PBS, "")]);
    assert_eq!(told.len(), 4, "{told:?}");
    // Two submissions that begin alike cannot be told apart by a cut name.
    let twin = JobName::of("abcdefghijklmnopqrstuvwxy2").unwrap();
    let known = [&name, &twin].map(|name| JobKey { name, job: None });
    let queue = self::queue(&pbs, PBS, &known);
    assert_eq!(queue.ours, []);
    assert!(queue.hides(&name) && queue.hides(&twin));
}

#[test]
fn the_list_of_slurms_own_qstat_is_read_and_foreign_jobs_are_counted() {
    let of = |id: &str| JobName::of(id).unwrap();
    let (held, runs) = (
        of("heldabcdefghijklmnopqrstuv"),
        of("runabcdefghijklmnopqrstuvw"),
    );
    let ended = of("codeabcdefghijklmnopqrstuv");
    let known = [&held, &runs, &ended].map(|name| JobKey { name, job: None });
    let torque = named("slurm-torque");
    let told = recorded("slurm-torque-22.05", "queue");
    let queue = torque.read_queue(&[told], &known).unwrap();
    let states: Vec<(u64, &State)> = queue
        .ours
        .iter()
        .map(|row| (row.job.0, &row.state))
        .collect();
    let waits = State::Waiting(Reason::default());
    assert_eq!(
        states,
        [
            (9, &State::Running),
            (10, &State::Ended(SchedulerEnd::Completed)),
            (11, &waits)
        ]
    );
    assert_eq!((queue.foreign, queue.unreadable), (3, 0));
    assert_eq!(queue.hidden, []);
}

#[test]
fn jobs_are_found_by_their_numbers_where_the_list_shows_no_names() {
    let jobman = Generic::new(&without_names()).unwrap();
    assert!(!jobman.shows_names());
    let name = JobName::of(ID).unwrap();
    let job = Some(JobId(7));
    let known = [JobKey { name: &name, job }];
    let queue = queue(
        &jobman,
        "6 running\n7 thinking\x07hard\n7?\n8 running\n",
        &known,
    );
    assert!(queue.is_nameless);
    assert_eq!(queue.ours[0].state, State::Unknown("thinking".to_owned()));
    assert_eq!((queue.ours.len(), queue.foreign), (1, 2));
    assert!(
        queue.hides(&name),
        "a line about job 7 that no pattern reads"
    );
}

#[test]
fn waiting_jobs_and_tasks_are_held_by_the_words_of_the_recipe_and_by_none_without() {
    let row = |job: u64, tasks: Option<&str>| QueueRow {
        name: JobName::of(ID).unwrap(),
        job: JobId(job),
        tasks: tasks.map(|list| Tasks::read(list).unwrap()),
        state: State::Waiting(Reason::default()),
        host: None,
        start_s: None,
    };
    let (array, single) = (row(7, Some("1-3")), row(8, None));
    let seen = [(&array, Some(2)), (&single, None)];
    let words = |calls: Vec<nero_warden::Call>| -> Vec<String> {
        let one = |call: nero_warden::Call| {
            let mut line = call.program.into_owned();
            for word in &call.words {
                line.push(' ');
                line.push_str(word);
            }
            line
        };
        calls.into_iter().map(one).collect()
    };
    let lsf = named("lsf");
    assert_eq!(words(lsf.hold_calls(&seen)), ["bstop 7[2]", "bstop 8"]);
    assert_eq!(
        words(lsf.release_calls(&seen)),
        ["bresume 7[2]", "bresume 8"]
    );
    // OpenPBS holds no single task of an array.
    assert_eq!(named("pbs").hold_calls(&seen), []);
}

#[test]
fn an_answer_of_nothing_but_complaints_is_no_empty_queue() {
    let (pbs, lsf) = (named("pbs"), named("lsf"));
    let lost = "cannot connect to server";
    for said in [said(1, "", ""), said(0, "", lost), said(0, "x\n", lost)] {
        assert!(pbs.read_queue(&[said], &[]).is_err());
    }
    assert!(pbs.read_queue(&[said(0, "", "")], &[]).is_ok());
    let none = said(255, "", "No unfinished job found\n");
    assert_eq!(lsf.read_queue(&[none], &[]), Ok(Queue::default()));
    assert!(lsf.read_queue(&[said(255, "", lost)], &[]).is_err());
    let none = "No unfinished job found";
    let cut = CallOutput {
        end: End::TimedOut,
        ..said(0, "", none)
    };
    assert!(lsf.read_queue(&[cut], &[]).is_err(), "half of an answer");
}

#[test]
fn an_index_0_is_no_array_where_arrays_begin_with_1() {
    let lsf = named("lsf");
    let out = format!("7 0 EXIT nero-{ID}\n8 3 PEND nero-{ID}[3]\n");
    let queue = queue(&lsf, &out, &[]);
    assert_eq!(queue.ours[0].tasks, None);
    assert_eq!(queue.ours[0].state, State::Ended(SchedulerEnd::Failed));
    assert_eq!(queue.ours[1].tasks, Some(Tasks::single(3)));
    let cancel = |row: &QueueRow, task| {
        let call = lsf.cancel_call(row, task);
        call.words
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(cancel(&queue.ours[0], None), ["7"]);
    assert_eq!(cancel(&queue.ours[1], Some(3)), ["8[3]"]);
    assert_eq!(cancel(&queue.ours[1], None), ["8"]);
}

#[test]
fn words_that_cannot_be_used_are_refused() {
    let refused = |word: &str, value: WordValue| {
        let mut recipe = without_names();
        let set = recipe.set(word, value);
        set.and_then(|()| Generic::new(&recipe).map(drop))
            .unwrap_err()
            .to_string()
    };
    for (word, value, part) in [
        ("colour", text("x"), "is no word of a scheduler"),
        ("row", text("(?<id>"), "is no regular expression"),
        ("row", text("(?<id>\\d+)"), "needs the group (?<state>"),
        ("id", text("\\d+"), "needs the group ( )"),
        ("submit", text("qsub"), "takes a list of words"),
        ("submit", list(&["./qsub"]), "takes a list of words"),
        (
            "cancel",
            list(&["kill", "{job}"]),
            "{job} stands for nothing there; known are id, user",
        ),
        (
            "header",
            text("#PBS {walltime}"),
            "{walltime} stands for nothing",
        ),
        ("job", text("A;B"), "the name of a variable"),
        ("array.range", text("{first}"), "(?<task>"),
        ("array.max", text("many"), "a whole number"),
        ("hold", list(&["hold", "{id}"]), "belong together"),
    ] {
        let said = refused(word, value);
        assert!(said.contains(part), "{word}: {said}");
    }
    for word in ["submit", "id", "list", "row", "cancel", "job"] {
        let mut recipe = without_names();
        recipe.unset(word);
        let error = Generic::new(&recipe).unwrap_err();
        assert!(
            matches!(error, RecipeError::Missing { word: one, .. } if one == word),
            "{error}"
        );
    }
}
