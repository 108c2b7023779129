//! Requests in the run's control folder: cancel requests `cancel.1`, `cancel.2` …
//! and pause requests `pause.1`, `pause.2` …
//!
//! Read by the shim, or by the launcher that took over. Files there are
//! complete or absent, so there is nothing to wait for. Nothing is allocated.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use nero_journal::frame::{self, FrameKind};
use rustix::fd::BorrowedFd;
use rustix::fs::{Access, AtFlags, Mode, OFlags, accessat, openat};

use crate::core::Cancel;
use crate::procfs::StackPath;

/// The numbers of a `nero.v1.Cancel`; its texts are not for the shim.
#[derive(Clone, PartialEq, prost::Message)]
struct CancelNumbers {
    #[prost(uint32, tag = "2")]
    cause: u32,
    #[prost(uint32, tag = "3")]
    grace_ms: u32,
    #[prost(int32, tag = "4")]
    signal: i32,
    #[prost(uint64, tag = "5")]
    rule: u64,
}

/// Longest file that is read.
const BYTES_MAX: usize = 4096;

/// Cancel request number `n`, looked for from an incarnation's folder; `None` when
/// there is no such file. A damaged file is a cancel request with unknown
/// particulars: only cancel requests get this name.
pub fn cancel(incarnation: BorrowedFd<'_>, number: u32) -> Option<Cancel> {
    // Opening a pipe that a job put there must not block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |path: &CStr| openat(incarnation, path, flags, Mode::empty()).ok();
    // Every shim looks for the first cancel request, which hardly ever exists.
    let file = match number {
        1 => open(c"../control/cancel.1"),
        _ => open(StackPath::new(format_args!("../control/cancel.{number}")).as_c_str()),
    };
    Some(read(&file?, number))
}

/// Whether pause request number `n` is there, looked for from an incarnation's
/// folder. Its name says everything: odd ones pause the run, even ones end that.
pub fn has_pause(incarnation: BorrowedFd<'_>, number: u32) -> bool {
    let is_there = |path: &CStr| accessat(incarnation, path, Access::EXISTS, AtFlags::empty());
    // Every shim looks for the first one, which hardly ever exists.
    match number {
        1 => is_there(c"../control/pause.1"),
        _ => is_there(StackPath::new(format_args!("../control/pause.{number}")).as_c_str()),
    }
    .is_ok()
}

#[inline(never)]
fn read(file: &OwnedFd, number: u32) -> Cancel {
    let mut bytes = [0; BYTES_MAX];
    let mut length = 0;
    while let Ok(more @ 1..) = rustix::io::read(file, &mut bytes[length..]) {
        length += more;
    }
    let stored = frame::decode::<CancelNumbers>(FrameKind::Cancel, &bytes[..length]).unwrap_or(
        CancelNumbers {
            cause: nero_journal::v1::StopCause::Unspecified as u32,
            grace_ms: 0,
            signal: 0,
            rule: 0,
        },
    );
    Cancel {
        number,
        cause: i32::try_from(stored.cause).unwrap_or(0),
        grace_ms: stored.grace_ms,
        signal: stored.signal,
        rule: stored.rule,
    }
}
