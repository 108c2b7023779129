//! Random books: after a change exactly the wanted cells differ, whatever the variant. Before and
//! after it all cells are read as an independent reader reads them.

use std::collections::{BTreeMap, BTreeSet};

use nero_table::CellValue;
use nero_workbook::{BookFormat, CellChange, CellObstacle, CellOutcome, TargetSheet, edit};

use crate::kinds::compare;
use crate::rig::{
    OdsBook, XlsxBook, book, cells, different_cells, different_parts, number, open_document,
    package, text, write,
};

const XLSX_BOOKS: u64 = 200;
const ODS_BOOKS: u64 = 100;

/// Pseudo-random numbers: the same book for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn value(&mut self) -> CellValue {
        const TEXTS: [&str; 6] = [
            "running",
            "a & <b>",
            " blank ",
            "=1+1",
            "ä\u{1f642}",
            "_x0041_",
        ];
        match self.below(4) {
            0 => number(self.below(1_000_000) as f64 / 64.0),
            1 => number(-1.0 - self.below(1000) as f64),
            2 => text(TEXTS[self.below(6) as usize]),
            _ => CellValue::Bool(self.chance(50)),
        }
    }
}

/// What stands in a cell of a random book.
#[derive(Debug, Clone)]
enum Content {
    Styled,
    Value(CellValue),
    Formula,
}

type Grid = BTreeMap<(u32, u32), Content>;

fn grid(dice: &mut Dice) -> Grid {
    let (rows, columns) = (1 + dice.below(12) as u32, 1 + dice.below(8) as u32);
    let mut grid = Grid::new();
    for row in 0..rows {
        if dice.chance(15) {
            continue;
        }
        for column in 0..columns {
            let content = match dice.below(10) {
                0..=3 => continue,
                4 => Content::Styled,
                5 => Content::Formula,
                _ => Content::Value(dice.value()),
            };
            grid.insert((row, column), content);
        }
    }
    grid
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace("_x0041_", "_x005F_x0041_")
}

fn name(row: u32, column: u32) -> String {
    let letter = char::from(b'A' + column as u8);
    format!("{letter}{}", row + 1)
}

/// The grid as a sheet, with what programs do in one way or another chosen by chance.
fn xlsx(dice: &mut Dice, grid: &Grid) -> Vec<u8> {
    let p = if dice.chance(30) { "x:" } else { "" };
    let (names_rows, names_cells) = (dice.chance(60), dice.chance(60));
    let has_spans = dice.chance(50);
    let newline = if dice.chance(30) { "\r\n  " } else { "" };
    let mut texts = Vec::new();
    let mut rows = String::new();
    let last = grid.keys().next_back().map_or(0, |place| place.0);
    for row in 0..=last {
        let cells: Vec<_> = grid.range((row, 0)..(row + 1, 0)).collect();
        if cells.is_empty() && names_rows && dice.chance(60) {
            continue;
        }
        let number = if names_rows {
            format!(" r=\"{}\"", row + 1)
        } else {
            String::new()
        };
        let spans = if has_spans { " spans='1:2'" } else { "" };
        if cells.is_empty() {
            rows.push_str(&format!("<{p}row{number}{spans}/>"));
            continue;
        }
        rows.push_str(&format!("{newline}<{p}row{number}{spans}>"));
        let mut next = 0;
        for (place, content) in cells {
            let is_next = place.1 == next;
            next = place.1 + 1;
            let r = if names_cells || !is_next {
                format!(" r='{}'", name(place.0, place.1))
            } else {
                String::new()
            };
            let style = if dice.chance(40) { " s=\"1\"" } else { "" };
            let cell = match content {
                Content::Styled => format!("<{p}c{r}{style}/>"),
                Content::Formula => {
                    // Only what is never written is read by it.
                    format!("<{p}c{r}{style}><{p}f>$Z$99*2</{p}f><{p}v>42</{p}v></{p}c>")
                }
                Content::Value(CellValue::Number(number)) => {
                    format!("<{p}c{r}{style}><{p}v>{number}</{p}v></{p}c>")
                }
                Content::Value(CellValue::Bool(value)) => {
                    format!(
                        "<{p}c{r} t='b'{style}><{p}v>{}</{p}v></{p}c>",
                        u8::from(*value)
                    )
                }
                Content::Value(value) => {
                    let text = escaped(value.text());
                    match dice.below(2) {
                        0 => format!(
                            "<{p}c{r}{style} t=\"inlineStr\"><{p}is><{p}t xml:space='preserve'>{text}</{p}t></{p}is></{p}c>"
                        ),
                        _ => {
                            texts.push(format!("<si><t xml:space='preserve'>{text}</t></si>"));
                            format!(
                                "<{p}c{r}{style} t='s'><{p}v>{}</{p}v></{p}c>",
                                texts.len() - 1
                            )
                        }
                    }
                }
            };
            rows.push_str(&cell);
        }
        rows.push_str(&format!("{newline}</{p}row>"));
    }
    let list = if rows.is_empty() {
        format!("<{p}sheetData/>")
    } else {
        format!("<{p}sheetData>{rows}</{p}sheetData>")
    };
    let space = match p {
        "" => "xmlns",
        _ => "xmlns:x",
    };
    let sheet = format!(
        "<?xml version='1.0' encoding='UTF-8' standalone='yes'?>{newline}\
         <{p}worksheet {space}='http://schemas.openxmlformats.org/spreadsheetml/2006/main'>{list}</{p}worksheet>"
    );
    let texts = format!("<sst>{}</sst>", texts.concat());
    let noise: String = (0..dice.below(3000))
        .map(|_| char::from(b'a' + dice.below(26) as u8))
        .collect();
    book(
        &sheet,
        &[
            ("[Content_Types].xml", "<Types/>"),
            ("xl/sharedStrings.xml", &texts),
            ("docProps/app.xml", &noise),
        ],
    )
}

