//! Messages for a program like `sendmail`.

use std::ffi::OsStr;
use std::path::Path;

use super::command::TRY_AGAIN;
use super::deadlines::Deadlines;
use super::outcome::safe_line;
use super::{Envelope, SendResult, child};

/// Exit codes of `sysexits.h` by which the program refuses this message for good: wrong data,
/// an unknown user, an unknown host.
const REFUSED: [i32; 3] = [65, 67, 68];
/// By which the program refuses to work for us: no permission, a wrong configuration.
const NOT_FOR_US: [i32; 2] = [77, 78];

pub(crate) async fn send(
    program: &Path,
    envelope: &Envelope,
    message: &[u8],
    deadlines: &Deadlines,
) -> SendResult {
    let (from, to) = (envelope.from.as_str(), envelope.to.as_str());
    // A line that is a dot alone does not end the message (`-i`).
    let arguments = ["-i", "-f", from, "--", to].map(OsStr::new);
    let input = unix_lines(message);
    let ran = child::run(program.as_os_str(), &arguments, &input, deadlines.program).await;
    let ended = match ran {
        Ok(ended) => ended,
        Err(why) => return SendResult::Later(safe_line(&why)),
    };
    let words = safe_line(&format!("{}: {}", program.display(), ended.last_words()));
    match ended.status.code() {
        Some(0) => SendResult::Accepted(safe_line(&format!("taken by {}", program.display()))),
        Some(code) if REFUSED.contains(&code) => SendResult::Refused(words),
        Some(code) if NOT_FOR_US.contains(&code) => SendResult::LoginRefused(words),
        Some(TRY_AGAIN) | Some(_) | None => SendResult::Later(words),
    }
}

/// Lines end there as in files of this system, and get their carriage returns on the way.
fn unix_lines(message: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(message.len());
    for (at, byte) in message.iter().enumerate() {
        if *byte != b'\r' || message.get(at + 1) != Some(&b'\n') {
            lines.push(*byte);
        }
    }
    lines
}
