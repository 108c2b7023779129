//! Results and states in the owner's own cells, with the real programs: written beside her edits,
//! into a file that she has open, that she saves an old copy of, and whose writers are killed.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nero_tests::{Home, Part, until};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use zip::{CompressionMethod, ZipArchive};

use crate::tables::{cells, plan, save, shown};

const HEADER: [&str; 6] = ["nr", "lr", "state", "loss", "twice", "mine"];

/// A table with these rows below its header, and the file that lets its jobs end.
fn planned(home: &Home, name: &str, rows: &[[&str; 6]]) -> (PathBuf, PathBuf) {
    let go = home.path().join("go");
    let yaml = format!(
        "command: [sh, -c, 'echo loss = {{lr}}; while [ ! -e {} ]; do sleep 0.05; done; echo loss = 9{{lr}}']\n\
         table: {{status: state, ignore: mine}}\n\
         results: {{loss: metric.loss, twice: metric.loss * 2}}\n",
        go.display()
    );
    let table = plan(home, "p", "", &yaml).with_file_name(name);
    if name != "plan.csv" {
        fs::remove_file(table.with_file_name("plan.csv")).unwrap();
    }
    saved(&table, rows);
    (table, go)
}

fn saved(table: &Path, rows: &[[&str; 6]]) {
    let all: Vec<&[&str]> = std::iter::once(&HEADER)
        .chain(rows)
        .map(|row| &row[..])
        .collect();
    save(table, &all);
}

/// Waits until the table has these rows below its header.
#[track_caller]
fn until_rows(home: &Home, table: &Path, wanted: &[[&str; 6]]) {
    until("the rows of the table", || {
        let mut found = cells(home, table);
        found
            .iter_mut()
            .for_each(|row| row.resize(6, String::new()));
        if found[1..] == *wanted {
            Ok(())
        } else {
            Err((found, home.logs()))
        }
    });
}

/// From an empty cell to the end of a run, with a cell that holds something else and an owner who
/// edits, sorts and saves an old copy.
fn an_owner_and_her_table(name: &str) {
    let home = Home::new();
    let (table, go) = planned(
        &home,
        name,
        &[
            ["1", "0.1", "", "", "", "a"],
            ["2", "0.2", "", "hers", "", "b"],
        ],
    );
    let added = home.run(&["add", &shown(&table)]);
    assert!(added.out.contains("added 2"), "{added:#?}");
    home.ok(&["start", "all"]);
    until_rows(
        &home,
        &table,
        &[
            ["1", "0.1", "running", "0.1", "0.2", "a"],
            ["2", "0.2", "running", "hers", "0.4", "b"],
        ],
    );
    let old = fs::read(&table).unwrap();
    // What is not ours is told once, with its cell.
    let history = home.ok(&["show", "2"]);
    assert_eq!(
        history.matches("its result is not written").count(),
        1,
        "{history}"
    );
    assert!(history.contains("D3 holds `hers`"), "{history}");
    let status = home.run(&["status"]);
    assert!(
        status.err.contains("has 1 cell that got no result"),
        "{status:#?}"
    );
    let books = &home.json(&["status"])["workbooks"];
    assert_eq!(books[0]["cells_left"], 1, "{books:#}");
    assert!(
        books[0]["open"].is_null() && books[0]["live"].is_null(),
        "{books:#}"
    );
    // What we wrote is no change of the source.
    let changed = home.run(&["status", "changed", "--json"]);
    assert!(changed.out.contains("\"experiments\":[]"), "{changed:#?}");
    // An edit of hers is in the file when the next results are written, beside a moved row.
    saved(
        &table,
        &[
            ["2", "0.2", "running", "hers", "0.4", "b"],
            ["1", "0.15", "running", "0.1", "0.2", "new"],
        ],
    );
    fs::write(&go, "").unwrap();
    home.ok(&["wait", "all"]);
    until_rows(
        &home,
        &table,
        &[
            ["2", "0.2", "finished", "hers", "180.4", "b"],
            ["1", "0.15", "finished", "90.1", "180.2", "new"],
        ],
    );
    // An old copy, from before: every value in it is ours or hers, and the results come back.
    fs::write(&table, &old).unwrap();
    until_rows(
        &home,
        &table,
        &[
            ["1", "0.1", "finished", "90.1", "180.2", "a"],
            ["2", "0.2", "finished", "hers", "180.4", "b"],
        ],
    );
    let history = home.ok(&["show", "2"]);
    assert_eq!(
        history.matches("its result is not written").count(),
        1,
        "{history}"
    );
    // Our write does not hide her edit from the next command that reads the source.
    saved(
        &table,
        &[
            ["1", "0.3", "running", "0.1", "0.2", "a"],
            ["2", "0.2", "finished", "", "180.4", "b"],
        ],
    );
    until_rows(
        &home,
        &table,
        &[
            ["1", "0.3", "finished", "90.1", "180.2", "a"],
            ["2", "0.2", "finished", "90.2", "180.4", "b"],
        ],
    );
    let ran = home.run(&["restart", "1", "--wait"]);
    assert!(ran.err.contains("1: lr 0.1 → 0.3"), "{ran:#?}");
    assert!(home.json(&["status"])["workbooks"][0]["cells_left"] == 0);
}

