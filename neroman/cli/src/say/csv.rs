//! CSV that no spreadsheet runs as a formula.

/// A cell: numbers stay numbers, text is kept from being a formula.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing known.
    Empty,
    /// A number, as it is written.
    Number(String),
    /// Text of anybody.
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

/// Text that a spreadsheet would run gets a leading `'`.
fn tame(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.to_owned()
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
}
