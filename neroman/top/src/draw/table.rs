//! The table of experiments.

use nero_views::{Column, Fact};
use nero_wire::v1::ExperimentView;
use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::{ScreenLayout, put};
use crate::style::{bold, reversed};
use crate::top::Top;

/// The widest cell that is shown whole.
const CELL_MAX: usize = 40;
/// Blanks between columns.
const GAP: usize = 2;
/// The mark before each row, and a blank.
const MARK: usize = 2;

/// A column with its place.
struct PlacedColumn<'a> {
    column: &'a Column,
    heading: String,
    width: usize,
    right: bool,
}

impl Top {
    pub(super) fn draw_table(&self, buffer: &mut Buffer, layout: &ScreenLayout) {
        let height = u64::from(layout.rows.height);
        let rows: Vec<(u64, Option<&ExperimentView>)> = self.table.rows(height).collect();
        let columns = self.placed(&rows, usize::from(layout.rows.width));
        let mut heading = vec![Span::raw(" ".repeat(MARK))];
        for column in &columns {
            let text = self.look.cell(&column.heading, column.width, column.right);
            heading.push(Span::styled(text, bold()));
            heading.push(Span::raw(" ".repeat(GAP)));
        }
        put(buffer, layout.heading, &Line::from(heading));
        if rows.is_empty() {
            let text = match &self.shown {
                None => "  …",
                Some(_) if self.selection.is_empty() => "  nothing is added yet: `:add PATH`",
                Some(_) => "  nothing is picked",
            };
            put(buffer, layout.rows, &Line::styled(text, self.look.faint()));
        }
        for (y, (place, view)) in (layout.rows.y..).zip(rows) {
            let line = view.map_or_else(
                || Line::styled("  …", self.look.faint()),
                |view| self.row(&columns, view, self.table.is_best(place, view)),
            );
            buffer.set_line(layout.rows.x, y, &line, layout.rows.width);
            if place == self.table.cursor() {
                let row = ratatui::layout::Rect {
                    y,
                    height: 1,
                    ..layout.rows
                };
                buffer.set_style(row, reversed());
            }
        }
    }

    fn row(
        &self,
        columns: &[PlacedColumn<'_>],
        view: &ExperimentView,
        is_best: bool,
    ) -> Line<'static> {
        let (mark, best) = if self.look.unicode {
            ("●", "★")
        } else {
            ("*", "^")
        };
        let mark = match (self.table.is_marked(view.id), is_best) {
            (true, _) => mark,
            (false, true) => best,
            (false, false) => " ",
        };
        let mut spans = vec![Span::raw(format!("{mark} "))];
        for column in columns {
            let text = column.column.text(view);
            let is_state = *column.column == Column::Fact(Fact::State);
            let (text, style) = if is_state {
                let text = format!("{} {text}", self.look.sign(&view.state));
                (text, self.look.state(&view.state))
            } else {
                (text, Default::default())
            };
            spans.push(Span::styled(
                self.look.cell(&text, column.width, column.right),
                style,
            ));
            spans.push(Span::raw(" ".repeat(GAP)));
        }
        Line::from(spans)
    }

    /// The columns that fit, in their widths. A column of texts that does not fit is cut.
    fn placed(
        &self,
        rows: &[(u64, Option<&ExperimentView>)],
        width: usize,
    ) -> Vec<PlacedColumn<'_>> {
        let all = self.table.columns();
        let views: Vec<&ExperimentView> = rows.iter().filter_map(|(_, view)| *view).collect();
        let mut left = width.saturating_sub(MARK);
        let mut placed = Vec::new();
        for column in all {
            let heading = self.heading(column, all);
            let mut wide = heading.width();
            let mut right = false;
            for view in &views {
                let value = column.value(view);
                let sign = usize::from(*column == Column::Fact(Fact::State)) * 2;
                wide = wide.max(self.look.safe(&column.text(view)).width() + sign);
                right |= value.is_number();
            }
            let wide = wide.min(CELL_MAX);
            if wide > left {
                if !right && left >= heading.width().max(8) {
                    placed.push(PlacedColumn {
                        column,
                        heading,
                        width: left,
                        right,
                    });
                }
                break;
            }
            placed.push(PlacedColumn {
                column,
                heading,
                width: wide,
                right,
            });
            left = left.saturating_sub(wide + GAP);
        }
        placed
    }

    fn heading(&self, column: &Column, all: &[Column]) -> String {
        let heading = column.heading(all);
        let sorted = self.table.sort.as_ref().filter(|sort| {
            column
                .expression()
                .is_some_and(|one| one == sort.expression)
        });
        let Some(sort) = sorted else { return heading };
        let sign = match (sort.descending, self.look.unicode) {
            (true, true) => "▼",
            (false, true) => "▲",
            (true, false) => "v",
            (false, false) => "^",
        };
        format!("{heading}{sign}")
    }
}
