//! `status --watch`: a table that is drawn anew on a terminal, a line per
//! change elsewhere; it ends when nothing is live.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use nero_model::safe::Safe;
use nero_views::{Column, columns, json, text, totals};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{BatchView, ExperimentView, Totals, WatchEvent, WatchRequest, Window};

use super::status::{asked_facts, column_names};

use crate::args::Status;
use crate::connect::READ_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::say::{Screen, VerbOutput, experiments, overview};
use crate::session::{Session, selection};

/// Between two drawings on a terminal.
const INTERVAL_MS: u32 = 500;

/// Rows that the daemon sends, also where the terminal has fewer lines: it may grow.
const ROWS_LEAST: u64 = 200;

/// Shows the picked experiments and their changes.
pub async fn run(session: &mut Session, args: &Status, picked: &[String]) -> Result<u8, Stop> {
    let is_table = args.sort.is_some() || !args.columns.is_empty();
    let is_drawn = session.out.screen.tty && !session.out.as_json;
    if args.csv || is_table && !is_drawn {
        let what = "--watch takes no --csv, and --sort and --columns on a terminal alone";
        return Err(Fault::usage(what).into());
    }
    let window = Window {
        sort: args
            .sort
            .clone()
            .unwrap_or_else(|| overview::RUNNING_FIRST.to_owned()),
        offset: 0,
        count: u64::from(session.out.screen.height).max(ROWS_LEAST),
    };
    let asked = WatchRequest {
        selection: Some(selection(picked)),
        interval_ms: INTERVAL_MS,
        window: is_drawn.then_some(window),
        facts: asked_facts(args),
    };
    let mut shown = ScreenContent::new(session.out, args);
    let take = async |event: Option<WatchEvent>| {
        let Some(event) = event else {
            return Ok::<_, Stop>(true);
        };
        let is_live = event.live > 0;
        shown.take(event)?;
        Ok(is_live)
    };
    session
        .each(READ_DEADLINE, asked, ManClient::watch, take)
        .await?;
    shown.end()?;
    Ok(code::OK)
}

/// The content of the screen.
struct ScreenContent {
    out: VerbOutput,
    views: BTreeMap<u64, ExperimentView>,
    /// Notes besides.
    notes: Vec<String>,
    batches: Vec<BatchView>,
    /// Of all that is picked, where the daemon sends no more than a screen shows.
    totals: Option<Totals>,
    /// What is shown, in this order, in place of all.
    rows: Vec<u64>,
    columns: Vec<String>,
    is_sorted: bool,
    /// What was drawn last.
    drawn: String,
}

impl ScreenContent {
    fn new(out: VerbOutput, args: &Status) -> Self {
        Self {
            out,
            totals: None,
            rows: Vec::new(),
            columns: column_names(args),
            is_sorted: args.sort.is_some(),
            views: BTreeMap::new(),
            notes: Vec::new(),
            batches: Vec::new(),
            drawn: String::new(),
        }
    }

    fn take(&mut self, event: WatchEvent) -> Result<(), Stop> {
        let is_news = event.notes != self.notes;
        self.notes = event.notes;
        self.batches = event.batches;
        if let Some(window) = event.window {
            self.totals = event.totals;
            self.rows = window.ids;
        } else if self.is_sorted || !self.columns.is_empty() {
            let what = "the daemon is of an earlier build, which sorts nothing while it is watched";
            return Err(Fault::usage(what)
                .hint("`neroman daemon stop`; the next command starts the present one, runs go on")
                .into());
        }
        if is_news && !self.out.as_json && !self.out.screen.tty {
            self.out.notes(&self.notes);
        }
        let mut changed = Vec::new();
        for view in event.experiments {
            let line = change(&view);
            let before = self.views.insert(view.id, view.clone());
            // After a lost connection every experiment comes once more.
            if before
                .is_none_or(|before| change(&before) != line || self.out.as_json && before != view)
            {
                changed.push(view);
            }
        }
        if self.out.as_json {
            if is_news || !changed.is_empty() {
                self.out.json(&json::experiments(
                    &changed,
                    &self.notes,
                    None,
                    &self.batches,
                ))?;
            }
        } else if self.out.screen.tty {
            self.draw()?;
        } else {
            for view in &changed {
                self.out.line(&change(view))?;
            }
        }
        Ok(())
    }

