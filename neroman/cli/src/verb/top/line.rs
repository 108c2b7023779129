//! Lines of neroman that the view executes: this program once more, without a terminal.

use std::process::Stdio;

use nero_top::{Event, LineAnswer};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::line;

/// Bytes of an answer that are kept.
const ANSWER_MAX: u64 = 1 << 20;

/// Says what a line would do, if its verb can tell.
pub(super) async fn try_out(text: String, events: mpsc::Sender<Event>) {
    let can_tell = shlex::split(&text)
        .and_then(|words| Some(line::knows(words.first()?, "--dry-run")))
        .unwrap_or(false);
    let answer = if can_tell {
        answer(&text, &["--dry-run"]).await
    } else {
        LineAnswer {
            line: text,
            code: Some(0),
            text: String::new(),
        }
    };
    let _ = events.send(Event::Tried(answer)).await;
}

/// Executes a line, with further options that its verb knows.
pub(super) async fn execute(
    text: String,
    options: &'static [&'static str],
    events: mpsc::Sender<Event>,
) {
    let answer = answer(&text, options).await;
    let _ = events.send(Event::Done(answer)).await;
}

async fn answer(text: &str, options: &[&str]) -> LineAnswer {
    let failed = |why: String| LineAnswer {
        line: text.to_owned(),
        code: None,
        text: why,
    };
    let Some(words) = shlex::split(text).filter(|words| !words.is_empty()) else {
        return failed("a quote is not closed".to_owned());
    };
    let known = options
        .iter()
        .filter(|option| line::knows(&words[0], option));
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(format!("cannot find this program: {error}")),
    };
    let mut command = Command::new(program);
    // The options come first: behind `--` they would be operands.
    command.arg(&words[0]).args(known).args(&words[1..]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.env("NO_COLOR", "1").kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return failed(format!("cannot start this program: {error}")),
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read_out = async {
        if let Some(stdout) = stdout {
            let _ = stdout.take(ANSWER_MAX).read_to_end(&mut out).await;
        }
    };
    let read_err = async {
        if let Some(stderr) = stderr {
            let _ = stderr.take(ANSWER_MAX).read_to_end(&mut err).await;
        }
    };
    tokio::join!(read_out, read_err);
    let code = match child.wait().await {
        Ok(status) => status.code(),
        Err(error) => return failed(error.to_string()),
    };
    LineAnswer {
        line: text.to_owned(),
        code,
        text: format!(
            "{}{}",
            String::from_utf8_lossy(&out),
            String::from_utf8_lossy(&err)
        ),
    }
}
