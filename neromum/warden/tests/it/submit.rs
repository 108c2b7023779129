//! Scripts, commands, and the answers to them.

use std::path::PathBuf;

use nero_warden::oge::Oge;
use nero_warden::slurm::Slurm;
use nero_warden::{
    CallOutput, End, Fields, GpusPer, Job, JobId, JobName, Order, OrderError, QueueRow, Resources,
    State, SubmissionResult, Tasks, Warden, Word,
};

use crate::recorded;

fn order() -> Order {
    Order {
        name: JobName::of("abcdefghijklmnopqrstuvwxyz").unwrap(),
        tasks: Some(1000),
        at_once: Some(8),
        resources: Resources {
            cpus: 4,
            memory_bytes: Some(3 << 30),
            time_s: Some(3601),
            gpus: 2,
            ..Resources::default()
        },
        fields: Fields::default(),
        setup: Vec::new(),
        job: Job {
            program: PathBuf::from("/home/ada/.neronet/bin/0123/neromum"),
            folder: PathBuf::from("/home/ada/.neronet/x/mum/triton/submissions/abc"),
            min_free: 64 << 20,
        },
    }
}

fn words(warden: &dyn Warden, order: &Order) -> Vec<String> {
    let script = warden.script(order).unwrap();
    let call = warden.submit_call(order, &script);
    assert_eq!(call.input, script.as_bytes(), "the script travels on stdin");
    call.words.iter().map(ToString::to_string).collect()
}

#[test]
fn slurm_is_given_an_array_with_its_resources() {
    let mut order = order();
    order.resources.gpu_type = Some(Word::new("a100").unwrap());
    order.fields.partition = Some(Word::new("gpu-short").unwrap());
    order.fields.options = vec!["--reservation=course".to_owned()];
    order.setup = vec!["module load cuda".to_owned()];
    let slurm = Slurm::default();
    let words = words(&slurm, &order);
    for word in [
        "--export=ALL",
        "--job-name=nero-abcdefghijklmnopqrstuvwxyz",
        "--array=0-999%8",
        "--cpus-per-task=4",
        "--mem=3072M",
        "--time=61",
        "--gres=gpu:a100:2",
        "--partition=gpu-short",
        "--output=/home/ada/.neronet/x/mum/triton/submissions/abc/%a.scheduler",
    ] {
        assert!(
            words.iter().any(|one| one == word),
            "{word} is not in {words:#?}"
        );
    }
    assert!(
        words.iter().all(|word| !word.contains("course")),
        "the user's text"
    );
    let script = slurm.script(&order).unwrap();
    let begins = "#!/bin/bash -l\n\
                  #SBATCH --reservation=course\n\
                  unset SLURM_EXPORT_ENV\n\
                  nero_setup='/home/ada/.neronet/x/mum/triton/submissions/abc'/\"${SLURM_ARRAY_TASK_ID:-0}\".setup\n";
    assert!(script.starts_with(begins), "{script}");
    let ends = "exec '/home/ada/.neronet/bin/0123/neromum' job \
                '/home/ada/.neronet/x/mum/triton/submissions/abc' --task \"${SLURM_ARRAY_TASK_ID:-0}\" \
                --cpus 4 --gpus 2 --memory 3221225472 --min-free 67108864 --setup \"$nero_setup\" \
                --job \"${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}\"\n";
    assert!(script.ends_with(ends), "{script}");
    let before = script.find("trap '").unwrap() < script.find("\nmodule load cuda\n").unwrap();
    assert!(before, "{script}");
}

/// The code with which bash ends such a script, what it printed, and the file of `setup`.
fn executed(setup: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut order = order();
    order.setup = setup.iter().map(|line| (*line).to_owned()).collect();
    order.job.program = PathBuf::from("/bin/echo");
    order.job.folder = folder.path().to_path_buf();
    let script = Slurm::default().script(&order).unwrap();
    let mut bash = std::process::Command::new("bash");
    let ran = bash.args(["-c", &script]).env("SLURM_JOB_ID", "7").output();
    let ran = ran.unwrap();
    let printed = [ran.stdout, ran.stderr].concat();
    let file = std::fs::read_to_string(folder.path().join("0.setup")).unwrap();
    (ran.status.code(), String::from_utf8(printed).unwrap(), file)
}

