//! Faults, and their ends.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nero_model::process::{ProcessId, Stat};
use rustix::process::Signal;

use super::judge;
use super::run::{Chaos, Why};
use super::step::{ClusterFault, HostFault};
use super::world::{Place, children, signal};
use crate::processes::Part;

/// Pause between two looks of a cluster's administrator.
const RESUME: Duration = Duration::from_secs(2);

/// A fault that ends at a time.
#[derive(Debug)]
pub struct Undo {
    pub(super) at: Instant,
    pub(super) what: Mend,
}

/// How a fault ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mend {
    /// A process goes on.
    Thaw(ProcessId),
    /// The home's disk has space again.
    FreeHome,
    /// Packets reach the host again.
    Reach(String),
    /// The host goes on.
    ThawHost(String),
    /// The host is started.
    StartHost(String),
    /// The host's disk has space again.
    FreeHost(String),
    /// Launchers there and their shims are killed.
    KillSupervisors(Place),
    /// The home's file system has inodes again.
    FreeInodes,
    /// A daemon of the cluster is started.
    StartDaemon(String),
    /// All paused runs go on.
    Resume,
    /// The daemon of the runtime of containers is started.
    StartRuntime,
}

impl Chaos {
    /// `kill -9` of one process of this part, if there is one whose death breaks no promise.
    pub(super) fn kill(&mut self, place: u64, part: Part, pick: u64) {
        let Some((place, victim)) = self.victim(place, part, pick) else {
            return;
        };
        self.happened(
            &format!("kill {part:?}"),
            &format!("{} at {place:?}", victim.pid),
        );
        signal(&victim, Signal::KILL);
    }

    /// Stops one process of this part for a while.
    pub(super) fn freeze(&mut self, place: u64, part: Part, pick: u64, ms: u64) {
        let Some((place, victim)) = self.victim(place, part, pick) else {
            return;
        };
        self.happened(
            &format!("freeze {part:?}"),
            &format!("{} at {place:?}", victim.pid),
        );
        signal(&victim, Signal::STOP);
        self.later(ms, Mend::Thaw(victim));
    }

    /// `kill -9` of every launcher and shim there: exit codes may be lost, but no job may run
    /// twice.
    pub(super) fn kill_supervisors(&mut self, place: &Place) {
        let node = match place {
            Place::Here => "local".to_owned(),
            Place::Host(name) if self.is_broken(name) => return,
            Place::Host(name) => name.clone(),
        };
        let mut parts = self.world.parts(place);
        parts.retain(|(part, _)| matches!(part, Part::Launcher | Part::Shim));
        self.happened("kill supervisors", &format!("{} at {place:?}", parts.len()));
        self.unsupervised.insert(node);
        for (_, id) in &parts {
            signal(id, Signal::KILL);
        }
    }

