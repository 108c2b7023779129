//! Runs of nodes whose scheduler the configuration describes, from `start` to their
//! results. The examples of `docs/schedulers.md` are the configurations.

use std::path::{Path, PathBuf};
use std::process::Command;

use nero_tests::cluster::{Cluster, Scheduler};
use nero_tests::{Home, until};
use serde_json::Value;

/// A home whose node `local` is a login node of a small batch system.
struct Site {
    home: Home,
    folder: PathBuf,
}

const LSF: &str = "nodes:\n  local:\n    warden: generic\n    scheduler: lsf\n";

/// The example of the documentation with this line, for the node `local`.
fn example(line: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schedulers.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```yaml\n").skip(1);
    let mut blocks = blocks.filter_map(|block| Some(block.split_once("```")?.0));
    let block = blocks.find(|block| block.starts_with("nodes:") && block.contains(line));
    let block = block.unwrap_or_else(|| panic!("{line} is in no example"));
    let lines = block.lines().filter(|line| !line.contains("address:"));
    let lines = lines.map(|line| match line.strip_prefix("  ") {
        Some(name) if !name.starts_with(' ') => "  local:",
        _ => line,
    });
    lines.map(|line| format!("{line}\n")).collect()
}

impl Site {
    fn new(style: &str, config: &str) -> Self {
        let mut home = Home::new();
        let folder = home.path().join("batch");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("rig/batch.sh");
        let installed = Command::new(script)
            .args(["install", style])
            .arg(&folder)
            .status();
        assert!(installed.is_ok_and(|status| status.success()));
        let path = std::env::var("PATH").unwrap();
        home.set_env("PATH", &format!("{}:{path}", folder.display()));
        home.configure(config);
        Self { home, folder }
    }

    fn pbs() -> Self {
        Self::new("pbs", &example("scheduler: pbs"))
    }

    fn nameless() -> Self {
        Self::new("jobman", &example("name: Jobman"))
    }

    /// Its commands speak a language of their own, whatever their environment asks for, as
    /// wrappers of a site may.
    fn speaks(self, language: &str) -> Self {
        for entry in std::fs::read_dir(&self.folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_file() {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                let (first, rest) = text.split_once('\n').unwrap();
                let text = format!("{first}\nexport LANG={language} LC_ALL={language}\n{rest}");
                std::fs::write(entry.path(), text).unwrap();
            }
        }
        self
    }

    fn start(&self, yaml: &str) {
        let folder = self.home.experiment("a", yaml);
        self.home.ok(&["start", folder.to_str().unwrap()]);
    }

    /// Makes a file to which the batch system looks.
    fn make(&self, name: &str) {
        std::fs::write(self.folder.join(name), "").unwrap();
    }

    fn open(&self) {
        std::fs::remove_file(self.folder.join("shut")).unwrap();
    }

    /// Waits until the run waits for a reason with these words.
    #[track_caller]
    fn until_waits(&self, id: u64, words: &str) {
        until(&format!("experiment {id} to wait: {words}"), || {
            let seen = self.home.experiment_json(id);
            let why = seen["waiting_for"].as_str().unwrap_or_default();
            if why.contains(words) {
                Ok(())
            } else {
                Err((seen, self.home.logs()))
            }
        });
    }

    /// How often the batch system was called with a line that begins so.
    fn calls(&self, begin: &str) -> usize {
        let calls = std::fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        calls.lines().filter(|line| line.starts_with(begin)).count()
    }
}

#[track_caller]
fn goes_through_and_comes_home(site: &Site) {
    site.start("command: [sh, -c, 'echo loss=0.5; exit 3']\n");
    let seen = site.home.until_settled(1);
    assert_eq!(seen["state"], "crashed", "{seen:#}");
    assert_eq!(seen["exit_code"], 3, "{seen:#}");
    assert_eq!(seen["metrics"]["loss"]["last"], 0.5, "{seen:#}");
}

#[test]
fn a_run_goes_through_a_scheduler_in_the_manner_of_pbs() {
    goes_through_and_comes_home(&Site::pbs());
}

#[test]
fn a_run_goes_through_a_scheduler_in_the_manner_of_lsf() {
    goes_through_and_comes_home(&Site::new("lsf", LSF));
}

#[test]
fn a_run_goes_through_a_scheduler_that_shows_no_names() {
    goes_through_and_comes_home(&Site::nameless());
}

#[track_caller]
fn an_abort_ends_what_waits_and_what_runs(site: &Site, name: &str) {
    site.make("shut");
    site.start("command: [sh, -c, 'echo x > ../../started; exec sleep 1000']\n");
    site.until_waits(1, &format!("in {name}'s queue as job 7"));
    site.home.ok(&["abort", "1"]);
    let seen = site.home.until_state(1, "aborted");
    assert_eq!(seen["started_at"], Value::Null, "{seen:#}");
    site.open();
    site.home.ok(&["restart", "1"]);
    site.home.until_state(1, "running");
    site.home.ok(&["abort", "1"]);
    let seen = site.home.until_state(1, "aborted");
    assert!(!seen["reason"].to_string().contains(name), "{seen:#}");
}