#[test]
fn what_setup_prints_and_what_fails_in_it_is_kept_for_the_runs() {
    let lines = [
        "echo loading; if false; then :; fi",
        "no-such-module load x",
        "false || true",
        "X=1",
        "module() { eval \"$(echo 'false; return 3')\"; }",
        "module load y",
    ];
    let (code, printed, file) = executed(&lines);
    assert_eq!(code, Some(0));
    assert!(
        printed.starts_with("job ") && printed.lines().count() == 1,
        "{printed}"
    );
    let kept: Vec<&str> = file.lines().collect();
    assert_eq!(kept[0], "loading");
    assert!(kept[1].contains("command not found"), "{file}");
    let reports = ["127: no-such-module load x", "3: module load y"];
    assert_eq!(
        kept[2..],
        reports.map(|report| format!("setup: exit code {report}"))
    );

    let (code, printed, file) = executed(&["set -e", "echo loading", "no-such-module load x"]);
    assert_eq!(code, Some(127));
    assert!(
        printed.contains("command not found") && !printed.contains("--task"),
        "{printed}"
    );
    assert!(
        file.ends_with("setup: ended the job with exit code 127\n"),
        "{file}"
    );
}

#[test]
fn grid_engine_is_given_an_array_with_resources_for_each_slot() {
    let mut order = order();
    order.fields.parallel_env = Some(Word::new("smp").unwrap());
    // Four for two that it asks for, where the complex counts for each slot.
    let per = |gpus_per| Oge {
        gpus_per: Some(gpus_per),
    };
    // Until the site was asked nothing is refused.
    assert!(Oge::default().script(&order).is_ok());
    let uneven = per(GpusPer::Slot).script(&order).unwrap_err().to_string();
    assert!(uneven.contains("it would get 4 GPUs"), "{uneven}");
    for counts in [GpusPer::Job, GpusPer::Host] {
        let given = words(&per(counts), &order).join(" ");
        assert!(given.contains(" -l gpu=2 "), "{given}");
    }
    order.resources.gpus = 4;
    let given = words(&Oge::default(), &order).join(" ");
    for part in [
        "-N nero-abcdefghijklmnopqrstuvwxyz",
        "-t 1-1000",
        "-tc 8",
        "-pe smp 4",
        "-l h_vmem=768M",
        "-l h_rt=3601",
        "-l gpu=1",
    ] {
        assert!(given.contains(part), "{part} is not in {given}");
    }
    assert!(given.contains("-S /bin/sh"), "{given}");
    let script = Oge::default().script(&order).unwrap();
    assert!(script.contains("--task \"$task\""), "{script}");
    order.setup = vec!["module load cuda".to_owned()];
    let login = "shopt -q login_shell || exec /bin/bash -l \"$0\"\n";
    assert!(Oge::default().script(&order).unwrap().starts_with(login));
    assert!(
        words(&Oge::default(), &order)
            .join(" ")
            .contains("-S /bin/bash")
    );
    order.setup.clear();
    order.fields.parallel_env = None;
    assert_eq!(
        Oge::default().script(&order),
        Err(OrderError::ParallelEnv(4))
    );
    order.resources.cpus = 1;
    order.tasks = None;
    let given = words(&Oge::default(), &order).join(" ");
    assert!(!given.contains("-t ") && !given.contains("-pe"), "{given}");
}

