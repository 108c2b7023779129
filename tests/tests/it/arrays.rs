//! Submissions of many runs to a real scheduler.

use nero_tests::cluster::Scheduler;
use nero_tests::login::Login;
use nero_tests::until;
use serde_json::Value;

/// A login node whose runs are started many at a time.
struct Many {
    login: Login,
}

impl std::ops::Deref for Many {
    type Target = Login;

    fn deref(&self) -> &Login {
        &self.login
    }
}

/// A login node of a cluster that starts nothing until it is opened.
fn closed(scheduler: Scheduler) -> Many {
    let login = Many::of(Login::alone(scheduler));
    login.close_queue();
    login
}

impl Many {
    fn of(login: Login) -> Self {
        Self { login }
    }

    /// Nothing that waits is started any more.
    fn close_queue(&self) {
        if self.is_slurm() {
            self.tell("scontrol", &["update", "partitionname=main", "state=down"])
        } else {
            self.tell("qmod", &["-d", "all.q"])
        }
    }

    fn open_queue(&self) {
        if self.is_slurm() {
            self.tell("scontrol", &["update", "partitionname=main", "state=up"])
        } else {
            self.tell("qmod", &["-e", "all.q"])
        }
    }

    /// A person cancels a task of an array.
    fn cancel_task(&self, task: &str) {
        match task.split_once('_') {
            Some((job, index)) if !self.is_slurm() => self.tell("qdel", &[job, "-t", index]),
            _ => self.tell("scancel", &[task]),
        }
    }

    /// Starts `count` equal experiments that execute these lines of a shell, in which
    /// `{n}` is 0, 1, 2 ….
    fn start_many(&self, count: usize, fields: &str, lines: &str) {
        let numbers: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        let yaml = format!(
            "+a:\n  command: [sh, -c, '{lines}']\n  parameters: {{n: [{}]}}\n{fields}",
            numbers.join(", ")
        );
        let folder = self.home.experiment("many", &yaml);
        self.home.ok(&["start", folder.to_str().unwrap()]);
    }

    /// Waits until all of the first `count` experiments wait at the scheduler; returns
    /// the tasks that they are.
    #[track_caller]
    fn until_all_queued(&self, count: u64) -> Vec<String> {
        (1..=count).map(|id| self.until_queued(id)).collect()
    }

    /// Waits until `count` names are in this folder of the home.
    #[track_caller]
    fn until_files(&self, folder: &str, count: usize) {
        let folder = self.home.path().join(folder);
        until(&format!("{count} files in {}", folder.display()), || {
            let found = std::fs::read_dir(&folder).map_or(0, Iterator::count);
            if found == count {
                Ok(())
            } else {
                Err((found, self.home.logs()))
            }
        });
    }

