//! Files that are damaged, are something else, or unfold into more than they should.

use std::fs;
use std::io::{Cursor, Write as _};
use std::path::Path;

use nero_table::{CellValue, Sheet, UnreadableTable};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const TYPES: &str = r#"<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>"#;
const RELS: &str = r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>"#;
const WORKBOOK: &str = r#"<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="Plan" sheetId="1" r:id="rId1"/></sheets></workbook>"#;
const BOOK_RELS: &str = r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings" Target="sharedStrings.xml"/><Relationship Id="rId3" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>"#;

fn archive(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in parts {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The cell formats 0 and 1: none, and a date.
const STYLES: &str = r#"<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>"#;

/// A workbook with these rows and shared texts.
fn book(rows: &str, strings: &str) -> Vec<u8> {
    let sheet = format!(
        r#"<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{rows}</sheetData></worksheet>"#
    );
    let strings = format!(
        r#"<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">{strings}</sst>"#
    );
    archive(&[
        ("[Content_Types].xml", TYPES.as_bytes()),
        ("_rels/.rels", RELS.as_bytes()),
        ("xl/workbook.xml", WORKBOOK.as_bytes()),
        ("xl/_rels/workbook.xml.rels", BOOK_RELS.as_bytes()),
        ("xl/sharedStrings.xml", strings.as_bytes()),
        ("xl/styles.xml", STYLES.as_bytes()),
        ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
    ])
}

fn read(bytes: &[u8], ending: &str) -> Result<Sheet, UnreadableTable> {
    nero_spreadsheet::read(bytes, ending, None)
}

/// Why a file is not read.
fn why(bytes: &[u8], ending: &str) -> String {
    match read(bytes, ending) {
        Err(UnreadableTable::File { why, .. } | UnreadableTable::At { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    fs::read(folder.join(name)).unwrap()
}

#[test]
fn what_is_called_a_workbook_and_is_none_says_what_it_is() {
    let html = b"\xef\xbb\xbf  <!DOCTYPE html><html><table><tr><td>1</td></tr></table></html>";
    assert_eq!(
        why(html, "xlsx"),
        "is a web page (HTML) that is called .xlsx"
    );
    assert_eq!(
        why(b"a,b\n1,2\n", "ods"),
        "is no workbook, although it is called .ods"
    );
    let old = golden("libreoffice.xls");
    assert_eq!(
        why(&old, "xlsx"),
        "is an old workbook (.xls) that is called .xlsx"
    );
    assert_eq!(
        why(&golden("openpyxl.xlsx"), "csv"),
        "is a workbook that is called .csv"
    );
    assert_eq!(
        why(&archive(&[("a.txt", b"hello")]), "xlsx"),
        "is an archive, and no workbook is in it"
    );
    assert_eq!(why(b"", "xlsx"), "is empty");
    // What a file is decides, where nothing was promised by its name.
    assert!(read(&golden("libreoffice.ods"), "xlsx").is_ok());
}

#[test]
fn encrypted_workbooks_are_told() {
    let name: Vec<u8> = "EncryptedPackage"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let mut ole = vec![0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];
    ole.extend([0; 1024]);
    ole.extend(name);
    assert_eq!(why(&ole, "xlsx"), "is encrypted with a password");
    let ods = archive(&[
        (
            "mimetype",
            b"application/vnd.oasis.opendocument.spreadsheet",
        ),
        ("META-INF/manifest.xml", b"<manifest:encryption-data/>"),
        ("content.xml", b"\x00\x01"),
    ]);
    assert_eq!(why(&ods, "ods"), "is encrypted with a password");
}

#[test]
fn a_file_that_is_cut_anywhere_is_no_table() {
    for name in ["openpyxl.xlsx", "xlsxwriter.xlsx", "libreoffice.ods"] {
        let whole = golden(name);
        let ending = name.rsplit('.').next().unwrap();
        for tenth in 0..10 {
            let cut = &whole[..whole.len() * tenth / 10];
            let why = why(cut, ending);
            assert!(why.starts_with("is "), "{name} at {tenth}: {why}");
        }
    }
}

#[test]
fn one_cell_in_the_last_corner_is_one_cell() {
    let rows = r#"<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>"#;
    let sheet = read(&book(rows, ""), "xlsx").unwrap();
    assert_eq!(sheet.rows.len(), 2);
    assert_eq!(sheet.rows[1].cells[0].0, 16_384);
    // A row further away is in no program.
    let rows = r#"<row r="1"><c r="XFE1"><v>1</v></c></row>"#;
    assert!(why(&book(rows, ""), "xlsx").contains("outside"));
}

#[test]
fn a_cell_that_is_repeated_beyond_the_sheet_is_told_and_not_cut() {
    let row = |empty: u32, rows: u32, cells: u32| {
        ods(&format!(
            r#"<table:table-row table:number-rows-repeated="{empty}"><table:table-cell/></table:table-row><table:table-row table:number-rows-repeated="{rows}"><table:table-cell table:number-columns-repeated="{cells}" office:value-type="float" office:value="1"/></table:table-row>"#
        ))
    };
    let last = read(&row((1 << 20) - 2, 2, 1), "ods").unwrap();
    assert_eq!(last.rows[1].number, 1 << 20);
    assert_eq!(
        read(&row(1, 1, 1 << 14), "ods").unwrap().rows[0]
            .cells
            .len(),
        1 << 14
    );
    for (empty, rows, cells) in [((1 << 20) - 2, 3, 1), (1, 1, (1 << 14) + 1)] {
        assert!(why(&row(empty, rows, cells), "ods").contains("outside"));
    }
}

#[test]
fn a_million_rows_are_no_plan() {
    let rows = "<row><c><v>1</v></c></row>".repeat(1 << 20);
    let why = why(&book(&rows, ""), "xlsx");
    assert!(why.contains("100100 rows"), "{why}");
    let lines = "1\n".repeat(1 << 20);
    let why = self::why(lines.as_bytes(), "csv");
    assert!(why.contains("100100 rows"), "{why}");
    let cells = r#"<table:table-row table:number-rows-repeated="1048576"><table:table-cell office:value-type="float" office:value="1"/></table:table-row>"#;
    let why = self::why(&ods(cells), "ods");
    assert!(why.contains("100100 rows"), "{why}");
}

fn ods(rows: &str) -> Vec<u8> {
    let content = format!(
        r#"<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x" xmlns:draw="d" xmlns:svg="s"><office:body><office:spreadsheet><table:table table:name="Plan">{rows}</table:table></office:spreadsheet></office:body></office:document-content>"#
    );
    archive(&[
        (
            "mimetype",
            b"application/vnd.oasis.opendocument.spreadsheet",
        ),
        ("content.xml", content.as_bytes()),
    ])
}

#[test]
fn empty_cells_of_a_sheet_are_counted_and_never_made() {
    let rows = concat!(
        r#"<table:table-row table:number-rows-repeated="5"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>"#,
        r#"<table:table-row><table:table-cell table:number-columns-repeated="3"/><table:table-cell office:value-type="string"><text:p>a<text:s text:c="2"/>&amp;<text:span>b</text:span></text:p><text:p>c</text:p><office:annotation><text:p>not this</text:p></office:annotation></table:table-cell><table:covered-table-cell office:value-type="float" office:value="9"/><table:table-cell table:number-columns-repeated="2" office:value-type="time" office:time-value="PT26H03M00S"><text:p>x</text:p></table:table-cell></table:table-row>"#,
        r#"<table:table-row table:number-rows-repeated="4294967295"><table:table-cell/></table:table-row>"#,
    );
    let sheet = read(&ods(rows), "ods").unwrap();
    assert_eq!(sheet.rows.len(), 1);
    let cells = &sheet.rows[0].cells;
    let cells: Vec<(u32, &str)> = cells
        .iter()
        .map(|(column, cell)| (*column, cell.text()))
        .collect();
    assert_eq!(cells, [(4, "a  &b\nc"), (6, "26:03:00"), (7, "26:03:00")]);
    assert_eq!(sheet.rows[0].number, 6);
}

#[test]
fn what_is_anchored_to_a_cell_is_not_in_it() {
    let rows = concat!(
        r#"<table:table-row><table:table-cell office:value-type="string"><draw:custom-shape><text:p>see</text:p></draw:custom-shape><text:p>lr</text:p></table:table-cell>"#,
        r#"<table:table-cell><draw:frame><draw:image><text:p/></draw:image><svg:title>Losses</svg:title></draw:frame></table:table-cell></table:table-row>"#,
    );
    let sheet = read(&ods(rows), "ods").unwrap();
    assert_eq!(sheet.rows[0].cells, [(1, CellValue::Text("lr".to_owned()))]);
}

#[test]
fn a_number_in_a_cell_for_dates_is_a_date_or_stays_that_number() {
    for (stored, shown) in [
        ("46346", "2026-11-20"),
        ("46346.5", "2026-11-20T12:00:00"),
        ("46345.9999999999", "2026-11-20"),
        ("20260520", "20260520"),
        ("-5", "-5"),
    ] {
        let rows = format!(r#"<row r="1"><c r="A1" s="1"><v>{stored}</v></c></row>"#);
        let sheet = read(&book(&rows, ""), "xlsx").unwrap();
        assert_eq!(sheet.rows[0].cells[0].1.text(), shown);
    }
    let rows = r#"<row r="1"><c r="A1" t="d"><v>2026-11-20T00:00:00</v></c></row>"#;
    let sheet = read(&book(rows, ""), "xlsx").unwrap();
    assert_eq!(sheet.rows[0].cells[0].1.text(), "2026-11-20");
}

#[test]
fn a_text_that_the_file_does_not_have_is_told_with_its_place() {
    let rows = r#"<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>7</v></c></row>"#;
    let error = read(&book(rows, "<si><t>a</t></si>"), "xlsx").unwrap_err();
    assert!(
        matches!(
            &error,
            UnreadableTable::At {
                row: 1,
                column: 2,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn a_small_file_that_unfolds_is_refused() {
    let strings = "<si><t>aaaaaaaaaaaaaaaaaaaaaaaa</t></si>".repeat(1_400_000);
    let bytes = book(r#"<row r="1"><c r="A1"><v>1</v></c></row>"#, &strings);
    assert!(bytes.len() < 1 << 20, "{}", bytes.len());
    let why = why(&bytes, "xlsx");
    assert!(why.contains("sharedStrings"), "{why}");
    let long = format!(
        r#"<row r="1"><c r="A1" t="str"><v>{}</v></c></row>"#,
        "a".repeat(17 << 20)
    );
    assert!(self::why(&book(&long, ""), "xlsx").contains("unfolds"));
}

#[test]
fn sizes_that_an_archive_states_are_not_believed() {
    let mut bytes = book(r#"<row r="1"><c r="A1"><v>1</v></c></row>"#, "");
    // The sizes of the unfolded parts, in each entry of the directory at the end.
    let entries: Vec<usize> = (0..bytes.len() - 4)
        .filter(|at| bytes[*at..].starts_with(b"PK\x01\x02"))
        .collect();
    assert_eq!(entries.len(), 7);
    for at in entries {
        bytes[at + 24..at + 28].copy_from_slice(&7_u32.to_le_bytes());
    }
    match read(&bytes, "xlsx") {
        Ok(sheet) => assert_eq!(sheet.rows[0].cells.len(), 1),
        Err(UnreadableTable::File { why, .. }) => assert!(why.contains("damaged"), "{why}"),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn whole_numbers_keep_their_digits_and_merged_cells_their_rows() {
    let rows = r#"<row r="1"><c r="A1"><v>1</v></c><c r="B1"><v>18446744073709551615</v></c><c r="C1" t="n"><v>-9007199254740993</v></c></row>
        <row r="2"><c r="B2"><f>B1</f><v>340282366920938463463374607431768211455</v></c><c r="C2"><v>0.67318100000000003</v></c></row>"#;
    let bytes = book(rows, "");
    let sheet = read(&bytes, "xlsx").unwrap();
    let texts: Vec<&str> = sheet
        .rows
        .iter()
        .flat_map(|row| &row.cells)
        .map(|(_, cell)| cell.text())
        .collect();
    assert_eq!(
        texts,
        [
            "1",
            "18446744073709551615",
            "-9007199254740993",
            "340282366920938463463374607431768211455",
            "0.673181",
        ]
    );
    assert_eq!(sheet.reads, [(2, vec![(2, 2)])]);
    let merged = r#"<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1"><c r="A1"><v>1</v></c></row></sheetData><mergeCells count="2"><mergeCell ref="A1:B3"/><mergeCell ref="C1:D1"/></mergeCells></worksheet>"#;
    let bytes = archive(&[
        ("[Content_Types].xml", TYPES.as_bytes()),
        ("_rels/.rels", RELS.as_bytes()),
        ("xl/workbook.xml", WORKBOOK.as_bytes()),
        ("xl/_rels/workbook.xml.rels", BOOK_RELS.as_bytes()),
        ("xl/sharedStrings.xml", b"<sst/>"),
        ("xl/styles.xml", STYLES.as_bytes()),
        ("xl/worksheets/sheet1.xml", merged.as_bytes()),
    ]);
    let area = nero_table::MergedRows {
        first: 1,
        last: 3,
        column: 1,
    };
    assert_eq!(read(&bytes, "xlsx").unwrap().merged, [area]);
    let content = r#"<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x"><office:body><office:spreadsheet><table:table table:name="Plan"><table:table-row><table:table-cell table:number-rows-spanned="2" office:value-type="float" office:value="18446744073709551615"/><table:table-cell office:value-type="float" office:value="5" table:formula="of:=[.A1]*2"/></table:table-row></table:table></office:spreadsheet></office:body></office:document-content>"#;
    let bytes = archive(&[
        (
            "mimetype",
            b"application/vnd.oasis.opendocument.spreadsheet",
        ),
        ("content.xml", content.as_bytes()),
    ]);
    let sheet = read(&bytes, "ods").unwrap();
    assert_eq!(sheet.rows[0].cells[0].1.text(), "18446744073709551615");
    assert_eq!(sheet.merged[0].last, 2);
    assert_eq!(sheet.reads, [(2, vec![(1, 1)])]);
}
