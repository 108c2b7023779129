//! `neromum job FOLDER`: one start of one task of a submission, in an allocation
//! of a scheduler. It reads the plan, waits until earlier starts of the task are
//! proven over, and runs the task's runs by the bare node's own agent. See
//! `docs/design/schedulers.md`.

pub mod allocation;
mod grant;
pub mod helpers;
pub mod setup_output;
pub mod start;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nero_cluster::submission::{Files, News, Plan, PlanError, Task};
use nero_journal::v1::{self, run_left};
use nero_model::RunId;
use nero_model::paths::{NodePaths, make_socket_folder, short_socket_folder};
use nero_node::agent::handle::TaskMessage;
use nero_node::agent::{AgentHandle, End, Setup};
use nero_node::config;
use nero_node::launch::bare::Launcher;
use nero_node::launch::orders::{Orders, Watcher};
use nero_node::staging::environment::Base;
use nero_node::staging::hosts::AllocationHosts;
use nero_node::staging::store::Store;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::Grant;
use crate::run::{Programs, at};
use allocation::{Allocation, LastRun, RunStatus};
use grant::AllocationResources;
use helpers::{Help, Helpers};
use setup_output::SetupOutput;
use start::{EarlierStarts, Start};

/// Exit code of a start that began nothing, because another may live.
const HELD: u8 = 75;
/// Pause between two looks for requests about runs that wait for their turn: Grid Engine
/// has no signal for it.
const CANCELS_EVERY: Duration = Duration::from_secs(10);
/// Exit codes that Grid Engine takes for commands.
const COMMANDS: [i32; 2] = [99, 100];

/// Reason why a start of a task did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The plan cannot be used.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan is another submission's.
    #[error("the plan in {folder} belongs to {right}: nothing is started from a copy")]
    Copied {
        /// The folder.
        folder: PathBuf,
        /// The right one.
        right: PathBuf,
    },
    /// The plan has no such task.
    #[error(
        "the plan in {folder} has no task {task}: `--task` is the scheduler's index, 0 without an array"
    )]
    NoTask {
        /// The folder.
        folder: PathBuf,
        /// The index.
        task: u32,
    },
    /// A file or folder cannot be used, or the programs beside this one cannot be found.
    #[error(transparent)]
    Run(#[from] crate::run::RunError),
    /// The disk refused what must be durable.
    #[error("the ends of runs cannot be synced")]
    Broken(#[source] io::Error),
}

impl JobError {
    /// Exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            Self::Plan(_) | Self::Copied { .. } | Self::NoTask { .. } => 2,
            Self::Run(_) | Self::Broken(_) => 1,
        }
    }
}

/// Does the work of one start; returns its exit code.
///
/// # Errors
/// See [`JobError`].
pub fn job(grant: &Grant) -> Result<u8, JobError> {
    let files = Files::at(&grant.folder);
    let plan = files.read_plan()?;
    let paths = plan.paths();
    let right = paths.submission(&plan.submission);
    if !is_same(&grant.folder, &right) {
        let folder = grant.folder.clone();
        return Err(JobError::Copied { folder, right });
    }
    let task = plan.tasks.iter().find(|task| task.index == grant.task);
    let task = task.ok_or_else(|| JobError::NoTask {
        folder: grant.folder.clone(),
        task: grant.task,
    })?;
    let log = files.log(task.index);
    crate::run::log_into(&log).map_err(at(&log))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()
        .map_err(at(Path::new("the runtime")))?;
    let left = runtime.block_on(serve(grant, &files, &plan, &paths, task));
    runtime.shutdown_background();
    left
}

/// Whether two paths lead to one folder.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