#[test]
fn an_abort_ends_what_waits_and_runs_in_the_manner_of_pbs() {
    an_abort_ends_what_waits_and_what_runs(&Site::pbs(), "PBS");
}

#[test]
fn an_abort_ends_what_waits_and_runs_in_the_manner_of_lsf() {
    an_abort_ends_what_waits_and_what_runs(&Site::new("lsf", LSF), "LSF");
}

#[test]
fn an_abort_ends_what_waits_and_runs_where_no_names_are_shown() {
    an_abort_ends_what_waits_and_what_runs(&Site::nameless(), "Jobman");
}

#[test]
fn a_paused_run_is_held_by_the_words_of_its_recipe_and_begins_when_it_is_resumed() {
    let site = Site::new("lsf", LSF);
    site.make("shut");
    site.start("+a:\n  command: [sh, -c, 'exit {code}']\n  parameters: {code: [3, 4]}\n");
    site.until_waits(2, "in LSF's queue as job 7");
    site.home.ok(&["pause", "2"]);
    until("the scheduler to hold the task", || {
        let state = std::fs::read_to_string(site.folder.join("jobs/7.2/state")).unwrap();
        (state == "held\n").then_some(()).ok_or(state)
    });
    assert_eq!(site.calls("bstop 7[2]"), site.calls("bstop"));
    site.open();
    let seen = site.home.until_settled(1);
    assert_eq!(seen["exit_code"], 3, "{seen:#}");
    let seen = site.home.experiment_json(2);
    assert_eq!(seen["state"], "paused", "{seen:#}");
    site.home.ok(&["resume", "2"]);
    let seen = site.home.until_settled(2);
    assert_eq!(seen["exit_code"], 4, "{seen:#}");
}

#[test]
fn where_a_scheduler_holds_nothing_a_paused_run_tells_that_its_job_will_leave() {
    let site = Site::pbs();
    site.make("shut");
    site.start("command: [sh, -c, 'exit 3']\n");
    site.until_waits(1, "in PBS's queue as job 7");
    site.home.ok(&["pause", "1"]);
    site.until_waits(1, "PBS holds no jobs: when its turn comes the job leaves");
    site.home.ok(&["resume", "1"]);
    site.open();
    let seen = site.home.until_settled(1);
    assert_eq!(seen["exit_code"], 3, "{seen:#}");
}

#[track_caller]
fn equal_runs_go_as_one_array(site: &Site, submit: &str) {
    site.start("+a:\n  command: [sh, -c, 'exit {code}']\n  parameters: {code: [3, 4, 5]}\n");
    for (id, code) in [(1, 3), (2, 4), (3, 5)] {
        let seen = site.home.until_settled(id);
        assert_eq!(seen["exit_code"], code, "{seen:#}");
    }
    assert_eq!(site.calls(submit), 1);
}

#[test]
fn equal_runs_go_as_one_array_in_the_manner_of_pbs() {
    equal_runs_go_as_one_array(&Site::pbs(), "qsub");
}

#[test]
fn equal_runs_go_as_one_array_in_the_manner_of_lsf() {
    equal_runs_go_as_one_array(&Site::new("lsf", LSF), "bsub");
}

#[test]
fn a_submission_whose_answer_is_lost_is_found_by_its_name_though_names_are_cut() {
    let site = Site::pbs();
    site.make("shut");
    site.make("lose");
    site.start("command: [sh, -c, 'exit 4']\n");
    site.until_waits(1, "in PBS's queue as job 7");
    site.open();
    let seen = site.home.until_settled(1);
    assert_eq!(seen["exit_code"], 4, "{seen:#}");
    assert_eq!(site.calls("qsub"), 1);
}

#[test]
fn without_names_a_lost_answer_is_told_by_the_job_itself_or_ended_by_an_abort() {
    let site = Site::nameless();
    site.make("shut");
    site.make("lose");
    site.start("command: [sh, -c, 'exit 4']\n");
    site.until_waits(1, "its list shows no names: it is not submitted again");
    site.open();
    let seen = site.home.until_settled(1);
    assert_eq!(seen["exit_code"], 4, "{seen:#}");
    assert_eq!(site.calls("jobman submit"), 1);

    site.make("shut");
    site.make("lose");
    site.home.ok(&["restart", "1"]);
    site.until_waits(1, "its list shows no names: it is not submitted again");
    site.home.ok(&["abort", "1"]);
    let seen = site.home.until_state(1, "aborted");
    assert_eq!(seen["started_at"], Value::Null, "{seen:#}");
    site.open();
    until("the job that comes late to end", || {
        let state = std::fs::read_to_string(site.folder.join("jobs/8.0/state")).unwrap();
        match &*state {
            "waiting\n" | "running\n" => Err(state),
            _ => Ok(()),
        }
    });
    let seen = site.home.experiment_json(1);
    assert_eq!(seen["state"], "aborted", "{seen:#}");
}

