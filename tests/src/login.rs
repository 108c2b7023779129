//! Login nodes of clusters with a real scheduler, and the runs that are submitted there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nero_model::ProcessId;
use serde_json::Value;

use crate::cluster::{Cluster, Scheduler};
use crate::home::{Home, end};
use crate::late::LateDisk;
use crate::wait::until;

/// A home whose node `local` is a login node of a cluster.
#[derive(Debug)]
pub struct Login {
    /// The disk that it shares with its compute nodes, where that is not a plain one. Dropped first:
    /// the home lies around it.
    pub disk: Option<LateDisk>,
    /// Its neroman.
    pub home: Home,
    /// The cluster.
    pub cluster: Cluster,
    scheduler: Scheduler,
}

impl Login {
    /// A login node of the cluster of this run of tests.
    pub fn new(scheduler: Scheduler) -> Self {
        Self::of(None, Home::new(), Cluster::shared(scheduler), scheduler)
    }

    /// A login node of a cluster of this test alone.
    pub fn alone(scheduler: Scheduler) -> Self {
        Self::alone_with(scheduler, &[])
    }

    /// The same with variables that the cluster's script knows.
    pub fn alone_with(scheduler: Scheduler, env: &[(&str, &str)]) -> Self {
        let home = Home::new();
        let disk = LateDisk::by_hand(&home);
        Self::on(disk, home, scheduler, env)
    }

    /// The same on a disk that shows to each host after this time what others changed;
    /// `None` where this user may not mount it.
    pub fn on_late_disk(scheduler: Scheduler, delay: Duration) -> Option<Self> {
        let home = Home::new();
        let disk = match LateDisk::by_hand(&home) {
            Some(disk) => disk,
            None => LateDisk::mounted(&home, delay)?,
        };
        Some(Self::on(Some(disk), home, scheduler, &[]))
    }

    fn on(disk: Option<LateDisk>, home: Home, scheduler: Scheduler, env: &[(&str, &str)]) -> Self {
        let late = disk.as_ref().map(LateDisk::command);
        let late = late.iter().map(|command| ("LATE", &**command));
        let env: Vec<(&str, &str)> = env.iter().copied().chain(late).collect();
        let cluster = Cluster::alone_with(scheduler, &env);
        Self::of(disk, home, cluster, scheduler)
    }

    fn of(disk: Option<LateDisk>, mut home: Home, cluster: Cluster, scheduler: Scheduler) -> Self {
        cluster.log_in(&mut home);
        let warden = match scheduler {
            Scheduler::Slurm | Scheduler::SlurmWithoutAccounting => "slurm",
            Scheduler::GridEngine => "oge",
        };
        home.configure(&format!("nodes: {{local: {{warden: {warden}}}}}\n"));
        Self {
            disk,
            home,
            cluster,
            scheduler,
        }
    }

    /// Whether its scheduler is SLURM.
    pub fn is_slurm(&self) -> bool {
        match self.scheduler {
            Scheduler::Slurm | Scheduler::SlurmWithoutAccounting => true,
            Scheduler::GridEngine => false,
        }
    }

    /// Starts an experiment that executes these lines of a shell.
    pub fn start(&self, name: &str, lines: &str) {
        let yaml = format!("command: [sh, -c, '{lines}']\n");
        let folder = self.home.experiment(name, &yaml);
        self.home.ok(&["start", folder.to_str().unwrap()]);
    }

    /// Starts an experiment that executes these lines of a shell, with more of its file,
    /// as a submission of its own; returns the number of its job when that runs or
    /// waits.
    #[track_caller]
    pub fn submit(&self, name: &str, lines: &str, more: &str) -> String {
        let before = self.submissions();
        let yaml = format!("command: [sh, -c, '{lines}']\n{more}\n");
        let folder = self.home.experiment(name, &yaml);
        self.home.ok(&["start", folder.to_str().unwrap()]);
        until(&format!("{name} to be submitted"), || {
            let new = self.submissions().into_iter();
            let new: Vec<String> = new.filter(|one| !before.contains(one)).collect();
            let job = new.first().and_then(|one| self.job(one));
            job.ok_or_else(|| (new, self.home.logs()))
        })
    }

    /// Names of the folders of submissions.
    pub fn submissions(&self) -> Vec<String> {
        let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        self.submission_folders().iter().filter_map(name).collect()
    }

    fn submission_folders(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for deployment in entries(&self.home.base().join("node")) {
            for node in entries(&deployment.join("mum")) {
                found.extend(entries(&node.join("submissions")));
            }
        }
        found
    }

    /// The logs of all starts in allocations.
    pub fn task_logs(&self) -> String {
        let files = self
            .submission_folders()
            .into_iter()
            .flat_map(|one| entries(&one));
        let logs = files.filter(|path| path.extension().is_some_and(|end| end == "log"));
        logs.filter_map(|path| std::fs::read_to_string(path).ok())
            .collect()
    }

