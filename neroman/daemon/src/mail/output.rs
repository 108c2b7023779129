//! The end of what crashed runs printed, for letters and calls.

use std::path::Path;

use nero_life::run::Run;
use nero_model::paths::run::STDERR;

/// The end of standard error that a letter may show.
const TAIL_BYTES: u64 = 4096;

/// The end of what a run printed on standard error: from its results, else its last line.
pub(super) async fn stderr_end(run: &Run) -> Vec<u8> {
    let folder = run.results().folder().to_owned();
    let read = tokio::task::spawn_blocking(move || {
        nero_model::tail(&Path::new(&folder).join(STDERR), TAIL_BYTES).unwrap_or_default()
    });
    // Without results the record of the end has its last line.
    let tail = match run.results().folder() {
        "" => Vec::new(),
        _ => read.await.unwrap_or_default(),
    };
    if tail.is_empty() {
        run.stderr_line().as_bytes().to_vec()
    } else {
        tail
    }
}
