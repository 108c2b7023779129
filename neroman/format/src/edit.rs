//! Values that a person typed in place of the source's, and copies of experiments.
//!
//! An edit is applied where its experiment is made: below the experiment's block, with
//! the values of its parameters. So an override of any field is read, checked and
//! inherited as if it stood in the file. An override gives way when the source's own
//! value is another one than it was when the override was typed.

use std::rc::Rc;

use nero_model::names::suggest;
use nero_model::safe::quoted;
use nero_yaml::{Entry, Fields, Kind, Mark, Node};

use crate::read::block::{self, Scope};

use crate::definition::{AppliedEdit, Definition, Edit, EditMistake, Effective, Override, Param};
use crate::read::fields::{self, Field, RESOURCES};
use crate::read::params::tree;
use crate::read::reader::Reader;
use crate::read::{define, expand, parse};

/// Makes the definitions of the edits of what a block made, from index `first` on.
pub(crate) fn apply(reader: &mut Reader<'_>, scope: &Scope, block: &str, mark: Mark, first: usize) {
    for of in first..reader.definitions.len() {
        let Some(edits) = reader.edits.remove(&of) else {
            continue;
        };
        for edit in edits {
            let outcome = effective(reader, scope, block, mark, of, &edit);
            reader.edited.push(AppliedEdit { of, edit, outcome });
        }
    }
}

fn effective(
    reader: &mut Reader<'_>,
    scope: &Scope,
    block: &str,
    mark: Mark,
    of: usize,
    edit: &Edit,
) -> Result<Effective, EditMistake> {
    let base = reader.definitions[of].clone();
    let (standing, mut dropped) = standing(edit, scope, &base)?;
    let named = |definition: Definition| match &edit.name {
        None => definition,
        Some(name) => Definition {
            name: name.clone(),
            number: None,
            ..definition
        },
    };
    let (definition, overrides) = if standing.is_empty() {
        (base, standing)
    } else {
        match built(reader, scope, block, mark, &base, &standing) {
            Ok(definition) => (definition, standing),
            Err(mistake) if edit.overrides.iter().any(|one| one.over.is_none()) => {
                return Err(mistake);
            }
            // The file changed around it.
            Err(mistake) => {
                let keys: Vec<&str> = standing.iter().map(|one| one.key.as_str()).collect();
                let keys = keys.join(", ");
                dropped.push(format!("overrides of {keys} dropped: {}", mistake.message));
                (base, Vec::new())
            }
        }
    };
    Ok(Effective {
        definition: named(definition),
        overrides,
        dropped,
    })
}

/// The overrides of values that the source still has, and what became of the others.
fn standing(
    edit: &Edit,
    scope: &Scope,
    base: &Definition,
) -> Result<(Vec<Override>, Vec<String>), EditMistake> {
    let mut dropped = Vec::new();
    let mut standing: Vec<Override> = Vec::new();
    for one in &edit.overrides {
        let one = match one.over {
            None => known(one, scope, base)?,
            Some(_) => one.clone(),
        };
        match source_value(&one, scope, base) {
            None => dropped.push(format!(
                "override {}={} dropped: its source has no such parameter any more",
                one.key, one.text
            )),
            Some(now) if one.over.as_ref().is_some_and(|over| *over != now) => {
                let over = one.over.unwrap_or_default();
                dropped.push(format!(
                    "override {}={} dropped: its source changed {} to {}",
                    one.key,
                    one.text,
                    shown_value(&over),
                    shown_value(&now),
                ));
            }
            Some(now) => standing.push(Override {
                over: Some(now),
                ..one
            }),
        }
    }
    Ok((standing, dropped))
}

