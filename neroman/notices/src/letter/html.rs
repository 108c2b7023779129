//! A mail as HTML: one document without anything remote. Colours follow the screen and never
//! tell something that words do not.

use std::fmt::Write as _;

use super::page::{Page, PageSection};
use super::{CURVES_WIDTH, LetterCurves, LetterTable};

/// The last line of every mail.
pub(super) const SIGNATURE: &str = "Sent by Neronet. `neroman config show` lists who is told what.";

/// Programs that show no `<style>` show black on white.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;margin:0;padding:16px;max-width:44em;color:#1d1d1f;background:#fff}\
h1{font-size:17px;margin:0 0 12px}h2{font-size:15px;margin:16px 0 4px}\
p{margin:4px 0}ul{margin:0;padding-left:1.2em}\
code,pre{font:13px/1.4 ui-monospace,monospace}\
pre{margin:4px 0 8px;padding:8px;background:#f3f3f5;border-left:3px solid #b3261e;white-space:pre-wrap;overflow-wrap:anywhere}\
table{border-collapse:collapse;margin:8px 0}th,td{padding:2px 10px 2px 0;text-align:left;border-bottom:1px solid #d2d2d7}\
td.n{text-align:right;font-variant-numeric:tabular-nums}\
.bad{color:#b3261e}.bar{height:8px;background:#e3e3e8;border-radius:4px;max-width:24em}\
.bar div{height:8px;background:#2f6fde;border-radius:4px}\
.last{color:#6e6e73;font-size:13px;margin-top:20px}\
img{max-width:100%;height:auto}\
@media(prefers-color-scheme:dark){body{color:#e8e8ed;background:#1c1c1e}pre{background:#2c2c2e;border-color:#ff8a80}\
th,td{border-color:#3a3a3c}.bad{color:#ff8a80}.bar{background:#3a3a3c}.bar div{background:#6ea8ff}.last{color:#a1a1a6}}";

pub(super) fn html(page: &Page) -> String {
    let subject = escaped(&page.subject);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{subject}</title>\n<style>{STYLE}</style></head>\n<body>\n<h1>{subject}</h1>\n"
    );
    for paragraph in &page.paragraphs {
        let _ = writeln!(html, "<p>{}</p>", code(&escaped(paragraph)));
    }
    if let Some(progress) = &page.progress {
        let (text, percent) = (escaped(&progress.text), progress.percent);
        let _ = writeln!(
            html,
            "<p>{text}</p>\n<div class=\"bar\"><div style=\"width:{percent}%\"></div></div>"
        );
    }
    match &page.curves {
        LetterCurves::None => {}
        LetterCurves::Drawn { of } => {
            let of = escaped(of);
            let _ = writeln!(
                html,
                "<p><img src=\"cid:plot\" width=\"{CURVES_WIDTH}\" alt=\"curves of {of}\"></p>"
            );
        }
        LetterCurves::Failed { why } => {
            let _ = writeln!(html, "<p>{}</p>", escaped(why));
        }
    }
    for section in &page.sections {
        add_section(section, &mut html);
    }
    if let Some(table) = &page.table {
        add_table(table, page.more_rows, &mut html);
    }
    for command in &page.commands {
        let _ = writeln!(html, "<p><code>{}</code></p>", escaped(command));
    }
    let signature = code(&escaped(SIGNATURE));
    let _ = writeln!(html, "<p class=\"last\">{signature}</p>\n</body></html>");
    html
}

fn add_section(section: &PageSection, html: &mut String) {
    let class = if section.is_bad { " class=\"bad\"" } else { "" };
    if let Some(heading) = &section.heading {
        let _ = writeln!(html, "<h2{class}>{}</h2>", escaped(heading));
    }
    for told in &section.told {
        let subject = match told.subject.as_str() {
            "" => String::new(),
            subject => format!("<b>{}</b> ", escaped(subject)),
        };
        let predicate = code(&escaped(&told.predicate));
        let _ = writeln!(html, "<p>{subject}{predicate}</p>");
        if !told.output.is_empty() {
            let output = escaped(&told.output.join("\n"));
            let _ = writeln!(html, "<pre>{output}</pre>");
        }
    }
    if section.more > 0 {
        let _ = writeln!(html, "<p>and {} more</p>", section.more);
    }
}

fn add_table(table: &LetterTable, more: usize, html: &mut String) {
    html.push_str("<table>\n<tr>");
    for name in &table.header {
        let _ = write!(html, "<th>{}</th>", escaped(name));
    }
    html.push_str("</tr>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for cell in row {
            let class = match cell.parse::<f64>() {
                Ok(_) => " class=\"n\"",
                Err(_) => "",
            };
            let _ = write!(html, "<td{class}>{}</td>", escaped(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table>\n");
    if more > 0 {
        let _ = writeln!(html, "<p>and {more} more</p>");
    }
}

/// Text of which no character is markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escaped text with what stands between backticks as code.
fn code(escaped: &str) -> String {
    let mut parts = escaped.split('`').peekable();
    let mut html = String::new();
    let mut is_code = false;
    while let Some(part) = parts.next() {
        match (is_code, parts.peek().is_some()) {
            (true, true) => {
                let _ = write!(html, "<code>{part}</code>");
            }
            // The last backtick has no other.
            (true, false) => {
                let _ = write!(html, "`{part}");
            }
            (false, _) => html.push_str(part),
        }
        is_code = !is_code;
    }
    html
}
