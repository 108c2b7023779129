//! `.ods`: cells and rows that stand for many are split.

use nero_table::CellValue;
use nero_workbook::{BookFormat, CellChange, CellObstacle, CellOutcome};

use crate::rig::{
    OdsBook, cell, cells, different_cells, different_parts, golden, number, open_document, part,
    text, write, written,
};

/// The sheets after the cells were written.
fn after(tables: &str, cells: &[CellChange]) -> String {
    let content = part(
        &written(OdsBook, &open_document(tables), 0, cells),
        "content.xml",
    );
    let (_, rest) = content.split_once("<office:spreadsheet>").unwrap();
    rest.split_once("</office:spreadsheet>")
        .unwrap()
        .0
        .to_owned()
}

#[test]
fn a_formula_over_a_name_keeps_what_it_shows() {
    let row = "<table:table-row><table:table-cell/><table:table-cell table:formula='of:=rate*2' office:value-type='float' office:value='2'><text:p>2</text:p></table:table-cell><table:table-cell table:formula='of:=best*2' office:value-type='float' office:value='3'><text:p>3</text:p></table:table-cell></table:table-row>";
    let names = "<table:named-expressions><table:named-range table:name='rate' table:cell-range-address='$One.$D$1'/><table:named-range table:name='best' table:cell-range-address='$One.$A$1:.$A$9'/></table:named-expressions>";
    let before = open_document(&format!(
        "<table:table table:name='One'>{row}</table:table>{names}"
    ));
    let after = written(OdsBook, &before, 0, &[cell(0, 0, number(1.0))]);
    let content = part(&after, "content.xml");
    assert!(content.contains("<text:p>2</text:p>"), "{content}");
    assert!(!content.contains("<text:p>3</text:p>"), "{content}");
}

#[test]
fn only_the_wanted_cells_of_a_real_book_differ() {
    for (name, sheet, first) in [
        ("libreoffice.ods", "Experiments", 2),
        ("libreoffice-table.ods", "Plan", 1),
    ] {
        let before = golden(name);
        let wanted = [
            cell(first, 5, text("running")),
            cell(first + 1, 5, text("=1+1 & <b>\tx")),
            cell(first + 2, 5, number(0.125)),
            cell(first + 3, 8, CellValue::Bool(true)),
            cell(500, 700, number(4.0)),
        ];
        let after = written(OdsBook, &before, first, &wanted);
        let different = different_cells(OdsBook, &before, &after);
        let places: Vec<(String, u32, u32)> = wanted
            .iter()
            .map(|cell| (sheet.to_owned(), cell.row, cell.column))
            .collect();
        let formulas = cells(OdsBook, &before);
        let others: Vec<_> = different
            .iter()
            .filter(|one| !places.contains(one))
            .collect();
        assert!(
            others.iter().all(|one| formulas[*one].contains('=')),
            "{name}: {others:?}"
        );
        assert!(
            places.iter().all(|place| different.contains(place)),
            "{name}: {different:?}"
        );
        assert_eq!(cells(OdsBook, &after)[&places[2]], "Float(0.125)");
        assert_eq!(different_parts(&before, &after), ["content.xml"], "{name}");
        // The type of the file stands at its very beginning, not packed.
        assert_eq!(&after[30..46], b"mimetypeapplicat");
    }
}

#[test]
fn cells_and_rows_that_stand_for_many_are_split() {
    let table = "<table:table table:name=\"A\">\
        <table:table-row table:style-name=\"r\" table:number-rows-repeated=\"4\">\
        <table:table-cell table:number-columns-repeated=\"5\"/></table:table-row>\
        <table:table-row/></table:table>";
    let wanted = [
        cell(1, 0, number(1.5)),
        cell(1, 3, text("a  b\nc")),
        cell(2, 6, CellValue::Bool(true)),
        cell(4, 1, number(2.0)),
    ];
    assert_eq!(
        after(table, &wanted),
        "<table:table table:name=\"A\">\
         <table:table-row table:style-name=\"r\"><table:table-cell table:number-columns-repeated=\"5\"/></table:table-row>\
         <table:table-row table:style-name=\"r\">\
         <table:table-cell office:value-type=\"float\" office:value=\"1.5\"><text:p>1.5</text:p></table:table-cell>\
         <table:table-cell table:number-columns-repeated=\"2\"/>\
         <table:table-cell office:value-type=\"string\"><text:p>a <text:s/>b</text:p><text:p>c</text:p></table:table-cell>\
         <table:table-cell/></table:table-row>\
         <table:table-row table:style-name=\"r\"><table:table-cell table:number-columns-repeated=\"5\"/>\
         <table:table-cell table:number-columns-repeated=\"1\"/>\
         <table:table-cell office:value-type=\"boolean\" office:boolean-value=\"true\"><text:p>TRUE</text:p></table:table-cell></table:table-row>\
         <table:table-row table:style-name=\"r\"><table:table-cell table:number-columns-repeated=\"5\"/></table:table-row>\
         <table:table-row><table:table-cell table:number-columns-repeated=\"1\"/>\
         <table:table-cell office:value-type=\"float\" office:value=\"2\"><text:p>2</text:p></table:table-cell></table:table-row></table:table>"
    );
}

