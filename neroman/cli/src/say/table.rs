//! Tables for eyes: columns side by side, as many as fit.

use comfy_table::{Attribute, Cell as Shown, CellAlignment, Color, ContentArrangement, Table};
use nero_model::safe::Safe;
use nero_views::text;

use super::Screen;

/// Blanks between two columns.
const GAP: u16 = 2;

/// Longest text of a cell on a terminal, in characters; the rest is cut with `…`.
const CELL_CHARS_MAX: usize = 60;

/// A column of texts that does not fit is cut when it has at least so many characters left.
const CUT_CHARS_MIN: u16 = 16;

/// Columns of a table at most, into a pipe too: a job may print thousands of
/// names. Forms for programs (`--csv`, `--json`) have them all.
pub const COLUMNS_MAX: usize = 32;

/// Rows of a table on a terminal at most.
pub const ROWS_MAX: usize = 1000;

/// A cell and how it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    paint: Option<Paint>,
    right: bool,
}

/// The meaning of a colour; the text contains it, too.
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
    /// A person ended it, or its end is unknown.
    Odd,
    /// A title.
    Title,
}

impl Cell {
    /// Text from any source, made safe.
    pub fn text(text: &str) -> Self {
        Self {
            text: Safe::line(text).to_string(),
            ..Self::default()
        }
    }

    /// Text aligned at its last digits.
    pub fn right(text: &str) -> Self {
        Self {
            right: true,
            ..Self::text(text)
        }
    }

    /// A measured number, empty where it is unknown.
    pub fn number(value: impl Into<Option<f64>>) -> Self {
        Self::right(&value.into().map(text::number).unwrap_or_default())
    }

    /// A count or an id.
    pub fn whole(count: impl ToString) -> Self {
        Self::right(&count.to_string())
    }

    /// A size in bytes.
    pub fn bytes(count: u64) -> Self {
        Self::right(&text::bytes(count))
    }

    /// A moment, in milliseconds since 1970.
    pub fn time(ms: i64) -> Self {
        Self::text(&text::local_time(ms))
    }

    /// A state in its colour.
    pub fn state(word: &str) -> Self {
        Self {
            paint: paint_of(word),
            ..Self::text(word)
        }
    }

    /// The same in its colour with another text, made safe.
    pub fn with_text(self, text: &str) -> Self {
        Self {
            text: Safe::line(text).to_string(),
            ..self
        }
    }

    /// The text, made safe.
    pub fn as_text(&self) -> &str {
        &self.text
    }

    /// Whether it is aligned at its last digits.
    pub fn is_right(&self) -> bool {
        self.right
    }

    fn shown(&self, screen: &Screen) -> Shown {
        self.shown_within(screen, CELL_CHARS_MAX)
    }

    fn shown_within(&self, screen: &Screen, chars_max: usize) -> Shown {
        let mut shown = Shown::new(short(screen, &self.text, chars_max));
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

/// Prints a table. Columns from the right are left out when the terminal is too
/// narrow or when there are more than [`COLUMNS_MAX`]; the first two always
/// stay. Returns the names left out. Rows may end at [`COLUMNS_MAX`]. On a
/// terminal rows above [`ROWS_MAX`] are counted in a last line.
pub fn print(screen: &Screen, header: &[String], rows: &[Vec<Cell>]) -> (String, Vec<String>) {
    let bounded = &header[..header.len().min(COLUMNS_MAX)];
    let all_rows = rows.len();
    let rows = match rows.get(..ROWS_MAX) {
        Some(first) if screen.tty => first,
        _ => rows,
    };
    let (kept, last_chars_max) = fitting(screen, bounded, rows);
    let chars_max = |at| {
        if at + 1 == kept {
            last_chars_max
        } else {
            CELL_CHARS_MAX
        }
    };
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
            .shown_within(screen, chars_max(at))
        }));
    }
    for row in rows {
        let cells = row.iter().take(kept).enumerate();
        table.add_row(cells.map(|(at, cell)| cell.shown_within(screen, chars_max(at))));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if all_rows > rows.len() {
        let more = all_rows - rows.len();
        text.push_str(&format!("… and {more} more rows: --csv has all\n"));
    }
    let left_out = header[kept.min(header.len())..].to_vec();
    (text, left_out)
}

/// A column of a listing of `T`: its heading, and its cell in a row.
pub type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> Cell);

