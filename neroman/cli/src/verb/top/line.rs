//! Lines of neroman that the view executes.

use nero_top::{Event, LineAnswer};
use tokio::sync::mpsc;

use super::slots::in_one_line;
use crate::fault::Fault;
use crate::view::line;

/// Says what a line would do, if its verb can tell.
pub(super) async fn try_out(text: String, events: mpsc::Sender<Event>) {
    let can_tell = shlex::split(&text).is_some_and(|words| line::has_dry_run(&words));
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
    let executed = match shlex::split(text).filter(|words| !words.is_empty()) {
        Some(words) => line::execute(&words, options, "").await,
        None => Err(Fault::usage("a quote is not closed")),
    };
    let (code, text_of_answer) = match executed {
        Ok(output) => (
            output.code.map(i32::from),
            [output.stdout, output.stderr]
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .concat(),
        ),
        Err(fault) => (None, in_one_line(&fault)),
    };
    LineAnswer {
        line: text.to_owned(),
        code,
        text: text_of_answer,
    }
}