#[test]
fn a_run_over_several_hosts_asks_for_the_same_share_of_each() {
    let mut order = order();
    order.tasks = None;
    order.resources = Resources {
        cpus: 30,
        hosts: 2,
        processes: 8,
        memory_bytes: Some(3 << 30),
        gpus: 4,
        exclusive: true,
        ..Resources::default()
    };
    let slurm = Slurm::default();
    let given = words(&slurm, &order).join(" ");
    for part in [
        "--nodes=2 --ntasks-per-node=4 --cpus-per-task=4 --mem=1536M",
        "--gres=gpu:2",
        "--exclusive",
    ] {
        assert!(given.contains(part), "{part} is not in {given}");
    }
    let script = slurm.script(&order).unwrap();
    assert!(
        script.contains("\nexport SRUN_CPUS_PER_TASK=4\n"),
        "{script}"
    );
    assert!(script.contains(" --cpus 32 --gpus 4 "), "{script}");
    assert_eq!(Oge::default().script(&order), Err(OrderError::HostsEnv(2)));
    order.fields.parallel_env = Some(Word::new("mpi").unwrap());
    order.resources.gpus = 32;
    let given = words(&Oge::default(), &order).join(" ");
    assert!(given.contains("-pe mpi 32 -l h_vmem=96M"), "{given}");
    let per = |gpus_per| Oge {
        gpus_per: Some(gpus_per),
    };
    let given = words(&per(GpusPer::Host), &order).join(" ");
    assert!(given.contains(" -l gpu=16 "), "{given}");
    let refused = Err(OrderError::GpusOfJob(2));
    assert_eq!(per(GpusPer::Job).script(&order), refused);
    order.resources.gpus = 3;
    let expected = "`gpus: 3` cannot be spread evenly over `nodes: 2`";
    order.fields.parallel_env = None;
    assert_eq!(slurm.script(&order).unwrap_err().to_string(), expected);
    // One process on one host is asked for as ever.
    order.resources = Resources {
        cpus: 4,
        ..Resources::default()
    };
    let given = words(&slurm, &order).join(" ");
    assert!(
        given.contains("--nodes=1 --ntasks=1 --cpus-per-task=4"),
        "{given}"
    );
    assert!(!slurm.script(&order).unwrap().contains("SRUN_CPUS"));
}

#[test]
fn options_of_ours_are_refused_with_the_field_to_use() {
    let mut order = order();
    for (option, hint) in [
        ("--array=0-9", "one array"),
        ("--arr=0-9", "one array"),
        ("--job-name=x", "found again"),
        ("-Jx", "found again"),
        ("--wrap=ls", "`command:`"),
        ("--export=ALL", "`env:`"),
        ("--output=x", "neroman logs"),
        ("--mem=4G", "`memory:`"),
        ("-t10", "`time:`"),
        ("--partition=x", "`partition:`"),
        ("--dependency=afterok:1", "`depends_on:`"),
        ("--job-name=Big simulation", "found again"),
        ("--signal=B:USR1@120", "a rule signals the job"),
        ("--cpus-per-gpu=4", "`cpus:`"),
        ("--gpus-per-socket=1", "`gpus:`"),
        ("--version", "what sbatch prints"),
        ("--threads-per-core=1", "`cpus:`"),
        ("--ntasks-per-core=1", "`processes:`"),
        ("--ntasks-per-socket=2", "`processes:`"),
        ("-B2:4:1", "`cpus:`"),
        ("-O", "`cpus:`"),
        ("-S2", "`exclusive: yes`"),
    ] {
        order.fields.options = vec![option.to_owned()];
        let error = Slurm::default().script(&order).unwrap_err().to_string();
        assert!(error.contains(hint), "{option}: {error}");
    }
    for odd in [
        "",
        "x",
        "-",
        "--a b",
        "--x=\"y\"",
        "--x=\n#SBATCH --wrap=ls",
        "--x=$(id)",
        "--x='",
        "-sa1-9",
    ] {
        order.fields.options = vec![odd.to_owned()];
        let error = Slurm::default().script(&order).unwrap_err().to_string();
        assert!(error.contains("no option"), "{odd}: {error}");
    }
    for allowed in [
        "--nodelist=n[1-3]",
        "--gres-flags=enforce-binding",
        "--mem-bind=local",
        "--licenses=a:2",
        "--hint=nomultithread",
        "-s",
    ] {
        order.fields.options = vec![allowed.to_owned()];
        assert!(Slurm::default().script(&order).is_ok(), "{allowed}");
    }
    order.fields.parallel_env = Some(Word::new("smp").unwrap());
    order.resources.gpus = 4;
    for refused in [
        "-t=1-9", "-N=x", "-V", "-pe=smp", "-q=all.q", "-sync=y", "-soft", "-jsv=x",
    ] {
        order.fields.options = vec![refused.to_owned()];
        assert!(Oge::default().script(&order).is_err(), "{refused}");
    }
    order.fields.options = vec!["-l=ssd=1".to_owned(), "-R=y".to_owned()];
    let script = Oge::default().script(&order).unwrap();
    assert!(script.starts_with("#$ -l ssd=1\n#$ -R y\n"), "{script}");
    order.fields.options = vec!["-l=ssd=1,gpu=2".to_owned()];
    let twice = Oge::default().script(&order).unwrap_err().to_string();
    assert!(twice.contains("`gpus`"), "{twice}");
    order.resources.gpus = 0;
    assert!(Oge::default().script(&order).is_ok());
}

