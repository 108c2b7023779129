//! Rows of parameters as JSON lines: each line is an experiment of one command, or of one
//! block of the folder's description.
//!
//! A row becomes a block of the same tree that a YAML file becomes, so that every field,
//! default and mistake is the one of the format.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;
use std::rc::Rc;

use nero_expr::ParseContext;
use nero_model::json::{JsonToken, tokens};
use nero_model::names::suggest;
use nero_model::safe::quoted;
use nero_yaml::{Entry, Fields, Kind, Mark, Node};

use super::beneath::{self, Defaults, made};
use super::loaded::{self, LoadedSource, SourceContent};
use super::{file, table};
use crate::definition::problem::{FormatErrors, Problem};
use crate::definition::{Edits, ParentFile, RowsOptions, Source, SourceKind};
use crate::edit;
use crate::read::block::{self, Scope};
use crate::read::fields::Field;
use crate::read::params::tree;
use crate::read::reader::Reader;
use crate::read::text::Text;
use crate::read::{define, expand, parse};

/// What the command typed for rows is called where it has a mistake.
const TYPED: &str = "--command";

/// The folder, in that of the experiments, for rows that come without a file.
pub const ROWS_FOLDER: &str = ".neronet";

/// Whether a file is read as rows.
pub fn is_rows(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ending.eq_ignore_ascii_case("jsonl"))
}

/// Reads rows; `text` is what the file shall hold, else it is read. Dates in rules are read
/// in the zone of this machine.
///
/// # Errors
/// All mistakes, each with its place.
pub fn read_rows(
    path: &Path,
    options: &RowsOptions,
    defaults: &Defaults,
    text: Option<String>,
    edits: Edits,
) -> Result<LoadedSource, FormatErrors> {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let context = ParseContext::new(now_ms, jiff::tz::TimeZone::system()).standing();
    let (mut text, digest) = match text {
        Some(text) => {
            let digest = blake3::hash(text.as_bytes()).to_hex().to_string();
            (Text::new(file::display_path(path), text), digest)
        }
        None => file::text(path)?,
    };
    let file = file::absolute(path)?;
    let beside = file.parent().unwrap_or(Path::new("/"));
    // Rows without a file of their own are kept in a folder that never travels.
    let folder = if beside.file_name().is_some_and(|name| name == ROWS_FOLDER) {
        beside.parent().unwrap_or(beside).to_path_buf()
    } else {
        beside.to_path_buf()
    };
    let stem = file::stem(&file, &folder, &text.file)?;
    let mut source = Source {
        rows: Some(options.clone()),
        ..Source::new(SourceKind::File, file, folder, digest)
    };
    let mut fields = Fields::default();
    let above = above(&mut text, &mut source, options)?;
    let entries = above.as_deref().map_or(&[][..], entries_of);
    let beneath = beneath::find(&mut text, &mut source, entries, defaults, &mut fields)?;
    let command = options.command.as_deref().map(|command| {
        let lines = text.lay_beneath(Text::new(TYPED.to_owned(), command.to_owned()));
        let mark = Mark {
            line: lines + 1,
            column: 1,
        };
        written("command", command, mark)
    });
    let mut reader = Reader::new(&text, &source.folder, &context, fields);
    reader.beneath = beneath;
    reader.is_table = true;
    reader.edits = edits;
    let scope = scope(&mut reader, entries, options, command);
    if reader.count() == 0 && !crate::sources::walk::runs_something(&scope) {
        let why = format!("nothing says what the rows of {} run", text.file);
        let hint = "add --command 'python3 main.py {lr}', or --to BLOCK of neronet.yaml";
        return Err(Problem::of_file(why, hint).into());
    }
    let name = options.block.as_deref().unwrap_or(&stem);
    rows(&mut reader, &scope, name);
    loaded::check(&mut reader)?;
    if reader.definitions.is_empty() {
        let why = format!("{} has no row", text.file);
        return Err(Problem::of_file(why, "a row is a line such as {\"lr\": 0.1}").into());
    }
    if !reader.unused.is_empty() {
        let names = reader.unused.iter().take(8).map(|one| quoted(one));
        let names = names.collect::<Vec<_>>().join(", ");
        let note =
            format!("the command does not use {names}; the job sees them in its environment only");
        reader.note(None, note);
    }
    let content = SourceContent::of(reader);
    Ok(content.loaded(source))
}

