//! Settles ended runs: at once when the watcher read all output or there was
//! none, else by `nerokid settle`, for many runs at a time, one process at a
//! time.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nero_model::RunToken;
use nero_model::paths::run as names;
use nero_model::process::Life;
use nero_node_core::Stage;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::Instant;

use super::handle::SettleAnswer;
use super::off_reactor::Report;
use super::{Agent, Driver, Entry, WorkResult};
use crate::config;
use crate::launch::orders::Watcher;
use crate::runs::{segments, tombstone};

/// Ended runs whose output was not read to the end.
#[derive(Debug, Default)]
pub struct UnreadRuns {
    queue: VecDeque<RunToken>,
    /// Runs that wait for their watcher, or for another try.
    patience: Vec<(Instant, RunToken)>,
    /// Runs that the present settling process got.
    given: HashMap<PathBuf, RunToken>,
    running: bool,
}

impl UnreadRuns {
    /// The earliest time at which a wait ends.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.patience.iter().map(|(at, _)| *at).min()
    }
}

/// Handling of an ended run's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Settled,
    Wait(std::time::Duration),
    Settle,
}

impl<D: Driver> Agent<D> {
    /// Decides about the output of a run; does nothing before its end.
    pub fn see_to_output(&mut self, token: RunToken) {
        let ended = self
            .core
            .run(&token)
            .is_some_and(|run| matches!(run.stage, Stage::Ended { .. }));
        let Some(entry) = self.entries.get(&token) else {
            return;
        };
        let busy = self.settling.queue.contains(&token)
            || self.settling.given.values().any(|given| *given == token);
        if !ended || busy {
            return;
        }
        self.settling.patience.retain(|(_, of)| *of != token);
        match output(entry, &self.run_dir(entry.id)) {
            Output::Settled => self.core.settled(token),
            Output::Wait(patience) => {
                let at = Instant::now() + patience;
                if let Some(entry) = self.entries.get_mut(&token) {
                    entry.waits = entry.waits.saturating_add(1);
                }
                self.settling.patience.push((at, token));
            }
            Output::Settle => {
                let missing = self.missing_output(entry);
                if let Some(entry) = self.entries.get_mut(&token) {
                    entry.missing = missing;
                }
                self.settling.queue.push_back(token);
            }
        }
    }

    /// Description of lost output of a run that no watcher read to its end: a
    /// power cut takes bytes that were not synced. Empty: nothing is lost.
    fn missing_output(&self, entry: &Entry) -> String {
        let run_dir = self.run_dir(entry.id);
        let folder = segments::folder(&run_dir, entry.incarnation);
        let size = |name: &&str| {
            let found = std::fs::symlink_metadata(folder.join(name));
            found.map_or(0, |found| found.len())
        };
        let there: u64 = [names::STDOUT, names::STDERR].iter().map(size).sum();
        let written = entry.facts.output_bytes;
        // The logs of a cleaned run are known to be gone.
        if there >= written || tombstone::path(&self.setup.paths, entry.id).exists() {
            return String::new();
        }
        let gone = written - there;
        tracing::warn!(run = %entry.id, gone, written, "output of a run is gone");
        format!(
            "{gone} of {written} bytes that it printed are not on the node any more; numbers in them were not read"
        )
    }

    pub(super) fn settling_due(&mut self, now: Instant) {
        let (due, waiting) = std::mem::take(&mut self.settling.patience)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.settling.patience = waiting;
        for (_, token) in due {
            let Some(entry) = self.entries.get_mut(&token) else {
                continue;
            };
            // An expected watcher did not come.
            entry.launched = None;
            let incarnation = entry.incarnation;
            self.read_segments(token, incarnation);
            self.see_to_output(token);
        }
    }

