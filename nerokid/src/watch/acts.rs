//! Commands of rules that fired, each supervised by a `nerokid act` of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nero_journal::v1::{RuleFired, RuleRan};
use nero_model::ProcessId;
use nero_model::paths::{act, run};

use crate::core::rules::command;
use crate::folder::life;
use crate::folder::place::WatchedStart;
use crate::output::readers::variables;

/// Commands that have not come to their ends.
#[derive(Debug, Default)]
pub(super) struct Acts {
    /// Whether the run has ended and this process only settles it: no command is begun or waited
    /// for.
    is_settling: bool,
    running: Vec<RunningCommand>,
    /// Ends that are not recorded yet.
    ended: Vec<RuleRan>,
    /// Folders of firings whose ends are recorded with the next records.
    done: Vec<PathBuf>,
}

/// A command at work.
#[derive(Debug)]
struct RunningCommand {
    fired: RuleFired,
    job: Option<ProcessId>,
    folder: PathBuf,
    supervisor: Child,
    /// Whether an earlier supervisor of this watcher ended without a word.
    is_second: bool,
}

impl Acts {
    pub(super) fn new(is_settling: bool) -> Self {
        Self {
            is_settling,
            ..Self::default()
        }
    }

    /// Whether nothing is at work or to be recorded.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.ended.is_empty()
    }

    /// Has the command of a firing run, or waits for its end when it was begun before.
    pub(super) fn begin(&mut self, place: &WatchedStart, job: Option<ProcessId>, of: &RuleFired) {
        let name = act::folder(of.rule, of.times);
        let folder = place.run.join(run::ACTS).join(name);
        if self.is_settling {
            let end = fs::read(folder.join(act::END)).ok();
            let why = if folder.join(act::BEGUN).exists() {
                "its end is not known: nobody watched the run any more"
            } else {
                "not run: nobody watched the run when the rule fired"
            };
            let (how, output) =
                end.map_or((why.to_owned(), String::new()), |end| act::read_end(&end));
            return self.tell(of, folder, how, output);
        }
        match start(place, job, of, &folder) {
            Ok(supervisor) => self.running.push(RunningCommand {
                fired: of.clone(),
                job,
                folder,
                supervisor,
                is_second: false,
            }),
            Err(error) => self.tell(of, folder, format!("not started: {error}"), String::new()),
        }
    }

    fn tell(&mut self, of: &RuleFired, folder: PathBuf, how: String, output: String) {
        self.done.push(folder);
        self.ended.push(RuleRan {
            rule: of.rule,
            times: of.times,
            how,
            output,
        });
    }

    /// Takes the ends of commands.
    pub(super) fn ended(&mut self, place: &WatchedStart) -> Vec<RuleRan> {
        for mut one in std::mem::take(&mut self.running) {
            if matches!(one.supervisor.try_wait(), Ok(None)) {
                self.running.push(one);
                continue;
            }
            let end = fs::read(one.folder.join(act::END));
            if end.is_err() && !one.is_second {
                // The next one finds out whether the command was begun.
                if let Ok(supervisor) = start(place, one.job, &one.fired, &one.folder) {
                    self.running.push(RunningCommand {
                        supervisor,
                        is_second: true,
                        ..one
                    });
                    continue;
                }
            }
            let (how, output) = match end {
                Ok(end) => act::read_end(&end),
                Err(error) => (format!("its end is not known: {error}"), String::new()),
            };
            self.tell(&one.fired, one.folder, how, output);
        }
        std::mem::take(&mut self.ended)
    }

    /// Removes the folders of firings whose ends are on disk.
    pub(super) fn sweep(&mut self) {
        if self.ended.is_empty() {
            for folder in self.done.drain(..) {
                let _ = fs::remove_dir_all(folder);
            }
        }
    }
}

fn supervise(folder: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("act")
        .arg(folder)
        .arg(act::LIMIT_S.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn start(
    place: &WatchedStart,
    job: Option<ProcessId>,
    of: &RuleFired,
    folder: &Path,
) -> io::Result<Child> {
    fs::create_dir_all(folder)?;
    let mut supervisor = supervise(folder);
    if let Some(environment) = environment(place, job) {
        supervisor.env_clear().envs(variables(&environment));
    }
    let work = run::work_folder(&place.run, place.incarnation);
    supervisor
        // With it the command would count as a process of the job, and end with it.
        .env_remove(run::READER_LACKS)
        .env("NERO_RULE", &of.text)
        .env("NERO_VALUE", &of.values)
        .arg(work)
        .arg(command(of).unwrap_or_default())
        .spawn()
}

/// The environment with which the job was started: neromum kept it if the run began with such a
/// rule; else the job has it as long as it lives.
fn environment(place: &WatchedStart, job: Option<ProcessId>) -> Option<Vec<u8>> {
    if let Ok(kept) = fs::read(run::reader_environment(&place.run, place.incarnation)) {
        return Some(kept);
    }
    let job = job.filter(life::is_alive)?;
    let found = fs::read(format!("/proc/{}/environ", job.pid)).ok();
    // The number may have become another's, and what has ended has no environment.
    found.filter(|found| !found.is_empty() && life::is_alive(&job))
}
