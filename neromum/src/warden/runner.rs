//! Executes the commands of schedulers: absolute programs, a clean environment, an
//! own process group and deadline, bounded output. Every command is counted.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nero_warden::{Call, CallOutput, End, Warden};
use nero_wire::v1::scheduler_use;
use rustix::fs::{Access, access};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::login::Login;
use super::process_group::ProcessGroup;

/// Variables of the person that some of the programs need.
const PERSON: [&str; 3] = ["HOME", "USER", "LOGNAME"];
/// Largest standard output: the queue of a large site has about 3 kB a job.
const OUT_BYTES_MAX: u64 = 256 << 20;
/// Largest part of standard error that is kept.
const ERR_BYTES_MAX: usize = 64 << 10;

/// Variables with their values.
type Environment = Vec<(OsString, OsString)>;

/// Executes commands of one scheduler.
#[derive(Debug)]
pub struct Runner {
    /// Folder of the program that submits.
    programs: PathBuf,
    /// Finds programs that lie in other folders: a site may have a wrapper around one of them.
    login: Option<Login>,
    /// Name of the user, for which `{user}` stands in words of commands.
    user: String,
    env: Environment,
    /// That of submissions: their jobs begin with it.
    env_of_jobs: Environment,
    patience: Duration,
    executed: Mutex<BTreeMap<String, CommandCounts>>,
    began: Instant,
}

/// Commands of one program.
#[derive(Debug, Default)]
struct CommandCounts {
    total: u64,
    /// The minutes of the last hour since the runner began, and the commands in each.
    minutes: VecDeque<(u64, u64)>,
}

impl CommandCounts {
    fn count(&mut self, minute: u64) {
        self.total += 1;
        match self.minutes.back_mut() {
            Some((last, count)) if *last == minute => *count += 1,
            _ => self.minutes.push_back((minute, 1)),
        }
        while self
            .minutes
            .front()
            .is_some_and(|(first, _)| first + 60 <= minute)
        {
            self.minutes.pop_front();
        }
    }

    fn last_hour(&self, minute: u64) -> u64 {
        let minutes = self.minutes.iter();
        let recent = minutes.filter(|(at, _)| at + 60 > minute);
        recent.map(|(_, count)| count).sum()
    }
}

impl Runner {
    /// For the scheduler whose program that submits is found, as runs find it or as the
    /// person's login shell does. `None` when it is not there.
    pub fn find(login: &Login, warden: &dyn Warden, patience: Duration) -> Option<Self> {
        let found = login.find(&warden.program())?;
        let programs = found.path.parent()?.to_path_buf();
        let cluster = login.vars().iter();
        let cluster = cluster.map(|var| (OsString::from(var.name), var.value.clone()));
        let of_jobs = login.of_jobs(&programs);
        let mut runner = Self::at(programs, cluster.collect(), of_jobs, patience);
        runner.user.clone_from(&login.user);
        runner.login = Some(login.clone());
        Some(runner)
    }

    /// Programs of this folder, with these variables that name the cluster, and those
    /// with which jobs begin.
    fn at(
        programs: PathBuf,
        cluster: Environment,
        env_of_jobs: Environment,
        patience: Duration,
    ) -> Self {
        let own = |name: &&str| Some((OsString::from(name), std::env::var_os(name)?));
        let mut env: Vec<_> = PERSON.iter().filter_map(own).collect();
        env.extend(cluster);
        // Everything else that a login sets could act: `SBATCH_PARTITION` is an
        // option, `SLURM_TIME_FORMAT` and the language change answers.
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
        for (name, value) in [
            ("PATH", &*path),
            ("LANG", "C.UTF-8"),
            ("TZ", "UTC0"),
            // Lists of tasks are cut at 64 characters otherwise.
            ("SLURM_BITSTR_LEN", "0"),
        ] {
            env.push((name.into(), value.into()));
        }
        Self {
            programs,
            login: None,
            user: String::new(),
            env,
            env_of_jobs,
            patience,
            executed: Mutex::default(),
            began: Instant::now(),
        }
    }

    /// Number of commands executed so far.
    pub fn executed(&self) -> u64 {
        self.locked().values().map(|one| one.total).sum()
    }

