//! `neroman`: the command line, and with `daemon run` the daemon itself. Each knows the other as
//! another process alone.

mod facts;

use std::process::ExitCode;

use nero_cli::{ServeError, Served};
use nero_model::Home;

fn main() -> ExitCode {
    nero_cli::main(daemon, facts::facts)
}

fn daemon(home: Home) -> Result<Served, ServeError> {
    match nero_daemon::run(home) {
        Ok(nero_daemon::Served::Stopped) => Ok(Served::Stopped),
        Ok(nero_daemon::Served::Held(holder)) => Ok(Served::Held(holder)),
        Err(error) => Err(ServeError {
            hint: error.hint().map(str::to_owned),
            error: Box::new(error),
        }),
    }
}