/// Prints a table with a row for each thing (see [`print`]).
pub fn list<T>(screen: &Screen, columns: &[Column<'_, T>], things: &[T]) -> String {
    let headings = columns.iter().map(|(heading, _)| (*heading).to_owned());
    let row = |thing| columns.iter().map(|(_, cell)| cell(thing)).collect();
    let rows: Vec<Vec<Cell>> = things.iter().map(row).collect();
    print(screen, &headings.collect::<Vec<_>>(), &rows).0
}

/// The line below a table that names the columns left out; empty for none.
pub fn no_room(left_out: &[String]) -> String {
    match left_out {
        [] => String::new(),
        names => format!("(no room for {})\n", Safe::line(&text::some(names))),
    }
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

/// How many of these columns fit, all of them into a pipe, and how many characters a cell
/// of the last one has: the rest of the line. The first column of texts that does not fit is
/// cut, so that a reason is seen by its beginning.
fn fitting(screen: &Screen, header: &[String], rows: &[Vec<Cell>]) -> (usize, usize) {
    let all = (header.len(), CELL_CHARS_MAX);
    if !screen.tty {
        return all;
    }
    let mut measure = Table::new();
    measure.set_header(
        header
            .iter()
            .map(|name| short(screen, &Safe::line(name).to_string(), CELL_CHARS_MAX)),
    );
    for row in rows {
        let row = row.iter().take(header.len());
        measure.add_row(row.map(|cell| cell.shown(screen)));
    }
    let (mut used, mut last) = (0u16, 0);
    for (at, width) in measure.column_max_content_widths().into_iter().enumerate() {
        let end = used.saturating_add(width);
        if at >= 2 && end > screen.width {
            let room = screen.width.saturating_sub(used);
            let is_text = !rows
                .iter()
                .any(|row| row.get(at).is_some_and(Cell::is_right));
            return if is_text && room >= CUT_CHARS_MIN {
                (at + 1, usize::from(room))
            } else {
                (at, CELL_CHARS_MAX)
            };
        }
        last = used;
        used = end.saturating_add(GAP);
    }
    let rest = usize::from(screen.width.saturating_sub(last));
    (header.len(), rest.max(CELL_CHARS_MAX))
}

/// Into a pipe the whole text: its reader wants all of it.
fn short(screen: &Screen, text: &str, chars_max: usize) -> String {
    if !screen.tty || text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(chars_max - 1).collect();
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
    fn the_first_column_of_texts_that_does_not_fit_is_cut() {
        let reason = "exit code 1: ModuleNotFoundError: no module named torch";
        let rows = [vec![
            Cell::right("1"),
            Cell::text("a"),
            Cell::text(reason),
            Cell::right("0.5"),
        ]];
        let header = ["id", "name", "reason", "loss"].map(str::to_owned);
        let (text, left_out) = print(&Screen::terminal(30, 9, false), &header, &rows);
        assert_eq!(text, "id  name  reason\n 1  a     exit code 1: Module…\n");
        assert!(
            text.lines().all(|line| line.chars().count() <= 30),
            "{text}"
        );
        assert_eq!(left_out, ["loss"]);
        let (_, left_out) = print(&Screen::terminal(25, 9, false), &header, &rows);
        assert_eq!(left_out, ["reason", "loss"], "a few letters tell nothing");
    }

    #[test]
    fn thousands_of_columns_and_rows_are_bounded_and_counted() {
        let header: Vec<String> = (0..4096).map(|at| format!("m{at}")).collect();
        let row: Vec<Cell> = (0..COLUMNS_MAX)
            .map(|at| Cell::text(&at.to_string()))
            .collect();
        for screen in [Screen::pipe(), Screen::terminal(80, 24, false)] {
            let (text, left_out) = print(&screen, &header, std::slice::from_ref(&row));
            assert!(text.lines().all(|line| line.len() < 400), "{text}");
            assert!(left_out.len() >= 4096 - COLUMNS_MAX);
            let said = no_room(&left_out);
            assert!(said.len() < 200 && said.contains(" more)"), "{said}");
        }
        let rows = vec![vec![Cell::text("1")]; ROWS_MAX + 5];
        let (text, _) = print(&Screen::terminal(80, 24, false), &header[..1], &rows);
        assert!(
            text.ends_with("… and 5 more rows: --csv has all\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1 + ROWS_MAX + 1);
        let (text, _) = print(&Screen::pipe(), &header[..1], &rows);
        assert_eq!(text.lines().count(), 1 + ROWS_MAX + 5);
    }

    #[test]
    fn long_texts_are_cut_for_a_terminal_alone() {
        let long = "x".repeat(CELL_CHARS_MAX + 1);
        let rows = [vec![Cell::text("1"), Cell::text(&long)]];
        let header = ["id", "reason"].map(str::to_owned);
        let (piped, _) = print(&Screen::pipe(), &header, &rows);
        assert!(piped.contains(&long), "{piped}");
        let (shown, _) = print(&Screen::terminal(64, 9, false), &header, &rows);
        assert!(shown.contains("x…\n") && !shown.contains(&long), "{shown}");
        let (shown, _) = print(&Screen::terminal(200, 9, false), &header, &rows);
        assert!(
            shown.contains(&long),
            "the last one has the rest of the line"
        );
        let rows = [vec![Cell::text(&long), Cell::text("1")]];
        let (shown, _) = print(&Screen::terminal(200, 9, false), &header, &rows);
        assert!(!shown.contains(&long), "{shown}");
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
