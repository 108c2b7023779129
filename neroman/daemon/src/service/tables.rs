//! Has the file of a table read, or written into, by a process of its own, our program again: a small file
//! can unfold into gigabytes, and a parser can go astray. The process limits itself
//! (`nero_spreadsheet`); its answer and its time are bounded here.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nero_table::child::{
    ADDRESS_SPACE_MAX, ANSWER_BYTES_MAX, CELLS_VERB, CPU_SECONDS_MAX, CellsAnswer, CellsToWrite,
    NUMBER_VERB, NumbersToWrite, VERB,
};
use nero_table::{Sheet, UnreadableTable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde::de::DeserializeOwned;

/// The longest that a file is read, its disk included.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads a sheet of a file: the one of this name, else the first. Blocks.
pub(super) fn read_sheet(path: &Path, sheet: Option<&str>) -> Result<Sheet, UnreadableTable> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(VERB).arg(path).args(sheet);
    ask(command, &[])
}

/// Writes numbers of rows into a file; returns the backup. Blocks.
///
/// # Errors
/// Why the file is as it was.
pub(super) fn write_numbers(
    path: &Path,
    numbers: &NumbersToWrite,
) -> Result<Option<PathBuf>, UnreadableTable> {
    let input = serde_json::to_vec(numbers).map_err(|error| failed(&error.into()))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(NUMBER_VERB).arg(path);
    ask(command, &input)
}

/// Has a process tell what would become of cells of a file, or write them. Blocks.
///
/// # Errors
/// Why the file is as it was.
pub(crate) fn write_cells(
    path: &Path,
    cells: &CellsToWrite,
) -> Result<CellsAnswer, UnreadableTable> {
    let input = serde_json::to_vec(cells).map_err(|error| failed(&error.into()))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(CELLS_VERB).arg(path);
    ask(command, &input)
}

/// Starts the process, which reads its whole input first, and waits for its answer.
fn ask<T: DeserializeOwned>(mut command: Command, input: &[u8]) -> Result<T, UnreadableTable> {
    command
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A process that ended early is seen below.
        let _ = stdin.write_all(input);
    }
    let answer = answer(&mut child);
    if answer.is_err() {
        // A child that has ended already needs no signal.
        let _ = child.kill();
    }
    let ended = child.wait().map_err(|error| failed(&error))?;
    let answer = answer.map_err(|error| failed(&error))?;
    if !ended.success() {
        return Err(cut_off(ended));
    }
    match serde_json::from_slice::<Result<T, UnreadableTable>>(&answer) {
        Ok(read) => read,
        Err(error) => Err(failed(&io::Error::other(error))),
    }
}

/// What the process prints.
fn answer(child: &mut Child) -> io::Result<Vec<u8>> {
    let Some(mut out) = child.stdout.take() else {
        return Err(io::Error::other("the process has no output"));
    };
    let began = Instant::now();
    let mut answer = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let left = PATIENCE.saturating_sub(began.elapsed());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let ready = poll(&mut [PollFd::new(&out, PollFlags::IN)], Some(&left));
        if ready? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("it was not read within {} s", PATIENCE.as_secs()),
            ));
        }
        let count = out.read(&mut buffer)?;
        if count == 0 {
            return Ok(answer);
        }
        answer.extend_from_slice(&buffer[..count]);
        if answer.len() as u64 > ANSWER_BYTES_MAX {
            return Err(io::Error::other("its cells are too many"));
        }
    }
}

/// A process that came to an end by a limit.
fn cut_off(ended: ExitStatus) -> UnreadableTable {
    let ended_by = |signal: Signal| ended.signal() == Some(signal.as_raw());
    let why = if ended_by(Signal::XCPU) {
        format!("takes more than {CPU_SECONDS_MAX} s of processor time to read")
    } else if ended_by(Signal::KILL) {
        return UnreadableTable::file(
            "was not read: the process that reads it was killed (SIGKILL)",
            "this machine may be short of memory; try again",
        );
    } else {
        format!("needs more than {} MiB to read", ADDRESS_SPACE_MAX >> 20)
    };
    UnreadableTable::file(
        why,
        "if the file is yours, copy the sheet with the plan into a new workbook",
    )
}

fn failed(error: &io::Error) -> UnreadableTable {
    UnreadableTable::file(format!("could not be read: {error}"), "try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_killed_is_told_from_one_that_met_a_limit() {
        let why = |signal: Signal| {
            let ended = ExitStatus::from_raw(signal.as_raw());
            match cut_off(ended) {
                UnreadableTable::File { why, .. } => why,
                other => panic!("{other:?}"),
            }
        };
        assert!(why(Signal::XCPU).contains("processor time"));
        assert!(why(Signal::KILL).contains("was killed"));
        // What finds no memory ends itself.
        assert!(why(Signal::ABORT).contains("MiB"));
    }
}
