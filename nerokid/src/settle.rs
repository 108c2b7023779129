//! Settling many runs that ended while no watcher was at work.

use std::io::{BufRead, Write};
use std::path::Path;

use nero_model::safe::Safe;

use crate::folder::place::WatchedStart;
use crate::watch::{self, WatchEnd, WatchError};

/// Longest line that is read, in bytes; a path is shorter.
const LINE_BYTES_MAX: u64 = 16 * 1024;

/// Reads `RUN_DIR<tab>INCARNATION` lines and answers each with a line `ok
/// RUN_DIR<tab>INCARNATION` or `failed RUN_DIR<tab>INCARNATION<tab>why`. In
/// place of `failed` the line has `full` where the disk has no room, and `busy`
/// where another process watches; both may succeed later.
///
/// # Errors
/// When a line cannot be read or an answer cannot be written.
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
        let settled = settle_run(&line).await;
        let (word, why): (&[u8], _) = match settled {
            Ok(()) => (b"ok ", None),
            Err(SettleFailure::Full(why)) => (b"full ", Some(why)),
            Err(SettleFailure::Busy) => (b"busy ", Some("another process watches it".to_owned())),
            Err(SettleFailure::Failed(why)) => (b"failed ", Some(why)),
        };
        output.write_all(word)?;
        output.write_all(&line)?;
        if let Some(why) = why {
            // The reason may hold any text; the answer is one line.
            write!(output, "\t{}", Safe::line(&why))?;
        }
        output.write_all(b"\n")?;
        output.flush()?;
    }
}

/// Reason why a run is not settled.
enum SettleFailure {
    /// The disk has no room.
    Full(String),
    /// Another process watches.
    Busy,
    Failed(String),
}

impl SettleFailure {
    fn by(error: &WatchError) -> Self {
        let why = crate::chain(error);
        if error.is_for_want_of_room() {
            Self::Full(why)
        } else {
            Self::Failed(why)
        }
    }
}

/// Settles one run; returns the reason when it cannot.
async fn settle_run(line: &[u8]) -> Result<(), SettleFailure> {
    let (run_dir, incarnation) =
        named(line).ok_or_else(|| SettleFailure::Failed("no incarnation is given".to_owned()))?;
    let place = WatchedStart::open(run_dir, incarnation)
        .map_err(|error| SettleFailure::by(&error.into()))?;
    match watch::settle(place).await {
        Ok(WatchEnd::Complete | WatchEnd::Already) => Ok(()),
        Ok(WatchEnd::ByAnother) => Err(SettleFailure::Busy),
        Err(error) => Err(SettleFailure::by(&error)),
    }
}

/// The folder and the incarnation of a line.
fn named(line: &[u8]) -> Option<(&Path, u32)> {
    use std::os::unix::ffi::OsStrExt as _;
    let tab = line.iter().rposition(|byte| *byte == b'\t')?;
    let number = std::str::from_utf8(&line[tab + 1..]).ok()?;
    let run_dir = Path::new(std::ffi::OsStr::from_bytes(&line[..tab]));
    Some((run_dir, number.parse().ok()?))
}
