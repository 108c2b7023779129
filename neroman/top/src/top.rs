//! The state of the screen.

use std::collections::VecDeque;

use nero_views::columns;
use nero_wire::v1::{BatchView, Totals, WatchEvent};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;

use crate::ask::{Ask, Event, LineAnswer, LogRequest, Query};
use crate::draw::ScreenLayout;
use crate::mode::{Mode, Prompt, PromptKind};
use crate::pane::{CurvesReply, PaneKind, Panes};
use crate::style::TerminalLook;
use crate::table::RowTable;

/// Answers that are kept.
const ANSWERS_MAX: usize = 100;
/// Curves in one picture at most.
const CURVES_MAX: usize = 24;
/// Rows asked for before the size of the terminal is known.
const ROWS_FIRST: u64 = 24;

/// The screen.
#[derive(Clone, Debug)]
pub struct Top {
    pub(crate) look: TerminalLook,
    pub(crate) size: (u16, u16),
    pub(crate) selection: String,
    pub(crate) table: RowTable,
    pub(crate) batches: Vec<BatchView>,
    pub(crate) notes: Vec<String>,
    pub(crate) live: u32,
    pub(crate) totals: Totals,
    pub(crate) mode: Mode,
    pub(crate) panes: Panes,
    /// A remark about the last key.
    pub(crate) message: Option<String>,
    /// Why the selector or the order cannot be used.
    pub(crate) refused: Option<String>,
    pub(crate) answers: Vec<LineAnswer>,
    /// The line that is executed now.
    pub(crate) running: Option<String>,
    /// Why the daemon does not answer.
    pub(crate) silent: Option<String>,
    asked: Option<Query>,
    /// Whether the selector and the order that were asked for last are still to be answered.
    is_awaited: bool,
    /// Keys about rows that are not there yet.
    ahead: VecDeque<KeyEvent>,
    /// The query of the rows that are shown; `None` until the first ones came.
    pub(crate) shown: Option<Query>,
    asked_detail: Option<u64>,
    asked_curves: Option<(Vec<u64>, u32)>,
    is_first: bool,
}

impl Top {
    /// A screen of experiments that a selector picks; an empty one picks all.
    pub fn new(selection: &str, look: TerminalLook, size: (u16, u16)) -> Self {
        Self {
            look,
            size,
            selection: selection.to_owned(),
            table: RowTable::default(),
            batches: Vec::new(),
            notes: Vec::new(),
            live: 0,
            totals: Totals::default(),
            mode: Mode::default(),
            panes: Panes::default(),
            message: None,
            refused: None,
            answers: Vec::new(),
            running: None,
            silent: None,
            asked: None,
            is_awaited: true,
            ahead: VecDeque::new(),
            shown: None,
            asked_detail: None,
            asked_curves: None,
            is_first: true,
        }
    }

    /// Takes what happened; returns what is to be asked.
    pub fn update(&mut self, event: Event) -> Vec<Ask> {
        let mut asks = Vec::new();
        match event {
            Event::Key(key) if key.modifiers.contains(KeyModifiers::CONTROL) => {
                self.key(key, &mut asks);
            }
            Event::Key(key) => self.ahead.push_back(key),
            Event::Mouse(mouse) => self.mouse(mouse),
            Event::Paste(text) => self.paste(&text),
            Event::Resize(width, height) => self.size = (width, height),
            Event::Rows(query, event) => self.rows(query, *event, &mut asks),
            Event::Refused(query, why) => {
                if self.asked.as_ref() == Some(&query) {
                    (self.refused, self.is_awaited) = (Some(why), false);
                }
            }
            Event::Detail(id, reply) => self.panes.detail = Some((id, reply)),
            Event::Log(of, begins, data) => {
                if self.panes.log.of.as_ref() == Some(&of) {
                    self.panes.log.take(begins, &data);
                }
            }
            Event::Curves(ids, reply) => {
                self.panes.curves = Some(reply.map(|both| {
                    let (reply, rules) = *both;
                    CurvesReply { ids, reply, rules }
                }));
            }
            Event::Nodes(Ok(reply)) => {
                self.panes.nodes = reply.nodes;
                self.panes.nodes_problem = None;
            }
            Event::Nodes(Err(why)) => self.panes.nodes_problem = Some(why),
            Event::Compared(views) => match (&self.mode, views) {
                (Mode::Compare(_), Ok(views)) => self.mode = Mode::Compare(Some(views)),
                (Mode::Compare(_), Err(why)) => {
                    self.mode = Mode::Browse;
                    self.message = Some(why);
                }
                _ => {}
            },
            Event::Words(begun, words) => self.words(&begun, words),
            Event::Tried(answer) => {
                if let Mode::Confirm(confirmation) = &mut self.mode
                    && confirmation.line == answer.line
                {
                    confirmation.trial = Some(answer);
                }
            }
            Event::Done(answer) => self.done(answer),
            Event::Daemon(why) => {
                self.is_awaited &= why.is_none();
                self.silent = why;
            }
        }
        self.follow(&mut asks);
        // Over a slow line keys are typed ahead: each is about the rows that those before it picked.
        while let Some(key) = self.ahead.front().copied()
            && !self.is_about_rows_to_come(key)
        {
            self.ahead.pop_front();
            self.key(key, &mut asks);
            self.follow(&mut asks);
        }
        asks
    }

    fn is_about_rows_to_come(&self, key: KeyEvent) -> bool {
        let is_about_rows = match &self.mode {
            Mode::Browse => !matches!(key.code, KeyCode::Char('q' | '?')),
            Mode::Prompt(prompt) => {
                prompt.kind == PromptKind::Selector && key.code == KeyCode::Enter
            }
            Mode::Confirm(_) | Mode::Help(_) | Mode::Answers(_) | Mode::Compare(_) => false,
        };
        self.is_awaited && is_about_rows
    }

