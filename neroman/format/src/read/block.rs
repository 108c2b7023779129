//! Blocks and what they inherit.
//!
//! An outer block's fields hold for the inner ones until these give their own;
//! `parameters`, `env`, `data` and `probes` merge key by key, and an explicit null removes. What an
//! inner block replaces keeps its position, so that the order of parameters (and with
//! it the order of experiments) is the order in which they were first written.

use super::fields::{self, Field};
use super::reader::Reader;
use nero_model::safe::quoted;
use nero_yaml::{Entry, Kind, Mark, Node};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// An example of `probes`.
pub(crate) const PROBE_EXAMPLE: &str =
    "for example `probes: {has_env: 'test -d ~/env && echo yes || echo no'}`";

/// A field as the nearest block gives it.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// The key as it was written.
    pub(crate) key: String,
    pub(crate) key_mark: Mark,
    pub(crate) value: Rc<Node>,
    /// How deep the block is that gives it.
    pub(crate) depth: usize,
}

/// A key of `parameters`, `env`, `data` or `probes`.
#[derive(Debug, Clone)]
pub(crate) struct NamedEntry {
    pub(crate) name: String,
    pub(crate) key_mark: Mark,
    pub(crate) value: Rc<Node>,
}

/// Everything that holds in a block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    pub(crate) fields: BTreeMap<Field, Setting>,
    pub(crate) params: Vec<NamedEntry>,
    pub(crate) env: Vec<NamedEntry>,
    pub(crate) data: Vec<NamedEntry>,
    pub(crate) probes: Vec<NamedEntry>,
    pub(crate) depth: usize,
}

impl Scope {
    pub(crate) fn get(&self, field: Field) -> Option<&Setting> {
        self.fields.get(&field)
    }
}

/// An inner block: its name without the `+`, and its body.
pub(crate) struct Child<'a> {
    pub(crate) name: &'a str,
    pub(crate) entry: &'a Entry,
}

/// Puts a block's own fields over what it inherits, and answers its inner blocks.
pub(crate) fn enter<'a>(
    reader: &mut Reader<'_>,
    outer: &Scope,
    entries: &'a [Entry],
) -> (Scope, Vec<Child<'a>>) {
    let mut scope = outer.clone();
    scope.depth += 1;
    let mut children = Vec::new();
    for entry in entries {
        if let Some(name) = entry.key.strip_prefix('+') {
            // `+ fit` is typed for `+fit`; a blank at either end is seen by no eye.
            let name = name.trim();
            children.push(Child { name, entry });
            continue;
        }
        let Some(field) =
            fields::field(&entry.key).or_else(|| recovered(reader, &scope, entries, entry))
        else {
            continue;
        };
        match field {
            Field::Parameters => merge(reader, entry, &mut scope.params, NullMeans::Remove),
            Field::Env => merge(reader, entry, &mut scope.env, NullMeans::Keep),
            Field::Data => merge(reader, entry, &mut scope.data, NullMeans::Remove),
            Field::Probes => merge(reader, entry, &mut scope.probes, NullMeans::Remove),
            Field::Parent => {}
            field => replace(reader, entry, field, &mut scope),
        }
    }
    (scope, children)
}

/// Reports a key that is no field, and goes on as if the field that it resembles had
/// been written: a misspelt `command` is one mistake, not two.
fn recovered(
    reader: &mut Reader<'_>,
    scope: &Scope,
    entries: &[Entry],
    entry: &Entry,
) -> Option<Field> {
    let is_map = matches!(entry.value.kind, Kind::Map(_));
    reader.wrong(
        entry.key_mark,
        format!("{} is no field of an experiment", quoted(&entry.key)),
        fields::field_hint(&entry.key, is_map),
    );
    let field = fields::suggested(&entry.key).and_then(fields::field)?;
    let beside = |other: &Entry| fields::field(&other.key) == Some(field);
    let before = scope
        .get(field)
        .is_some_and(|given| given.depth == scope.depth);
    (!before && !entries.iter().any(beside)).then_some(field)
}