#[test]
fn results_stand_in_a_workbook_beside_what_its_owner_edits() {
    an_owner_and_her_table("plan.xlsx");
}

#[test]
fn results_stand_in_a_text_beside_what_its_owner_edits() {
    an_owner_and_her_table("plan.csv");
}

#[test]
fn results_stand_in_an_open_document_and_in_a_workbook_with_macros() {
    let home = Home::new();
    let row = |number| [[number, "0.1", "", "", "", "a"]];
    let (document, go) = planned(&home, "plan.ods", &row("1"));
    let workbook = document.with_extension("xlsm");
    saved(&workbook, &row("2"));
    fs::write(&go, "").unwrap();
    home.ok(&["add", &shown(&document)]);
    home.ok(&["add", &shown(&workbook)]);
    home.ok(&["start", "all", "--wait"]);
    for (table, number) in [(&document, "1"), (&workbook, "2")] {
        let wanted = [[number, "0.1", "finished", "90.1", "180.2", "a"]];
        until_rows(&home, table, &wanted);
    }
    let mut package = ZipArchive::new(File::open(&document).unwrap()).unwrap();
    let kind = package.by_index(0).unwrap();
    assert_eq!(
        (kind.name().unwrap().as_ref(), kind.compression()),
        ("mimetype", CompressionMethod::Stored)
    );
    let mut package = ZipArchive::new(File::open(&workbook).unwrap()).unwrap();
    let macros = package.by_name("xl/vbaProject.bin").unwrap();
    assert_eq!(std::io::read_to_string(macros).unwrap(), "macros");
}