    /// The number of a submission's job in the queue.
    fn job(&self, submission: &str) -> Option<String> {
        let name = format!("nero-{submission}");
        let said = match self.scheduler {
            Scheduler::Slurm | Scheduler::SlurmWithoutAccounting => {
                let words = ["--noheader", "--format=%i", "--name", &name];
                self.cluster.run("squeue", &words).stdout
            }
            Scheduler::GridEngine => {
                let said = self.cluster.run("qstat", &["-j", &name]).stdout;
                let text = String::from_utf8_lossy(&said).into_owned();
                let line = text.lines().find(|line| line.starts_with("job_number:"))?;
                line.split_whitespace().nth(1)?.as_bytes().to_vec()
            }
        };
        let job = String::from_utf8_lossy(&said).trim().to_owned();
        (!job.is_empty()).then_some(job)
    }

    /// Waits until the status of an experiment fits.
    #[track_caller]
    pub fn until(&self, id: u64, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        until(&format!("experiment {id} {what}"), || {
            let seen = self.home.experiment_json(id);
            if fits(&seen) {
                Ok(seen)
            } else {
                Err((seen, self.home.logs()))
            }
        })
    }

    /// Waits until the run waits at the scheduler; returns its job's number.
    #[track_caller]
    pub fn until_queued(&self, id: u64) -> String {
        let words = "queue as job ";
        let queued = |seen: &Value| {
            let why = seen["waiting_for"].as_str()?;
            Some(why.split_once(words)?.1.to_owned())
        };
        let seen = self.until(id, "to be queued", |seen| queued(seen).is_some());
        let job = queued(&seen).unwrap();
        let end = job.find(|c: char| !c.is_ascii_digit() && c != '_');
        job[..end.unwrap_or(job.len())].to_owned()
    }

    /// A command of the scheduler, as a person gives it.
    pub fn tell(&self, program: &str, args: &[&str]) {
        let output = self.cluster.run(program, args);
        assert!(output.status.success(), "{program} {args:?}: {output:?}");
    }

    /// The number of the one job that runs.
    pub fn running(&self) -> String {
        let words = ["--noheader", "--states=R", "--format=%i"];
        let said = self.cluster.run("squeue", &words);
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }

    /// Waits for a file that a run makes in this home's folder.
    #[track_caller]
    pub fn until_made(&self, name: &str) -> String {
        until(&format!("{name} to be made"), || {
            let text = std::fs::read_to_string(self.home.path().join(name));
            text.map_err(|error| (error, self.home.logs()))
        })
    }

    /// A path in the folder of this test.
    pub fn path(&self, name: &str) -> String {
        self.home.path().join(name).display().to_string()
    }

    /// Processes of `neromum serve`: the leader, and none in an allocation.
    pub fn leaders(&self) -> Vec<ProcessId> {
        self.agents(b"serve")
    }

    /// `kill -9` to every `neromum job`: the process that the scheduler knows.
    pub fn kill_jobs(&self) {
        let jobs = self.agents(b"job");
        assert!(!jobs.is_empty(), "{}", self.home.logs());
        end(&jobs);
    }

    /// Processes of `neromum` with this first word.
    fn agents(&self, word: &[u8]) -> Vec<ProcessId> {
        let base = self.home.base();
        let base = base.as_os_str().as_encoded_bytes();
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let leads = |pid: &i32| {
            let said = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = said.split(|byte| *byte == 0).collect();
            words
                .first()
                .is_some_and(|word| word.ends_with(b"/neromum"))
                && words.get(1) == Some(&word)
                && said.windows(base.len()).any(|part| part == base)
        };
        pids.filter(leads)
            .filter_map(|pid| ProcessId::of(pid).ok())
            .collect()
    }

    /// `kill -9` to the leader; returns when it is dead.
    pub fn kill_leader(&self) {
        let leaders = self.leaders();
        assert!(!leaders.is_empty(), "{}", self.home.logs());
        end(&leaders);
    }

    /// Replaces `sbatch` or `qsub` for this home by a script with these lines; `REAL`
    /// stands for the real one.
    pub fn replace_submit(&mut self, lines: &str) -> PathBuf {
        let name = match self.scheduler {
            Scheduler::Slurm | Scheduler::SlurmWithoutAccounting => "sbatch",
            Scheduler::GridEngine => "qsub",
        };
        self.replace(name, lines)
    }

    /// The same for another command.
    pub fn replace(&mut self, name: &str, lines: &str) -> PathBuf {
        let which = |name: &str| -> PathBuf {
            let path = std::env::var("PATH").unwrap();
            let mut found = path.split(':').map(|folder| Path::new(folder).join(name));
            found.find(|path| path.exists()).unwrap()
        };
        let folder = self.home.path().join("front");
        std::fs::create_dir_all(&folder).unwrap();
        for other in [
            "squeue", "sacct", "scontrol", "scancel", "sinfo", "qstat", "qconf",
        ] {
            let to = folder.join(other);
            let _ = std::os::unix::fs::symlink(which(other), to);
        }
        let _ = std::fs::remove_file(folder.join(name));
        let real = which(name).display().to_string();
        let script =
            format!("#!/bin/sh\n[ \"$1\" = --version ] && exec {real} --version\n{lines}\n");
        let script = script.replace("REAL", &real);
        std::fs::write(folder.join(name), script).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.join(name), mode).unwrap();
        let path = std::env::var("PATH").unwrap();
        self.home
            .set_env("PATH", &format!("{}:{path}", folder.display()));
        folder
    }
}

/// What lies in a folder, if it is there.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
    found.map(|entry| entry.path()).collect()
}
