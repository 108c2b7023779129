//! The pane below the table: one experiment, its log, curves, nodes.

use std::collections::VecDeque;

use nero_wire::v1::{MetricsReply, NodeView, RuleState};

use crate::ask::LogRequest;

/// Lines of a log that are kept.
const LINES_MAX: usize = 5000;
/// The longest line of a log that is kept, in bytes.
const LINE_MAX: usize = 4000;

/// Which pane is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PaneKind {
    #[default]
    Facts,
    Log,
    Curves,
    Nodes,
}

impl PaneKind {
    pub const ALL: [Self; 4] = [Self::Facts, Self::Log, Self::Curves, Self::Nodes];

    pub fn title(self) -> &'static str {
        match self {
            Self::Facts => "1 facts",
            Self::Log => "2 log",
            Self::Curves => "3 curves",
            Self::Nodes => "4 nodes",
        }
    }
}

/// Curves of experiments, with the rules over their metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurvesReply {
    pub ids: Vec<u64>,
    pub reply: MetricsReply,
    pub rules: Vec<RuleState>,
}

/// The end of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogTail {
    pub of: Option<LogRequest>,
    lines: VecDeque<String>,
    /// A line without its end.
    rest: Vec<u8>,
    /// Lines between the end and the last one shown; 0 follows the end.
    pub back: usize,
    pub search: String,
}

impl LogTail {
    /// Begins another log.
    pub fn begin(&mut self, of: LogRequest) {
        *self = Self {
            of: Some(of),
            search: std::mem::take(&mut self.search),
            ..Self::default()
        };
    }

    /// Takes what was printed; a part that begins anew replaces all.
    pub fn take(&mut self, begins: bool, data: &[u8]) {
        if begins {
            self.lines.clear();
            self.rest.clear();
        }
        let before = self.count();
        for byte in data {
            if *byte == b'\n' {
                self.end_line();
            } else if self.rest.len() < LINE_MAX {
                self.rest.push(*byte);
            }
        }
        // What somebody reads stays where it is.
        if self.back > 0 {
            self.back += self.count().saturating_sub(before);
        }
        self.back = self.back.min(self.lines.len());
    }

    /// Lines, with the one that has no end yet.
    fn count(&self) -> usize {
        self.lines.len() + usize::from(!self.rest.is_empty())
    }

    fn end_line(&mut self) {
        // A bar that is drawn over itself shows its last form.
        let line = std::mem::take(&mut self.rest);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        let begin = line
            .iter()
            .rposition(|byte| *byte == b'\r')
            .map_or(0, |at| at + 1);
        self.lines
            .push_back(String::from_utf8_lossy(&line[begin..]).into_owned());
        if self.lines.len() > LINES_MAX {
            self.lines.pop_front();
        }
    }

    /// The lines of a pane of this height.
    pub fn visible(&self, height: usize) -> Vec<String> {
        let rest = String::from_utf8_lossy(&self.rest);
        let rest = rest.rsplit('\r').next().unwrap_or_default().to_owned();
        let last = (!rest.is_empty()).then_some(rest);
        let all = self.lines.len() + usize::from(last.is_some());
        let end = all.saturating_sub(self.back);
        let begin = end.saturating_sub(height);
        let lines = self.lines.iter().cloned().chain(last);
        lines.skip(begin).take(end - begin).collect()
    }

    /// Moves by so many lines, towards the beginning when positive.
    pub fn scroll(&mut self, lines: i64) {
        let back = i64::try_from(self.back)
            .unwrap_or(i64::MAX)
            .saturating_add(lines);
        self.back = usize::try_from(back).unwrap_or(0).min(self.lines.len());
    }

    /// Shows the next line with the words searched for, towards the beginning; returns whether
    /// there is one.
    pub fn find(&mut self) -> bool {
        let wanted = self.search.to_lowercase();
        let end = self.lines.len().saturating_sub(self.back + 1);
        let found = self
            .lines
            .iter()
            .take(end)
            .rposition(|line| line.to_lowercase().contains(&wanted));
        if let Some(at) = found {
            self.back = self.lines.len() - at - 1;
        }
        found.is_some()
    }
}

/// All that the panes show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panes {
    pub kind: PaneKind,
    /// Whether it has the whole screen.
    pub is_whole: bool,
    pub detail: Option<(u64, Result<String, String>)>,
    /// Lines left out above.
    pub scrolled: usize,
    pub log: LogTail,
    pub stderr: bool,
    pub curves: Option<Result<CurvesReply, String>>,
    pub is_log_scale: bool,
    pub nodes: Vec<NodeView>,
    pub nodes_problem: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_follows_its_end_until_somebody_scrolls() {
        let mut log = LogTail::default();
        log.take(true, b"one\ntwo\nthree\nfo");
        assert_eq!(log.visible(2), ["three", "fo"]);
        log.take(false, b"ur\n 10%\r 20%\r 30%");
        assert_eq!(log.visible(2), ["four", " 30%"]);
        log.scroll(2);
        assert_eq!(log.visible(2), ["two", "three"]);
        log.take(false, b"\nsix\n");
        assert_eq!(log.visible(2), ["two", "three"], "what is read stays");
        log.scroll(-10);
        assert_eq!(log.visible(1), ["six"]);
    }

    #[test]
    fn a_search_goes_back_from_line_to_line() {
        let mut log = LogTail::default();
        log.take(true, b"Error: a\nok\nerror: b\nok\nok\n");
        log.search = "error".to_owned();
        assert!(log.find());
        assert_eq!(log.visible(1), ["error: b"]);
        assert!(log.find());
        assert_eq!(log.visible(1), ["Error: a"]);
        assert!(!log.find());
    }
}