/// The description whose block the rows are of, or the YAML file of the same name.
fn above(
    text: &mut Text,
    source: &mut Source,
    options: &RowsOptions,
) -> Result<Option<Rc<Node>>, FormatErrors> {
    let file = match &options.block {
        None => table::companion(&source.file, None),
        Some(block) => Some(file::described(&source.folder).ok_or_else(|| {
            let folder = file::display_path(&source.folder);
            let why = format!(
                "{folder} has no neronet.yaml with the block {}",
                quoted(block)
            );
            Problem::of_file(
                why,
                "give rows a command of their own: --command 'main {lr}'",
            )
        })?),
    };
    let Some(file) = file else {
        return Ok(None);
    };
    let (own, digest) = file::text(&file)?;
    let mut fields = Fields::default();
    let root = parse::parse(&own, &mut fields)?;
    own.checked(fields)?;
    source.parents.push(ParentFile { file, digest });
    let lines = text.lay_beneath(own);
    Ok(root.map(|root| root.below(lines)))
}

fn entries_of(node: &Node) -> &[Entry] {
    match &node.kind {
        Kind::Map(entries) => entries,
        Kind::List(_) | Kind::Scalar { .. } => &[],
    }
}

/// What holds for every row.
fn scope(
    reader: &mut Reader<'_>,
    entries: &[Entry],
    options: &RowsOptions,
    command: Option<Entry>,
) -> Scope {
    let base = reader.base();
    let is_block = |entry: &&Entry| entry.key.starts_with('+');
    let fields = |entries: &[Entry]| -> Vec<Entry> {
        entries
            .iter()
            .filter(|one| !is_block(one))
            .cloned()
            .collect()
    };
    let (mut scope, _) = block::enter(reader, &base, &fields(entries));
    match &options.block {
        None => {
            for one in entries.iter().filter(is_block) {
                let message = format!(
                    "{} stands beside rows, which are the experiments",
                    quoted(&one.key)
                );
                let hint = "write fields for all rows here, or name the block with --to";
                reader.wrong(one.key_mark, message, hint);
            }
        }
        Some(block) => {
            let Some(path) = path_to(entries, block) else {
                let mut names = Vec::new();
                blocks(entries, &mut names);
                let hint = match suggest(block, names.iter().copied()) {
                    Some(near) => format!("did you mean {}?", quoted(near)),
                    None => "it names a `+block` of the folder's description".to_owned(),
                };
                let mark = Mark { line: 1, column: 1 };
                let message = format!("there is no block {}", quoted(block));
                reader.wrong(mark, message, hint);
                return scope;
            };
            for one in path {
                (scope, _) = block::enter(reader, &scope, &fields(entries_of(&one.value)));
            }
        }
    }
    if let Some(command) = command {
        (scope, _) = block::enter(reader, &scope, &[command]);
        // What was typed is the command, whatever the file beside the rows has.
        let others = [
            Field::Script,
            Field::Steps,
            Field::RunCommandPrefix,
            Field::MainCodeFile,
        ];
        for other in others {
            scope.fields.remove(&other);
        }
    }
    scope
}

/// The blocks from the outermost one to the one of this name.
fn path_to<'n>(entries: &'n [Entry], name: &str) -> Option<Vec<&'n Entry>> {
    entries.iter().find_map(|entry| {
        let own = entry.key.strip_prefix('+')?.trim();
        if own == name {
            return Some(vec![entry]);
        }
        let mut path = path_to(entries_of(&entry.value), name)?;
        path.insert(0, entry);
        Some(path)
    })
}

fn blocks<'n>(entries: &'n [Entry], into: &mut Vec<&'n str>) {
    for entry in entries {
        if let Some(name) = entry.key.strip_prefix('+') {
            into.push(name.trim());
            blocks(entries_of(&entry.value), into);
        }
    }
}

/// A field with a text that stands in a text beneath.
fn written(key: &str, text: &str, mark: Mark) -> Entry {
    let mut entry = made(key, text, mark);
    if let Some(value) = Rc::get_mut(&mut entry.value) {
        value.bytes = (0, text.len());
    }
    entry
}

