//! What the view asked for and waits for: one thing of each kind at a time. A newer one takes the
//! place of an older one, which is dropped.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use nero_top::{Ask, Event, LogRequest};
use nero_views::text;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{
    CompleteRequest, LogChunk, LogsRequest, MetricsRequest, RuleListRequest, ShowRequest,
    complete_request,
};
use tokio::sync::mpsc;

use super::line;
use crate::connect::READ_DEADLINE;
use crate::fault::Fault;
use crate::say::Screen;
use crate::session::{Session, selection, zone};
use crate::verb::listed::views;
use crate::verb::{on_node, show};

/// The rest between two answers about the same.
const REST: Duration = Duration::from_secs(1);
/// Lines of a log to begin with.
const LOG_LINES: u64 = 1000;
/// Words of a completion that are shown.
const WORDS_MAX: usize = 30;

type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Kinds of work.
#[derive(Clone, Copy)]
enum WorkKind {
    Rows,
    Detail,
    Log,
    Curves,
    Nodes,
    Compare,
    Complete,
    Trial,
    Execution,
}

/// How many kinds there are.
const WORK_KINDS: usize = WorkKind::Execution as usize + 1;

/// A question to the daemon; `again` is set when the view asks the same during the rest behind an
/// answer.
#[derive(Default)]
struct Repetition {
    asked: Option<Ask>,
    again: Rc<Cell<bool>>,
}

/// The work of each kind.
pub(super) struct Slots<'a> {
    session: &'a Session,
    events: mpsc::Sender<Event>,
    work: [Option<Work>; WORK_KINDS],
    repeated: [Repetition; WORK_KINDS],
}

impl<'a> Slots<'a> {
    pub fn new(session: &'a Session, events: mpsc::Sender<Event>) -> Self {
        Self {
            session,
            events,
            work: Default::default(),
            repeated: Default::default(),
        }
    }

    /// Goes on with all work; ready when a piece of it has ended.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut answer = Poll::Pending;
        for work in &mut self.work {
            if let Some(going) = work
                && going.as_mut().poll(context).is_ready()
            {
                *work = None;
                answer = Poll::Ready(());
            }
        }
        answer
    }

    /// Begins what was asked for.
    pub fn ask(&mut self, ask: Ask) {
        let (session, events) = (self.session.beside(), self.events.clone());
        match ask {
            Ask::Rows(query) => self.put(WorkKind::Rows, super::rows(session, query, events)),
            Ask::Log(of) => self.put(WorkKind::Log, log(session, of, events)),
            Ask::NoLog => self.work[WorkKind::Log as usize] = None,
            Ask::Compare(ids) => self.put(WorkKind::Compare, compare(session, ids, events)),
            Ask::Complete(begun) => self.put(WorkKind::Complete, complete(session, begun, events)),
            Ask::Try(text) => self.put(WorkKind::Trial, line::try_out(text, events)),
            Ask::Execute(text) => self.put(WorkKind::Execution, line::execute(text, &[], events)),
            Ask::ExecuteConfirmed(text) => {
                self.put(WorkKind::Execution, line::execute(text, &["--yes"], events));
            }
            Ask::Detail(_) => self.repeat(WorkKind::Detail, ask),
            Ask::Curves { .. } => self.repeat(WorkKind::Curves, ask),
            Ask::Nodes => self.repeat(WorkKind::Nodes, ask),
            // The caller's.
            Ask::Copy(_) | Ask::Suspend | Ask::Quit => {}
        }
    }

    fn put(&mut self, slot: WorkKind, work: impl Future<Output = ()> + 'static) {
        self.work[slot as usize] = Some(Box::pin(work));
    }

    /// Asks now, or once more after the rest if the same is asked at the moment.
    fn repeat(&mut self, slot: WorkKind, ask: Ask) {
        let at = slot as usize;
        if self.work[at].is_some() && self.repeated[at].asked.as_ref() == Some(&ask) {
            self.repeated[at].again.set(true);
            return;
        }
        let again = Rc::new(Cell::new(true));
        self.repeated[at] = Repetition {
            asked: Some(ask.clone()),
            again: Rc::clone(&again),
        };
        let (mut session, events) = (self.session.beside(), self.events.clone());
        self.put(slot, async move {
            while again.replace(false) {
                let event = match &ask {
                    Ask::Detail(id) => detail(&mut session, *id).await,
                    Ask::Curves { ids, names, width } => {
                        curves(&mut session, ids, names, *width).await
                    }
                    _ => nodes(&mut session).await,
                };
                let _ = events.send(event).await;
                tokio::time::sleep(REST).await;
            }
        });
    }
}