    /// Starts one process for all gathered runs.
    pub(super) fn start_settling(&mut self) {
        if self.settling.running || self.settling.queue.is_empty() {
            return;
        }
        let mut lines = Vec::new();
        let count = self.settling.queue.len().min(config::SETTLE_BATCH);
        for token in self.settling.queue.drain(..count) {
            let Some(entry) = self.entries.get(&token) else {
                continue;
            };
            let run_dir = self.setup.paths.run(entry.id);
            lines.extend_from_slice(run_dir.as_os_str().as_encoded_bytes());
            lines.extend_from_slice(format!("\t{}\n", entry.incarnation).as_bytes());
            self.settling.given.insert(run_dir, token);
        }
        self.settling.running = true;
        let watcher = self.setup.orders.watcher.clone();
        let report = self.work_report(WorkResult::SettlerGone);
        #[expect(
            clippy::disallowed_methods,
            reason = "the drop of `report` tells the agent its end, whatever ended it"
        )]
        tokio::spawn(async move {
            let settled = settle(&watcher, &lines, &report, PATIENCE).await;
            if let Err(error) = settled {
                tracing::error!(%error, program = %watcher.program.display(), "settling failed");
            }
        });
    }

    /// The answer about one run; `why`: the reason of a failure.
    pub(super) fn settled_one(&mut self, run_dir: &Path, answer: SettleAnswer, why: &str) {
        let Some(token) = self.settling.given.remove(run_dir) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        entry.settle_tries = entry.settle_tries.saturating_add(1);
        let fails = match answer {
            SettleAnswer::Well | SettleAnswer::Full => false,
            SettleAnswer::Busy => entry.settle_tries > config::SETTLE_BUSY_TRIES,
            SettleAnswer::Failed => true,
        };
        entry.settle_failures = entry.settle_failures.saturating_add(u8::from(fails));
        let (tries, failures) = (entry.settle_tries, entry.settle_failures);
        let incarnation = entry.incarnation;
        self.read_segments(token, incarnation);
        let complete = self.entries[&token].facts.watch_complete;
        if complete || answer == SettleAnswer::Well {
            self.core.settled(token);
        } else if failures >= config::SETTLE_FAILURES {
            tracing::error!(token = %token, why, "a run's output could not be read; its log is on the node");
            if let Some(entry) = self.entries.get_mut(&token)
                && entry.missing.is_empty()
            {
                entry.missing = format!(
                    "what it printed could not be read to its end on the node ({why}); numbers in it may be missing"
                );
            }
            self.core.settled(token);
        } else {
            tracing::info!(token = %token, tries, "a run's output is to be read again");
            let pause = config::SETTLE_RETRY * u32::from(tries);
            let at = Instant::now() + pause.min(config::SETTLE_RETRY_MAX);
            self.settling.patience.push((at, token));
        }
    }

    pub(super) fn settler_gone(&mut self) {
        self.settling.running = false;
        let unanswered: Vec<PathBuf> = self.settling.given.keys().cloned().collect();
        for run_dir in unanswered {
            let why = "the process that reads it ended";
            self.settled_one(&run_dir, SettleAnswer::Failed, why);
        }
    }
}

fn output(entry: &Entry, run_dir: &Path) -> Output {
    let facts = &entry.facts;
    if facts.watch_complete {
        return Output::Settled;
    }
    let printed = if facts.gone {
        facts.output_bytes > 0
    } else {
        let folder = segments::folder(run_dir, entry.incarnation);
        [names::STDOUT, names::STDERR].iter().any(|name| {
            std::fs::symlink_metadata(folder.join(name)).is_ok_and(|found| found.len() > 0)
        })
    };
    let started = facts.started || facts.watched;
    let to_be_seen = printed || facts.watched || (entry.rules && started);
    if !to_be_seen {
        return Output::Settled;
    }
    let watcher_lives = facts
        .watcher
        .is_some_and(|watcher| matches!(watcher.life(), Ok(Life::Alive)));
    if entry.watcher.is_some() || watcher_lives {
        return Output::Wait(config::WATCHER_PATIENCE);
    }
    // On another host it cannot be seen whether a watcher lives.
    let (began, unseen) = config::FAR_WATCHER_WAITS;
    let waits = if facts.watcher.is_some() {
        began
    } else {
        unseen
    };
    if entry.elsewhere.is_some() && entry.waits < waits {
        return Output::Wait(config::WATCHER_PATIENCE);
    }
    let due = entry
        .launched
        .is_some_and(|at| at.elapsed() >= config::WATCHER_DUE);
    if due && !facts.watched {
        return Output::Wait(config::WATCHER_COMES);
    }
    Output::Settle
}

