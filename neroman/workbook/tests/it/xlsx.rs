//! `.xlsx`: what is written, what is left, and how the sheet's text looks then.

use nero_table::CellValue;
use nero_workbook::{
    BookFormat, CellChange, CellObstacle, CellOutcome, TargetSheet, WorkbookError, edit,
    has_sorted_area,
};

use crate::rig::{
    XlsxBook, book, cell, cells, different_cells, different_parts, golden, number, part, text,
    with_names, with_relations, write, written,
};

const ONE: &str = "xl/worksheets/one.xml";

/// The text of a sheet after the cells were written.
fn after(sheet: &str, first_row: u32, cells: &[CellChange]) -> String {
    part(&written(XlsxBook, &book(sheet, &[]), first_row, cells), ONE)
}

#[test]
fn only_the_wanted_cells_of_a_real_book_differ() {
    // File, sheet, first row of the cells: below a header of one or two rows.
    for (name, sheet, first) in [
        ("openpyxl.xlsx", "Experiments", 2),
        ("xlsxwriter.xlsx", "Plan", 1),
        ("libreoffice.xlsx", "Experiments", 2),
    ] {
        let before = golden(name);
        // The columns beside the table are read by no formula.
        let wanted = [
            cell(first, 5, text("running")),
            cell(first + 1, 5, text("=1+1 & <b>")),
            cell(first + 2, 5, number(0.125)),
            cell(first + 3, 8, CellValue::Bool(true)),
        ];
        let after = written(XlsxBook, &before, first, &wanted);
        let different = different_cells(XlsxBook, &before, &after);
        let places: Vec<(String, u32, u32)> = wanted
            .iter()
            .map(|cell| (sheet.to_owned(), cell.row, cell.column))
            .collect();
        // A formula of a table may read anything: what it showed goes, too.
        let others: Vec<_> = different
            .iter()
            .filter(|one| !places.contains(one))
            .collect();
        let formulas = cells(XlsxBook, &before);
        assert!(
            others.iter().all(|one| formulas[*one].contains('=')),
            "{name}: {others:?}"
        );
        assert!(
            places.iter().all(|place| different.contains(place)),
            "{name}: {different:?}"
        );
        let held = cells(XlsxBook, &after);
        assert_eq!(held[&places[1]], "String(\"=1+1 & <b>\")");
        assert_eq!(held[&places[2]], "Float(0.125)");
        let parts = different_parts(&before, &after);
        let allowed = [
            "xl/workbook.xml",
            "xl/worksheets/sheet1.xml",
            "xl/worksheets/sheet2.xml",
        ];
        assert!(
            parts.iter().all(|part| allowed.contains(&part.as_str())),
            "{name}: {parts:?}"
        );
    }
}

#[test]
fn without_dependent_formulas_only_the_part_of_the_sheet_differs() {
    let sheet = "<worksheet><sheetData><row r='1'><c r='A1'><v>1</v></c><c r='B1'><f>A1*2</f><v>2</v></c></row></sheetData></worksheet>";
    let before = book(
        sheet,
        &[
            ("xl/worksheets/two.xml", sheet),
            ("docProps/app.xml", "<a/>"),
        ],
    );
    let after = written(XlsxBook, &before, 0, &[cell(0, 2, number(1.0))]);
    assert_eq!(different_parts(&before, &after), [ONE]);
    // The comparison sees a part that is damaged.
    let damaged = book(
        sheet,
        &[
            ("xl/worksheets/two.xml", sheet),
            ("docProps/app.xml", "<b/>"),
        ],
    );
    assert_eq!(different_parts(&before, &damaged), ["docProps/app.xml"]);
}