/// Rows that are copied, renumbered while they run, and sorted in part.
fn a_copied_row(name: &str) {
    let home = Home::new();
    let first = ["1", "0.1", "TODO", "", "", "a"];
    let hers = ["2", "0.2", "mine", "90.1", "", "b"];
    let (table, go) = planned(&home, name, &[first, hers, ["9", "0.9", "", "", "", ""]]);
    let yaml = table.with_file_name("plan.yaml");
    let text = fs::read_to_string(&yaml).unwrap();
    let status = "status: {column: state, over: [TODO]}";
    fs::write(&yaml, text.replace("status: state", status)).unwrap();
    let add = || home.run(&["add", &shown(&table)]);
    assert!(add().out.contains("added 3"));
    // An experiment that was never started keeps the word of its owner, and what she typed before
    // anything was written stays hers, whatever is written later.
    let planned = ["9", "0.9", "defined", "", "", ""];
    until_rows(&home, &table, &[first, hers, planned]);
    home.ok(&["start", "1", "9"]);
    let running = ["9", "0.9", "running", "0.9", "1.8", ""];
    let one = ["1", "0.1", "running", "0.1", "0.2", "a"];
    until_rows(&home, &table, &[one, hers, running]);
    // Row 9 becomes 99 while it runs.
    saved(
        &table,
        &[one, hers, ["99", "9.9", "running", "0.9", "1.8", ""]],
    );
    assert!(add().out.contains("added 1"));
    let renumbered = ["99", "9.9", "defined", "", "", ""];
    until_rows(&home, &table, &[one, hers, renumbered]);
    fs::write(&go, "").unwrap();
    home.ok(&["wait", "1", "9"]);
    let one = ["1", "0.1", "finished", "90.1", "180.2", "a"];
    until_rows(&home, &table, &[one, hers, renumbered]);
    // Copies of row 1, one of them with a number of hers, and one with a word to be replaced.
    let four = ["4", "0.4", "finished", "90.1", "180.2", "copy"];
    let five = ["5", "0.5", "TODO", "77", "180.2", ""];
    saved(&table, &[four, one, hers, five, renumbered]);
    assert!(add().out.contains("added 2"));
    let four = ["4", "0.4", "defined", "", "", "copy"];
    let five = ["5", "0.5", "TODO", "77", "", ""];
    until_rows(&home, &table, &[four, one, hers, five, renumbered]);
    let history = home.ok(&["show", "4"]);
    let told = "its cell in `loss` held `90.1`, which neronet wrote into another row: replaced";
    assert!(history.contains(told), "{history}");
    home.ok(&["start", "4", "5", "99", "--wait"]);
    let four = ["4", "0.4", "finished", "90.4", "180.8", "copy"];
    let five = ["5", "0.5", "finished", "77", "181", ""];
    let renumbered = ["99", "9.9", "finished", "99.9", "199.8", ""];
    until_rows(&home, &table, &[four, one, hers, five, renumbered]);
    // The columns of results alone were sorted the other way: each value finds its row again.
    let mut mixed = [four, one, hers, five, renumbered];
    let [one_row, other, ..] = &mut mixed;
    one_row[2..5].swap_with_slice(&mut other[2..5]);
    saved(&table, &mixed);
    until_rows(&home, &table, &[four, one, hers, five, renumbered]);
    let left = &home.json(&["status"])["workbooks"][0]["cells_left"];
    assert_eq!(*left, 2, "`mine` of row 2 and 77 of row 5");
}

#[test]
fn a_copied_row_of_a_workbook_gets_its_own_results() {
    a_copied_row("plan.xlsx");
}

#[test]
fn a_copied_row_of_a_text_gets_its_own_results() {
    a_copied_row("plan.csv");
}

#[test]
fn a_copied_row_of_an_open_document_gets_its_own_results() {
    a_copied_row("plan.ods");
}

#[test]
fn a_column_of_reasons_has_the_words_of_status() {
    let home = Home::new();
    let yaml = "command: [python3, -c, 'raise ValueError({lr})']\n\
                table: {status: state, ignore: [mine, twice]}\nresults: {loss: reason}\n";
    let table = plan(&home, "p", "", yaml);
    saved(&table, &[["1", "0.1", "", "", "", ""]]);
    home.ok(&["add", &shown(&table)]);
    home.run(&["start", "1", "--wait"]);
    let why = "exit code 1: ValueError: 0.1";
    until_rows(&home, &table, &[["1", "0.1", "crashed", why, "", ""]]);
}

