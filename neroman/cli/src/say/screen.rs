//! The properties of the terminal, looked up once.

use std::io::{self, IsTerminal as _};

/// Width of tables where neither terminal nor environment gives one.
const WIDTH: u16 = 100;
/// Height where neither gives one.
const HEIGHT: u16 = 40;

/// The terminal, or what stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Standard output is a terminal.
    pub tty: bool,
    /// A question can be asked and answered.
    pub can_ask: bool,
    /// Colours are welcome.
    pub color: bool,
    /// Columns.
    pub width: u16,
    /// Lines.
    pub height: u16,
}

impl Screen {
    /// Looks at standard output and the environment.
    pub fn find() -> Self {
        let tty = io::stdout().is_terminal();
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        // A shell that exports it knows the width of the terminal behind a pipe.
        let columns = std::env::var("COLUMNS").ok();
        let columns = columns.and_then(|columns| columns.parse().ok());
        Self {
            tty,
            can_ask: io::stdin().is_terminal() && io::stderr().is_terminal(),
            color: tty && !plain,
            width: size
                .map(|size| size.ws_col)
                .filter(|width| *width > 0)
                .or(columns.filter(|width| *width > 0))
                .unwrap_or(WIDTH),
            height: size
                .map(|size| size.ws_row)
                .filter(|height| *height > 0)
                .unwrap_or(HEIGHT),
        }
    }

    /// A pipe: no terminal, no width.
    #[cfg(test)]
    pub fn pipe() -> Self {
        Self {
            tty: false,
            can_ask: false,
            color: false,
            width: WIDTH,
            height: HEIGHT,
        }
    }

    /// A terminal of this size.
    #[cfg(test)]
    pub fn terminal(width: u16, height: u16, color: bool) -> Self {
        Self {
            tty: true,
            can_ask: true,
            color,
            width,
            height,
        }
    }
}