#[test]
fn values_have_their_kinds_and_texts_their_blanks() {
    let sheet = "<worksheet><sheetData><row r=\"1\"><c r=\"A1\" s=\"2\" t=\"s\"><v>0</v></c></row></sheetData></worksheet>";
    let texts = ("xl/sharedStrings.xml", "<sst><si><t>old</t></si></sst>");
    let before = book(sheet, &[texts]);
    let mut first = cell(0, 0, text(" a\u{1b}\n"));
    first.ours = vec![text("old")];
    let wanted = [
        first,
        cell(0, 1, number(1e-7)),
        cell(0, 2, number(f64::NAN)),
        cell(0, 3, CellValue::Bool(false)),
    ];
    let after = written(XlsxBook, &before, 0, &wanted);
    assert_eq!(
        part(&after, ONE),
        "<worksheet><sheetData><row r=\"1\">\
         <c r=\"A1\" s=\"2\" t=\"inlineStr\"><is><t xml:space=\"preserve\"> a_x001B_\n</t></is></c>\
         <c r=\"B1\"><v>1e-7</v></c>\
         <c r=\"C1\" t=\"inlineStr\"><is><t xml:space=\"preserve\">NaN</t></is></c>\
         <c r=\"D1\" t=\"b\"><v>0</v></c></row></sheetData></worksheet>"
    );
    assert_eq!(different_parts(&before, &after), [ONE]);
}

#[test]
fn a_new_cell_takes_the_style_of_the_data_above_and_never_that_of_the_header() {
    let header = "<row r='1'><c r='B1' s='9' t='str'><v>loss</v></c><c r='C1' s='9' t='str'><v>x</v></c></row>";
    let sheet = format!(
        "<worksheet><cols><col min='3' max='3' style='4'/></cols><sheetData>{header}\
         <row r='2'><c r='A2'><v>1</v></c><c r='B2'><v>1</v></c></row>\
         <row r='3'><c r='A3'/><c r='B3' s='5'/></row><row r='4'><c r='A4' s='7'><v>2</v></c></row>\
         <row r='5' s='6' customFormat='1'/></sheetData></worksheet>"
    );
    let wanted = [
        cell(1, 2, number(1.0)),
        cell(2, 1, number(1.0)),
        cell(3, 1, number(1.0)),
        cell(4, 0, number(1.0)),
        cell(4, 3, number(1.0)),
    ];
    let after = after(&sheet, 1, &wanted);
    // No data above: the column's. Its own. That of the cell above. Data above. The row's.
    for tag in [
        "r=\"C2\" s=\"4\">",
        "r='B3' s='5'>",
        "r=\"B4\" s=\"5\">",
        "r=\"A5\" s=\"7\">",
        "r=\"D5\" s=\"6\">",
    ] {
        assert!(after.contains(tag), "{tag} in {after}");
    }
    let bare = format!(
        "<worksheet><sheetData>{header}<row r='2'><c r='B2'><v>1</v></c></row><row r='3'/></sheetData></worksheet>"
    );
    let after = self::after(&bare, 1, &[cell(2, 1, number(2.0))]);
    assert!(after.contains("<c r=\"B3\"><v>2</v></c>"), "{after}");
}

#[test]
fn places_are_counted_where_the_sheet_does_not_tell_them() {
    let sheet = "<x:worksheet><x:dimension ref=\"A1:B2\"/><x:sheetData>\
        <x:row spans=\"1:2\"><x:c><x:v>1</x:v></x:c><x:c t=\"str\"><x:v>a</x:v></x:c></x:row>\
        <x:row r=\"4\"><x:c r=\"C4\"/><x:c/></x:row></x:sheetData></x:worksheet>";
    let mut over = cell(0, 1, text("b"));
    over.ours = vec![text("a")];
    let wanted = [
        over,
        cell(0, 3, number(5.0)),
        cell(1, 0, number(6.0)),
        cell(3, 1, number(7.0)),
        cell(3, 3, number(8.0)),
        cell(8, 0, number(9.0)),
    ];
    assert_eq!(
        after(sheet, 0, &wanted),
        "<x:worksheet><x:dimension ref=\"A1:D9\"/><x:sheetData>\
         <x:row spans=\"1:4\"><x:c><x:v>1</x:v></x:c><x:c t=\"inlineStr\"><x:is><x:t xml:space=\"preserve\">b</x:t></x:is></x:c>\
         <x:c r=\"D1\"><x:v>5</x:v></x:c></x:row>\
         <x:row r=\"2\"><x:c r=\"A2\"><x:v>6</x:v></x:c></x:row>\
         <x:row r=\"4\"><x:c r=\"B4\"><x:v>7</x:v></x:c><x:c r=\"C4\"/><x:c><x:v>8</x:v></x:c></x:row>\
         <x:row r=\"9\"><x:c r=\"A9\"><x:v>9</x:v></x:c></x:row></x:sheetData></x:worksheet>"
    );
}

