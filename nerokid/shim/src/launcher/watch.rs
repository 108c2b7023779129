//! The watcher of a run: its start, its restarts, its end.
//!
//! Owned by a run. Decides only; the loop starts the process and reports its
//! end.

use std::os::fd::OwnedFd;

use crate::clock::MS;
use crate::sys::{self, ForkSide, Strings};

/// How long a job has to live before it gets a watcher.
pub const AFTER_NS: u64 = 200 * MS;
const BACKOFF_MIN_NS: u64 = 100 * MS;
const BACKOFF_MAX_NS: u64 = 10_000 * MS;
/// Time for the kernel to release the files of a process that is gone.
const SOON_NS: u64 = 100 * MS;

/// A run's watcher.
#[derive(Debug)]
pub struct Watch {
    /// Program and fixed arguments; empty: no watcher.
    pub program: Vec<String>,
    /// State of the watcher.
    pub state: WatcherState,
    /// Whether a watcher was ever started, so that its end is reported.
    pub started: bool,
    backoff_ns: u64,
    early_ns: u64,
}

/// State of a watcher.
#[derive(Debug)]
pub enum WatcherState {
    /// To be started at this time.
    Due(u64),
    /// It runs.
    Running {
        /// Time of its start.
        since_ns: u64,
    },
    /// A watcher that an earlier launcher started.
    Elder {
        /// Handle whose event reports the watcher's end.
        _handle: OwnedFd,
    },
    /// No watcher runs, and none will be started.
    Done,
}

impl Watch {
    /// To be started at `due_ns`, if there is a program.
    pub fn new(program: &[String], due_ns: u64) -> Self {
        let state = if program.is_empty() {
            WatcherState::Done
        } else {
            WatcherState::Due(due_ns)
        };
        Self {
            program: program.to_vec(),
            state,
            started: false,
            backoff_ns: BACKOFF_MIN_NS,
            early_ns: MS,
        }
    }

    /// Time at which it is to be started.
    pub fn due_ns(&self) -> Option<u64> {
        match self.state {
            WatcherState::Due(at) => Some(at),
            WatcherState::Running { .. } | WatcherState::Elder { .. } | WatcherState::Done => None,
        }
    }

    /// Whether a watcher runs.
    pub fn is_running(&self) -> bool {
        matches!(
            self.state,
            WatcherState::Running { .. } | WatcherState::Elder { .. }
        )
    }

    /// The watcher was started.
    pub fn running(&mut self, now_ns: u64) {
        self.started = true;
        self.state = WatcherState::Running { since_ns: now_ns };
    }

    /// The job does not live yet: look again soon.
    pub fn too_early(&mut self, now_ns: u64) {
        self.state = WatcherState::Due(now_ns + self.early_ns);
        self.early_ns = (self.early_ns * 2).min(BACKOFF_MIN_NS);
    }

    /// The watcher could not be started, or crashed. Another is due after a
    /// pause that doubles.
    pub fn failed(&mut self, now_ns: u64) {
        if let WatcherState::Running { since_ns, .. } = self.state
            && now_ns.saturating_sub(since_ns) >= BACKOFF_MAX_NS
        {
            self.backoff_ns = BACKOFF_MIN_NS;
        }
        self.state = WatcherState::Due(now_ns + self.backoff_ns);
        self.backoff_ns = (self.backoff_ns * 2).min(BACKOFF_MAX_NS);
    }

    /// The lock may outlive its holder for a moment: try again soon.
    pub fn soon(&mut self, now_ns: u64) {
        self.state = WatcherState::Due(now_ns + SOON_NS);
    }

    /// Another watcher is at work, and its end cannot be seen from here: try
    /// again later.
    pub fn later(&mut self, now_ns: u64) {
        self.state = WatcherState::Due(now_ns + BACKOFF_MAX_NS);
    }
}

/// Starts a watcher: own session, our log, our environment, nothing else.
pub fn spawn(program: &[String], run_dir: &str, incarnation: u32) -> Option<i32> {
    let path = sys::path(program.first()?.as_str())?;
    let incarnation = incarnation.to_string();
    let fixed = program.iter().map(String::as_str);
    let argv = fixed.chain(["watch", run_dir, &incarnation]);
    let argv = Strings::new(argv.map(str::as_bytes))?;
    let environment: Vec<Vec<u8>> = std::env::vars_os()
        .map(|(name, value)| {
            use std::os::unix::ffi::OsStrExt as _;
            [name.as_bytes(), b"=", value.as_bytes()].concat()
        })
        .collect();
    let env = Strings::new(environment.iter().map(Vec::as_slice))?;
    match sys::fork() {
        Ok(ForkSide::Parent(pid)) => Some(pid),
        Ok(ForkSide::Child) => {
            let _ = rustix::process::setsid();
            sys::unblock_signals();
            sys::exec(&path, &argv, &env);
            sys::leave(127)
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_ten_seconds_and_starts_anew() {
        let mut watch = Watch::new(&["w".to_owned()], 5);
        assert_eq!(watch.due_ns(), Some(5));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            watch.running(0);
            watch.failed(0);
            pauses.push(watch.due_ns().unwrap() / MS);
        }
        assert_eq!(
            pauses,
            [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
        );
        watch.running(0);
        watch.failed(BACKOFF_MAX_NS);
        assert_eq!(watch.due_ns(), Some(BACKOFF_MAX_NS + BACKOFF_MIN_NS));
    }

    #[test]
    fn behind_a_stranger_it_comes_later() {
        let mut watch = Watch::new(&["w".to_owned()], 0);
        watch.running(0);
        watch.failed(1);
        watch.later(1);
        assert_eq!(watch.due_ns(), Some(1 + BACKOFF_MAX_NS));
        assert_eq!(Watch::new(&[], 0).due_ns(), None);
    }
}
