//! The launcher's knowledge of one run.
//!
//! Owned by the launcher's loop, by number. Small, since shims inherit a copy
//! of it.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nero_journal::v1::{CardLock, Launch, TakenOver};
use nero_journal::{SegmentId, Writer};

use crate::core::Strays;
use crate::journal::{Segment, Subject};
use crate::keeper::Keeper;
use crate::launcher::watch::Watch;
use crate::slot::Slot;
use crate::tree::Member;

/// The launcher's number of a run, never used twice.
pub type RunKey = u64;

/// One run.
#[derive(Debug)]
pub struct LaunchedRun {
    /// Token of the run, number of its start, and boot id.
    pub subject: Subject,
    /// Path of its folder, as the request has it.
    pub run_dir: String,
    /// Time from the polite signal to the final one.
    pub grace_ms: u32,
    /// Treatment of processes that outlive the main process.
    pub strays: Strays,
    /// See [`crate::core::LaunchSettings`].
    pub is_step: bool,
    /// Whether a stop of its shim is still to be noted: one note is enough.
    pub notes_stop: bool,
    /// 0: none.
    pub time_limit_ms: u64,
    /// Folder whose free space is recorded at the exit: the job's working folder, or the run's
    /// folder where the launcher did not start the job.
    pub work_dir: CString,
    /// Variables in the environment of its processes, and of no other run's.
    pub marks: Vec<Vec<u8>>,
    /// Parts of cards that it has.
    pub cards: Vec<CardLock>,
    /// The open files that hold their locks here.
    pub locks: Vec<OwnedFd>,
    /// The run's supervisor.
    pub care: Supervision,
    /// Time for the news that it runs; `None`: it was sent, or will not be.
    pub announce_at_ns: Option<u64>,
    /// The run's watcher.
    pub watch: Watch,
    /// Time of the loop's next look at it.
    pub wake_at_ns: Option<u64>,
}

/// The supervisor of a run.
#[derive(Debug)]
pub enum Supervision {
    /// The run's shim, our child.
    Shim {
        /// The shim.
        pid: i32,
        /// Memory into which the shim writes its state.
        slot: &'static Slot,
        /// The id that its claim has or will have.
        segment: SegmentId,
    },
    /// The run's shim, which an earlier launcher forked.
    Elder {
        /// The shim.
        shim: Member,
        /// Becomes readable when the shim ends; `None` on kernels without
        /// handles.
        handle: Option<OwnedFd>,
    },
    /// This launcher, since the shim is dead.
    Ours(Box<SupervisedRun>),
    /// None yet: the run's folder or processes cannot be read just now.
    Unseen,
    /// None: the run ended, and its watcher still reads.
    Over,
}

/// A run that we look after ourselves.
#[derive(Debug)]
pub struct SupervisedRun {
    /// The keeper that a shim would have.
    pub keeper: Keeper,
    /// The job's main process.
    pub leader: Member,
    /// Whether the main process is our child, so that we learn its exit code.
    pub is_parent: bool,
    /// Processes seen to be of its tree.
    pub known: Vec<Member>,
    /// Handle of the process that we wait for, where no signal reports its end.
    pub handle: Option<OwnedFd>,
    /// Our segment and its first record; made as soon as there is space.
    pub segment: SegmentToMake,
    /// Memory that shim and job shared, to be given back at the end.
    pub slot: Option<&'static Slot>,
}

/// A segment that may have to wait for space.
#[derive(Clone, Debug)]
pub struct SegmentToMake {
    /// Path of the segment.
    pub path: CString,
    /// Id of the segment.
    pub id: SegmentId,
    /// Subject of the segment.
    pub subject: Subject,
    /// First record of the segment.
    pub taken: TakenOver,
}

impl SegmentToMake {
    /// Makes the segment; `None` when the disk refuses.
    pub fn make(&self) -> Option<Segment> {
        let made = Segment::create(
            &self.path,
            Writer::Launcher,
            self.id,
            &self.subject,
            &self.taken,
        );
        if made.is_err() {
            // Half of the file may be there; the next try needs the name.
            let _ =
                std::fs::remove_file(Path::new(std::ffi::OsStr::from_bytes(self.path.to_bytes())));
        }
        made.ok()
    }
}

impl LaunchedRun {
    /// The incarnation's folder.
    pub fn folder(&self) -> String {
        let run_dir = self.run_dir.trim_end_matches('/');
        format!("{run_dir}/{}", self.subject.incarnation)
    }

    /// Whether a process of the run may live.
    pub fn is_live(&self) -> bool {
        !matches!(self.care, Supervision::Over)
    }
}

/// The variables in an environment that name its run.
pub fn marks<'a>(environment: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let ours = |one: &&[u8]| one.starts_with(b"NERO_RUN=") || one.starts_with(b"NERO_DIR=");
    environment.filter(ours).map(<[u8]>::to_vec).collect()
}

/// The same for a launch.
pub fn marks_of(launch: &Launch) -> Vec<Vec<u8>> {
    marks(launch.env.iter().map(Vec::as_slice))
}
