//! `top [SEL]`: the live view. `nero-top` is what it shows; here are the terminal, the daemon and
//! the lines that it executes.

mod line;
mod slots;
mod terminal;

use std::cell::RefCell;
use std::rc::Rc;

use nero_top::{Ask, Event, Query, TerminalLook, Top};
use nero_wire::v1::{WatchRequest, Window};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::args;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, selection};
use crate::view::rows::{self, RowsMessage};

use slots::Slots;
use terminal::{Screen, TerminalEvent};

/// Events that wait to be shown; what makes more of them waits.
const EVENTS_MAX: usize = 64;

pub async fn run(session: &mut Session, args: &args::Top) -> Result<u8, Stop> {
    if !session.out.screen.tty || !session.out.screen.can_ask {
        return Err(Fault::usage("`top` needs a terminal")
            .hint("`neroman status` prints the same into a file or a pipe")
            .into());
    }
    let picked = args.picked.join(",");
    // A mistake in the selector is told before the screen is taken.
    rows::check(session, &picked).await?;
    let look = TerminalLook {
        color: session.out.screen.color,
        unicode: terminal::is_unicode(),
    };
    let signals = Signals::new()
        .map_err(|error| Fault::failed("cannot listen to signals").because(&error))?;
    let mut screen = Screen::open().map_err(|error| terminal_failed(&error))?;
    let size = screen.size();
    let top = Top::new(&picked, look, size);
    let code = show_until_left(session, top, &mut screen, signals).await;
    drop(screen);
    Ok(code.map_err(|error| terminal_failed(&error))?)
}

fn terminal_failed(error: &std::io::Error) -> Fault {
    Fault::failed("the terminal cannot be drawn on").because(error)
}

fn window_of(query: &Query) -> Window {
    let sort = match (query.sort.as_str(), query.descending) {
        ("", _) => String::new(),
        (sort, true) => format!("-{sort}"),
        (sort, false) => sort.to_owned(),
    };
    Window {
        sort,
        offset: query.offset,
        count: query.count.into(),
    }
}

/// The signals that a view hears.
struct Signals {
    end: Signal,
    hang_up: Signal,
    stop: Signal,
    go_on: Signal,
}

/// What a signal wants.
enum SignalEvent {
    End(u8),
    Stop,
    GoOn,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            end: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            stop: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
            go_on: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }

    async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            _ = self.end.recv() => SignalEvent::End(128 + 15),
            _ = self.hang_up.recv() => SignalEvent::End(128 + 1),
            _ = self.stop.recv() => SignalEvent::Stop,
            _ = self.go_on.recv() => SignalEvent::GoOn,
        }
    }
}

/// Shows the view until it is left; returns the exit code.
async fn show_until_left(
    session: &Session,
    mut top: Top,
    screen: &mut Screen,
    mut signals: Signals,
) -> std::io::Result<u8> {
    let (sender, mut events) = mpsc::channel(EVENTS_MAX);
    let slots = Rc::new(RefCell::new(Slots::new(session, sender)));
    let mut asks = top.update(Event::Resize(screen.size().0, screen.size().1));
    loop {
        for ask in asks.drain(..) {
            match ask {
                Ask::Quit => return Ok(code::OK),
                Ask::Suspend => screen.suspend()?,
                Ask::Copy(text) => screen.copy(&text)?,
                ask => slots.borrow_mut().ask(ask),
            }
        }
        screen.draw(&top)?;
        let working = std::future::poll_fn(|context| slots.borrow_mut().poll(context));
        tokio::select! {
            biased;
            typed = screen.typed() => match typed {
                Some(typed) => {
                    if matches!(typed, TerminalEvent::Resize(..)) {
                        screen.renew()?;
                    }
                    asks.extend(top.update(event_of(typed)));
                }
                // The terminal is gone.
                None => return Ok(code::OK),
            },
            signal = signals.next() => match signal {
                SignalEvent::End(code) => return Ok(code),
                SignalEvent::Stop => screen.suspend()?,
                SignalEvent::GoOn => screen.again()?,
            },
            Some(event) = events.recv() => {
                asks.extend(top.update(event));
                while let Ok(event) = events.try_recv() {
                    asks.extend(top.update(event));
                }
            }
            () = working => {}
        }
    }
}

fn event_of(typed: TerminalEvent) -> Event {
    match typed {
        TerminalEvent::Key(key) => Event::Key(key),
        TerminalEvent::Mouse(mouse) => Event::Mouse(mouse),
        TerminalEvent::Paste(text) => Event::Paste(text),
        TerminalEvent::Resize(width, height) => Event::Resize(width, height),
    }
}

/// Watches the rows of a query; the daemon is started again when it has left.
async fn rows(session: Session, query: Query, events: mpsc::Sender<Event>) {
    let asked = WatchRequest {
        selection: Some(selection(std::slice::from_ref(&query.selection))),
        interval_ms: 0,
        window: Some(window_of(&query)),
        facts: query.facts.clone(),
    };
    rows::watch(session, asked, async |message| {
        let event = match message {
            RowsMessage::Rows(event) => Event::Rows(query.clone(), event),
            RowsMessage::Refused(fault) => Event::Refused(query.clone(), refusal(&fault)),
            RowsMessage::Away(fault) => Event::Daemon(Some(slots::in_one_line(&fault))),
        };
        let _ = events.send(event).await;
    })
    .await;
}

/// The message of a refusal, with the place in the text.
fn refusal(fault: &Fault) -> String {
    let mut text = fault.what.clone();
    for more in [&fault.report, &fault.hint] {
        if !more.is_empty() {
            text.push('\n');
            text.push_str(more);
        }
    }
    text
}
