//! Tables as text keep their dialect, and every byte that was not asked for.

use nero_table::CellValue;
use nero_workbook::{CellChange, CellObstacle, CellOutcome, WorkbookError};

use crate::rig::{Csv, Tsv, cell, number, text, write, written};

fn after(before: &str, cells: &[CellChange]) -> String {
    String::from_utf8(written(Csv, before.as_bytes(), 1, cells)).unwrap()
}

#[test]
fn the_dialect_stays() {
    let wanted = [cell(1, 2, number(0.5)), cell(2, 3, text("a;b, \"c\""))];
    for (before, changed) in [
        (
            "nr,lr,loss\n1,0.1,\n2,0.2\n",
            "nr,lr,loss\n1,0.1,0.5\n2,0.2,,\"a;b, \"\"c\"\"\"\n",
        ),
        (
            "\u{feff}nr;lr;loss;status\r\n1;0,1;;\r\n2;0,2;;\r\n",
            "\u{feff}nr;lr;loss;status\r\n1;0,1;0,5;\r\n2;0,2;;\"a;b, \"\"c\"\"\"\r\n",
        ),
        (
            "nr\tlr\tloss\n1\t0.1\n2\t0.2",
            "nr\tlr\tloss\n1\t0.1\t0.5\n2\t0.2\t\t\"a;b, \"\"c\"\"\"",
        ),
        (
            "\"nr\",\"lr\",\"loss\"\n\"1\",\"0.1\",\"\"\n\"2\",\"0.2\",\"\"\n",
            "\"nr\",\"lr\",\"loss\"\n\"1\",\"0.1\",\"0.5\"\n\"2\",\"0.2\",\"\",\"a;b, \"\"c\"\"\"\n",
        ),
    ] {
        assert_eq!(after(before, &wanted), changed);
    }
    // Old line ends, and a line that names the separator.
    assert_eq!(
        after("sep=;\rnr;x\r1;\r", &[cell(2, 1, number(1.5))]),
        "sep=;\rnr;x\r1;1.5\r"
    );
}

#[test]
fn a_table_of_one_column_grows_in_the_dialect_of_its_name() {
    let wanted = [cell(0, 1, text("nero")), cell(1, 1, number(7.5))];
    for (format, after) in [(Csv, "lr,nero\n0.1,7.5\n"), (Tsv, "lr\tnero\n0.1\t7.5\n")] {
        let changed = written(format, b"lr\n0.1\n", 0, &wanted);
        assert_eq!(String::from_utf8(changed).unwrap(), after);
    }
}

#[test]
fn a_truth_that_a_program_saved_in_its_language_stays_ours() {
    let wanted = CellChange {
        ours: vec![CellValue::Bool(true)],
        ..cell(1, 1, CellValue::Bool(false))
    };
    let changed = after("nr;done\n1;WAHR\n", std::slice::from_ref(&wanted));
    assert_eq!(changed, "nr;done\n1;FALSE\n");
    let same = write(Csv, b"nr;done\n1;FALSCH\n", 1, &[wanted]);
    assert_eq!(same.outcomes, [CellOutcome::Same]);
}

#[test]
fn a_field_over_two_lines_is_one_row() {
    let before = "nr,note,loss\n1,\"a\nb \"\"c\"\"\",\n2,x,\n";
    assert_eq!(
        after(before, &[cell(2, 2, number(3.0))]),
        "nr,note,loss\n1,\"a\nb \"\"c\"\"\",\n2,x,3\n"
    );
}

#[test]
fn a_text_that_a_spreadsheet_would_run_is_harmless_and_stays_ours() {
    let mut wanted = cell(1, 1, text("=cmd()"));
    let once = after("nr,note\n1,\n", std::slice::from_ref(&wanted));
    assert_eq!(once, "nr,note\n1,'=cmd()\n");
    let again = write(Csv, once.as_bytes(), 1, std::slice::from_ref(&wanted));
    assert_eq!(again.outcomes, [CellOutcome::Same]);
    wanted.ours = vec![text("=cmd()")];
    wanted.value = Some(text("done"));
    assert_eq!(after(&once, &[wanted]), "nr,note\n1,done\n");
}

