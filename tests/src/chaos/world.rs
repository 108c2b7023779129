//! The world of a chaos: a home with real programs in several builds, hosts,
//! and the processes of both.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use nero_model::process::{ProcessId, Stat};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::contained::ContainerWorld;
use super::plan::Jobs;
use super::run::Options;
use crate::cluster::Cluster;
use crate::home::program;
use crate::hosts::{Plan, isolates};
use crate::late::LateDisk;
use crate::processes::{self, Part};
use crate::{Home, Hosts, disk};

/// Number of builds to switch between.
const BUILDS: usize = 3;

/// The size of the home's own file system: three builds in a node's folder,
/// databases and logs.
const HOME_MIB: u32 = 1500;
/// More inodes than a chaos uses.
const HOME_INODES: u64 = 1_000_000;

/// Everything that faults can break.
#[derive(Debug)]
pub struct World {
    /// The disk that a login node shares with its compute nodes, where that is late. Dropped
    /// first: the home lies around it.
    _disk: Option<LateDisk>,
    /// The runtime of containers; it lies in the home's folder, too.
    pub containers: Option<ContainerWorld>,
    /// The home.
    pub home: Home,
    /// Hosts beside this machine.
    pub hosts: Option<Hosts>,
    /// The cluster of which this machine is the login node.
    pub cluster: Option<Cluster>,
    /// File of the jobs' notes.
    pub notes: PathBuf,
    /// The program of all jobs, at the same path everywhere.
    pub job: PathBuf,
    small_home: bool,
    /// What tells of the cards of this machine.
    cards: Option<FakeCards>,
    builds: Vec<PathBuf>,
    build: usize,
}

/// Place of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// This machine.
    Here,
    /// A host of that name.
    Host(String),
}

impl World {
    /// A home and its hosts; with a scheduler, `local` is a login node of it.
    ///
    /// # Errors
    /// When a part cannot be made.
    pub fn make(options: &Options) -> io::Result<Self> {
        let scheduler = options.scheduler;
        let hosts = (options.hosts > 0).then(|| hosts(options.hosts));
        let folder = tempfile::Builder::new().prefix("nc").tempdir_in("/tmp")?;
        let small_home = mount(&folder.path().join("home"))?;
        let mut home = Home::in_folder(folder);
        // After the mounts, which its hosts have to see.
        let disk = scheduler.and_then(|_| LateDisk::by_hand(&home));
        let late = disk.as_ref().map(LateDisk::command);
        let late: Vec<_> = late.iter().map(|command| ("LATE", &**command)).collect();
        let cluster = scheduler.map(|scheduler| Cluster::alone_with(scheduler, &late));
        if let Some(cluster) = &cluster {
            cluster.log_in(&mut home);
        }
        let builds: Vec<PathBuf> = (0..BUILDS).map(|build| home.other_build(build)).collect();
        home.use_programs(&builds[0]);
        let containers = match options.containers.as_str() {
            "" => None,
            runtime => Some(ContainerWorld::make(&mut home, runtime)?),
        };
        let (common, job) = match &hosts {
            Some(hosts) => {
                home.set_env("NERONET_SSH", &hosts.ssh_command());
                (hosts.common(), hosts.program("nero-job"))
            }
            None => (home.path().to_path_buf(), program("nero-job")),
        };
        let notes = match &containers {
            Some(containers) => containers.notes(),
            None => common.join("notes"),
        };
        File::create(&notes)?;
        fs::set_permissions(&notes, fs::Permissions::from_mode(0o666))?;
        // A scheduler gives its own, and no runtime knows these.
        let cards = if cluster.is_some() || containers.is_some() {
            None
        } else {
            Some(FakeCards::of(&mut home)?)
        };
        let world = Self {
            cards,
            containers,
            _disk: disk,
            home,
            hosts,
            cluster,
            notes,
            job,
            small_home,
            builds,
            build: 0,
        };
        world.regroup(true);
        Ok(world)
    }

    /// Gives the group all hosts, or the first one alone. Its runs then wait there, and
    /// move when the group has all hosts again.
    pub fn regroup(&self, all: bool) {
        let hosts = self.host_names();
        let count = if all { hosts.len() } else { 1 };
        let hosts = hosts.get(..count).unwrap_or_default();
        let path = self.home.base().join("config.yaml");
        let fresh = path.with_extension("new");
        let written = fs::write(&fresh, self.configuration(hosts));
        // A full disk leaves the group as it was.
        if written.and_then(|()| fs::rename(&fresh, &path)).is_err() {
            let _ = fs::remove_file(&fresh);
        }
    }

