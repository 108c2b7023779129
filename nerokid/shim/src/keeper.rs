//! Keeps one started run: gives the core its events, carries out its effects,
//! writes the records.
//!
//! Owned by a shim, or by the launcher for a run that it took over. A keeper never
//! waits; its owner does.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use nero_journal::v1::{
    JobExited, JobNotStarted, Notice, SignalSent, Stray, TreeGone, job_not_started,
};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::clock::MS;
use crate::closing::{self, ClosingCommands, ContainerEnd};
use crate::control;
use crate::core::{Core, Effect, Input};
use crate::journal::{Journal, KeeperRecord};
use crate::oom::OomEvents;
use crate::slot::{JobStage, Slot};
use crate::sys::{ChildEnd, ChildStack};
use crate::tree::{NAMED_MAX, NamedProcess, Names, REFUSED_MAX, SignalReport, SignalTree};

/// Exit code of a runtime's client that failed by itself.
const CLIENT_FAILED: i32 = 125;
/// Pause before a record that the disk refused is tried again.
const RETRY_NS: u64 = 1_000 * MS;

/// End of the main process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Exit code or signal, as the parent learns it.
    Seen(ChildEnd),
    /// No process of ours was its parent.
    Unknown,
}

/// The state of one run that is outside of its core.
#[derive(Debug)]
pub struct Keeper {
    /// Decides the next steps.
    pub core: Core,
    /// Writes the records.
    pub journal: Journal,
    /// The incarnation's folder; `None`: the current one.
    pub folder: Option<OwnedFd>,
    /// Standard output and error.
    pub logs: [Option<OwnedFd>; 2],
    /// Folder whose free space is recorded at the exit.
    pub work_dir: CString,
    /// Memory that shim and job shared; `None` for a run of another launcher.
    pub slot: Option<&'static Slot>,
    /// Time from which user code could begin, on the clock of deadlines; 0:
    /// unknown.
    pub gate_ns: u64,
    /// Number of the next cancel request to look for.
    pub next_cancel: u32,
    /// Number of the next pause request to look for.
    pub next_pause: u32,
    /// Whether the scheduler has asked for the end of this start.
    pub ends_start: bool,
    /// Strays that ended by a signal of ours.
    pub strays_killed: u32,
    /// The first strays that were ended, or that go on.
    pub strays: Names,
    /// Number of strays that go on.
    pub strays_left: u32,
    /// The prepared record of a failed start; it has the program's name so far.
    pub failed: JobNotStarted,
    /// Removal of its container; `None`: it has none.
    pub closing: Option<ClosingCommands>,
    /// Stack of the children that remove it.
    pub child_stack: ChildStack,
    /// Shows at the end whether memory ran out.
    pub oom: OomEvents,
    /// Room for a line of standard error.
    pub line: Vec<u8>,
    /// The last record, prepared so that writing it allocates nothing.
    pub gone: TreeGone,
}

/// Room for the numbers of processes out of reach, and for strays.
pub fn prepared_gone() -> TreeGone {
    let stray = || Stray {
        pid: 0,
        name: Vec::with_capacity(size_of_val(&NamedProcess::default().name)),
    };
    TreeGone {
        left_alive: Vec::with_capacity(REFUSED_MAX),
        strays: std::iter::repeat_with(stray).take(NAMED_MAX).collect(),
        ..TreeGone::default()
    }
}

impl Keeper {
    /// True when everything is written and there is nothing left to do.
    pub fn is_done(&self) -> bool {
        self.core.is_gone() && !self.journal.is_waiting()
    }

    /// Time for the next [`Keeper::tick`] if no event comes before.
    pub fn wake_at_ns(&self, now_ns: u64) -> Option<u64> {
        let retry = self.journal.is_waiting().then_some(now_ns + RETRY_NS);
        let closing = self.closing.as_ref().and_then(ClosingCommands::wake_at_ns);
        [self.core.wake_at_ns(), retry, closing]
            .into_iter()
            .flatten()
            .min()
    }

    /// Time passed. `tree` sends a signal to the whole tree.
    pub fn tick(&mut self, now_ns: u64, tree: &mut SignalTree<'_>) {
        self.journal.flush();
        self.handle(Input::Tick, now_ns, tree);
        if let Some(closing) = &mut self.closing {
            closing.tick(now_ns, self.child_stack);
        }
    }