/// Makes an experiment of each line.
fn rows(reader: &mut Reader<'_>, outer: &Scope, name: &str) {
    let mut names: HashSet<String> = HashSet::new();
    for (number, line) in (1..).zip(reader.text.text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        if reader.full() {
            return;
        }
        let before = (reader.count(), reader.definitions.len());
        let mark = Mark {
            line: number,
            column: 1,
        };
        let entries = row(reader, line, mark);
        if reader.count() > before.0 {
            continue;
        }
        let given = entries.iter().filter(|entry| !entry.value.is_null());
        let mut values: Vec<(&str, String)> = given
            .map(|entry| match &entry.value.kind {
                Kind::Scalar { text, .. } => (&*entry.key, text.clone()),
                Kind::List(_) | Kind::Map(_) => (&*entry.key, tree::json(&entry.value)),
            })
            .collect();
        values.sort_unstable();
        let mut own = name.to_owned();
        for (key, value) in &values {
            own.extend(["_", key, "-", value]);
        }
        // Rows that are alike are told apart by their order.
        let (alone, mut count) = (own.clone(), 1);
        while !names.insert(own.clone()) {
            count += 1;
            own = format!("{alone}_{count}");
        }
        let varied: Vec<String> = values.iter().map(|(key, _)| (*key).to_owned()).collect();
        let parameters = Entry {
            value: Rc::new(Node::made(Kind::Map(single_values(entries)), mark)),
            ..made("parameters", "", mark)
        };
        let (scope, _) = block::enter(reader, outer, &[parameters]);
        let draft = define::draft(reader, &scope, &own, mark);
        if reader.count() == before.0 {
            expand::expand(reader, &draft, &own, mark);
        }
        for definition in &mut reader.definitions[before.1..] {
            name.clone_into(&mut definition.block);
            definition.varied.extend(varied.iter().cloned());
        }
        edit::apply(reader, &scope, &own, mark, before.1);
    }
}

/// The parameters of a line.
fn row(reader: &mut Reader<'_>, line: &str, mark: Mark) -> Vec<Entry> {
    const EXAMPLE: &str = "a row is a line such as {\"lr\": 0.1, \"layers\": 3}";
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line) {
        Ok(_) => {}
        Err(error) => {
            let why = error.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            let column = u32::try_from(error.column()).unwrap_or(1).max(1);
            let message = format!("the line is no JSON object: {why}");
            reader.wrong(Mark { column, ..mark }, message, EXAMPLE);
            return Vec::new();
        }
    }
    // The line is read as YAML to keep the text of its numbers.
    let node = match parse::cell(&without_surrogates(line)) {
        Ok(Some(node)) => node.below(mark.line - 1),
        Ok(None) => return Vec::new(),
        Err((message, hint)) => {
            reader.wrong(mark, message, hint);
            return Vec::new();
        }
    };
    entries_of(&node).to_vec()
}

/// The line with characters in place of surrogates, which YAML does not know.
fn without_surrogates(line: &str) -> Cow<'_, str> {
    if !line.contains("\\ud") && !line.contains("\\uD") {
        return Cow::Borrowed(line);
    }
    let mut plain = String::with_capacity(line.len());
    for token in tokens(line) {
        match token {
            JsonToken::Text(quoted) => {
                let text: String = serde_json::from_str(quoted).unwrap_or_default();
                plain.push_str(&serde_json::Value::from(text).to_string());
            }
            JsonToken::Number(part) | JsonToken::Word(part) => plain.push_str(part),
            JsonToken::Sign(sign) => plain.push(sign),
            JsonToken::Blank => plain.push(' '),
        }
    }
    Cow::Owned(plain)
}

/// The parameters of a row, each with one value: a list of a row is none of several.
fn single_values(entries: Vec<Entry>) -> Vec<Entry> {
    let single = |mut entry: Entry| {
        if !matches!(entry.value.kind, Kind::Scalar { .. }) {
            let mark = entry.value.mark;
            entry.value = Rc::new(Node::made(Kind::List(vec![entry.value]), mark));
        }
        entry
    };
    entries.into_iter().map(single).collect()
}