fn ods(dice: &mut Dice, grid: &Grid) -> Vec<u8> {
    let mut rows = String::new();
    let last = grid.keys().next_back().map_or(0, |place| place.0);
    let mut empty = 0;
    let blank = |count: u32| match count {
        0 => String::new(),
        count => format!(
            "<table:table-row table:number-rows-repeated=\"{count}\"><table:table-cell table:number-columns-repeated=\"30\"/></table:table-row>"
        ),
    };
    for row in 0..=last {
        let cells: Vec<_> = grid.range((row, 0)..(row + 1, 0)).collect();
        if cells.is_empty() {
            empty += 1;
            continue;
        }
        rows.push_str(&blank(std::mem::take(&mut empty)));
        rows.push_str("<table:table-row>");
        let mut next = 0;
        for (place, content) in cells {
            if place.1 > next {
                let gap = place.1 - next;
                rows.push_str(&format!(
                    "<table:table-cell table:number-columns-repeated=\"{gap}\"/>"
                ));
            }
            next = place.1 + 1;
            let style = if dice.chance(40) {
                " table:style-name=\"ce1\""
            } else {
                ""
            };
            let cell = |attributes: String, text: &str| {
                let text = escaped(text).replace("_x005F_", "_");
                // A blank at either end counts where it is an element.
                let text = match text
                    .strip_prefix(' ')
                    .and_then(|text| text.strip_suffix(' '))
                {
                    Some(inner) => format!("<text:s/>{inner}<text:s/>"),
                    None => text,
                };
                format!(
                    "<table:table-cell{style}{attributes}><text:p>{text}</text:p></table:table-cell>"
                )
            };
            let float =
                |number: &str| format!(" office:value-type=\"float\" office:value=\"{number}\"");
            rows.push_str(&match content {
                Content::Styled => format!("<table:table-cell{style}/>"),
                Content::Formula => cell(
                    format!(" table:formula=\"of:=[.$Z$99]*2\"{}", float("42")),
                    "42",
                ),
                Content::Value(CellValue::Number(number)) => cell(float(number), number),
                Content::Value(CellValue::Bool(value)) => cell(
                    format!(" office:value-type=\"boolean\" office:boolean-value=\"{value}\""),
                    "x",
                ),
                Content::Value(value) => {
                    cell(" office:value-type=\"string\"".to_owned(), value.text())
                }
            });
        }
        if dice.chance(70) {
            rows.push_str("<table:table-cell table:number-columns-repeated=\"16\"/>");
        }
        rows.push_str("</table:table-row>");
    }
    rows.push_str(&blank(empty + 20));
    open_document(&format!(
        "<table:table table:name=\"One\">{rows}</table:table>"
    ))
}