    /// The terminal cuts lines that are too long: the cursor could not be moved
    /// back over wrapped ones. A drawing that differs in nothing is not repeated.
    fn draw(&mut self) -> Result<(), Stop> {
        self.out.screen = Screen::find();
        if self.totals.is_some() {
            let rows: BTreeSet<u64> = self.rows.iter().copied().collect();
            self.views.retain(|id, _| rows.contains(id));
        }
        let mut views: Vec<ExperimentView> = self.views.values().cloned().collect();
        if self.is_sorted {
            let place = |view: &ExperimentView| self.rows.iter().position(|id| *id == view.id);
            views.sort_by_key(place);
        }
        let chosen = self.columns.iter().map(|name| columns::named(name, &views));
        let chosen = chosen.collect::<Result<Vec<_>, _>>().map_err(Fault::from)?;
        // The last column stays empty: erasing behind a character there would erase it.
        let screen = Screen {
            width: self.out.screen.width.saturating_sub(1).max(1),
            ..self.out.screen
        };
        let shown = WatchedRows {
            views: &views,
            totals: self.totals.clone().unwrap_or_else(|| totals::of(&views)),
            columns: (!chosen.is_empty()).then_some(chosen),
            is_table: self.is_sorted || !self.columns.is_empty(),
        };
        let drawn = frame(&screen, &shown, &self.notes, &self.batches);
        if drawn == self.drawn {
            return Ok(());
        }
        let text = redrawn(self.drawn.lines().count(), &drawn);
        self.drawn = drawn;
        self.out.text(&text)
    }

    fn end(&self) -> Result<(), Stop> {
        if self.out.as_json || self.out.screen.tty {
            return Ok(());
        }
        let views: Vec<ExperimentView> = self.views.values().cloned().collect();
        self.out
            .line(&experiments::counts(&self.out.screen, &totals::of(&views)))
    }
}

/// Experiments of one drawing.
struct WatchedRows<'v> {
    views: &'v [ExperimentView],
    /// Of all that is picked.
    totals: Totals,
    columns: Option<Vec<Column>>,
    /// Whether a table is wanted, also of a part.
    is_table: bool,
}

/// One drawing: no more lines than the terminal has, none of them wrapped.
fn frame(
    screen: &Screen,
    shown: &WatchedRows<'_>,
    notes: &[String],
    batches: &[BatchView],
) -> String {
    let mut drawn: String = notes
        .iter()
        .map(|note| format!("note: {}\n", Safe::line(note)))
        .collect();
    let WatchedRows { views, totals, .. } = shown;
    let height = usize::from(screen.height);
    let besides = notes.len() + batches.len() + 4;
    let left = height.saturating_sub(besides + 1).max(1);
    let has_all = views.len() as u64 == totals.experiments;
    drawn += &if has_all && views.len() + besides <= height {
        experiments::as_table(screen, views, batches, shown.columns.clone())
    } else if shown.is_table {
        let first = &views[..views.len().min(left)];
        let columns = shown.columns.clone();
        let columns = columns.unwrap_or_else(|| columns::telling(first));
        let more = totals.experiments.saturating_sub(first.len() as u64);
        let table = experiments::print(screen, &columns, first);
        let (outlooks, counts) = (
            experiments::outlooks(batches),
            experiments::counts(screen, totals),
        );
        format!("{table}… and {more} more\n{outlooks}{counts}\n")
    } else {
        overview::as_text(screen, totals, batches, views)
    };
    let room = usize::from(screen.height.saturating_sub(1)).max(1);
    drawn
        .lines()
        .take(room)
        .map(|line| format!("{}\n", cut(line, usize::from(screen.width))))
        .collect()
}

/// A line that fits, with `…` where text is missing: a terminal would write the
/// end of the line over its last column. A cut number would be another number,
/// so a number is dropped as a whole.
fn cut(line: &str, width: usize) -> String {
    let mut kept = String::new();
    // The length to keep before the number that is being read.
    let (mut shown, mut whole, mut escape) = (0, 0, false);
    let mut fits = 0;
    for c in line.chars() {
        escape |= c == '\x1b';
        if escape {
            kept.push(c);
            escape = c == '\x1b' || !c.is_ascii_alphabetic();
            continue;
        }
        shown += 1;
        if shown < width {
            kept.push(c);
            if !c.is_ascii_digit() && c != '-' {
                whole = kept.len();
            }
            fits = kept.len();
        }
    }
    if shown <= width {
        return line.to_owned();
    }
    let keep = if whole > 0 { whole } else { fits };
    // Only escapes are left behind this place: those that end a colour.
    let escapes = kept.split_off(fits);
    kept.truncate(keep);
    format!("{kept}…{escapes}")
}