#[test]
fn names_that_could_be_commands_are_refused() {
    for name in [
        "gpu;rm", "a\nb", "$(id)", "-p", "a b", "", "a,b", "a|b", "`id`", "ä",
    ] {
        assert!(Word::new(name).is_err(), "{name:?}");
    }
    let mut order = order();
    order.fields.constraint = Some("ib&$(id)".to_owned());
    assert!(matches!(
        Slurm::default().script(&order),
        Err(OrderError::Constraint(_))
    ));
    order.fields.constraint = Some("[rack1*2&rack2*4]".to_owned());
    assert!(Slurm::default().script(&order).is_ok());
    order.setup = vec!["module load x\nrm".to_owned()];
    assert!(matches!(
        Slurm::default().script(&order),
        Err(OrderError::Setup(_))
    ));
    order.setup = vec!["#SBATCH --array=0-9".to_owned()];
    assert!(matches!(
        Slurm::default().script(&order),
        Err(OrderError::SetupOption(_))
    ));
    order.setup = Vec::new();
    order.job.folder = PathBuf::from("/home/it's $HOME/x");
    let script = Slurm::default().script(&order).unwrap();
    assert!(
        script.contains(r"job '/home/it'\''s $HOME/x' --task"),
        "{script}"
    );
    let given = words(&Slurm::default(), &order);
    assert!(
        given.contains(&"--output=/dev/null".to_owned()),
        "{given:?}"
    );
}

#[test]
fn a_field_of_the_other_scheduler_is_refused_by_name() {
    let mut order = order();
    order.fields.queue = Some(Word::new("all.q").unwrap());
    let error = Slurm::default().script(&order).unwrap_err().to_string();
    assert_eq!(
        error,
        "`queue` is a field of Grid Engine; this node's scheduler is SLURM"
    );
    order.fields.qos = Some(Word::new("high").unwrap());
    assert!(Oge::default().script(&order).is_err());
}

fn said(code: i32, out: &str, err: &str) -> CallOutput {
    CallOutput {
        end: End::Code(code),
        out: out.as_bytes().to_vec(),
        err: err.as_bytes().to_vec(),
    }
}

