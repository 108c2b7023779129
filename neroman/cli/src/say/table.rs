//! Tables for eyes: columns side by side, as many as fit.

use comfy_table::{Attribute, Cell as Shown, CellAlignment, Color, ContentArrangement, Table};
use nero_model::safe::Safe;

use super::Screen;

/// Blanks between two columns.
const GAP: u16 = 2;

/// Longest text of a cell on a terminal, in characters; the rest is cut with `…`.
const CELL_CHARS_MAX: usize = 60;

/// A cell and how it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    paint: Option<Paint>,
    right: bool,
}

/// What a colour stands for; the text says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// It goes on.
    Going,
    /// It waits.
    Waiting,
    /// It went well.
    Good,
    /// It went wrong.
    Bad,
    /// Somebody ended it, or we do not know.
    Odd,
    /// A title.
    Title,
}

impl Cell {
    /// Text of anybody, made safe.
    pub fn text(text: &str) -> Self {
        Self {
            text: Safe::line(text).to_string(),
            ..Self::default()
        }
    }

    /// Something that is compared by its last digits.
    pub fn right(text: &str) -> Self {
        Self {
            right: true,
            ..Self::text(text)
        }
    }

    /// A state in its colour.
    pub fn state(word: &str) -> Self {
        Self {
            paint: paint_of(word),
            ..Self::text(word)
        }
    }

    fn shown(&self, screen: &Screen) -> Shown {
        let mut shown = Shown::new(short(screen, &self.text));
        if self.right {
            shown = shown.set_alignment(CellAlignment::Right);
        }
        match self.paint {
            None => shown,
            Some(Paint::Title) => shown.add_attribute(Attribute::Bold),
            Some(paint) => shown.fg(color_of(paint)),
        }
    }
}

/// Prints a table. Columns from the right are left out when the terminal is
/// too narrow; the first two always stay. Returns the names left out.
pub fn print(screen: &Screen, header: &[String], rows: &[Vec<Cell>]) -> (String, Vec<String>) {
    let kept = fitting(screen, header, rows);
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    if screen.color {
        table.enforce_styling();
        table.style_text_only();
    } else {
        table.force_no_tty();
    }
    if header.iter().any(|name| !name.is_empty()) {
        table.set_header(header.iter().take(kept).enumerate().map(|(at, name)| {
            let right = rows
                .iter()
                .any(|row| row.get(at).is_some_and(|cell| cell.right));
            Cell {
                text: Safe::line(name).to_string(),
                paint: Some(Paint::Title),
                right,
            }
            .shown(screen)
        }));
    }
    for row in rows {
        table.add_row(row.iter().take(kept).map(|cell| cell.shown(screen)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let left_out = header[kept.min(header.len())..].to_vec();
    (text, left_out)
}

/// Paints one word, where colours are welcome.
pub fn painted(screen: &Screen, word: &str) -> String {
    use comfy_table::Color::{Cyan, DarkGrey, Green, Red, Yellow};
    let code = match paint_of(word).map(color_of) {
        Some(Cyan) => 36,
        Some(DarkGrey) => 90,
        Some(Green) => 32,
        Some(Red) => 31,
        Some(Yellow) => 33,
        _ => 0,
    };
    let safe = Safe::line(word);
    if screen.color && code != 0 {
        format!("\x1b[{code}m{safe}\x1b[0m")
    } else {
        safe.to_string()
    }
}

fn paint_of(state: &str) -> Option<Paint> {
    match state {
        "running" | "ending" => Some(Paint::Going),
        "queued" | "staging" | "submitted" | "pending" | "paused" => Some(Paint::Waiting),
        "finished" => Some(Paint::Good),
        "crashed" | "timeout" => Some(Paint::Bad),
        "aborted" | "lost" => Some(Paint::Odd),
        _ => None,
    }
}

fn color_of(paint: Paint) -> Color {
    match paint {
        Paint::Going => Color::Cyan,
        Paint::Waiting => Color::DarkGrey,
        Paint::Good => Color::Green,
        Paint::Bad => Color::Red,
        Paint::Odd => Color::Yellow,
        Paint::Title => Color::Reset,
    }
}

/// How many columns fit; all of them into a pipe.
fn fitting(screen: &Screen, header: &[String], rows: &[Vec<Cell>]) -> usize {
    if !screen.tty {
        return header.len();
    }
    let mut measure = Table::new();
    measure.set_header(
        header
            .iter()
            .map(|name| short(screen, &Safe::line(name).to_string())),
    );
    for row in rows {
        measure.add_row(row.iter().map(|cell| cell.shown(screen)));
    }
    let mut used = 0u16;
    for (at, width) in measure.column_max_content_widths().into_iter().enumerate() {
        let end = used.saturating_add(width);
        if at >= 2 && end > screen.width {
            return at;
        }
        used = end.saturating_add(GAP);
    }
    header.len()
}

/// As it is in a pipe: who reads that wants all of it.
fn short(screen: &Screen, text: &str) -> String {
    if !screen.tty || text.chars().count() <= CELL_CHARS_MAX {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(CELL_CHARS_MAX - 1).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> (Vec<String>, Vec<Vec<Cell>>) {
        let header = ["id", "name", "state", "loss"].map(str::to_owned);
        let row = |id: &str, name: &str, state: &str, loss: &str| {
            vec![
                Cell::right(id),
                Cell::text(name),
                Cell::state(state),
                Cell::right(loss),
            ]
        };
        let rows = vec![
            row("1", "höhe", "running", "0.5"),
            row("22", "b\x1b[2J", "crashed", "-12"),
        ];
        (header.to_vec(), rows)
    }

    #[test]
    fn a_pipe_gets_everything_without_colour() {
        let (header, rows) = rows();
        let (text, left_out) = print(&Screen::pipe(), &header, &rows);
        assert_eq!(
            text,
            "id  name        state    loss\n \
             1  höhe        running   0.5\n\
             22  b\\u{1b}[2J  crashed   -12\n"
        );
        assert_eq!(left_out, Vec::<String>::new());
    }

    #[test]
    fn a_narrow_terminal_gets_what_fits() {
        let (header, rows) = rows();
        let (text, left_out) = print(&Screen::terminal(26, 9, false), &header, &rows);
        assert_eq!(text.lines().next(), Some("id  name        state"));
        assert_eq!(left_out, ["loss"]);
    }

    #[test]
    fn long_texts_are_cut_for_a_terminal_alone() {
        let long = "x".repeat(CELL_CHARS_MAX + 1);
        let rows = [vec![Cell::text("1"), Cell::text(&long)]];
        let header = ["id", "reason"].map(str::to_owned);
        let (piped, _) = print(&Screen::pipe(), &header, &rows);
        assert!(piped.contains(&long), "{piped}");
        let (shown, _) = print(&Screen::terminal(300, 9, false), &header, &rows);
        assert!(shown.contains("x…\n") && !shown.contains(&long), "{shown}");
    }

    #[test]
    fn colour_says_what_the_word_says() {
        let (header, rows) = rows();
        let (text, _) = print(&Screen::terminal(80, 9, true), &header, &rows);
        assert!(text.contains("running") && text.contains('\x1b'));
        assert!(text.contains("\\u{1b}[2J"));
        assert_eq!(painted(&Screen::pipe(), "crashed"), "crashed");
        assert_eq!(
            painted(&Screen::terminal(80, 9, true), "crashed"),
            "\x1b[31mcrashed\x1b[0m"
        );
    }
}
