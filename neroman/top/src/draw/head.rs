//! Counts, batches and nodes above the table.

use nero_views::text;
use nero_wire::v1::NodeView;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{NODE_WIDTH, ScreenLayout, put};
use crate::style::bold;
use crate::top::Top;

/// Cells of a bar.
const BAR: usize = 6;

impl Top {
    pub(super) fn draw_head(&self, buffer: &mut Buffer, layout: &ScreenLayout) {
        let total = usize::try_from(self.table.total()).unwrap_or(usize::MAX);
        let mut spans = vec![Span::styled("neronet  ", bold())];
        if self.shown.is_some() {
            let count = text::plural(total, "experiment");
            spans.push(Span::raw(format!("{count}, {} live", self.live)));
        }
        for count in &self.totals.states {
            let text = format!(
                "  {} {} {}",
                self.look.sign(&count.state),
                count.count,
                count.state
            );
            spans.push(Span::styled(text, self.look.state(&count.state)));
        }
        if !self.selection.is_empty() {
            spans.push(Span::styled(
                format!("  of {}", self.look.safe(&self.selection)),
                self.look.faint(),
            ));
        }
        put(buffer, layout.head, &Line::from(spans));
        if let Some(batch) = self.batches.last() {
            let share = f64::from(batch.ended) / f64::from(batch.runs.max(1));
            let line = format!(
                "{} {}",
                self.look.bar(share, 20),
                self.look.safe(&batch.text)
            );
            put(buffer, layout.batch, &Line::raw(line));
        }
        self.draw_nodes(buffer, layout.nodes);
    }

    fn draw_nodes(&self, buffer: &mut Buffer, area: Rect) {
        let per_line = usize::from((area.width / NODE_WIDTH).max(1));
        let lines = self.panes.nodes.chunks(per_line);
        let room = usize::from(area.height);
        let hidden = self.panes.nodes.len().saturating_sub(per_line * room);
        for (y, nodes) in (area.y..area.bottom()).zip(lines) {
            let is_last = y + 1 == area.bottom();
            for (at, node) in nodes.iter().enumerate() {
                let x = area.x + NODE_WIDTH * u16::try_from(at).unwrap_or(0);
                let width = NODE_WIDTH.min(area.right() - x);
                let mut line = self.node(node);
                if is_last && hidden > 0 && at + 1 == nodes.len() {
                    line = Line::styled(format!("and {} more: 4", hidden + 1), self.look.faint());
                }
                buffer.set_line(x, y, &line, width.saturating_sub(1));
            }
        }
    }

    /// A node in one short line.
    fn node(&self, node: &NodeView) -> Line<'static> {
        let name = self.look.cell(&node.name, 8, false);
        if !node.connected {
            let why = if node.why_not.is_empty() {
                "not reached yet"
            } else {
                &node.why_not
            };
            return Line::from(vec![
                Span::styled(name, bold()),
                Span::styled(format!(" {}", self.look.safe(why)), self.look.bad()),
            ]);
        }
        let used = (node.cpus - node.cpus_free).max(0.0);
        let share = if node.cpus > 0.0 {
            used / node.cpus
        } else {
            0.0
        };
        let mut line = format!(
            " cpu {} {}/{}",
            self.look.bar(share, BAR),
            text::number(used),
            text::number(node.cpus)
        );
        if node.memory_bytes > 0 {
            line += &format!(" mem {}", text::percent(node.memory_used));
        }
        if !node.gpus.is_empty() {
            let busy = node.gpus.iter().map(|gpu| gpu.utilisation).sum::<f64>();
            let mean = busy / node.gpus.len() as f64;
            line += &format!(" gpu {}×{}", node.gpus.len(), text::percent(mean));
        }
        let line = if node.known_old {
            format!("{line} (old)")
        } else {
            line
        };
        Line::from(vec![
            Span::styled(name, bold()),
            Span::raw(self.look.safe(&line)),
        ])
    }
}