    fn configuration(&self, group: &[String]) -> String {
        if self.cluster.is_some() {
            return "nodes: {local: {warden: slurm}}\n".to_owned();
        }
        // So few processors that runs wait, and go to the node that is free first.
        let local = if self.hosts.is_some() || self.containers.is_some() {
            4
        } else {
            12
        };
        let mut text = format!("nodes:\n  local: {{cpus: {local}, min_free: 20M}}\n");
        for (host, cpus) in self.host_names().iter().zip([1, 3].into_iter().cycle()) {
            text.push_str(&format!(
                "  {host}: {{address: {host}, cpus: {cpus}, min_free: 1M}}\n"
            ));
        }
        if self.hosts.is_some() {
            let group = group.join(", ");
            text.push_str(&format!("groups: {{lab: [{group}]}}\n"));
        }
        text
    }

    /// Names of the hosts.
    pub fn host_names(&self) -> Vec<String> {
        self.hosts.as_ref().map(Hosts::names).unwrap_or_default()
    }

    /// Names that an experiment may use as its node; empty when there is no
    /// choice.
    pub fn nodes(&self) -> Vec<String> {
        let mut all = self.host_names();
        if !all.is_empty() {
            all.extend(["local", "lab", "any"].map(str::to_owned));
        }
        all
    }

    /// What the jobs have in common.
    pub fn jobs(&self) -> Jobs {
        match &self.containers {
            Some(containers) => containers.jobs(),
            None => Jobs {
                program: self.job.display().to_string(),
                notes: self.notes.display().to_string(),
                nodes: self.nodes(),
                cards: self.cards(),
                container: String::new(),
            },
        }
    }

    /// This machine and the hosts.
    pub fn places(&self) -> Vec<Place> {
        let hosts = self.host_names().into_iter().map(Place::Host);
        std::iter::once(Place::Here).chain(hosts).collect()
    }

    /// How many cards this machine has.
    pub fn cards(&self) -> u64 {
        self.cards.as_ref().map_or(0, |_| CARDS)
    }

    /// Whether the home has a file system of its own, which can be filled.
    pub fn small_home(&self) -> bool {
        self.small_home
    }

    /// Our processes there, and the jobs.
    pub fn parts(&self, place: &Place) -> Vec<(Part, ProcessId)> {
        match (place, &self.hosts) {
            (Place::Here, _) => processes::parts(&self.home.base()),
            (Place::Host(name), Some(hosts)) => {
                let all = hosts.processes(name);
                let mut found = processes::among(all.into_iter());
                found.retain(|(part, id)| *part != Part::Job || is_job(id.pid));
                found
            }
            (Place::Host(_), None) => Vec::new(),
        }
    }

    /// Runs later commands from the next build.
    pub fn upgrade(&mut self) -> usize {
        self.build = (self.build + 1) % BUILDS;
        self.home.use_programs(&self.builds[self.build]);
        self.build
    }

    /// Fills the home's file system to the last byte.
    ///
    /// # Errors
    /// When the disk cannot be filled.
    pub fn fill_home(&self) -> io::Result<()> {
        disk::fill(&self.filler())
    }

    /// Gives the space back.
    pub fn free_home(&self) {
        // It may never have been filled.
        let _ = fs::remove_file(self.filler());
    }

    /// Leaves the home's file system no inode.
    ///
    /// # Errors
    /// When other processes free or take inodes all the time.
    pub fn fill_inodes(&self) -> io::Result<()> {
        let about = rustix::fs::statvfs(self.home.base())?;
        self.limit_inodes(about.f_files - about.f_ffree)
    }

    /// Gives the inodes back.
    pub fn free_inodes(&self) {
        // It may never have had fewer.
        let _ = self.limit_inodes(HOME_INODES);
    }

