//! Workbooks by openpyxl, XlsxWriter and LibreOffice, made by `golden/make.py`.

use std::fs;
use std::path::Path;

use nero_table::{CellValue, Header, Sheet};

fn read(name: &str, sheet: Option<&str>) -> Sheet {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let ending = path.extension().unwrap().to_str().unwrap();
    nero_spreadsheet::read(&fs::read(&path).unwrap(), ending, sheet)
        .unwrap_or_else(|error| panic!("{name}: {error:?}"))
}

/// The cells, one line for each row.
fn dump(sheet: &Sheet) -> Vec<String> {
    let kind = |cell: &CellValue| match cell {
        CellValue::Text(_) => 't',
        CellValue::Number(_) => 'n',
        CellValue::Bool(_) => 'b',
        CellValue::Date(_) => 'd',
        CellValue::Error(_) => 'e',
        CellValue::Uncomputed => 'f',
    };
    let row = |row: &nero_table::SheetRow| {
        let cells = row.cells.iter().map(|(column, cell)| {
            let name = nero_table::column_name(*column);
            format!("{name}{}={:?}", kind(cell), cell.text())
        });
        format!("{} {}", row.number, cells.collect::<Vec<_>>().join(" "))
    };
    sheet.rows.iter().map(row).collect()
}

/// Row by row, with what the formulas have.
fn wanted(formulas: [&str; 4]) -> Vec<String> {
    let [product, missing, text, divided] = formulas;
    [
        r#"1 Dt="Code" Et="Params" Ht="Test""#.to_owned(),
        r#"2 At="nr" Bt="date" Ct="name" Dt="command" Et="lr" Ft="layers" Gt="ok" Ht="10ep" It="50ep""#.to_owned(),
        format!(r#"3 An="1" Bd="2015-05-20" Ct="first" Dt="python3 main.py {{Params/lr}}" En="0.673181" Fn="5" Gb="true"{product}"#),
        format!(r#"4 An="2" Bd="2015-05-27T14:30:00" Ct="second" Dt="python3 main.py" Et="0.001, decay 0.999" Fn="2" Gb="false"{missing}{divided}"#),
        format!(r#"5 An="3" Ct="third" En="0.0002" Ft="007"{text}"#),
        r#"7 An="4" Ct="a <b> & é" Dt="x\ny" En="1e-7" Fn="1e20""#.to_owned(),
    ]
    .to_vec()
}

#[test]
fn the_same_cells_are_read_whichever_program_wrote_them() {
    let computed = wanted([
        r#" Hn="1.346362""#,
        "",
        r#" Ht="0.0002""#,
        r##" Ie="#DIV/0!""##,
    ]);
    // openpyxl computes nothing, and writes no values of formulas.
    let uncomputed = r#" Hf="""#;
    let bare = wanted([uncomputed, uncomputed, uncomputed, r#" If="""#]);
    for (name, want) in [
        ("xlsxwriter.xlsx", &computed),
        ("libreoffice.xlsx", &computed),
        ("libreoffice.ods", &computed),
        ("libreoffice.xls", &computed),
        ("openpyxl.xlsx", &bare),
    ] {
        let sheet = read(name, None);
        assert_eq!(
            sheet.name.as_deref(),
            Some("Experiments"),
            "{name}: the first is hidden"
        );
        assert_eq!(sheet.sheets, ["Notes", "Experiments"], "{name}");
        assert_eq!(sheet.digest.len(), 64);
        similar(&dump(&sheet), want, name);
        let notes = read(name, Some("Notes"));
        assert_eq!(
            dump(&notes).len(),
            usize::from(!name.starts_with("xlsxw")),
            "{name}"
        );
    }
}

fn similar(found: &[String], want: &[String], name: &str) {
    for (found, want) in found.iter().zip(want) {
        assert_eq!(found, want, "{name}");
    }
    assert_eq!(found.len(), want.len(), "{name}");
}

#[test]
fn groups_reach_rightwards_whether_their_cells_are_merged_or_not() {
    for name in [
        "openpyxl.xlsx",
        "libreoffice.xlsx",
        "libreoffice.ods",
        "libreoffice.xls",
    ] {
        let header = Header::read(&read(name, None), None, None).unwrap();
        assert_eq!(header.rows, [1, 2], "{name}");
        let names: Vec<String> = header
            .columns
            .iter()
            .map(nero_table::Column::full)
            .collect();
        let want = [
            "nr",
            "date",
            "name",
            "Code/command",
            "Params/lr",
            "Params/layers",
            "Params/ok",
            "Test/10ep",
            "Test/50ep",
        ];
        assert_eq!(names, want, "{name}");
    }
}