#[test]
fn comments_and_looks_stay_and_new_cells_look_like_the_data_above() {
    let table = "<table:table table:name=\"A\"><table:table-header-rows>\
        <table:table-row><table:table-cell table:style-name=\"h\" office:value-type=\"string\"><text:p>loss</text:p></table:table-cell></table:table-row>\
        </table:table-header-rows>\
        <table:table-row><table:table-cell table:style-name=\"d\" office:value-type=\"percentage\" office:value=\"0.5\">\
        <office:annotation><text:p>why</text:p></office:annotation><text:p>50%</text:p></table:table-cell></table:table-row>\
        <table:table-row><table:table-cell/></table:table-row></table:table>";
    let mut over = cell(1, 0, number(0.25));
    over.ours = vec![number(0.5)];
    let bytes = open_document(table);
    let content = part(
        &written(OdsBook, &bytes, 1, &[over, cell(2, 0, text("x"))]),
        "content.xml",
    );
    for wanted in [
        "<table:table-cell table:style-name=\"d\" office:value-type=\"float\" office:value=\"0.25\"><office:annotation><text:p>why</text:p></office:annotation><text:p>0.25</text:p></table:table-cell>",
        "<table:table-cell table:style-name=\"d\" office:value-type=\"string\"><text:p>x</text:p></table:table-cell>",
    ] {
        assert!(content.contains(wanted), "{wanted} in {content}");
    }
}

#[test]
fn formulas_and_covered_cells_are_left_and_what_they_showed_goes() {
    let shown = |value: &str| {
        format!(
            "office:value-type=\"float\" office:value=\"{value}\"><text:p>{value}</text:p></table:table-cell>"
        )
    };
    let table = format!(
        "<table:table table:name=\"A\"><table:table-row><table:table-cell/><table:covered-table-cell/>\
         <table:table-cell table:formula=\"of:=[.A1]*2\" {two}<table:table-cell table:formula=\"of:=[.B9]\" {three}\
         <table:table-cell table:formula=\"of:=rate\" {four}</table:table-row></table:table>\
         <table:table table:name=\"B\"><table:table-row><table:table-cell table:formula=\"of:=SUM([$A.A1:.A5])\" {two}</table:table-row></table:table>",
        two = shown("2"),
        three = shown("3"),
        four = shown("4"),
    );
    let wanted = [0, 1, 2, 9].map(|column| cell(0, column, number(7.0)));
    let bytes = open_document(&table);
    let edited = write(BookFormat::Ods, &bytes, 0, &wanted);
    assert_eq!(
        edited.outcomes,
        [
            CellOutcome::Written,
            CellOutcome::Left(CellObstacle::Merged),
            CellOutcome::Left(CellObstacle::Formula),
            CellOutcome::Written,
        ]
    );
    let content = part(&edited.bytes.unwrap(), "content.xml");
    for wanted in [
        "<table:table-cell table:formula=\"of:=[.A1]*2\"></table:table-cell>",
        "<table:table-cell table:formula=\"of:=rate\"></table:table-cell>",
        "<table:table-cell table:formula=\"of:=SUM([$A.A1:.A5])\"></table:table-cell>",
    ] {
        assert!(content.contains(wanted), "{wanted} in {content}");
    }
    assert!(
        content.contains(&format!("of:=[.B9]\" {}", shown("3"))),
        "{content}"
    );
}

#[test]
fn truth_values_stay_ours_when_libre_office_makes_formulas_of_them() {
    let table = "<table:table table:name=\"A\"><table:table-row><table:table-cell table:formula=\"of:=TRUE()\" office:value-type=\"float\" office:value=\"1\"><text:p>TRUE</text:p></table:table-cell></table:table-row></table:table>";
    let over = CellChange {
        ours: vec![CellValue::Bool(true)],
        ..cell(0, 0, text("no"))
    };
    let after = after(table, &[over]);
    let wanted =
        "<table:table-cell office:value-type=\"string\"><text:p>no</text:p></table:table-cell>";
    assert!(after.contains(wanted), "{after}");
}

#[test]
fn a_cell_behind_the_last_row_is_outside() {
    let bytes = open_document("<table:table table:name=\"A\"><table:table-row/></table:table>");
    let edited = write(OdsBook, &bytes, 0, &[cell(1, 0, number(1.0))]);
    assert_eq!(edited.outcomes, [CellOutcome::Left(CellObstacle::Outside)]);
    assert!(edited.bytes.is_none());
}