#[test]
fn a_cell_that_its_owner_edited_is_not_overwritten() {
    let before = "nr;loss;x\n1;0,50;0,1\n2;0,7;0,2\n";
    let ours = |row| CellChange {
        ours: vec![number(0.5)],
        ..cell(row, 1, number(0.25))
    };
    let edited = write(
        Csv,
        before.as_bytes(),
        1,
        &[ours(1), ours(2), ours(7), ours(0)],
    );
    let owner = CellObstacle::Owner {
        shows: "0,7".to_owned(),
    };
    assert_eq!(
        edited.outcomes,
        [
            CellOutcome::Written,
            CellOutcome::Left(owner),
            CellOutcome::Left(CellObstacle::Outside),
            CellOutcome::Left(CellObstacle::Header),
        ]
    );
    let bytes = edited.bytes.unwrap();
    assert_eq!(bytes, b"nr;loss;x\n1;0,25;0,1\n2;0,7;0,2\n");
}

#[test]
fn what_cannot_be_read_is_left_alone() {
    let sheet = nero_workbook::TargetSheet {
        name: None,
        first_row: 1,
    };
    let wanted = [cell(1, 1, number(1.0))];
    let edit = |bytes: &[u8]| nero_workbook::edit(Csv, bytes, sheet, &wanted);
    let error = edit(b"nr,x\n1,\"2\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the quote that opens in line 2 has no end"
    );
    let error = edit(b"nr,x\n1,\xe9\n").unwrap_err();
    assert!(matches!(error, WorkbookError::NotUtf8 { .. }), "{error}");
}

#[test]
fn a_text_with_blanks_at_its_ends_stays_ours() {
    let wanted = [cell(1, 1, text(" two words "))];
    let after = written(Csv, b"nr,x\n1,\n", 1, &wanted);
    let again = write(Csv, &after, 1, &wanted);
    assert_eq!(again.outcomes, [CellOutcome::Same]);
    assert!(again.bytes.is_none());
}

#[test]
fn a_number_that_a_program_saved_with_fewer_digits_is_still_ours() {
    let ours = |value: f64| CellChange {
        ours: vec![number(value)],
        ..cell(1, 1, number(0.5))
    };
    for (shown, value) in [
        // As LibreOffice saves a text, and Excel.
        ("0.00000000123456789012", 1.234_567_890_123_456_7e-9),
        ("0.000000001", 1.000_000_000_000_045_7e-9),
        ("1.23457E-07", 1.234_567_890_123_456_7e-7),
        ("0.123456789", 0.123_456_789_012_345_67),
    ] {
        let before = format!("nr,loss\n1,{shown}\n");
        assert_eq!(
            after(&before, &[ours(value)]),
            "nr,loss\n1,0.5\n",
            "{shown}"
        );
    }
    for (hers, value) in [("0.1235", 0.123_456_789), ("1000003", 1e6), ("0.0", 1e-9)] {
        let before = format!("nr,loss\n1,{hers}\n");
        let edited = write(Csv, before.as_bytes(), 1, &[ours(value)]);
        let left = CellObstacle::Owner {
            shows: hers.to_owned(),
        };
        assert_eq!(edited.outcomes, [CellOutcome::Left(left)]);
    }
    // Another number with a point, and the file has no decimal commas any more.
    let before = "nr;loss;lr\n1;0,25;1.5\n";
    assert_eq!(after(before, &[ours(0.25)]), "nr;loss;lr\n1;0.5;1.5\n");
    // The wanted value itself gets all its digits.
    let wanted = CellChange {
        value: Some(number(1_000_000.5)),
        ..ours(1_000_000.25)
    };
    assert_eq!(
        after("nr,loss\n1,1000000.25\n", &[wanted]),
        "nr,loss\n1,1000000.5\n"
    );
}
