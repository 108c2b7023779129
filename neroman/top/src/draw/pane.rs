//! The pane below the table.

use nero_plot::{HorizontalAxis, TerminalSize, braille};
use nero_views::curves::{self, Spread, WantedCurves};
use nero_views::text;
use nero_wire::v1::{ExperimentView, NodeView};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{ScreenLayout, ansi, put, put_all};
use crate::pane::PaneKind;
use crate::style::{bold, reversed};
use crate::top::Top;

impl Top {
    pub(super) fn draw_pane(&self, buffer: &mut Buffer, layout: &ScreenLayout) {
        let mut spans = Vec::new();
        for kind in PaneKind::ALL {
            let style = if kind == self.panes.kind {
                reversed()
            } else {
                self.look.faint()
            };
            spans.push(Span::styled(format!(" {} ", kind.title()), style));
            spans.push(Span::raw(" "));
        }
        spans.push(Span::styled(self.pane_about(), bold()));
        put(buffer, layout.title, &Line::from(spans));
        let lines: Vec<Line<'static>> = match self.panes.kind {
            PaneKind::Facts => self.facts(),
            PaneKind::Log => self.log(layout.pane),
            PaneKind::Curves => self.curves(layout.pane),
            PaneKind::Nodes => self.nodes(layout.pane),
        };
        let scrolled = match self.panes.kind {
            PaneKind::Log => 0,
            PaneKind::Facts | PaneKind::Curves | PaneKind::Nodes => self.panes.scrolled,
        };
        let most = lines.len().saturating_sub(usize::from(layout.pane.height));
        put_all(
            buffer,
            layout.pane,
            lines.into_iter().skip(scrolled.min(most)),
        );
    }

    /// What the pane is about.
    fn pane_about(&self) -> String {
        let Some(view) = self.table.current() else {
            return String::new();
        };
        let id = nero_views::json::run_id(view.id, view.run).unwrap_or_else(|| view.id.to_string());
        let name = self.look.safe(&view.name);
        match self.panes.kind {
            PaneKind::Facts => format!(" {id} {name}"),
            PaneKind::Log => {
                let stream = if self.panes.stderr {
                    "stderr"
                } else {
                    "stdout"
                };
                let follows = if self.panes.log.back == 0 {
                    ""
                } else {
                    ", f follows"
                };
                format!(" {id} {name}  {stream}{follows}")
            }
            PaneKind::Curves if self.table.marked() > 0 => {
                format!(
                    " {}",
                    text::plural(self.table.marked(), "marked experiment")
                )
            }
            PaneKind::Curves => format!(" {id} {name}"),
            PaneKind::Nodes => String::new(),
        }
    }

    fn facts(&self) -> Vec<Line<'static>> {
        let current = self.table.current().map(|view| view.id);
        match &self.panes.detail {
            Some((id, Ok(page))) if Some(*id) == current => page
                .lines()
                .map(|line| Line::raw(self.look.safe(line)))
                .collect(),
            Some((id, Err(why))) if Some(*id) == current => {
                vec![Line::styled(self.look.safe(why), self.look.bad())]
            }
            _ => Vec::new(),
        }
    }

    fn log(&self, area: Rect) -> Vec<Line<'static>> {
        let wanted = self.panes.log.search.to_lowercase();
        let lines = self.panes.log.visible(usize::from(area.height)).into_iter();
        lines
            .map(|line| {
                let is_found = !wanted.is_empty() && line.to_lowercase().contains(&wanted);
                let style = if is_found { bold() } else { Default::default() };
                Line::styled(self.look.safe(&line), style)
            })
            .collect()
    }

    fn curves(&self, area: Rect) -> Vec<Line<'static>> {
        let found = match &self.panes.curves {
            None => return Vec::new(),
            Some(Err(why)) => return vec![Line::styled(self.look.safe(why), self.look.bad())],
            Some(Ok(found)) => found,
        };
        if found.reply.series.is_empty() {
            return vec![Line::styled("no metric was printed", self.look.faint())];
        }
        let wanted = WantedCurves {
            names: Vec::new(),
            x: HorizontalAxis::Step,
            by: Vec::new(),
            band: Spread::Range,
            log: self.panes.is_log_scale,
        };
        let views: Vec<ExperimentView> = found
            .ids
            .iter()
            .filter_map(|id| self.table.view(*id).cloned())
            .collect();
        let plot = match curves::plot(&wanted, &found.reply.series, &views, &found.rules) {
            Ok(plot) => plot,
            Err(why) => return vec![Line::raw(why.to_string())],
        };
        // Panels below each other are scrolled to; each has the height of the pane.
        let size = TerminalSize {
            width: usize::from(area.width),
            height: usize::from(area.height).saturating_sub(1) * plot.panels.len().max(1),
            color: self.look.color,
        };
        braille(&plot, size).lines().map(ansi::line).collect()
    }

    fn nodes(&self, area: Rect) -> Vec<Line<'static>> {
        if let Some(why) = &self.panes.nodes_problem {
            return vec![Line::styled(self.look.safe(why), self.look.bad())];
        }
        let nodes = self.panes.nodes.iter();
        nodes
            .flat_map(|node| self.node_lines(node, usize::from(area.width)))
            .collect()
    }

    fn node_lines(&self, node: &NodeView, width: usize) -> Vec<Line<'static>> {
        let bar = |name: &str, share: f64, text: String| {
            format!("{name} {} {text}", self.look.bar(share, 10))
        };
        let used = (node.cpus - node.cpus_free).max(0.0);
        let mut words = Vec::new();
        if node.cpus > 0.0 {
            let text = format!("{}/{}", text::number(used), text::number(node.cpus));
            words.push(bar("cpu", used / node.cpus, text));
        }
        if node.memory_bytes > 0 {
            words.push(bar(
                "mem",
                node.memory_used,
                text::percent(node.memory_used),
            ));
        }
        words.push(bar("disk", node.disk_used, text::percent(node.disk_used)));
        words.push(format!("{} live, {} waiting", node.live, node.waiting));
        let state = if node.connected {
            String::new()
        } else {
            self.look.safe(&node.why_not)
        };
        let name = self.look.cell(&node.name, 12, false);
        let mut lines = vec![Line::from(vec![
            Span::styled(name, bold()),
            Span::raw(self.look.cut(&words.join("  "), width.saturating_sub(12))),
        ])];
        if !state.is_empty() {
            lines.push(Line::styled(
                format!("            {state}"),
                self.look.bad(),
            ));
        }
        for gpu in &node.gpus {
            let memory = gpu.memory_used_bytes as f64 / (gpu.memory_bytes.max(1)) as f64;
            lines.push(Line::raw(self.look.safe(&format!(
                "            gpu {} {}  {}  {}",
                gpu.index,
                gpu.name,
                bar("busy", gpu.utilisation, text::percent(gpu.utilisation)),
                bar("mem", memory, text::bytes(gpu.memory_used_bytes)),
            ))));
        }
        for trouble in &node.troubles {
            let trouble = format!("            {}", self.look.safe(trouble));
            lines.push(Line::styled(trouble, self.look.bad()));
        }
        lines
    }
}
