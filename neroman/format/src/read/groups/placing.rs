//! Where a run may go, and what it finds there: `node`, `requires` and `probes`, `data`,
//! `checkpoint`.
//!
//! Which nodes there are is the configuration's matter and changes without this file;
//! a name that no node has is found at the start.

use super::{outputs, settings};
use crate::definition::{DataDef, DataPath, NodeProbe, NotBuilt, SourceText};
use crate::read::block::{NamedEntry, PROBE_EXAMPLE, Scope, data_hint, is_data};
use crate::read::fields::Field;
use crate::read::reader::Reader;
use nero_expr::{NodeFact, ParseContext, Requirement};
use nero_model::safe::quoted;
use nero_yaml::{Entry, Kind, Node};

/// Longest line of shell of a probe, in bytes.
pub const PROBE_BYTES_MAX: usize = 4096;
/// Most probes of one requirement: all of them are asked of each node.
const PROBES_MAX: usize = 16;

/// The key of `data` that holds for every other node.
const DEFAULT: &str = "default";

/// `node: triton`: a node, a group, or any.
pub(crate) fn node(reader: &mut Reader<'_>, scope: &Scope) -> Option<SourceText> {
    let given = scope.get(Field::Node)?;
    let text = reader.single(&given.key, &given.value)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if text.is_empty() || !text.chars().all(fits) {
        reader.wrong(
            given.value.mark,
            format!("{} is no name of a node or a group", quoted(text)),
            "name one node, one group, or any",
        );
        return None;
    }
    Some(SourceText {
        text: text.to_owned(),
        place: reader.text.place(given.value.mark),
    })
}

/// `requires: gpumem > 20G && load < 4`, in its canonical form, and the probes that it uses.
pub(crate) fn requires(
    reader: &mut Reader<'_>,
    scope: &Scope,
    not_built: &mut Vec<NotBuilt>,
) -> (Option<SourceText>, Vec<NodeProbe>) {
    let mistakes = reader.count();
    let mut probes: Vec<NodeProbe> = (scope.probes.iter())
        .filter_map(|named| probe(reader, named))
        .collect();
    let Some(given) = scope.get(Field::Requires) else {
        return (None, Vec::new());
    };
    let node = &given.value;
    let Some(text) = reader.single(&given.key, node) else {
        return (None, Vec::new());
    };
    // A probe that was refused is no unknown name as well.
    let names = scope.probes.iter().map(|named| &*named.name);
    let context = reader.context.clone().with_probes(names);
    match Requirement::parse(text, &context) {
        Ok(requirement) => {
            let used = requirement.probes();
            probes.retain(|probe| used.contains(&&*probe.name));
            if used.len() > PROBES_MAX && reader.count() == mistakes {
                let message = format!("`requires` uses more than {PROBES_MAX} probes");
                reader.wrong(
                    node.mark,
                    message,
                    "one line of shell may look at several things",
                );
            }
            let placed = SourceText {
                text: requirement.canonical(),
                place: reader.text.place(node.mark),
            };
            (Some(placed), probes)
        }
        Err(error) => {
            settings::refused(reader, given, error, not_built);
            (None, Vec::new())
        }
    }
}

/// `has_env: 'test -d ~/env && echo yes || echo no'`.
fn probe(reader: &mut Reader<'_>, named: &NamedEntry) -> Option<NodeProbe> {
    let name = &*named.name;
    let is_fact = NodeFact::from_word(name).is_some();
    let context = ParseContext::utc(0).with_probes([name].into_iter());
    let is_name = Requirement::parse(&format!("{name} == 1"), &context)
        .is_ok_and(|requirement| requirement.probes() == [name]);
    if is_fact || !is_name {
        let message = if is_fact {
            format!(
                "{} is a fact of nodes, and no name for a probe",
                quoted(name)
            )
        } else {
            format!("{} is no name for a probe", quoted(name))
        };
        reader.wrong(named.key_mark, message, PROBE_EXAMPLE);
        return None;
    }
    let command = reader.single(&format!("probes.{name}"), &named.value)?;
    if command.trim().is_empty() || command.len() > PROBE_BYTES_MAX || command.contains('\0') {
        reader.wrong(
            named.value.mark,
            format!("the probe {} is no line of shell", quoted(name)),
            PROBE_EXAMPLE,
        );
        return None;
    }
    Some(NodeProbe {
        name: name.to_owned(),
        command: command.to_owned(),
    })
}