/// A value as a person reads it.
fn shown_value(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

/// The parameter or field that a typed key means.
fn known(one: &Override, scope: &Scope, base: &Definition) -> Result<Override, EditMistake> {
    let has = |name: &str| base.params.iter().any(|param| param.name == name);
    let param = one.key.strip_prefix("param.").unwrap_or(&one.key);
    if has(param) {
        return Ok(Override {
            key: param.to_owned(),
            ..one.clone()
        });
    }
    let key = if RESOURCES.contains(&&*one.key) {
        format!("resources.{}", one.key)
    } else {
        one.key.clone()
    };
    let (head, below) = match key.split_once('.') {
        Some((head, below)) => (head, Some(below)),
        None => (&*key, None),
    };
    let field = fields::field(head);
    let (Some(field), false) = (field, below == Some("")) else {
        return Err(unknown_key(one, base));
    };
    if let Some(hint) = refusal(field) {
        let message = format!("{} cannot be set for one experiment", quoted(head));
        return Err(EditMistake::new(message, hint));
    }
    let holds_map = |field: Field| match scope.get(field) {
        Some(given) => matches!(given.value.kind, Kind::Map(_)),
        None => true,
    };
    if below.is_some() && !matches!(field, Field::Env | Field::Data) && !holds_map(field) {
        let message = format!("{} holds no map in the source", quoted(head));
        return Err(EditMistake::new(
            message,
            format!("give all of it: `{head}=…`"),
        ));
    }
    Ok(Override {
        key,
        is_field: true,
        ..one.clone()
    })
}

/// A key that is no parameter and no field.
fn unknown_key(one: &Override, base: &Definition) -> EditMistake {
    let mut words: Vec<&str> = base.params.iter().map(|param| &*param.name).collect();
    for word in fields::words().chain(RESOURCES.iter().copied()) {
        words.push(word);
    }
    let hint = match suggest(&one.key, words) {
        Some(near) => format!("did you mean `{near}`?"),
        None => match base.params.as_slice() {
            [] => "it has no parameters; a field is `node` or `resources.memory`".to_owned(),
            params => {
                let names = params.iter().take(12).map(|param| param.name.as_str());
                format!(
                    "its parameters are {}",
                    names.collect::<Vec<_>>().join(", ")
                )
            }
        },
    };
    let message = format!("{} is no parameter or field", quoted(&one.key));
    EditMistake::new(message, hint)
}

/// Why a field cannot be set for one experiment.
fn refusal(field: Field) -> Option<&'static str> {
    match field {
        Field::Parameters => Some("name the parameter itself: `lr=0.1`"),
        Field::Zip | Field::Exclude | Field::Repeat => {
            Some("it makes several experiments; change it in the source")
        }
        Field::Parent => Some("it stands at the top of a file; change it there"),
        Field::Collection => Some("names are unique in it; change it in the source"),
        Field::DependsOn | Field::Stages | Field::Stage | Field::Place => {
            Some("it stands between experiments of a source; change it there")
        }
        Field::Probes => Some("change it in the source"),
        Field::Later(_) => Some("it is not built yet"),
        _ => None,
    }
}

/// The value of the source; `None` for a parameter that it has not any more.
fn source_value(one: &Override, scope: &Scope, base: &Definition) -> Option<String> {
    if !one.is_field {
        let param = base.params.iter().find(|param| param.name == one.key)?;
        return Some(param.text.clone());
    }
    let (head, below) = match one.key.split_once('.') {
        Some((head, below)) => (head, Some(below)),
        None => (&*one.key, None),
    };
    let node = match (fields::field(head)?, below) {
        (Field::Env, below) => named(&scope.env, below),
        (Field::Data, below) => named(&scope.data, below),
        (field, None) => scope.get(field).map(|given| text_of(&given.value)),
        (field, Some(below)) => scope.get(field).and_then(|given| match &given.value.kind {
            Kind::Map(entries) => {
                let entry = entries.iter().find(|entry| entry.key == below);
                entry.map(|entry| text_of(&entry.value))
            }
            Kind::Scalar { .. } | Kind::List(_) => None,
        }),
    };
    Some(node.unwrap_or_default())
}

