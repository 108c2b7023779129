//! The process that reads one file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use nero_table::{Sheet, UnreadableTable};
use serde::de::DeserializeOwned;

use crate::FILE_BYTES_MAX;

/// Reads the file and the sheet that the command line names behind its verb, and prints
/// the answer.
pub fn answer(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(file) = arguments.next() else {
        return ExitCode::from(2);
    };
    let sheet = arguments.next().and_then(|name| name.into_string().ok());
    print(&of_path(Path::new(&file), sheet.as_deref()))
}

/// Does what the input asks for with the file that the command line names behind its verb,
/// and prints the answer.
pub(crate) fn write<Wanted: DeserializeOwned, Answer: serde::Serialize>(
    mut arguments: impl Iterator<Item = OsString>,
    work: fn(&Path, &Wanted) -> Result<Answer, UnreadableTable>,
) -> ExitCode {
    let Some(file) = arguments.next() else {
        return ExitCode::from(2);
    };
    let mut input = Vec::new();
    let is_read = std::io::stdin().lock().read_to_end(&mut input).is_ok();
    let wanted = serde_json::from_slice::<Wanted>(&input);
    let (Ok(wanted), true) = (wanted, is_read) else {
        return ExitCode::from(2);
    };
    print(&work(Path::new(&file), &wanted))
}

/// Prints an answer.
pub(crate) fn print(answer: &impl serde::Serialize) -> ExitCode {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = serde_json::to_writer(&mut out, answer).map_err(std::io::Error::from);
    match written.and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn of_path(path: &Path, sheet: Option<&str>) -> Result<Sheet, UnreadableTable> {
    let unreadable = |error: std::io::Error| {
        UnreadableTable::file(
            format!("cannot be read: {error}"),
            "ask its owner, or copy it",
        )
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(UnreadableTable::file(
            format!("is larger than {} MiB", FILE_BYTES_MAX >> 20),
            "keep the plan of the experiments in a file without pictures and data",
        ));
    }
    let ending = path.extension().and_then(|ending| ending.to_str());
    crate::read(&bytes, &ending.unwrap_or("").to_ascii_lowercase(), sheet)
}

/// What a person is told about a file that could not be replaced.
pub(crate) fn of_file(error: &nero_workbook::FileError) -> UnreadableTable {
    UnreadableTable::file(with_cause(error), error.hint().unwrap_or_default())
}

/// An error with what it comes from.
pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