#[test]
fn empty_lists_and_rows_are_filled() {
    let wanted = [cell(0, 0, number(1.0)), cell(2, 1, number(2.0))];
    let rows = "<row r=\"1\"><c r=\"A1\"><v>1</v></c></row>";
    for (list, filled) in [
        (
            "<sheetData/>",
            format!("<sheetData>{rows}<row r=\"3\"><c r=\"B3\"><v>2</v></c></row></sheetData>"),
        ),
        (
            "<sheetData></sheetData>",
            format!("<sheetData>{rows}<row r=\"3\"><c r=\"B3\"><v>2</v></c></row></sheetData>"),
        ),
        (
            "<sheetData><row r=\"3\" spans=\"5:6\" /></sheetData>",
            format!(
                "<sheetData>{rows}<row r=\"3\" spans=\"2:6\" ><c r=\"B3\"><v>2</v></c></row></sheetData>"
            ),
        ),
    ] {
        let sheet = |list: &str| format!("<worksheet>{list}<pageMargins left='1'/></worksheet>");
        assert_eq!(after(&sheet(list), 0, &wanted), sheet(&filled));
    }
}

#[test]
fn a_cell_is_ours_while_it_is_empty_or_holds_what_we_wrote_once() {
    let sheet = "<worksheet><sheetData><row r='1'><c r='A1' t='s'><v>1</v></c><c r='B1'><v>0.30000000000000004</v></c>\
        <c r='C1' t='inlineStr'><is><t></t></is></c><c r='D1' t='e'><v>#N/A</v></c><c r='E1' t='s'><v>0</v></c></row></sheetData></worksheet>";
    let texts = (
        "xl/sharedStrings.xml",
        "<sst><si><t>mine</t></si><si><r><t>run</t></r><r><t xml:space='preserve'>ning</t></r><rPh><t>x</t></rPh></si></sst>",
    );
    let ours = |column, ours: &[CellValue]| CellChange {
        ours: ours.to_vec(),
        ..cell(0, column, text("finished"))
    };
    let wanted = [
        // Not the last thing that we wrote: an old copy of the book was saved over ours.
        ours(0, &[text("running"), text("waiting")]),
        ours(1, &[number(0.3)]),
        ours(2, &[]),
        ours(3, &[text("running")]),
        ours(4, &[text("running")]),
        cell(0, 5, None),
    ];
    let edited = write(XlsxBook, &book(sheet, &[texts]), 0, &wanted);
    let owner = |shows: &str| {
        CellOutcome::Left(CellObstacle::Owner {
            shows: shows.to_owned(),
        })
    };
    assert_eq!(
        edited.outcomes,
        [
            CellOutcome::Written,
            CellOutcome::Written,
            CellOutcome::Written,
            owner("#N/A"),
            owner("mine"),
            CellOutcome::Same,
        ]
    );
    let bytes = edited.bytes.unwrap();
    // Again: everything is there already, and the file needs no writing.
    let again = write(XlsxBook, &bytes, 0, &wanted[..3]);
    assert_eq!(
        again.outcomes,
        [CellOutcome::Same, CellOutcome::Same, CellOutcome::Same]
    );
    assert!(again.bytes.is_none());
    // What is ours can be emptied; its look stays.
    let empty = CellChange {
        ours: vec![text("finished")],
        ..cell(0, 1, None)
    };
    let emptied = part(&written(XlsxBook, &bytes, 0, &[empty]), ONE);
    assert!(emptied.contains("<c r='B1'/>"), "{emptied}");
}