/// Cells to write, and what shall become of each.
fn changes(dice: &mut Dice, grid: &Grid) -> (Vec<CellChange>, Vec<CellOutcome>) {
    let mut seen = BTreeSet::new();
    let (mut cells, mut outcomes) = (Vec::new(), Vec::new());
    for _ in 0..1 + dice.below(15) {
        let place = (dice.below(15) as u32, dice.below(10) as u32);
        if !seen.insert(place) {
            continue;
        }
        let value = dice.value();
        let mut ours = Vec::new();
        outcomes.push(match grid.get(&place) {
            None | Some(Content::Styled) => CellOutcome::Written,
            Some(Content::Formula) => CellOutcome::Left(CellObstacle::Formula),
            Some(Content::Value(held)) if *held == value => CellOutcome::Same,
            Some(Content::Value(held)) if dice.chance(50) => {
                ours = vec![text("before"), held.clone(), text("after")];
                CellOutcome::Written
            }
            Some(Content::Value(held)) => CellOutcome::Left(CellObstacle::Owner {
                shows: match held {
                    CellValue::Bool(true) => "TRUE".to_owned(),
                    CellValue::Bool(false) => "FALSE".to_owned(),
                    held => held.text().to_owned(),
                },
            }),
        });
        cells.push(CellChange {
            row: place.0,
            column: place.1,
            value: Some(value),
            ours,
        });
    }
    (cells, outcomes)
}

/// Writes into the book of a seed and compares every part and every cell.
fn check(format: BookFormat, seed: u64) {
    let mut dice = Dice(seed);
    let grid = grid(&mut dice);
    let before = match format {
        XlsxBook => xlsx(&mut dice, &grid),
        _ => ods(&mut dice, &grid),
    };
    let name = format!("{seed}.{}", if format == XlsxBook { "xlsx" } else { "ods" });
    compare(&name, &before);
    let (wanted, outcomes) = changes(&mut dice, &grid);
    let edited = write(format, &before, 0, &wanted);
    assert_eq!(edited.outcomes, outcomes, "seed {seed}");
    let written: Vec<&CellChange> = wanted
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| **outcome == CellOutcome::Written)
        .map(|(cell, _)| cell)
        .collect();
    let Some(after) = edited.bytes else {
        assert!(written.is_empty(), "seed {seed}");
        return;
    };
    compare(&name, &after);
    let part = match format {
        XlsxBook => "xl/worksheets/one.xml",
        _ => "content.xml",
    };
    assert_eq!(different_parts(&before, &after), [part], "seed {seed}");
    let places = |cells: &[&CellChange]| -> BTreeSet<(String, u32, u32)> {
        let places = cells
            .iter()
            .map(|cell| ("One".to_owned(), cell.row, cell.column));
        places.collect()
    };
    let different: BTreeSet<_> = different_cells(format, &before, &after)
        .into_iter()
        .collect();
    assert_eq!(different, places(&written), "seed {seed}");
    let held = cells(format, &after);
    for cell in written {
        let shown = match &cell.value {
            Some(CellValue::Number(number)) => {
                format!("Float({:?})", number.parse::<f64>().unwrap())
            }
            Some(CellValue::Bool(value)) => format!("Bool({value})"),
            Some(CellValue::Text(text)) => format!("String({text:?})"),
            _ => continue,
        };
        assert_eq!(
            held[&("One".to_owned(), cell.row, cell.column)],
            shown,
            "seed {seed}"
        );
    }
    // All of it is there now.
    let again = write(format, &after, 0, &wanted);
    assert!(again.bytes.is_none(), "seed {seed}: {:?}", again.outcomes);
}

#[test]
fn only_the_wanted_cells_of_random_workbooks_differ() {
    for seed in 0..XLSX_BOOKS {
        check(XlsxBook, seed);
    }
}

#[test]
fn only_the_wanted_cells_of_random_open_documents_differ() {
    for seed in 0..ODS_BOOKS {
        check(OdsBook, seed);
    }
}

