//! Log lines, as the original prints them to standard error.

use std::io::Write as _;

use nero_model::safe::Safe;

/// What is printed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Log {
    /// Rounds, checks, servers.
    pub verbose: bool,
    /// Scripts and lines of shells.
    pub debug: bool,
    /// Nothing at all.
    pub silent: bool,
    /// Nothing, since these lines were printed before.
    pub past: bool,
}

impl Log {
    /// A line of the flow.
    pub fn info(self, text: &str) {
        self.line("run", "INFO", text);
    }

    /// A line that asks for attention.
    pub fn warning(self, text: &str) {
        self.line("run", "WARNING", text);
    }

    /// A line of `--verbose`.
    pub fn verbose(self, text: &str) {
        if self.verbose {
            self.info(text);
        }
    }

    /// A line of `--debug`.
    pub fn debug(self, text: &str) {
        if self.debug {
            self.line("command", "DEBUG", text);
        }
    }

    /// A line under a name.
    pub fn line(self, name: &str, level: &str, text: &str) {
        if self.silent || self.past {
            return;
        }
        let now = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
        let text = Safe::lines(text.as_bytes());
        let line = format!("{now} {name:8} {level:8} {text}\n");
        // A standard error that is gone has no reader.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}
