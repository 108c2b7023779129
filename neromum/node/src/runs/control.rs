//! The control folder of a run: cancel requests `cancel.<n>`, pause requests `pause.<n>`, rule
//! sets `rules.<version>` and ends of steps `answer.<start>.<step>`, complete or absent.

use std::io::{self, Write as _};
use std::path::Path;

use nero_journal::Clocks;
use nero_journal::frame::{self, FrameKind};
use nero_journal::request::{RequestKind, numbers, set_paused};
use nero_journal::v1::StopCause;
use nero_model::RunToken;
use nero_model::paths::run as names;
use nero_wire::v1::{AnswerStepRequest, Cancel, Pause, RuleSet, RunSpec};

use super::spec::may_pass;

/// Number of the newest cancel request in a run's folder; 0 when there is none.
pub fn newest_cancel(run_dir: &Path) -> u32 {
    RequestKind::Cancel.newest_known(run_dir)
}

/// Number of the newest pause request in a run's folder; 0 when there is none.
pub fn newest_pause(run_dir: &Path) -> u32 {
    RequestKind::Pause.newest_known(run_dir)
}

/// Whether the newest pause request of a run is not followed by a resume.
pub fn is_paused(run_dir: &Path) -> bool {
    newest_pause(run_dir) % 2 == 1
}

/// Makes the next pause request of a run, synced, unless the newest one asks for the same.
/// Returns whether it made one.
///
/// # Errors
/// When the disk refuses.
pub fn ask_for_pause(run_dir: &Path, is_paused: bool, pause: &Pause) -> io::Result<bool> {
    let (number, is_made) = set_paused(run_dir, is_paused, pause)?;
    // Also for one that lies there: its writer may have been killed here.
    if number > 0 {
        std::fs::File::open(RequestKind::Pause.path(run_dir, number))?.sync_all()?;
        std::fs::File::open(run_dir.join(names::CONTROL))?.sync_all()?;
    }
    Ok(is_made)
}

/// Makes a cancel request in the folder of a run that is not in the ledger, so that
/// it is never started.
///
/// # Errors
/// When the disk refuses.
pub fn cancel_never(run_dir: &Path, token: RunToken) -> io::Result<()> {
    let cancel = Cancel {
        token: token.to_vec(),
        cause: StopCause::Person as u32,
        asked_ms: Clocks::now().wall_ns / 1_000_000,
        ..Cancel::default()
    };
    let path = RequestKind::Cancel.path(run_dir, 1);
    match frame::create(FrameKind::Cancel, &path, &cancel) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Whether the run needs a watcher even when it printed nothing.
pub fn has_rules(spec: &RunSpec, run_dir: &Path) -> bool {
    let given = spec
        .rules
        .as_ref()
        .is_some_and(|rules| !rules.rules.is_empty());
    let has_none = || newest_rules(&run_dir.join(names::CONTROL)).is_ok_and(|newest| newest == 0);
    given || !has_none()
}

/// Makes `control/answer.<start>.<step>`, synced: how the step ended in its first line, and then
/// the end of what it printed. One that lies there stays.
///
/// # Errors
/// When the disk refuses.
pub fn keep_answer(control: &Path, answer: &AnswerStepRequest) -> io::Result<()> {
    let (start, step) = (answer.incarnation, answer.step);
    let path = control.join(format!("answer.{start}.{step}"));
    if std::fs::symlink_metadata(&path).is_err() {
        let draft = control.join(format!("answer.{start}.{step}.new"));
        // The job waits until the first line has words.
        let how = match answer.how.trim() {
            "" => "its end is not known".to_owned(),
            how => how.replace('\n', " "),
        };
        let mut file = std::fs::File::create(&draft)?;
        file.write_all(format!("{how}\n{}", answer.output).as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, &path)?;
    }
    // Also for one that lies there: a neromum before may have been killed here.
    std::fs::File::open(control)?.sync_all()
}

/// Newest rule sets of a run that are kept.
const RULE_SETS_KEPT: usize = 8;

/// Makes `control/rules.<version>` and returns the version of the file. When
/// `version` is not above all others, the file gets the version above them:
/// neroman's database may be older than the node, or a power cut may have lost a
/// version. The newest set is in force, so it must be the one that neroman sent
/// last.
///
/// # Errors
/// When the disk refuses, or the newest set cannot be read now.
pub fn keep_rules(control: &Path, rules: &RuleSet) -> io::Result<u64> {
    let path = |version: u64| control.join(names::rules(version));
    let mut rules = rules.clone();
    loop {
        let newest = newest_rules(control)?;
        if !(newest + 1..=names::RULES_VERSION_MAX).contains(&rules.version) {
            match frame::read::<RuleSet>(FrameKind::Rules, &path(newest)) {
                Ok(found) if found.rules == rules.rules && found.cohort == rules.cohort => {
                    return Ok(newest);
                }
                Err(error) if may_pass(&error) => return Err(io::Error::other(error)),
                Ok(_) | Err(_) => {}
            }
            if newest == names::RULES_VERSION_MAX {
                let file = path(newest);
                let why = format!("no version is left above {}: remove it", file.display());
                return Err(io::Error::other(why));
            }
            rules.version = newest + 1;
        }
        match frame::create(FrameKind::Rules, &path(rules.version), &rules) {
            Ok(()) => {
                remove_old_rules(control, rules.version);
                return Ok(rules.version);
            }
            // Another process makes files there.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes sets that newer ones replaced: numbers of peers bring one every few seconds.
/// A few stay, for a watcher that cannot read the newest.
fn remove_old_rules(control: &Path, newest: u64) {
    let versions = numbers(control, names::rules_version).unwrap_or_default();
    let earlier = versions.into_iter().filter(|version| *version <= newest);
    for version in earlier.skip(RULE_SETS_KEPT) {
        // What cannot be removed lies there in vain.
        let _ = std::fs::remove_file(control.join(names::rules(version)));
    }
}

/// The highest version of the rule sets in a run's control folder; 0 when there
/// is none.
fn newest_rules(control: &Path) -> io::Result<u64> {
    let versions = numbers(control, names::rules_version)?;
    Ok(versions.first().copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_to_a_step_stays() {
        let control = tempfile::tempdir().unwrap();
        let mut answer = AnswerStepRequest {
            incarnation: 2,
            step: 3,
            how: "not run:\nno host".to_owned(),
            output: "a\nb\n".to_owned(),
            ..AnswerStepRequest::default()
        };
        keep_answer(control.path(), &answer).unwrap();
        answer.how = "exit code 0".to_owned();
        keep_answer(control.path(), &answer).unwrap();
        let kept = std::fs::read_to_string(control.path().join("answer.2.3")).unwrap();
        assert_eq!(kept, "not run: no host\na\nb\n");
        // Without words in its first line the job would wait for ever.
        answer = AnswerStepRequest {
            step: 4,
            how: "\n".to_owned(),
            ..answer
        };
        keep_answer(control.path(), &answer).unwrap();
        let kept = std::fs::read_to_string(control.path().join("answer.2.4")).unwrap();
        assert_eq!(kept, "its end is not known\na\nb\n");
        assert_eq!(std::fs::read_dir(control.path()).unwrap().count(), 2);
    }
}