#[test]
fn only_a_known_refusal_is_one_and_everything_else_is_ambiguous() {
    let slurm = Slurm::default();
    let accepted = SubmissionResult::Accepted(JobId(7));
    assert_eq!(slurm.read_submit(&said(0, "7\n", "")), accepted);
    assert_eq!(slurm.read_submit(&said(0, "7;triton\n", "")), accepted);
    for name in [
        "refused_partition",
        "refused_memory",
        "refused_array",
        "refused_option",
    ] {
        let answer = slurm.read_submit(&recorded("slurm-22.05", name));
        assert!(
            matches!(answer, SubmissionResult::Refused(_)),
            "{name}: {answer:?}"
        );
    }
    for own in [
        "unrecognized --hint argument \"foo\", see --hint=help",
        "Invalid numeric value \"x\" for --mincpus.",
        "Invalid --bbf specification",
        "Invalid generic resource (gres) specification",
    ] {
        let answer = slurm.read_submit(&said(1, "", &format!("sbatch: error: {own}\n")));
        assert!(
            matches!(answer, SubmissionResult::Refused(_)),
            "{own}: {answer:?}"
        );
    }
    let failed = "sbatch: error: Batch job submission failed: ";
    for (code, out, err) in [
        (1, "", "Socket timed out on send/recv operation"),
        (
            1,
            "",
            "Unable to contact slurm controller (connect failure)",
        ),
        (1, "", "Resource temporarily unavailable"),
        (1, "", "Something new"),
        (0, "", ""),
        (0, "hello\n", ""),
    ] {
        let answer = slurm.read_submit(&said(code, out, &format!("{failed}{err}\n")));
        assert!(
            matches!(answer, SubmissionResult::Ambiguous(_)),
            "{err}: {answer:?}"
        );
    }
    for end in [End::Signal(9), End::TimedOut, End::TooMuch] {
        let answer = slurm.read_submit(&CallOutput {
            end,
            out: b"7\n".to_vec(),
            err: Vec::new(),
        });
        assert!(
            matches!(answer, SubmissionResult::Ambiguous(_)),
            "{answer:?}"
        );
    }
    let missing = CallOutput {
        end: End::NotExecuted("no such file".to_owned()),
        out: Vec::new(),
        err: Vec::new(),
    };
    assert!(matches!(
        slurm.read_submit(&missing),
        SubmissionResult::NotSent(_)
    ));
    assert_eq!(Oge::default().read_submit(&said(0, "7\n", "")), accepted);
    assert_eq!(
        Oge::default().read_submit(&said(0, "9.1-3:1\n", "")),
        SubmissionResult::Accepted(JobId(9))
    );
    for name in [
        "refused_option",
        "refused_resource",
        "refused_queue",
        "refused_pe",
        "refused_array",
        "refused_name",
    ] {
        let answer = Oge::default().read_submit(&recorded("gridengine-8.1.9", name));
        assert!(
            matches!(answer, SubmissionResult::Refused(_)),
            "{name}: {answer:?}"
        );
    }
    // As 8.1.9 says of an option of `qalter`, which its parser knows.
    let odd = Oge::default().read_submit(&said(5, "", "qsub: Unknown option -ot 1\n\n"));
    assert!(matches!(odd, SubmissionResult::Refused(_)), "{odd:?}");
    let away = "error: commlib error: got select error (Connection refused)\nUnable to run job: \
                unable to send message to qmaster using port 6444\nExiting.\n";
    let answer = Oge::default().read_submit(&said(1, "", away));
    assert!(
        matches!(answer, SubmissionResult::Ambiguous(_)),
        "{answer:?}"
    );
}

#[test]
fn one_of_several_waiting_tasks_is_cancelled_without_the_others() {
    let row = |tasks: Option<&str>| QueueRow {
        name: order().name,
        job: JobId(7),
        tasks: tasks.map(|text| Tasks::read(text).unwrap()),
        state: State::Running,
        host: None,
        start_s: None,
    };
    let words = |tasks, task| {
        let call = Slurm::default().cancel_call(&row(tasks), task);
        call.words.join(" ")
    };
    let name = "--name=nero-abcdefghijklmnopqrstuvwxyz";
    assert_eq!(words(Some("1-5%2"), Some(4)), "7_4");
    assert_eq!(words(Some("4"), Some(4)), format!("{name} 7_4"));
    assert_eq!(words(Some("1-5"), None), format!("{name} 7"));
    assert_eq!(words(None, None), format!("{name} 7"));
}

