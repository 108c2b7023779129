//! Runs in containers: faults of what belongs to one, and the promise that nothing of a container
//! outlives its run.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nero_journal::v1::RecordKind;
use nero_model::process::{ProcessId, Stat};
use rustix::process::Signal;

use super::again;
use super::fault::Mend;
use super::plan::Jobs;
use super::run::Chaos;
use super::settle::{AGREE, LOOK};
use super::step::{ContainerFault, ContainerPart};
use super::world::signal;
use crate::home::program;
use crate::{Containers, Home};

/// Pause between two looks for a container that outlives its run.
const WATCH: Duration = Duration::from_millis(100);

/// A runtime that executes all runs.
#[derive(Debug)]
pub struct ContainerWorld {
    runtime: String,
    runtimes: Containers,
    image: PathBuf,
    /// The jobs' program and notes, which they see as `/mnt`.
    inside: PathBuf,
    mounts: BTreeSet<String>,
    watched: Instant,
}

impl ContainerWorld {
    /// Brings the runtime up below the folder of a home, which uses it.
    ///
    /// # Errors
    /// When the files of the jobs cannot be made.
    pub fn make(home: &mut Home, runtime: &str) -> io::Result<Self> {
        let inside = home.path().join("inside");
        fs::create_dir(&inside)?;
        fs::copy(program("nero-job"), inside.join("nero-job"))?;
        let image = home.path().join("image.tar");
        Containers::image(&image);
        add_libraries(&image, &inside.join("nero-job"))?;
        let runtimes = Containers::start(home);
        Ok(Self {
            runtime: runtime.to_owned(),
            mounts: runtimes.mounts(),
            runtimes,
            image,
            inside,
            watched: Instant::now(),
        })
    }

    /// The file of the jobs' notes.
    pub fn notes(&self) -> PathBuf {
        self.inside.join("notes")
    }

    /// What the jobs have in common.
    pub fn jobs(&self) -> Jobs {
        let (image, inside) = (self.image.display(), self.inside.display());
        let runtime = &self.runtime;
        Jobs {
            program: "/mnt/nero-job".to_owned(),
            notes: "/mnt/notes".to_owned(),
            nodes: Vec::new(),
            cards: 0,
            container: format!("{{image: {image}, runtime: {runtime}, mounts: ['{inside}:/mnt']}}"),
        }
    }

    /// Whether the runtime has a first process in containers, by which a signal becomes a code.
    pub fn has_init(&self) -> bool {
        self.runtime != "charliecloud"
    }

    /// Starts the runtime's daemon.
    pub fn start_daemon(&self) {
        self.runtimes.start_docker();
    }
}

/// Adds to an archive what a program is linked with.
fn add_libraries(archive: &Path, program: &Path) -> io::Result<()> {
    let output = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let libraries = text
        .split_whitespace()
        .filter_map(|word| word.strip_prefix('/'));
    let mut tar = Command::new("tar");
    tar.arg("-rhf").arg(archive).arg("-C/").args(libraries);
    let status = tar.status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("tar: {status}")))
}

/// A process with the environment of a run.
struct RunProcess {
    id: ProcessId,
    /// The run, as `144.2`.
    run: String,
    /// The folder of its start.
    folder: PathBuf,
    /// Number in the container's own name space; `None`: outside of one.
    inner_pid: Option<i32>,
}

impl RunProcess {
    fn of(pid: i32, base: &Path) -> Option<Self> {
        let id = ProcessId::of(pid).ok()?;
        let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let value = |name: &str| text.split('\0').find_map(|one| one.strip_prefix(name));
        let logged = PathBuf::from(value("NERO_METRICS=")?);
        let is_alive = Stat::read(pid).is_ok_and(|stat| stat.state != b'Z');
        if !is_alive || !logged.starts_with(base) {
            return None;
        }
        let space = |who: &str| fs::read_link(format!("/proc/{who}/ns/pid")).ok();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let own = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let own = own.and_then(|line| line.split_whitespace().last()?.parse().ok());
        Some(Self {
            id,
            run: value("NERO_RUN=")?.to_owned(),
            folder: logged.parent()?.to_path_buf(),
            inner_pid: own.filter(|_| space(&pid.to_string()) != space("self")),
        })
    }

    fn is_client(&self) -> bool {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.id.pid)).unwrap_or_default();
        self.inner_pid.is_none() && ["podman", "docker"].contains(&name.trim())
    }
}

fn run_processes(base: &Path) -> Vec<RunProcess> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| RunProcess::of(pid, base)).collect()
}