/// `checkpoint: 'ckpt/*.pt'`, or several.
pub(crate) fn checkpoint(reader: &mut Reader<'_>, scope: &Scope) -> Vec<String> {
    match scope.get(Field::Checkpoint) {
        Some(given) => outputs::globs(reader, &given.key, &given.value),
        None => Vec::new(),
    }
}

/// `data: {corpus: {triton: $WRKDIR/corpus, default: ~/corpus}}`.
pub(crate) fn data(reader: &mut Reader<'_>, scope: &Scope) -> Vec<DataDef> {
    scope
        .data
        .iter()
        .filter_map(|named| data_def(reader, named))
        .collect()
}

fn data_def(reader: &mut Reader<'_>, named: &NamedEntry) -> Option<DataDef> {
    let name = &named.name;
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || !name.chars().all(fits) {
        reader.wrong(
            named.key_mark,
            format!("{} is no name for data", quoted(name)),
            "it holds letters, digits, `.`, `_` and `-`",
        );
        return None;
    }
    let paths = match &named.value.kind {
        Kind::Map(entries) => on_nodes(reader, name, entries),
        Kind::Scalar { .. } | Kind::List(_) => path(reader, name, &named.value)
            .map(|path| DataPath { node: None, path })
            .into_iter()
            .collect(),
    };
    if paths.is_empty() {
        if matches!(&named.value.kind, Kind::Map(entries) if entries.is_empty()) {
            let message = format!("no path is given for the data {}", quoted(name));
            reader.wrong(named.key_mark, message, EXAMPLE);
        }
        return None;
    }
    Some(DataDef {
        name: name.clone(),
        paths,
    })
}

const EXAMPLE: &str = "for example `corpus: {triton: $WRKDIR/corpus, default: ~/corpus}`";

fn on_nodes(reader: &mut Reader<'_>, name: &str, entries: &[Entry]) -> Vec<DataPath> {
    let mut paths = Vec::new();
    for Entry {
        key,
        key_mark,
        value,
        ..
    } in entries
    {
        if key.is_empty() {
            reader.wrong(*key_mark, "a node has no name", EXAMPLE);
            continue;
        }
        if let Some(path) = path(reader, name, value) {
            let node = (key != DEFAULT).then(|| key.clone());
            paths.push(DataPath { node, path });
        }
    }
    paths
}

/// A place on a node; nothing relative, since it is relative to nothing there.
fn path(reader: &mut Reader<'_>, name: &str, node: &Node) -> Option<String> {
    let text = reader.single(&format!("data.{name}"), node)?;
    if !text.starts_with(['/', '~', '$']) {
        reader.wrong(
            node.mark,
            format!("{} is no place on a node", quoted(text)),
            "it begins with `/`, `~/` or `$NAME/`; what travels with the run goes into `files`",
        );
        return None;
    }
    Some(text.to_owned())
}

/// An environment's value, in which `{data.NAME}` is a place and nothing else is.
pub(crate) fn env_value(
    reader: &mut Reader<'_>,
    scope: &Scope,
    text: &str,
    node: &Node,
) -> Option<String> {
    const OPEN: &str = "{data.";
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(OPEN) {
        let offset = text.len() - rest.len() + at;
        filled.push_str(&rest[..at]);
        let behind = &rest[at + OPEN.len()..];
        let Some(end) = behind.find('}') else {
            filled.push_str(&rest[at..]);
            return Some(filled);
        };
        let name = &behind[..end];
        if !is_data(scope, name) {
            let mark = reader.text.mark_inside(node, offset);
            let message = format!("{} names no data", quoted(&format!("data.{name}")));
            reader.wrong(mark, message, data_hint(scope, name));
            return None;
        }
        filled.push_str(&nero_model::data::place(name));
        rest = &behind[end + 1..];
    }
    filled.push_str(rest);
    Some(filled)
}
