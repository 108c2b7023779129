//! A source that is YAML, or a batch script: blocks of experiments.

use super::beneath::{self, Defaults};
use super::loaded::{self, LoadedSource, SourceContent};
use super::{batch, file};
use crate::definition::problem::{FormatErrors, Problem};
use crate::definition::{Edits, Source};
use crate::read::reader::Reader;
use crate::read::text::Text;
use crate::read::{fields, parse};
use nero_expr::ParseContext;
use nero_yaml::{Entry, Fields, Kind, Mark, Node};
use std::path::Path;

/// Reads an experiment folder (`neronet.yaml`, else `config.yaml`), a YAML file, or a
/// batch script of SLURM or Grid Engine.
///
/// Dates in rules are read in the zone of this machine.
///
/// # Errors
/// All mistakes of the source, each with its place and a hint.
pub fn read_source(path: &Path, defaults: &Defaults) -> Result<LoadedSource, FormatErrors> {
    read_source_edited(path, defaults, Edits::new())
}

/// Like [`read_source`], with what people changed of its experiments.
///
/// # Errors
/// All mistakes of the source, each with its place and a hint.
pub fn read_source_edited(
    path: &Path,
    defaults: &Defaults,
    edits: Edits,
) -> Result<LoadedSource, FormatErrors> {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let context = ParseContext::new(now_ms, jiff::tz::TimeZone::system());
    read_in(path, &context, defaults, edits)
}

/// Like [`read_source`], with the time zone of the user who typed the rules.
///
/// # Errors
/// All mistakes of the source, each with its place and a hint.
pub fn read_source_in(
    path: &Path,
    context: &ParseContext,
    defaults: &Defaults,
) -> Result<LoadedSource, FormatErrors> {
    read_in(path, context, defaults, Edits::new())
}

fn read_in(
    path: &Path,
    context: &ParseContext,
    defaults: &Defaults,
    edits: Edits,
) -> Result<LoadedSource, FormatErrors> {
    let (mut source, mut text) = file::open(path)?;
    let context = context.clone().standing();
    let content = read_text(&mut text, &mut source, &context, defaults, edits)?;
    Ok(content.loaded(source))
}

fn read_text(
    text: &mut Text,
    source: &mut Source,
    context: &ParseContext,
    defaults: &Defaults,
    edits: Edits,
) -> Result<SourceContent, FormatErrors> {
    let mut fields = Fields::default();
    if batch::is_script(&source.file) {
        let (root, notes) = batch::read(text, &source.file)?;
        let beneath = beneath::find(text, source, &[], defaults, &mut fields)?;
        let mut reader = Reader::new(text, &source.folder, context, fields);
        reader.beneath = beneath;
        reader.edits = edits;
        return read_tree(reader, source, &root, notes);
    }
    let root = parse::parse(text, &mut fields)?;
    let Some(root) = root.filter(|root| !root.is_null()) else {
        return Err(Problem::of_file(
            format!("{} is empty", text.file),
            "add a block such as `+name: {command: python3 main.py}`",
        )
        .into());
    };
    let Kind::Map(entries) = &root.kind else {
        fields.wrong(
            root.mark,
            format!("the file holds {}, not blocks and fields", root.describe()),
            "add a block such as `+name: {command: python3 main.py}`",
        );
        return text.checked(fields).map(|()| Default::default());
    };
    if is_foreign(entries, source) {
        return Err(Problem::of_file(
            format!(
                "{} has no field of neronet: it is another program's",
                text.file
            ),
            "describe the experiments in neronet.yaml beside it",
        )
        .into());
    }
    let beneath = beneath::find(text, source, entries, defaults, &mut fields)?;
    let mut reader = Reader::new(text, &source.folder, context, fields);
    reader.beneath = beneath;
    reader.edits = edits;
    read_tree(reader, source, &root, Vec::new())
}

/// Reads the blocks below a root that is a map.
fn read_tree(
    mut reader: Reader<'_>,
    source: &Source,
    root: &Node,
    notes: Vec<(Mark, String)>,
) -> Result<SourceContent, FormatErrors> {
    let entries = match &root.kind {
        Kind::Map(entries) => entries.as_slice(),
        Kind::Scalar { .. } | Kind::List(_) => &[],
    };
    for (mark, note) in notes {
        reader.note(Some(mark), note);
    }
    reader.root(entries, root.mark, &source_name(source));
    loaded::check(&mut reader)?;
    Ok(SourceContent::of(reader))
}

/// Whether a `config.yaml` knows nothing of us. In a `neronet.yaml` the same is a
/// row of misspelt fields.
fn is_foreign(entries: &[Entry], source: &Source) -> bool {
    let ours = |entry: &Entry| entry.key.starts_with('+') || fields::field(&entry.key).is_some();
    let name = source.file.file_name().and_then(|name| name.to_str());
    name != Some("neronet.yaml") && !entries.is_empty() && !entries.iter().any(ours)
}

/// The name of an experiment that is the whole file: the folder's or the file's.
fn source_name(source: &Source) -> String {
    let of_folder = matches!(
        source.file.file_name().and_then(|name| name.to_str()),
        Some("neronet.yaml" | "config.yaml")
    );
    let name = if of_folder {
        source.folder.file_name()
    } else {
        source.file.file_stem()
    };
    name.and_then(|name| name.to_str())
        .unwrap_or("experiment")
        .to_owned()
}
