//! Which cells a formula reads, as far as its text tells.
//!
//! Anything but plain references, names of areas, columns of tables, constants, operators and calls
//! makes it a formula that may read every cell: references that are computed, ranges over sheets.

use std::collections::HashMap;

use crate::place::{self, COLUMNS_MAX, ROWS_MAX, Rect, Spot};

/// Functions that read cells which their arguments do not name.
const COMPUTED: &[&str] = &[
    "INDIRECT",
    "OFFSET",
    "SUMIF",
    "AVERAGEIF",
    "CELL",
    "INFO",
    "GETPIVOTDATA",
    "MULTIPLE.OPERATIONS",
];

/// What a formula reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reads {
    /// These and nothing else.
    Cells(Vec<Reference>),
    /// Perhaps every cell.
    Anything,
}

/// A rectangle of cells that a formula names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reference {
    /// Index of the sheet.
    pub sheet: usize,
    from: Corner,
    to: Corner,
}

/// One corner: row and column, each with whether it is fixed by `$`. A whole column has no row.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Corner {
    row: Option<(u32, bool)>,
    column: Option<(u32, bool)>,
}

/// The truth value that a formula of no other part is.
pub(crate) fn constant(text: &str) -> Option<bool> {
    match text.strip_prefix("of:=").unwrap_or(text) {
        "TRUE()" => Some(true),
        "FALSE()" => Some(false),
        _ => None,
    }
}

/// What names in formulas stand for. Their case does not count.
#[derive(Debug, Default)]
pub(crate) struct NamedAreas {
    names: HashMap<String, Reads>,
    tables: HashMap<String, TableArea>,
}

/// A table of Excel.
#[derive(Debug)]
pub(crate) struct TableArea {
    pub sheet: usize,
    /// With its header and totals.
    pub area: Rect,
    /// The names of its columns.
    pub columns: Vec<String>,
}

impl NamedAreas {
    /// Adds a name for what a formula reads, which belongs to no cell.
    pub fn name(&mut self, name: &str, reads: Reads) {
        let reads = match reads {
            Reads::Cells(found) if found.iter().all(Reference::is_fixed) => Reads::Cells(found),
            // Seen from another cell it means another one.
            Reads::Cells(_) | Reads::Anything => Reads::Anything,
        };
        // Two sheets may have a name each.
        self.names
            .entry(name.to_lowercase())
            .and_modify(|reads| *reads = Reads::Anything)
            .or_insert(reads);
    }

    pub fn table(&mut self, name: &str, table: TableArea) {
        self.tables.insert(name.to_lowercase(), table);
    }
}

impl TableArea {
    /// The area of what stands in the brackets behind the table's name: `loss`,
    /// `[#This Row],[loss]`, `[lr]:[layers]`. Of the columns all rows count.
    fn part(&self, brackets: &str) -> Option<Reference> {
        let mut parts = vec![String::new()];
        let mut is_inner = !brackets.trim_start().starts_with('[');
        let mut chars = brackets.chars();
        while let Some(c) = chars.next() {
            match c {
                '\'' => parts.last_mut()?.push(chars.next()?),
                '[' => {
                    is_inner = true;
                    parts.push(String::new());
                }
                ']' => is_inner = false,
                c if is_inner => parts.last_mut()?.push(c),
                ',' | ':' | ' ' => {}
                _ => return None,
            }
        }
        let named = parts
            .iter()
            .filter(|part| !part.is_empty() && !part.starts_with('#'));
        let columns: Option<Vec<u32>> = named.map(|part| self.column(part)).collect();
        let columns = columns?;
        let rows = self.area.rows;
        let (from, to) = match (columns.iter().min(), columns.iter().max()) {
            (Some(from), Some(to)) => (*from, *to),
            _ => self.area.columns,
        };
        let corner = |row, column| Corner {
            row: Some((row, true)),
            column: Some((column, true)),
        };
        Some(Reference {
            sheet: self.sheet,
            from: corner(rows.0, from),
            to: corner(rows.1, to),
        })
    }

    fn column(&self, name: &str) -> Option<u32> {
        let mut columns = self.columns.iter();
        let at = columns.position(|column| column.to_lowercase() == name.to_lowercase())?;
        Some(self.area.columns.0 + u32::try_from(at).ok()?)
    }
}

/// Sheets by their names.
pub(crate) struct Sheets<'a> {
    pub names: &'a [String],
    /// The sheet that a reference without a sheet means; `None` outside of all sheets.
    pub own: Option<usize>,
    pub areas: &'a NamedAreas,
}