    fn limit_inodes(&self, count: u64) -> io::Result<()> {
        let status = Command::new("mount")
            .args(["-o", &format!("remount,nr_inodes={count}")])
            .arg(self.home.base())
            .status()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("mount: {status}")))
    }

    fn filler(&self) -> PathBuf {
        self.home.base().join(".fill")
    }

    /// Keeps all files of a failed chaos; returns their folder.
    pub fn keep(&mut self) -> PathBuf {
        self.home.end_everything();
        let kept = self.home.keep();
        if self.small_home {
            // The mount's files vanish with it, so they are copied.
            let from = self.home.base();
            let to = kept.join("home-kept");
            let _ = Command::new("cp").arg("-a").arg(&from).arg(&to).status();
        }
        if let Some(hosts) = &self.hosts {
            let _ = Command::new("cp")
                .arg("-a")
                .arg(hosts.path())
                .arg(kept.join("hosts"))
                .status();
        }
        kept
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = self.keep();
            eprintln!("everything lies in {}", kept.display());
        }
        self.home.end_everything();
        if self.small_home {
            let _ = Command::new("umount")
                .arg("-l")
                .arg(self.home.base())
                .status();
        }
    }
}

/// Cards of the stand-in.
const CARDS: u64 = 2;

/// A helper for cards over a stand-in for NVIDIA's library. It is started anew when it ends, so
/// that neromum starts none, which would find no library.
#[derive(Debug)]
struct FakeCards {
    helpers: Child,
}

impl FakeCards {
    fn of(home: &mut Home) -> io::Result<Self> {
        let folder = home.path().join("nvml");
        let gpus = folder.join("gpus");
        fs::create_dir(&folder)?;
        fs::create_dir(&gpus)?;
        fs::set_permissions(&gpus, fs::Permissions::from_mode(0o700))?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("rig/nvml.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o"])
            .arg(folder.join("libnvidia-ml.so.1"))
            .arg(source)
            .status()?;
        if !built.success() {
            return Err(io::Error::other(format!("cc: {built}")));
        }
        let line = |card| format!("NVIDIA A100;GPU-{card};40;0;1024;81920;250000;60;\n");
        let table: String = (0..CARDS).map(line).collect();
        fs::write(folder.join("table"), table)?;
        home.set_env("NERONET_GPUS", &gpus.display().to_string());
        let helpers = Command::new("sh")
            .arg("-c")
            .arg(
                "(while sleep 5; do touch $1/read; done) & while :; do $0 gpus $1; sleep 0.2; done",
            )
            .arg(program("nerokid"))
            .arg(&gpus)
            .env("LD_LIBRARY_PATH", &folder)
            .env("FAKE_NVML", folder.join("table"))
            .process_group(0)
            .spawn()?;
        let cards = Self { helpers };
        let began = Instant::now();
        while !gpus.join("page").exists() {
            if began.elapsed() > Duration::from_secs(30) {
                return Err(io::Error::other("the helper for GPUs writes no page"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(cards)
    }
}

impl Drop for FakeCards {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.helpers.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.helpers.wait();
    }
}

fn hosts(count: usize) -> Hosts {
    let plan = Plan::new(count);
    if isolates() {
        plan.home_size("1500M").up()
    } else {
        plan.up()
    }
}

/// Mounts a small file system for the home; false when the user is not root.
fn mount(path: &Path) -> io::Result<bool> {
    if !rustix::process::geteuid().is_root() {
        return Ok(false);
    }
    fs::create_dir_all(path)?;
    let status = Command::new("mount")
        .args([
            "-t",
            "tmpfs",
            "-o",
            &format!("size={HOME_MIB}m,nr_inodes={HOME_INODES}"),
            "tmpfs",
        ])
        .arg(path)
        .status()?;
    Ok(status.success())
}

fn is_job(pid: i32) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let program = command.split(|byte| *byte == 0).next().unwrap_or_default();
    program.ends_with(b"nero-job")
}

/// The live children of a process.
pub fn children(parent: i32) -> Vec<i32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| Stat::read(*pid).is_ok_and(|stat| stat.ppid == parent && stat.state != b'Z'))
        .collect()
}

/// Sends a signal to exactly this process, if it still lives.
pub fn signal(id: &ProcessId, signal: Signal) {
    if ProcessId::of(id.pid).is_ok_and(|now| now == *id)
        && let Some(pid) = Pid::from_raw(id.pid)
    {
        // It may end by itself between the look and the signal.
        let _ = kill_process(pid, signal);
    }
}
