//! `status --watch`: a table that is drawn anew on a terminal, a line per
//! change elsewhere; it ends when nothing is live.

use std::collections::BTreeMap;
use std::io::Write as _;

use nero_model::safe::Safe;
use nero_views::{json, text, totals};
use nero_wire::v1::{BatchView, ExperimentView, WatchEvent, WatchRequest};

use crate::args::Status;
use crate::connect::{Next, READ_DEADLINE};
use crate::fault::{Fault, Stop, code};
use crate::say::{Out, Screen, experiments, overview};
use crate::session::{Session, selection};

/// Between two drawings on a terminal.
const INTERVAL_MS: u32 = 500;

/// Shows the picked experiments and their changes.
pub async fn run(session: &mut Session, args: &Status, picked: &[String]) -> Result<u8, Stop> {
    if args.csv || args.sort.is_some() || !args.columns.is_empty() {
        return Err(Fault::usage("--watch takes no --csv, --sort or --columns").into());
    }
    let asked = WatchRequest {
        selection: Some(selection(picked)),
        interval_ms: INTERVAL_MS,
    };
    let mut shown = ScreenContent::new(session.out.screen, args.json.json);
    'asking: loop {
        let client = session.client().await?;
        let mut events = client
            .call(READ_DEADLINE, asked.clone(), async |man, request| {
                man.watch(request).await
            })
            .await?;
        loop {
            match client.next(&mut events).await? {
                Next::Message(event) => {
                    let live = event.live;
                    shown.take(event)?;
                    if live == 0 {
                        break 'asking;
                    }
                }
                Next::End => break 'asking,
                Next::Lost => continue 'asking,
            }
        }
    }
    shown.end()?;
    Ok(code::OK)
}

/// The content of the screen.
struct ScreenContent {
    out: Out,
    json: bool,
    views: BTreeMap<u64, ExperimentView>,
    /// Notes besides.
    notes: Vec<String>,
    batches: Vec<BatchView>,
    /// What was drawn last.
    drawn: String,
}

impl ScreenContent {
    fn new(screen: Screen, json: bool) -> Self {
        Self {
            out: Out { screen },
            json,
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
        if is_news && !self.json && !self.out.screen.tty {
            self.out.notes(&self.notes);
        }
        let mut changed = Vec::new();
        for view in event.experiments {
            let line = change(&view);
            let before = self.views.insert(view.id, view.clone());
            // After a lost connection every experiment comes once more.
            if before.is_none_or(|before| change(&before) != line || self.json && before != view) {
                changed.push(view);
            }
        }
        if self.json {
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
        let views: Vec<ExperimentView> = self.views.values().cloned().collect();
        // The last column stays empty: erasing behind a character there would erase it.
        let screen = Screen {
            width: self.out.screen.width.saturating_sub(1).max(1),
            ..self.out.screen
        };
        let drawn = frame(&screen, &views, &self.notes, &self.batches);
        if drawn == self.drawn {
            return Ok(());
        }
        let text = redrawn(self.drawn.lines().count(), &drawn);
        self.drawn = drawn;
        self.out.text(&text)
    }

    fn end(&self) -> Result<(), Stop> {
        if self.json || self.out.screen.tty {
            return Ok(());
        }
        let views: Vec<ExperimentView> = self.views.values().cloned().collect();
        self.out
            .line(&experiments::counts(&self.out.screen, &totals::of(&views)))
    }
}

/// One drawing: no more lines than the terminal has, none of them wrapped.
fn frame(
    screen: &Screen,
    views: &[ExperimentView],
    notes: &[String],
    batches: &[BatchView],
) -> String {
    let mut drawn: String = notes
        .iter()
        .map(|note| format!("note: {}\n", Safe::line(note)))
        .collect();
    let lines = views.len() + notes.len() + batches.len() + 4;
    drawn += &if lines <= usize::from(screen.height) {
        experiments::as_table(screen, views, batches, None)
    } else {
        overview::as_text(screen, &totals::of(views), batches, views)
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
            let drawn = frame(&Screen::terminal(60, height, false), &views, &notes, &[]);
            assert!(drawn.lines().count() < usize::from(height), "{drawn}");
            assert!(drawn.starts_with("note: no space left\n"), "{drawn}");
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