/// The control: a cell or part that changes without being asked for is found.
#[test]
fn damage_is_found() {
    let of = |value: &str, more: &str| {
        let sheet = format!(
            "<worksheet><sheetData><row r='1'><c r='A1'><v>1</v></c><c r='B1'><v>{value}</v></c></row></sheetData></worksheet>"
        );
        book(&sheet, &[("docProps/app.xml", more)])
    };
    let before = of("2", "a");
    let place = ("One".to_owned(), 0, 1);
    assert_eq!(different_cells(XlsxBook, &before, &of("3", "a")), [place]);
    assert_eq!(
        different_parts(&before, &of("2", "b")),
        ["docProps/app.xml"]
    );
    let reordered = package(&[("b", ""), ("a", "")]);
    let order =
        std::panic::catch_unwind(|| different_parts(&package(&[("a", ""), ("b", "")]), &reordered));
    assert!(order.is_err());
}

/// Parts that some program damaged: each is refused or written, and nothing else happens.
#[test]
fn a_damaged_part_is_refused_or_written() {
    let texts = ("xl/sharedStrings.xml", "<sst><si><t>a</t></si></sst>");
    let sheet = "<worksheet><dimension ref=\"A1:C3\"/><cols><col min=\"1\" max=\"2\" style=\"3\"/></cols><sheetData>\
        <row r=\"1\" spans=\"1:3\"><c r=\"A1\" t=\"s\"><v>0</v></c><c r=\"B1\"><f>SUM('One'!A$1:$B2,\"x\")</f><v>2</v></c></row>\
        <row r=\"2\"><c r=\"A2\" s=\"1\"><v>1</v></c><c r=\"B2\" t=\"inlineStr\"><is><t>_x0041_</t></is></c></row><row r=\"3\"/>\
        </sheetData><mergeCells count=\"1\"><mergeCell ref=\"C1:C2\"/></mergeCells></worksheet>";
    let table = "<table:table table:name=\"One\"><table:table-row table:number-rows-repeated=\"3\"><table:table-cell table:number-columns-repeated=\"4\"/></table:table-row>\
        <table:table-row><table:table-cell office:value-type=\"string\"><text:p>a<text:s text:c=\"2\"/></text:p></table:table-cell><table:table-cell table:formula=\"of:=[.A1]+[$One.B2:.B3]\" office:value-type=\"float\" office:value=\"1\"><text:p>1</text:p></table:table-cell></table:table-row></table:table>";
    let wanted: Vec<CellChange> = [(0, 0), (0, 2), (1, 0), (2, 1), (3, 0), (5, 1)]
        .map(|(row, column)| CellChange {
            row,
            column,
            value: Some(text("x")),
            ours: vec![text("a"), number(1.0)],
        })
        .to_vec();
    let of = TargetSheet {
        name: None,
        first_row: 0,
    };
    let (mut refused, mut changed) = (0, 0);
    for seed in 0..1500 {
        let mut dice = Dice(seed);
        let (format, whole) = if dice.chance(60) {
            (XlsxBook, sheet)
        } else {
            (OdsBook, table)
        };
        let mut bytes = whole.as_bytes().to_vec();
        for _ in 0..1 + dice.below(3) {
            let at = dice.below(bytes.len() as u64) as usize;
            match dice.below(4) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, b"<>/\"'= :&;$!#[]0Z9\xc3"[dice.below(19) as usize]),
                2 => bytes.truncate(at + 1),
                _ => bytes[at] = b"<>/\"'= :&;$!#[]0Z9a"[dice.below(19) as usize],
            }
        }
        let part = String::from_utf8_lossy(&bytes);
        let damaged = match format {
            XlsxBook => book(&part, &[texts]),
            _ => open_document(&part),
        };
        match edit(format, &damaged, of, &wanted) {
            Err(_) => refused += 1,
            Ok(edited) => {
                changed += 1;
                // What was written is no more damaged than before.
                if let Some(bytes) = edited.bytes {
                    edit(format, &bytes, of, &wanted).unwrap();
                }
            }
        }
    }
    assert!(
        refused > 200 && changed > 200,
        "{refused} refused, {changed} written"
    );
}
