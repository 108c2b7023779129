//! Pages over the table: help, answers, comparison.

use nero_views::{Column, columns};
use nero_wire::v1::ExperimentView;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::put_all;
use crate::keys::KEYS;
use crate::style::bold;
use crate::top::Top;

/// Columns of a name in a comparison.
const NAME: usize = 20;
/// Columns of a value.
const VALUE: usize = 14;

impl Top {
    pub(super) fn draw_help(&self, buffer: &mut Buffer, area: Rect, from: usize) {
        let lines = KEYS.iter().map(|(key, word, about)| {
            Line::from(vec![
                Span::styled(format!("  {key:<9}"), bold()),
                Span::raw(format!("{word:<10}")),
                Span::raw(*about),
            ])
        });
        put_all(buffer, area, lines.skip(from.min(KEYS.len() - 1)));
    }

    pub(super) fn draw_answers(&self, buffer: &mut Buffer, area: Rect, from: usize) {
        let mut lines = Vec::new();
        for answer in self.answers.iter().rev() {
            let is_good = answer.code == Some(0);
            let style = if is_good {
                bold()
            } else {
                bold().patch(self.look.bad())
            };
            lines.push(Line::styled(
                self.look.safe(&format!("neroman {}", answer.line)),
                style,
            ));
            let text = answer.text.lines();
            lines.extend(text.map(|line| Line::raw(self.look.safe(&format!("  {line}")))));
            match answer.code {
                Some(0) => {}
                Some(code) => {
                    lines.push(Line::styled(format!("  exit code {code}"), self.look.bad()))
                }
                None => lines.push(Line::styled("  it did not end by itself", self.look.bad())),
            }
        }
        if lines.is_empty() {
            lines.push(Line::styled(
                "  no line was executed yet",
                self.look.faint(),
            ));
        }
        let from = from.min(lines.len() - 1);
        put_all(buffer, area, lines.into_iter().skip(from));
    }

    /// What differs between experiments alone, a line for each column.
    pub(super) fn draw_compare(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        views: Option<&[ExperimentView]>,
    ) {
        let Some(views) = views else {
            return put_all(buffer, area, [Line::raw("  …")]);
        };
        let row = |name: &str, cells: Vec<String>, style| {
            let cells: String = cells
                .iter()
                .map(|text| format!("  {}", self.look.cell(text, VALUE, true)))
                .collect();
            Line::from(vec![
                Span::styled(self.look.cell(name, NAME, false), style),
                Span::raw(cells),
            ])
        };
        let ids = views.iter().map(|view| view.id.to_string()).collect();
        let mut lines = vec![row("", ids, bold())];
        let all = columns::telling(views);
        for column in all.iter().filter(|column| differs(column, views)) {
            let cells = views.iter().map(|view| column.text(view)).collect();
            lines.push(row(&column.heading(&all), cells, bold()));
        }
        if lines.len() == 1 {
            lines.push(Line::raw("  nothing differs"));
        }
        put_all(buffer, area, lines);
    }
}

fn differs(column: &Column, views: &[ExperimentView]) -> bool {
    let mut texts = views.iter().map(|view| column.text(view));
    let first = texts.next();
    *column != Column::Fact(nero_views::Fact::Id) && texts.any(|text| Some(text) != first)
}