    /// Looks for requests that are new. A pause comes first: a cancel ends it.
    pub fn look_for_requests(&mut self, now_ns: u64, tree: &mut SignalTree<'_>) {
        self.look_for_pauses(now_ns, tree);
        self.look_for_cancels(now_ns, tree);
    }

    /// Looks for pause requests that are new; the newest counts.
    pub fn look_for_pauses(&mut self, now_ns: u64, tree: &mut SignalTree<'_>) {
        let before = self.next_pause;
        while control::has_pause(self.folder(), self.next_pause) {
            self.next_pause += 1;
        }
        let request = self.next_pause - 1;
        if self.next_pause == before {
            return;
        }
        let input = match request % 2 {
            1 => Input::Pause { request },
            _ => Input::Resume { request },
        };
        self.handle(input, now_ns, tree);
    }

    fn look_for_cancels(&mut self, now_ns: u64, tree: &mut SignalTree<'_>) {
        while let Some(cancel) = control::cancel(self.folder(), self.next_cancel) {
            self.next_cancel += 1;
            self.handle(Input::Cancel(cancel), now_ns, tree);
        }
    }

    /// The scheduler wants this start to end. Asked again, nothing changes.
    pub fn end_start(&mut self, now_ns: u64, tree: &mut SignalTree<'_>) {
        if !std::mem::replace(&mut self.ends_start, true) {
            self.handle(Input::EndStart, now_ns, tree);
        }
    }

    /// The main process ended; it has not been reaped yet. With a container its end is recorded
    /// once that is removed.
    pub fn leader_ended(&mut self, exit: Exit, now_ns: u64) {
        if let Some(closing) = self.closing.as_mut().filter(|one| !one.is_closed()) {
            return closing.begin(exit, now_ns, self.child_stack);
        }
        self.exited(exit, now_ns);
    }

    fn exited(&mut self, exit: Exit, now_ns: u64) {
        let effects = self.core.step(Input::LeaderEnded, now_ns);
        if effects.contains(&Some(Effect::JobExited)) {
            let record = self.exit_record(exit, now_ns);
            self.journal.append(record);
        }
    }

    /// Children of ours that speak to the container's runtime.
    pub fn helpers(&self) -> [Option<i32>; 2] {
        self.closing
            .as_ref()
            .map_or([None; 2], ClosingCommands::children)
    }

    /// A child that speaks to the container's runtime ended.
    pub fn helper_ended(&mut self, ended: &ChildEnd, now_ns: u64) {
        let Some(mut closing) = self.closing.take() else {
            return;
        };
        let exit = closing.child_ended(ended, now_ns, self.child_stack);
        if exit.is_none()
            && let Some(text) = closing.fault(self.folder())
        {
            self.journal.append(KeeperRecord::Notice(Notice {
                text,
                holds_end: true,
            }));
        }
        self.closing = Some(closing);
        if let Some(exit) = exit {
            self.exited(exit, now_ns);
        }
    }

    /// Another process of the tree ended.
    pub fn other_ended(&mut self, signal: i32) {
        if self.core.kills_strays(signal == libc::SIGKILL) {
            self.strays_killed += 1;
        }
    }

    /// Nothing of the tree is alive.
    pub fn empty(&mut self, now_ns: u64) {
        self.handle(Input::Empty, now_ns, &mut |_| Default::default());
    }

