//! `results SEL [--by PARAM…] [--best METRIC] [-o FILE]`: one row per run, or
//! one per group with n, mean and deviation.

mod book;
mod like;
mod tex;
mod write;

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nero_model::written;
use nero_views::results::{self, NoRows, Objective, Rows, Runs};
use nero_views::{columns, text};
use nero_wire::hello;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{ExperimentView, ListRequest};

use crate::args::{OtherSystem, Results};
use crate::connect::CHANGE_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::say::parquet;
use crate::session::{Session, home, selection};

/// Files that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileFormat {
    Csv,
    Json,
    Jsonl,
    Md,
    Tex,
    /// `.xlsx` and `.ods`.
    Book,
    Parquet,
}

/// The file to write, which may have no chosen columns.
fn file<'a>(
    args: &'a Results,
    columns: &[String],
) -> Result<Option<(&'a String, FileFormat)>, Fault> {
    let file = args.output.as_ref().filter(|_| args.like.is_none());
    let file = file.map(|file| kind_of(file).map(|kind| (file, kind)));
    let file = file.transpose()?;
    if let Some((file, format)) = file
        && !columns.is_empty()
        && !format.is_table()
    {
        let fault = Fault::usage(format!("`{file}` always has all columns"));
        return Err(fault.hint("--columns is for tables, .csv, .md and .tex"));
    }
    Ok(file)
}

pub async fn run(session: &mut Session, args: &Results) -> Result<u8, Stop> {
    let names = args.columns.iter().flat_map(|list| columns::split(list));
    let names: Vec<String> = names.collect();
    let file = file(args, &names)?;
    let asked = asked(args, &names, file.map(|(_, format)| format));
    let client = session.client().await?;
    if args.all_runs && !client.can(hello::ALL_RUNS) {
        return Err(
            Fault::no_daemon("the daemon that runs is of an earlier version")
                .cause("it knows no --all-runs")
                .hint("`neroman daemon stop`, then try again")
                .into(),
        );
    }
    // The daemon waits, bounded, until ended runs have all their records.
    let reply = client.call(CHANGE_DEADLINE, asked, ManClient::list).await?;
    session.out.notes(&reply.notes);
    let ran = reply.experiments.into_iter().filter(|view| view.run != 0);
    let ran: Vec<ExperimentView> = ran.collect();
    if ran.is_empty() {
        session.out.note("nothing of it has run yet");
    }
    if let Some(note) = numbers_to_come(&ran) {
        session.out.note(&note);
    }
    if let Some(OtherSystem::Mlframework) = args.like {
        let worst = like::run(session, &ran, args.output.as_deref()).await?;
        return Ok(if ran.is_empty() { code::FAILED } else { worst });
    }
    let best = match &args.best {
        Some(text) => Some(best(session, text, &ran).await?),
        None => None,
    };
    let mut rows = results::rows(&ran, &args.by, best.as_ref()).map_err(Fault::from)?;
    if let Rows::Runs(runs) = &mut rows
        && !names.is_empty()
    {
        let chosen = names.iter().map(|name| columns::named(name, &ran));
        let chosen: Result<_, _> = chosen.collect();
        runs.chosen = Some(chosen.map_err(Fault::from)?);
    }
    match file {
        Some((file, kind)) => {
            let path = Path::new(file);
            match kind {
                FileFormat::Csv => save_again(path, &rows.csv())?,
                FileFormat::Json => save_again(path, rows.json().as_bytes())?,
                FileFormat::Jsonl => save_again(path, rows.json_lines().as_bytes())?,
                FileFormat::Md => save_again(path, write::md(&rows).as_bytes())?,
                FileFormat::Tex => save_again(path, tex::tex(&rows).as_bytes())?,
                FileFormat::Book => {
                    let runs = Runs::of(&ran, best.as_ref());
                    book::save(session, args, &runs, path).await?;
                }
                FileFormat::Parquet => {
                    check_parquet_made_here(path).await?;
                    let about = book::about(args, ran.len());
                    save(path, &parquet::bytes(&about, [rows.columns()]).await?)?;
                }
            }
            wrote(session, path);
        }
        None if session.out.as_json => session.out.text(&rows.json())?,
        None if args.csv => session.out.raw(&rows.csv())?,
        None => session.out.text(&write::text(&session.out.screen, &rows))?,
    }
    Ok(code::ok_if(!ran.is_empty()))
}

/// Names the experiments whose run has ended and whose numbers may be missing: its node is away, or
/// a disk here is full.
fn numbers_to_come(ran: &[ExperimentView]) -> Option<String> {
    let is_open = |view: &&ExperimentView| view.ended_ms != 0 && !view.settled;
    let open: Vec<u64> = ran.iter().filter(is_open).map(|view| view.id).collect();
    (!open.is_empty()).then(|| {
        format!(
            "last records of {} are still to come, and numbers may be missing: type `neroman results` again",
            text::ids(&open)
        )
    })
}

/// What is asked of the daemon.
fn asked(args: &Results, names: &[String], format: Option<FileFormat>) -> ListRequest {
    let mut facts = columns::asked_facts(names.iter().map(String::as_str));
    if let Some(FileFormat::Book | FileFormat::Parquet) = format {
        facts.push(nero_views::book::ASKED.as_str().to_owned());
    }
    ListRequest {
        selection: Some(selection(&args.picked)),
        settle: true,
        facts,
        all_runs: args.all_runs,
        ..ListRequest::default()
    }
}

impl FileFormat {
    /// Whether it is a table of columns that can be chosen.
    fn is_table(self) -> bool {
        match self {
            Self::Csv | Self::Md | Self::Tex => true,
            Self::Json | Self::Jsonl | Self::Book | Self::Parquet => false,
        }
    }
}

