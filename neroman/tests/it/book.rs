//! Workbooks of results, made by a process of the program itself.

use std::fs;

use nero_table::CellValue;
use nero_wire::v1::*;
use parquet::file::reader::{FileReader as _, SerializedFileReader};

use crate::fake::{Answers, Fake};
use crate::samples;

fn fake() -> Fake {
    let points = metrics_reply::Series {
        experiment: 144,
        run: 2,
        name: "loss".into(),
        steps: vec![1.0, 2.0],
        values: vec![2.5, 0.31],
        times_ms: vec![1_700_000_002_000, 1_700_000_003_000],
        generation: vec![0, 0],
        folded: 0,
    };
    let mut experiments = samples::four();
    experiments.push(ExperimentView {
        name: "=HYPERLINK(\"http://x\")".into(),
        ..samples::hostile()
    });
    Fake::new(Answers {
        list: ListReply {
            experiments,
            ..ListReply::default()
        },
        metrics: MetricsReply {
            series: vec![points],
            ..MetricsReply::default()
        },
        ..Answers::default()
    })
}

#[test]
fn results_become_a_workbook_with_a_row_per_run() {
    let fake = fake();
    for ending in ["xlsx", "ods"] {
        let path = fake.path().join(format!("x.{ending}"));
        let file = path.to_str().expect("a text");
        fake.ok(&["results", "all", "--best", "loss", "-o", file]);
        // Our own file is made anew.
        fake.ok(&["results", "all", "--best", "loss", "-o", file]);
        let bytes = fs::read(&path).expect("a file");
        let read = |name| nero_spreadsheet::read(&bytes, ending, Some(name)).expect("a sheet");
        let runs = read("Runs");
        let sheets = ["Runs", "Summary", "Series", "Provenance", "About"];
        assert_eq!(runs.sheets[..5], sheets);
        let titles: Vec<&str> = runs.rows[0]
            .cells
            .iter()
            .map(|(_, cell)| cell.text())
            .collect();
        assert_eq!(
            titles[..6],
            ["id", "name", "min(loss)", "collection", "run", "state"]
        );
        let texts = |column| {
            let below = runs.rows[1..].iter();
            let cells = below.map(|row| row.cell(column).map_or("", CellValue::text));
            cells.collect::<Vec<_>>()
        };
        // The fourth never ran.
        assert_eq!(texts(1), ["145", "144", "146", "1"]);
        assert_eq!(texts(3), ["0.125", "0.25", "", ""]);
        assert_eq!(texts(2)[3], "=HYPERLINK(\"http://x\")");
        let series = read("Series");
        assert_eq!(series.rows.len(), 3);
        let number = |text: &str| Some(CellValue::Number(text.to_owned()));
        assert_eq!(series.rows[2].cell(5).cloned(), number("0.31"));
        let about = read("About");
        let command = "neroman results all --best loss";
        assert!(
            about
                .rows
                .iter()
                .any(|row| row.cell(2).is_some_and(|cell| cell.text() == command))
        );
    }
    let asked: Vec<String> = fake
        .requests()
        .into_iter()
        .filter(|request| request.starts_with("metrics"))
        .collect();
    assert!(asked[0].contains("145.1,144.2,1.1"), "{asked:?}");
}

#[test]
fn results_and_points_become_files_of_parquet() {
    let fake = fake();
    let path = fake.path().join("x.parquet");
    let file = path.to_str().expect("a text");
    fake.ok(&["results", "all", "--best", "loss", "-o", file]);
    let results = Table::read(fs::read(&path).expect("a file"));
    assert_eq!(results.command, "neroman results all --best loss");
    assert_eq!(results.cells("id"), ["145", "144", "146", "1"]);
    assert_eq!(
        results.cells("min(loss)"),
        ["0.125", "0.25", "null", "null"]
    );
    assert_eq!(results.cells("name")[3], "\"=HYPERLINK(\"http://x\")\"");
    let ran = fake.command(&["metrics", "all", "--parquet"]).output();
    let points = Table::read(ran.expect("an answer").stdout);
    assert_eq!(points.command, "neroman metrics all");
    assert_eq!(points.cells("run"), ["\"144.2\"", "\"144.2\""]);
    assert_eq!(points.cells("value"), ["2.5", "0.31"]);
}

/// What a file of Parquet holds.
struct Table {
    command: String,
    rows: Vec<parquet::record::Row>,
}