    fn handle(&mut self, input: Input, now_ns: u64, tree: &mut SignalTree<'_>) {
        let strays_ns = self.core.strays_ns(now_ns).unwrap_or(0);
        let effects = self.core.step(input, now_ns);
        let mut pauses = None;
        for effect in effects.into_iter().flatten() {
            match effect {
                Effect::StopAsked(asked) => self.journal.append(KeeperRecord::StopAsked(asked)),
                Effect::Signal(signal) => {
                    let (swept, names) = tree(signal);
                    if self.core.ends_strays() {
                        self.strays = names;
                    }
                    self.sent(signal, swept);
                }
                Effect::Paused(paused) => {
                    self.journal.append(KeeperRecord::Paused(paused));
                    pauses = Some(true);
                }
                Effect::Resumed(resumed) => {
                    self.journal.append(KeeperRecord::Resumed(resumed));
                    pauses = Some(false);
                }
                Effect::Stop => drop(tree(libc::SIGSTOP)),
                Effect::Continue => drop(tree(libc::SIGCONT)),
                Effect::Leave => {
                    let (left, names) = tree(0);
                    self.strays = names;
                    self.strays_left = left.alive;
                    self.handle(Input::Empty, now_ns, tree);
                }
                Effect::Kill { first } => {
                    let (swept, _) = tree(libc::SIGKILL);
                    if first {
                        self.sent(libc::SIGKILL, swept);
                    }
                    self.handle(Input::Swept(swept), now_ns, tree);
                }
                // Only an ended leader leads here, see `leader_ended`.
                Effect::JobExited => {}
                Effect::TreeGone(left) => self.tree_gone(left, strays_ns / MS),
            }
        }
        // Signals to the tree come first: the child that pauses is not to be stopped by them.
        if let (Some(pauses), Some(closing)) = (pauses, &mut self.closing) {
            closing.pause(pauses, self.child_stack);
        }
    }

    fn sent(&mut self, signal: i32, swept: SignalReport) {
        self.journal.append(KeeperRecord::SignalSent(SignalSent {
            signal,
            processes: swept.sent,
        }));
    }

    fn exit_record(&mut self, exit: Exit, now_ns: u64) -> KeeperRecord {
        if let Some(failure) = self.slot.and_then(failure) {
            return KeeperRecord::JobNotStarted(JobNotStarted {
                program: std::mem::take(&mut self.failed.program),
                ..failure
            });
        }
        let inside = match self.closing {
            Some(_) => closing::end(self.folder()),
            None => ContainerEnd::default(),
        };
        let mut ended = match exit {
            Exit::Seen(ended) => ended,
            Exit::Unknown => ChildEnd::default(),
        };
        if let Some(code) = inside.code {
            (ended.code, ended.signal, ended.core_dumped) = (code, 0, false);
        }
        // A client that lost its runtime's daemon has a code of its own.
        let is_clients = inside.outlived_client && ended.code == CLIENT_FAILED;
        let free = rustix::fs::statvfs(self.work_dir.as_c_str());
        KeeperRecord::JobExited(JobExited {
            code: ended.code,
            signal: ended.signal,
            core_dumped: ended.core_dumped,
            code_unknown: (exit == Exit::Unknown || is_clients) && inside.code.is_none(),
            user_cpu_us: ended.user_us,
            system_cpu_us: ended.system_us,
            peak_rss_bytes: ended.peak_rss_bytes,
            disk_free_bytes: free.ok().map(|found| found.f_bavail * found.f_frsize),
            run_ms: match self.gate_ns {
                0 => 0,
                gate => {
                    let passed_ns = now_ns.saturating_sub(gate);
                    passed_ns.saturating_sub(self.core.paused_ns(now_ns)) / MS
                }
            },
            oom_kills: if inside.out_of_memory {
                Some(1)
            } else {
                self.oom_kills(&ended)
            },
            stderr_line: self.stderr_line(),
        })
    }

    /// The last line that the job printed on standard error: `on_error` may
    /// take it for a failure after code 0, too. The file is opened by name,
    /// since our own descriptor only writes.
    fn stderr_line(&mut self) -> Vec<u8> {
        let mut line = std::mem::take(&mut self.line);
        let mut tail = [0; TAIL_BYTES];
        let length = tail_of(self.folder(), &mut tail).unwrap_or(0);
        let pointers = if self.closing.is_some() {
            &POINTERS[..]
        } else {
            &[]
        };
        line.extend_from_slice(last_line(&tail[..length], pointers));
        line
    }

    /// Rise of the out-of-memory count of our memory cgroup since the fork.
    /// Read only where memory may be the reason: SIGKILL, or a shell's exit
    /// code for a killed child. The kernel counts before it kills.
    fn oom_kills(&self, ended: &ChildEnd) -> Option<u64> {
        if ended.signal != libc::SIGKILL && ended.code != 128 + libc::SIGKILL {
            return None;
        }
        let before = self.slot?.oom_kills()?;
        Some(self.oom.count()?.saturating_sub(before))
    }

