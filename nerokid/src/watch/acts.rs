//! Commands of rules that fired, each supervised by a `nerokid act` of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nero_journal::v1::{RuleFired, RuleRan};
use nero_model::ProcessId;
use nero_model::paths::{act, run};

use crate::core::rules::command;
use crate::life;
use crate::place::WatchedStart;
use crate::readers::variables;

/// Commands that have not come to their ends.
#[derive(Debug, Default)]
pub(super) struct Acts {
    running: Vec<Running>,
    /// Ends that are not recorded yet.
    ended: Vec<RuleRan>,
}

/// A command at work.
#[derive(Debug)]
struct Running {
    rule: u64,
    times: u32,
    folder: PathBuf,
    supervisor: Child,
    /// Whether an earlier supervisor of this watcher ended without a word.
    is_second: bool,
}

impl Acts {
    /// Whether nothing is at work or to be recorded.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.ended.is_empty()
    }

    /// Has the command of a firing run, or waits for its end when it was begun before.
    pub(super) fn begin(&mut self, place: &WatchedStart, job: Option<ProcessId>, of: &RuleFired) {
        let name = act::folder(of.rule, of.times);
        let folder = place.run.join(run::ACTS).join(name);
        match start(place, job, of, &folder) {
            Ok(supervisor) => self.running.push(Running {
                rule: of.rule,
                times: of.times,
                folder,
                supervisor,
                is_second: false,
            }),
            Err(error) => self.ended.push(RuleRan {
                rule: of.rule,
                times: of.times,
                how: format!("not started: {error}"),
                output: String::new(),
            }),
        }
    }

    /// Takes the ends of commands.
    pub(super) fn ended(&mut self) -> Vec<RuleRan> {
        let running = std::mem::take(&mut self.running);
        for mut one in running {
            if matches!(one.supervisor.try_wait(), Ok(None)) {
                self.running.push(one);
                continue;
            }
            let end = fs::read(one.folder.join(act::END));
            if end.is_err() && !one.is_second {
                // The next one finds out whether its command was begun.
                if let Ok(supervisor) = supervise(&one.folder).arg("/").arg("").spawn() {
                    self.running.push(Running {
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
            self.ended.push(RuleRan {
                rule: one.rule,
                times: one.times,
                how,
                output,
            });
        }
        std::mem::take(&mut self.ended)
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
        .env("NERO_DIR", &work)
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
