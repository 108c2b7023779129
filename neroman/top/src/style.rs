//! Colours and signs. No meaning rests on a colour alone: each state has a sign and a word.

use nero_model::safe::Safe;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// What the terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalLook {
    /// Colours are welcome.
    pub color: bool,
    /// Characters beyond ASCII are shown.
    pub unicode: bool,
}

impl TerminalLook {
    /// The sign of a state.
    pub(crate) fn sign(self, state: &str) -> &'static str {
        let (sign, ascii) = match state {
            "running" => ("▶", ">"),
            "ending" => ("◀", "<"),
            "queued" | "staging" | "submitted" | "pending" => ("·", "."),
            "paused" => ("‖", "="),
            "finished" => ("✓", "+"),
            "crashed" | "timeout" => ("✗", "x"),
            "aborted" => ("■", "#"),
            "lost" => ("?", "?"),
            _ => ("○", "o"),
        };
        if self.unicode { sign } else { ascii }
    }

    /// The colour of a state.
    pub(crate) fn state(self, state: &str) -> Style {
        let color = match state {
            "running" | "ending" => Color::Cyan,
            "queued" | "staging" | "submitted" | "pending" | "paused" => Color::DarkGray,
            "finished" => Color::Green,
            "crashed" | "timeout" => Color::Red,
            "aborted" | "lost" => Color::Yellow,
            _ => return Style::default(),
        };
        self.colored(color)
    }

    /// A colour, where colours are welcome.
    pub(crate) fn colored(self, color: Color) -> Style {
        if self.color {
            Style::default().fg(color)
        } else {
            Style::default()
        }
    }

    /// Words that matter less.
    pub(crate) fn faint(self) -> Style {
        self.colored(Color::DarkGray)
    }

    /// A mistake.
    pub(crate) fn bad(self) -> Style {
        self.colored(Color::Red)
    }

    /// A bar of so many cells, filled by a share.
    pub(crate) fn bar(self, share: f64, cells: usize) -> String {
        let (full, empty) = if self.unicode {
            ("█", "░")
        } else {
            ("#", "-")
        };
        let filled = (share.clamp(0.0, 1.0) * cells as f64).round() as usize;
        full.repeat(filled) + &empty.repeat(cells.saturating_sub(filled))
    }

    /// A text of at most so many columns, with a mark where something is left out.
    pub(crate) fn cut(self, text: &str, width: usize) -> String {
        if text.width() <= width {
            return text.to_owned();
        }
        let mark = if self.unicode { '…' } else { '~' };
        let (mut kept, mut used) = (String::new(), 1);
        for c in text.chars() {
            used += c.width().unwrap_or(0);
            if used > width {
                break;
            }
            kept.push(c);
        }
        if width > 0 {
            kept.push(mark);
        }
        kept
    }

    /// A text from elsewhere as a cell: harmless, one line, of exactly so many columns.
    pub(crate) fn cell(self, text: &str, width: usize, right: bool) -> String {
        let text = self.cut(&self.safe(text), width);
        let blanks = " ".repeat(width.saturating_sub(text.width()));
        if right {
            blanks + &text
        } else {
            text + &blanks
        }
    }

    /// A text from elsewhere in one harmless line.
    pub(crate) fn safe(self, text: &str) -> String {
        let text = Safe::line(text).to_string();
        if self.unicode || text.is_ascii() {
            return text;
        }
        let ascii = |c: char| if c.is_ascii() { c } else { '?' };
        text.chars().map(ascii).collect()
    }
}

/// A title.
pub(crate) fn bold() -> Style {
    Style::default().add_modifier(Modifier::BOLD)
}

/// The row below the cursor.
pub(crate) fn reversed() -> Style {
    Style::default().add_modifier(Modifier::REVERSED)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: TerminalLook = TerminalLook {
        color: false,
        unicode: true,
    };

    #[test]
    fn cells_have_their_width_whatever_the_text_is() {
        for text in [
            "",
            "a",
            "日本語のテキスト",
            "e\u{301}e\u{301}e\u{301}",
            "\x1b[31mred\u{202e}",
            "a\nb\tc",
        ] {
            for width in [1, 3, 4, 9, 30] {
                let cell = PLAIN.cell(text, width, false);
                assert_eq!(cell.width(), width, "{text:?} {width} {cell:?}");
                assert!(!cell.contains(['\x1b', '\n', '\u{202e}']));
            }
        }
        let ascii = TerminalLook {
            unicode: false,
            ..PLAIN
        };
        assert_eq!(ascii.cell("日本", 4, true), "  ??");
        assert_eq!(ascii.bar(0.5, 4), "##--");
    }
}
