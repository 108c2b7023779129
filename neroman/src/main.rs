//! `neroman`: the command line, and with `daemon run` the daemon itself. The
//! command line knows the daemon as another process alone.

use std::process::ExitCode;

use nero_cli::{CannotServe, Served};
use nero_model::Home;

fn main() -> ExitCode {
    nero_cli::main(daemon)
}

fn daemon(home: Home) -> Result<Served, CannotServe> {
    match nero_daemon::run(home) {
        Ok(nero_daemon::Served::Stopped) => Ok(Served::Stopped),
        Ok(nero_daemon::Served::Held(holder)) => Ok(Served::Held(holder)),
        Err(error) => Err(CannotServe {
            hint: error.hint().map(str::to_owned),
            error: Box::new(error),
        }),
    }
}
