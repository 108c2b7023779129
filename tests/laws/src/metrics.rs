//! Logs and files of metrics: however the bytes are split on their way, the same is found.

use nero_metrics::file::{FileForm, document_lines};
use nero_metrics::finder::{Finder, FinderOptions};
use nero_metrics::survey::Survey;

use crate::Choices;

const FORMS: &[FileForm] = &[
    FileForm::Printed,
    FileForm::Columns(None),
    FileForm::Columns(Some(b'\t')),
    FileForm::JsonLines,
    FileForm::Document,
];

pub fn law(bytes: &[u8]) {
    let (log, choices) = crate::parts(bytes);
    let mut choices = Choices(choices);
    let form = FORMS[choices.below(FORMS.len())];
    let decimal_comma = choices.byte() & 1 == 1;
    let whole = surveyed(log, form, decimal_comma, |rest| std::mem::take(rest));
    let pieces = surveyed(log, form, decimal_comma, |rest| choices.piece(69, rest));
    assert_eq!(whole, pieces, "read in pieces, something else is found");
    if let Some(lines) = document_lines(log) {
        surveyed(&lines, FileForm::JsonLines, false, |rest| std::mem::take(rest));
    }
}

/// What is found in a log that comes in pieces.
fn surveyed<'a>(
    mut log: &'a [u8],
    form: FileForm,
    decimal_comma: bool,
    mut next: impl FnMut(&mut &'a [u8]) -> &'a [u8],
) -> String {
    let reading = FinderOptions {
        decimal_comma,
        ..FinderOptions::default()
    };
    let mut survey = Survey::of_file(Finder::new(&reading).0, form);
    while !log.is_empty() {
        survey.feed(next(&mut log));
    }
    survey.finish();
    let (missed, partly) = (survey.missed_lines(), survey.partly_read_lines());
    format!(
        "{:?} {:?} {missed} {partly}",
        survey.seen(),
        survey.progress()
    )
}