impl Sheets<'_> {
    fn find(&self, name: &str) -> Option<usize> {
        let mut names = self.names.iter();
        names.position(|sheet| sheet.to_lowercase() == name.to_lowercase())
    }
}

impl Reads {
    /// What a formula of Excel reads.
    pub fn excel(text: &str, sheets: &Sheets<'_>) -> Self {
        let reader = FormulaReader::new(text, sheets, Syntax::Excel);
        reader.read().map_or(Self::Anything, Self::Cells)
    }

    /// What a formula of an OpenDocument table reads.
    pub fn open_document(text: &str, sheets: &Sheets<'_>) -> Self {
        let Some(text) = text.strip_prefix("of:") else {
            return Self::Anything;
        };
        let reader = FormulaReader::new(text, sheets, Syntax::OpenDocument);
        reader.read().map_or(Self::Anything, Self::Cells)
    }

    /// The same formula in another cell: references without `$` move along.
    pub fn moved(&self, from: Spot, to: Spot) -> Self {
        let Self::Cells(references) = self else {
            return Self::Anything;
        };
        let rows = i64::from(to.0) - i64::from(from.0);
        let columns = i64::from(to.1) - i64::from(from.1);
        let moved: Option<Vec<Reference>> = references
            .iter()
            .map(|reference| {
                Some(Reference {
                    sheet: reference.sheet,
                    from: reference.from.moved(rows, columns)?,
                    to: reference.to.moved(rows, columns)?,
                })
            })
            .collect();
        moved.map_or(Self::Anything, Self::Cells)
    }
}

impl Reference {
    /// Whether it means the same from every cell.
    fn is_fixed(&self) -> bool {
        let corners = [self.from.row, self.from.column, self.to.row, self.to.column];
        corners.into_iter().flatten().all(|(_, is_fixed)| is_fixed)
    }

    pub fn rect(&self) -> Rect {
        let sorted = |a: Option<(u32, bool)>, b: Option<(u32, bool)>, max: u32| match (a, b) {
            (Some((a, _)), Some((b, _))) => (a.min(b), a.max(b)),
            _ => (0, max - 1),
        };
        Rect {
            rows: sorted(self.from.row, self.to.row, ROWS_MAX),
            columns: sorted(self.from.column, self.to.column, COLUMNS_MAX),
        }
    }
}

impl Corner {
    fn moved(&self, rows: i64, columns: i64) -> Option<Self> {
        // A reference that moves over the edge comes in at the other side: in doubt.
        let one = |part: Option<(u32, bool)>, by: i64, max: u32| match part {
            Some((at, false)) => {
                let at = u32::try_from(i64::from(at) + by).ok()?;
                (at < max).then_some(Some((at, false)))
            }
            fixed => Some(fixed),
        };
        Some(Self {
            row: one(self.row, rows, ROWS_MAX)?,
            column: one(self.column, columns, COLUMNS_MAX)?,
        })
    }

    /// `$C7`, `C`, `$7`.
    fn read(text: &str) -> Option<Self> {
        let (is_fixed, rest) = unfixed(text);
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic());
        let letters = &rest[..letters.unwrap_or(rest.len())];
        if letters.is_empty() {
            let row = Some((place::row(rest)?, is_fixed));
            return Some(Self { row, column: None });
        }
        let column = Some((place::column(letters)?, is_fixed));
        let rest = &rest[letters.len()..];
        if rest.is_empty() {
            return Some(Self { row: None, column });
        }
        let (is_fixed, digits) = unfixed(rest);
        let row = Some((place::row(digits)?, is_fixed));
        Some(Self { row, column })
    }

    fn is_cell(&self) -> bool {
        self.row.is_some() && self.column.is_some()
    }

    /// Whether both are cells, both columns, or both rows.
    fn is_kind_of(&self, other: &Self) -> bool {
        self.row.is_some() == other.row.is_some() && self.column.is_some() == other.column.is_some()
    }
}