async fn serve(
    grant: &Grant,
    files: &Files,
    plan: &Plan,
    paths: &NodePaths,
    task: &Task,
) -> Result<u8, JobError> {
    let programs = Programs::of_task()?;
    let mut calls = Calls::new().map_err(at(Path::new("signals")))?;
    let mut start = Start::begin(files, plan, grant, &programs.build)?;
    tracing::info!(start = %start.id(), job = grant.job, build = programs.build, "starting");
    if files.is_closed(task.index).map_err(at(&files.starts()))? {
        let why = "the leader gave this task up: its runs are in another submission";
        return leave(&start, i32::from(HELD), why, &[]);
    }
    let gone = match proofs_of_ends(&start, &mut calls).await? {
        Ok(gone) => gone,
        Err(why) => return leave(&start, i32::from(HELD), &why, &[]),
    };
    let var = |name: &str| std::env::var(name).ok();
    let granted = AllocationResources::read(grant, start.host(), crate::service::cpus(), var);
    tracing::info!(?granted, "the allocation");
    if let Some(why) = &granted.odd_hosts {
        tracing::warn!(why, "runs are told of no hosts");
    }
    let hosts = AllocationHosts {
        names: granted.record.hosts.clone(),
        job: granted.record.job.clone(),
    };
    let mut base = Base::of_allocation(granted.devices().as_deref(), hosts);
    base.name_ways(&programs.own, &grant.folder);
    let setup = setup(grant, files, paths, &programs, &start, base)?;
    let launcher = setup.launcher.socket.clone();
    let mut allocation = Allocation::new(files.clone(), start.id());
    allocation.granted = granted.record;
    allocation.setup = SetupOutput::read(grant.setup.as_deref());
    let (help, starts) = Help::new(granted.hosts, granted.kind, programs.watcher.clone());
    allocation.help = Some(help);
    let mut helpers = Helpers::new(starts, files.log(task.index));
    allocation.earlier = launched(files, &gone).map_err(at(&files.starts()))?;
    let (agent, handle, boxes) = Allocation::of_task(
        setup,
        allocation,
        granted.capacity,
        &task.runs,
        plan.deployment,
    );
    let agent = async {
        let (why, agent) = agent.run(handle.clone(), boxes).await;
        (why, Allocation::last_runs(&agent))
    };
    let (why, runs) = tokio::select! {
        ended = until_done(agent, &handle, &mut calls, &mut start) => ended,
        () = helpers.serve() => unreachable!("it never returns"),
    };
    helpers.finish().await;
    match why {
        End::Orderly => {
            // Best effort: what stays there is empty.
            let _ = std::fs::remove_file(launcher.with_extension("sock.lock"));
            let _ = launcher.parent().map(std::fs::remove_dir);
            leave(&start, exit_code(&runs), "", &runs)
        }
        End::Broken(error) => Err(JobError::Broken(error)),
    }
}

/// The proofs that the earlier starts are over; the inner error is why this start launches nothing.
async fn proofs_of_ends(
    start: &Start,
    calls: &mut Calls,
) -> Result<Result<HashMap<u32, String>, String>, JobError> {
    let earlier = tokio::select! {
        earlier = start.wait_for_earlier() => earlier?,
        () = calls.end() => EarlierStarts::Untold,
        () = start.asked_to_leave() => EarlierStarts::Untold,
    };
    Ok(match earlier {
        EarlierStarts::Over(gone) => Ok(gone),
        EarlierStarts::Untold => {
            Err("the scheduler, or a later start, wanted its end before it began".to_owned())
        }
        EarlierStarts::OtherJob(why) => {
            tracing::info!(why, "nothing is started");
            Err(why)
        }
        EarlierStarts::MayLive(why) => {
            tracing::error!(why, "nothing is started");
            crate::say(&why);
            Err(why)
        }
    })
}

/// Incarnations that earlier starts were about to launch, with the proof that the
/// start is over.
///
/// # Errors
/// When the folder cannot be read.
pub fn launched(
    files: &Files,
    gone: &HashMap<u32, String>,
) -> io::Result<HashMap<(RunId, u32), String>> {
    let of = |news: News| {
        let (run, incarnation, by) = news.launch()?;
        // A start of another task never launches a run of this one.
        let why = gone.get(&by.number)?;
        Some(((run, incarnation), why.clone()))
    };
    if gone.is_empty() {
        // Each of a thousand first starts would read the names of all of them.
        return Ok(HashMap::new());
    }
    Ok(files.news()?.into_iter().filter_map(of).collect())
}

async fn until_done(
    agent: impl Future<Output = (End, Vec<LastRun>)>,
    handle: &AgentHandle,
    calls: &mut Calls,
    start: &mut Start,
) -> (End, Vec<LastRun>) {
    let mut agent = std::pin::pin!(agent);
    let mut ending = false;
    let mut looks = tokio::time::interval(CANCELS_EVERY);
    loop {
        tokio::select! {
            ended = &mut agent => return ended,
            _ = looks.tick() => handle.tell_task(TaskMessage::LookForRequests),
            call = calls.next() => match call {
                Call::Ring => handle.tell_task(TaskMessage::RingAll),
                Call::End if ending => {}
                Call::End => {
                    tracing::info!("told to end by a signal");
                    ending = true;
                    handle.tell_task(TaskMessage::EndAll);
                }
            },
            () = start.asked_to_leave(), if !ending => {
                tracing::info!("asked to leave by a later start");
                ending = true;
                handle.tell_task(TaskMessage::EndAll);
            }
        }
    }
}

/// Meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// The allocation is to end.
    End,
    /// Something lies in the control folder of a run.
    Ring,
}

/// Signals of the scheduler.
struct Calls {
    terminate: Signal,
    interrupt: Signal,
    notice: Signal,
    doorbell: Signal,
}

