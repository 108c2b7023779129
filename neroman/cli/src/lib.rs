//! neroman's command line: reads what was typed, calls the daemon (and starts
//! it when none answers), prints the result.
//!
//! It decides nothing about experiments: each verb makes one or two calls of
//! `nero.v1.Man`. One file per verb below `verb/`; all output goes through
//! `say/`.

mod args;
mod bug;
mod completion;
mod connect;
mod facts;
mod fault;
mod line;
mod mistakes;
mod names;
mod read;
mod say;
mod session;
mod steps;
mod verb;
mod view;

use std::path::Path;
use std::process::ExitCode;

use connect::Change;
use fault::{Fault, Stop, code};
use session::{InterruptNotice, Session};

pub use facts::{BuildFact, FactsFunction};
pub use verb::daemon::{ServeError, ServeFunction, ServeOutcome};

/// All verbs with their options, for the manual.
pub fn command() -> clap::Command {
    line::all_with_options()
}

/// Runs the command line with the process's own arguments; `daemon run` calls
/// `daemon`, and `--version --verbose` prints `facts`.
pub fn main(daemon: ServeFunction, facts: FactsFunction) -> ExitCode {
    bug::report_panics();
    if completion::answer() {
        return ExitCode::SUCCESS;
    }
    match std::panic::catch_unwind(|| run(daemon, facts)) {
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::from(code::BUG),
    }
}

fn run(daemon: ServeFunction, facts: FactsFunction) -> u8 {
    let words: Result<Vec<String>, Fault> = std::env::args_os()
        .skip(1)
        .map(|word| {
            word.into_string()
                .map_err(|word| Fault::usage(format!("{word:?} is not UTF-8 text")))
        })
        .collect();
    let called = std::env::args_os().next();
    let is_noodles =
        called.is_some_and(|path| Path::new(&path).file_name() == Some("noodles".as_ref()));
    let words = words.map(|mut words| {
        // A link of the name of the original takes what that takes.
        if is_noodles {
            words.insert(0, "noodles".to_owned());
        }
        words
    });
    let verbs = words.and_then(|words| verbs(&words));
    match verbs {
        Ok(verbs) => follow(verbs, daemon, facts),
        Err(fault) => {
            let json = std::env::args_os().any(|word| word == "--json");
            tell(fault, json)
        }
    }
}

/// Reads the whole line before the first step is done.
fn verbs(words: &[String]) -> Result<Vec<read::ParsedStep>, Fault> {
    steps::cut(words)?.iter().map(read::read).collect()
}

/// Does the steps in order; the first that fails ends the line.
fn follow(verbs: Vec<read::ParsedStep>, daemon: ServeFunction, facts: FactsFunction) -> u8 {
    if let [read::ParsedStep::Do(only)] = verbs.as_slice()
        && let args::Verb::Daemon(args::Daemon::Run { own_session }) = only.verb
    {
        let served = verb::daemon::serve(own_session, daemon);
        return served.unwrap_or_else(|fault| tell(fault, false));
    }
    let mut session = Session::new(facts);
    let changing = session.changing();
    let left = session.interrupted();
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            let fault = Fault::failed("cannot start").because(&error);
            return tell(fault, false);
        }
    };
    let ended = runtime.block_on(async {
        tokio::select! {
            biased;
            interrupted = tokio::signal::ctrl_c() => match interrupted {
                Ok(()) => {
                    let left = left.take();
                    interrupted_by_person(changing.get(), &left);
                    let ended = match &left.run {
                        Some(run) => verb::noodles::interrupted(&mut session, run).await,
                        None => Ok(()),
                    };
                    if let Err(Stop::Fault(fault)) = ended {
                        tell(*fault, false);
                    }
                    code::INTERRUPTED
                }
                Err(error) => tell(Fault::failed("cannot catch Ctrl-C").because(&error), false),
            },
            ended = all(&mut session, verbs) => ended,
        }
    });
    // Do not wait for a thread that waits for a lock or a terminal.
    runtime.shutdown_background();
    ended
}

/// Ctrl-C ends this program only: the daemon goes on with what it was asked
/// for.
fn interrupted_by_person(changing: Change, left: &InterruptNotice) {
    use std::io::{IsTerminal as _, Write as _};
    let mut stderr = std::io::stderr().lock();
    let goes_on = "interrupted; the daemon goes on with what was asked";
    // Writing fails when the terminal is gone: then no reader is left.
    let _ = match changing {
        _ if !left.text.is_empty() => writeln!(stderr, "\ninterrupted; {}", left.text),
        Change::Last => writeln!(
            stderr,
            "\n{goes_on}: `neroman status last` shows what came of it, `neroman abort last` ends what was started"
        ),
        Change::Other => writeln!(
            stderr,
            "\n{goes_on}: `neroman status` shows what came of it"
        ),
        Change::Nothing if stderr.is_terminal() => writeln!(stderr, "\ninterrupted; runs go on"),
        Change::Nothing => Ok(()),
    };
}

async fn all(session: &mut Session, verbs: Vec<read::ParsedStep>) -> u8 {
    let count = verbs.len();
    for (at, read) in verbs.into_iter().enumerate() {
        let (json, ended) = match read {
            read::ParsedStep::Help(text) => (false, session.out.text(&text).map(|()| code::OK)),
            read::ParsedStep::Do(typed) => {
                session.out.as_json = typed.json;
                (typed.json, verb::run(session, &typed).await)
            }
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(Stop::PipeClosed) => return code::OK,
            Err(Stop::Fault(fault)) => tell(*fault, json),
        };
        if ended != code::OK {
            if at + 1 < count {
                let skipped = nero_views::text::plural(count - at - 1, "step");
                let note = format!("note: not done: {skipped} after this one");
                session.out.note(&note);
            }
            return ended;
        }
    }
    code::OK
}

/// Prints a fault; returns its exit code.
fn tell(fault: Fault, json: bool) -> u8 {
    use std::io::Write as _;
    // Output that is gone has no reader.
    let _ = if json {
        writeln!(
            std::io::stdout().lock(),
            "{}",
            nero_views::json::print(&fault.json())
        )
    } else {
        write!(std::io::stderr().lock(), "{}", fault.text())
    };
    fault.exit_code
}
