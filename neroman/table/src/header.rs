//! The rows that name the columns.

use std::collections::HashMap;

use crate::sheet::{CellValue, Sheet, SheetRow};

/// A column with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// From one.
    pub number: u32,
    /// The row of the header in which its name stands.
    pub row: u32,
    /// The group that it is in.
    pub group: Option<String>,
    /// The name in its group.
    pub name: String,
}

impl Column {
    /// The name that tells it from all other columns: `Test/10ep`.
    pub fn full(&self) -> String {
        match &self.group {
            Some(group) => format!("{group}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The columns of a sheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The rows that it takes, one or two; the table's rows follow behind the last.
    pub rows: Vec<u32>,
    /// By rising number.
    pub columns: Vec<Column>,
}

/// What is wrong with a header, at a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderMistake {
    /// Row, from one.
    pub row: u32,
    /// Column, from one.
    pub column: u32,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub hint: String,
}

impl Header {
    /// Reads the header, of as many rows as given; without a number it is found: its first
    /// row, and the second if it is all words and names columns that the first does not. It
    /// begins in the row `from`, without that behind what only entitles the sheet.
    ///
    /// # Errors
    /// All mistakes in it.
    pub fn read(
        sheet: &Sheet,
        from: Option<u32>,
        rows: Option<u8>,
    ) -> Result<Self, Vec<HeaderMistake>> {
        let begin = match from {
            Some(from) => sheet.rows.partition_point(|row| row.number < from),
            None => titles(&sheet.rows),
        };
        let below = &sheet.rows[begin..];
        let Some(first) = below.first() else {
            return Err(vec![HeaderMistake {
                row: from.unwrap_or(1),
                column: 1,
                what: match from {
                    Some(from) => format!("the sheet is empty from row {from} on"),
                    None => "the sheet is empty".to_owned(),
                },
                hint: "the first row names the columns, each further row is an experiment".into(),
            }]);
        };
        let second = below.get(1);
        let second = match rows {
            Some(2) => second,
            Some(_) => None,
            None => second.filter(|second| {
                let words = second.cells.iter().all(|(_, cell)| is_word(cell));
                let names_more = |(column, _): &(u32, CellValue)| first.cell(*column).is_none();
                words && second.cells.iter().any(names_more) && below.len() > 2
            }),
        };
        let mut header = Self {
            rows: std::iter::once(first)
                .chain(second)
                .map(|row| row.number)
                .collect(),
            columns: Vec::new(),
        };
        let mut wrong = Vec::new();
        if rows.is_none() && second.is_none() {
            wrong.extend(missing(first));
        }
        let mut group: Option<String> = None;
        let last = |row: &SheetRow| row.cells.last().map_or(0, |(column, _)| *column);
        let end = last(first).max(second.map_or(0, last));
        for number in 1..=end {
            let above = first.cell(number).map(CellValue::text);
            let Some(second) = second else {
                header.add(number, first.number, None, above);
                continue;
            };
            match (above, second.cell(number).map(CellValue::text)) {
                // A name over both rows, merged or not, ends the group before it.
                (Some(name), None) => {
                    group = None;
                    header.add(number, first.number, None, Some(name));
                }
                (above, name) => {
                    group = above.map(str::to_owned).or(group);
                    header.add(number, second.number, group.clone(), name);
                }
            }
        }
        wrong.extend(header.repeated());
        if wrong.is_empty() {
            Ok(header)
        } else {
            Err(wrong)
        }
    }

    fn add(&mut self, number: u32, row: u32, group: Option<String>, name: Option<&str>) {
        if let Some(name) = name {
            self.columns.push(Column {
                number,
                row,
                group,
                name: name.split_whitespace().collect::<Vec<_>>().join(" "),
            });
        }
    }

    fn repeated(&self) -> Vec<HeaderMistake> {
        let mut seen: HashMap<String, u32> = HashMap::new();
        let mut wrong = Vec::new();
        for column in &self.columns {
            let full = column.full();
            match seen.get(&full) {
                Some(first) => wrong.push(HeaderMistake {
                    row: column.row,
                    column: column.number,
                    what: format!(
                        "`{full}` names two columns, {} and {}",
                        crate::column_name(*first),
                        crate::column_name(column.number)
                    ),
                    hint: "give each column a name of its own, or a row above with names of groups"
                        .to_owned(),
                }),
                None => {
                    seen.insert(full, column.number);
                }
            }
        }
        wrong
    }
}

/// How many rows entitle the sheet and are above its header: those before a blank row that have
/// fewer cells than the row behind it, and a row of one cell that no column stands left of. What
/// follows has to be all words.
fn titles(rows: &[SheetRow]) -> usize {
    let is_header =
        |row: &SheetRow| row.cells.len() > 1 && row.cells.iter().all(|(_, cell)| is_word(cell));
    let is_blank = |pair: &[SheetRow]| pair[0].number + 1 < pair[1].number;
    let mut begin = 0;
    loop {
        let left = &rows[begin..];
        let gap = left.windows(2).position(is_blank);
        let entitles = |gap: usize| {
            let behind = &left[gap + 1];
            let is_short = |row: &SheetRow| row.cells.len() < behind.cells.len();
            is_header(behind) && left[..=gap].iter().all(is_short)
        };
        if let Some(gap) = gap.filter(|gap| *gap < TITLES_MAX && entitles(*gap)) {
            begin += gap + 1;
            continue;
        }
        match left {
            [title, names, _, ..] => {
                let column = |row: &SheetRow| row.cells.first().map_or(0, |(column, _)| *column);
                let is_title = title.cells.len() == 1 && column(title) <= column(names);
                if !is_title || !is_header(names) {
                    return begin;
                }
                begin += 1;
            }
            _ => return begin,
        }
    }
}

/// Most rows of one block above a header.
const TITLES_MAX: usize = 20;

/// Text that is no number.
fn is_word(cell: &CellValue) -> bool {
    match cell {
        CellValue::Text(text) => text.parse::<f64>().is_err(),
        CellValue::Number(_)
        | CellValue::Bool(_)
        | CellValue::Date(_)
        | CellValue::Error(_)
        | CellValue::Uncomputed => false,
    }
}

/// The first row of a table without a header holds values.
fn missing(first: &SheetRow) -> Option<HeaderMistake> {
    let (column, cell) = first.cells.iter().find(|(_, cell)| !is_word(cell))?;
    Some(HeaderMistake {
        row: first.number,
        column: *column,
        what: format!("the first row names the columns, and this cell holds `{}`", cell.text()),
        hint: "put a row with names above the values; in the YAML file beside the table, `table: {header: 3}` names the row with the names, `header_rows: 1` takes numbers as names".to_owned(),
    })
}