async fn detail(session: &mut Session, id: u64) -> Event {
    let asked = ShowRequest {
        what: id.to_string(),
        zone: zone(),
    };
    let reply = session.read(asked, ManClient::show);
    let plain = Screen {
        color: false,
        ..Screen::find()
    };
    let shown = reply.await.map(|reply| show::as_text(&plain, &reply));
    Event::Detail(id, shown.map_err(|fault| in_one_line(&fault)))
}

/// Columns of dots in a column of a terminal.
const DOTS: u32 = 2;

async fn curves(session: &mut Session, ids: &[u64], names: &[String], width: u32) -> Event {
    let typed: Vec<String> = ids.iter().map(u64::to_string).collect();
    let picked = Some(selection(&typed));
    let reply = async {
        let asked = MetricsRequest {
            selection: picked.clone(),
            names: names.to_vec(),
            width: width * DOTS,
            ..MetricsRequest::default()
        };
        let metrics = session.read(asked, ManClient::metrics).await?;
        let asked = RuleListRequest { selection: picked };
        let rules = session.read(asked, ManClient::rule_list).await?;
        Ok((metrics, rules.rules))
    };
    let reply = reply.await.map(Box::new);
    Event::Curves(ids.to_vec(), reply.map_err(|fault| in_one_line(&fault)))
}

async fn nodes(session: &mut Session) -> Event {
    let reply = on_node::ask(session, true).await.map(Box::new);
    Event::Nodes(reply.map_err(|fault| in_one_line(&fault)))
}

async fn compare(mut session: Session, ids: Vec<u64>, events: mpsc::Sender<Event>) {
    let typed: Vec<String> = ids.iter().map(u64::to_string).collect();
    let views = views(&mut session, selection(&typed)).await;
    let views = views.map_err(|fault| in_one_line(&fault));
    let _ = events.send(Event::Compared(views)).await;
}

async fn complete(mut session: Session, begun: String, events: mpsc::Sender<Event>) {
    let kinds = [
        complete_request::Kind::Experiments,
        complete_request::Kind::Params,
        complete_request::Kind::Metrics,
    ];
    let asked = CompleteRequest {
        begun: begun.clone(),
        kinds: kinds.map(|kind| kind as i32).to_vec(),
    };
    let reply = session.read(asked, ManClient::complete);
    if let Ok(reply) = reply.await {
        let words = reply.words.into_iter().map(|word| word.word);
        let words = words.take(WORDS_MAX).collect();
        let _ = events.send(Event::Words(begun, words)).await;
    }
}

/// Follows a log until its run has ended; a connection that was lost begins it anew.
async fn log(mut session: Session, of: LogRequest, events: mpsc::Sender<Event>) {
    let what = match of.run {
        0 => of.id.to_string(),
        run => format!("{}.{run}", of.id),
    };
    let asked = LogsRequest {
        what,
        stderr: of.stderr,
        follow: true,
        lines: LOG_LINES,
        ..LogsRequest::default()
    };
    let mut begins = true;
    let take = async |chunk: Option<LogChunk>| {
        if let Some(chunk) = chunk {
            let event = Event::Log(of.clone(), begins, chunk.data);
            let _ = events.send(event).await;
            begins = false;
        } else {
            begins = true;
        }
        Ok::<_, Fault>(true)
    };
    let followed = session.each(READ_DEADLINE, asked, ManClient::logs, take);
    if let Err(fault) = followed.await {
        let text = format!("{}\n", in_one_line(&fault));
        let _ = events.send(Event::Log(of, true, text.into_bytes())).await;
    }
}

/// An error in one line.
pub(super) fn in_one_line(fault: &Fault) -> String {
    text::join([&fault.what].into_iter().chain(&fault.causes), ": ")
}
