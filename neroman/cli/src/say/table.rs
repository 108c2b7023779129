//! Tables for eyes: columns side by side, as many as fit.

use std::borrow::Cow;

use nero_model::safe::Safe;
use nero_views::text;
use unicode_width::UnicodeWidthStr as _;

use super::Screen;

/// Blanks between two columns.
const GAP: usize = 2;

/// Longest text of a cell on a terminal, in characters; the rest is cut with `…`.
const CELL_CHARS_MAX: usize = 60;

/// A column of texts that does not fit is cut when it has at least so many characters left.
const CUT_CHARS_MIN: usize = 16;

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

    /// Appends the cell of a column of this width, and the gap behind it.
    fn put(&self, screen: &Screen, to: &mut String, width: usize, chars_max: usize) {
        let shown = short(screen, &self.text, chars_max);
        let blanks = width.saturating_sub(shown.width());
        let (before, behind) = if self.right { (blanks, 0) } else { (0, blanks) };
        to.extend(std::iter::repeat_n(' ', before));
        match self.paint {
            Some(paint) if screen.color && !shown.is_empty() => {
                to.push_str(&format!("\x1b[{}m{shown}\x1b[0m", paint.code()));
            }
            _ => to.push_str(&shown),
        }
        to.extend(std::iter::repeat_n(' ', behind + GAP));
    }
}

impl Paint {
    /// The number of the colour for terminals.
    fn code(self) -> u8 {
        match self {
            Self::Going => 36,
            Self::Waiting => 90,
            Self::Good => 32,
            Self::Bad => 31,
            Self::Odd => 33,
            Self::Title => 1,
        }
    }
}

/// The space that a column takes.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    /// Widest text, none of them longer than [`CELL_CHARS_MAX`].
    width: usize,
    /// Widest text as it is.
    whole: usize,
    /// Whether a row has something there that is aligned at the right.
    right: bool,
}

impl Extent {
    fn take_in(&mut self, screen: &Screen, cell: &Cell) {
        let whole = cell.text.width();
        self.whole = self.whole.max(whole);
        let is_cut = whole > CELL_CHARS_MAX;
        let cut = is_cut.then(|| short(screen, &cell.text, CELL_CHARS_MAX).width());
        self.width = self.width.max(cut.unwrap_or(whole));
        self.right |= cell.right;
    }
}

/// Prints a table. Columns from the right are left out when the terminal is too
/// narrow or when there are more than [`COLUMNS_MAX`]; the first two always
/// stay. Returns the names left out. Rows may end at [`COLUMNS_MAX`]. On a
/// terminal rows above [`ROWS_MAX`] are counted in a last line.
pub fn print(screen: &Screen, header: &[String], rows: &[Vec<Cell>]) -> (String, Vec<String>) {
    print_rows(screen, header, rows.iter())
}

/// The same of rows that are made twice, so that a million of them take no memory.
pub fn print_rows<R: AsRef<[Cell]>>(
    screen: &Screen,
    header: &[String],
    rows: impl ExactSizeIterator<Item = R> + Clone,
) -> (String, Vec<String>) {
    let title = |name: &String| Cell {
        paint: Some(Paint::Title),
        ..Cell::text(name)
    };
    let mut titles: Vec<Cell> = header.iter().take(COLUMNS_MAX).map(title).collect();
    let mut extents = vec![Extent::default(); titles.len()];
    let all_rows = rows.len();
    let rows = rows.take(if screen.tty { ROWS_MAX } else { usize::MAX });
    for row in rows.clone() {
        for (extent, cell) in extents.iter_mut().zip(row.as_ref()) {
            extent.take_in(screen, cell);
        }
    }
    let has_titles = header.iter().any(|name| !name.is_empty());
    for (extent, title) in extents.iter_mut().zip(&mut titles) {
        title.right = extent.right;
        extent.take_in(screen, title);
    }
    let (kept, last_chars_max) = fitting(screen, &extents);
    let mut text = String::new();
    let mut put = |cells: &[Cell]| {
        let begin = text.len();
        for (at, (extent, cell)) in extents[..kept].iter().zip(cells).enumerate() {
            let (width, chars_max) = if at + 1 == kept {
                (extent.whole.min(last_chars_max), last_chars_max)
            } else {
                (extent.width, CELL_CHARS_MAX)
            };
            cell.put(screen, &mut text, width, chars_max);
        }
        text.truncate(begin + text[begin..].trim_end().len());
        text.push('\n');
    };
    if has_titles {
        put(&titles);
    }
    let mut shown = 0;
    for row in rows {
        put(row.as_ref());
        shown += 1;
    }
    if all_rows > shown {
        let more = all_rows - shown;
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
    let row = |thing| -> Vec<Cell> { columns.iter().map(|(_, cell)| cell(thing)).collect() };
    let headings: Vec<String> = headings.collect();
    print_rows(screen, &headings, things.iter().map(row)).0
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
    let safe = Safe::line(word);
    match paint_of(word) {
        Some(paint) if screen.color => format!("\x1b[{}m{safe}\x1b[0m", paint.code()),
        _ => safe.to_string(),
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

/// How many of these columns fit, all of them into a pipe, and how many characters a cell
/// of the last one has: the rest of the line. The first column of texts that does not fit is
/// cut, so that a reason is seen by its beginning.
fn fitting(screen: &Screen, extents: &[Extent]) -> (usize, usize) {
    if !screen.tty {
        return (extents.len(), CELL_CHARS_MAX);
    }
    let screen_width = usize::from(screen.width);
    let (mut used, mut last) = (0, 0);
    for (at, extent) in extents.iter().enumerate() {
        let end = used + extent.width;
        if at >= 2 && end > screen_width {
            let room = screen_width.saturating_sub(used);
            return if !extent.right && room >= CUT_CHARS_MIN {
                (at + 1, room)
            } else {
                (at, CELL_CHARS_MAX)
            };
        }
        last = used;
        used = end + GAP;
    }
    let rest = screen_width.saturating_sub(last);
    (extents.len(), rest.max(CELL_CHARS_MAX))
}

/// Into a pipe the whole text: its reader wants all of it.
fn short<'a>(screen: &Screen, text: &'a str, chars_max: usize) -> Cow<'a, str> {
    if !screen.tty || text.chars().count() <= chars_max {
        return text.into();
    }
    let mut cut: String = text.chars().take(chars_max - 1).collect();
    cut.push('…');
    cut.into()
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
