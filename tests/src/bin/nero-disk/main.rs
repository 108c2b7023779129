//! A file system over a folder, for tests: it shows late what other mounts of the folder changed,
//! as a client of a file server with caches does; or it lets one call fail, at a chosen point.
//!
//! `nero-disk FILE`: FILE has the folder behind it, the place of the mount, the delay in
//! milliseconds, and the name of another file, a line each. It prints `ready` when it is mounted
//! and ends with its mount. While the other file is there, nothing is made and no file grows: that
//! is refused with the number in the file, as on a full disk or beyond a quota. Two more lines name
//! a file in which each call that changes something is recorded, and what happens at one of them
//! ([`points`]). A further one has a folder for what is durable, and the number of the first sync
//! in front of which that is written down ([`durable`]).
//!
//! For that delay after a look, a folder lists the same names, a name that was not there is
//! not there, and a file has the same time and length. A change through the mount itself shows
//! at once, and has the folder read anew; so does opening a file for the file. A name that must
//! not exist is decided by the folder behind. So a client of NFS behaves.

mod calls;
mod durable;
mod points;
mod seen;

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use fuser::{Config, FileHandle, INodeNo, MountOption, Session, SessionACL};
use rustix::fs::Mode;

use durable::Durable;
use points::Points;
use seen::{Node, State, opened_at};

/// The kernel keeps nothing: each look of a program comes here.
const AT_ONCE: Duration = Duration::ZERO;

fn main() -> io::Result<()> {
    let file = std::env::args().nth(1).unwrap_or_default();
    let text = fs::read_to_string(&file)?;
    let lines: Vec<&str> = text.lines().collect();
    let [behind, at, delay_ms, full, ref recorded @ ..] = lines[..] else {
        return Err(io::Error::other("FILE has two folders, a delay and a file"));
    };
    let delay_ms = delay_ms.parse().map_err(io::Error::other)?;
    rustix::process::umask(Mode::empty());
    let delay = Duration::from_millis(delay_ms);
    let mut late = Late::over(Path::new(behind), delay, PathBuf::from(full))?;
    if let [record, fault, ref durable @ ..] = *recorded {
        let state = late.state.get_mut().expect("no call panics");
        state.points = Some(Points::of(Path::new(behind), record, fault)?);
        if let [line] = durable {
            state.durable = Some(Durable::of(Path::new(behind), line)?);
        }
    }
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("late".to_owned()),
        MountOption::DefaultPermissions,
    ];
    config.acl = SessionACL::All;
    let session = Session::new(late, at, &config)?;
    println!("ready");
    io::stdout().flush()?;
    session.run()
}

/// The file system.
#[derive(Debug)]
struct Late {
    delay: Duration,
    /// Refuses what needs room, while it is there.
    full: PathBuf,
    state: Mutex<State>,
}

impl Late {
    fn over(behind: &Path, delay: Duration, full: PathBuf) -> io::Result<Self> {
        let root = Node {
            handle: opened_at(behind)?,
            lookups: 1,
            attr: None,
            names: None,
            absent: HashMap::new(),
        };
        let state = State {
            nodes: HashMap::from([(INodeNo::ROOT.0, root)]),
            ..State::default()
        };
        Ok(Self {
            delay,
            full,
            state: Mutex::new(state),
        })
    }

    /// Refuses what needs room where there is none.
    fn room(&self) -> io::Result<()> {
        match fs::read_to_string(&self.full) {
            Ok(number) => {
                let number = number.trim().parse().unwrap_or(libc::ENOSPC);
                Err(io::Error::from_raw_os_error(number))
            }
            Err(_) => Ok(()),
        }
    }

    /// Does something with the state, of which one caller uses it at a time.
    fn with<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        act(&mut self.state.lock().expect("no call panics"))
    }

    fn close(&self, handle: FileHandle) {
        let mut state = self.state.lock().expect("no call panics");
        state.files.remove(&handle.0);
    }

    fn forgotten(&self, number: u64, lookups: u64) {
        let mut state = self.state.lock().expect("no call panics");
        if let Some(node) = state.nodes.get_mut(&number)
            && number != INodeNo::ROOT.0
        {
            node.lookups = node.lookups.saturating_sub(lookups);
            if node.lookups == 0 {
                state.nodes.remove(&number);
            }
        }
    }
}
