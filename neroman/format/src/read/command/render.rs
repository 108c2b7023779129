//! `render: {config.in: config.yaml}`: files whose places are filled on the node.

use super::pyformat::NameKind;
use crate::definition::RenderDef;
use crate::read::block::Scope;
use crate::read::fields::Field;
use crate::read::names::Names;
use crate::read::reader::{PathKind, Reader};
use nero_model::names::suggest;
use nero_model::safe::quoted;
use nero_yaml::Mark;
use std::collections::HashSet;
use std::io::Read as _;
use std::rc::Rc;

/// A longer template is no configuration.
const BYTES_MAX: u64 = 1 << 20;

/// Reads the field; the positions of parameters with a place in a template follow.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    scope: &Scope,
    names: &Names<'_>,
) -> (Vec<RenderDef>, HashSet<usize>) {
    let (mut renders, mut placed): (Vec<RenderDef>, _) = (Vec::new(), HashSet::new());
    let Some(given) = scope.get(Field::Render) else {
        return (renders, placed);
    };
    for entry in reader.map("render", &given.value, "render: {config.in: config.yaml}") {
        let Some(target) = reader.single(&format!("render.{}", entry.key), &entry.value) else {
            continue;
        };
        let template = reader.inside("render", &entry.key, entry.key_mark);
        let target = reader.inside("render", target, entry.value.mark);
        let (Some(template), Some(path)) = (template, target) else {
            continue;
        };
        if template == path || renders.iter().any(|one| one.path == path) {
            let message = format!("{} is written twice", quoted(&path));
            reader.wrong(
                entry.value.mark,
                message,
                "give each file a name of its own",
            );
            continue;
        }
        if let Some(text) = text(reader, &template, entry.key_mark) {
            let before = placed.len();
            placed.extend(places(reader, names, &template, &text, entry.key_mark));
            if placed.len() == before && !text.contains("{data.") {
                let message = format!("{} has no place for a parameter", quoted(&template));
                reader.note(Some(entry.key_mark), message);
            }
        }
        renders.push(RenderDef { template, path });
    }
    (renders, placed)
}

/// The text of a template, read once for all blocks.
fn text(reader: &mut Reader<'_>, template: &str, mark: Mark) -> Option<Rc<str>> {
    if let Some(known) = reader.templates.get(template) {
        return Some(Rc::clone(known));
    }
    let path = reader.folder.join(template);
    let is_link = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
    let is_file = matches!(reader.path_kind(template), PathKind::File { .. });
    let mut bytes = Vec::new();
    let read = std::fs::File::open(&path)
        .and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes));
    let why = match read {
        // On the node the link can lead out of the run's folder, or nowhere.
        _ if is_link => Some("is a link: name the file that it leads to".to_owned()),
        _ if !is_file => Some("is no file of the folder".to_owned()),
        Err(error) => Some(format!("cannot be read: {error}")),
        Ok(length) if length as u64 > BYTES_MAX => Some("is larger than 1 MiB".to_owned()),
        Ok(_) => None,
    };
    match (why, String::from_utf8(bytes)) {
        (None, Ok(text)) => {
            let text: Rc<str> = text.into();
            reader
                .templates
                .insert(template.to_owned(), Rc::clone(&text));
            return Some(text);
        }
        (why, _) => {
            let why = why.unwrap_or_else(|| "is not UTF-8 text".to_owned());
            let message = format!("the template {} {why}", quoted(template));
            reader.wrong(mark, message, "`render` takes template: file");
        }
    }
    None
}

/// The parameters that have a place. A name in braces that resembles one is told.
fn places(
    reader: &mut Reader<'_>,
    names: &Names<'_>,
    template: &str,
    text: &str,
    mark: Mark,
) -> HashSet<usize> {
    let mut found = HashSet::new();
    for part in text.split('{').skip(1) {
        let Some((name, _)) = part.split_once('}') else {
            continue;
        };
        match names.kind(name) {
            NameKind::Parameter(index) => {
                found.insert(index);
            }
            NameKind::Text(_) => {}
            NameKind::Unknown => note_near(reader, names, name, &quoted(template), mark),
        }
    }
    found
}

/// Notes a name in braces that stands for nothing and resembles a parameter. `text`: where it
/// stands.
pub(crate) fn note_near(
    reader: &mut Reader<'_>,
    names: &Names<'_>,
    name: &str,
    text: &str,
    mark: Mark,
) {
    let is_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let known = names.axes().iter().map(|axis| axis.name.as_str());
    if name.chars().all(is_name)
        && let Some(near) = suggest(name, known)
    {
        let message = format!(
            "{} of {text} names no parameter and stays as it is; did you mean {}?",
            quoted(&format!("{{{name}}}")),
            quoted(near)
        );
        reader.note(Some(mark), message);
    }
}
