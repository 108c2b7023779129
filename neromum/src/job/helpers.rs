//! Helpers on the hosts of a run whose processes are in no tree of a shim: the commands
//! that start them are children of this process, and their standard input ends with the
//! task. A helper that cannot be started, or that dies, ends nothing: the run's watcher
//! names its host.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nero_warden::Kind;
use nero_warden::hosts::{AllocatedHost, HelperCall, helper_calls};
use nero_wire::v1::{RunSpec, SchedulerRequest};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

/// Time for helpers to end what is left, after the runs of the task are over.
const FAREWELL: Duration = Duration::from_secs(10);
/// Starts that may wait for their helpers: those of a whole pack.
const STARTS_MAX: usize = 64;

/// A start of a run that gets helpers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelpersWanted {
    /// The commands.
    pub calls: Vec<HelperCall>,
}

/// How helpers of this task's runs are started.
#[derive(Clone, Debug)]
pub struct Help {
    hosts: Vec<AllocatedHost>,
    kind: Kind,
    program: PathBuf,
    wanted: mpsc::Sender<HelpersWanted>,
}

impl Help {
    /// For the hosts of an allocation; `program` is `nerokid`.
    pub fn new(
        hosts: Vec<AllocatedHost>,
        kind: Kind,
        program: PathBuf,
    ) -> (Self, mpsc::Receiver<HelpersWanted>) {
        let (wanted, starts) = mpsc::channel(STARTS_MAX);
        let help = Self {
            hosts,
            kind,
            program,
            wanted,
        };
        (help, starts)
    }

    /// Hosts of the allocation that the run may have; `None`: not told.
    pub fn hosts(&self) -> Option<u32> {
        let count = u32::try_from(self.hosts.len()).ok();
        count.filter(|count| *count > 0)
    }

    /// The helpers of a start: none where all processes of the run are in the tree of
    /// its shim.
    pub fn of(&self, spec: &RunSpec, run_dir: &str, incarnation: u32) -> Option<HelpersWanted> {
        // A script that asks for several processes calls `srun` itself.
        let has_steps = |asks: &SchedulerRequest| asks.launcher == "srun" || asks.processes > 1;
        let by_srun = self.kind == Kind::Slurm && spec.scheduler.as_ref().is_some_and(has_steps);
        let is_needed = self.hosts.len() > 1 || by_srun;
        let helper = [
            self.program.display().to_string(),
            "host".to_owned(),
            run_dir.to_owned(),
            incarnation.to_string(),
        ];
        let calls = helper_calls(self.kind, &self.hosts, &helper);
        (is_needed && !calls.is_empty()).then_some(HelpersWanted { calls })
    }

    /// Has them started.
    pub fn start(&self, wanted: HelpersWanted) {
        if self.wanted.try_send(wanted).is_err() {
            tracing::warn!("too many starts wait for their helpers");
        }
    }
}

impl HelpersWanted {
    /// Hosts that get a helper.
    pub fn hosts(&self) -> Vec<String> {
        let each = self.calls.iter().flat_map(|call| call.hosts.iter());
        each.cloned().collect()
    }
}

/// The commands that run.
pub struct Helpers {
    starts: mpsc::Receiver<HelpersWanted>,
    /// Where they complain.
    log: PathBuf,
    running: Vec<Child>,
}

impl Helpers {
    /// None yet.
    pub fn new(starts: mpsc::Receiver<HelpersWanted>, log: PathBuf) -> Self {
        Self {
            starts,
            log,
            running: Vec::new(),
        }
    }

    /// Starts those of the next start; never returns.
    pub async fn serve(&mut self) {
        while let Some(wanted) = self.starts.recv().await {
            for call in wanted.calls {
                match self.spawn(&call) {
                    Ok(child) => self.running.push(child),
                    Err(error) => {
                        let hosts = call.hosts.join(",");
                        tracing::warn!(hosts, %error, "helpers cannot be started");
                    }
                }
            }
        }
        std::future::pending().await
    }

    fn spawn(&self, call: &HelperCall) -> std::io::Result<Child> {
        let log = OpenOptions::new().append(true).create(true).open(&self.log);
        let log = log.map_or_else(|_| Stdio::null(), Stdio::from);
        Command::new(&call.argv[0])
            .args(&call.argv[1..])
            // It is for the run's own steps.
            .env_remove("SRUN_CPUS_PER_TASK")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
    }

    /// The runs are over: ends the helpers' standard input, and waits until they have
    /// ended what is left, for a while.
    pub async fn finish(mut self) {
        for child in &mut self.running {
            drop(child.stdin.take());
        }
        let all = async {
            for child in &mut self.running {
                let ended = child.wait().await;
                tracing::debug!(?ended, "helpers ended");
            }
        };
        if tokio::time::timeout(FAREWELL, all).await.is_err() {
            tracing::warn!("helpers do not end: the scheduler ends them");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_script_calls_srun_itself_gets_a_helper_on_its_one_host() {
        let host = AllocatedHost {
            name: "n1".to_owned(),
            slots: 0,
        };
        let (help, _starts) = Help::new(vec![host], Kind::Slurm, PathBuf::from("/b/nerokid"));
        let hosts = |processes, launcher: &str| {
            let asks = SchedulerRequest {
                processes,
                launcher: launcher.to_owned(),
                ..SchedulerRequest::default()
            };
            let spec = RunSpec {
                scheduler: Some(asks),
                ..RunSpec::default()
            };
            help.of(&spec, "/r", 1).map(|wanted| wanted.hosts())
        };
        let one = Some(vec!["n1".to_owned()]);
        assert_eq!((hosts(4, ""), hosts(1, "srun")), (one.clone(), one));
        assert_eq!(hosts(1, ""), None, "all of it is in the tree of its shim");
    }
}
