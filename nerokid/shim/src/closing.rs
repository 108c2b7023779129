//! Removal of a job's container, between the end of its main process and the record of that.
//!
//! Owned by a keeper. [`crate::container`] does the work in a child of ours; here stands how far
//! it is, and the commands lie ready, so that a shim allocates nothing.

use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicI32;

use nero_model::paths::run::{CONTAINER_END, CONTAINER_FAULT, ContainerVerb};
use rustix::fs::{Mode, OFlags, openat};

use crate::clock::MS;
use crate::keeper::Exit;
use crate::sys::{self, ChildEnd, ChildStack, Strings};

/// Pause before the next try.
const RETRY_NS: u64 = 2_000 * MS;
/// Bytes of the fault in a record.
const FAULT_BYTES_MAX: usize = 400;
/// The program of launchers and shims, also when its file was replaced.
const PROGRAM: &std::ffi::CStr = c"/proc/self/exe";
/// Exit code of a job that the kernel ended for memory.
const OUT_OF_MEMORY: i32 = 128 + libc::SIGKILL;
/// Stands for a fault that could not be written down.
const NO_REASON: &str = "its container could not be removed, and the reason could not be written: \
    the disk may be full; the run ends when it is removed";

/// How far the removal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClosingStage {
    /// The main process lives.
    Open,
    /// A child removes the container.
    Removing { pid: i32, exit: Exit },
    /// The last try failed.
    Failed { retry_at_ns: u64, exit: Exit },
    /// The container is gone.
    Closed,
}

/// The commands for the container of a start, and the stage of its removal.
#[derive(Debug)]
pub struct ClosingCommands {
    close: Strings,
    pause: Strings,
    resume: Strings,
    environment: Strings,
    stage: ClosingStage,
    /// The child that pauses or resumes the container.
    changer: Option<i32>,
    /// What is to be done once that child has ended: whether to pause.
    pauses_next: Option<bool>,
    is_noted: bool,
}

/// How the job in a container ended, by its runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerEnd {
    /// Its exit code; `None`: the runtime told of no end.
    pub code: Option<i32>,
    /// Whether the kernel ended it for memory.
    pub out_of_memory: bool,
    /// Whether it was alive when its client was gone.
    pub outlived_client: bool,
}

impl ClosingCommands {
    /// Of the container of a start.
    pub fn new(run_dir: &str, incarnation: u32) -> Option<Self> {
        let number = incarnation.to_string();
        let command = |verb: ContainerVerb| {
            let words = ["nerokid-shim", "container", run_dir, &number, verb.as_str()];
            Strings::new(words.iter().map(|word| word.as_bytes()))
        };
        Some(Self {
            close: command(ContainerVerb::Close)?,
            pause: command(ContainerVerb::Pause)?,
            resume: command(ContainerVerb::Resume)?,
            environment: Strings::new(std::iter::empty())?,
            stage: ClosingStage::Open,
            changer: None,
            pauses_next: None,
            is_noted: false,
        })
    }

    /// The removal of a container whose job's end is recorded already: nothing is left to do.
    pub fn over(self) -> Self {
        Self {
            stage: ClosingStage::Closed,
            ..self
        }
    }

    /// Whether the end of the main process may be recorded.
    pub fn is_closed(&self) -> bool {
        self.stage == ClosingStage::Closed
    }

    /// Its children at work, which are no processes of the job.
    pub fn children(&self) -> [Option<i32>; 2] {
        let remover = match self.stage {
            ClosingStage::Removing { pid, .. } => Some(pid),
            ClosingStage::Open | ClosingStage::Failed { .. } | ClosingStage::Closed => None,
        };
        [remover, self.changer]
    }

    /// Time for the next try.
    pub fn wake_at_ns(&self) -> Option<u64> {
        match self.stage {
            ClosingStage::Failed { retry_at_ns, .. } => Some(retry_at_ns),
            ClosingStage::Open | ClosingStage::Removing { .. } | ClosingStage::Closed => None,
        }
    }

    /// The main process ended in this way. Told again, nothing changes.
    pub fn begin(&mut self, exit: Exit, now_ns: u64, stack: ChildStack) {
        if self.stage == ClosingStage::Open {
            self.remove(exit, now_ns, stack);
        }
    }

    /// Tries again if it is time to.
    pub fn tick(&mut self, now_ns: u64, stack: ChildStack) {
        if let ClosingStage::Failed { retry_at_ns, exit } = self.stage
            && retry_at_ns <= now_ns
        {
            self.remove(exit, now_ns, stack);
        }
    }

