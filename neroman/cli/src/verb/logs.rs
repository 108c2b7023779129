//! `logs SEL`: the bytes of a log, followed across restarts of the daemon by
//! their offset; of several runs the last lines of each, below its name, or, while they are
//! followed, each line behind its run's name.

mod printer;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use nero_model::safe::Safe;
use nero_views::text;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{ExperimentView, ListRequest, LogsRequest, NodeNotice};
use tokio::sync::watch;

use super::listed::list;
use super::wait::{is_news, notice_text};
use crate::args::Logs;
use crate::connect::{AwaitedNodes, Next, READ_DEADLINE};
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, selection};

pub use printer::Printer;

/// How long to look for output on standard error.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// Runs that are followed at a time: the log of each is a stream of its own. Those after them
/// are printed as these end.
const FOLLOWED_MAX: usize = 64;

/// Lines of each run, where several are picked and no number is given.
const LINES_OF_EACH: u64 = 10;

pub async fn run(session: &mut Session, args: &Logs) -> Result<u8, Stop> {
    let asked = LogsRequest {
        what: args.picked.join(","),
        stderr: args.stderr,
        follow: args.follow,
        lines: args.lines.unwrap_or(0),
        offset: 0,
        use_offset: false,
        start: args.start.unwrap_or(0),
    };
    if is_number(&asked.what) {
        return alone(session, asked).await;
    }
    let views = listed(session, args).await?;
    match views.as_slice() {
        [view] => {
            let what = run_of(view).unwrap_or_else(|| view.id.to_string());
            let asked = LogsRequest { what, ..asked };
            alone(session, asked).await
        }
        views => several(session, &asked, views).await,
    }
}

/// The log of the only run that is picked.
async fn alone(session: &mut Session, asked: LogsRequest) -> Result<u8, Stop> {
    let mut printer = Printer::plain("");
    let notices = Some(Notices::default());
    let printed = print_run(session, asked, &mut printer, notices).await?;
    note_stderr(session, &printed, printer.name());
    Ok(code::OK)
}

/// Prints the logs of runs, as they grow, until all have ended. `open` gets the runs that will
/// not begin any more; who waits for the ends reports what becomes of the nodes.
pub async fn follow(
    session: &Session,
    runs: &[String],
    open: watch::Receiver<BTreeSet<String>>,
) -> Result<(), Stop> {
    let asked = LogsRequest {
        follow: true,
        ..LogsRequest::default()
    };
    together(session, &asked, runs, None, &open).await.map(drop)
}

