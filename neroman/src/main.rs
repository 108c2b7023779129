//! `neroman`: the command line, and with `daemon run` the daemon itself. Each knows the other as
//! another process alone.

mod facts;

use std::process::ExitCode;

use nero_cli::{ServeError, ServeOutcome};
use nero_model::Home;

fn main() -> ExitCode {
    nero_cli::main(daemon, facts::facts)
}

fn daemon(home: Home) -> Result<ServeOutcome, ServeError> {
    match nero_daemon::run(home) {
        Ok(nero_daemon::ServeOutcome::Stopped) => Ok(ServeOutcome::Stopped),
        Ok(nero_daemon::ServeOutcome::Held(holder)) => Ok(ServeOutcome::Held(holder)),
        Err(error) => Err(ServeError {
            hint: error.hint().map(str::to_owned),
            error: Box::new(error),
        }),
    }
}