    fn tree_gone(&mut self, left: SignalReport, strays_ms: u64) {
        let mut gone = std::mem::take(&mut self.gone);
        let size = |log: &Option<OwnedFd>| {
            let found = log.as_ref().and_then(|log| rustix::fs::fstat(log).ok());
            found.map_or(0, |found| found.st_size as u64)
        };
        gone.strays_killed = self.strays_killed;
        gone.strays_left = self.strays_left;
        gone.strays_ms = strays_ms;
        let is_named = |named: &&NamedProcess| {
            named.pid != 0 && (self.strays_killed > 0 || self.strays_left > 0)
        };
        let named = self.strays.iter().filter(is_named);
        // Only processes whose names fit, in the places that were allocated
        // beforehand.
        gone.strays.truncate(named.clone().count());
        for (stray, named) in gone.strays.iter_mut().zip(named) {
            stray.pid = named.pid;
            let name = named.name.split(|byte| *byte == 0).next();
            stray.name.extend_from_slice(name.unwrap_or_default());
        }
        gone.stdout_bytes = size(&self.logs[0]);
        gone.stderr_bytes = size(&self.logs[1]);
        let named = left.out_of_reach.iter().filter(|pid| **pid != 0);
        gone.left_alive.extend(named);
        self.journal.append(KeeperRecord::TreeGone(gone));
    }

    fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().map_or(CWD, |folder| folder.as_fd())
    }
}

/// Bytes at the end of standard error that are searched.
const TAIL_BYTES: usize = 4096;
/// Limit in bytes of the last line as recorded.
pub const LINE_BYTES_MAX: usize = 240;

fn tail_of(folder: BorrowedFd<'_>, tail: &mut [u8]) -> Result<usize, rustix::io::Errno> {
    // A job may have put a pipe there; opening must not wait.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let log = openat(folder, c"stderr.log", flags, Mode::empty())?;
    let length = rustix::fs::fstat(&log)?.st_size as u64;
    rustix::io::pread(&log, &mut *tail, length.saturating_sub(TAIL_BYTES as u64))
}

/// Beginnings of lines by which clients of runtimes point to their help, behind what is wrong.
const POINTERS: [&[u8]; 3] = [
    b"Run 'docker run --help'",
    b"See 'docker run --help'",
    b"See 'podman run --help'",
];

/// The last line with a letter or a digit that has none of these beginnings. Frames around a
/// message, and prompts, have neither.
fn last_line<'t>(text: &'t [u8], pointers: &[&[u8]]) -> &'t [u8] {
    let mut lines = text.rsplit(|byte| matches!(byte, b'\n' | b'\r'));
    let line = lines.find(|line| {
        let tells = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80;
        line.iter().any(tells) && !pointers.iter().any(|one| line.starts_with(one))
    });
    let line = line.unwrap_or_default().trim_ascii();
    &line[..line.len().min(LINE_BYTES_MAX)]
}

/// The reason why no user code ran, if the job could not be started.
pub fn failure(slot: &Slot) -> Option<JobNotStarted> {
    let stage = match slot.job() {
        JobStage::Waiting | JobStage::Executing => return None,
        JobStage::NoOutput => job_not_started::Stage::Output,
        JobStage::NoFolder => job_not_started::Stage::Folder,
        JobStage::NoExec => job_not_started::Stage::Exec,
    };
    Some(JobNotStarted {
        stage: stage as i32,
        errno: slot.errno(),
        program: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_with_something_to_read_is_taken() {
        let table: [(&[u8], &[u8]); 8] = [
            (b"", b""),
            (b"one\ntwo\n", b"two"),
            (b"no end", b"no end"),
            (b"Traceback\nValueError: x\n\n  \n", b"ValueError: x"),
            (b"RuntimeError: y\n=======\n---\n", b"RuntimeError: y"),
            (b" 10%\r 20%\r", b"20%"),
            ("…\nüber\n|\n".as_bytes(), "über".as_bytes()),
            (b"***\n", b""),
        ];
        for (text, line) in table {
            assert_eq!(last_line(text, &[]), line);
        }
        assert_eq!(last_line(&[b'x'; 2000], &[]).len(), LINE_BYTES_MAX);
        let refused = b"docker: no such option\n\nRun 'docker run --help' for more information\n";
        assert_eq!(last_line(refused, &POINTERS), b"docker: no such option");
    }
}
