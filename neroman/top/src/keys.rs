//! What keys and the mouse do.

use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use crate::ask::Ask;
use crate::input::Input;
use crate::mode::{Confirmation, Mode, Prompt, PromptKind};
use crate::pane::PaneKind;
use crate::table::Sort;
use crate::top::Top;

/// The keys, for the page of help and the line at the bottom: key, word, and what it does.
pub(crate) const KEYS: &[(&str, &str, &str)] = &[
    ("?", "help", "this page"),
    (
        "/",
        "select",
        "a selector, as behind `neroman status`: crashed, 124-186, 'loss>0.5'; Tab completes",
    ),
    ("Space", "mark", "marks the row, and goes to the next one"),
    ("v", "range", "begins a range of marks, and ends it"),
    ("a", "abort", "aborts what is marked, else the row"),
    ("r", "restart", "restarts it"),
    ("s", "start", "starts it"),
    ("p", "pause", "pauses it; resumes it where it is paused"),
    ("n", "note", "writes a note"),
    ("t", "tag", "puts a tag"),
    (
        "x",
        "remove",
        "takes it from the list; `neroman rm --undo` brings it back",
    ),
    (
        "d",
        "compare",
        "shows what differs between the marked experiments",
    ),
    ("g", "group", "groups by a parameter: n, mean ± deviation"),
    (":", "line", "any other line of neroman"),
    ("@", "answers", "the last lines with their answers"),
    ("< >", "sort", "sorts by the next column"),
    ("i", "invert", "turns the order round"),
    (
        "o",
        "order",
        "sorts by a column or an expression: `loss - best`",
    ),
    (
        "c",
        "columns",
        "chooses columns by name; empty: those that tell most",
    ),
    ("1-4 Tab", "panes", "facts, log, curves, nodes"),
    (
        "Enter",
        "whole",
        "gives the pane the whole screen; Esc gives it back",
    ),
    ("J K", "scroll", "scrolls the pane"),
    (
        "e",
        "stderr",
        "shows standard error in the place of standard output",
    ),
    ("f", "follow", "goes to the end of the log, and follows it"),
    ("l", "log axis", "draws curves over a logarithmic axis"),
    ("u", "unmark", "takes all marks away"),
    ("Ctrl-Z", "shell", "goes back to the shell; `fg` returns"),
    ("q", "quit", "ends the view; runs go on"),
];

