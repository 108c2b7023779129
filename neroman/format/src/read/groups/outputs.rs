//! What comes home (`outputs`) and what travels (`files`).

use crate::definition::problem::printable;
use crate::definition::{Fetch, Output, Stream};
use crate::read::reader::Reader;
use ignore::overrides::OverrideBuilder;
use nero_model::safe::quoted;
use nero_yaml::{Entry, Kind, Mark, Node, Zero};

/// The entries of `outputs`: one, or a list of texts and maps.
pub(crate) fn read(reader: &mut Reader<'_>, node: &Node) -> Vec<Output> {
    is_one(reader, "outputs", node);
    let items = match &node.kind {
        Kind::List(items) => items.iter().map(|item| &**item).collect(),
        Kind::Map(_) | Kind::Scalar { .. } => vec![node],
    };
    let mut outputs: Vec<Output> = Vec::new();
    for item in items {
        let output = match &item.kind {
            Kind::Map(entries) => from_map(reader, item.mark, entries),
            Kind::Scalar { .. } | Kind::List(_) => reader
                .single("outputs", item)
                .and_then(|path| named(reader, path, item.mark)),
        };
        // An output named twice is fetched once.
        outputs.extend(output.filter(|o| !outputs.contains(o)));
    }
    outputs
}

/// Refuses a single text that is meant as several: `outputs: stdout, model.pt`.
fn is_one(reader: &mut Reader<'_>, what: &str, node: &Node) {
    let text = node.scalar().unwrap_or_default();
    if text.contains(", ") {
        reader.wrong(
            node.mark,
            format!("`{what}` is one text with a comma in it"),
            format!("several stand in a list: `{what}: [{}]`", printable(text)),
        );
    }
}

fn named(reader: &mut Reader<'_>, path: &str, mark: Mark) -> Option<Output> {
    let stream = match path {
        "stdout" | "stdout.log" => Some(Stream::Stdout),
        "stderr" | "stderr.log" => Some(Stream::Stderr),
        _ => None,
    };
    let path = match stream {
        Some(Stream::Stdout) => "stdout.log".to_owned(),
        Some(Stream::Stderr) => "stderr.log".to_owned(),
        None => glob(reader, "outputs", path, mark)?,
    };
    Some(Output {
        path,
        stream,
        fetch: Fetch::default(),
        max_bytes: None,
    })
}

fn from_map(reader: &mut Reader<'_>, mark: Mark, entries: &[Entry]) -> Option<Output> {
    const KEYS: &[&str] = &["path", "fetch", "max"];
    let mut has_path = false;
    let mut output = None;
    let mut fetch = Fetch::default();
    let mut max_bytes = None;
    for entry in entries {
        let Entry { key, value, .. } = entry;
        match key.as_str() {
            "path" => {
                has_path = true;
                let path = reader.single("path", value);
                output = path.and_then(|path| named(reader, path, value.mark));
            }
            "fetch" => {
                let known = [("live", Fetch::Live), ("end", Fetch::End)];
                fetch = reader.choice("fetch", value, &known).unwrap_or(fetch);
            }
            "max" => max_bytes = reader.size_bytes("max", value, Zero::Refused),
            _ => reader.unknown(entry, "is no part of an output", KEYS, &[]),
        }
    }
    if !has_path {
        reader.wrong(
            mark,
            "an output has no `path`",
            "for example `{path: 'ckpt/**', max: 2G}`",
        );
    }
    output.map(|output| Output {
        fetch,
        max_bytes,
        ..output
    })
}

/// An entry of `files`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TravelEntry {
    /// What travels.
    pub(crate) glob: String,
    /// `mode: link`: runs share one read-only file instead of getting copies.
    pub(crate) linked: bool,
}