impl Chaos {
    pub(super) fn break_container(&mut self, pick: u64, fault: ContainerFault) {
        match fault {
            ContainerFault::Kill(part) => {
                if let Some((victim, run)) = self.container_part(part, pick) {
                    self.happened(
                        &format!("kill {part:?}"),
                        &format!("{} of {run}", victim.pid),
                    );
                    self.hurt.insert(run);
                    signal(&victim, Signal::KILL);
                }
            }
            ContainerFault::Freeze { part, ms } => {
                if let Some((victim, run)) = self.container_part(part, pick) {
                    self.happened(
                        &format!("freeze {part:?}"),
                        &format!("{} of {run}", victim.pid),
                    );
                    signal(&victim, Signal::STOP);
                    self.later(ms, Mend::Thaw(victim));
                }
            }
            ContainerFault::DaemonDies { ms } => self.break_daemon(Signal::KILL, ms),
            ContainerFault::DaemonStops { ms } => self.break_daemon(Signal::STOP, ms),
        }
    }

    /// One of the processes of this part, and the run whose container it belongs to.
    fn container_part(&self, part: ContainerPart, pick: u64) -> Option<(ProcessId, String)> {
        let all = run_processes(&self.world.home.base());
        let fitting: Vec<(ProcessId, String)> = all
            .into_iter()
            .filter(|one| match part {
                ContainerPart::Client => one.is_client(),
                ContainerPart::Beside | ContainerPart::Init => one.inner_pid == Some(1),
            })
            .filter_map(|one| match part {
                ContainerPart::Client | ContainerPart::Init => Some((one.id, one.run)),
                // conmon and containerd's shim are the parents of what is first inside.
                ContainerPart::Beside => {
                    let parent = Stat::read(one.id.pid).ok()?.ppid;
                    let name = fs::read_to_string(format!("/proc/{parent}/comm")).ok()?;
                    let is_beside = ["conmon", "containerd-shim"]
                        .iter()
                        .any(|known| name.starts_with(known));
                    is_beside.then_some((ProcessId::of(parent).ok()?, one.run))
                }
            })
            .collect();
        let index = (pick % fitting.len().max(1) as u64) as usize;
        fitting.into_iter().nth(index)
    }

    fn break_daemon(&mut self, how: Signal, ms: u64) {
        let has_daemon = |world: &&ContainerWorld| world.runtime == "docker";
        let Some(world) = self.world.containers.as_ref().filter(has_daemon) else {
            return;
        };
        let is_away = self.undo.iter().any(|undo| undo.what == Mend::StartRuntime);
        let Some(daemon) = world.runtimes.daemon().filter(|_| !is_away) else {
            return;
        };
        let stops = how == Signal::STOP;
        self.happened(
            if stops {
                "runtime stops"
            } else {
                "runtime dies"
            },
            "",
        );
        if stops {
            signal(&daemon, how);
            return self.later(ms, Mend::Thaw(daemon));
        }
        // A daemon that is started anew ends every container of the one before.
        self.lost_daemons += 1;
        let all = run_processes(&self.world.home.base());
        self.hurt.extend(all.into_iter().map(|one| one.run));
        signal(&daemon, how);
        self.later(ms, Mend::StartRuntime);
    }

    /// No run has ended while a process of its container lives.
    pub(super) fn watch_containers(&mut self) {
        let due = |world: &&mut ContainerWorld| world.watched.elapsed() > WATCH;
        let Some(world) = self.world.containers.as_mut().filter(due) else {
            return;
        };
        world.watched = Instant::now();
        let end = if world.has_init() {
            RecordKind::JobExited
        } else {
            RecordKind::TreeGone
        };
        for one in run_processes(&self.world.home.base()) {
            let is_inside = one.inner_pid.is_some() || end == RecordKind::TreeGone;
            // Read in this order: what had ended has no process from then on.
            let has_ended = is_inside && again::has_record(&one.folder, end);
            let lives = ProcessId::of(one.id.pid).is_ok_and(|now| now == one.id)
                && Stat::read(one.id.pid).is_ok_and(|stat| stat.state != b'Z');
            if has_ended && lives {
                let (run, pid, inner) = (&one.run, one.id.pid, one.inner_pid);
                self.broken.push(format!(
                    "{run} has ended, and process {pid} of its container lives ({inner:?} inside)"
                ));
                return;
            }
        }
    }

    /// No container and no mount is left.
    pub(super) fn check_containers(&mut self) {
        let Some(world) = &self.world.containers else {
            return;
        };
        let began = Instant::now();
        loop {
            let names = if world.has_init() {
                world.runtimes.listed(&self.world.home, &world.runtime)
            } else {
                Vec::new()
            };
            let mounts = world.runtimes.mounts();
            let mounts: Vec<&String> = mounts.difference(&world.mounts).collect();
            if names.is_empty() && mounts.is_empty() {
                return;
            }
            if began.elapsed() > AGREE {
                let left = format!("containers {names:?} and mounts {mounts:?} are left");
                return self.broken.push(left);
            }
            std::thread::sleep(LOOK);
        }
    }
}