/// Time limits for a settling process.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// While it prints nothing.
    silence: Duration,
    /// From its last answer to its end.
    end: Duration,
}

const PATIENCE: Patience = Patience {
    silence: config::SETTLE_SILENCE,
    end: config::SETTLE_END,
};

/// Runs one `nerokid settle` and passes its answers on as they arrive.
async fn settle<O>(
    watcher: &Watcher,
    lines: &[u8],
    report: &Report<O>,
    patience: Patience,
) -> std::io::Result<()> {
    let mut command = tokio::process::Command::new(&watcher.program);
    command.arg("settle");
    if let Some(socket) = &watcher.socket {
        command.arg("--socket").arg(socket);
    }
    let mut child = command
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let feed = async {
        if let Some(mut stdin) = stdin {
            // If the process ends early, its silence shows that.
            let _ = stdin.write_all(lines).await;
        }
        Ok(())
    };
    let read = async {
        let Some(stdout) = stdout else { return Ok(()) };
        let mut answers = BufReader::new(stdout).split(b'\n');
        loop {
            let next = tokio::time::timeout(patience.silence, answers.next_segment()).await;
            let Some(line) =
                next.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??
            else {
                return Ok(());
            };
            if let Some((run_dir, answer, why)) = answer(&line) {
                report.tell(WorkResult::Settled(run_dir, answer, why));
            }
        }
    };
    // A process that prints nothing may read nothing, either.
    let said = tokio::try_join!(feed, read).map(drop);
    if said.is_ok()
        && let Ok(ended) = tokio::time::timeout(patience.end, child.wait()).await
    {
        return ended.map(drop);
    }
    child.kill().await?;
    said
}

/// Most of a reason that is kept, in bytes.
const WHY_BYTES_MAX: usize = 500;

/// Parses `ok`, `full`, `busy` or `failed`, a blank or tab, the folder, and any
/// text after a tab: the start's number, and after another tab the reason.
fn answer(line: &[u8]) -> Option<(PathBuf, SettleAnswer, String)> {
    use std::os::unix::ffi::OsStrExt;
    let words: [(&[u8], SettleAnswer); 4] = [
        (b"ok", SettleAnswer::Well),
        (b"full", SettleAnswer::Full),
        (b"busy", SettleAnswer::Busy),
        (b"failed", SettleAnswer::Failed),
    ];
    let (rest, answer) = words
        .iter()
        .find_map(|(word, answer)| Some((line.strip_prefix(*word)?, *answer)))?;
    let rest = rest
        .strip_prefix(b" ")
        .or_else(|| rest.strip_prefix(b"\t"))?;
    let mut parts = rest.splitn(3, |byte| *byte == b'\t');
    let run_dir = PathBuf::from(std::ffi::OsStr::from_bytes(parts.next()?));
    let why = parts.nth(1).unwrap_or_default();
    let why = String::from_utf8_lossy(&why[..why.len().min(WHY_BYTES_MAX)]).into_owned();
    Some((run_dir, answer, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use tokio::sync::mpsc;

    const SHORT: Duration = Duration::from_millis(50);
    /// Longer than anything here takes on a busy machine.
    const LONG: Duration = Duration::from_secs(300);

    /// Settles with a shell script in the place of `nerokid`.
    async fn settle_with(script: &str, lines: &[u8], patience: Patience) -> std::io::Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let (done, _boxes) = mpsc::unbounded_channel();
        let report = Report::<()>::new(done, WorkResult::SettlerGone);
        let socket = None;
        settle(&Watcher { program, socket }, lines, &report, patience).await
    }

    #[tokio::test]
    async fn a_process_that_hangs_is_ended_whatever_it_leaves_unread() {
        let lines = vec![b'x'; 1 << 20];
        let silent = Patience {
            silence: SHORT,
            end: LONG,
        };
        let error = settle_with("exec sleep 600", &lines, silent).await;
        assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        let said_all = Patience {
            silence: LONG,
            end: SHORT,
        };
        let ended = settle_with("exec sleep 600 >/dev/null", b"", said_all).await;
        ended.unwrap();
    }
}
