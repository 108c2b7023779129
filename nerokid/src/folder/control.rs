//! The run's `control/` folder: rule sets to read, cancel requests to write.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use nero_journal::frame::{self, FrameError, FrameKind};
use nero_journal::v1::StopCause;
use nero_model::ProcessId;
use nero_model::paths::run as names;
use nero_model::process::ProcessHandle;
use nero_wire::v1::{Cancel, Pause, RuleSet, RunSpec};
use rustix::process::Signal;

use crate::core::rules::Asked;
use crate::folder::life::Life;

/// The numbers that `number` reads in names of the folder's files, highest first;
/// none when there is no folder.
fn numbers(folder: &Path, number: impl Fn(&OsStr) -> Option<u64>) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found: Vec<u64> = Vec::new();
    for entry in entries {
        found.extend(number(&entry?.file_name()));
    }
    found.sort_unstable_by(|left, right| right.cmp(left));
    Ok(found)
}

/// Numbers of the cancel requests in the folder.
fn cancels(folder: &Path) -> io::Result<Vec<u64>> {
    numbers(folder, |name| {
        name.to_str()?.strip_prefix("cancel.")?.parse().ok()
    })
}

/// A rule set of this version, or the reason why it cannot be read.
pub type VersionedRules = (u64, Result<RuleSet, FrameError>);

/// The rule sets that are newer than `version`, the newest first.
///
/// # Errors
/// When the folder cannot be read.
pub fn newer_rules(folder: &Path, version: u64) -> io::Result<Vec<VersionedRules>> {
    let versions = numbers(folder, names::rules_version)?;
    Ok(versions
        .into_iter()
        .take_while(|newer| *newer > version)
        .map(|newer| {
            let path = folder.join(names::rules(newer));
            (newer, frame::read(FrameKind::Rules, &path))
        })
        .collect())
}

/// Writes a cancel request because a rule held, unless the folder has
/// a cancel request of this rule. Returns true when it wrote the cancel request. On
/// a full disk it makes the name alone, which counts as a cancel request.
///
/// # Errors
/// When the cancel request cannot be made; the caller tries again.
pub fn cancel(folder: &Path, spec: &RunSpec, asked: &Asked, wall_ms: i64) -> io::Result<bool> {
    let existing = cancels(folder)?;
    let made_by_rule = existing.iter().any(|number| {
        let path = folder.join(format!("cancel.{number}"));
        frame::read::<Cancel>(FrameKind::Cancel, &path)
            .is_ok_and(|cancel| is_by_rule(&cancel, asked.rule))
    });
    if made_by_rule {
        return Ok(false);
    }
    let grace_ms = spec.monitor.map_or(0, |monitor| monitor.grace_ms);
    let cancel = Cancel {
        token: spec.token.clone(),
        cause: StopCause::Rule as u32,
        grace_ms: u32::try_from(grace_ms).unwrap_or(u32::MAX),
        signal: 0,
        rule: asked.rule,
        author: asked.author.clone(),
        asked_ms: wall_ms,
    };
    fs::create_dir_all(folder)?;
    // Readers look for 1, 2, 3 … up to the first gap.
    let mut number = 1;
    loop {
        let path = folder.join(format!("cancel.{number}"));
        let run_dir = folder.parent().unwrap_or(folder);
        match frame::create_or_stand_in(FrameKind::Cancel, &path, &cancel, run_dir) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Writes a pause request because a rule held, unless the newest request asks for
/// a pause already.
///
/// # Errors
/// When the request cannot be made; the caller tries again.
pub fn pause(folder: &Path, spec: &RunSpec, asked: &Asked, wall_ms: i64) -> io::Result<()> {
    let author = match asked.author.as_str() {
        "" => format!("rule {}", asked.rule),
        author => format!("rule {} of {author}", asked.rule),
    };
    let pause = Pause {
        token: spec.token.clone(),
        author,
        asked_ms: wall_ms,
    };
    fs::create_dir_all(folder)?;
    let run_dir = folder.parent().unwrap_or(folder);
    loop {
        let newest = newest(folder, "pause")?;
        if newest % 2 == 1 {
            return Ok(());
        }
        let path = folder.join(format!("pause.{}", newest + 1));
        match frame::create_or_stand_in(FrameKind::Pause, &path, &pause, run_dir) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// The newest request of this kind, counted 1, 2, 3 … up to the first gap, as the shim reads them;
/// 0: none. A file behind a gap is none of ours.
fn newest(folder: &Path, kind: &str) -> io::Result<u64> {
    let mut newest = 0;
    loop {
        let next = folder.join(format!("{kind}.{}", newest + 1));
        match next.symlink_metadata() {
            Ok(_) => newest += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(newest),
            Err(error) => return Err(error),
        }
    }
}

/// The newest cancel request and the newest pause request; 0 for what the folder has none of.
///
/// # Errors
/// When the folder cannot be read.
pub fn newest_requests(folder: &Path) -> io::Result<[u64; 2]> {
    Ok([newest(folder, "cancel")?, newest(folder, "pause")?])
}

/// The newest step on neroman's machine that the job of this start waited for; 0: none.
///
/// # Errors
/// When the folder cannot be read.
pub fn newest_ask(folder: &Path, incarnation: u32) -> io::Result<u32> {
    let asks = numbers(folder, |name| {
        let (start, step) = name.to_str()?.strip_prefix("ask.")?.split_once('.')?;
        let is_own = start.parse() == Ok(incarnation);
        step.parse().ok().filter(|_| is_own).map(u32::into)
    })?;
    Ok(asks.first().map_or(0, |step| *step as u32))
}

fn is_by_rule(cancel: &Cancel, rule: u64) -> bool {
    cancel.cause == StopCause::Rule as u32 && cancel.rule == rule
}

/// Rings the supervisor of the run, so that it looks into the folder: the shim,
/// or the launcher that took over from it.
///
/// # Errors
/// When the run's records cannot be read; the caller tries again.
pub fn ring(folder: &Path) -> io::Result<()> {
    // Read anew: the supervisor may have changed since the last look. A process
    // that takes over later looks at the cancel requests by itself.
    let life = Life::read(folder)?;
    let hears = |process: ProcessId| {
        // A dead process whose parent has not reaped it accepts the signal and
        // does nothing.
        let handle = ProcessHandle::open(&process).filter(ProcessHandle::is_alive);
        handle.is_some_and(|handle| handle.signal(Signal::USR1).is_ok())
    };
    if !life.known.shim.is_some_and(hears) {
        life.known.taken_over_by.map(hears);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::rules::Effect;

    #[test]
    fn a_pause_is_the_next_request_whatever_else_lies_there() {
        let run_dir = tempfile::tempdir().unwrap();
        let folder = run_dir.path().join("control");
        fs::create_dir(&folder).unwrap();
        // A job wrote it, and no shim reads it.
        fs::write(folder.join("pause.18446744073709551615"), "").unwrap();
        let asked = Asked {
            rule: 7,
            author: "ada".to_owned(),
            effect: Effect::Pause,
        };
        for _ in 0..2 {
            pause(&folder, &RunSpec::default(), &asked, 1).unwrap();
        }
        assert_eq!(newest_requests(&folder).unwrap(), [0, 1]);
        let made = |number: u32| folder.join(format!("pause.{number}")).exists();
        assert!(made(1) && !made(2), "it is paused already");
    }
}