fn named(all: &[block::NamedEntry], below: Option<&str>) -> Option<String> {
    let text = |named: &block::NamedEntry| text_of(&named.value);
    match below {
        Some(name) => all.iter().find(|named| named.name == name).map(text),
        None => {
            let each = all.iter();
            let each = each.map(|named| format!("{}: {}", named.name, text(named)));
            Some(each.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A value of the file on one line.
fn text_of(node: &Node) -> String {
    match &node.kind {
        Kind::Scalar { text, .. } => text.clone(),
        Kind::List(items) => {
            let items = items.iter().map(|item| text_of(item));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Kind::Map(entries) => {
            let entries = entries
                .iter()
                .map(|entry| format!("{}: {}", entry.key, text_of(&entry.value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The definition with the overrides.
fn built(
    reader: &mut Reader<'_>,
    outer: &Scope,
    block: &str,
    mark: Mark,
    base: &Definition,
    overrides: &[Override],
) -> Result<Definition, EditMistake> {
    let entries = entries(outer, mark, overrides)?;
    // Mistakes and notes of an edit are no mistakes of the file.
    let fields = std::mem::take(&mut reader.fields);
    let was_quiet = std::mem::replace(&mut reader.is_quiet, true);
    let (scope, _) = block::enter(reader, outer, &entries);
    let draft = define::draft(reader, &scope, block, mark);
    let params: Vec<Param> = draft
        .axes
        .iter()
        .map(|axis| {
            let mut own = overrides.iter();
            let own = own.find(|one| !one.is_field && one.key == axis.name);
            let given = base.params.iter().find(|param| param.name == axis.name);
            match (own, given) {
                (Some(own), _) => tree::typed_param(&axis.name, &own.text),
                (None, Some(given)) => given.clone(),
                (None, None) => axis.param(0),
            }
        })
        .collect();
    let made = expand::definition(reader, &draft, base.name.clone(), params);
    reader.is_quiet = was_quiet;
    let found = std::mem::replace(&mut reader.fields, fields);
    mistakes(found)?;
    let made = made.ok_or_else(|| EditMistake::new("the command cannot be filled in", ""))?;
    if let [word, ..] = made.not_built.as_slice()
        && !base.not_built.iter().any(|one| one.word == word.word)
    {
        let message = format!("{} is not built yet", quoted(&word.word));
        return Err(EditMistake::new(message, ""));
    }
    let mut edited = Definition {
        number: base.number,
        block: base.block.clone(),
        varied: base.varied.clone(),
        place: base.place.clone(),
        ..made
    };
    edited.share(base);
    Ok(edited)
}

fn mistakes(fields: Fields) -> Result<(), EditMistake> {
    fields.finish().map_err(|mistakes| {
        let first = mistakes.list.into_iter().next();
        first.map_or_else(
            || EditMistake::new("a value does not fit", ""),
            |first| EditMistake::new(first.message, first.hint),
        )
    })
}

/// The overridden fields as an inner block.
fn entries(scope: &Scope, mark: Mark, overrides: &[Override]) -> Result<Vec<Entry>, EditMistake> {
    let mut whole: Vec<Entry> = Vec::new();
    for one in overrides.iter().filter(|one| one.is_field) {
        let (head, below) = match one.key.split_once('.') {
            Some((head, below)) => (head, Some(below)),
            None => (&*one.key, None),
        };
        let node = value(&one.text, mark).map_err(|(message, hint)| {
            EditMistake::new(format!("{}={}: {message}", one.key, one.text), hint)
        })?;
        let Some(below) = below else {
            whole.retain(|entry| entry.key != head);
            whole.push(Entry::made(head, mark, node));
            continue;
        };
        let mut parts = match whole.iter().find(|entry| entry.key == head) {
            Some(entry) => map_of(&entry.value),
            None => match fields::field(head) {
                // These merge with the source's key by key.
                Some(Field::Env | Field::Data) | None => Vec::new(),
                Some(field) => scope
                    .get(field)
                    .map_or_else(Vec::new, |given| map_of(&given.value)),
            },
        };
        parts.retain(|part| part.key != below);
        parts.push(Entry::made(below, mark, node));
        whole.retain(|entry| entry.key != head);
        whole.push(Entry::made(head, mark, Node::made(Kind::Map(parts), mark)));
    }
    Ok(whole)
}

fn map_of(node: &Node) -> Vec<Entry> {
    match &node.kind {
        Kind::Map(entries) => entries.clone(),
        Kind::Scalar { .. } | Kind::List(_) => Vec::new(),
    }
}

/// The typed text as YAML, where it is a list, a map, quoted or null; else as text.
fn value(text: &str, mark: Mark) -> Result<Rc<Node>, (String, String)> {
    let is_yaml = text.starts_with(['[', '{', '\'', '"']) || matches!(text, "null" | "~");
    let plain = || {
        let kind = Kind::Scalar {
            text: text.to_owned(),
            plain: true,
        };
        Rc::new(Node::made(kind, mark))
    };
    if is_yaml {
        Ok(parse::cell(text)?.unwrap_or_else(plain))
    } else {
        Ok(plain())
    }
}