#[test]
fn a_field_that_no_line_passes_on_is_refused_with_its_place() {
    let site = Site::nameless();
    site.start("command: 'true'\nqueue: long\n");
    let seen = site.home.until_settled(1);
    let reason = seen["reason"].to_string();
    assert!(
        reason.contains("`queue` is not passed on to Jobman: no line of its `header`"),
        "{seen:#}"
    );
}

#[test]
fn the_doctor_shows_the_programs_and_what_the_list_reads_as() {
    let site = Site::pbs();
    site.make("shut");
    site.start("command: 'true'\n");
    site.until_waits(1, "in PBS's queue");
    let said = site.home.run(&["node", "doctor", "local"]).out;
    for part in [
        "batch/qsub, ",
        "jobs of yours that did not end: 1",
        "read as no job: rig: | Req'd | Job ID Username Queue Jobname; ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // A change of the configuration makes the connection anew; it is waited for.
    for name in ["Altered", "Altered once more"] {
        let like = format!("scheduler: {{like: pbs, name: {name}}}");
        site.home
            .configure(&example("scheduler: pbs").replace("scheduler: pbs", &like));
        let ran = site.home.run(&["node", "doctor", "local"]);
        assert!(ran.out.contains(&format!("{name}'s list: ")), "{ran:?}");
    }
    site.home.ok(&["abort", "1"]);
}

#[test]
fn a_run_goes_through_the_qsub_that_slurm_brings_along_and_aborts_end_it() {
    let mut home = Home::new();
    let folder = home.path().join("torque");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("rig/slurm.sh");
    let unpacked = Command::new(script).arg("torque").arg(&folder).output();
    let unpacked = unpacked.unwrap();
    assert!(unpacked.status.success(), "{unpacked:?}");
    let cluster = Cluster::shared(Scheduler::Slurm);
    cluster.log_in(&mut home);
    let path = std::env::var("PATH").unwrap();
    home.set_env("PATH", &format!("{}/bin:{path}", folder.display()));
    home.configure(&example("scheduler: pbs").replace("pbs", "slurm-torque"));
    let site = Site { home, folder };
    goes_through_and_comes_home(&site);
    for (id, queue) in [(2, "shut"), (3, "main")] {
        let yaml = format!("command: [sleep, '1000']\nqueue: {queue}\n");
        let folder = site.home.experiment(queue, &yaml);
        site.home.ok(&["start", folder.to_str().unwrap()]);
        match queue {
            "shut" => site.until_waits(id, "in qsub of SLURM's queue as job "),
            _ => drop(site.home.until_state(id, "running")),
        }
        site.home.ok(&["abort", &id.to_string()]);
        site.home.until_state(id, "aborted");
    }
}

/// A run gets through a scheduler of this language when its word for an empty list is
/// known; before that a person is told what it said, and where to write it.
#[track_caller]
fn is_understood_when_its_empty_list_is(language: &str, empty: &str) {
    let site = Site::new("lsf", LSF).speaks(language);
    site.make("shut");
    site.start("command: [sh, -c, 'exit 3']\n");
    site.until_waits(1, empty);
    site.until_waits(1, "write it into `empty:` of the node's `scheduler:`");
    let words = format!("{{like: lsf, empty: '{empty}'}}");
    site.home.configure(&LSF.replace("lsf", &words));
    site.until_waits(1, "in LSF's queue as job 7");
    site.open();
    let seen = site.home.until_settled(1);
    assert_eq!(seen["exit_code"], 3, "{seen:#}");
    assert_eq!(site.calls("bsub"), 1);
}

#[test]
fn an_empty_list_in_german_is_told_and_its_words_can_be_given() {
    is_understood_when_its_empty_list_is("de_DE.UTF-8", "Kein Auftrag gefunden");
}

#[test]
fn an_empty_list_in_chinese_is_told_and_its_words_can_be_given() {
    is_understood_when_its_empty_list_is("zh_CN.UTF-8", "未找到作业");
}

#[test]
fn states_in_another_language_are_no_end_and_an_answer_in_it_is_told_as_it_was() {
    let site = Site::nameless().speaks("de_DE.UTF-8");
    site.make("shut");
    site.start("command: [sh, -c, 'echo loss=0.5; exit 4']\n");
    site.until_waits(1, "it is not known whether Jobman took it");
    site.until_waits(1, "Auftrag 7 eingereiht");
    site.open();
    let seen = site.home.until_settled(1);
    assert_eq!(seen["exit_code"], 4, "{seen:#}");
    assert_eq!(seen["metrics"]["loss"]["last"], 0.5, "{seen:#}");
    assert_eq!(site.calls("jobman submit"), 1);
}

#[test]
fn a_refusal_in_another_language_is_told_as_it_was() {
    let words = "{like: lsf, empty: 'Kein Auftrag gefunden'}";
    let site = Site::new("lsf", &LSF.replace("lsf", words)).speaks("de_DE.UTF-8");
    site.start("command: 'true'\nqueue: closed\n");
    site.until_waits(1, "closed: Warteschlange unbekannt.");
}
