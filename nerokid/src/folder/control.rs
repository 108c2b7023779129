//! The run's `control/` folder: rule sets to read, cancel requests to write.

use std::fs;
use std::io;
use std::path::Path;

use nero_journal::frame::{self, FrameError, FrameKind};
use nero_journal::request::{RequestKind, numbers, set_paused};
use nero_journal::v1::StopCause;
use nero_model::ProcessId;
use nero_model::paths::run as names;
use nero_model::process::ProcessHandle;
use nero_wire::v1::{Cancel, Pause, RuleSet, RunSpec};
use rustix::process::Signal;

use crate::core::rules::RequestedEffect;
use crate::folder::life::Life;

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
/// a cancel request of this rule. On a full disk it makes the name alone, which counts as a
/// cancel request.
///
/// # Errors
/// When the cancel request cannot be made; the caller tries again.
pub fn cancel(
    run_dir: &Path,
    spec: &RunSpec,
    asked: &RequestedEffect,
    wall_ms: i64,
) -> io::Result<()> {
    let newest = RequestKind::Cancel.newest(run_dir)?;
    let made_by_rule = (1..=newest).any(|number| {
        let path = RequestKind::Cancel.path(run_dir, number);
        frame::read::<Cancel>(FrameKind::Cancel, &path)
            .is_ok_and(|cancel| is_by_rule(&cancel, asked.rule))
    });
    if made_by_rule {
        return Ok(());
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
    fs::create_dir_all(run_dir.join(names::CONTROL))?;
    let mut number = newest + 1;
    loop {
        match RequestKind::Cancel.create(run_dir, number, &cancel) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(drop),
        }
    }
}

/// Writes a pause request because a rule held, unless the newest request asks for
/// a pause already.
///
/// # Errors
/// When the request cannot be made; the caller tries again.
pub fn pause(
    run_dir: &Path,
    spec: &RunSpec,
    asked: &RequestedEffect,
    wall_ms: i64,
) -> io::Result<()> {
    let author = match asked.author.as_str() {
        "" => format!("rule {}", asked.rule),
        author => format!("rule {} of {author}", asked.rule),
    };
    let pause = Pause {
        token: spec.token.clone(),
        author,
        asked_ms: wall_ms,
    };
    fs::create_dir_all(run_dir.join(names::CONTROL))?;
    set_paused(run_dir, true, &pause).map(drop)
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
