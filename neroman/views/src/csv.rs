//! CSV that no spreadsheet runs as a formula and no terminal obeys.

use nero_model::safe::Safe;

/// A cell: numbers stay numbers, text is kept from being a formula.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing known.
    Empty,
    /// A number, as it is written.
    Number(String),
    /// Text from any source.
    Text(String),
}

impl Cell {
    /// Text, or nothing.
    pub fn text(text: &str) -> Self {
        if text.is_empty() {
            Self::Empty
        } else {
            Self::Text(text.to_owned())
        }
    }

    /// A number with all its digits.
    pub fn number(value: f64) -> Self {
        Self::Number(if value.is_nan() {
            "NaN".into()
        } else if value.is_infinite() {
            if value > 0.0 { "inf" } else { "-inf" }.into()
        } else {
            format!("{value}")
        })
    }

    /// A whole number.
    pub fn whole(value: impl std::fmt::Display) -> Self {
        Self::Number(value.to_string())
    }

    fn written(&self) -> String {
        match self {
            Self::Empty => String::new(),
            // What only looks like a number is text.
            Self::Number(text) if text.trim().parse::<f64>().is_err() => tame(text),
            Self::Number(text) => text.clone(),
            Self::Text(text) => tame(text),
        }
    }
}

/// One table as CSV.
pub fn print(header: &[String], rows: &[Vec<Cell>]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let in_memory = "memory takes every byte";
    writer
        .write_record(header.iter().map(|name| tame(name)))
        .expect(in_memory);
    for row in rows {
        writer
            .write_record(row.iter().map(Cell::written))
            .expect(in_memory);
    }
    writer.into_inner().expect(in_memory)
}

/// Text that acts neither in a terminal nor in a spreadsheet: control characters
/// but line feed and tab are written as in messages, and text that a spreadsheet
/// would run gets a leading `'`, also behind blanks, which some strip.
fn tame(text: &str) -> String {
    let safe = Safe::lines(text).to_string();
    let runs = |c: char| {
        matches!(
            c,
            '=' | '+' | '-' | '@' | '\u{ff1d}' | '\u{ff0b}' | '\u{ff0d}' | '\u{ff20}'
        )
    };
    let is_run = safe.trim_start().starts_with(runs) || safe.starts_with(['\t', '\n']);
    if is_run || text.starts_with('\r') {
        format!("'{safe}")
    } else {
        safe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_formula_and_numbers_stay() {
        let header = ["name".to_owned(), "=x".to_owned(), "loss".to_owned()];
        let row = vec![
            Cell::text("=HYPERLINK(\"x\")"),
            Cell::text("a,b\n\"c\""),
            Cell::number(-0.5),
        ];
        let printed = String::from_utf8(print(&header, &[row])).expect("text");
        assert_eq!(
            printed,
            "name,'=x,loss\n\"'=HYPERLINK(\"\"x\"\")\",\"a,b\n\"\"c\"\"\",-0.5\n"
        );
    }

    #[test]
    fn a_cell_never_acts_in_a_terminal_or_a_spreadsheet() {
        let written = |text: &str| Cell::text(text).written();
        assert_eq!(written("a\u{1b}]0;x\u{7}b"), "a\\u{1b}]0;x\\u{7}b");
        assert_eq!(written("a\u{9b}31m\r"), "a\\u{9b}31m\\r");
        assert_eq!(written("two\nlines\tand a tab"), "two\nlines\tand a tab");
        for formula in [
            "=1+1",
            "+1+1",
            "-1+1",
            "@SUM(A1)",
            " =1",
            "\t=1",
            "\n=1",
            "\r=1",
            "\u{ff1d}1",
        ] {
            let cell = written(formula);
            assert!(cell.starts_with('\''), "{formula:?}: {cell:?}");
        }
        assert_eq!(Cell::Number("=1".into()).written(), "'=1");
        assert_eq!(Cell::number(-0.5).written(), "-0.5");
        assert_eq!(Cell::number(f64::NEG_INFINITY).written(), "-inf");
    }
}
