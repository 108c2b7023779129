//! The process that makes a workbook.
//!
//! Rows are read and written one after the other. A file that is there is replaced only when it
//! is a workbook that this process made and no other program saved since.

mod ods;
mod xlsx;

use std::ffi::OsString;
use std::io::{BufRead, Cursor, Read as _};
use std::path::Path;
use std::process::ExitCode;

use nero_table::UnreadableTable;
use nero_table::book::{BookCell, NewBook};
use nero_workbook::{BookFile, BookFormat, create};

use crate::child;

/// What our workbooks call the program that made them.
const MAKER: &str = "neroman";
/// Bytes that are read of a part about the workbook.
const ABOUT_BYTES_MAX: u64 = 64 << 10;

/// Makes the workbook from its input as the file that the command line names behind its verb,
/// and prints the answer.
pub fn write_book(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(file) = arguments.next() else {
        return ExitCode::from(2);
    };
    child::print(&make(Path::new(&file), std::io::stdin().lock()))
}

/// Makes the file.
///
/// # Errors
/// Why the file is as it was.
fn make(path: &Path, input: impl BufRead) -> Result<(), UnreadableTable> {
    let format = BookFormat::of(path).ok().flatten();
    let old = match path.symlink_metadata() {
        Ok(_) => Some(BookFile::read(path).map_err(|error| child::of_file(&error))?),
        Err(_) => None,
    };
    if let Some(old) = old.as_ref().filter(|old| !old.bytes().is_empty())
        && !format.is_some_and(|format| is_ours(format, old.bytes()))
    {
        return Err(UnreadableTable::file(
            "it was not made by `neroman results`, or another program saved it since",
            "choose another name, or move it away",
        ));
    }
    let format = format.ok_or_else(|| failed("no workbook has such a name"))?;
    let bytes = make_book(format, input)?;
    let written = match old {
        Some(old) => old.replace(&bytes, false).map(|_| ()),
        None => create(path, &bytes),
    };
    written.map_err(|error| child::of_file(&error))
}

/// Makes a workbook in this format from its input.
///
/// # Errors
/// Why there is none.
pub fn make_book(format: BookFormat, input: impl BufRead) -> Result<Vec<u8>, UnreadableTable> {
    let mut lines = BookInput { input };
    let book: NewBook = lines.next()?;
    match format {
        BookFormat::Xlsx => xlsx::write(&book, &mut lines),
        BookFormat::Ods => ods::write(&book, &mut lines),
        BookFormat::Csv | BookFormat::Tsv => Err(failed("no workbook has such a name")),
    }
}

/// Whether we made a workbook, and no program saved it since.
fn is_ours(format: BookFormat, bytes: &[u8]) -> bool {
    let Ok(mut package) = zip::ZipArchive::new(Cursor::new(bytes)) else {
        return false;
    };
    let mut part = |name: &str| {
        let mut text = String::new();
        let part = package.by_name(name).ok()?;
        part.take(ABOUT_BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    };
    match format {
        BookFormat::Xlsx => part("docProps/core.xml").is_some_and(|about| {
            let moment = |name: &str| between(&about, &format!("<dcterms:{name} "), "</dcterms:");
            let is_untouched =
                moment("created").is_some() && moment("created") == moment("modified");
            between(&about, "<dc:creator>", "</dc:creator>") == Some(MAKER) && is_untouched
        }),
        BookFormat::Ods => part("meta.xml").is_some_and(|about| {
            between(&about, "<meta:generator>", "</meta:generator>") == Some(MAKER)
        }),
        BookFormat::Csv | BookFormat::Tsv => false,
    }
}

fn between<'a>(text: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    let (_, text) = text.split_once(before)?;
    Some(text.split_once(behind)?.0)
}

/// The input, line by line.
struct BookInput<R> {
    input: R,
}

