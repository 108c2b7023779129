//! Tables into which results are written, as lines and as JSON.

use nero_model::safe::Safe;
use nero_wire::v1::{Workbook, WorkbookLock};
use serde_json::Value;

use crate::object;
use crate::text::{clock, duration, iso_time, plural};

/// What a person should know of these tables; nothing where all is in its place.
pub fn lines(books: &[Workbook], now_ms: i64) -> Vec<String> {
    books.iter().filter_map(|book| line(book, now_ms)).collect()
}

fn line(book: &Workbook, now_ms: i64) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(lock) = &book.lock {
        parts.push(format!("is open in {}", opened(lock, now_ms)));
    } else if !book.why.is_empty() {
        parts.push(format!("lacks results: {}", Safe::line(&book.why)));
    }
    if !book.live.is_empty() {
        parts.push(format!("the rows are in {}", Safe::line(&book.live)));
    }
    if book.left > 0 {
        let cells = plural(usize::try_from(book.left).unwrap_or(usize::MAX), "cell");
        parts.push(format!(
            "has {cells} that got no result: `neroman show` of the experiment tells why"
        ));
    }
    match &book.lock {
        Some(lock) if lock.left_behind == Some(true) => parts.push(format!(
            "no {} runs on this machine any more: delete {}",
            Safe::line(&lock.program),
            Safe::line(&lock.path)
        )),
        _ if !book.hint.is_empty() => parts.push(Safe::line(&book.hint).to_string()),
        Some(_) | None => {}
    }
    let text = parts.join("; ");
    (!parts.is_empty()).then(|| format!("{} {text}", Safe::line(&book.file)))
}

/// `LibreOffice by Ada on desk since 14:02 (12m)`.
fn opened(lock: &WorkbookLock, now_ms: i64) -> String {
    let mut text = Safe::line(&lock.program).to_string();
    if !lock.owner.is_empty() {
        text.push_str(&format!(" by {}", Safe::line(&lock.owner)));
    }
    if !lock.host.is_empty() {
        text.push_str(&format!(" on {}", Safe::line(&lock.host)));
    }
    if lock.since_ms > 0 {
        let age = (now_ms - lock.since_ms).max(0) as f64 / 1000.0;
        let since = clock(lock.since_ms);
        text.push_str(&format!(" since {since} ({})", duration(age)));
    }
    text
}

/// As in `status --json`.
pub fn workbook(book: &Workbook) -> Value {
    object!(book =>
        file, live?,
        open: book.lock.as_ref().map(|lock| object!(lock =>
            program, lock: lock.path, owner?, host?,
            since: iso_time(lock.since_ms),
            left_behind,
        )),
        why?, hint?, cells_left: book.left,
    )
}
