//! The commands of neromum for schedulers, given to real ones.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nero_cluster::lifecycle::SubmissionState;
use nero_model::SubmissionId;
use nero_tests::cluster::{Cluster, Scheduler};
use nero_tests::until;
use nero_warden::oge::Oge;
use nero_warden::slurm::Slurm;
use nero_warden::{
    Call, CallOutput, End, Fields, Job, JobId, JobKey, JobName, Order, Queue, Resources,
    SchedulerEnd, State, SubmissionResult, Tasks, Unreadable, Warden, Word,
};

/// A cluster with its warden, and a program that stands for `neromum job`: it
/// records its words and waits to be ended.
struct Site {
    cluster: Cluster,
    warden: Box<dyn Warden>,
    folder: tempfile::TempDir,
}

impl Site {
    fn new(scheduler: Scheduler, is_plain: bool) -> Self {
        Self::of(Cluster::shared(scheduler), scheduler, is_plain)
    }

    fn of(cluster: Cluster, scheduler: Scheduler, is_plain: bool) -> Self {
        let warden: Box<dyn Warden> = match scheduler {
            Scheduler::Slurm | Scheduler::SlurmWithoutAccounting => Box::new(Slurm { is_plain }),
            Scheduler::GridEngine => Box::new(Oge::default()),
        };
        let folder = tempfile::Builder::new().prefix("nw").tempdir().unwrap();
        let site = Self {
            cluster,
            warden,
            folder,
        };
        let program = "#!/bin/sh\nin=${0%/*}\necho \"$*\" >> \"$in/said\"\n\
                       while [ ! -e \"$in/end\" ]; do sleep 0.1; done\nexit 3\n";
        std::fs::write(site.program(), program).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(site.program(), mode).unwrap();
        site
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("job")
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("said")).unwrap_or_default()
    }

    fn order(&self, tasks: Option<u32>) -> Order {
        let fields = match &*self.warden.name() {
            "SLURM" => Fields::default(),
            _ => Fields {
                parallel_env: Some(Word::new("smp").unwrap()),
                ..Fields::default()
            },
        };
        Order {
            name: JobName::of(&SubmissionId::random().to_string()).unwrap(),
            tasks,
            at_once: tasks.map(|_| 1),
            resources: Resources {
                cpus: 2,
                memory_bytes: Some(64 << 20),
                time_s: Some(600),
                ..Resources::default()
            },
            fields,
            setup: vec!["NERO_WAS_SET_UP=yes".to_owned()],
            job: Job {
                program: self.program(),
                folder: self.folder.path().to_path_buf(),
                min_free: 0,
            },
        }
    }

    fn run(&self, call: &Call) -> CallOutput {
        let mut child = Command::new(&*call.program)
            .args(call.words.iter().map(AsRef::<str>::as_ref))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", "/root")
            .env("TZ", "UTC0")
            .envs(self.cluster.env())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", call.program));
        let _ = child.stdin.take().unwrap().write_all(&call.input);
        let output = child.wait_with_output().unwrap();
        CallOutput {
            end: End::Code(output.status.code().unwrap()),
            out: output.stdout,
            err: output.stderr,
        }
    }

    fn submit(&self, order: &Order) -> SubmissionResult {
        let script = self.warden.script(order).unwrap();
        let said = self.run(&self.warden.submit_call(order, &script));
        self.warden.read_submit(&said)
    }

    fn queue(&self, names: &[&JobName]) -> Queue {
        self.try_queue(names)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_queue(&self, names: &[&JobName]) -> Result<Queue, Unreadable> {
        let calls = self.warden.queue_calls(names);
        let said: Vec<CallOutput> = calls.iter().map(|call| self.run(call)).collect();
        let known: Vec<JobKey<'_>> = names
            .iter()
            .map(|name| JobKey { name, job: None })
            .collect();
        self.warden.read_queue(&said, &known)
    }

    /// The state of a job, or of one task of an array; `None`: not listed.
    fn state(&self, name: &JobName, task: Option<u32>) -> Option<State> {
        let queue = self.queue(&[name]);
        let is_it = |tasks: &Option<Tasks>| match (tasks, task) {
            (Some(tasks), Some(task)) => tasks.contains(task),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let mut rows = queue.of(name).filter(|row| is_it(&row.tasks));
        rows.next().map(|row| row.state.clone())
    }

    #[track_caller]
    fn until_state(&self, name: &JobName, task: Option<u32>, is_it: fn(&State) -> bool) {
        until("a job to change its state", || {
            let state = self.state(name, task);
            if state.as_ref().is_some_and(is_it) {
                Ok(())
            } else {
                Err((state, self.said()))
            }
        });
    }

    fn cancel(&self, name: &JobName, task: Option<u32>) {
        let queue = self.queue(&[name]);
        let is_in = |tasks: &Option<Tasks>| match (tasks, task) {
            (Some(tasks), Some(task)) => tasks.contains(task),
            (_, None) => true,
            (None, Some(_)) => false,
        };
        let row = queue
            .of(name)
            .find(|row| is_in(&row.tasks))
            .expect("it is listed");
        self.run(&self.warden.cancel_call(row, task));
    }
}

fn is_over(state: Option<&State>) -> bool {
    matches!(state, None | Some(State::Ended(_)))
}

/// An array whose first task runs: one task is cancelled while it waits, then all.
fn an_array_is_submitted_listed_and_cancelled(scheduler: Scheduler, is_plain: bool) {
    let site = Site::new(scheduler, is_plain);
    let first = site.warden.first_index();
    let order = site.order(Some(3));
    let name = &order.name;
    let answer = site.submit(&order);
    let SubmissionResult::Accepted(id) = answer else {
        panic!("{answer:?}");
    };
    site.until_state(name, Some(first), |state| *state == State::Running);
    let waits = site.state(name, Some(first + 2));
    assert!(matches!(waits, Some(State::Waiting(_))), "{waits:?}");
    assert!(site.queue(&[name]).of(name).all(|row| row.job == id));
    assert!(site.queue(&[name]).not_ended() >= 3);
    until("its words", || {
        let said = site.said();
        let folder = site.folder.path().display();
        let expected = format!(
            "job {folder} --task {first} --cpus 2 --memory 67108864 --min-free 0 --setup {folder}/{first}.setup --job {id}\n"
        );
        if said == expected { Ok(()) } else { Err(said) }
    });
    site.cancel(name, Some(first + 2));
    until("the cancelled task to go", || {
        let state = site.state(name, Some(first + 2));
        if is_over(state.as_ref()) {
            Ok(())
        } else {
            Err(state)
        }
    });
    let still = site.state(name, Some(first + 1));
    assert!(matches!(still, Some(State::Waiting(_))), "{still:?}");
    site.cancel(name, None);
    until("the array to go", || {
        let queue = site.queue(&[name]);
        let is_over = queue
            .of(name)
            .all(|row| matches!(row.state, State::Ended(_)));
        if is_over { Ok(()) } else { Err(queue) }
    });
}

#[test]
fn slurm_takes_lists_and_cancels_an_array() {
    an_array_is_submitted_listed_and_cancelled(Scheduler::Slurm, false);
}

#[test]
fn slurm_without_json_takes_lists_and_cancels_an_array() {
    an_array_is_submitted_listed_and_cancelled(Scheduler::Slurm, true);
}

#[test]
fn grid_engine_takes_lists_and_cancels_an_array() {
    an_array_is_submitted_listed_and_cancelled(Scheduler::GridEngine, false);
}

fn the_accounting_tells_the_batch_tasks_code(scheduler: Scheduler) {
    let site = Site::new(scheduler, false);
    let order = site.order(None);
    std::fs::write(site.folder.path().join("end"), "").unwrap();
    assert!(matches!(site.submit(&order), SubmissionResult::Accepted(_)));
    let name = &order.name;
    until("the accounting to have it", || {
        let calls = site.warden.ends_calls(&[name], 3600);
        let said: Vec<CallOutput> = calls.iter().map(|call| site.run(call)).collect();
        let records = site.warden.read_ends(&said, &[name]);
        let records = records.unwrap_or_else(|error| panic!("{error}: {said:?}"));
        match &records[..] {
            [one]
                if one.state == State::Ended(SchedulerEnd::Failed) && one.exit == Some((3, 0)) =>
            {
                Ok(())
            }
            _ => Err(records),
        }
    });
}

#[test]
fn slurms_accounting_tells_the_batch_tasks_code() {
    the_accounting_tells_the_batch_tasks_code(Scheduler::Slurm);
}

#[test]
fn grid_engines_accounting_tells_the_batch_tasks_code() {
    the_accounting_tells_the_batch_tasks_code(Scheduler::GridEngine);
}

#[test]
fn refusals_of_slurm_are_known_and_no_reason_that_never_passes_is_taken_for_a_short_one() {
    let site = Site::new(Scheduler::SlurmWithoutAccounting, false);
    let mut order = site.order(None);
    order.fields.partition = Some(Word::new("nowhere").unwrap());
    let answer = site.submit(&order);
    assert!(matches!(answer, SubmissionResult::Refused(_)), "{answer:?}");
    order.fields.partition = None;
    order.resources.memory_bytes = Some(1 << 50);
    let answer = site.submit(&order);
    assert!(matches!(answer, SubmissionResult::Refused(_)), "{answer:?}");
    // Longer than the partition's limit: accepted, and pending for ever.
    // The refused ones are listed as failed for a while, so this needs another name.
    let mut order = site.order(None);
    order.fields.partition = Some(Word::new("short").unwrap());
    order.resources.time_s = Some(100 * 3600);
    let answer = site.submit(&order);
    assert!(
        matches!(answer, SubmissionResult::Accepted(_)),
        "{answer:?}"
    );
    site.until_state(
        &order.name,
        None,
        |state| matches!(state, State::Waiting(reason) if reason.never_passes),
    );
    site.cancel(&order.name, None);
}

#[test]
fn a_job_with_this_id_and_another_name_is_not_cancelled() {
    let site = Site::new(Scheduler::Slurm, false);
    let order = site.order(None);
    let SubmissionResult::Accepted(id) = site.submit(&order) else {
        panic!("it is accepted");
    };
    site.until_state(&order.name, None, |state| *state == State::Running);
    let mut row = site
        .queue(&[&order.name])
        .of(&order.name)
        .next()
        .unwrap()
        .clone();
    assert_eq!(row.job, JobId(id.0));
    row.name = JobName::of(&SubmissionId::random().to_string()).unwrap();
    site.run(&site.warden.cancel_call(&row, None));
    assert_eq!(site.state(&order.name, None), Some(State::Running));
    site.cancel(&order.name, None);
}

#[test]
fn a_submission_whose_answer_was_lost_is_found_by_its_name_and_made_once() {
    let scheduler = Scheduler::SlurmWithoutAccounting;
    let site = Site::of(Cluster::alone(scheduler), scheduler, false);
    let order = site.order(None);
    let name = &order.name;
    site.cluster.signal("slurmctld", "STOP");
    let mut standing = SubmissionState::NEW;
    standing.sent();
    // sbatch gives up after MessageTimeout; the request lies in the socket.
    standing.answered(site.submit(&order));
    assert!(
        matches!(standing, SubmissionState::InDoubt { .. }),
        "{standing:?}"
    );
    site.cluster.signal("slurmctld", "CONT");
    let begun = std::time::Instant::now();
    until("a listing to show it", || {
        let asked_ms = begun.elapsed().as_millis() as u64;
        let Ok(queue) = site.try_queue(&[name]) else {
            return Err((standing.clone(), "no answer"));
        };
        standing.listed(asked_ms, &queue, name);
        assert!(!standing.is_intended(), "{queue:?}");
        match &standing {
            SubmissionState::Accepted(_) => Ok(()),
            other => Err((other.clone(), "not listed")),
        }
    });
    site.until_state(name, None, |state| *state == State::Running);
    until("its start", || match site.said() {
        said if said.is_empty() => Err(()),
        _ => Ok(()),
    });
    assert_eq!(site.said().lines().count(), 1);
}

/// Options of `sbatch` that go into the script as they are, with values that its parser
/// takes. All others are refused.
const OF_SBATCH: &[&str] = &[
    "--acctg-freq=task=30",
    "--batch=x",
    "--bb=capacity=1",
    "--bbf=/dev/null",
    "--contiguous",
    "--cpu-freq=high",
    "--delay-boot=1",
    "--distribution=block",
    "--exclude=nowhere",
    "--gpu-bind=closest",
    "--gpu-freq=low",
    "--gres-flags=enforce-binding",
    "--hint=nomultithread",
    "--ignore-pbs",
    "--kill-on-invalid-dep=yes",
    "--licenses=a:1",
    "--mail-type=NONE",
    "--mail-user=nobody",
    "--mcs-label=x",
    "--mem-bind=local",
    "--network=x",
    "--nice=1",
    "--nodefile=/etc/hostname",
    "--nodelist=n1",
    "--oversubscribe",
    "--power=level",
    "--prefer=x",
    "--priority=1",
    "--profile=none",
    "--reboot",
    "--reservation=x",
    "--spread-job",
    "--switches=1",
    "--tmp=1M",
    "--use-min-nodes",
    "--wait-all-nodes=0",
    "--wckey=x",
];

/// The long options of a help text, each at the head of a line.
fn long_options(help: &str) -> Vec<String> {
    let heads = help.lines().filter_map(|line| {
        let head = line.trim_start().split("  ").next()?;
        let long = head.split([',', ' ']).find(|word| word.starts_with("--"))?;
        Some(long.split(['=', '[']).next()?.to_owned())
    });
    heads.collect()
}

/// Options of `qsub` that go into the script as they are, with values that it takes. All
/// others are refused.
const OF_QSUB: &[&str] = &[
    "-A=x",
    "-M=nobody",
    "-R=y",
    "-ar=1",
    "-binding=linear:1",
    "-c=n",
    "-js=1",
    "-l=arch=*",
    "-m=n",
    "-masterq=all.q",
    "-p=-1",
];

/// What the help of Grid Engine 8.1.9 lists beside them: options of `qconf` and `qalter`.
const NOT_OF_QSUB: &[&str] = &[
    "-Ap", "-astnode", "-at", "-dul", "-he", "-mattr", "-ot", "-srqs",
];

/// The options of a help text of Grid Engine, each in brackets at the head of a line.
fn bracketed_options(help: &str) -> Vec<String> {
    let heads = help.lines().filter_map(|line| {
        let head = line.trim_start().strip_prefix('[')?;
        let name = head.split([' ', ']', '|']).next()?;
        name.starts_with('-').then(|| name.to_owned())
    });
    heads.collect()
}

/// Walks through the options that the real program knows: each one is refused, or stands in
/// `taken`, and the program takes it in a script.
fn walk_options(
    site: &Site,
    names: Vec<String>,
    taken: &[&str],
    check: fn(&[String]) -> Result<(), nero_warden::OptionError>,
    trial: &str,
    bad_option: &[i32],
) {
    let mut wrong = Vec::new();
    for name in names {
        let of_it = |option: &&&str| option.split('=').next() == Some(&name);
        let option = taken.iter().find(of_it);
        let refused = check(std::slice::from_ref(&name));
        let Some(option) = option else {
            wrong.extend(refused.is_ok().then(|| format!("{name} is not refused")));
            continue;
        };
        let mut order = site.order(None);
        order.fields.options = vec![(*option).to_owned()];
        let script = site.warden.script(&order).unwrap();
        let mut call = site.warden.submit_call(&order, &script);
        call.words.push(trial.to_owned().into());
        let said = site.run(&call);
        // What the controller refuses is another matter.
        if bad_option.iter().any(|code| said.end == End::Code(*code)) {
            wrong.push(format!("{option}: {}", said.complaint()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_option_of_sbatch_is_refused_with_what_to_use_or_taken_as_it_is() {
    let site = Site::new(Scheduler::Slurm, false);
    let help = site.run(&Call::new("sbatch", ["--help"]));
    let names = long_options(&String::from_utf8_lossy(&help.out));
    assert!(names.len() > 80, "{names:?}");
    let check = nero_warden::slurm::check_options;
    walk_options(&site, names, OF_SBATCH, check, "--test-only", &[255]);
}

#[test]
fn every_option_of_qsub_is_refused_with_what_to_use_or_taken_as_it_is() {
    let site = Site::new(Scheduler::GridEngine, false);
    let help = site.run(&Call::new("qsub", ["-help"]));
    let mut names = bracketed_options(&String::from_utf8_lossy(&help.out));
    assert!(names.len() > 40, "{names:?}");
    names.retain(|name| !NOT_OF_QSUB.contains(&&**name));
    let check = nero_warden::oge::check_options;
    walk_options(&site, names, OF_QSUB, check, "-verify", &[2, 5]);
}
