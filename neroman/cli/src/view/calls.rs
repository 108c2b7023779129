//! Answers to what a view asks: calls of the daemon, and lines.

use std::rc::Rc;

use nero_web::{CallAnswer, LineRequest, LineResult, Refusal, ViewCall};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{LogChunk, LogsRequest, WatchRequest};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, LocalSet};

use crate::connect::{Next, READ_DEADLINE};
use crate::fault::{Fault, code};
use crate::session::Session;
use crate::steps;
use crate::view::line;
use crate::view::rows::{self, RowsMessage};

/// Questions that wait; those who ask more of them wait, too.
pub const WAITING_MAX: usize = 64;
/// Lines that are executed at a time: such that read, and such that change something.
const READING_MAX: usize = 4;
const CHANGING_MAX: usize = 16;

/// The lines that may be executed now.
struct LinePlaces {
    author: &'static str,
    reading: Semaphore,
    changing: Semaphore,
}

/// Answers until it is dropped. The history names the author of what lines change.
pub async fn answer(session: &Session, mut calls: mpsc::Receiver<ViewCall>, author: &'static str) {
    let places = Rc::new(LinePlaces {
        author,
        reading: Semaphore::new(READING_MAX),
        changing: Semaphore::new(CHANGING_MAX),
    });
    let all = async {
        let mut going = JoinSet::new();
        while let Some(call) = calls.recv().await {
            while going.try_join_next().is_some() {}
            let (session, places) = (session.beside(), Rc::clone(&places));
            going.spawn_local(async move { make(session, &places, call).await });
        }
    };
    LocalSet::new().run_until(all).await;
}

async fn make(mut session: Session, places: &LinePlaces, call: ViewCall) {
    macro_rules! call {
        ($asked:expr, $answer:expr, $method:ident) => {{
            reply($answer, session.read($asked, ManClient::$method)).await;
        }};
    }
    match call {
        ViewCall::List(asked, answer) => call!(asked, answer, list),
        ViewCall::Metrics(asked, answer) => call!(asked, answer, metrics),
        ViewCall::Rules(asked, answer) => call!(asked, answer, rule_list),
        ViewCall::Paths(asked, answer) => call!(asked, answer, paths),
        ViewCall::Complete(asked, answer) => call!(asked, answer, complete),
        ViewCall::Log(asked, most, answer) => reply(answer, log(&mut session, asked, most)).await,
        ViewCall::Watch(asked, events) => watch(session, asked, events).await,
        ViewCall::Line(asked, answer) if asked.changes => {
            // It goes on when the browser has left.
            let done = execute(&places.changing, places.author, &asked).await;
            let _ = answer.send(done.map_err(|fault| refusal(&fault)));
        }
        ViewCall::Line(asked, answer) => {
            reply(answer, execute(&places.reading, places.author, &asked)).await
        }
    }
}

/// Sends an answer, unless the browser leaves before.
async fn reply<T>(mut answer: CallAnswer<T>, work: impl Future<Output = Result<T, Fault>>) {
    let answered = tokio::select! {
        () = answer.closed() => return,
        answered = work => answered,
    };
    let _ = answer.send(answered.map_err(|fault| refusal(&fault)));
}

fn refusal(fault: &Fault) -> Refusal {
    Refusal {
        document: fault.json(),
        exit_code: fault.exit_code,
    }
}

async fn watch(session: Session, asked: WatchRequest, events: mpsc::Sender<nero_web::RowsMessage>) {
    let watched = rows::watch(session, asked, async |message| {
        let message = match message {
            RowsMessage::Rows(event) => nero_web::RowsMessage::Rows(event),
            RowsMessage::Away(fault) | RowsMessage::Refused(fault) => {
                nero_web::RowsMessage::Fault(refusal(&fault))
            }
        };
        let _ = events.send(message).await;
    });
    tokio::select! {
        () = events.closed() => {}
        () = watched => {}
    }
}

/// A part of a log of at most so many bytes.
async fn log(
    session: &mut Session,
    asked: LogsRequest,
    most: usize,
) -> Result<Vec<LogChunk>, Fault> {
    let client = session.client().await?;
    let mut stream = client.call(READ_DEADLINE, asked, ManClient::logs).await?;
    let (mut chunks, mut left) = (Vec::new(), most);
    while let Next::Message(mut chunk) = client.next(&mut stream).await? {
        if chunk.data.len() > left {
            chunk.data.truncate(left);
            chunk.end = false;
        }
        left -= chunk.data.len();
        let is_last = chunk.end || left == 0;
        chunks.push(chunk);
        if is_last {
            break;
        }
    }
    Ok(chunks)
}

async fn execute(
    places: &Semaphore,
    author: &str,
    asked: &LineRequest,
) -> Result<LineResult, Fault> {
    let steps = steps::cut(&asked.words)?;
    // The verb of a second one was not looked at.
    if steps.len() != 1 {
        return Err(Fault::usage("one line at a time is done from here"));
    }
    let is_trial = asked.options.contains(&"--dry-run");
    if is_trial && !line::has_dry_run(&asked.words) {
        return Ok(LineResult {
            exit_code: Some(code::OK),
            stdout: b"{\"schema\":1,\"dry\":false}\n".to_vec(),
            ..LineResult::default()
        });
    }
    let place = places.acquire().await;
    let output = line::execute(&asked.words, &asked.options, author).await?;
    drop(place);
    Ok(LineResult {
        exit_code: output.code,
        is_cut: output.is_cut(),
        stdout: output.stdout,
        stderr: output.stderr,
    })
}