/// The metric that is to be best. A person is asked where its name does not tell whether a high
/// value is good.
async fn best(session: &Session, text: &str, ran: &[ExperimentView]) -> Result<Objective, Stop> {
    match Objective::read(text, ran) {
        Ok(best) => Ok(best),
        Err(NoRows::Direction(name)) if session.out.screen.can_ask => {
            let question = format!("is a high `{name}` good? (no: a low one is)");
            let largest = session.out.ask(&question).await?;
            Ok(Objective { name, largest })
        }
        Err(other) => Err(Fault::from(other).into()),
    }
}

fn kind_of(file: &str) -> Result<FileFormat, Fault> {
    let ending = Path::new(file)
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or_default()
        .to_ascii_lowercase();
    match ending.as_str() {
        "csv" => Ok(FileFormat::Csv),
        "json" => Ok(FileFormat::Json),
        "jsonl" => Ok(FileFormat::Jsonl),
        "md" => Ok(FileFormat::Md),
        "tex" => Ok(FileFormat::Tex),
        "xlsx" | "ods" => Ok(FileFormat::Book),
        "parquet" => Ok(FileFormat::Parquet),
        _ => Err(
            Fault::usage(format!("no format of results ends as `{file}` does"))
                .hint("end its name in .xlsx, .ods, .csv, .parquet, .json, .jsonl, .tex or .md"),
        ),
    }
}

/// Prints that `file` was written, and records it: beside the code of experiments it is no code.
pub(super) fn wrote(session: &Session, file: &Path) {
    let shown = file.display();
    session.out.note(&format!("wrote {shown}"));
    let recorded = home().map(|home| written::record(&home, file));
    if let Ok(Err(error)) = recorded {
        session.out.note(&format!(
            "beside the code of experiments, {shown} counts as code: {error}"
        ));
    }
}

/// Refuses to replace a file of Parquet that another program wrote: it may be data of the owner.
///
/// # Errors
/// When it is such a file, or cannot be read.
async fn check_parquet_made_here(path: &Path) -> Result<(), Fault> {
    match File::open(path).and_then(|file| file.metadata()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot_write(path).because(&error)),
        Ok(found) if found.len() == 0 => return Ok(()),
        Ok(_) => {}
    }
    match parquet::is_ours(path).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(cannot_write(path)
            .cause("it was not made by `neroman results`")
            .hint("choose another name, or move it away")),
        Err(error) => Err(cannot_write(path).because(&error)),
    }
}

fn cannot_write(path: &Path) -> Fault {
    Fault::cannot("write", path)
}

/// As [`save`], for files that do not show who made them: one that is not as we left it may be the
/// owner's, and stays.
///
/// # Errors
/// When it is such a file, or cannot be written.
pub(super) fn save_again(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    check_ours(path)?;
    save(path, bytes)
}

/// Refuses to replace a file that is not as we left it.
///
/// # Errors
/// When it is such a file, or cannot be read.
pub(super) fn check_ours(path: &Path) -> Result<(), Fault> {
    let is_there = match std::fs::metadata(path) {
        Ok(found) => found.len() > 0,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(cannot_write(path).because(&error)),
    };
    if is_there {
        let is_ours = written::is_recorded(&home()?, path);
        let is_ours = is_ours.map_err(|error| cannot_write(path).because(&error))?;
        if !is_ours {
            return Err(cannot_write(path)
                .cause("it was not made by neroman, or was changed since")
                .hint("choose another name, or move it away"));
        }
    }
    Ok(())
}

/// Writes beside the file and renames: a reader sees the new file or the old
/// one.
pub(super) fn save(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    let beside = beside(path);
    let written = std::fs::write(&beside, bytes);
    replace(path, &beside, written)
}

/// The file that is written before it takes the place of another.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new{}", std::process::id()));
    name.into()
}

/// Puts what was written beside a file in its place. A power cut leaves the new file or the old one.
fn replace(path: &Path, beside: &Path, written: std::io::Result<()>) -> Result<(), Fault> {
    written
        .and_then(|()| std::fs::File::open(beside)?.sync_all())
        .and_then(|()| std::fs::rename(beside, path))
        .map_err(|error| {
            // The file may not have been made.
            let _ = std::fs::remove_file(beside);
            cannot_write(path).because(&error)
        })?;
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    // Some file systems sync no folder.
    let _ = std::fs::File::open(folder.unwrap_or(Path::new("."))).and_then(|it| it.sync_all());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_ended_before_its_records_came_is_named() {
        let view = |id, ended_ms, settled| ExperimentView {
            id,
            ended_ms,
            settled,
            ..ExperimentView::default()
        };
        let done = [view(1, 9, true), view(2, 0, false)];
        assert_eq!(numbers_to_come(&done), None);
        let open = [view(3, 9, false), view(4, 9, false), view(5, 9, true)];
        let note = numbers_to_come(&open).unwrap_or_default();
        assert!(note.starts_with("last records of 3,4 are"), "{note}");
    }

    #[test]
    fn the_ending_says_what_to_write() {
        assert_eq!(kind_of("a.csv"), Ok(FileFormat::Csv));
        assert_eq!(kind_of("x/b.JSON"), Ok(FileFormat::Json));
        assert_eq!(kind_of("x/b.xlsx"), Ok(FileFormat::Book));
        assert_eq!(kind_of("b.jsonl"), Ok(FileFormat::Jsonl));
        assert_eq!(kind_of("b.parquet"), Ok(FileFormat::Parquet));
        for file in ["a", "a.feather"] {
            let fault = kind_of(file).expect_err(file);
            assert_eq!(fault.exit_code, 2);
            assert!(
                fault.what.contains("no format of results"),
                "{}",
                fault.what
            );
        }
    }
}