impl<R: BufRead> BookInput<R> {
    fn next<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, UnreadableTable> {
        let next = nero_child::next_line(&mut self.input);
        let next = next.map_err(|error| failed(&error.to_string()))?;
        next.ok_or_else(|| failed("its rows end early"))
    }
}

/// Gives the rows of all sheets, one after the other.
trait BookRows {
    fn next_row(&mut self) -> Result<Vec<BookCell>, UnreadableTable>;
}

impl<R: BufRead> BookRows for BookInput<R> {
    fn next_row(&mut self) -> Result<Vec<BookCell>, UnreadableTable> {
        self.next()
    }
}

fn failed(why: &str) -> UnreadableTable {
    UnreadableTable::file(format!("could not be made: {why}"), "write .csv instead")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nero_table::book::{ChartKind, ChartSeries, NewChart, NewColumn, NewSheet, NumberFormat};
    use nero_table::{CellValue, Sheet, SheetRow};

    use super::*;

    fn column(title: &str, format: NumberFormat) -> NewColumn {
        NewColumn {
            title: title.to_owned(),
            width: 12,
            format,
            is_figures: format != NumberFormat::General,
        }
    }

    fn book(row_count: u32) -> NewBook {
        let columns = [
            column("text", NumberFormat::General),
            column("=loss", NumberFormat::Decimals(3)),
            column("at", NumberFormat::Moment),
        ];
        let sheet = |name: &str, row_count| NewSheet {
            name: name.to_owned(),
            columns: columns.to_vec(),
            has_filter: true,
            row_count,
        };
        let chart = NewChart {
            title: "=A1!B2".to_owned(),
            x_title: "Runs!A1".to_owned(),
            y_title: "loss".to_owned(),
            sheet: 0,
            kind: ChartKind::Lines,
            series: vec![ChartSeries {
                name: "=Runs!$A$1".to_owned(),
                x: 1,
                y: 1,
                rows: (0, row_count - 1),
            }],
        };
        NewBook {
            sheets: vec![sheet("Runs", row_count), sheet("A & B", 1)],
            charts: vec![chart],
        }
    }

    fn rows() -> Vec<Vec<BookCell>> {
        let text = |text: &str| Some(CellValue::Text(text.to_owned()));
        let number = |text: &str| Some(CellValue::Number(text.to_owned()));
        let date = |text: &str| Some(CellValue::Date(text.to_owned()));
        vec![
            vec![
                text("=HYPERLINK(\"http://x\",\"a\")"),
                number("0.30000000000000004"),
                date("2026-11-24T10:24:23"),
            ],
            vec![text("-1+1"), None, None],
            vec![text("two  <blanks>\nand & a line"), number("-1e-7"), None],
            vec![text("NaN"), text("inf"), date("1999-12-31T23:59:59")],
            vec![text("_x0041_"), number("20260520001"), None],
        ]
    }

    fn input(book: &NewBook, rows: &[Vec<BookCell>]) -> Vec<u8> {
        let mut lines = vec![serde_json::to_string(book).unwrap()];
        lines.extend(rows.iter().map(|row| serde_json::to_string(row).unwrap()));
        lines.join("\n").into_bytes()
    }

    fn made(name: &str) -> (tempfile::TempDir, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let rows = rows();
        let book = book(rows.len() as u32 - 1);
        make(&path, &input(&book, &rows)[..]).unwrap();
        let bytes = fs::read(path).unwrap();
        (folder, bytes)
    }

    /// The rows of a sheet below its header, as they were sent.
    fn cells(sheet: &Sheet) -> Vec<Vec<BookCell>> {
        let below = |row: &&SheetRow| row.number > 1;
        let row = |row: &SheetRow| (1..=3).map(|column| row.cell(column).cloned()).collect();
        sheet.rows.iter().filter(below).map(row).collect()
    }

    #[test]
    fn every_cell_is_read_as_it_was_sent() {
        for name in ["x.xlsx", "x.ods"] {
            let (_folder, bytes) = made(name);
            let ending = &name[2..];
            let read = |sheet: &str| crate::read(&bytes, ending, Some(sheet)).unwrap();
            let mut sent = rows().into_iter();
            let first: Vec<Vec<BookCell>> = sent.by_ref().take(4).collect();
            assert_eq!(cells(&read("Runs")), first, "{name}");
            assert_eq!(cells(&read("A & B")), sent.collect::<Vec<_>>(), "{name}");
            let titles = &read("Runs").rows[0];
            assert_eq!(
                titles.cell(2),
                Some(&CellValue::Text("=loss".to_owned())),
                "{name}"
            );
        }
    }

    #[test]
    fn no_text_of_a_job_is_a_formula_or_a_place() {
        let (_folder, bytes) = made("x.xlsx");
        let mut package = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        let names = package.file_names().map(|name| name.unwrap().into_owned());
        let names: Vec<String> = names.collect();
        assert!(
            names.contains(&"xl/charts/chart1.xml".to_owned()),
            "{names:?}"
        );
        for name in names {
            let mut text = String::new();
            package
                .by_name(&name)
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            assert!(!text.contains("<f>"), "{name}");
            // Places of cells in a chart are ours.
            for place in text.split("<c:f>").skip(1) {
                assert!(place.starts_with("Runs!$B$2:$B$5</c:f>"), "{place}");
            }
        }
    }

    fn refused(path: &Path) -> String {
        let before = fs::read(path).unwrap();
        let rows = rows();
        let why = match make(path, &input(&book(4), &rows)[..]) {
            Err(UnreadableTable::File { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(fs::read(path).unwrap(), before);
        why
    }

    #[test]
    fn a_workbook_of_its_owner_stays_as_it_is_and_ours_is_made_anew() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        for (name, other) in [("x.xlsx", "xlsxwriter.xlsx"), ("x.ods", "libreoffice.ods")] {
            let (folder, _) = made(name);
            let path = folder.path().join(name);
            make(&path, &input(&book(4), &rows())[..]).unwrap();
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name}");
            fs::write(folder.path().join(format!(".~lock.{name}#")), ",me,here,,;").unwrap();
            assert!(refused(&path).contains("is open in LibreOffice"), "{name}");
            fs::remove_file(folder.path().join(format!(".~lock.{name}#"))).unwrap();
            fs::copy(golden.join(other), &path).unwrap();
            let why = "it was not made by `neroman results`, or another program saved it since";
            assert_eq!(refused(&path), why, "{name}");
            fs::write(&path, "notes").unwrap();
            assert_eq!(refused(&path), why, "{name}");
        }
    }

    #[test]
    fn a_workbook_that_another_program_saved_is_its_owners() {
        let (_folder, bytes) = made("x.xlsx");
        assert!(is_ours(BookFormat::Xlsx, &bytes));
        // As Excel and LibreOffice save it: the makers stay, the moment of the change is new.
        let mut package = zip::ZipArchive::new(Cursor::new(&bytes)).unwrap();
        let mut about = String::new();
        package
            .by_name("docProps/core.xml")
            .unwrap()
            .read_to_string(&mut about)
            .unwrap();
        let (before, behind) = about.split_once("<dcterms:modified").unwrap();
        let saved = format!("{before}<dcterms:modified{}", behind.replacen(":", ":1", 2));
        let mut other = zip::ZipWriter::new(Cursor::new(Vec::new()));
        other
            .start_file(
                "docProps/core.xml",
                zip::write::SimpleFileOptions::default(),
            )
            .unwrap();
        std::io::Write::write_all(&mut other, saved.as_bytes()).unwrap();
        assert!(!is_ours(
            BookFormat::Xlsx,
            &other.finish().unwrap().into_inner()
        ));
    }

    #[test]
    fn rows_that_end_early_make_no_file() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x.xlsx", "x.ods"] {
            let path = folder.path().join(name);
            let failed = make(&path, &input(&book(9), &rows())[..]);
            assert!(failed.is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