/// What a null inside a merged map does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NullMeans {
    /// The key is gone.
    Remove,
    /// The key stays: it unsets a variable.
    Keep,
}

fn merge(reader: &mut Reader<'_>, entry: &Entry, into: &mut Vec<NamedEntry>, null: NullMeans) {
    if entry.value.is_null() {
        into.clear();
        return;
    }
    let Kind::Map(entries) = &entry.value.kind else {
        reader.wrong(
            entry.value.mark,
            format!(
                "`{}` takes a map, not {}",
                entry.key,
                entry.value.describe()
            ),
            match entry.key.as_str() {
                "data" => "for example `data: {corpus: {triton: $WRKDIR/corpus}}`".to_owned(),
                "probes" => PROBE_EXAMPLE.to_owned(),
                key => format!("for example `{key}: {{x: 1, y: 2}}`"),
            },
        );
        return;
    };
    let mut known: HashMap<String, usize> = into
        .iter()
        .enumerate()
        .map(|(index, named)| (named.name.clone(), index))
        .collect();
    let mut removed = HashSet::new();
    for Entry {
        key,
        key_mark,
        value,
        ..
    } in entries
    {
        let place = known.get(key).copied();
        if value.is_null() && null == NullMeans::Remove {
            if place.is_none() && key.bytes().all(|byte| byte.is_ascii_digit()) {
                // Within braces YAML takes `lr: 0,25` for `lr: 0` and another key.
                reader.wrong(
                    *key_mark,
                    format!("the comma before {} ends the value before it", quoted(key)),
                    "a number has a point: 0.25; a text with a comma stands in quotes: '0,25'",
                );
            }
            removed.extend(place);
            continue;
        }
        let named = NamedEntry {
            name: key.clone(),
            key_mark: *key_mark,
            value: Rc::clone(value),
        };
        match place {
            Some(index) => into[index] = named,
            None => {
                known.insert(key.clone(), into.len());
                into.push(named);
            }
        }
    }
    let mut index = 0;
    into.retain(|_| {
        index += 1;
        !removed.contains(&(index - 1))
    });
}

fn replace(reader: &mut Reader<'_>, entry: &Entry, field: Field, scope: &mut Scope) {
    let before = scope.fields.get(&field);
    if let Some(other) = before.filter(|given| given.depth == scope.depth) {
        // Two names of one field; the same name twice was found before.
        let hint = format!(
            "`{}` in {} means the same",
            other.key,
            reader.text.beside(other.key_mark)
        );
        reader.wrong(
            entry.key_mark,
            format!("`{}` is given twice", fields::field_name(field)),
            hint,
        );
        return;
    }
    if entry.value.is_null() {
        scope.fields.remove(&field);
        return;
    }
    let given = Setting {
        key: entry.key.clone(),
        key_mark: entry.key_mark,
        value: Rc::clone(&entry.value),
        depth: scope.depth,
    };
    scope.fields.insert(field, given);
}

/// Whether `data` has this name.
pub(crate) fn is_data(scope: &Scope, name: &str) -> bool {
    scope.data.iter().any(|named| named.name == name)
}

/// What to do about a name that `data` does not have.
pub(crate) fn data_hint(scope: &Scope, name: &str) -> String {
    let known = || scope.data.iter().map(|named| named.name.as_str());
    if let Some(near) = nero_model::names::suggest(name, known().take(1000)) {
        return format!("did you mean {}?", quoted(&format!("data.{near}")));
    }
    match known().next() {
        None => "say where it lies: `data: {corpus: {triton: $WRKDIR/corpus}}`".to_owned(),
        Some(_) => {
            let known: Vec<String> = known().take(8).map(quoted).collect();
            format!("`data` has {}", known.join(", "))
        }
    }
}

impl Reader<'_> {
    /// What holds before the first field of the file.
    pub(crate) fn base(&mut self) -> Scope {
        let mut scope = Scope::default();
        for entries in std::mem::take(&mut self.beneath) {
            (scope, _) = enter(self, &scope, &entries);
        }
        scope
    }
}