    /// Delays a kind of call of a process and of its children, as a hanging file server does.
    pub(super) fn hold_call(
        &mut self,
        place: u64,
        part: Part,
        pick: u64,
        call: &str,
        ms: u64,
    ) -> Option<Place> {
        let (place, victim) = self.victim(place, part, pick)?;
        self.happened(
            "hold call",
            &format!("{call} of {part:?} {} at {place:?}", victim.pid),
        );
        let seconds = format!("{:.1}", ms as f64 / 1000.0);
        let held = Command::new("timeout")
            .args([
                "-s",
                "KILL",
                &seconds,
                "strace",
                "-f",
                "-qq",
                "-o",
                "/dev/null",
            ])
            .args([
                "-p",
                &victim.pid.to_string(),
                "-e",
                &format!("trace={call}"),
            ])
            .args(["-e", &format!("inject={call}:delay_enter={}", ms * 1000)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match held {
            Ok(child) => self.holders.push(child),
            Err(error) => self
                .broken
                .push(format!("strace cannot be started: {error}")),
        }
        Some(place)
    }

    /// Stops a shim, as its job could. The chaos never continues it.
    pub(super) fn stop_shim(&mut self, place: u64, pick: u64) {
        let Some((place, victim)) = self.victim(place, Part::Shim, pick) else {
            return;
        };
        self.happened("stop shim", &format!("{} at {place:?}", victim.pid));
        signal(&victim, Signal::STOP);
    }

    pub(super) fn fill_inodes(&mut self, ms: u64) {
        if self.undo.iter().any(|undo| undo.what == Mend::FreeInodes) {
            return;
        }
        match self.world.fill_inodes() {
            Ok(()) => self.happened("no inodes", ""),
            Err(error) => self
                .history
                .add(format!("the inodes could not be taken: {error}")),
        }
        self.later(ms, Mend::FreeInodes);
    }

    /// Sets all wall clocks; this must not make any run seem six hours old.
    pub(super) fn set_clock(&mut self, offset_s: i64) {
        let Some(clock) = &self.clock else { return };
        match clock.set(offset_s) {
            Ok(()) => self.happened("set clock", &format!("{offset_s} s")),
            Err(error) => self
                .broken
                .push(format!("the clock cannot be set: {error}")),
        }
    }

    fn victim(&self, place: u64, part: Part, pick: u64) -> Option<(Place, ProcessId)> {
        // The daemon and its connections run only here; the other end of a connection never does.
        let all: Vec<Place> = match part {
            Part::Daemon | Part::Ssh => vec![Place::Here],
            Part::Dial => self.world.places().split_off(1),
            _ => self.world.places(),
        };
        if all.is_empty() {
            return None;
        }
        let place = all[(place % all.len() as u64) as usize].clone();
        if let Place::Host(name) = &place
            && self.is_broken(name)
        {
            return None;
        }
        let parts = self.world.parts(&place);
        let launchers: Vec<i32> = pids(&parts, Part::Launcher);
        let ours: Vec<i32> = parts
            .iter()
            .filter(|(part, _)| *part != Part::Job)
            .map(|(_, id)| id.pid)
            .collect();
        let fitting: Vec<ProcessId> = parts
            .iter()
            .filter(|(its, _)| *its == part)
            .map(|(_, id)| *id)
            .filter(|id| match part {
                // Shim and launcher of one run must not both die: that loses
                // the exit code, by design.
                Part::Shim => Stat::read(id.pid).is_ok_and(|stat| launchers.contains(&stat.ppid)),
                Part::Launcher => children(id.pid).iter().all(|pid| ours.contains(pid)),
                _ => true,
            })
            .collect();
        let count = fitting.len() as u64;
        (count > 0).then(|| (place, fitting[(pick % count) as usize]))
    }

    pub(super) fn fill_home(&mut self, ms: u64) {
        if self.undo.iter().any(|undo| undo.what == Mend::FreeHome) {
            return;
        }
        match self.world.fill_home() {
            Ok(()) => self.happened("full home", ""),
            Err(error) => self
                .history
                .add(format!("the home could not be filled: {error}")),
        }
        self.later(ms, Mend::FreeHome);
    }

    pub(super) fn break_host(&mut self, pick: u64, fault: HostFault) {
        let names = self.world.host_names();
        let Some(name) = names.get((pick % names.len().max(1) as u64) as usize) else {
            return;
        };
        // One fault at a time for each host: a host that is cut off and
        // frozen shows nothing that a frozen one does not.
        if self.is_broken(name) {
            return;
        }
        let name = name.clone();
        let kind = format!("{fault:?}");
        let kind = kind.split(' ').next().unwrap_or_default().to_lowercase();
        self.happened(&kind, &format!("{name}: {fault:?}"));
        let Some(hosts) = &self.world.hosts else {
            return;
        };
        match fault {
            HostFault::Cut { ms } => {
                hosts.cut(&name);
                self.later(ms, Mend::Reach(name));
            }
            HostFault::Lossy { percent, ms } => {
                hosts.lossy(&name, percent);
                self.later(ms, Mend::Reach(name));
            }
            HostFault::Freeze { ms } => {
                hosts.freeze(&name);
                self.later(ms, Mend::ThawHost(name));
            }
            HostFault::Crash { ms } => {
                hosts.kill(&name);
                self.crashed.insert(name.clone());
                self.later(ms, Mend::StartHost(name));
            }
            HostFault::HangUp => hosts.hang_up(&name),
            HostFault::Fill { ms } => {
                hosts.fill(&name, 0);
                self.later(ms, Mend::FreeHost(name));
            }
            HostFault::Move => hosts.change_own_address(),
        }
    }

    pub(super) fn break_cluster(&mut self, pick: u64, fault: ClusterFault) {
        let Some(cluster) = &self.world.cluster else {
            return;
        };
        let daemons = cluster.daemons();
        let (controller, hosts): (Vec<_>, Vec<_>) = daemons
            .into_iter()
            .partition(|(name, _)| name == "slurmctld");
        let one = |all: Vec<(String, ProcessId)>| {
            let index = (pick % all.len().max(1) as u64) as usize;
            all.into_iter().nth(index)
        };
        let (what, victim, ms) = match fault {
            ClusterFault::ControllerDies { ms } => {
                let notes = fs::read_to_string(&self.world.notes).unwrap_or_default();
                let all = judge::notes(&notes).into_iter();
                let living = all.filter(|(_, noted)| noted.starts > noted.ends);
                self.unsaved.extend(living.map(|(run, _)| run));
                ("controller", one(controller), ms)
            }
            ClusterFault::ControllerStops { ms } => ("controller", one(controller), ms),
            ClusterFault::HostDies { ms } | ClusterFault::HostStops { ms } => {
                // Jobs that were started on it are started elsewhere.
                self.reruns += 1;
                ("host", one(hosts), ms)
            }
            ClusterFault::Requeue => return self.requeue(pick),
            ClusterFault::TaskDies => {
                self.dead_tasks += 1;
                return self.kill(0, Part::Allocation, pick);
            }
        };
        let Some((name, victim)) = victim else { return };
        let thaws = |undo: &Undo| undo.what == Mend::Thaw(victim);
        if self.undo.iter().any(thaws) {
            return;
        }
        let stops = matches!(
            fault,
            ClusterFault::ControllerStops { .. } | ClusterFault::HostStops { .. }
        );
        let how = if stops { "stops" } else { "dies" };
        self.happened(&format!("{what} {how}"), &name);
        if stops {
            signal(&victim, Signal::STOP);
            self.later(ms, Mend::Thaw(victim));
        } else {
            signal(&victim, Signal::KILL);
            self.later(ms, Mend::StartDaemon(name));
        }
    }

    /// What the cluster's administrator does after a crash: a controller that lost its newest
    /// state gives ids again; hosts that know such a job take no more, and SLURM holds the
    /// jobs that did not start there.
    pub(super) fn resume_cluster(&mut self) {
        let due = self.resumed.is_none_or(|at| at.elapsed() > RESUME);
        if self.world.cluster.is_some() && due {
            self.resumed = Some(Instant::now());
            // A host that needs no help is refused.
            self.tell_cluster(&["scontrol", "update", "nodename=ALL", "state=resume"]);
            let list = [
                "squeue",
                "--array",
                "--noheader",
                "--states=PD",
                "--format=%i %r",
            ];
            let jobs = self.tell_cluster(&list).unwrap_or_default();
            let held = jobs.lines().filter_map(|row| row.split_once(' '));
            let held = held.filter(|(_, why)| why.contains("JobHeld") || why.contains("held"));
            let held: Vec<&str> = held.map(|(job, _)| job).collect();
            if !held.is_empty() {
                self.tell_cluster(&["scontrol", "release", &held.join(",")]);
            }
        }
    }

    /// The answer to a command of the scheduler. A stopped controller would answer after its
    /// time limit, and the chaos would stand still.
    fn tell_cluster(&self, words: &[&str]) -> Option<String> {
        let cluster = self.world.cluster.as_ref()?;
        let output = Command::new("timeout")
            .arg("2")
            .args(words)
            .envs(cluster.env())
            .stdin(Stdio::null())
            .output();
        Some(String::from_utf8_lossy(&output.ok()?.stdout).into_owned())
    }

    /// Puts one of the running jobs back into the queue.
    fn requeue(&mut self, pick: u64) {
        let list = ["squeue", "--noheader", "--states=R", "--format=%A"];
        let Some(jobs) = self.tell_cluster(&list) else {
            return;
        };
        let jobs: Vec<&str> = jobs.split_whitespace().collect();
        let Some(job) = jobs.get((pick % jobs.len().max(1) as u64) as usize) else {
            return;
        };
        let job = (*job).to_owned();
        self.tell_cluster(&["scontrol", "requeue", &job]);
        self.reruns += 1;
        self.happened("requeue", &job);
    }

    pub(super) fn happened(&mut self, kind: &str, what: &str) {
        self.history.add(format!("FAULT {kind} {what}"));
        *self.faults.entry(kind.to_owned()).or_default() += 1;
    }

    fn is_broken(&self, name: &str) -> bool {
        self.undo.iter().any(|undo| match &undo.what {
            Mend::Thaw(_)
            | Mend::FreeHome
            | Mend::FreeInodes
            | Mend::KillSupervisors(_)
            | Mend::StartDaemon(_)
            | Mend::StartRuntime
            | Mend::Resume => false,
            Mend::Reach(host)
            | Mend::ThawHost(host)
            | Mend::StartHost(host)
            | Mend::FreeHost(host) => host == name,
        })
    }

    pub(super) fn later(&mut self, ms: u64, what: Mend) {
        let at = Instant::now() + Duration::from_millis(ms);
        self.undo.push(Undo { at, what });
    }

    pub(super) fn mend(&mut self, what: Mend) {
        self.history.add(format!("mend {what:?}"));
        match (what, &self.world.hosts) {
            (Mend::Thaw(id), _) => signal(&id, Signal::CONT),
            (Mend::FreeHome, _) => self.world.free_home(),
            (Mend::FreeInodes, _) => self.world.free_inodes(),
            (Mend::KillSupervisors(place), _) => self.kill_supervisors(&place),
            (Mend::Resume, _) => {
                self.command(&["resume", "paused", "--yes", "--json"], Why::Resume)
            }
            (Mend::StartDaemon(name), _) => {
                if let Some(cluster) = &self.world.cluster {
                    cluster.start(&name);
                }
            }
            (Mend::StartRuntime, _) => {
                if let Some(containers) = &self.world.containers {
                    containers.start_daemon();
                }
            }
            (Mend::Reach(name), Some(hosts)) => hosts.mend(&name),
            (Mend::ThawHost(name), Some(hosts)) => hosts.thaw(&name),
            (Mend::StartHost(name), Some(hosts)) => hosts.start(&name),
            (Mend::FreeHost(name), Some(hosts)) => hosts.free(&name),
            (Mend::Reach(_) | Mend::ThawHost(_) | Mend::StartHost(_) | Mend::FreeHost(_), None) => {
            }
        }
    }
}

fn pids(parts: &[(Part, ProcessId)], which: Part) -> Vec<i32> {
    parts
        .iter()
        .filter(|(part, _)| *part == which)
        .map(|(_, id)| id.pid)
        .collect()
}