/// The text that puts a drawing over one of so many lines. Each line overwrites the one before
/// it, and only what is left of that is erased: a screen that is erased first flickers. A
/// terminal that knows mode 2026 shows it as a whole.
pub fn redrawn(lines: usize, drawn: &str) -> String {
    let back = match lines {
        0 => String::new(),
        lines => format!("\x1b[{lines}A\r"),
    };
    let drawn = drawn.replace('\n', "\x1b[K\n");
    format!("\x1b[?2026h\x1b[?7l{back}{drawn}\x1b[J\x1b[?7h\x1b[?2026l")
}

/// The line of a change, for a person who reads a file.
fn change(view: &ExperimentView) -> String {
    let name = text::full_name(&view.collection, &view.name);
    let mut line = format!("{}  {name}  {}", view.id, view.state);
    for more in [
        &text::why(&view.state, &view.reason, &view.stderr_line),
        &view.cancel,
    ] {
        if !more.is_empty() {
            line.push_str(&format!("  {more}"));
        }
    }
    Safe::line(&line).to_string()
}

/// A line that is rewritten in place while the verb waits.
pub fn progress(ended: usize, live: u32) {
    // A terminal that is gone has no reader.
    let _ = write!(
        std::io::stderr().lock(),
        "\r\x1b[K{}, {live} live",
        text::plural(ended, "ended run")
    );
}

/// Removes that line.
pub fn clear_progress() {
    let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_never_scrolls() {
        let views: Vec<ExperimentView> = (1..200)
            .map(|id| ExperimentView {
                id,
                name: format!("e{id}"),
                state: "running".into(),
                ..ExperimentView::default()
            })
            .collect();
        for height in [4, 10, 24] {
            let notes = ["no space left".to_owned()];
            for is_table in [false, true] {
                let shown = WatchedRows {
                    views: &views,
                    totals: totals::of(&views),
                    columns: None,
                    is_table,
                };
                let drawn = frame(&Screen::terminal(60, height, false), &shown, &notes, &[]);
                assert!(drawn.lines().count() < usize::from(height), "{drawn}");
                assert!(drawn.starts_with("note: no space left\n"), "{drawn}");
            }
        }
    }

    #[test]
    fn a_line_is_overwritten_before_the_rest_of_the_old_one_is_erased() {
        let shown = redrawn(3, "1 running\n2 done\n");
        let lines = "\x1b[3A\r1 running\x1b[K\n2 done\x1b[K\n\x1b[J";
        assert_eq!(
            shown,
            format!("\x1b[?2026h\x1b[?7l{lines}\x1b[?7h\x1b[?2026l")
        );
        assert!(!redrawn(0, "x\n").contains("A\r"));
    }

    #[test]
    fn a_line_is_cut_between_numbers_and_shows_it() {
        let line = "  5 crashed exit code 7: 210,220,230-330,340";
        for width in 10..line.len() {
            let shown = cut(line, width);
            assert!(shown.chars().count() <= width, "{width}: {shown}");
            assert!(shown.ends_with('…'), "{width}: {shown}");
            let ids = shown.trim_end_matches('…').trim_end_matches(',');
            let (ids, whole) = (ids.rsplit_once(": "), "210,220,230-330,340");
            if let Some((_, ids)) = ids.filter(|(_, ids)| !ids.is_empty()) {
                let kept: Vec<&str> = ids.split(',').collect();
                let all: Vec<&str> = whole.split(',').collect();
                assert_eq!(kept[..], all[..kept.len()], "{width}");
            }
        }
        assert_eq!(cut(line, line.len()), line);
        assert_eq!(cut("\x1b[31mabcdef\x1b[0m", 4), "\x1b[31mabc…\x1b[0m");
    }

    #[test]
    fn a_change_is_one_harmless_line() {
        let view = ExperimentView {
            id: 3,
            name: "a\n\x1b[2J".into(),
            state: "crashed".into(),
            reason: "exit code 1".into(),
            ..ExperimentView::default()
        };
        assert_eq!(change(&view), "3  a\\n\\u{1b}[2J  crashed  exit code 1");
    }
}