/// LibreOffice without a window, with a profile of its own.
fn soffice(home: &Home, args: &[&str]) -> Child {
    let profile = format!(
        "-env:UserInstallation=file://{}",
        home.path().join("office").display()
    );
    Command::new("soffice")
        .args([&profile, "--headless", "--norestore", "--nologo"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("LibreOffice is installed")
}

#[test]
fn a_workbook_that_libreoffice_has_open_gets_its_results_when_it_is_closed() {
    let home = Home::new();
    let (table, go) = planned(
        &home,
        "plan.xlsx",
        &[["1", "0.1", "", "", "", "=SUM(D2:E2)"]],
    );
    fs::write(&go, "").unwrap();
    let before = fs::read(&table).unwrap();
    let mut office = soffice(&home, &[&shown(&table)]);
    let lock = table.with_file_name(".~lock.plan.xlsx#");
    until("LibreOffice to open the workbook", || {
        if lock.exists() {
            Ok(())
        } else {
            Err(office.try_wait())
        }
    });
    home.ok(&["add", &shown(&table)]);
    home.ok(&["start", "1", "--wait"]);
    let live = table.with_file_name("plan.live.csv");
    until("the row beside the workbook", || {
        let text = fs::read_to_string(&live).unwrap_or_default();
        let begin = "nr,name,state,loss,twice,as of (neronet)\n1,plan_1,finished,90.1,180.2,";
        if text.starts_with(begin) {
            Ok(())
        } else {
            Err((text, home.logs()))
        }
    });
    assert!(fs::read(&table).unwrap() == before);
    // The copy of the rows is no code of the experiments beside it.
    let changed = home.json(&["status", "changed"]);
    assert_eq!(changed["experiments"], serde_json::json!([]), "{changed:#}");
    let book = home.json(&["status"])["workbooks"][0].clone();
    assert_eq!(book["open"]["program"], "LibreOffice", "{book:#}");
    assert_eq!(book["open"]["lock"], shown(&lock), "{book:#}");
    assert!(book["open"]["since"].is_string(), "{book:#}");
    assert_eq!(book["live"], shown(&live), "{book:#}");
    let status = home.run(&["status"]);
    assert!(status.err.contains("is open in LibreOffice"), "{status:#?}");
    // A crash of LibreOffice leaves its lock, which a person deletes.
    let group = Pid::from_child(&office);
    kill_process_group(group, Signal::KILL).unwrap();
    office.wait().unwrap();
    assert!(lock.exists());
    fs::remove_file(&lock).unwrap();
    until_rows(
        &home,
        &table,
        &[[
            "1",
            "0.1",
            "finished",
            "90.1",
            "180.2",
            "formula without a value",
        ]],
    );
    until("the copy to go", || {
        if live.exists() {
            Err(home.logs())
        } else {
            Ok(())
        }
    });
    assert!(fs::read(table.with_file_name("plan.before-neronet.xlsx")).unwrap() == before);
    let book = home.json(&["status"])["workbooks"][0].clone();
    assert!(book["open"].is_null() && book["live"].is_null(), "{book:#}");
    // LibreOffice opens it and computes what depends on the results.
    let made = home.path().join("made");
    let converted = [
        "--convert-to",
        "csv",
        "--outdir",
        &shown(&made),
        &shown(&table),
    ];
    assert!(soffice(&home, &converted).wait().unwrap().success());
    let text = fs::read_to_string(made.join("plan.csv")).unwrap();
    assert_eq!(
        text.lines().nth(1),
        Some("1,0.1,finished,90.1,180.2,270.3"),
        "{text}"
    );
}

/// Kills the processes that look into a table.
fn kill_writers(table: &Path) {
    let table = shown(table).into_bytes();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let is_writer = line.windows(11).any(|part| part == b"write-cells")
            && line.windows(table.len()).any(|part| part == table);
        let pid = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let (true, Some(pid)) = (is_writer, pid.and_then(Pid::from_raw)) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Rounds of kills: few, unless a person asks for more; then the moments are random, and the owner
/// saves while a process reads and writes.
const ROUNDS: &str = "NERONET_CELLS_ROUNDS";

fn random(below: u64) -> u64 {
    RandomState::new().hash_one(()) % below
}

#[test]
fn kills_of_daemon_and_writer_leave_a_whole_table_that_comes_right() {
    let rounds: u64 = std::env::var(ROUNDS).map_or(6, |text| text.parse().expect("a number"));
    let is_long = rounds > 6;
    let home = Home::new();
    let (table, go) = planned(&home, "plan.xlsx", &[["1", "0.1", "", "", "", "note 0"]]);
    fs::write(&go, "").unwrap();
    home.ok(&["add", &shown(&table)]);
    let mut note = "note 0".to_owned();
    let mut row = ["1", "0.1", "", "", "", &note].map(str::to_owned);
    let mut copies = Vec::new();
    for round in 0..rounds {
        home.ok(&["restart", "1", "--wait"]);
        // The first write begins two seconds after a change.
        let moment = Duration::from_millis(if is_long {
            1900 + random(500)
        } else {
            1900 + 40 * round
        });
        let began = Instant::now();
        let mut saves = 0;
        until("a moment of the write", || {
            if began.elapsed() > moment {
                return Ok(());
            }
            if is_long && began.elapsed() > Duration::from_millis(1850) && random(2) == 0 {
                saves += 1;
                note = format!("note {round}.{saves}");
                row[5].clone_from(&note);
                save(&table, &[&HEADER, &row.each_ref().map(String::as_str)]);
            }
            Err(())
        });
        match (is_long, round % 2) {
            (_, 0) => home.kill(Part::Daemon),
            (false, _) => kill_writers(&table),
            (true, _) => {
                kill_writers(&table);
                home.kill(Part::Daemon);
            }
        }
        let found = cells(&home, &table);
        assert_eq!(found[1][..2], ["1", "0.1"], "{found:?}");
        assert_eq!(found[1].last(), Some(&note), "round {round}: {found:?}");
        copies.push((fs::read(&table).unwrap(), note.clone()));
        if is_long && random(3) == 0 {
            // An old copy, whose values are long ours.
            let copy = random(copies.len() as u64) as usize;
            note.clone_from(&copies[copy].1);
            fs::write(&table, &copies[copy].0).unwrap();
        } else {
            // She saves whatever the file holds, with a note of hers.
            note = format!("note {round}");
            if let Ok(whole) = <[String; 6]>::try_from(found[1].clone()) {
                row = whole;
            }
            row[5].clone_from(&note);
            save(&table, &[&HEADER, &row.each_ref().map(String::as_str)]);
        }
        home.ok(&["status"]);
    }
    until_rows(
        &home,
        &table,
        &[["1", "0.1", "finished", "90.1", "180.2", &note]],
    );
    let history = home.ok(&["show", "1"]);
    assert!(!history.contains("its result is not written"), "{history}");
}

#[test]
fn a_table_that_takes_no_numbers_is_told_until_it_does() {
    let home = Home::new();
    let yaml = "command: [echo, loss, '{lr}']\nresults: {value: loss}\n";
    let table = plan(&home, "p", "lr,value\n0.1,\n", yaml);
    let (other, name) = (home.path().join("other"), table.display().to_string());
    let told = |what: &str, is_so: fn(&str, Option<&str>) -> bool| {
        until(what, || {
            let text = fs::read_to_string(&table).unwrap_or_default();
            let books = home.json(&["status"])["workbooks"].clone();
            let is_so = is_so(&text, books[0]["why"].as_str());
            is_so.then_some(()).ok_or((text, books))
        });
    };
    // A file with a second name is never replaced.
    fs::hard_link(&table, &other).expect("a second name");
    home.ok(&["add", &name]);
    home.ok(&["start", "all", "--wait"]);
    told("the lack of a column", |_, why| {
        why.is_some_and(|why| why.contains("no column `nero`"))
    });
    fs::remove_file(&other).expect("the second name");
    home.ok(&["add", &name]);
    told("its result", |text, why| {
        text.contains("0.1,0.1") && why.is_none()
    });
    let more = fs::read_to_string(&table).expect("a table") + "0.2,,\n";
    fs::write(&table, more).expect("a table");
    fs::hard_link(&table, &other).expect("a second name");
    home.ok(&["add", &name]);
    told("the lack of a number", |_, why| why.is_some());
    fs::remove_file(&other).expect("the second name");
    home.ok(&["add", &name]);
    told("nothing more", |_, why| why.is_none());
}
