//! A mail as plain text.

use super::page::{Page, PageSection, ToldLine};
use super::{LetterCurves, LetterTable};

/// Characters of a line.
const COLUMNS: usize = 72;
/// Characters of a cell of a table.
const CELL_CHARS: usize = 20;
/// Characters of the bar of progress.
const BAR_CHARS: usize = 40;

pub(super) fn text(page: &Page) -> String {
    let mut lines = Vec::new();
    for paragraph in &page.paragraphs {
        wrap("", "", paragraph, &mut lines);
        lines.push(String::new());
    }
    for section in &page.sections {
        section_lines(section, &mut lines);
        lines.push(String::new());
    }
    if let Some(progress) = &page.progress {
        let filled = BAR_CHARS * usize::try_from(progress.percent).unwrap_or(0) / 100;
        lines.push(format!(
            "[{}{}]",
            "#".repeat(filled),
            "-".repeat(BAR_CHARS - filled)
        ));
        wrap("", "", &progress.text, &mut lines);
        lines.push(String::new());
    }
    if let LetterCurves::Failed { why } = &page.curves {
        wrap("", "", why, &mut lines);
        lines.push(String::new());
    }
    if let Some(table) = &page.table {
        table_lines(table, &mut lines);
        if page.more_rows > 0 {
            lines.push(format!("and {} more", page.more_rows));
        }
        lines.push(String::new());
    }
    for command in &page.commands {
        wrap("  $ ", "    ", command, &mut lines);
    }
    if !page.commands.is_empty() {
        lines.push(String::new());
    }
    // Mail programs know what follows as a signature.
    lines.push("-- ".to_owned());
    lines.push(super::html::SIGNATURE.to_owned());
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn section_lines(section: &PageSection, lines: &mut Vec<String>) {
    if let Some(heading) = &section.heading {
        lines.push(heading.clone());
        lines.push("-".repeat(heading.chars().count()));
    }
    for told in &section.told {
        told_lines(told, lines);
    }
    if section.more > 0 {
        lines.push(format!("and {} more", section.more));
    }
}

fn told_lines(told: &ToldLine, lines: &mut Vec<String>) {
    let sentence = match told.subject.as_str() {
        "" => told.predicate.clone(),
        subject => format!("{subject} {}", told.predicate),
    };
    wrap("", "  ", &sentence, lines);
    for line in &told.output {
        hard_wrap("  | ", line, lines);
    }
}

/// Breaks a sentence between words, and words that are longer than a line.
fn wrap(first: &str, later: &str, sentence: &str, lines: &mut Vec<String>) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in sentence.split_whitespace() {
        let length = line.chars().count() + usize::from(!is_empty) + word.chars().count();
        if length > COLUMNS && !is_empty {
            lines.push(std::mem::replace(&mut line, later.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        for c in word.chars() {
            if line.chars().count() == COLUMNS {
                lines.push(std::mem::replace(&mut line, later.to_owned()));
            }
            line.push(c);
        }
        is_empty = false;
    }
    lines.push(line);
}

/// Breaks a line of an output wherever it is full.
fn hard_wrap(margin: &str, line: &str, lines: &mut Vec<String>) {
    let room = COLUMNS - margin.chars().count();
    let chars: Vec<char> = line.chars().collect();
    if chars.is_empty() {
        lines.push(margin.trim_end().to_owned());
    }
    for part in chars.chunks(room) {
        let part: String = part.iter().collect();
        lines.push(format!("{margin}{part}"));
    }
}

/// The columns that fit.
fn table_lines(table: &LetterTable, lines: &mut Vec<String>) {
    let cell = |row: &[String], column: usize| {
        let text = row.get(column).map_or("", String::as_str);
        match text.char_indices().nth(CELL_CHARS) {
            Some((cut, _)) if text[cut..].chars().count() > 0 => {
                let end = text.char_indices().nth(CELL_CHARS - 1);
                format!("{}…", &text[..end.map_or(cut, |(end, _)| end)])
            }
            Some(_) | None => text.to_owned(),
        }
    };
    let rows = || std::iter::once(&table.header).chain(&table.rows);
    let width = |column: usize| {
        let widths = rows().map(|row| cell(row, column).chars().count());
        widths.max().unwrap_or(0)
    };
    let mut columns = Vec::new();
    let mut total = 0;
    for column in 0..table.header.len() {
        let width = width(column);
        let more = width + if columns.is_empty() { 0 } else { 2 };
        if total + more > COLUMNS {
            break;
        }
        total += more;
        columns.push((column, width));
    }
    for row in rows() {
        let cells = columns.iter().map(|(column, width)| {
            let text = cell(row, *column);
            let is_number = text.parse::<f64>().is_ok();
            let gap = " ".repeat(width.saturating_sub(text.chars().count()));
            if is_number {
                format!("{gap}{text}")
            } else {
                format!("{text}{gap}")
            }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        lines.push(line.trim_end().to_owned());
    }
    let hidden = table.header.len() - columns.len();
    if hidden > 0 {
        let plural = if hidden == 1 { "" } else { "s" };
        lines.push(format!("({hidden} more column{plural}: `neroman results`)"));
    }
}