#[test]
fn formulas_merged_cells_headers_and_arrays_are_left_and_reported() {
    let sheet = "<worksheet><sheetData><row r='1'><c r='A1'><v>1</v></c></row>\
        <row r='2'><c r='A2'><f>1+1</f><v>2</v></c><c r='C2'><f t='array' ref='C2:C4'>A1:A3*2</f><v>2</v></c></row>\
        <row r='3'><c r='C3'><v>4</v></c></row></sheetData>\
        <mergeCells><mergeCell ref='D5:E6'/></mergeCells></worksheet>";
    let relations = (
        "xl/worksheets/_rels/one.xml.rels",
        "<Relationships><Relationship Id='t' Type='x/table' Target='../tables/t.xml'/></Relationships>",
    );
    let table = ("xl/tables/t.xml", "<table ref='G3:H9' totalsRowCount='1'/>");
    let wanted: Vec<CellChange> = [
        (0, 1),
        (1, 0),
        (2, 2),
        (3, 2),
        (4, 3),
        (4, 4),
        (5, 3),
        (2, 6),
        (3, 6),
        (8, 7),
        (1 << 20, 0),
    ]
    .map(|(row, column)| cell(row, column, number(1.0)))
    .to_vec();
    let edited = write(XlsxBook, &book(sheet, &[relations, table]), 1, &wanted);
    let left = CellOutcome::Left;
    assert_eq!(
        edited.outcomes,
        [
            left(CellObstacle::Header),
            left(CellObstacle::Formula),
            left(CellObstacle::Formula),
            left(CellObstacle::Formula),
            CellOutcome::Written,
            left(CellObstacle::Merged),
            left(CellObstacle::Merged),
            left(CellObstacle::Header),
            CellOutcome::Written,
            left(CellObstacle::Header),
            left(CellObstacle::Outside),
        ]
    );
}

#[test]
fn what_dependent_formulas_showed_goes_and_a_calculation_is_asked_for() {
    let one = "<worksheet><sheetData><row r='1'><c r='A1'/><c r='B1' t='str'><f>A1*2</f><v>x</v></c><c r='C1'><f>B1+1</f><v>3</v></c><c r='D1'><f>E1</f><v>4</v></c></row>\
        <row r='2'><c r='A2'><v>1</v></c><c r='B2'><f t='shared' ref='B2:B3' si='0'>A2*2</f><v>5</v></c></row>\
        <row r='3'><c r='A3'/><c r='B3'><f t='shared' si='0'/><v>6</v></c></row></sheetData></worksheet>";
    let two = "<worksheet><sheetData><row r='1'><c r='A1'><f>SUM(One!A1:A9)</f><v>7</v></c><c r='B1'><f>best</f><v>8</v></c><c r='C1'><f>A2</f><v>9</v></c>\
        <c r='D1'><f>INDIRECT(\"A\"&amp;1)</f><v>10</v></c><c r='E1'><f>'Two &amp; x'!A1</f><v>11</v></c></row></sheetData></worksheet>";
    let before = book(one, &[("xl/worksheets/two.xml", two)]);
    let wanted = [cell(0, 0, number(1.0)), cell(2, 0, number(2.0))];
    let after = written(XlsxBook, &before, 0, &wanted);
    assert_eq!(
        part(&after, ONE),
        "<worksheet><sheetData><row r='1'><c r='A1'><v>1</v></c><c r='B1'><f>A1*2</f></c><c r='C1'><f>B1+1</f></c><c r='D1'><f>E1</f><v>4</v></c></row>\
        <row r='2'><c r='A2'><v>1</v></c><c r='B2'><f t='shared' ref='B2:B3' si='0'>A2*2</f><v>5</v></c></row>\
        <row r='3'><c r='A3'><v>2</v></c><c r='B3'><f t='shared' si='0'/></c></row></sheetData></worksheet>"
    );
    assert_eq!(
        part(&after, "xl/worksheets/two.xml"),
        "<worksheet><sheetData><row r='1'><c r='A1'><f>SUM(One!A1:A9)</f></c><c r='B1'><f>best</f></c><c r='C1'><f>A2</f><v>9</v></c>\
        <c r='D1'><f>INDIRECT(\"A\"&amp;1)</f></c><c r='E1'><f>'Two &amp; x'!A1</f></c></row></sheetData></worksheet>"
    );
    assert!(
        part(&after, "xl/workbook.xml").contains("</sheets><calcPr fullCalcOnLoad=\"1\"/><extLst>")
    );
}