fn unfixed(text: &str) -> (bool, &str) {
    match text.strip_prefix('$') {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Syntax {
    /// `'My sheet'!A1`
    Excel,
    /// `['My sheet'.A1]`
    OpenDocument,
}

struct FormulaReader<'a> {
    rest: &'a str,
    sheets: &'a Sheets<'a>,
    syntax: Syntax,
    found: Vec<Reference>,
}

/// `None` of its methods means that the formula may read anything.
impl<'a> FormulaReader<'a> {
    fn new(text: &'a str, sheets: &'a Sheets<'a>, syntax: Syntax) -> Self {
        Self {
            rest: text,
            sheets,
            syntax,
            found: Vec::new(),
        }
    }

    fn read(mut self) -> Option<Vec<Reference>> {
        while let Some(c) = self.rest.chars().next() {
            match c {
                '"' => drop(self.quoted('"')?),
                '[' if self.syntax == Syntax::OpenDocument => self.bracket()?,
                '\'' if self.syntax == Syntax::Excel => self.on_quoted_sheet()?,
                '#' => self.error_value()?,
                // A range between results, a table, another workbook.
                ':' | '[' | ']' | '\'' => return None,
                '0'..='9' | '.' => self.number_or_rows()?,
                '$' | '_' | '\\' | '?' => self.read_word()?,
                c if c.is_alphabetic() => self.read_word()?,
                c => self.rest = &self.rest[c.len_utf8()..],
            }
        }
        Some(self.found)
    }

    /// Reads a quoted text, whose quotes are doubled within.
    fn quoted(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        let mut rest = &self.rest[1..];
        loop {
            let end = rest.find(quote)?;
            text.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            let Some(more) = rest.strip_prefix(quote) else {
                break;
            };
            text.push(quote);
            rest = more;
        }
        self.rest = rest;
        Some(text)
    }

    /// `#N/A`. The sign behind a cell asks for all that its formula yields.
    fn error_value(&mut self) -> Option<()> {
        let rest = &self.rest[1..];
        if !rest.starts_with(|c: char| c.is_ascii_uppercase()) {
            return None;
        }
        let end = rest.find(|c: char| !matches!(c, 'A'..='Z' | '0'..='9' | '/' | '_' | '!' | '?'));
        self.rest = &rest[end.unwrap_or(rest.len())..];
        Some(())
    }

    fn taken(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn number_or_rows(&mut self) -> Option<()> {
        let digits = self.taken(|c| c.is_ascii_digit() || c == '.');
        if self.rest.starts_with(':') && self.syntax == Syntax::Excel {
            return self.reference(Corner::read(digits)?, self.sheets.own?);
        }
        let exponent = self.rest.strip_prefix(['e', 'E']);
        if let Some(rest) = exponent {
            let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
            if rest.starts_with(|c: char| c.is_ascii_digit()) {
                self.rest = rest;
                self.taken(|c| c.is_ascii_digit());
            }
        }
        Some(())
    }

    fn on_quoted_sheet(&mut self) -> Option<()> {
        let name = self.quoted('\'')?;
        self.rest = self.rest.strip_prefix('!')?;
        let sheet = self.sheets.find(&name)?;
        self.on_sheet(sheet)
    }

    fn on_sheet(&mut self, sheet: usize) -> Option<()> {
        let corner = self.taken(|c| c.is_ascii_alphanumeric() || c == '$');
        self.reference(Corner::read(corner)?, sheet)
    }

    fn read_word(&mut self) -> Option<()> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '$' | '_' | '.' | '\\' | '?');
        let word = self.taken(is_part);
        if word.is_empty() {
            return None;
        }
        let lower = word.to_lowercase();
        let named = self.sheets.areas.names.get(&lower);
        let named = named.filter(|_| !self.rest.starts_with('!'));
        match named {
            Some(Reads::Cells(found)) => self.found.extend(found),
            Some(Reads::Anything) => return None,
            None => {}
        }
        if self.rest.trim_start().starts_with('(') {
            let name = word.rsplit('.').next().unwrap_or(word).to_ascii_uppercase();
            let whole = word.to_ascii_uppercase();
            let is_computed = COMPUTED.contains(&name.as_str()) || COMPUTED.contains(&&*whole);
            return (!is_computed).then_some(());
        }
        if named.is_some() || matches!(lower.as_str(), "true" | "false") {
            return Some(());
        }
        if self.syntax == Syntax::OpenDocument {
            return None;
        }
        if let Some(table) = self.sheets.areas.tables.get(&lower) {
            let brackets = self.brackets()?;
            self.found.push(table.part(brackets)?);
            return Some(());
        }
        if let Some(rest) = self.rest.strip_prefix('!') {
            self.rest = rest;
            let sheet = self.sheets.find(word)?;
            return self.on_sheet(sheet);
        }
        self.reference(Corner::read(word)?, self.sheets.own?)
    }

    /// What stands in the brackets that follow; nothing without brackets.
    fn brackets(&mut self) -> Option<&'a str> {
        let Some(rest) = self.rest.strip_prefix('[') else {
            return Some("");
        };
        let (mut depth, mut is_escaped) = (1_u32, false);
        let end = rest.find(|c: char| {
            match c {
                _ if is_escaped => is_escaped = false,
                '\'' => is_escaped = true,
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        self.rest = &rest[end + 1..];
        Some(&rest[..end])
    }

    /// The reference that begins with this corner.
    fn reference(&mut self, from: Corner, sheet: usize) -> Option<()> {
        let to = match self.rest.strip_prefix(':') {
            Some(rest) => {
                self.rest = rest;
                Corner::read(self.taken(|c| c.is_ascii_alphanumeric() || c == '$'))?
            }
            None if from.is_cell() => from,
            None => return None,
        };
        if self.rest.starts_with(['!', '#', '(', '.', '_', ':']) {
            return None;
        }
        self.add(sheet, from, to)
    }

    fn add(&mut self, sheet: usize, from: Corner, to: Corner) -> Option<()> {
        from.is_kind_of(&to)
            .then(|| self.found.push(Reference { sheet, from, to }))
    }

    /// `[.A1]`, `[$'My sheet'.A1:.B2]`.
    fn bracket(&mut self) -> Option<()> {
        self.rest = &self.rest[1..];
        if self.rest.starts_with("#REF!]") {
            self.rest = &self.rest["#REF!]".len()..];
            return Some(());
        }
        let (from, sheet) = self.corner_with_sheet(self.sheets.own)?;
        let mut to = from;
        if let Some(rest) = self.rest.strip_prefix(':') {
            self.rest = rest;
            let (corner, other) = self.corner_with_sheet(Some(sheet))?;
            if other != sheet {
                return None;
            }
            to = corner;
        }
        self.rest = self.rest.strip_prefix(']')?;
        self.add(sheet, from, to)
    }

    fn corner_with_sheet(&mut self, own: Option<usize>) -> Option<(Corner, usize)> {
        self.rest = unfixed(self.rest).1;
        let sheet = match self.rest.chars().next()? {
            '.' => own?,
            '\'' => {
                let name = self.quoted('\'')?;
                self.sheets.find(&name)?
            }
            _ => {
                let name = self.taken(|c| !matches!(c, '.' | ':' | ']' | '#'));
                self.sheets.find(name)?
            }
        };
        self.rest = self.rest.strip_prefix('.')?;
        let corner = self.taken(|c| c.is_ascii_alphanumeric() || c == '$');
        Some((Corner::read(corner)?, sheet))
    }
}

#[cfg(test)]
mod tests {
    use super::{NamedAreas, Reads, Sheets, TableArea};
    use crate::place::Rect;

    fn names() -> Vec<String> {
        ["One", "My sheet", "A.b"].map(str::to_owned).to_vec()
    }

    fn shown(reads: &Reads) -> String {
        match reads {
            Reads::Anything => "anything".to_owned(),
            Reads::Cells(references) => references
                .iter()
                .map(|one| format!("{}!{}", one.sheet, one.rect().text()))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }

    #[test]
    fn a_formula_of_excel_reads_what_it_names_or_anything() {
        let names = names();
        let sheets = Sheets {
            names: &names,
            own: Some(0),
            areas: &NamedAreas::default(),
        };
        for (text, reads) in [
            ("E3*2", "0!E3"),
            ("1.5e-3+2E5*$B$2", "0!B2"),
            ("SUM(A1:B3,'My sheet'!C$4) & \"D5 \"\"x\"", "0!A1:B3 1!C4"),
            ("one!a1+A.b!B2", "0!A1 2!B2"),
            ("SUM(B:B)", "0!B1:B1048576"),
            ("SUM(2:$3)", "0!A2:XFD3"),
            ("IF(A1=#N/A,TRUE,{1,2;3,4})", "0!A1"),
            ("LOG10(A1)+_xlfn.STDEV.S(B1:B9)", "0!A1 0!B1:B9"),
            ("A1:C3 B2:D4", "0!A1:C3 0!B2:D4"),
            ("PI()", ""),
            ("rate*2", "anything"),
            ("INDIRECT(\"A\"&1)", "anything"),
            ("SUMIF(A1:A9,1,B1)", "anything"),
            ("SUM(Table1[loss])", "anything"),
            ("One:A.b!A1", "anything"),
            ("'One:My sheet'!A1", "anything"),
            ("[1]Other!A1", "anything"),
            ("Unknown!A1", "anything"),
            ("A1:INDEX(B1:B9,3)", "anything"),
            ("INDEX(B1:B9,1):A1", "anything"),
            ("A1#", "anything"),
            ("ABCD1", "anything"),
            ("A1:B2:C3", "anything"),
            ("größe", "anything"),
        ] {
            assert_eq!(shown(&Reads::excel(text, &sheets)), reads, "{text}");
        }
    }

    #[test]
    fn a_formula_of_open_document_reads_what_it_names_or_anything() {
        let names = names();
        let sheets = Sheets {
            names: &names,
            own: Some(1),
            areas: &NamedAreas::default(),
        };
        for (text, reads) in [
            ("of:=[.E3]*2", "1!E3"),
            ("of:=SUM([.A1:.B3];[$One.C$4])", "1!A1:B3 0!C4"),
            ("of:=SUM([$'A.b'.A1:.A2])", "2!A1:A2"),
            ("of:=SUM([.B:.B])", "1!B1:B1048576"),
            ("of:=COM.MICROSOFT.CONCAT([.A1];\"[.B2]\")", "1!A1"),
            ("of:=[#REF!]", ""),
            ("of:=rate", "anything"),
            ("of:=OFFSET([.A1];1;1)", "anything"),
            ("of:=[$One.A1:$'A.b'.A2]", "anything"),
            ("of:=['file:///x.ods'#$One.A1]", "anything"),
            ("msoxl:=A1", "anything"),
        ] {
            assert_eq!(shown(&Reads::open_document(text, &sheets)), reads, "{text}");
        }
    }

    #[test]
    fn names_and_columns_of_tables_are_the_cells_that_they_stand_for() {
        let names = names();
        let nowhere = NamedAreas::default();
        let outside = Sheets {
            names: &names,
            own: None,
            areas: &nowhere,
        };
        let mut areas = NamedAreas::default();
        for (name, text) in [
            ("rate", "'My sheet'!$B$1"),
            ("Area", "One!$A:$B"),
            ("factor", "0.5"),
            ("left", "One!A1"),
            ("sheetless", "$A$1"),
            ("moving", "OFFSET(One!$A$1,1,1)"),
            ("twice", "One!$A$1"),
            ("mine", "_xlfn.LAMBDA(_xlpm.x,_xlpm.x*One!$A$1)"),
            ("one", "One!$C$1"),
            ("TWICE", "One!$A$2"),
        ] {
            areas.name(name, Reads::excel(text, &outside));
        }
        let table = TableArea {
            sheet: 1,
            area: Rect::read("B3:E9").unwrap(),
            columns: ["nr", "lr", "a [b]", "loss"].map(str::to_owned).to_vec(),
        };
        areas.table("Plan1", table);
        let sheets = Sheets {
            names: &names,
            own: Some(0),
            areas: &areas,
        };
        for (text, reads) in [
            ("Rate*A1*factor", "1!B1 0!A1"),
            ("SUM(area)", "0!A1:B1048576"),
            ("left+1", "anything"),
            ("sheetless", "anything"),
            ("moving", "anything"),
            ("twice", "anything"),
            ("rate:A9", "anything"),
            ("mine(A1)", "anything"),
            ("one!A1+ONE", "0!A1 0!C1"),
            ("SUM(plan1[LR])", "1!C3:C9"),
            ("Plan1[[#This Row],[lr]]*2", "1!C3:C9"),
            ("SUM(Plan1[[#Data],[nr]:[lr]])", "1!B3:C9"),
            ("Plan1[a '[b']]", "1!D3:D9"),
            ("COUNTA(Plan1[#All])+ROWS(Plan1)", "1!B3:E9 1!B3:E9"),
            ("Plan1[gone]", "anything"),
            ("Plan1[lr", "anything"),
            ("Plan2[lr]", "anything"),
        ] {
            assert_eq!(shown(&Reads::excel(text, &sheets)), reads, "{text}");
        }
        assert_eq!(shown(&Reads::open_document("of:=rate*2", &sheets)), "1!B1");
    }

    #[test]
    fn a_shared_formula_moves_with_its_cell() {
        let names = names();
        let sheets = Sheets {
            names: &names,
            own: Some(0),
            areas: &NamedAreas::default(),
        };
        let reads = Reads::excel("A1+$A$1+B:B", &sheets);
        let moved = reads.moved((0, 2), (4, 3));
        assert_eq!(shown(&moved), "0!B5 0!A1 0!C1:C1048576");
        assert_eq!(shown(&reads.moved((0, 2), (0, 1))), "anything");
    }
}