impl Table {
    fn read(bytes: Vec<u8>) -> Self {
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a file of Parquet");
        let about = file.metadata().file_metadata().key_value_metadata();
        let mut about = about.expect("about").iter();
        let command = about.find(|pair| pair.key == "neronet.command");
        let rows = file.get_row_iter(None).expect("rows");
        Self {
            command: command.expect("a command").value.clone().expect("a value"),
            rows: rows.map(|row| row.expect("a row")).collect(),
        }
    }

    fn cells(&self, name: &str) -> Vec<String> {
        let cell = |row: &parquet::record::Row| {
            let mut cells = row.get_column_iter();
            let (_, cell) = cells.find(|(title, _)| *title == name).expect("a column");
            cell.to_string()
        };
        self.rows.iter().map(cell).collect()
    }
}

#[test]
fn a_workbook_of_the_owner_is_not_replaced() {
    let fake = fake();
    let path = fake.path().join("plan.xlsx");
    let golden = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/spreadsheet/tests/golden/xlsxwriter.xlsx"
    );
    fs::copy(golden, &path).expect("a copy");
    let before = fs::read(&path).expect("a file");
    let ran = fake.run(&["results", "all", "-o", path.to_str().expect("a text")]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(
        ran.err.contains("it was not made by `neroman results`"),
        "{}",
        ran.err
    );
    assert_eq!(fs::read(&path).expect("a file"), before);
}

#[test]
fn a_file_of_parquet_of_the_owner_is_not_replaced() {
    let fake = fake();
    let path = fake.path().join("data.parquet");
    let words = ["results", "all", "-o", path.to_str().expect("a text")];
    fs::write(&path, "").expect("a file");
    fake.ok(&words);
    fake.ok(&words);
    let ours = fs::read(&path).expect("a file");
    // What another program saved has its name.
    let maker = ours.windows(8).rposition(|part| part == b"neroman ");
    let mut saved = ours;
    let maker = maker.expect("a maker");
    saved[maker..maker + 8].copy_from_slice(b"pyarrow ");
    for data in [&saved[..], b"PAR1 cut short", b"plan"] {
        fs::write(&path, data).expect("a file");
        let ran = fake.run(&words);
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(
            ran.err.contains("it was not made by `neroman results`"),
            "{}",
            ran.err
        );
        assert_eq!(fs::read(&path).expect("a file"), data);
    }
}

#[test]
fn a_csv_that_is_not_as_we_left_it_is_not_replaced() {
    let fake = fake();
    let path = fake.path().join("plan.csv");
    let words = ["results", "144-146", "-o", path.to_str().expect("a text")];
    fake.ok(&words);
    fake.ok(&[&words[..], &["--by", "opt"]].concat());
    fake.ok(&words);
    // A plan, and our own table with a line more.
    let plan = "nr,lr,command\n144,0.1,python3 train.py {lr}\n".to_owned();
    let ours = fs::read_to_string(&path).expect("a file") + "147,by hand,,,\n";
    for text in [plan, ours] {
        fs::write(&path, &text).expect("a file");
        let ran = fake.run(&words);
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        let why = "it was not made by neroman, or was changed since";
        assert!(ran.err.contains(why), "{}", ran.err);
        assert_eq!(fs::read_to_string(&path).expect("a file"), text);
    }
}

#[test]
fn results_become_a_table_of_latex() {
    let fake = fake();
    let path = fake.path().join("x.tex");
    let words = [
        "results",
        "144-146",
        "--by",
        "opt",
        "-o",
        path.to_str().expect("a text"),
    ];
    fake.ok(&words);
    let text = fs::read_to_string(path).expect("a file");
    assert!(
        text.contains("\\begin{tabular}{") && text.contains("\\toprule"),
        "{text}"
    );
    assert!(text.contains("opt & n & loss & acc"), "{text}");
}

#[test]
fn a_text_that_we_did_not_leave_so_is_not_replaced() {
    let fake = fake();
    for name in ["table.json", "table.md", "table.tex"] {
        let path = fake.path().join(name);
        let words = ["results", "144-146", "-o", path.to_str().expect("a text")];
        fake.ok(&words);
        fake.ok(&words);
        let mut changed = fs::read_to_string(&path).expect("a file");
        changed.push_str("my own remark\n");
        fs::write(&path, &changed).expect("a file");
        let ran = fake.run(&words);
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(ran.err.contains("or was changed since"), "{}", ran.err);
        assert_eq!(fs::read_to_string(&path).expect("a file"), changed);
    }
}