impl Top {
    pub(crate) fn key(&mut self, key: KeyEvent, asks: &mut Vec<Ask>) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return asks.push(Ask::Quit),
                KeyCode::Char('z') => return asks.push(Ask::Suspend),
                _ => {}
            }
        }
        self.message = None;
        match std::mem::take(&mut self.mode) {
            Mode::Browse => self.browse(key, asks),
            Mode::Prompt(prompt) => self.prompt(key, prompt, asks),
            Mode::Confirm(confirmation) => self.confirm(key, confirmation, asks),
            Mode::Help(from) => self.mode = page(key, from).map_or(Mode::Browse, Mode::Help),
            Mode::Answers(from) => {
                self.mode = page(key, from).map_or(Mode::Browse, Mode::Answers);
            }
            Mode::Compare(views) => match key.code {
                KeyCode::Esc | KeyCode::Char('q' | 'd') | KeyCode::Enter => {}
                _ => self.mode = Mode::Compare(views),
            },
        }
    }

    fn browse(&mut self, key: KeyEvent, asks: &mut Vec<Ask>) {
        let page = i64::try_from(self.table_height()).unwrap_or(1).max(1);
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-page),
            KeyCode::PageDown => self.go(page),
            KeyCode::Home if self.panes.is_whole => self.panes.scrolled = 0,
            KeyCode::Home => self.table.go(0),
            KeyCode::End if self.panes.is_whole => self.panes.log.back = 0,
            KeyCode::End => self.table.go(u64::MAX),
            KeyCode::Char('J') => self.scroll_pane(1),
            KeyCode::Char('K') => self.scroll_pane(-1),
            KeyCode::Char(' ') => {
                self.table.mark();
                self.table.step(1);
            }
            KeyCode::Char('v') => self.table.mark_range(),
            KeyCode::Char('u') => self.table.unmark(),
            KeyCode::Char('<') => self.table.sort_beside(false),
            KeyCode::Char('>') => self.table.sort_beside(true),
            KeyCode::Char('i') => self.table.turn_sort(),
            KeyCode::Esc if self.panes.is_whole => self.panes.is_whole = false,
            KeyCode::Esc => self.table.unmark(),
            KeyCode::Enter => self.panes.is_whole = !self.panes.is_whole,
            KeyCode::Tab => self.beside(1),
            KeyCode::BackTab => self.beside(3),
            KeyCode::Char(digit @ '1'..='4') => {
                self.show_pane(PaneKind::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Char('e') => {
                self.panes.stderr = !self.panes.stderr;
                self.show_pane(PaneKind::Log);
            }
            KeyCode::Char('f') => {
                self.panes.log.back = 0;
                self.show_pane(PaneKind::Log);
            }
            KeyCode::Char('l') => {
                self.panes.is_log_scale = !self.panes.is_log_scale;
                self.show_pane(PaneKind::Curves);
            }
            KeyCode::Char('?') => self.mode = Mode::Help(0),
            KeyCode::Char('@') => self.mode = Mode::Answers(0),
            KeyCode::Char('q') => asks.push(Ask::Quit),
            KeyCode::Char(c) => self.act(c, asks),
            _ => {}
        }
    }

    /// Keys that begin a line.
    fn act(&mut self, c: char, asks: &mut Vec<Ask>) {
        let targets = self.table.typed_targets();
        let prompt = |kind, text: &str| {
            Mode::Prompt(Prompt {
                kind,
                input: Input::new(text),
                before: text.to_owned(),
                words: Vec::new(),
            })
        };
        match c {
            '/' if self.panes.is_whole && self.panes.kind == PaneKind::Log => {
                self.mode = prompt(PromptKind::Search, &self.panes.log.search);
            }
            '/' => self.mode = prompt(PromptKind::Selector, &self.selection),
            ':' => self.mode = prompt(PromptKind::Line, ""),
            'c' => self.mode = prompt(PromptKind::Columns, &self.table.chosen().join(",")),
            'o' => {
                let sort = self.table.sort.as_ref().map(|sort| sort.expression.clone());
                self.mode = prompt(PromptKind::Sort, &sort.unwrap_or_default());
            }
            'g' => {
                let selection = match self.selection.as_str() {
                    "" => "all".to_owned(),
                    typed => quoted(typed),
                };
                self.mode = prompt(PromptKind::Line, &format!("results {selection} --by "));
            }
            _ if targets.is_empty() => {}
            'd' => {
                let marked = self.table.targets();
                if marked.len() < 2 {
                    self.message = Some("mark two or more experiments with the space bar".into());
                } else {
                    self.mode = Mode::Compare(None);
                    asks.push(Ask::Compare(marked));
                }
            }
            'n' => self.mode = prompt(PromptKind::Line, &format!("note {targets} ")),
            't' => self.mode = prompt(PromptKind::Line, &format!("tag {targets} ")),
            'a' | 'r' | 's' | 'p' | 'x' => {
                let is_paused = self
                    .table
                    .current()
                    .is_some_and(|view| view.state == "paused");
                let verb = match c {
                    'a' => "abort",
                    'r' => "restart",
                    's' => "start",
                    'p' if is_paused => "resume",
                    'p' => "pause",
                    _ => "rm",
                };
                self.ask_first(format!("{verb} {targets}"), asks);
            }
            _ => {}
        }
    }

    /// Shows a line and what it would do before it is executed.
    fn ask_first(&mut self, line: String, asks: &mut Vec<Ask>) {
        asks.push(Ask::Try(line.clone()));
        self.mode = Mode::Confirm(Confirmation { line, trial: None });
    }

    fn confirm(&mut self, key: KeyEvent, confirmation: Confirmation, asks: &mut Vec<Ask>) {
        match key.code {
            KeyCode::Enter => {
                self.running = Some(confirmation.line.clone());
                asks.push(Ask::ExecuteConfirmed(confirmation.line));
            }
            KeyCode::Esc | KeyCode::Char('q') => {}
            KeyCode::Char('y') => {
                asks.push(Ask::Copy(format!("neroman {}", confirmation.line)));
                self.message = Some("copied".into());
                self.mode = Mode::Confirm(confirmation);
            }
            KeyCode::Char('e' | ':') => {
                self.mode = Mode::Prompt(Prompt {
                    kind: PromptKind::Line,
                    input: Input::new(&confirmation.line),
                    before: String::new(),
                    words: Vec::new(),
                });
            }
            _ => self.mode = Mode::Confirm(confirmation),
        }
    }

    fn execute(&mut self, line: String, asks: &mut Vec<Ask>) {
        self.running = Some(line.clone());
        asks.push(Ask::Execute(line));
    }

    fn prompt(&mut self, key: KeyEvent, mut prompt: Prompt, asks: &mut Vec<Ask>) {
        match key.code {
            KeyCode::Esc => {
                if prompt.kind == PromptKind::Selector {
                    self.select(&prompt.before);
                }
                return;
            }
            KeyCode::Enter => return self.enter(prompt, asks),
            KeyCode::Tab => match prompt.words.as_slice() {
                [] => asks.push(Ask::Complete(prompt.input.begun().to_owned())),
                words => {
                    let common = common_beginning(words);
                    if common.len() > prompt.input.begun().len() {
                        prompt.input.complete(&common);
                    }
                }
            },
            _ => {
                if prompt.input.key(key) {
                    self.typed(&mut prompt);
                }
            }
        }
        self.mode = Mode::Prompt(prompt);
    }

    /// Follows a line that was changed.
    pub(crate) fn typed(&mut self, prompt: &mut Prompt) {
        prompt.words.clear();
        match prompt.kind {
            PromptKind::Selector => self.select(prompt.input.text()),
            PromptKind::Search => prompt.input.text().clone_into(&mut self.panes.log.search),
            PromptKind::Line | PromptKind::Columns | PromptKind::Sort => {}
        }
    }

    fn enter(&mut self, prompt: Prompt, asks: &mut Vec<Ask>) {
        let text = prompt.input.text().trim().to_owned();
        match prompt.kind {
            PromptKind::Selector => {
                if self.refused.is_some() {
                    self.mode = Mode::Prompt(prompt);
                }
            }
            PromptKind::Line if text.is_empty() => {}
            PromptKind::Line => self.execute(text, asks),
            PromptKind::Columns => {
                let names = nero_views::columns::split(&text);
                self.table
                    .choose(names.into_iter().filter(|name| !name.is_empty()).collect());
            }
            PromptKind::Sort => {
                let (descending, name) = match text.strip_prefix('-') {
                    Some(rest) => (true, rest.trim()),
                    None => (false, text.as_str()),
                };
                self.table.sort = (!name.is_empty()).then(|| Sort {
                    title: name.to_owned(),
                    expression: self.expression_of(name),
                    descending,
                });
            }
            PromptKind::Search => {
                if !self.panes.log.find() {
                    self.message = Some("not found further up".into());
                }
            }
        }
    }

    fn go(&mut self, rows: i64) {
        if self.panes.is_whole {
            self.scroll_pane(rows);
        } else {
            self.table.step(rows);
        }
    }

    fn scroll_pane(&mut self, lines: i64) {
        match self.panes.kind {
            PaneKind::Log => self.panes.log.scroll(-lines),
            PaneKind::Facts | PaneKind::Curves | PaneKind::Nodes => {
                let to = i64::try_from(self.panes.scrolled).unwrap_or(0) + lines;
                self.panes.scrolled = usize::try_from(to).unwrap_or(0);
            }
        }
    }

    fn beside(&mut self, by: usize) {
        let all = PaneKind::ALL;
        let now = all
            .iter()
            .position(|kind| *kind == self.panes.kind)
            .unwrap_or(0);
        self.show_pane(all[(now + by) % all.len()]);
    }

    fn show_pane(&mut self, kind: PaneKind) {
        if self.panes.kind != kind {
            self.panes.scrolled = 0;
        }
        self.panes.kind = kind;
    }

    pub(crate) fn mouse(&mut self, mouse: MouseEvent) {
        let rows = self.layout().rows;
        let is_in_table = rows.contains((mouse.column, mouse.row).into()) && !self.panes.is_whole;
        match mouse.kind {
            MouseEventKind::ScrollDown if is_in_table => self.table.step(3),
            MouseEventKind::ScrollUp if is_in_table => self.table.step(-3),
            MouseEventKind::ScrollDown => self.scroll_pane(3),
            MouseEventKind::ScrollUp => self.scroll_pane(-3),
            MouseEventKind::Down(MouseButton::Left) if is_in_table => {
                self.table.go_to_line(u64::from(mouse.row - rows.y));
            }
            _ => {}
        }
    }
}

/// Where a page of text is after a key; `None`: it is closed.
fn page(key: KeyEvent, from: usize) -> Option<usize> {
    match key.code {
        KeyCode::Down | KeyCode::Char('j' | 'J') => Some(from + 1),
        KeyCode::Up | KeyCode::Char('k' | 'K') => Some(from.saturating_sub(1)),
        KeyCode::PageDown | KeyCode::Char(' ') => Some(from + 20),
        KeyCode::PageUp => Some(from.saturating_sub(20)),
        _ => None,
    }
}

/// What all words begin with.
fn common_beginning(words: &[String]) -> String {
    let Some((first, others)) = words.split_first() else {
        return String::new();
    };
    let shared = |other: &String| {
        let pairs = first.char_indices().zip(other.chars());
        let mut same = pairs.take_while(|((_, one), other)| one == other);
        same.by_ref()
            .last()
            .map_or(0, |((at, one), _)| at + one.len_utf8())
    };
    let length = others.iter().map(shared).min().unwrap_or(first.len());
    first[..length].to_owned()
}

/// A selector as one word of a line.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_,./:".contains(c);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
