//! The terminal while the view has it: raw, on its alternate screen. However the view ends, the
//! terminal is as before.

use std::io::{self, Write as _};
use std::sync::Once;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nero_top::Top;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{
    self, DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
    KeyEvent, MouseEvent,
};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::mpsc;

/// What a person does at the terminal.
pub(super) enum TerminalEvent {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Paste(String),
    Resize(u16, u16),
}

/// Keys that wait for the view.
const TYPED_MAX: usize = 256;
/// The size where the terminal tells none.
const SIZE: (u16, u16) = (80, 24);

/// The terminal of the view.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
    typed: mpsc::Receiver<TerminalEvent>,
}

impl Screen {
    /// Takes the terminal.
    pub fn open() -> io::Result<Self> {
        restore_after_panics();
        enter()?;
        let terminal = blank().inspect_err(|_| leave())?;
        Ok(Self {
            terminal,
            typed: reader(),
        })
    }

    pub fn size(&self) -> (u16, u16) {
        size().unwrap_or(SIZE)
    }

    pub fn draw(&mut self, top: &Top) -> io::Result<()> {
        self.terminal.draw(|frame| top.draw(frame)).map(drop)
    }

    /// What is typed next; `None` when the terminal is gone.
    pub async fn typed(&mut self) -> Option<TerminalEvent> {
        self.typed.recv().await
    }

    /// Gives the terminal back to the shell until it lets this program go on.
    pub fn suspend(&mut self) -> io::Result<()> {
        leave();
        kill_process(getpid(), Signal::STOP)?;
        self.again()
    }

    /// Takes the terminal once more, and draws everything anew.
    pub fn again(&mut self) -> io::Result<()> {
        enter()?;
        self.renew()
    }

    /// Draws everything anew, in the present size.
    pub fn renew(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = blank()?;
        Ok(())
    }

    /// Puts a text into the clipboard of the terminal (OSC 52), over ssh too.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stdout();
        write!(out, "\x1b]52;c;{}\x07", STANDARD.encode(text))?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// A terminal on which nothing was drawn. Its size is fixed: `ratatui` would ask a terminal that was
/// resized for its cursor, and the thread that reads keys would take the answer.
fn blank() -> io::Result<Terminal<CrosstermBackend<io::Stdout>>> {
    let (width, height) = size().unwrap_or(SIZE);
    let viewport = Viewport::Fixed(Rect::new(0, 0, width, height));
    let options = TerminalOptions { viewport };
    Terminal::with_options(CrosstermBackend::new(io::stdout()), options)
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(
        io::stdout(),
        EnterAlternateScreen,
        EnableMouseCapture,
        EnableBracketedPaste
    )
}

/// As far as it is possible: a terminal that is gone has nothing to restore.
fn leave() {
    let _ = execute!(
        io::stdout(),
        DisableBracketedPaste,
        DisableMouseCapture,
        LeaveAlternateScreen,
        Show
    );
    let _ = disable_raw_mode();
}

/// The message of a panic is printed on the shell's screen.
fn restore_after_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            leave();
            before(info);
        }));
    });
}

/// Reads the terminal in a thread of its own, which ends with this program.
fn reader() -> mpsc::Receiver<TerminalEvent> {
    let (sender, typed) = mpsc::channel(TYPED_MAX);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let typed = match event {
                event::Event::Key(key) => TerminalEvent::Key(key),
                event::Event::Mouse(mouse) => TerminalEvent::Mouse(mouse),
                event::Event::Paste(text) => TerminalEvent::Paste(text),
                event::Event::Resize(width, height) => TerminalEvent::Resize(width, height),
                event::Event::FocusGained | event::Event::FocusLost => continue,
            };
            if sender.blocking_send(typed).is_err() {
                break;
            }
        }
    });
    typed
}

/// Whether the terminal shows characters beyond ASCII, by the variables of the locale.
pub(super) fn is_unicode() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let set = names.iter().filter_map(|name| std::env::var(name).ok());
    let first = set.into_iter().find(|value| !value.is_empty());
    first.is_some_and(|value| value.to_lowercase().replace('-', "").contains("utf8"))
}
