//! `logs RUN|ID`: the bytes of a log, followed across restarts of the daemon
//! by their offset.

use std::time::Duration;

use nero_wire::v1::LogsRequest;

use super::wait::{is_news, notice_text};
use crate::args::Logs;
use crate::connect::{Next, READ_DEADLINE, Whose};
use crate::fault::{Stop, code};
use crate::say::Out;
use crate::session::{Session, selection};

/// How long to look for output on standard error.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// Runs the verb.
pub async fn run(session: &mut Session, args: &Logs) -> Result<u8, Stop> {
    let mut asked = LogsRequest {
        what: args.what.clone(),
        stderr: args.stderr,
        follow: args.follow,
        lines: args.lines.unwrap_or(0),
        offset: 0,
        use_offset: false,
    };
    let mut shown = Shown::default();
    let mut notices = Vec::new();
    'log: loop {
        // An own `Out`, apart from the client, which may be replaced.
        let out = Out {
            screen: session.out.screen,
        };
        let whose = Whose::Picked(selection(std::slice::from_ref(&args.what)));
        let mut silence = session.silence(whose).await?;
        let client = session.client().await?;
        let mut chunks = client
            .call(READ_DEADLINE, asked.clone(), async |man, request| {
                man.logs(request).await
            })
            .await?;
        let mut is_first = true;
        loop {
            let next = client.next(&mut chunks);
            // With `--follow`, the user waits for the job, not for the node.
            let next = match std::mem::take(&mut is_first) {
                true => silence.over(next).await?,
                false => next.await?,
            };
            match next {
                Next::Message(chunk) => {
                    if !chunk.notice.is_empty() {
                        out.note(&format!("note: {}", chunk.notice));
                    }
                    if let Some(notice) = chunk.node.filter(|one| is_news(one, &notices)) {
                        out.note(&notice_text(&notice));
                        notices.push(notice);
                    }
                    if !chunk.data.is_empty() {
                        write(&out, &mut shown, &chunk.data)?;
                        asked = from(&asked, chunk.offset + chunk.data.len() as u64);
                    }
                    if chunk.end {
                        break 'log;
                    }
                }
                Next::End => break 'log,
                Next::Lost => break,
            }
        }
    }
    finish(&session.out, &mut shown)?;
    let looked = tokio::time::timeout(LOOK_PATIENCE, said_elsewhere(session, args));
    if !asked.use_offset && !args.stderr && looked.await.unwrap_or(false) {
        let note = "note: it printed nothing on standard output, but on standard error";
        let what = &args.what;
        session
            .out
            .note(&format!("{note}: neroman logs {what} --stderr"));
    }
    Ok(code::OK)
}

/// Whether the run printed to standard error.
async fn said_elsewhere(session: &mut Session, args: &Logs) -> bool {
    let asked = LogsRequest {
        what: args.what.clone(),
        stderr: true,
        lines: 1,
        ..LogsRequest::default()
    };
    let Ok(client) = session.client().await else {
        return false;
    };
    let chunks = client.call(READ_DEADLINE, asked, async |man, request| {
        man.logs(request).await
    });
    let Ok(mut chunks) = chunks.await else {
        return false;
    };
    // A chunk that cannot be read now does not answer the question.
    while let Ok(Next::Message(chunk)) = client.next(&mut chunks).await {
        if !chunk.data.is_empty() || chunk.end {
            return !chunk.data.is_empty();
        }
    }
    false
}

/// The same request from an offset on.
fn from(asked: &LogsRequest, offset: u64) -> LogsRequest {
    LogsRequest {
        lines: 0,
        offset: i64::try_from(offset).unwrap_or(i64::MAX),
        use_offset: true,
        ..asked.clone()
    }
}

fn write(out: &Out, shown: &mut Shown, data: &[u8]) -> Result<(), Stop> {
    if out.screen.tty {
        out.raw(&shown.take(data))
    } else {
        out.bytes(data)
    }
}

fn finish(out: &Out, shown: &mut Shown) -> Result<(), Stop> {
    let rest = shown.rest();
    if rest.is_empty() {
        Ok(())
    } else {
        out.raw(&rest)
    }
}

/// Makes chunks fit for a terminal: a carriage return ends a line too, and a
/// character that was cut between two chunks waits for its rest.
#[derive(Debug, Default)]
pub struct Shown {
    held: Vec<u8>,
}

impl Shown {
    /// The bytes that can be shown now.
    pub fn take(&mut self, data: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(data);
        let keep = cut_at_end(&self.held);
        let rest = self.held.split_off(self.held.len() - keep);
        lines(&std::mem::replace(&mut self.held, rest))
    }

    /// The bytes that were held back.
    pub fn rest(&mut self) -> Vec<u8> {
        lines(&std::mem::take(&mut self.held))
    }
}

fn lines(bytes: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b'\r' if rest.peek() == Some(&b'\n') => {}
            b'\r' => shown.push(b'\n'),
            byte => shown.push(byte),
        }
    }
    shown
}

/// How many bytes at the end are incomplete: the beginning of a character of
/// several bytes, or a carriage return whose line feed may follow.
fn cut_at_end(bytes: &[u8]) -> usize {
    if bytes.ends_with(b"\r") {
        return 1;
    }
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let Some(at) = tail.iter().rposition(|byte| *byte >= 0xc0) else {
        return 0;
    };
    match std::str::from_utf8(&tail[at..]) {
        // An error without a length means that the text ends too early, not that
        // it is wrong.
        Err(error) if error.error_len().is_none() => tail.len() - at,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_join_whole() {
        let text = "höhe µm\r\n10%\r20%\r\nend\u{1f600}\r";
        for cut in 0..=text.len() {
            let mut shown = Shown::default();
            let mut all = shown.take(&text.as_bytes()[..cut]);
            all.extend(shown.take(&text.as_bytes()[cut..]));
            all.extend(shown.rest());
            assert_eq!(
                String::from_utf8(all).expect("text"),
                "höhe µm\n10%\n20%\nend\u{1f600}\n",
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn what_is_no_text_is_not_held_back_for_ever() {
        let mut shown = Shown::default();
        assert_eq!(shown.take(b"a\xffb"), b"a\xffb");
        assert_eq!(shown.take(b"\xc3"), b"");
        assert_eq!(shown.take(b"x"), b"\xc3x");
    }
}