    fn rows(&mut self, query: Query, event: WatchEvent, asks: &mut Vec<Ask>) {
        if self.asked.as_ref() != Some(&query) {
            return;
        }
        let is_new = self.shown.as_ref() != Some(&query) || event.first;
        self.shown = Some(query);
        (self.refused, self.is_awaited) = (None, false);
        self.silent = None;
        let before = self.table.current().cloned();
        self.live = event.live;
        self.totals = event.totals.clone().unwrap_or_default();
        self.batches.clone_from(&event.batches);
        self.notes.clone_from(&event.notes);
        self.table.take(event, is_new);
        let now = self.table.current();
        if let (Some(before), Some(now)) = (&before, now)
            && before.id == now.id
            && before != now
        {
            // Facts and curves of the row have changed, too.
            self.asked_detail = None;
            if before.metrics != now.metrics {
                self.asked_curves = None;
            }
        }
        asks.push(Ask::Nodes);
    }

    fn done(&mut self, answer: LineAnswer) {
        self.running = None;
        let text = answer.text.trim_end();
        if text.lines().count() > 1 {
            self.mode = Mode::Answers(0);
        } else {
            let text = if text.is_empty() { "done" } else { text };
            self.message = Some(format!("{}: {text}", answer.line));
        }
        self.answers.push(answer);
        if self.answers.len() > ANSWERS_MAX {
            self.answers.remove(0);
        }
        self.asked_detail = None;
    }

    fn paste(&mut self, text: &str) {
        if let Mode::Prompt(mut prompt) = std::mem::take(&mut self.mode) {
            prompt.input.insert(text);
            self.typed(&mut prompt);
            self.mode = Mode::Prompt(prompt);
        }
    }

    fn words(&mut self, begun: &str, words: Vec<String>) {
        if let Mode::Prompt(Prompt {
            input,
            words: there,
            ..
        }) = &mut self.mode
            && input.begun() == begun
        {
            match words.as_slice() {
                [one] => input.complete(one),
                _ => *there = words,
            }
        }
    }

    /// Shows what another selector picks.
    pub(crate) fn select(&mut self, selection: &str) {
        selection.clone_into(&mut self.selection);
    }

    /// The expression of a column's name, else the text itself.
    pub(crate) fn expression_of(&self, name: &str) -> String {
        let rows: Vec<_> = self.table.loaded().cloned().collect();
        let column = columns::named(name, &rows).ok();
        column
            .and_then(|column| column.expression())
            .unwrap_or_else(|| name.to_owned())
    }

    pub(crate) fn layout(&self) -> ScreenLayout {
        let (width, height) = self.size;
        let whole = self.panes.is_whole;
        ScreenLayout::of(
            Rect::new(0, 0, width, height),
            self.panes.nodes.len(),
            !self.batches.is_empty(),
            whole,
        )
    }

    pub(crate) fn table_height(&self) -> u64 {
        u64::from(self.layout().rows.height)
    }

    /// Asks for what the screen shows now and does not have.
    fn follow(&mut self, asks: &mut Vec<Ask>) {
        if std::mem::take(&mut self.is_first) {
            asks.push(Ask::Nodes);
        }
        let height = match self.table_height() {
            0 => ROWS_FIRST,
            height => height,
        };
        let (offset, count) = self.table.scroll(height);
        let sort = self.table.sort.as_ref();
        let chosen = self.table.chosen().iter().map(String::as_str);
        let query = Query {
            selection: self.selection.trim().to_owned(),
            sort: sort.map(|sort| sort.expression.clone()).unwrap_or_default(),
            descending: sort.is_some_and(|sort| sort.descending),
            offset,
            count,
            facts: columns::asked_facts(chosen),
        };
        if self.asked.as_ref() != Some(&query) {
            let same = |asked: &Query| asked.is_of_same_rows(&query);
            self.is_awaited |= !self.asked.as_ref().is_some_and(same);
            self.asked = Some(query.clone());
            asks.push(Ask::Rows(query));
        }
        let id = self.table.current().map(|view| view.id);
        match self.panes.kind {
            PaneKind::Facts => {
                if let Some(id) = id.filter(|id| self.asked_detail != Some(*id)) {
                    self.asked_detail = Some(id);
                    asks.push(Ask::Detail(id));
                }
            }
            PaneKind::Curves => self.follow_curves(asks),
            PaneKind::Log | PaneKind::Nodes => {}
        }
        let stderr = self.panes.stderr;
        let wanted = self.table.current().map(|view| LogRequest {
            id: view.id,
            run: view.run,
            stderr,
        });
        let wanted = wanted.filter(|_| self.panes.kind == PaneKind::Log);
        if self.panes.log.of != wanted {
            match wanted {
                Some(of) => {
                    self.panes.log.begin(of.clone());
                    asks.push(Ask::Log(of));
                }
                None => {
                    self.panes.log.of = None;
                    asks.push(Ask::NoLog);
                }
            }
        }
    }

    fn follow_curves(&mut self, asks: &mut Vec<Ask>) {
        let mut ids = self.table.targets();
        ids.truncate(CURVES_MAX);
        let width = u32::from(self.size.0);
        let wanted = (ids, width);
        if !wanted.0.is_empty() && self.asked_curves.as_ref() != Some(&wanted) {
            asks.push(Ask::Curves {
                ids: wanted.0.clone(),
                names: Vec::new(),
                width,
            });
            self.asked_curves = Some(wanted);
        }
    }
}