/// Whether it is `144` or `144.2`, which is one run and need not be looked up.
fn is_number(what: &str) -> bool {
    what.bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The experiments that are picked, each with its run.
async fn listed(session: &mut Session, args: &Logs) -> Result<Vec<ExperimentView>, Stop> {
    let reply = list(session, selection(&args.picked), ListRequest::default()).await?;
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
    let ran = views.iter().filter_map(|view| Some((run_of(view)?, view)));
    let ran: Vec<(String, &ExperimentView)> = ran.collect();
    if ran.is_empty() {
        let picked = text::plural(views.len(), "experiment");
        let fault = Fault::failed(format!("`{what}` has no run: it picks {picked}"));
        return Err(fault.hint("`neroman start SEL` makes runs").into());
    }
    if asked.follow {
        let asked = LogsRequest {
            lines: lines_of_each(asked),
            ..asked.clone()
        };
        let runs: Vec<String> = ran.into_iter().map(|(run, _)| run).collect();
        let (_none, open) = watch::channel(BTreeSet::new());
        let notices = Some(Notices::default());
        let worst = together(session, &asked, &runs, notices, &open).await?;
        note_never(session, views.len() - runs.len());
        return Ok(worst);
    }
    let mut worst = code::OK;
    for (at, (run, view)) in ran.iter().enumerate() {
        let gap = if at == 0 { "" } else { "\n" };
        let (name, state) = (Safe::line(&view.name), &view.state);
        let line = format!("{gap}==> {run} {name}, {state} <==");
        session.out.line(&line)?;
        let asked = LogsRequest {
            what: run.clone(),
            lines: lines_of_each(asked),
            ..asked.clone()
        };
        let mut printer = Printer::plain(run);
        let ended = print_run(session, asked, &mut printer, Some(Notices::default())).await;
        // What follows, an error too, begins a line of its own.
        printer.end_line(&session.out)?;
        match ended {
            Ok(printed) => note_stderr(session, &printed, run),
            Err(Stop::Fault(fault)) => {
                let text = fault.text();
                session.out.note(&format!("{run}: {}", text.trim_end()));
                worst = worst.max(fault.exit_code);
            }
            Err(stop @ Stop::PipeClosed) => return Err(stop),
        }
    }
    note_never(session, views.len() - ran.len());
    Ok(worst)
}

fn lines_of_each(asked: &LogsRequest) -> u64 {
    match asked.lines {
        0 => LINES_OF_EACH,
        lines => lines,
    }
}

fn note_never(session: &Session, count: usize) {
    if count > 0 {
        let never = text::plural(count, "experiment");
        session.out.note(&format!("note: {never} never ran"));
    }
}

/// Prints the logs of several runs at the same time, each line behind its run's name. A log
/// that cannot be read is reported and keeps none of the others back.
async fn together(
    session: &Session,
    asked: &LogsRequest,
    runs: &[String],
    notices: Option<Notices>,
    open: &watch::Receiver<BTreeSet<String>>,
) -> Result<u8, Stop> {
    let each = runs.iter().map(|run| {
        let mut beside = session.beside();
        let mut open = open.clone();
        let notices = notices.clone();
        let asked = LogsRequest {
            what: run.clone(),
            ..asked.clone()
        };
        async move {
            let mut printer = match runs.len() {
                1 => Printer::plain(""),
                _ => Printer::behind(run),
            };
            let never_begins = async {
                if open.wait_for(|runs| runs.contains(run)).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let ended = tokio::select! {
                ended = print_run(&mut beside, asked, &mut printer, notices) => ended,
                () = never_begins => Ok(OutputPlace::Something),
            };
            printer.end_line(&beside.out)?;
            match ended {
                Ok(printed) => Ok((printed, code::OK)),
                Err(Stop::Fault(fault)) if runs.len() > 1 => {
                    let text = fault.text();
                    beside.out.note(&format!("{run}: {}", text.trim_end()));
                    Ok((OutputPlace::Something, fault.exit_code))
                }
                Err(stop) => Err(stop),
            }
        }
    });
    let mut ended = std::pin::pin!(stream::iter(each).buffer_unordered(FOLLOWED_MAX));
    let mut worst = code::OK;
    let mut on_stderr: Vec<String> = Vec::new();
    while let Some(one) = ended.next().await {
        let (printed, code) = one?;
        worst = worst.max(code);
        if let OutputPlace::OnStderr(run) = printed {
            on_stderr.push(run);
        }
    }
    on_stderr.sort();
    match on_stderr.as_slice() {
        [] => {}
        [run] => note_stderr(session, &OutputPlace::OnStderr(run.clone()), run),
        runs => session.out.note(&format!(
            "note: {} runs printed nothing on standard output, but on standard error: \
             neroman logs {} --stderr",
            runs.len(),
            runs[0],
        )),
    }
    Ok(worst)
}

/// What was told of nodes.
type Notices = Rc<RefCell<Vec<NodeNotice>>>;

/// Where a run printed something.
enum OutputPlace {
    /// On the stream that was asked for, or nowhere.
    Something,
    /// On standard error, and this run nothing on standard output.
    OnStderr(String),
}

fn note_stderr(session: &Session, printed: &OutputPlace, name: &str) {
    if let OutputPlace::OnStderr(run) = printed {
        let note = "it printed nothing on standard output, but on standard error";
        let note = format!("note: {}{note}: neroman logs {run} --stderr", of(name));
        session.out.note(&note);
    }
}

/// How a note about a run begins.
fn of(name: &str) -> String {
    match name {
        "" => String::new(),
        name => format!("{name}: "),
    }
}

/// The log of one run. Its name begins what is noted, where several are shown. Without
/// `notices` it is told elsewhere what becomes of its node.
async fn print_run(
    session: &mut Session,
    mut asked: LogsRequest,
    printer: &mut Printer,
    notices: Option<Notices>,
) -> Result<OutputPlace, Stop> {
    let of = of(printer.name());
    'log: loop {
        let out = session.out;
        let whose = AwaitedNodes::Picked(selection(std::slice::from_ref(&asked.what)));
        let mut silence = session.silence(whose).await?;
        let client = session.client().await?;
        let mut chunks = client
            .call(READ_DEADLINE, asked.clone(), ManClient::logs)
            .await?;
        let mut is_first = true;
        loop {
            let next = client.next(&mut chunks);
            // With `--follow`, the user waits for the job, not for the node.
            let next = if std::mem::take(&mut is_first) && !printer.is_among_others() {
                silence.over(next).await?
            } else {
                next.await?
            };
            match next {
                Next::Message(chunk) => {
                    if !chunk.notice.is_empty() {
                        let notice = chunk.notice.strip_prefix(printer.name());
                        let notice = notice.map(str::trim_start);
                        out.note(&format!("note: {of}{}", notice.unwrap_or(&chunk.notice)));
                    }
                    if let (Some(notice), Some(told)) = (chunk.node, &notices)
                        && is_news(&notice, &told.borrow())
                    {
                        out.note(&notice_text(&notice));
                        told.borrow_mut().push(notice);
                    }
                    if !chunk.data.is_empty() {
                        printer.take(&out, &chunk.data)?;
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
    printer.finish(&session.out)?;
    if printer.has_printed() || asked.stderr {
        return Ok(OutputPlace::Something);
    }
    let looked = tokio::time::timeout(LOOK_PATIENCE, said_elsewhere(session, &asked.what));
    Ok(if looked.await.unwrap_or(false) {
        OutputPlace::OnStderr(asked.what)
    } else {
        OutputPlace::Something
    })
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
    let chunks = client.call(READ_DEADLINE, asked, ManClient::logs);
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
