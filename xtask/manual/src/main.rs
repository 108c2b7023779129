//! Writes the pages of `docs/reference` from the tables of the code, and compares them with those
//! that are there. `cargo xtask manual` starts it as `nero-manual ROOT [--check]`.
//!
//! Words come from the crates that read them. What a word means stands in its table, or in its
//! documentation in the source, which `source` reads.

mod source;
mod variables;
mod verbs;
mod words;

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

/// The first lines of each page.
const ORIGIN: &str = "<!-- written by `cargo xtask manual` from the code: edit it there -->";

/// A page: its name below `docs/reference`, and its text.
struct Chapter {
    name: &'static str,
    text: String,
}

impl Chapter {
    fn new(name: &'static str, title: &str, body: &str) -> Self {
        Self {
            name,
            text: format!("{ORIGIN}\n\n# {title}\n\n{}\n", body.trim_end()),
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match *words.as_slice() {
        [root] => run(Path::new(root), false),
        [root, "--check"] => run(Path::new(root), true),
        _ => Err("usage: nero-manual ROOT [--check]".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the pages; with `check`, returns an error that names those that differ.
fn run(root: &Path, check: bool) -> Result<(), String> {
    let pages = [
        verbs::page(),
        words::fields(),
        words::settings(),
        words::expressions(root)?,
        words::states(root)?,
        variables::page(root)?,
        words::exit_codes(root)?,
    ];
    let folder = root.join("docs/reference");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut stale = Vec::new();
    for page in pages {
        let path = folder.join(page.name);
        if fs::read_to_string(&path).is_ok_and(|kept| kept == page.text) {
            continue;
        }
        if check {
            stale.push(format!("docs/reference/{}", page.name));
            continue;
        }
        fs::write(&path, page.text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    match stale.join(", ") {
        none if none.is_empty() => Ok(()),
        stale => Err(format!(
            "the code has other words than {stale}\nhint: cargo xtask manual"
        )),
    }
}

/// A table of Markdown.
fn table<const N: usize>(heads: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut text = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(N));
    for row in rows {
        let cells = row.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

/// A word as it is typed.
fn typed(word: &str) -> String {
    format!("`{word}`")
}