impl Calls {
    fn new() -> io::Result<Self> {
        // Once caught, the signal is never fatal again: the end of a terminal must
        // not end the job.
        drop(signal(SignalKind::hangup())?);
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            // Grid Engine sends it with `-notify` before the final one.
            notice: signal(SignalKind::user_defined2())?,
            doorbell: signal(SignalKind::user_defined1())?,
        })
    }

    /// Returns when the allocation is to end.
    async fn end(&mut self) {
        while self.next().await == Call::Ring {}
    }

    async fn next(&mut self) -> Call {
        tokio::select! {
            _ = self.terminate.recv() => Call::End,
            _ = self.interrupt.recv() => Call::End,
            _ = self.notice.recv() => Call::End,
            _ = self.doorbell.recv() => Call::Ring,
        }
    }
}

fn setup(
    grant: &Grant,
    files: &Files,
    paths: &NodePaths,
    programs: &Programs,
    start: &Start,
    base: Base,
) -> Result<Setup, JobError> {
    // Of this host and task: a later start here finds the launchers of earlier
    // ones.
    let wanted = files.folder().join(start.id().task.to_string());
    let sockets = short_socket_folder(&wanted);
    make_socket_folder(&sockets).map_err(at(&sockets))?;
    Ok(Setup {
        paths: paths.clone(),
        orders: Orders {
            paths: paths.clone(),
            store: Store::new(paths),
            base,
            watcher: Watcher {
                program: programs.watcher.clone(),
                socket: None,
            },
        },
        boot_id: nero_model::process::boot_id().map_err(at(Path::new("/proc")))?,
        min_free: grant.min_free,
        leave_after: config::HELD_PATIENCE,
        launcher: Launcher {
            socket: sockets.join(format!("launcher-{}.sock", start.id().number)),
            program: Some(programs.shim.clone()),
            log: files.log(start.id().task),
            build: programs.build.clone(),
            in_allocation: true,
        },
        first_since_boot: false,
        lease: None,
        cards: None,
    })
}

/// Records that the start left, and returns its exit code.
fn leave(start: &Start, code: i32, why: &str, runs: &[LastRun]) -> Result<u8, JobError> {
    start.leave(&v1::TaskLeft {
        left_ms: nero_journal::Clocks::now().wall_ns / 1_000_000,
        code,
        why: why.to_owned(),
        runs: runs.iter().map(run_left).collect(),
    })?;
    tracing::info!(code, why, "left");
    Ok(u8::try_from(code).unwrap_or(1))
}

fn run_left(run: &LastRun) -> v1::RunLeft {
    let how = match run.how {
        RunStatus::Ended(_) => run_left::How::Ended,
        RunStatus::Stopped(_) => run_left::How::Stopped,
        RunStatus::NotStarted | RunStatus::Waiting => run_left::How::NotStarted,
        RunStatus::Paused => run_left::How::Paused,
        RunStatus::NoRoom => run_left::How::NoRoom,
        RunStatus::Elsewhere => run_left::How::Elsewhere,
        RunStatus::Undecided => run_left::How::Undecided,
    };
    v1::RunLeft {
        token: run.token.to_vec(),
        incarnation: run.incarnation,
        how: how.into(),
        why: run.why.clone(),
    }
}

/// The exit code of a start: of its first run that did not end with 0.
fn exit_code(runs: &[LastRun]) -> i32 {
    let code = |run: &LastRun| match run.how {
        RunStatus::Ended(code) | RunStatus::Stopped(code) => code,
        RunStatus::NotStarted if run.why.is_empty() => 0,
        RunStatus::NotStarted => 1,
        RunStatus::Waiting
        | RunStatus::Paused
        | RunStatus::NoRoom
        | RunStatus::Elsewhere
        | RunStatus::Undecided => HELD.into(),
    };
    let code = runs.iter().map(code).find(|code| *code != 0).unwrap_or(0);
    match code {
        code if COMMANDS.contains(&code) => 1,
        0..=255 => code,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use nero_model::RunToken;

    use super::*;

    #[test]
    fn a_start_ends_with_the_code_of_its_first_run_that_failed_and_never_commands() {
        let run = |how| LastRun {
            token: RunToken::random(),
            incarnation: 1,
            how,
            why: String::new(),
        };
        let code = |hows: &[RunStatus]| {
            let runs: Vec<LastRun> = hows.iter().copied().map(run).collect();
            exit_code(&runs)
        };
        assert_eq!(code(&[]), 0);
        assert_eq!(code(&[RunStatus::Ended(0), RunStatus::Ended(0)]), 0);
        assert_eq!(
            code(&[
                RunStatus::Ended(0),
                RunStatus::Ended(3),
                RunStatus::Ended(4)
            ]),
            3
        );
        assert_eq!(code(&[RunStatus::Ended(99)]), 1);
        assert_eq!(code(&[RunStatus::Ended(100)]), 1);
        assert_eq!(code(&[RunStatus::Ended(137)]), 137);
        assert_eq!(code(&[RunStatus::Ended(0), RunStatus::Undecided]), 75);
        assert_eq!(code(&[RunStatus::Elsewhere]), 75);
        assert_eq!(code(&[RunStatus::NotStarted]), 0);
    }
}