#[test]
fn many_tasks_are_cancelled_or_held_in_one_command() {
    let row = |job, tasks: Option<&str>| QueueRow {
        name: order().name,
        job: JobId(job),
        tasks: tasks.map(|text| Tasks::read(text).unwrap()),
        state: State::Running,
        host: None,
        start_s: None,
    };
    let rows = [row(7, Some("1-5%2")), row(7, Some("9")), row(8, None)];
    let seen = [(&rows[0], Some(4)), (&rows[1], Some(9)), (&rows[2], None)];
    let words = |warden: &dyn Warden| {
        let calls = warden.cancel_calls(&seen).into_iter();
        let words = calls.map(|call| format!("{} {}", call.program, call.words.join(" ")));
        words.collect::<Vec<_>>()
    };
    assert_eq!(words(&Slurm::default()), ["scancel 7_4 7_9 8"]);
    assert_eq!(words(&Oge::default()), ["qdel 7.4 7.9 8"]);
    let many: Vec<_> = (0..1200).map(|_| (&rows[2], None)).collect();
    assert_eq!(Slurm::default().cancel_calls(&many).len(), 3);
    assert!(Slurm::default().cancel_calls(&[]).is_empty());
    let copies = Slurm::default().cancel_waiting_calls(&[&rows[1], &rows[2]]);
    let words: Vec<String> = copies.iter().map(|call| call.words.join(" ")).collect();
    assert_eq!(words, ["--state=PENDING 7 8"]);
    let words = |calls: Vec<nero_warden::Call>| {
        let words = calls.into_iter();
        let words = words.map(|call| format!("{} {}", call.program, call.words.join(" ")));
        words.collect::<Vec<_>>()
    };
    let slurm = Slurm::default();
    assert_eq!(words(slurm.hold_calls(&seen)), ["scontrol uhold 7_4,7_9,8"]);
    assert_eq!(
        words(slurm.release_calls(&seen)),
        ["scontrol release 7_4,7_9,8"]
    );
    assert_eq!(words(Oge::default().hold_calls(&seen)), ["qhold 7.4 7.9 8"]);
    assert_eq!(
        words(Oge::default().release_calls(&seen)),
        ["qrls 7.4 7.9 8"]
    );
    assert_eq!(slurm.hold_calls(&many).len(), 3);
}

#[test]
fn a_limit_of_jobs_that_passes_is_no_refusal_and_no_doubt() {
    let limit = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job \
                 submit limit, user's size and/or time limits)\n";
    let answer = Slurm::default().read_submit(&said(1, "", limit));
    assert!(matches!(answer, SubmissionResult::Full(_)), "{answer:?}");
    let named = |word| format!("sbatch: error: {word}\n{limit}");
    let answer = Slurm::default().read_submit(&said(1, "", &named("QOSMaxSubmitJobPerUserLimit")));
    assert!(matches!(answer, SubmissionResult::Full(_)), "{answer:?}");
    let answer = Slurm::default().read_submit(&said(1, "", &named("QOSMaxGRESPerJob")));
    assert!(matches!(answer, SubmissionResult::Refused(_)), "{answer:?}");
    let limit = "Unable to run job: job rejected: Only 5 jobs are allowed per user (current job count: \
                 5).\nExiting.\n";
    let answer = Oge::default().read_submit(&said(1, "", limit));
    assert!(matches!(answer, SubmissionResult::Full(_)), "{answer:?}");
}

#[test]
fn a_mistake_in_an_option_that_the_controller_refuses_is_a_refusal() {
    let failed = "sbatch: error: Batch job submission failed: ";
    for text in [
        "Requested reservation is invalid",
        "Access denied to requested reservation",
        "Invalid license specification",
        "Invalid node name specified",
        "Requested nodes not in this partition",
        "Invalid cluster feature specification",
        "Invalid preferred feature specification",
        "Burst Buffer request invalid",
        "Requested more tasks than available processors",
        "No partition specified or system default partition",
    ] {
        let answer = Slurm::default().read_submit(&said(1, "", &format!("{failed}{text}\n")));
        assert!(
            matches!(answer, SubmissionResult::Refused(_)),
            "{text}: {answer:?}"
        );
    }
}
