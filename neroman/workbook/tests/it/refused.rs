//! Files that are not written, each with its name.

use nero_workbook::{BookFormat, TargetSheet, WorkbookError, edit};

use crate::rig::{OdsBook, XlsxBook, book, cell, golden, number, open_document, package};

const SHEET: &str = "<worksheet><sheetData/></worksheet>";

fn refusal(format: BookFormat, bytes: &[u8]) -> String {
    let sheet = TargetSheet {
        name: None,
        first_row: 0,
    };
    match edit(format, bytes, sheet, &[cell(0, 0, number(1.0))]) {
        Ok(edited) => panic!("{:?}", edited.outcomes),
        Err(error) => error.to_string(),
    }
}

#[test]
fn each_kind_of_unfit_file_is_named() {
    let signed = book(SHEET, &[("_xmlsignatures/origin.sigs", "")]);
    let why = "the workbook is signed, and a change would break the signature";
    assert_eq!(refusal(XlsxBook, &signed), why);
    let table = ("mimetype", "application/vnd.oasis.opendocument.spreadsheet");
    let signature = ("META-INF/documentsignatures.xml", "");
    assert_eq!(refusal(OdsBook, &package(&[table, signature])), why);
    // A workbook is read by its content, and written as what its name tells.
    for (format, name, missing) in [
        (XlsxBook, "libreoffice.ods", "relation to its main part"),
        (OdsBook, "openpyxl.xlsx", "content.xml"),
    ] {
        let refused = refusal(format, &golden(name));
        assert_eq!(refused, format!("the workbook has no {missing}"));
    }
    let error = BookFormat::of("a/plan.XLSB".as_ref()).unwrap_err();
    assert_eq!(error.to_string(), ".xlsb is read and never written");
}

#[test]
fn a_file_that_ends_too_early_is_damaged() {
    for (format, name) in [(XlsxBook, "xlsxwriter.xlsx"), (OdsBook, "libreoffice.ods")] {
        let whole = golden(name);
        for tenth in 1..10 {
            let refused = refusal(format, &whole[..whole.len() * tenth / 10]);
            assert_eq!(refused, "the file is damaged", "{name}, {tenth} tenths");
        }
    }
}

#[test]
fn a_sheet_that_is_no_honest_one_is_damaged() {
    for sheet in [
        "<worksheet><sheetData><row r='2'/><row r='1'/></sheetData></worksheet>",
        "<worksheet><sheetData><row r='1'><c r='B1'/><c r='A1'/></row></sheetData></worksheet>",
        "<worksheet><sheetData><row r='1'><c r='A2'/></row></sheetData></worksheet>",
        "<worksheet><sheetData><row r='9999999'/></sheetData></worksheet>",
        "<worksheet><sheetData><row r='1'><c r=A1/></row></sheetData></worksheet>",
        "<worksheet><sheetData><row></sheetData></worksheet>",
        "<worksheet><sheetData>",
        "<worksheet/>",
        "<!DOCTYPE x [<!ENTITY a 'b'>]><worksheet><sheetData/></worksheet>",
        "",
    ] {
        let refused = refusal(XlsxBook, &book(sheet, &[]));
        assert_eq!(
            refused, "the part xl/worksheets/one.xml is damaged",
            "{sheet}"
        );
    }
    for table in [
        "<table:table><table:table-row table:number-rows-repeated='0'/></table:table>",
        "<table:table><table:table-row table:number-rows-repeated='-1'/></table:table>",
        "<table:table><table:table-row></table:table>",
    ] {
        let refused = refusal(OdsBook, &open_document(table));
        assert_eq!(refused, "the part content.xml is damaged", "{table}");
    }
}

#[test]
fn a_part_that_unpacks_to_more_than_any_workbook_is_refused() {
    // 400 MB of blanks are 400 kB; what is read of them is bounded.
    let blanks = " ".repeat(400 << 20);
    let bomb = book(&blanks, &[]);
    drop(blanks);
    assert!(bomb.len() < 1 << 20);
    assert_eq!(
        refusal(XlsxBook, &bomb),
        "xl/worksheets/one.xml is larger than any workbook should be"
    );
}

#[test]
fn numbers_in_a_hostile_part_cost_nothing() {
    let sheet = "<worksheet><sheetData><row r='1'><c r='C1'><f t='array' ref='C1:XFD1048576'>A1</f><v>1</v></c></row></sheetData>\
        <mergeCells><mergeCell ref='B2:XFD1048576'/></mergeCells></worksheet>";
    let sheet_of = TargetSheet {
        name: None,
        first_row: 0,
    };
    let wanted = [
        cell(0, 0, number(1.0)),
        cell(1_048_575, 16_383, number(1.0)),
    ];
    let edited = edit(XlsxBook, &book(sheet, &[]), sheet_of, &wanted).unwrap();
    assert!(edited.bytes.is_some());
    let twice = [cell(0, 0, None), cell(0, 0, None)];
    let error = edit(XlsxBook, &book(sheet, &[]), sheet_of, &twice).unwrap_err();
    assert!(matches!(error, WorkbookError::Twice { .. }), "{error}");
}

#[test]
fn rows_and_cells_out_of_order_are_named() {
    for (rows, named) in [
        ("<row r='3'/><row r='2'/>", "a row behind a later one"),
        (
            "<row r='1'><c r='B1'/><c r='A1'/></row>",
            "a cell behind a later one",
        ),
    ] {
        let sheet = format!("<worksheet><sheetData>{rows}</sheetData></worksheet>");
        let target = TargetSheet {
            name: None,
            first_row: 0,
        };
        let wanted = [cell(0, 0, number(1.0))];
        let error = edit(XlsxBook, &book(&sheet, &[]), target, &wanted).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.starts_with(named), "{source}");
        assert!(error.hint().unwrap().contains("save it anew"));
    }
}