    fn remove(&mut self, exit: Exit, now_ns: u64, stack: ChildStack) {
        self.stage = match execute(&self.close, &self.environment, stack) {
            Some(pid) => ClosingStage::Removing { pid, exit },
            None => ClosingStage::Failed {
                retry_at_ns: now_ns + RETRY_NS,
                exit,
            },
        };
    }

    /// One of the children ended. Returns the end of the main process when the container is gone.
    pub fn child_ended(
        &mut self,
        ended: &ChildEnd,
        now_ns: u64,
        stack: ChildStack,
    ) -> Option<Exit> {
        if self.changer == Some(ended.pid) {
            self.changer = None;
            if let Some(pauses) = self.pauses_next.take() {
                self.pause(pauses, stack);
            }
            return None;
        }
        let ClosingStage::Removing { pid, exit } = self.stage else {
            return None;
        };
        if pid != ended.pid {
            return None;
        }
        if ended.code == 0 && ended.signal == 0 {
            self.stage = ClosingStage::Closed;
            return Some(exit);
        }
        self.stage = ClosingStage::Failed {
            retry_at_ns: now_ns + RETRY_NS,
            exit,
        };
        None
    }

    /// Why the container could not be removed, once for each run.
    pub fn fault(&mut self, folder: BorrowedFd<'_>) -> Option<String> {
        if !matches!(self.stage, ClosingStage::Failed { .. }) {
            return None;
        }
        if std::mem::replace(&mut self.is_noted, true) {
            return None;
        }
        let mut bytes = [0; FAULT_BYTES_MAX];
        let text = match read(folder, CONTAINER_FAULT, &mut bytes) {
            None | Some(0) => NO_REASON.to_owned(),
            Some(length) => String::from_utf8_lossy(&bytes[..length]).into_owned(),
        };
        Some(text)
    }

    /// Has the processes of a container paused, or continued, where they are no descendants of
    /// its client.
    pub fn pause(&mut self, pauses: bool, stack: ChildStack) {
        if self.changer.is_some() {
            self.pauses_next = Some(pauses);
            return;
        }
        let command = if pauses { &self.pause } else { &self.resume };
        // The client itself is stopped in any case; a job that goes on is seen by its samples.
        self.changer = execute(command, &self.environment, stack);
    }
}

/// How the job ended, by the report in the incarnation's folder.
pub fn end(folder: BorrowedFd<'_>) -> ContainerEnd {
    let mut bytes = [0; 64];
    let length = read(folder, CONTAINER_END, &mut bytes).unwrap_or(0);
    std::str::from_utf8(&bytes[..length]).map_or_else(|_| ContainerEnd::default(), parsed)
}

fn parsed(text: &str) -> ContainerEnd {
    let mut words = text.split_whitespace();
    let state = words.next().unwrap_or_default();
    let has_ended = matches!(state, "exited" | "stopped" | "dead");
    let code = words.next().and_then(|word| word.parse().ok());
    let out_of_memory = has_ended && words.next() == Some("true");
    ContainerEnd {
        code: code
            .filter(|_| has_ended)
            .map(|code| if out_of_memory { OUT_OF_MEMORY } else { code }),
        out_of_memory,
        outlived_client: matches!(state, "running" | "paused"),
    }
}

fn read(folder: BorrowedFd<'_>, name: &str, bytes: &mut [u8]) -> Option<usize> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty()).ok()?;
    rustix::io::read(&file, bytes).ok()
}

/// Starts the command as a child; `None` when the kernel refuses.
fn execute(command: &Strings, environment: &Strings, stack: ChildStack) -> Option<i32> {
    let program = PROGRAM;
    let pid = AtomicI32::new(0);
    sys::fork_borrowing(stack, &pid, &mut || {
        sys::exec(program, command, environment);
        sys::leave(127);
    })
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_ended_container_has_a_code() {
        let of = |code, out_of_memory| ContainerEnd {
            code,
            out_of_memory,
            outlived_client: false,
        };
        assert_eq!(parsed("exited 9 false\n"), of(Some(9), false));
        assert_eq!(parsed("stopped 0 false"), of(Some(0), false));
        assert_eq!(parsed("exited 1 true"), of(Some(137), true));
        for open in ["created 0 false", "", "exited"] {
            assert_eq!(parsed(open), of(None, false), "{open}");
        }
        for live in ["running 0 false", "paused 0 true"] {
            let expected = ContainerEnd {
                outlived_client: true,
                ..of(None, false)
            };
            assert_eq!(parsed(live), expected, "{live}");
        }
    }
}