    /// The commands executed so far, by their programs.
    pub fn programs(&self) -> Vec<scheduler_use::Program> {
        let minute = self.began.elapsed().as_secs() / 60;
        let program = |(name, one): (&String, &CommandCounts)| scheduler_use::Program {
            name: name.clone(),
            total: one.total,
            last_hour: one.last_hour(minute),
        };
        self.locked().iter().map(program).collect()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, CommandCounts>> {
        let locked = self.executed.lock();
        locked.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Executes a command and waits for its end or the deadline.
    pub async fn run(&self, call: &Call) -> CallOutput {
        self.execute(call, &self.env, None).await
    }

    /// The same for a submission, in the environment of its jobs: SLURM and LSF pass it
    /// on. Every process of the command has this file open, and so keeps its lock, also
    /// after an end of neromum.
    pub async fn submit(&self, call: &Call, lock: File) -> CallOutput {
        self.execute(call, &self.env_of_jobs, Some(lock)).await
    }

    async fn execute(&self, call: &Call, env: &Environment, lock: Option<File>) -> CallOutput {
        let program = self.path(&call.program);
        let mut child = match self.spawn(&program, call, env, lock) {
            Ok(child) => child,
            Err(error) => return not_executed(&program, &error),
        };
        let minute = self.began.elapsed().as_secs() / 60;
        let name = call.program.to_string();
        self.locked().entry(name).or_default().count(minute);
        // Dropped before the child, also when the caller leaves: the group is ended
        // while its leader is not reaped.
        let mut group = ProcessGroup::of(&child);
        let mut heard = CommandOutput::default();
        let talk = converse(&mut child, call, &mut heard);
        let end = match tokio::time::timeout(self.patience, talk).await {
            Ok(Ok(status)) => {
                group.leave();
                match (status.code(), status.signal()) {
                    (Some(code), _) => End::Code(code),
                    (None, signal) => End::Signal(signal.unwrap_or(0)),
                }
            }
            Ok(Err(OutputFault::TooMuch)) => End::TooMuch,
            // It was started, so it may have had an effect.
            Ok(Err(OutputFault::Pipe)) | Err(_) => End::TimedOut,
        };
        drop(group);
        CallOutput {
            end,
            out: heard.out,
            err: heard.err,
        }
    }

    /// A program beside the one that submits, else as a shell finds it.
    fn path(&self, program: &str) -> PathBuf {
        let beside = self.programs.join(program);
        if access(&beside, Access::EXEC_OK).is_ok() {
            return beside;
        }
        let found = self.login.as_ref().and_then(|login| login.find(program));
        found.map_or(beside, |found| found.path)
    }

    /// The kernel ends the program with the thread that calls this, which lives as
    /// long as neromum. A wrapper's children live on.
    fn spawn(
        &self,
        program: &Path,
        call: &Call,
        env: &Environment,
        lock: Option<File>,
    ) -> io::Result<Child> {
        access(program, Access::EXEC_OK)?;
        let mut command = Command::new(program);
        ends_with_neromum(&mut command);
        let share = move || match &lock {
            Some(lock) => Ok(fcntl_setfd(lock, FdFlags::empty())?),
            None => Ok(()),
        };
        // SAFETY: between fork and exec it makes one system call, and allocates and locks
        // nothing.
        unsafe { command.pre_exec(share) };
        command
            .args(
                call.words
                    .iter()
                    .map(|word| word.replace("{user}", &self.user)),
            )
            .env_clear()
            .envs(env.iter().cloned())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }
}

/// Has the kernel end a program with the thread that starts it, which lives as long as
/// neromum.
pub fn ends_with_neromum(command: &mut Command) {
    let own = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() == Some(own) {
            Ok(())
        } else {
            // neromum ended before the signal was asked for.
            Err(Errno::SRCH.into())
        }
    };
    // SAFETY: between fork and exec it makes two system calls, and allocates and locks
    // nothing.
    unsafe { command.pre_exec(prepare) };
}

fn not_executed(program: &Path, error: &io::Error) -> CallOutput {
    CallOutput {
        end: End::NotExecuted(format!("{}: {error}", program.display())),
        out: Vec::new(),
        err: Vec::new(),
    }
}

#[derive(Default)]
struct CommandOutput {
    out: Vec<u8>,
    err: Vec<u8>,
}

enum OutputFault {
    TooMuch,
    Pipe,
}

impl From<io::Error> for OutputFault {
    fn from(_: io::Error) -> Self {
        Self::Pipe
    }
}

/// Writes the command's input and reads both outputs at the same time, so that no
/// full pipe stops it.
async fn converse(
    child: &mut Child,
    call: &Call,
    heard: &mut CommandOutput,
) -> Result<std::process::ExitStatus, OutputFault> {
    let input = child.stdin.take();
    let out = child.stdout.take();
    let err = child.stderr.take();
    let write = async {
        if let Some(mut input) = input {
            // A command that refuses its options reads nothing.
            let _ = input.write_all(&call.input).await;
        }
        Ok(())
    };
    let read = async {
        match out {
            Some(out) => whole(out, &mut heard.out).await,
            None => Ok(()),
        }
    };
    let complain = async {
        if let Some(err) = err {
            beginning(err, &mut heard.err).await?;
        }
        Ok(())
    };
    tokio::try_join!(write, read, complain)?;
    Ok(child.wait().await?)
}

async fn whole(from: impl AsyncRead + Unpin, into: &mut Vec<u8>) -> Result<(), OutputFault> {
    let read = from.take(OUT_BYTES_MAX + 1).read_to_end(into).await?;
    if read as u64 > OUT_BYTES_MAX {
        Err(OutputFault::TooMuch)
    } else {
        Ok(())
    }
}

/// Reads to the end and keeps the beginning.
async fn beginning(
    mut from: impl AsyncRead + Unpin,
    into: &mut Vec<u8>,
) -> Result<(), OutputFault> {
    let mut buffer = vec![0; 8 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let kept = read.min(ERR_BYTES_MAX - into.len());
        into.extend_from_slice(&buffer[..kept]);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A program `ask` with this body, and its runner.
    fn runner(body: &str) -> (tempfile::TempDir, Runner) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("ask");
        std::fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let cluster = vec![("SGE_CELL".into(), "default".into())];
        let programs = folder.path().to_path_buf();
        let of_jobs = vec![("LANG".into(), "de_DE.UTF-8".into())];
        let runner = Runner::at(programs, cluster, of_jobs, Duration::from_millis(700));
        (folder, runner)
    }

    #[tokio::test]
    async fn a_command_gets_its_input_and_a_clean_environment() {
        let (_folder, runner) = runner("cat; pwd; env | cut -d= -f1 | sort; exit 3");
        let mut call = Call::new("ask", []);
        call.input = vec![b'x'; 1 << 20];
        let said = runner.run(&call).await;
        assert_eq!(said.end, End::Code(3));
        let text = String::from_utf8(said.out).unwrap();
        let (input, rest) = text.split_at(1 << 20);
        assert!(input.bytes().all(|byte| byte == b'x'));
        assert!(rest.starts_with("/\n"), "{rest}");
        let allowed = [
            &PERSON[..],
            &["SGE_CELL", "PATH", "LANG", "TZ", "PWD", "_", "/"],
            &["SLURM_BITSTR_LEN"],
        ]
        .concat();
        assert!(rest.contains("\nSLURM_BITSTR_LEN\n"), "{rest}");
        for name in rest.lines() {
            assert!(allowed.contains(&name), "{name}");
        }
        assert_eq!(runner.executed(), 1);
        let lock = File::open("/dev/null").unwrap();
        let said = runner.submit(&call, lock).await;
        let text = String::from_utf8(said.out).unwrap();
        let names: Vec<&str> = text[1 << 20..].lines().skip(1).collect();
        assert!(names.contains(&"LANG"), "{names:?}");
        assert!(
            names.iter().all(|name| ["LANG", "PWD", "_"].contains(name)),
            "jobs begin with the environment of a submission: {names:?}"
        );
        assert_eq!(runner.executed(), 2);
    }

    #[tokio::test]
    async fn a_command_that_hangs_ends_with_its_children_and_counts_as_unknown() {
        let (folder, runner) =
            runner("echo half; sleep 1000 & echo $! > $(dirname $0)/child; wait");
        let said = runner.run(&Call::new("ask", [])).await;
        assert_eq!(said.end, End::TimedOut);
        assert_eq!(said.out, b"half\n");
        let child = std::fs::read_to_string(folder.path().join("child")).unwrap();
        let child = child.trim().parse().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while nero_model::process::Stat::read(child).is_ok_and(|stat| stat.state != b'Z') {
            assert!(std::time::Instant::now() < deadline, "{child} lives");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[test]
    fn commands_are_counted_by_the_hour_and_in_all() {
        let mut executed = CommandCounts::default();
        for minute in [0, 0, 1, 59, 60, 61] {
            executed.count(minute);
        }
        assert_eq!(executed.total, 6);
        assert_eq!(executed.last_hour(61), 3, "of minutes 59 to 61");
        assert_eq!(executed.last_hour(119), 2);
        assert_eq!(executed.last_hour(1000), 0);
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_was_not_executed() {
        let (_folder, runner) = runner("");
        let said = runner.run(&Call::new("gone", [])).await;
        assert!(matches!(said.end, End::NotExecuted(_)), "{said:?}");
        assert_eq!(runner.executed(), 0);
    }
}
