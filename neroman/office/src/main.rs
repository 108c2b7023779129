//! `neroman-office`: reads the file of a table, numbers its rows, writes results into it, makes a
//! workbook, a file of Parquet or a picture, and runs modules of people. Each call is a process
//! that limits itself before it looks at what comes from elsewhere.
//!
//! neroman alone calls it (`nero_child::Office`): its words and messages may change with each
//! build, and the first word names the caller's.

mod parquet;

use std::process::ExitCode;

use nero_child::{BUILD, OFFICE, OTHER_BUILD};

fn main() -> ExitCode {
    // It was executed by its descriptor, whose number would be its name in lists of processes.
    let _ = rustix::thread::set_name(c"neroman-office");
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(build) if build == BUILD => {}
        Some(word) if word == "--version" => {
            println!("{OFFICE} {BUILD}");
            return ExitCode::SUCCESS;
        }
        Some(_) => return ExitCode::from(OTHER_BUILD),
        None => {
            eprintln!("neroman calls this program; type `neroman help`");
            return ExitCode::from(2);
        }
    }
    let verb = arguments.next();
    let verb = verb.as_ref().and_then(|verb| verb.to_str());
    // Modules have limits of their own, and rows for Parquet come from neroman alone.
    let is_limited = ![Some(nero_python::VERB), Some(nero_table::columns::VERB)].contains(&verb);
    if is_limited && !nero_child::limit() {
        return ExitCode::FAILURE;
    }
    // The caller knows a panic by its exit code.
    std::panic::set_hook(Box::new(|_| {}));
    match verb {
        Some(nero_table::child::VERB) => nero_spreadsheet::answer(arguments),
        Some(nero_table::child::NUMBER_VERB) => nero_spreadsheet::number(arguments),
        Some(nero_table::child::CELLS_VERB) => nero_spreadsheet::write_cells(arguments),
        Some(nero_table::child::BOOK_VERB) => nero_spreadsheet::write_book(arguments),
        Some(nero_table::columns::VERB) => parquet::make(),
        Some(nero_table::columns::MAKER_VERB) => parquet::maker(arguments),
        Some(nero_python::VERB) => nero_python::run_modules(arguments),
        Some(nero_plot::child::VERB) => nero_raster::answer(arguments),
        _ => ExitCode::from(2),
    }
}
