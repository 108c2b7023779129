//! A frame.

mod ansi;
mod head;
mod overlay;
mod pane;
mod table;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

use crate::keys::KEYS;
use crate::mode::{Mode, Prompt};
use crate::style::bold;
use crate::top::Top;

/// Columns of a node's bars.
const NODE_WIDTH: u16 = 40;
/// Lines below the table and the pane: a message and the keys.
const FOOT: u16 = 2;

/// Where everything is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScreenLayout {
    pub head: Rect,
    pub batch: Rect,
    pub nodes: Rect,
    pub heading: Rect,
    pub rows: Rect,
    pub title: Rect,
    pub pane: Rect,
    pub message: Rect,
    pub keys: Rect,
}

impl ScreenLayout {
    /// Shares a screen out. Of a small one the pane gets less, of a large one half.
    pub fn of(screen: Rect, nodes: usize, has_batch: bool, whole: bool) -> Self {
        let per_line = usize::from((screen.width / NODE_WIDTH).max(1));
        let wanted = u16::try_from(nodes.div_ceil(per_line)).unwrap_or(u16::MAX);
        let nodes = wanted.min(screen.height / 12).max(u16::from(wanted > 0));
        let mut rest = screen;
        let mut take = |lines: u16| {
            let lines = lines.min(rest.height);
            let part = Rect {
                height: lines,
                ..rest
            };
            rest.y += lines;
            rest.height -= lines;
            part
        };
        let (head, batch, nodes) = (take(1), take(u16::from(has_batch)), take(nodes));
        let body = screen
            .height
            .saturating_sub(head.height + batch.height + nodes.height + FOOT);
        let table = if whole {
            0
        } else {
            (body * 11 / 20).max(body.min(4))
        };
        let heading = take(table.min(1));
        let rows = take(table.saturating_sub(1));
        let title = take((body - table).min(1));
        let pane = take((body - table).saturating_sub(1));
        let (message, keys) = (take(1), take(1));
        Self {
            head,
            batch,
            nodes,
            heading,
            rows,
            title,
            pane,
            message,
            keys,
        }
    }
}

/// Puts a line into the first row of an area; what has no room is left out.
fn put(buffer: &mut Buffer, area: Rect, line: &Line<'_>) {
    if area.height > 0 {
        buffer.set_line(area.x, area.y, line, area.width);
    }
}

/// Puts lines below each other.
fn put_all<'a>(buffer: &mut Buffer, area: Rect, lines: impl IntoIterator<Item = Line<'a>>) {
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        buffer.set_line(area.x, y, &line, area.width);
    }
}

impl Top {
    /// Draws the screen.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let layout = self.layout();
        let screen = frame.area();
        // A terminal that shrank since its last event.
        if layout.keys.bottom() > screen.bottom() || layout.head.width > screen.width {
            return;
        }
        let buffer = frame.buffer_mut();
        self.draw_head(buffer, &layout);
        let body = Rect {
            y: layout.heading.y,
            height: layout.message.y.saturating_sub(layout.heading.y),
            ..layout.head
        };
        match &self.mode {
            Mode::Help(from) => self.draw_help(buffer, body, *from),
            Mode::Answers(from) => self.draw_answers(buffer, body, *from),
            Mode::Compare(views) => self.draw_compare(buffer, body, views.as_deref()),
            Mode::Browse | Mode::Prompt(_) | Mode::Confirm(_) => {
                self.draw_table(buffer, &layout);
                self.draw_pane(buffer, &layout);
            }
        }
        put(buffer, layout.message, &self.message_line());
        let keys = self.keys_line();
        put(buffer, layout.keys, &keys);
        if let Mode::Prompt(prompt) = &self.mode {
            let before = Line::raw(format!(
                "{}{}",
                prompt.kind.sign(),
                self.look.safe(prompt.input.before())
            ));
            let x = u16::try_from(before.width()).unwrap_or(u16::MAX);
            let x = x.min(layout.keys.width.saturating_sub(1));
            frame.set_cursor_position(Position {
                x,
                y: layout.keys.y,
            });
        }
    }

    fn message_line(&self) -> Line<'static> {
        let safe = |text: &str| self.look.safe(text);
        match &self.mode {
            Mode::Confirm(confirmation) => {
                if let Some(message) = &self.message {
                    return Line::raw(safe(message));
                }
                let Some(trial) = &confirmation.trial else {
                    return Line::raw("…looking what it would do");
                };
                let text = trial
                    .text
                    .trim_end()
                    .lines()
                    .collect::<Vec<_>>()
                    .join(" · ");
                if trial.code == Some(0) {
                    Line::raw(safe(&text))
                } else {
                    Line::styled(safe(&text), self.look.bad())
                }
            }
            Mode::Prompt(Prompt { words, .. }) if !words.is_empty() => {
                Line::styled(safe(&words.join("  ")), self.look.faint())
            }
            _ => match (&self.refused, &self.message, &self.running, &self.silent) {
                (Some(why), ..) => {
                    let why = why
                        .lines()
                        .map(str::trim_end)
                        .collect::<Vec<_>>()
                        .join(" | ");
                    Line::styled(safe(&why), self.look.bad())
                }
                (_, Some(message), ..) => Line::raw(safe(message)),
                (_, _, Some(line), _) => Line::raw(safe(&format!("neroman {line} …"))),
                (.., Some(why)) => Line::styled(
                    safe(&format!("the daemon does not answer: {why}")),
                    self.look.bad(),
                ),
                _ => self.marked_line(),
            },
        }
    }

    fn marked_line(&self) -> Line<'static> {
        let marked = self.table.marked();
        match (marked, self.table.is_range()) {
            (0, _) => match (self.notes.first(), self.totals.needs.first()) {
                (Some(note), _) => {
                    Line::styled(self.look.safe(&format!("note: {note}")), self.look.faint())
                }
                (None, Some(need)) => {
                    let (count, state, text) = (need.count, &need.state, &need.text);
                    let text = format!("needs you: {count} {state} {text}: {}", need.ids);
                    Line::styled(self.look.safe(&text), self.look.state(state))
                }
                (None, None) => Line::default(),
            },
            (_, true) => Line::raw(format!("{marked} marked · v ends the range")),
            (_, false) => Line::raw(format!("{marked} marked")),
        }
    }

    fn keys_line(&self) -> Line<'static> {
        match &self.mode {
            Mode::Prompt(prompt) => Line::from(vec![
                Span::styled(prompt.kind.sign(), bold()),
                Span::raw(self.look.safe(prompt.input.text())),
            ]),
            Mode::Confirm(confirmation) => Line::from(vec![
                Span::styled("neroman ", bold()),
                Span::raw(self.look.safe(&confirmation.line)),
                Span::styled(
                    "   Enter does it · e edits · y copies · Esc",
                    self.look.faint(),
                ),
            ]),
            Mode::Help(_) | Mode::Answers(_) | Mode::Compare(_) => {
                Line::styled("j k scroll · Esc goes back", self.look.faint())
            }
            Mode::Browse => {
                let width = usize::from(self.size.0);
                let mut line = Line::default();
                for (key, word, _) in KEYS {
                    let spans = [
                        Span::styled(format!("{key} "), bold()),
                        Span::raw(format!("{word}  ")),
                    ];
                    let length: usize = spans.iter().map(Span::width).sum();
                    if line.width() + length > width + 2 {
                        break;
                    }
                    line.spans.extend(spans);
                }
                line
            }
        }
    }
}
