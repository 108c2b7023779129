//! `neroman`: the command line, with `daemon run` the daemon itself, and the processes in
//! which the file of a table is read, its rows numbered, results written into it, a workbook
//! made, modules of people run, or a picture turned into PNG. Each knows the others as other processes alone.

mod facts;

use std::process::ExitCode;

use nero_cli::{ServeError, Served};
use nero_model::Home;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(verb) if verb == nero_table::child::VERB => nero_spreadsheet::answer(arguments),
        Some(verb) if verb == nero_table::child::NUMBER_VERB => nero_spreadsheet::number(arguments),
        Some(verb) if verb == nero_table::child::CELLS_VERB => {
            nero_spreadsheet::write_cells(arguments)
        }
        Some(verb) if verb == nero_table::child::BOOK_VERB => {
            nero_spreadsheet::write_book(arguments)
        }
        Some(verb) if verb == nero_python::VERB => nero_python::answer(arguments),
        Some(verb) if verb == nero_plot::child::VERB => nero_raster::answer(arguments),
        _ => nero_cli::main(daemon, facts::facts),
    }
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
