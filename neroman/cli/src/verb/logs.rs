//! `logs SEL`: the bytes of a log, followed across restarts of the daemon by
//! their offset; of several runs the last lines of each, below its name.

use std::time::Duration;

use nero_model::safe::Safe;
use nero_views::text;
use nero_wire::v1::{ExperimentView, ListRequest, LogsRequest};

use super::wait::{is_news, notice_text};
use crate::args::Logs;
use crate::connect::{Next, READ_DEADLINE, Whose};
use crate::fault::{Fault, Stop, code};
use crate::say::Out;
use crate::session::{Session, selection};

/// How long to look for output on standard error.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// Lines of each run, where several are picked and no number is given.
const LINES_OF_EACH: u64 = 10;

/// Runs the verb.
pub async fn run(session: &mut Session, args: &Logs) -> Result<u8, Stop> {
    let asked = LogsRequest {
        what: args.picked.join(","),
        stderr: args.stderr,
        follow: args.follow,
        lines: args.lines.unwrap_or(0),
        offset: 0,
        use_offset: false,
    };
    if is_number(&asked.what) {
        return one(session, asked, "", &mut None).await.map(|()| code::OK);
    }
    let views = listed(session, args).await?;
    match views.as_slice() {
        [view] => {
            let what = run_of(view).unwrap_or_else(|| view.id.to_string());
            let asked = LogsRequest { what, ..asked };
            one(session, asked, "", &mut None).await.map(|()| code::OK)
        }
        views => several(session, &asked, views).await,
    }
}

/// Prints the log of one run as it grows, until the run has ended.
pub async fn follow(session: &mut Session, asked: LogsRequest) -> Result<(), Stop> {
    let mut last = None;
    let ended = one(session, asked, "", &mut last).await;
    // What follows begins a line of its own.
    if last.is_some_and(|byte| byte != b'\n') {
        session.out.line("")?;
    }
    ended
}

/// Whether it is `144` or `144.2`, which is one run and need not be looked up.
fn is_number(what: &str) -> bool {
    what.bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The experiments that are picked, each with its run.
async fn listed(session: &mut Session, args: &Logs) -> Result<Vec<ExperimentView>, Stop> {
    let asked = ListRequest {
        selection: Some(selection(&args.picked)),
        ..ListRequest::default()
    };
    let client = session.client().await?;
    let reply = client
        .call(READ_DEADLINE, asked, async |man, request| {
            man.list(request).await
        })
        .await?;
    for note in &reply.notes {
        session.out.note(&format!("note: {note}"));
    }
    Ok(reply.experiments)
}

/// `144.2`, when it ever ran.
fn run_of(view: &ExperimentView) -> Option<String> {
    (view.run > 0).then(|| format!("{}.{}", view.id, view.run))
}

/// The last lines of each run below its name, in the order of their numbers. A
/// log that cannot be read is reported and keeps none of the others back.
async fn several(
    session: &mut Session,
    asked: &LogsRequest,
    views: &[ExperimentView],
) -> Result<u8, Stop> {
    let what = &asked.what;
    let ran: Vec<(String, &ExperimentView)> = views
        .iter()
        .filter_map(|view| Some((run_of(view)?, view)))
        .collect();
    let Some((first, _)) = ran.first() else {
        let picked = text::plural(views.len(), "experiment");
        let fault = Fault::new(
            code::FAILED,
            format!("`{what}` has no run: it picks {picked}"),
        );
        return Err(fault.hint("`neroman start SEL` makes runs").into());
    };
    if asked.follow {
        let fault = Fault::usage(format!(
            "`{what}` picks {} runs, `-f` follows one",
            ran.len()
        ));
        return Err(fault
            .hint(format!("for example neroman logs {first} -f"))
            .into());
    }
    let mut worst = code::OK;
    for (at, (run, view)) in ran.iter().enumerate() {
        let gap = if at == 0 { "" } else { "\n" };
        let name = Safe::line(&view.name);
        session
            .out
            .line(&format!("{gap}==> {run} {name}, {} <==", view.state))?;
        let asked = LogsRequest {
            what: run.clone(),
            lines: if asked.lines == 0 {
                LINES_OF_EACH
            } else {
                asked.lines
            },
            ..asked.clone()
        };
        let mut last = None;
        let ended = one(session, asked, run, &mut last).await;
        // What follows, an error too, begins a line of its own.
        if last.is_some_and(|byte| byte != b'\n') {
            session.out.line("")?;
        }
        match ended {
            Ok(()) => {}
            Err(Stop::Fault(fault)) => {
                session
                    .out
                    .note(&format!("{run}: {}", fault.text().trim_end()));
                worst = worst.max(fault.exit_code);
            }
            Err(stop @ Stop::PipeClosed) => return Err(stop),
        }
    }
    if ran.len() < views.len() {
        let never = text::plural(views.len() - ran.len(), "experiment");
        session.out.note(&format!("note: {never} never ran"));
    }
    Ok(worst)
}

/// The log of one run. Its name begins what is noted, where several are shown.
/// `last` becomes the last byte that was printed, also before an error.
async fn one(
    session: &mut Session,
    mut asked: LogsRequest,
    name: &str,
    last: &mut Option<u8>,
) -> Result<(), Stop> {
    let of = match name {
        "" => String::new(),
        name => format!("{name}: "),
    };
    let mut shown = Shown::default();
    let mut notices = Vec::new();
    'log: loop {
        // An own `Out`, apart from the client, which may be replaced.
        let out = Out {
            screen: session.out.screen,
        };
        let whose = Whose::Picked(selection(std::slice::from_ref(&asked.what)));
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
                        let notice = chunk.notice.strip_prefix(name).map(str::trim_start);
                        out.note(&format!("note: {of}{}", notice.unwrap_or(&chunk.notice)));
                    }
                    if let Some(notice) = chunk.node.filter(|one| is_news(one, &notices)) {
                        out.note(&notice_text(&notice));
                        notices.push(notice);
                    }
                    if !chunk.data.is_empty() {
                        write(&out, &mut shown, &chunk.data)?;
                        *last = chunk.data.last().copied();
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
    if last.is_some() || asked.stderr {
        return Ok(());
    }
    let looked = tokio::time::timeout(LOOK_PATIENCE, said_elsewhere(session, &asked.what));
    if looked.await.unwrap_or(false) {
        let note = "it printed nothing on standard output, but on standard error";
        let what = &asked.what;
        session
            .out
            .note(&format!("note: {of}{note}: neroman logs {what} --stderr"));
    }
    Ok(())
}

/// Whether the run printed to standard error.
async fn said_elsewhere(session: &mut Session, what: &str) -> bool {
    let asked = LogsRequest {
        what: what.to_owned(),
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
    fn bytes_that_are_no_text_are_not_held_back_for_ever() {
        let mut shown = Shown::default();
        assert_eq!(shown.take(b"a\xffb"), b"a\xffb");
        assert_eq!(shown.take(b"\xc3"), b"");
        assert_eq!(shown.take(b"x"), b"\xc3x");
    }
}
