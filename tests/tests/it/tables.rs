//! Experiments from a spreadsheet, with the real programs: the file is read by a process
//! of its own, the sheet's numbers are the numbers, and the owner goes on editing.

use std::fs;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nero_tests::{Home, Part, peak_bytes, peak_bytes_now};
use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A folder with a table of text and the YAML file beside it.
pub fn plan(home: &Home, name: &str, table: &str, yaml: &str) -> PathBuf {
    let folder = home.path().join(name);
    fs::create_dir_all(&folder).unwrap();
    if !yaml.is_empty() {
        fs::write(folder.join("plan.yaml"), yaml).unwrap();
    }
    let table_file = folder.join("plan.csv");
    fs::write(&table_file, table).unwrap();
    table_file
}

pub fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn golden(name: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../neroman");
    crates.join("spreadsheet/tests/golden").join(name)
}

/// A workbook that says of itself that it has a hundred million texts, for which no reader makes
/// room, and that has no sheet.
fn liar() -> Vec<u8> {
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    let rels = format!(
        r#"<Relationships><Relationship Id="rId1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>"#
    );
    let book = format!(r#"<workbook xmlns="{MAIN}"><sheets/></workbook>"#);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in [
        ("[Content_Types].xml", "<Types/>"),
        ("_rels/.rels", &rels),
        ("xl/workbook.xml", &book),
        (
            "xl/sharedStrings.xml",
            r#"<sst uniqueCount="100000000"></sst>"#,
        ),
    ] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Number, name and `lr` of all experiments.
fn rows(home: &Home) -> Vec<(u64, String, Value)> {
    let document = home.json(&["status", "all"]);
    let experiments = document["experiments"].as_array().unwrap();
    experiments
        .iter()
        .map(|one| {
            let name = one["name"].as_str().unwrap().to_owned();
            (
                one["id"].as_u64().unwrap(),
                name,
                one["parameters"]["lr"].clone(),
            )
        })
        .collect()
}

#[test]
fn a_researcher_starts_rows_of_a_workbook_by_the_sheets_own_numbers() {
    let home = Home::new();
    let folder = home.path().join("rnn");
    fs::create_dir(&folder).unwrap();
    let book = folder.join("book.xlsx");
    fs::copy(golden("xlsxwriter.xlsx"), &book).unwrap();
    fs::write(
        folder.join("book.yaml"),
        "table: {ignore: [Test/10ep, Test/50ep]}\ncommand: echo {nr} rate {Params/lr}\n",
    )
    .unwrap();
    let broken = home.run(&["add", &shown(&book)]);
    assert_eq!(broken.code, Some(2), "{broken:#?}");
    assert!(
        broken.err.contains("`nr` names no parameter") || broken.err.contains("nr"),
        "{broken:#?}"
    );
    fs::write(
        folder.join("book.yaml"),
        "table: {ignore: [Test/10ep, Test/50ep, Code/command]}\ncommand: echo rate {Params/lr}\n",
    )
    .unwrap();
    let added = home.run(&["add", &shown(&book)]);
    assert_eq!(added.code, Some(0), "{added:#?}");
    assert!(
        added.out.contains("added 4") && added.out.contains("start 1-4"),
        "{added:#?}"
    );
    assert!(
        added.err.contains("rows 1 and 2 are the header"),
        "{added:#?}"
    );
    home.ok(&["start", "1,3", "--wait"]);
    assert_eq!(home.ok(&["logs", "3"]), "rate 0.0002\n");
    let seen = home.experiment_json(1);
    assert_eq!(seen["name"], "first", "{seen:#}");
    assert_eq!(seen["parameters"]["date"], "2015-05-20", "{seen:#}");
    // The workbook is the plan, and no file of the code.
    fs::write(folder.join("~$book.xlsx"), "lock").unwrap();
    fs::copy(golden("libreoffice.xlsx"), &book).unwrap();
    let changed = home.json(&["status", "changed"]);
    assert_eq!(changed["experiments"], serde_json::json!([]), "{changed:#}");
}

#[test]
fn rows_are_renamed_sorted_inserted_and_deleted_and_keep_their_numbers() {
    let home = Home::new();
    let yaml = "command: echo {lr}\n";
    let table = plan(
        &home,
        "p",
        "nr,name,lr\n10,a,0.1\n20,b,0.2\n5,c,0.3\n",
        yaml,
    );
    let added = home.ok(&["add", &shown(&table)]);
    assert!(added.contains("start 5,10,20"), "{added}");
    // Sorted, one renamed, one changed, one inserted in the middle, one deleted.
    fs::write(&table, "nr,name,lr\n5,c,0.3\n7,new,0.7\n10,base,0.15\n").unwrap();
    let ran = home.run(&["start", "10", "--wait"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.err.contains("10: lr 0.1 → 0.15"), "{ran:#?}");
    assert!(
        ran.err.contains("20: no longer in its source; kept"),
        "{ran:#?}"
    );
    assert!(ran.err.contains("7: new in its source: new"), "{ran:#?}");
    assert_eq!(home.ok(&["logs", "10"]), "0.15\n");
    let found = rows(&home);
    let ids: Vec<u64> = found.iter().map(|(id, ..)| *id).collect();
    assert_eq!(ids, [5, 7, 10], "{found:?}");
    assert_eq!(found[2].1, "base");
    assert_eq!(home.experiment_json(20)["gone"], true);
    // What another source adds comes behind all numbers.
    crate::story::added(&home, "y", "collection: y\n+e: {command: 'true'}\n");
    assert_eq!(home.experiment_json(21)["name"], "e");
    // The row comes back with its number.
    fs::write(
        &table,
        "nr,name,lr\n20,b,0.2\n5,c,0.3\n7,new,0.7\n10,base,0.15\n",
    )
    .unwrap();
    let listed = home.run(&["status", "tmod<1h", "--json"]);
    assert!(
        listed.out.contains("\"id\":20") || listed.out.contains("\"id\": 20"),
        "{listed:#?}"
    );
    assert_eq!(home.experiment_json(20)["gone"], false);
}

#[test]
fn the_yaml_file_beside_a_table_is_read_again_as_the_table_is() {
    let home = Home::new();
    let table = plan(
        &home,
        "p",
        "id,lr\n1,0.1\n2,0.2\n",
        "command: echo one {lr}\n",
    );
    home.ok(&["add", &shown(&table)]);
    let yaml = table.with_extension("yaml");
    fs::write(&yaml, "command: echo two {lr}\n").unwrap();
    let ran = home.run(&["start", "1", "--wait"]);
    assert!(ran.err.contains("command changed"), "{ran:#?}");
    assert_eq!(home.ok(&["logs", "1"]), "two 0.1\n");
    // A mistake stops the command and changes nothing.
    fs::write(&table, "id,lr\n1,0.5\n1,0.2\n").unwrap();
    let ran = home.run(&["restart", "1"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert!(
        ran.err.contains("plan.csv:A3") && ran.err.contains("comes twice"),
        "{ran:#?}"
    );
    assert_eq!(home.experiment_json(1)["run"], "1.1");
    let ran = home.run(&["restart", "1", "--as-added", "--wait"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    // Another file than the one of its name.
    fs::write(&table, "id,lr\n1,0.5\n").unwrap();
    let other = table.with_file_name("other.yaml");
    fs::write(&other, "command: echo three {lr}\n").unwrap();
    home.ok(&["add", &shown(&table), "--with", &shown(&other)]);
    fs::write(&other, "command: echo four {lr}\n").unwrap();
    home.ok(&["restart", "1", "--wait"]);
    assert_eq!(home.ok(&["logs", "1"]), "four 0.5\n");
}

#[test]
fn numbers_of_other_experiments_are_told_for_all_rows_at_once() {
    let home = Home::new();
    crate::story::added(
        &home,
        "y",
        "collection: y\n+e: {command: 'true {x}', parameters: {x: [1, 2, 3]}}\n",
    );
    let table = plan(&home, "p", "#,command\n2,true\n3,true\n9999999,true\n", "");
    let ran = home.run(&["add", &shown(&table)]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert!(
        ran.err
            .contains("2 numbers in the table belong to other experiments"),
        "{ran:#?}"
    );
    for told in [
        "plan.csv:A2: 2 is `e_x-2`",
        "plan.csv:A3: 3 is `e_x-3`",
        "--offset 1000",
    ] {
        assert!(ran.err.contains(told), "{told}: {ran:#?}");
    }
    assert_eq!(
        home.json(&["status", "all"])["experiments"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    let ran = home.run(&["add", &shown(&table), "--offset", "1000"]);
    assert!(
        ran.err.contains("plan.csv:A4") && ran.err.contains("larger than 9999999"),
        "{ran:#?}"
    );
    fs::write(&table, "#,command\n2,true\n3,true\n9998999,true\n").unwrap();
    let added = home.ok(&["add", &shown(&table), "--offset", "1000"]);
    assert!(added.contains("start 1002-1003,9999999"), "{added}");
    // The offset is remembered; nothing is sized by a number.
    fs::write(&table, "#,command\n2,true\n3,true\n4,true\n9998999,true\n").unwrap();
    let added = home.ok(&["add", &shown(&table)]);
    assert!(added.contains("same 3 · added 1"), "{added}");
    home.kill(nero_tests::Part::Daemon);
    assert_eq!(home.experiment_json(9_999_999)["name"], "plan_9999999");
    home.ok(&["start", "9999999", "--wait"]);
}

#[test]
fn rows_of_a_file_that_is_open_elsewhere_are_known_by_their_values_until_it_is_closed() {
    let home = Home::new();
    let table = plan(
        &home,
        "p",
        "lr;n\n0,1;4\n0,2;4\n0,3;4\n",
        "command: echo {lr} {n}\n",
    );
    let lock = table.with_file_name(".~lock.plan.csv#");
    fs::write(
        &lock,
        "Ada,ada,far.example.org,24.11.2026 06:00,file:///ada;",
    )
    .unwrap();
    let before = fs::read(&table).unwrap();
    let added = home.run(&["add", &shown(&table)]);
    assert!(added.out.contains("added 3"), "{added:#?}");
    for told in [
        "is open in LibreOffice; close it there, then `neroman add",
        "by its name",
    ] {
        assert!(added.err.contains(told), "{told}: {added:#?}");
    }
    assert_eq!(fs::read(&table).unwrap(), before);
    assert!(added.err.contains("`0,1` is read as 0.1"), "{added:#?}");
    // Sorted anew, with a row in between.
    fs::write(&table, "lr;n\n0,3;4\n0,15;4\n0,1;4\n0,2;4\n").unwrap();
    let added = home.ok(&["add", &shown(&table)]);
    assert!(added.contains("same 3 · added 1"), "{added}");
    assert_eq!(rows(&home)[2].2, serde_json::json!(0.3));
    // A value that is the same in all rows before, and no more.
    fs::write(&table, "lr;n\n0,3;4\n0,15;4\n0,1;4\n0,2;4\n0,1;5\n").unwrap();
    let added = home.ok(&["add", &shown(&table)]);
    assert!(added.contains("added 1"), "{added}");
    assert!(!added.contains("gone"), "{added}");
    let known = rows(&home);
    fs::remove_file(&lock).unwrap();
    let added = home.ok(&["add", &shown(&table)]);
    assert!(added.contains("same 5"), "{added}");
    assert_eq!(
        fs::read_to_string(&table).unwrap(),
        "lr;n;nero\n0,3;4;3\n0,15;4;4\n0,1;4;1\n0,2;4;2\n0,1;5;5\n"
    );
    assert_eq!(rows(&home), known);
}

/// A table as the program of its owner writes it, a workbook or a text.
pub fn save(file: &Path, rows: &[&[&str]]) {
    if file.extension().unwrap() == "csv" {
        let lines: Vec<String> = rows.iter().map(|row| row.join(",") + "\n").collect();
        return fs::write(file, lines.concat()).unwrap();
    }
    let parts = if file.extension().unwrap() == "ods" {
        open_document(rows)
    } else {
        workbook(rows)
    };
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in parts {
        let method = match name {
            "mimetype" => CompressionMethod::Stored,
            _ => CompressionMethod::Deflated,
        };
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(name, options).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    fs::write(file, zip.finish().unwrap().into_inner()).unwrap();
}

/// A workbook with this list of rows.
fn with_rows(rows: &str) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in workbook(&[]) {
        let list = format!("<sheetData>{rows}</sheetData>");
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.replace("<sheetData></sheetData>", &list).as_bytes())
            .unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The parts of an `.ods` with these rows.
fn open_document(rows: &[&[&str]]) -> Vec<(&'static str, String)> {
    const SPACE: &str = "urn:oasis:names:tc:opendocument:xmlns";
    let cell = |text: &&str| match (text.is_empty(), text.parse::<f64>().is_ok()) {
        (true, _) => "<table:table-cell/>".to_owned(),
        (_, true) => format!(
            "<table:table-cell office:value-type='float' office:value='{text}'><text:p>{text}</text:p></table:table-cell>"
        ),
        (_, false) => format!(
            "<table:table-cell office:value-type='string'><text:p>{text}</text:p></table:table-cell>"
        ),
    };
    let row = |row: &&[&str]| {
        let cells: String = row.iter().map(cell).collect();
        format!("<table:table-row>{cells}</table:table-row>")
    };
    let rows: String = rows.iter().map(row).collect();
    vec![
        (
            "mimetype",
            "application/vnd.oasis.opendocument.spreadsheet".to_owned(),
        ),
        (
            "content.xml",
            format!(
                "<office:document-content xmlns:office='{SPACE}:office:1.0' xmlns:table='{SPACE}:table:1.0' xmlns:text='{SPACE}:text:1.0'><office:body><office:spreadsheet><table:table table:name='Plan'>{rows}</table:table></office:spreadsheet></office:body></office:document-content>"
            ),
        ),
    ]
}

/// The parts of an `.xlsx` with these rows; a text that begins with `=` is a formula.
fn workbook(rows: &[&[&str]]) -> Vec<(&'static str, String)> {
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
    let cell = |text: &&str| match (text.is_empty(), text.parse::<f64>().is_ok()) {
        _ if text.starts_with('=') => format!("<c><f>{}</f><v>0</v></c>", &text[1..]),
        (true, _) => "<c/>".to_owned(),
        (_, true) => format!("<c><v>{text}</v></c>"),
        (_, false) => format!("<c t='inlineStr'><is><t>{text}</t></is></c>"),
    };
    let row = |row: &&[&str]| format!("<row>{}</row>", row.iter().map(cell).collect::<String>());
    let data: String = rows.iter().map(row).collect();
    vec![
        ("[Content_Types].xml", "<Types xmlns='http://schemas.openxmlformats.org/package/2006/content-types'><Default Extension='rels' ContentType='application/vnd.openxmlformats-package.relationships+xml'/><Override PartName='/xl/workbook.xml' ContentType='application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml'/><Override PartName='/xl/worksheets/sheet1.xml' ContentType='application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml'/></Types>".to_owned()),
        ("_rels/.rels", format!("<Relationships xmlns='{PACKAGE}'><Relationship Id='rId1' Type='{OFFICE}/officeDocument' Target='xl/workbook.xml'/></Relationships>")),
        ("xl/_rels/workbook.xml.rels", format!("<Relationships xmlns='{PACKAGE}'><Relationship Id='rId1' Type='{OFFICE}/worksheet' Target='worksheets/sheet1.xml'/></Relationships>")),
        ("xl/workbook.xml", format!("<workbook xmlns='{MAIN}' xmlns:r='{OFFICE}'><sheets><sheet name='Plan' sheetId='1' r:id='rId1'/></sheets></workbook>")),
        ("xl/worksheets/sheet1.xml", format!("<worksheet xmlns='{MAIN}'><sheetData>{data}</sheetData></worksheet>")),
        ("xl/vbaProject.bin", "macros".to_owned()),
    ]
}

/// The cells of a table as text, row by row up to the last filled one.
pub fn cells(home: &Home, file: &Path) -> Vec<Vec<String>> {
    let read = home.office(&["read-table", &shown(file)]).output().unwrap();
    let sheet: Value = serde_json::from_slice(&read.stdout).unwrap();
    let text = |cell: &Value| match cell[1].as_object() {
        Some(kinds) => kinds.values().next().unwrap().as_str().unwrap().to_owned(),
        None => "formula without a value".to_owned(),
    };
    let rows = sheet["Ok"]["rows"].as_array().unwrap();
    let row = |row: &Value| {
        let mut cells = Vec::new();
        for cell in row["cells"].as_array().unwrap() {
            let column = usize::try_from(cell[0].as_u64().unwrap()).unwrap();
            cells.resize(column, String::new());
            cells[column - 1] = text(cell);
        }
        cells
    };
    rows.iter().map(row).collect()
}

#[test]
fn numbers_are_written_into_a_table_without_any_and_stay_with_their_rows() {
    for name in ["plan.csv", "plan.xlsx"] {
        let home = Home::new();
        let table = plan(&home, "p", "", "command: echo {lr} {n}\n").with_file_name(name);
        let unnumbered: [&[&str]; 4] = [&["lr", "n"], &["0.1", "4"], &["0.2", "4"], &["0.3", "5"]];
        save(&table, &unnumbered);
        let added = home.run(&["add", &shown(&table)]);
        assert!(added.out.contains("added 3"), "{added:#?}");
        assert!(
            added.err.contains("are in column C (`nero`) of"),
            "{added:#?}"
        );
        let wanted: [&[&str]; 4] = [
            &["lr", "n", "nero"],
            &["0.1", "4", "1"],
            &["0.2", "4", "2"],
            &["0.3", "5", "3"],
        ];
        assert_eq!(cells(&home, &table), wanted, "{name}");
        home.ok(&["start", "all", "--wait"]);
        // Our own write is no change, and nothing is written twice.
        let (bytes, known) = (fs::read(&table).unwrap(), rows(&home));
        let added = home.run(&["add", &shown(&table)]);
        assert!(added.out.contains("same 3"), "{added:#?}");
        assert!(!added.err.contains("nero`"), "{added:#?}");
        assert_eq!(fs::read(&table).unwrap(), bytes);
        assert_eq!(rows(&home), known);
        let changed = home.json(&["status", "changed"]);
        assert_eq!(changed["experiments"], serde_json::json!([]), "{changed:#}");
        // Sorted, a value changed, a row in between.
        let edited: [&[&str]; 5] = [
            &["lr", "n", "nero"],
            &["0.35", "5", "3"],
            &["0.15", "4", ""],
            &["0.2", "4", "2"],
            &["0.1", "4", "1"],
        ];
        save(&table, &edited);
        let added = home.run(&["add", &shown(&table)]);
        assert!(added.out.contains("lr 0.3 → 0.35"), "{added:#?}");
        let numbers = cells(&home, &table).into_iter().map(|row| row[2].clone());
        let numbers: Vec<String> = numbers.collect();
        assert_eq!(numbers, ["nero", "3", "4", "2", "1"], "{name}");
        home.ok(&["restart", "3", "--wait"]);
        assert_eq!(home.ok(&["logs", "3"]), "0.35 5\n");
        // An older copy of the file, without the numbers.
        save(&table, &unnumbered);
        home.ok(&["add", &shown(&table)]);
        let found = cells(&home, &table);
        assert_eq!(
            found[1..3],
            [["0.1", "4", "1"], ["0.2", "4", "2"]],
            "{name}"
        );
    }
}

#[test]
fn an_absent_office_is_named_and_a_daemon_keeps_the_one_it_has() {
    let mut home = Home::new();
    let folder = home.other_build(0);
    home.use_programs(&folder);
    let (office, aside) = (folder.join("neroman-office"), folder.join("aside"));
    let table = shown(&plan(&home, "p", "id,command\n7,true\n", ""));
    let job = home.experiment("job", "command: echo loss 1");
    fs::rename(&office, &aside).unwrap();
    home.ok(&["start", job.to_str().unwrap(), "--wait"]);
    let named = format!("neroman-office is not in {}", folder.display());
    for words in [
        &["add", &table][..],
        &["results", "all", "-o", "made.ods"],
        &["results", "all", "-o", "made.parquet"],
        &["metrics", "all", "--parquet"],
        &["plot", "all", "loss", "-o", "made.png"],
    ] {
        let ran = home.run(words);
        assert_ne!(ran.code, Some(0), "{ran:#?}");
        assert!(ran.err.contains(&named), "{ran:#?}");
        assert!(ran.err.contains("cargo xtask install"), "{ran:#?}");
    }
    fs::rename(&aside, &office).unwrap();
    home.ok(&["add", &table]);
    // An upgrade below the daemon, which began with another one.
    fs::remove_file(&office).unwrap();
    home.script(&office, "#!/bin/sh\nexit 1\n");
    home.ok(&["add", &table]);
    let ran = home.run(&["plot", "all", "loss", "-o", "made.png"]);
    assert_ne!(ran.code, Some(0), "{ran:#?}");
}

#[test]
fn a_file_that_is_no_table_is_told_and_changes_nothing() {
    let home = Home::new();
    let folder = home.path().join("p");
    fs::create_dir(&folder).unwrap();
    let cut = || {
        let whole = fs::read(golden("libreoffice.xlsx")).unwrap();
        whole[..whole.len() / 2].to_vec()
    };
    let million = || with_rows(&"<row><c><v>1</v></c></row>".repeat(1 << 20));
    let unfolding = || {
        let long = "a".repeat(17 << 20);
        with_rows(&format!("<row><c t='str'><v>{long}</v></c></row>"))
    };
    // Each file is made in its turn: a process inherits the peak of the process that starts it.
    type Case = (&'static str, fn() -> Vec<u8>, &'static str);
    let cases: [Case; 12] = [
        ("cut.xlsx", cut, "is cut short or damaged"),
        (
            "page.xlsx",
            || b"<html><table></table></html>".to_vec(),
            "web page (HTML)",
        ),
        (
            "old.xlsx",
            || fs::read(golden("libreoffice.xls")).unwrap(),
            "old workbook (.xls)",
        ),
        ("liar.xlsx", liar, "has no sheet of cells"),
        ("million.xlsx", million, "100100 rows"),
        (
            "corner.xlsx",
            || with_rows("<row r='1048576'><c r='XFD1048576'><v>1</v></c></row>"),
            "names the columns",
        ),
        (
            "shared.xlsx",
            || with_rows("<row><c t='s'><v>7</v></c></row>"),
            "shared.xlsx",
        ),
        ("bomb.xlsx", unfolding, "unfolds"),
        (
            "quote.csv",
            || b"id,command\n1,\"true\n".to_vec(),
            "is not closed",
        ),
        (
            "twice.csv",
            || b"id,command\n1,true\n1,true\n".to_vec(),
            "comes twice",
        ),
        (
            "part.csv",
            || b"id,command\n1.5,true\n".to_vec(),
            "no number of an experiment",
        ),
        (
            "headless.csv",
            || b"1,true\n2,true\n".to_vec(),
            "names the columns",
        ),
    ];
    home.ok(&["status"]);
    let daemon = home.until_alive(Part::Daemon);
    // The first refusal loads pages of the program that the daemon has not used before.
    let first = folder.join("first.xlsx");
    fs::write(&first, cut()).unwrap();
    assert_eq!(home.run(&["add", &shown(&first)]).code, Some(2));
    let before = peak_bytes_now(&daemon);
    for (name, made, told) in cases {
        let file = folder.join(name);
        let bytes = made();
        fs::write(&file, &bytes).unwrap();
        let ran = home.run(&["add", &shown(&file)]);
        assert_eq!(ran.code, Some(2), "{name}: {ran:#?}");
        assert!(ran.err.contains(told), "{name}: {ran:#?}");
        let mut reader = home.office(&["read-table", &shown(&file)]);
        let reader = reader.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let peak = peak_bytes(&reader.unwrap());
        assert!(peak <= 256 << 20, "{name}: {peak} bytes in the reader");
        assert_eq!(fs::read(&file).unwrap(), bytes, "{name}");
    }
    let more = peak_bytes_now(&daemon) - before;
    assert!(more <= 10 << 20, "{more} bytes more in the daemon");
    assert_eq!(
        home.json(&["status", "all"])["experiments"],
        serde_json::json!([])
    );
    let ran = home.run(&[
        "add",
        &shown(&folder.join("quote.csv")),
        "--with",
        "nothing.yaml",
    ]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    let ran = home.run(&[
        "add",
        &shown(&home.experiment("y", "+e: {command: 'true'}\n")),
        "--offset",
        "5",
    ]);
    assert!(ran.err.contains("go with a table"), "{ran:#?}");
}

#[test]
fn a_row_that_was_edited_since_its_run_is_told_with_the_values_of_the_run() {
    let home = Home::new();
    let table = plan(
        &home,
        "edited",
        "nr,lr,state,loss\n801,1,,\n802,2,,\n",
        "command: echo loss {lr}\ntable: {status: state}\nresults: {loss: loss}\n",
    );
    home.ok(&["start", &shown(&table), "--wait"]);
    nero_tests::until("the results to be in the table", || {
        let text = fs::read_to_string(&table).unwrap();
        if text.contains("802,2,finished,2") {
            return Ok(());
        }
        Err(text)
    });
    let written = fs::read_to_string(&table).unwrap();
    fs::write(&table, written.replace("802,2,", "802,50,")).unwrap();
    home.ok(&["add", &shown(&table)]);

    let seen = home.json(&["status", "802"]);
    let row = &seen["experiments"][0];
    assert_eq!(row["state"], "finished");
    assert_eq!(row["edited_since_run"], true);
    assert_eq!(row["parameters"]["lr"], 2, "the run's value: {row:#}");
    assert!(home.ok(&["status"]).contains("finished, edited since"));
    let picture = home.ok(&["plot", "all", "loss"]);
    assert!(
        picture.contains("lr=2") && !picture.contains("lr=50"),
        "{picture}"
    );
    let grouped = home.ok(&["plot", "all", "loss", "--by", "lr"]);
    assert!(
        grouped.contains("lr=2") && !grouped.contains("lr=50"),
        "{grouped}"
    );
    nero_tests::until("the table to tell it", || {
        let text = fs::read_to_string(&table).unwrap();
        if text.contains("802,50,\"finished, edited since\",2") {
            return Ok(());
        }
        Err(text)
    });
}
