//! The program `neromum`: the agent of one node for one user and deployment.
//! See `docs/design/runs.md`.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "the runtime of a test ends its tasks"
    )
)]

mod args;
mod build_id;
mod cluster;
mod dial;
mod examine;
mod job;
mod lead;
mod log;
mod purge;
mod receive;
mod relay;
mod run;
mod service;
mod warden;

use std::io::Write as _;
use std::process::ExitCode;

use args::Command;

fn main() -> ExitCode {
    let command = match args::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            say(&format!("{error}\nhint: neromum --help"));
            return ExitCode::from(2);
        }
    };
    let done: Result<(), Box<dyn std::error::Error>> = match command {
        Command::Serve(options) => run::serve(&options).map_err(Into::into),
        Command::Dial(options) => dial::dial(&options).map_err(Into::into),
        Command::Job(grant) => match job::job(&grant) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => {
                tell(&error);
                return ExitCode::from(error.code());
            }
        },
        Command::Door(worker) => relay::worker::serve(&worker).map_err(Into::into),
        Command::Call(called) => relay::worker::join(&called).map_err(Into::into),
        Command::Receive(receive) => receive::receive(&receive).map_err(Into::into),
        Command::Verify(folder) => receive::verify(&folder).map_err(Into::into),
        Command::Version => {
            println!("neromum {}", nero_model::VERSION);
            Ok(())
        }
        Command::Help => {
            print!("{}", args::HELP);
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&*error);
            ExitCode::FAILURE
        }
    }
}

/// Reports the failure with its causes on stderr and in the log.
fn tell(error: &dyn std::error::Error) {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    tracing::error!(error = text, "ended");
    say(&text);
}

/// Prints one line on stderr. That may be a file on a full disk, or a closed
/// channel: a failure to print is ignored.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("neromum: {text}\n").as_bytes());
}