/// The entries of `files`: one, or a list of texts and maps.
pub(crate) fn files(reader: &mut Reader<'_>, node: &Node) -> Vec<TravelEntry> {
    is_one(reader, "files", node);
    let items = match &node.kind {
        Kind::List(items) => items.iter().map(|item| &**item).collect(),
        Kind::Map(_) | Kind::Scalar { .. } => vec![node],
    };
    let mut files = Vec::with_capacity(items.len());
    for item in items {
        files.extend(match &item.kind {
            Kind::Map(entries) => travelling(reader, item.mark, entries),
            Kind::Scalar { .. } | Kind::List(_) => {
                let written = reader.single("files", item);
                let glob = written.and_then(|path| glob(reader, "files", path, item.mark));
                glob.map(|glob| TravelEntry {
                    glob,
                    linked: false,
                })
            }
        });
    }
    files
}

fn travelling(reader: &mut Reader<'_>, mark: Mark, entries: &[Entry]) -> Option<TravelEntry> {
    const KEYS: &[&str] = &["path", "mode"];
    let mut has_path = false;
    let mut path = None;
    let mut linked = false;
    for entry in entries {
        let Entry { key, value, .. } = entry;
        match key.as_str() {
            "path" => {
                has_path = true;
                let written = reader.single("path", value);
                path = written.and_then(|path| glob(reader, "files", path, value.mark));
            }
            "mode" => {
                let known = [("copy", false), ("link", true)];
                linked = reader.choice("mode", value, &known).unwrap_or(linked);
            }
            _ => reader.unknown(entry, "is no part of an entry of `files`", KEYS, &[]),
        }
    }
    if !has_path {
        reader.wrong(
            mark,
            "an entry of `files` has no `path`",
            "for example `{path: data/, mode: link}`",
        );
    }
    path.map(|glob| TravelEntry { glob, linked })
}

/// A list of globs, or one.
pub(crate) fn globs(reader: &mut Reader<'_>, what: &str, node: &Node) -> Vec<String> {
    let mut globs = Vec::new();
    for (written, item) in reader.several(what, node) {
        globs.extend(glob(reader, what, written, item.mark));
    }
    globs
}

/// A glob below the folder that compiles.
fn glob(reader: &mut Reader<'_>, what: &str, written: &str, mark: Mark) -> Option<String> {
    if written.is_empty() {
        reader.wrong(
            mark,
            format!("`{what}` holds an empty text"),
            "leave it out",
        );
        return None;
    }
    if written.starts_with('!') {
        let message = format!(
            "`{what}` names the files to take, and {} excludes files",
            quoted(written)
        );
        reader.wrong(mark, message, "put what is to stay behind into .neroignore");
        return None;
    }
    let path = reader.inside(what, written, mark)?;
    // A slash at the end means a folder to such globs.
    let path = if written.ends_with('/') && !path.is_empty() {
        format!("{path}/")
    } else {
        path
    };
    let wrong = match reader.globs.get(&path) {
        Some(known) => known.clone(),
        None => {
            let wrong = mistake(&path);
            reader.globs.insert(path.clone(), wrong.clone());
            wrong
        }
    };
    if let Some(wrong) = wrong {
        let message = format!("{} is no glob: {wrong}", quoted(written));
        reader.wrong(mark, message, BRACKETS);
        return None;
    }
    Some(path)
}

/// What to do about a glob that does not compile.
const BRACKETS: &str = "put `[` and `{` into brackets where they are meant: `[[]`";

/// What keeps a glob from compiling.
fn mistake(path: &str) -> Option<String> {
    // Where the folder is does not matter for that.
    let built = OverrideBuilder::new("/").add(path).map(drop);
    built.err().map(|error| printable(&error.to_string()))
}

/// What is wrong with a glob for files below a run's folder that a person
/// typed, and what to do.
pub fn glob_mistake(written: &str) -> Option<(String, &'static str)> {
    let shown = quoted(written);
    let leads_out = written.starts_with(['/', '~']) || written.split('/').any(|part| part == "..");
    if written.split('/').all(|part| matches!(part, "" | ".")) {
        return Some((format!("{shown} names no file"), ""));
    }
    if leads_out {
        return Some((
            format!("{shown} lies outside of the run's folder"),
            "only files below the working folder of a run come home",
        ));
    }
    if written.starts_with('!') {
        return Some((format!("{shown} excludes files"), "name the files to take"));
    }
    let wrong = mistake(written)?;
    Some((format!("{shown} is no glob: {wrong}"), BRACKETS))
}
