//! The progress of a transfer, on standard error: a line that is written over
//! on a terminal, now and then a line elsewhere. A transfer of less than a
//! second is not shown.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use nero_model::safe::Safe;
use nero_views::text;
use nero_wire::v1::Progress;

/// A transfer that ends within this time is not shown.
const QUIET: Duration = Duration::from_secs(1);
/// Between two lines of a terminal, and of a log.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Shows the transfers of one verb.
#[derive(Debug)]
pub struct Meter {
    terminal: bool,
    what: String,
    /// Since when each node does that.
    began: BTreeMap<String, Instant>,
    shown: Option<Instant>,
}

impl Meter {
    /// A meter that shows nothing yet.
    pub fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            what: String::new(),
            began: BTreeMap::new(),
            shown: None,
        }
    }

    /// Takes the newest figures.
    pub fn show(&mut self, progress: &Progress) {
        let now = Instant::now();
        if self.what != progress.what {
            self.clear();
            self.what.clone_from(&progress.what);
            self.began.clear();
        }
        let began = self.began.entry(progress.node.clone()).or_insert(now);
        let since = now.duration_since(*began);
        let pause = if self.terminal { PAUSES.0 } else { PAUSES.1 };
        let due = match self.shown {
            None => since >= QUIET,
            Some(at) => now.duration_since(at) >= pause,
        };
        if !due {
            return;
        }
        self.shown = Some(now);
        let line = line(progress, since);
        let line = Safe::line(&line);
        let mut stderr = std::io::stderr().lock();
        // A standard error that is gone has no reader.
        let _ = if self.terminal {
            write!(stderr, "\r\x1b[K{line}").and_then(|()| stderr.flush())
        } else {
            writeln!(stderr, "{line}")
        };
    }

    /// Removes the terminal's line, before other text is printed.
    pub fn clear(&mut self) {
        if self.shown.take().is_some() {
            clear_line();
        }
    }
}

/// Removes the text in the terminal's line.
pub fn clear_line() {
    let mut stderr = std::io::stderr().lock();
    if stderr.is_terminal() {
        // A standard error that is gone has no reader.
        let _ = write!(stderr, "\r\x1b[K").and_then(|()| stderr.flush());
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `sending files: 3.4M of 8.1M, 120 of 900 files, 2.1M/s, 3s left`.
fn line(progress: &Progress, since: Duration) -> String {
    let mut parts = Vec::new();
    let (done, total) = (progress.done_bytes, progress.total_bytes);
    match total {
        0 if done == 0 => {}
        0 => parts.push(text::bytes(done)),
        total => parts.push(format!("{} of {}", text::bytes(done), text::bytes(total))),
    }
    if progress.total_files > 0 {
        let (done, total) = (progress.done_files, progress.total_files);
        parts.push(format!("{done} of {total} files"));
    }
    let rate = done as f64 / since.as_secs_f64().max(0.001);
    if done > 0 && rate >= 1.0 {
        parts.push(format!("{}/s", text::bytes(rate as u64)));
        if total > done {
            let left = (total - done) as f64 / rate;
            parts.push(format!("{} left", text::duration(left)));
        }
    }
    let node = match progress.node.as_str() {
        "" => String::new(),
        node => format!("{node}: "),
    };
    if parts.is_empty() {
        return format!("{node}{} …", progress.what);
    }
    format!("{node}{}: {}", progress.what, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_known() {
        let mut progress = Progress {
            what: "sending files".into(),
            node: "alpha".into(),
            done_bytes: 2 << 20,
            ..Progress::default()
        };
        let two = Duration::from_secs(2);
        let looking = Progress {
            what: "looking at the machine".into(),
            ..Progress::default()
        };
        assert_eq!(line(&looking, two), "looking at the machine …");
        assert_eq!(line(&progress, two), "alpha: sending files: 2.0M, 1.0M/s");
        progress.total_bytes = 4 << 20;
        progress.done_files = 1;
        progress.total_files = 7;
        assert_eq!(
            line(&progress, two),
            "alpha: sending files: 2.0M of 4.0M, 1 of 7 files, 1.0M/s, 2.00s left"
        );
    }
}
