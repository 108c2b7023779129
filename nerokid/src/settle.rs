//! Settling many runs that ended without a watcher seeing their end.

use std::io::{BufRead, Write};
use std::path::Path;

use nero_model::safe::Safe;

use crate::place::Place;
use crate::watch::{self, Watched};

/// Longest line that is read, in bytes; a path is shorter.
const LINE_BYTES_MAX: u64 = 16 * 1024;

/// Reads `RUN_DIR<tab>INCARNATION` lines and answers each with a line
/// `ok RUN_DIR<tab>INCARNATION` or `failed RUN_DIR<tab>INCARNATION<tab>why`.
///
/// # Errors
/// When a line cannot be read or an answer not written.
pub async fn settle(mut input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
    use std::io::Read as _;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if line.ends_with(b"\n") {
            line.pop();
        }
        if line.is_empty() {
            continue;
        }
        let settled = one(&line).await;
        output.write_all(if settled.is_ok() { b"ok " } else { b"failed " })?;
        output.write_all(&line)?;
        if let Err(why) = settled {
            // The reason may hold any text; the answer is one line.
            write!(output, "\t{}", Safe::line(&why))?;
        }
        output.write_all(b"\n")?;
        output.flush()?;
    }
}

/// Settles one run; says why not.
async fn one(line: &[u8]) -> Result<(), String> {
    use std::os::unix::ffi::OsStrExt as _;
    let tab = line.iter().rposition(|byte| *byte == b'\t');
    let (run_dir, number) = line.split_at(tab.ok_or("no incarnation is given")?);
    let number = std::str::from_utf8(&number[1..]).ok();
    let incarnation = number.and_then(|number| number.parse().ok());
    let incarnation: u32 = incarnation.ok_or("no incarnation is given")?;
    let run_dir = Path::new(std::ffi::OsStr::from_bytes(run_dir));
    let place = Place::open(run_dir, incarnation).map_err(|error| crate::chain(&error))?;
    match watch::settle(place).await {
        Ok(Watched::Complete | Watched::Already) => Ok(()),
        Ok(Watched::ByAnother) => Err("another process watches it".to_owned()),
        Err(error) => Err(crate::chain(&error)),
    }
}
