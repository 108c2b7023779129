//! What the launcher knows of one run.
//!
//! Owned by the launcher's loop, by number. Small, since shims inherit a copy
//! of it all.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nero_journal::v1::{Launch, TakenOver};
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
pub struct Run {
    /// Which run, which start, and on which start of the machine.
    pub subject: Subject,
    /// Its folder, as it was given.
    pub run_dir: String,
    /// From the polite signal to the final one.
    pub grace_ms: u32,
    /// What becomes of processes that outlive the main one.
    pub strays: Strays,
    /// A stop of its shim is still to be noted: once is enough.
    pub notes_stop: bool,
    /// 0: none.
    pub time_limit_ms: u64,
    /// Where the job works.
    pub work_dir: CString,
    /// What the environment of its processes holds, and no other run's.
    pub marks: Vec<Vec<u8>>,
    /// Who looks after it.
    pub care: Care,
    /// When to say that it lives; none: said, or not to be said.
    pub announce_at_ns: Option<u64>,
    /// Its watcher.
    pub watch: Watch,
    /// When the loop comes back to it.
    pub wake_at_ns: Option<u64>,
}

/// Who looks after a run.
#[derive(Debug)]
pub enum Care {
    /// Its shim, our child.
    Shim {
        /// The shim.
        pid: i32,
        /// What it says of itself.
        slot: &'static Slot,
        /// The id that its claim has or will have.
        segment: SegmentId,
    },
    /// Its shim, which an earlier launcher forked.
    Elder {
        /// The shim.
        shim: Member,
        /// Says when it ends; none on kernels without handles.
        handle: Option<OwnedFd>,
    },
    /// We, since its shim is dead.
    Ours(Box<Ours>),
    /// Nobody yet: its folder or its processes cannot be seen just now.
    Unseen,
    /// Nobody: it ended, and its watcher still reads.
    Over,
}

/// A run that we look after ourselves.
#[derive(Debug)]
pub struct Ours {
    /// What a shim would have.
    pub keeper: Keeper,
    /// The job's main process.
    pub leader: Member,
    /// Whether it is our child, so that its code can be known.
    pub is_parent: bool,
    /// Processes seen to be of its tree.
    pub known: Vec<Member>,
    /// Says when the process ends that we wait for, where nothing else does.
    pub handle: Option<OwnedFd>,
    /// Our segment, and what it begins with: made as soon as there is space.
    pub segment: SegmentToMake,
    /// What shim and job shared, to be given back at the end.
    pub slot: Option<&'static Slot>,
}

/// A segment that may have to wait for space.
#[derive(Clone, Debug)]
pub struct SegmentToMake {
    /// Its path.
    pub path: CString,
    /// Its id.
    pub id: SegmentId,
    /// Its subject.
    pub subject: Subject,
    /// Its first record.
    pub taken: TakenOver,
}

impl SegmentToMake {
    /// Makes it; none when the disk refuses.
    pub fn make(&self) -> Option<Segment> {
        let kind = nero_journal::v1::RecordKind::TakenOver;
        let made = Segment::create(
            &self.path,
            Writer::Launcher,
            self.id,
            &self.subject,
            kind,
            &self.taken,
        );
        if made.is_err() {
            // Half of it may be there; the next try needs the name.
            let _ =
                std::fs::remove_file(Path::new(std::ffi::OsStr::from_bytes(self.path.to_bytes())));
        }
        made.ok()
    }
}

impl Run {
    /// The incarnation's folder.
    pub fn folder(&self) -> String {
        let run_dir = self.run_dir.trim_end_matches('/');
        format!("{run_dir}/{}", self.subject.incarnation)
    }

    /// Whether anything of it may live.
    pub fn is_live(&self) -> bool {
        !matches!(self.care, Care::Over)
    }
}

/// The variables by which a process says of which run it is.
pub fn marks<'a>(environment: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let ours = |one: &&[u8]| one.starts_with(b"NERO_RUN=") || one.starts_with(b"NERO_DIR=");
    environment.filter(ours).map(<[u8]>::to_vec).collect()
}

/// The same, of a launch.
pub fn marks_of(launch: &Launch) -> Vec<Vec<u8>> {
    marks(launch.env.iter().map(Vec::as_slice))
}