    /// Makes an empty folder of the home; returns its path.
    fn folder(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

/// The number of the array of tasks such as `7_3`, which must be one.
#[track_caller]
fn one_array(tasks: &[String]) -> &str {
    let array = |task: &String| task.split_once('_').map(|(job, _)| job.to_owned());
    let first = array(&tasks[0]);
    assert!(first.is_some(), "{tasks:?}");
    assert!(tasks.iter().all(|task| array(task) == first), "{tasks:?}");
    tasks[0].split_once('_').unwrap().0
}

fn equal_runs_become_one_array_of_which_each_comes_home(scheduler: Scheduler) {
    let login = closed(scheduler);
    login.start_many(30, "", "echo loss={n}; exit $(({n} % 3))");
    let tasks = login.until_all_queued(30);
    one_array(&tasks);
    login.open_queue();
    for id in 1..=30 {
        let seen = login.home.until_settled(id);
        let n = id - 1;
        assert_eq!(seen["exit_code"], n % 3, "{seen:#}");
        assert_eq!(seen["metrics"]["loss"]["last"], n as f64, "{seen:#}");
    }
    for id in [1_u64, 17, 30] {
        let said = login.home.ok(&["logs", &id.to_string()]);
        assert!(said.contains(&format!("loss={}", id - 1)), "{said}");
    }
}

#[test]
fn thirty_equal_runs_become_one_array_of_slurm_and_each_comes_home() {
    equal_runs_become_one_array_of_which_each_comes_home(Scheduler::Slurm);
}

#[test]
fn thirty_equal_runs_become_one_array_of_grid_engine_and_each_comes_home() {
    equal_runs_become_one_array_of_which_each_comes_home(Scheduler::GridEngine);
}

/// A waiting task and a running one are aborted, another waiting and running one is
/// cancelled by a person: four of eight runs end so, and the others by themselves.
fn one_task_of_an_array_ends_and_the_others_go_on(scheduler: Scheduler) {
    let login = closed(scheduler);
    let (ready, go) = (login.folder("ready"), login.path("go"));
    login.start_many(
        8,
        "",
        &format!("echo x > {ready}/{{n}}; while ! [ -e {go} ]; do sleep 0.1; done; exit 7"),
    );
    let tasks = login.until_all_queued(8);
    one_array(&tasks);
    login.cancel_task(&tasks[3]);
    login.home.ok(&["abort", "1"]);
    let seen = login.home.until_state(1, "aborted");
    assert_eq!(seen["started_at"], Value::Null, "{seen:#}");
    let gone = |seen: &Value| {
        let why = seen["waiting_for"].as_str().unwrap_or_default();
        why.contains("may have been cancelled there") || seen["state"] == "aborted"
    };
    login.until(4, "to be gone", gone);
    login.open_queue();
    login.until_files("ready", 6);
    login.home.ok(&["abort", "6"]);
    let seen = login.home.until_state(6, "aborted");
    assert_ne!(seen["started_at"], Value::Null, "{seen:#}");
    login.cancel_task(&tasks[6]);
    let seen = login.home.until_settled(7);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
    std::fs::write(&go, "").unwrap();
    for id in [2, 3, 5, 8] {
        let seen = login.home.until_settled(id);
        assert_eq!(seen["exit_code"], 7, "{seen:#}");
    }
}

#[test]
fn one_task_of_an_array_of_slurm_ends_and_the_others_go_on() {
    one_task_of_an_array_ends_and_the_others_go_on(Scheduler::Slurm);
}

#[test]
fn one_task_of_an_array_of_grid_engine_ends_and_the_others_go_on() {
    one_task_of_an_array_ends_and_the_others_go_on(Scheduler::GridEngine);
}

fn a_leader_killed_in_the_middle_of_an_array_brings_each_run_home(scheduler: Scheduler) {
    let login = closed(scheduler);
    let (began, go) = (login.folder("began"), login.path("go"));
    login.start_many(
        12,
        "",
        &format!(
            "echo x >> {began}/{{n}}; while ! [ -e {go} ]; do sleep 0.1; done; exit $(({{n}} % 3))"
        ),
    );
    login.until_all_queued(12);
    login.kill_leader();
    login.open_queue();
    // Grid Engine's queue has eight slots.
    let at_once = if login.is_slurm() { 12 } else { 8 };
    login.until_files("began", at_once);
    login.kill_leader();
    std::fs::write(&go, "").unwrap();
    for id in 1..=12 {
        let seen = login.home.until_settled(id);
        assert_eq!(seen["exit_code"], (id - 1) % 3, "{seen:#}");
        let starts = std::fs::read_to_string(format!("{began}/{}", id - 1)).unwrap();
        assert_eq!(starts.lines().count(), 1, "experiment {id}");
    }
}

#[test]
fn a_leader_killed_in_the_middle_of_an_array_of_slurm_brings_each_run_home() {
    a_leader_killed_in_the_middle_of_an_array_brings_each_run_home(Scheduler::Slurm);
}

#[test]
fn a_leader_killed_in_the_middle_of_an_array_of_grid_engine_brings_each_run_home() {
    a_leader_killed_in_the_middle_of_an_array_brings_each_run_home(Scheduler::GridEngine);
}

/// The run `{n}` of a pack: it makes `began/{n}` and waits until it may end.
fn waiting_run(login: &Many) -> String {
    let (began, go) = (login.folder("began"), login.path("go"));
    format!(
        "echo x >> {began}/{{n}}; while ! [ -e {go}{{n}} ]; do sleep 0.1; done; echo loss={{n}}; exit {{n}}"
    )
}

impl Many {
    fn let_end(&self, number: u64) {
        std::fs::write(self.path(&format!("go{number}")), "").unwrap();
    }

    fn began(&self, number: u64) -> usize {
        let text = std::fs::read_to_string(self.path(&format!("began/{number}")));
        text.map_or(0, |text| text.lines().count())
    }

    #[track_caller]
    fn until_began(&self, number: u64, times: usize) {
        until(&format!("start {times} of run {number}"), || {
            if self.began(number) == times {
                Ok(())
            } else {
                Err((self.began(number), self.home.logs()))
            }
        });
    }
}

fn runs_of_a_pack_go_one_after_the_other(scheduler: Scheduler) {
    let login = closed(scheduler);
    login.start_many(6, "  pack: 3\n", &waiting_run(&login));
    let tasks = login.until_all_queued(6);
    one_array(&tasks);
    let each = |tasks: &[String]| tasks.iter().all(|task| *task == tasks[0]);
    assert!(each(&tasks[..3]) && each(&tasks[3..]), "{tasks:?}");
    assert_ne!(tasks[0], tasks[3], "{tasks:?}");
    login.open_queue();
    login.until_began(0, 1);
    login.until_began(3, 1);
    // It waits behind the first in its task, which goes on.
    login.home.ok(&["abort", "2"]);
    let seen = login.home.until_state(2, "aborted");
    assert_eq!(seen["started_at"], Value::Null, "{seen:#}");
    login.let_end(0);
    login.until_began(2, 1);
    for number in [2, 3, 4, 5] {
        login.let_end(number);
    }
    for id in [1, 3, 4, 5, 6] {
        let seen = login.home.until_settled(id);
        assert_eq!(seen["exit_code"], id - 1, "{seen:#}");
        assert_eq!(seen["metrics"]["loss"]["last"], (id - 1) as f64, "{seen:#}");
    }
    assert_eq!(login.began(1), 0);
}

#[test]
fn runs_of_a_pack_of_slurm_go_one_after_the_other_and_one_is_aborted_alone() {
    runs_of_a_pack_go_one_after_the_other(Scheduler::Slurm);
}

#[test]
fn runs_of_a_pack_of_grid_engine_go_one_after_the_other_and_one_is_aborted_alone() {
    runs_of_a_pack_go_one_after_the_other(Scheduler::GridEngine);
}

#[test]
fn a_pack_that_is_requeued_and_then_killed_goes_on_with_what_is_not_done() {
    let scheduler = Scheduler::Slurm;
    let login = Many::of(Login::alone(scheduler));
    login.start_many(3, "  pack: 3\n", &waiting_run(&login));
    login.until_began(0, 1);
    login.let_end(0);
    login.until_began(1, 1);
    login.tell("scontrol", &["requeue", &login.running()]);
    login.until_began(1, 2);
    assert_eq!((login.began(0), login.began(2)), (1, 0));
    login.kill_jobs();
    login.home.until_state(2, "lost");
    login.let_end(2);
    for id in [1, 3] {
        let seen = login.home.until_settled(id);
        assert_eq!(seen["exit_code"], id - 1, "{seen:#}");
        assert_eq!(login.began(id - 1), 1);
    }
}

fn a_pack_of_which_only_paused_runs_are_left_keeps_no_allocation(scheduler: Scheduler) {
    let login = Many::of(Login::alone(scheduler));
    login.start_many(3, "  pack: 3\n", &waiting_run(&login));
    login.until_began(0, 1);
    login.home.ok(&["pause", "2-3"]);
    for id in [2, 3] {
        login.home.until_state(id, "paused");
    }
    let waits = |seen: &Value| {
        let why = seen["waiting_for"].as_str().unwrap_or_default();
        why.contains("goes on without it")
    };
    login.until(2, "to lose its turn", waits);
    // Grid Engine has no doorbell: its job looks by itself.
    until("the requests to be heard", || {
        let logs = login.task_logs();
        let is_heard = |id| logs.contains(&format!("run={id}.1 paused=true"));
        (is_heard(2) && is_heard(3)).then_some(()).ok_or(logs)
    });
    login.let_end(0);
    login.home.until_settled(1);
    for id in [2, 3] {
        let here = format!("`neroman resume {id}`");
        login.until(id, "to wait here", |seen| seen["waiting_for"] == *here);
    }
    assert_eq!((login.began(1), login.began(2)), (0, 0));
    login.home.ok(&["resume", "2-3"]);
    for number in [1, 2] {
        login.until_began(number, 1);
        login.let_end(number);
        let seen = login.home.until_settled(number + 1);
        assert_eq!(seen["exit_code"], number, "{seen:#}");
    }
}

#[test]
fn a_pack_of_slurm_of_which_only_paused_runs_are_left_keeps_no_allocation() {
    a_pack_of_which_only_paused_runs_are_left_keeps_no_allocation(Scheduler::Slurm);
}

#[test]
fn a_full_slurm_is_never_filled_up_and_runs_wait_here_with_the_count() {
    let scheduler = Scheduler::Slurm;
    let limits = [("ARRAY_SIZE", "6"), ("JOBS_MAX", "20"), ("JOB_AGE", "2")];
    let login = Many::of(Login::alone_with(scheduler, &limits));
    login.close_queue();
    // Another person has ten jobs.
    let words = ["-u", "nobody", "--", "sbatch", "--array=0-4", "--chdir=/"];
    let words = [&words[..], &["--output=/dev/null", "--wrap=true"]].concat();
    login.tell("runuser", &words);
    login.tell("runuser", &words);
    login.start_many(20, "", "exit {n}");
    let waits = |seen: &Value| {
        let why = seen["waiting_for"].as_str().unwrap_or_default();
        why.contains("it keeps 18 jobs of all users, of at most 20")
    };
    login.until(20, "to wait here", waits);
    // Eight fit, in arrays of five at most.
    let tasks = login.until_all_queued(8);
    assert_eq!(one_array(&tasks[..5]), tasks[4].split_once('_').unwrap().0);
    assert_ne!(one_array(&tasks[..5]), one_array(&tasks[5..]));
    login.home.ok(&["abort", "20"]);
    login.home.until_state(20, "aborted");
    login.open_queue();
    for id in 1..=19 {
        let seen = login.home.until_settled(id);
        assert_eq!(seen["exit_code"], id - 1, "{seen:#}");
    }
    let log = login.cluster.path().join("log/slurmctld.log");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(!log.contains("MaxJobCount limit"), "{log}");
}

/// The fact of a run that `show` prints behind this name.
fn fact(login: &Many, id: u64, name: &str) -> String {
    let said = login.home.ok(&["show", &id.to_string()]);
    let lines = said.lines().filter_map(|line| line.split_once(name));
    let found = lines.map(|(_, value)| value.trim().to_owned()).next();
    found.unwrap_or_else(|| panic!("{name} is not in:\n{said}"))
}

#[test]
fn a_run_uses_and_shows_what_slurm_granted_and_not_what_the_host_has() {
    let login = Many::of(Login::new(Scheduler::Slurm));
    let fields = "  resources: {cpus: 2, memory: 300M, gpus: 2}\n  setup: [export A=b]\n";
    let lines = "echo cuda $CUDA_VISIBLE_DEVICES of $SLURM_JOB_PARTITION, setup $A";
    login.start_many(1, fields, &format!("{lines}; true {{n}}"));
    login.home.until_settled(1);
    let said = login.home.ok(&["logs", "1"]);
    assert!(said.contains("cuda 0,1 of main, setup b"), "{said}");
    let granted = fact(&login, 1, "granted:");
    for part in [
        "SLURM's job ",
        " on ",
        "partition main",
        "2 CPUs, 300M memory, GPUs 0, 1",
    ] {
        assert!(granted.contains(part), "{granted}");
    }
}

#[test]
fn runs_of_a_pack_on_a_whole_host_of_slurm_run_at_the_same_time() {
    let scheduler = Scheduler::Slurm;
    let login = Many::of(Login::alone(scheduler));
    let fields = "  pack: 10\n  resources: {exclusive: true}\n";
    login.start_many(10, fields, &waiting_run(&login));
    // The host has eight CPUs.
    login.until_files("began", 8);
    for number in 0..10 {
        login.let_end(number);
    }
    for id in 1..=10 {
        let seen = login.home.until_settled(id);
        assert_eq!(seen["exit_code"], id - 1, "{seen:#}");
    }
    assert!(fact(&login, 1, "granted:").contains("8 CPUs"));
    runs_of_a_pack_have_cards_of_their_own(&login);
}

/// Eight CPUs and two cards: as many runs at once as there are cards, each with its own.
fn runs_of_a_pack_have_cards_of_their_own(login: &Many) {
    let folder = login.folder("cards");
    // Each of them waits until another run has the other card.
    let lines = format!(
        "mkdir -p {folder}/$CUDA_VISIBLE_DEVICES; \
         echo cards=$CUDA_VISIBLE_DEVICES,$ROCR_VISIBLE_DEVICES; \
         while ! [ -e {folder}/$((1 - CUDA_VISIBLE_DEVICES)) ]; do sleep 0.1; done"
    );
    let yaml = format!(
        "+cards:\n  command: [sh, -c, '{lines}; true {{n}}']\n  parameters: {{n: [0, 1, 2, 3]}}\n  \
         pack: 4\n  resources: {{exclusive: true, gpus: 1}}\n"
    );
    let of_cards = login.home.experiment("of cards", &yaml);
    login.home.ok(&["start", of_cards.to_str().unwrap()]);
    let first = 11;
    let mut cards = std::collections::BTreeSet::new();
    for id in first..first + 4 {
        let seen = login.home.until_settled(id);
        assert_eq!(seen["exit_code"], 0, "{seen:#}");
        let log = login.home.ok(&["logs", &id.to_string()]);
        let card = fact(login, id, "granted:");
        let (_, card) = card.split_once("GPU ").unwrap();
        assert!(
            log.contains(&format!("cards={card},{card}")),
            "{log} {card}"
        );
        cards.insert(card.to_owned());
    }
    assert_eq!(cards.into_iter().collect::<Vec<_>>(), ["0", "1"]);
}

#[test]
fn a_run_shows_what_grid_engine_granted() {
    let login = Many::of(Login::new(Scheduler::GridEngine));
    let fields = "  resources: {cpus: 2}\n  parallel_env: smp\n";
    login.start_many(1, fields, "exit $(({n} + NSLOTS))");
    let seen = login.home.until_settled(1);
    assert_eq!(seen["exit_code"], 2, "{seen:#}");
    let granted = fact(&login, 1, "granted:");
    assert!(granted.contains("Grid Engine's job "), "{granted}");
    assert!(granted.contains("partition all.q, 2 CPUs"), "{granted}");
}