#[test]
fn parameters_by_names_and_columns_of_tables_keep_what_they_show() {
    let sheet = "<worksheet><sheetData><row r='1'><c r='A1'><v>1</v></c><c r='B1'><f>rate*2</f><v>2</v></c>\
        <c r='C1'><f>Plan[[#This Row],[lr]]*2</f><v>3</v></c><c r='D1'><f>SUM(Plan[loss])</f><v>4</v></c><c r='E1'><f>best</f><v>5</v></c></row></sheetData></worksheet>";
    let relations = (
        "xl/worksheets/_rels/one.xml.rels",
        "<Relationships><Relationship Id='t' Type='x/table' Target='../tables/t.xml'/></Relationships>",
    );
    let table = (
        "xl/tables/t.xml",
        "<table ref='G3:H9' displayName='Plan'><tableColumns><tableColumn id='1' name='lr'/><tableColumn id='2' name='loss'/></tableColumns></table>",
    );
    let names = "<definedNames><definedName name='rate'>One!$A$1</definedName><definedName name='best'>MIN(One!$H:$H)</definedName></definedNames>";
    let before = with_names(sheet, names, &[relations, table]);
    let after = written(XlsxBook, &before, 0, &[cell(4, 7, number(1.0))]);
    let after = part(&after, ONE);
    for kept in [
        "<f>rate*2</f><v>2</v>",
        "<f>Plan[[#This Row],[lr]]*2</f><v>3</v>",
        "<f>SUM(Plan[loss])</f></c>",
        "<f>best</f></c>",
    ] {
        assert!(after.contains(kept), "{kept} in {after}");
    }
}

#[test]
fn truth_values_stay_ours_when_libre_office_makes_formulas_of_them() {
    let sheet = "<worksheet><sheetData><row r='1'><c r='A1' t='b'><f aca='false'>TRUE()</f><v>1</v></c></row></sheetData></worksheet>";
    let over = CellChange {
        ours: vec![CellValue::Bool(true)],
        ..cell(0, 0, CellValue::Bool(false))
    };
    let after = after(sheet, 0, std::slice::from_ref(&over));
    assert!(after.contains("<c r='A1' t=\"b\"><v>0</v></c>"), "{after}");
    // Where Excel lists the cells with formulas, it would repair the workbook.
    let kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let chain = format!(
        "<Relationships><Relationship Id='a' Type='{kind}/worksheet' Target='worksheets/one.xml'/><Relationship Id='z' Type='{kind}/calcChain' Target='calcChain.xml'/></Relationships>"
    );
    let listed = with_relations(sheet, &chain);
    let edited = write(XlsxBook, &listed, 0, &[over]);
    assert_eq!(edited.outcomes, [CellOutcome::Left(CellObstacle::Formula)]);
}

#[test]
fn a_sheet_is_found_by_its_name() {
    let sheet = "<worksheet><sheetData/></worksheet>";
    let bytes = book(sheet, &[("xl/worksheets/two.xml", sheet)]);
    let named = |name| {
        let sheet = TargetSheet {
            name: Some(name),
            first_row: 0,
        };
        edit(XlsxBook, &bytes, sheet, &[cell(0, 0, number(1.0))])
    };
    let after = named("two & X").unwrap().bytes.unwrap();
    assert_eq!(different_parts(&bytes, &after), ["xl/worksheets/two.xml"]);
    let Err(error @ WorkbookError::NoSheet { .. }) = named("Three") else {
        panic!("a sheet that is not there")
    };
    assert_eq!(error.hint().unwrap(), "its sheets: One, Two & x");
}

#[test]
fn a_table_or_a_filter_is_an_area_that_is_sorted_by_itself() {
    let has = |format, bytes: &[u8], sheet| has_sorted_area(format, bytes, sheet).unwrap();
    let name = Some("Plan");
    assert!(has(XlsxBook, &golden("xlsxwriter.xlsx"), name));
    assert!(has(BookFormat::Ods, &golden("libreoffice-table.ods"), name));
    let beside = Some("Over view");
    assert!(!has(
        BookFormat::Ods,
        &golden("libreoffice-table.ods"),
        beside
    ));
    assert!(!has(
        XlsxBook,
        &golden("openpyxl.xlsx"),
        Some("Experiments")
    ));
    let filter = "<worksheet><sheetData/><autoFilter ref='A1:C9'/></worksheet>";
    assert!(has(XlsxBook, &book(filter, &[]), None));
    assert!(!has(
        XlsxBook,
        &book("<worksheet><sheetData/></worksheet>", &[]),
        None
    ));
}
