//! `help --man DIR`: a page for `man` of the program and of each verb, for packagers.
//! Answered without a daemon.

use std::fs;
use std::path::Path;

use nero_model::safe::Safe;

use crate::fault::{Fault, Stop, code};
use crate::line;
use crate::say::VerbOutput;

/// Writes the pages into a folder, which is made when it is missing.
pub fn run(out: &VerbOutput, folder: &str) -> Result<u8, Stop> {
    let cannot = |error: &std::io::Error| {
        Fault::failed(format!("cannot write pages into {folder}")).because(error)
    };
    let path = Path::new(folder);
    fs::create_dir_all(path).map_err(|error| cannot(&error))?;
    clap_mangen::generate_to(line::all_with_options(), path).map_err(|error| cannot(&error))?;
    out.line(&format!(
        "pages neroman.1, neroman-start.1 and so on are in {}",
        Safe::line(folder)
    ))?;
    Ok(code::OK)
}
