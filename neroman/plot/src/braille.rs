//! A plot as characters: eight dots of a braille character for each cell of a terminal.

use nero_model::safe::Safe;

use crate::palette;
use crate::scale::{self, Scale};
use crate::svg::{cut, rule_words};
use crate::{Curve, CurvePoint, LINES_MAX, Panel, Plot, Theme, thin};

/// A terminal.
#[derive(Clone, Copy, Debug)]
pub struct TerminalSize {
    /// Columns.
    pub width: usize,
    /// Lines for the panels together; names and rules come below.
    pub height: usize,
    /// Whether it shows colours.
    pub color: bool,
}

/// Signs at the ends of curves.
const KEYS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// Lines of a panel's curves.
const ROWS_MIN: usize = 6;
/// The longest title and name, in characters.
const NAME_MAX: usize = 60;
/// Signs beside one line.
const KEYS_MAX: usize = 4;

/// Draws a plot.
pub fn braille(plot: &Plot, size: TerminalSize) -> String {
    let x = scale::across(plot);
    let count = plot.panels.len().max(1);
    // A title for each panel, and the axis.
    let rows = if scale::has_one_x(plot) {
        // A single point needs no large picture.
        ROWS_MIN
    } else {
        (size.height.saturating_sub(count + 2) / count).max(ROWS_MIN)
    };
    let y: Vec<Option<Scale>> = plot
        .panels
        .iter()
        .map(|panel| scale::up(plot, panel))
        .collect();
    let marks: Vec<Vec<scale::Tick>> = (y.iter())
        .map(|y| y.map_or_else(Vec::new, |y| scale::ticks(y, (rows / 3).max(2))))
        .collect();
    let left = marks.iter().flatten().map(|(_, text)| text.chars().count());
    let left = left.max().unwrap_or(0);
    let has_keys = plot.names.len() > 1 && plot.names.len() <= KEYS.len();
    let right = if has_keys { KEYS_MAX + 1 } else { 0 };
    let columns = size.width.saturating_sub(left + 2 + right).max(10);
    let mut text = String::new();
    for ((panel, y), marks) in plot.panels.iter().zip(&y).zip(&marks) {
        let mut canvas = Canvas::new(columns, rows);
        let axes = x.zip(*y);
        if let Some((x, y)) = axes {
            canvas.panel(plot, panel, x, y);
        }
        let hidden = plot.hidden(panel);
        let title = cut(&printable(&panel.title), NAME_MAX);
        let title = [title, hidden].join("   ");
        text.push_str(&format!("{:left$}  {}\n", "", title.trim_end()));
        let mut lines = canvas.lines(plot, size.color);
        if axes.is_none() {
            lines.truncate(3);
            if let Some(line) = lines.get_mut(1) {
                *line = "  no points".into();
            }
        }
        let keys = match axes {
            Some((_, y)) if has_keys => keys(panel, y, rows, plot, size.color),
            _ => vec![String::new(); rows],
        };
        for (row, (line, keys)) in lines.into_iter().zip(keys).enumerate() {
            let mark = marks.iter().find(|(value, _)| {
                let part = y.as_ref().and_then(|y| y.part(*value));
                part.is_some_and(|part| row_of(part, rows) == row)
            });
            let (mark, sign) = mark.map_or(("", '│'), |mark| (mark.1.as_str(), '┤'));
            let line = format!("{mark:>left$} {sign}{line}{keys}");
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    if let Some(x) = x {
        text.push_str(&axis(plot, x, left, columns));
    }
    text.push_str(&names(plot, size, has_keys));
    for (words, is_line) in rule_words(plot.panels.iter().zip(y)) {
        let sign = if is_line { "╌╌" } else { "◆ " };
        text.push_str(&format!("{sign} {}\n", printable(&words)));
    }
    for remark in &plot.remarks {
        text.push_str(&format!("{}\n", printable(remark)));
    }
    text
}

fn row_of(part: f64, rows: usize) -> usize {
    let row = (1.0 - part.clamp(0.0, 1.0)) * rows as f64;
    (row as usize).min(rows - 1)
}

/// The line below the panels, with marks and what x is.
fn axis(plot: &Plot, x: Scale, left: usize, columns: usize) -> String {
    let mut line = vec!['─'; columns];
    let mut words = vec![' '; columns + left + 2];
    let mut free = 0;
    for (value, text) in scale::ticks_across(&plot.x, x, (columns / 12).max(2)) {
        let Some(part) = x.part(value) else { continue };
        let at = ((part * columns as f64) as usize).min(columns - 1);
        line[at] = '┬';
        let length = text.chars().count();
        let middle = left + 2 + at;
        let begin = middle
            .saturating_sub(length / 2)
            .min(words.len().saturating_sub(length));
        if begin < free {
            continue;
        }
        for (place, c) in words.iter_mut().skip(begin).zip(text.chars()) {
            *place = c;
        }
        free = begin + length + 1;
    }
    let line: String = line.into_iter().collect();
    let words: String = words.into_iter().collect();
    let title = scale::title_across(&plot.x, x);
    let wide = left + 2 + columns;
    format!("{:left$} └{line}\n{}\n{title:^wide$}", "", words.trim_end())
        .trim_end()
        .to_owned()
        + "\n"
}

/// Which curves end in which line.
fn keys(panel: &Panel, y: Scale, rows: usize, plot: &Plot, color: bool) -> Vec<String> {
    let mut of_rows: Vec<Vec<usize>> = vec![Vec::new(); rows];
    for curve in &panel.curves {
        let mut points = curve.parts.iter().rev().flat_map(|part| part.iter().rev());
        if let Some(part) = points.find_map(|point| y.part(point.y)) {
            of_rows[row_of(part, rows)].push(curve.name);
        }
    }
    let line = |names: Vec<usize>| {
        let many = names.len() > KEYS_MAX;
        let shown = names
            .iter()
            .take(if many { KEYS_MAX - 1 } else { KEYS_MAX });
        let keys: String = shown
            .map(|name| painted(&key(*name), *name, plot, color))
            .collect();
        if names.is_empty() {
            String::new()
        } else {
            format!(" {keys}{}", if many { "+" } else { "" })
        }
    };
    of_rows.into_iter().map(line).collect()
}

fn key(name: usize) -> String {
    KEYS.get(name)
        .map_or(' ', |key| char::from(*key))
        .to_string()
}

/// Names of the curves, in columns.
fn names(plot: &Plot, size: TerminalSize, has_keys: bool) -> String {
    if !plot.has_names() {
        return String::new();
    }
    let short = plot
        .names
        .iter()
        .map(|name| printable(&name.short).chars().count());
    let short = short.max().unwrap_or(0).min(NAME_MAX);
    let drawn = plot.drawn();
    let mut words: Vec<(usize, String)> = (drawn.iter())
        .map(|(at, name)| {
            let key = if has_keys {
                format!("{} ", key(*at))
            } else {
                String::new()
            };
            let (one, other) = (printable(&name.short), printable(&name.long));
            let words = format!(
                "{key}{:short$}  {}",
                cut(&one, NAME_MAX),
                cut(&other, NAME_MAX)
            );
            let room = size.width.saturating_sub(3).max(10);
            (*at, cut(words.trim_end(), room))
        })
        .collect();
    let widths = words.iter().map(|(_, word)| word.chars().count());
    let wide = widths.max().unwrap_or(0) + 6;
    let columns = ((size.width + 3) / wide).max(1);
    words.truncate(columns * LINES_MAX);
    let more = plot.unlisted(words.len());
    let rows = words.len().div_ceil(columns);
    let mut text = String::new();
    for row in 0..rows {
        let mut line = String::new();
        for (at, word) in words.iter().skip(row).step_by(rows) {
            line.push_str(&painted("━━", *at, plot, size.color));
            line.push_str(&format!(" {word:0$}", wide - 3));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text + &more.map_or_else(String::new, |more| more + "\n")
}

fn painted(text: &str, name: usize, plot: &Plot, color: bool) -> String {
    if !color {
        return text.to_owned();
    }
    // The ground of a terminal is not known: dark is more common, and these colours
    // show on white, too.
    let code = palette::of_terminal(palette::color(Theme::Dark, name, plot.names.len()));
    format!("\x1b[38;5;{code}m{text}\x1b[0m")
}

/// Text of jobs, without what a terminal obeys.
fn printable(text: &str) -> String {
    Safe::line(text).to_string()
}

/// What stands in a cell instead of its dots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sign {
    #[default]
    None,
    /// A threshold, where no curve is.
    Threshold,
    /// A rule fired.
    Firing,
    /// A value that is not finite.
    Lost,
}

#[derive(Clone, Copy, Debug, Default)]
struct DotCell {
    dots: u8,
    name: usize,
    sign: Sign,
}

struct Canvas {
    columns: usize,
    rows: usize,
    cells: Vec<DotCell>,
}

impl Canvas {
    fn new(columns: usize, rows: usize) -> Self {
        Self {
            columns,
            rows,
            cells: vec![DotCell::default(); columns * rows],
        }
    }

    fn panel(&mut self, plot: &Plot, panel: &Panel, x: Scale, y: Scale) {
        for threshold in panel.thresholds.iter().filter(|one| y.contains(one.y)) {
            let row = y.part(threshold.y).map(|part| row_of(part, self.rows));
            for column in 0..self.columns {
                self.sign(column, row.unwrap_or(0), Sign::Threshold, 0);
            }
        }
        for curve in &panel.curves {
            self.band(curve, x, y);
        }
        for curve in &panel.curves {
            self.curve(curve, x, y, plot.log);
        }
        for curve in &panel.curves {
            for firing in &curve.firings {
                if let (Some(across), Some(up)) = (x.part(firing.x), y.part(firing.y)) {
                    let column = self.column(across) / 2;
                    self.sign(column, row_of(up, self.rows), Sign::Firing, curve.name);
                }
            }
        }
    }

    /// The column of dots.
    fn column(&self, part: f64) -> usize {
        let dots = self.columns * 2;
        ((part.clamp(0.0, 1.0) * dots as f64) as usize).min(dots - 1)
    }

    /// The line of dots, from the top.
    fn line(&self, part: f64) -> usize {
        row_of(part, self.rows * 4)
    }

    fn sign(&mut self, column: usize, row: usize, sign: Sign, name: usize) {
        if let Some(cell) = self.cells.get_mut(row * self.columns + column) {
            *cell = DotCell {
                sign,
                name,
                ..*cell
            };
        }
    }

    fn dot(&mut self, column: usize, line: usize, name: usize) {
        const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let at = line / 4 * self.columns + column / 2;
        if let Some(cell) = self.cells.get_mut(at) {
            cell.dots |= DOTS[line % 4][column % 2];
            cell.name = name;
        }
    }

    /// Both ends of a band in every other column: bands that lie over one another stay readable.
    fn band(&mut self, curve: &Curve, x: Scale, y: Scale) {
        let column = |at: f64| x.part(at).map_or(-1, |part| self.column(part) as i64);
        for point in thin::band(&curve.band, column) {
            let across = x.part(point.x).map(|part| self.column(part));
            let Some(across) = across.filter(|across| across % 2 == 0) else {
                continue;
            };
            for end in [point.low, point.high]
                .into_iter()
                .filter(|end| y.contains(*end))
            {
                let line = y.part(end).map_or(0, |part| self.line(part));
                self.dot(across, line, curve.name);
            }
        }
    }

    fn curve(&mut self, curve: &Curve, x: Scale, y: Scale, log: bool) {
        for part in &curve.parts {
            let column = |at: f64| x.part(at).map_or(-1, |part| self.column(part) as i64);
            let pieces = thin::pieces(part, log);
            let pieces: Vec<_> = pieces.map(|piece| thin::points(piece, column)).collect();
            for piece in pieces {
                self.piece(&piece, curve.name, x, y);
            }
            for lost in part.iter().filter(|point| !point.y.is_finite()) {
                if let Some(across) = x.part(lost.x).filter(|part| (0.0..=1.0).contains(part)) {
                    self.sign(self.column(across) / 2, 0, Sign::Lost, curve.name);
                }
            }
        }
    }

    fn piece(&mut self, piece: &[CurvePoint], name: usize, x: Scale, y: Scale) {
        let place = |point: &CurvePoint| {
            Some((
                self.column(x.part(point.x)?) as i64,
                self.line(y.part(point.y)?) as i64,
            ))
        };
        let places: Vec<(i64, i64)> = piece.iter().filter_map(place).collect();
        for pair in places.windows(2) {
            let ((from_x, from_y), (to_x, to_y)) = (pair[0], pair[1]);
            let steps = (to_x - from_x).abs().max((to_y - from_y).abs()).max(1);
            for step in 0..=steps {
                let between = |from: i64, to: i64| {
                    let far = (to - from) as f64 * step as f64 / steps as f64;
                    (from as f64 + far).round() as usize
                };
                self.dot(between(from_x, to_x), between(from_y, to_y), name);
            }
        }
        if let [(x, y)] = places[..] {
            // One dot alone is hard to see.
            for (x, y) in [(x, y), (x ^ 1, y), (x, y ^ 1), (x ^ 1, y ^ 1)] {
                self.dot(x as usize, y as usize, name);
            }
        }
    }

    fn lines(&self, plot: &Plot, color: bool) -> Vec<String> {
        let cell = |cell: &DotCell| match (cell.sign, cell.dots) {
            (Sign::Firing, _) => painted_rule("◆", color),
            (Sign::Lost, _) => painted("×", cell.name, plot, color),
            (Sign::Threshold, 0) => painted_rule("╌", color),
            (Sign::None, 0) => " ".to_owned(),
            (Sign::None | Sign::Threshold, dots) => {
                let c = char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' ');
                painted(&c.to_string(), cell.name, plot, color)
            }
        };
        let rows = self.cells.chunks(self.columns);
        rows.map(|row| row.iter().map(cell).collect()).collect()
    }
}

fn painted_rule(text: &str, color: bool) -> String {
    if color {
        format!("\x1b[31m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}
