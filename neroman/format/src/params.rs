//! Parameters and the values they run through.

use crate::block::{Named, Scope};
use crate::definition::{NotBuilt, Param, Value};
use crate::fields::GENERATORS_LATER;
use crate::parse::is_tuple;
use crate::range::{Range, RangeError};
use crate::reader::Reader;
use crate::scalar::typed;
use nero_model::safe::quoted;
use nero_yaml::{Entry, Kind, Mark, Node};
use std::rc::Rc;

/// A parameter with all its values.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) mark: Mark,
    values: Values,
}

#[derive(Debug, Clone)]
enum Values {
    List(Vec<(String, Value)>),
    Range(Range),
}

impl Axis {
    /// How many values there are; never none.
    pub(crate) fn count(&self) -> u128 {
        match &self.values {
            Values::List(list) => list.len() as u128,
            Values::Range(range) => range.count(),
        }
    }

    /// The parameter with one of its values.
    pub(crate) fn param(&self, index: u128) -> Param {
        let (text, value) = match &self.values {
            Values::List(list) => list[usize::try_from(index).unwrap_or(usize::MAX)].clone(),
            Values::Range(range) => {
                let text = range.text(index);
                let value = typed(&text, true);
                (text, value)
            }
        };
        Param {
            name: self.name.clone(),
            text,
            value,
        }
    }
}

/// All parameters of a block in their order. One with a mistake keeps its place with
/// no more than one value, so that its name is still known to the command.
pub(crate) fn axes(
    reader: &mut Reader<'_>,
    scope: &Scope,
    not_built: &mut Vec<NotBuilt>,
) -> Vec<Axis> {
    scope
        .params
        .iter()
        .map(|named| Axis {
            name: named.name.clone(),
            mark: named.key_mark,
            values: values(reader, named, not_built)
                .unwrap_or_else(|| Values::List(vec![(String::new(), Value::Null)])),
        })
        .collect()
}

fn values(reader: &mut Reader<'_>, named: &Named, not_built: &mut Vec<NotBuilt>) -> Option<Values> {
    if named.name.is_empty() || named.name.contains('\0') {
        reader.wrong(named.key_mark, "a parameter has no proper name", "");
    }
    reader.is_marked("`parameters`", &named.name, named.key_mark);
    let node = &*named.value;
    if drops_combinations(named) {
        reader.not_built(not_built, "parameters.exclude", named.key_mark);
        return None;
    }
    match &node.kind {
        Kind::Scalar { .. } => Some(Values::List(vec![scalar(reader, &named.name, node)?])),
        Kind::List(items) if is_tuple(node) => range(reader, &named.name, node, items),
        Kind::List(items) => list(reader, &named.name, node, items),
        Kind::Map(entries) => generated(reader, named, entries, not_built),
    }
}

/// Whether this is `exclude: ['x > 1']`, and no parameter of that name.
fn drops_combinations(named: &Named) -> bool {
    let compares = |item: &Rc<Node>| {
        let text = item.scalar();
        text.is_some_and(|text| text.contains(['<', '>', '=']))
    };
    match &named.value.kind {
        Kind::List(items) => {
            named.name == "exclude" && !items.is_empty() && items.iter().all(compares)
        }
        Kind::Scalar { .. } | Kind::Map(_) => false,
    }
}

fn scalar(reader: &mut Reader<'_>, name: &str, node: &Node) -> Option<(String, Value)> {
    let Kind::Scalar { text, plain } = &node.kind else {
        reader.wrong(
            node.mark,
            format!(
                "{} holds {} inside of a list",
                quoted(name),
                node.describe()
            ),
            "each element of a list makes one experiment; quote it if it is one text: '[1, 2]'",
        );
        return None;
    };
    let odd = reader.is_odd(&quoted(name), text, node.mark);
    (!odd).then(|| (text.clone(), typed(text, *plain)))
}

fn list(reader: &mut Reader<'_>, name: &str, node: &Node, items: &[Rc<Node>]) -> Option<Values> {
    if items.is_empty() {
        reader.wrong(
            node.mark,
            format!(
                "{} has an empty list, which makes no experiment",
                quoted(name)
            ),
            "give it values, or null to take it away",
        );
        return None;
    }
    let values: Vec<_> = items
        .iter()
        .filter_map(|item| scalar(reader, name, item))
        .collect();
    (values.len() == items.len()).then_some(Values::List(values))
}

/// `{range: […]}`, or a way that is not built yet.
fn generated(
    reader: &mut Reader<'_>,
    named: &Named,
    entries: &[Entry],
    not_built: &mut Vec<NotBuilt>,
) -> Option<Values> {
    let name = &named.name;
    if let Some(entry) = entries
        .iter()
        .find(|e| GENERATORS_LATER.contains(&e.key.as_str()))
    {
        reader.not_built(
            not_built,
            &format!("parameters.{name}.{}", entry.key),
            entry.key_mark,
        );
        let written = named.value.written(&reader.text.text).to_owned();
        return Some(Values::List(vec![(written.clone(), Value::Text(written))]));
    }
    match entries {
        [entry] if entry.key == "range" => match &entry.value.kind {
            Kind::List(items) => range(reader, name, &entry.value, items),
            Kind::Scalar { .. } | Kind::Map(_) => {
                let message = format!("a range takes a list, not {}", entry.value.describe());
                reader.wrong(entry.value.mark, message, RANGE_HINT);
                None
            }
        },
        _ => {
            let words = ["range"]
                .into_iter()
                .chain(GENERATORS_LATER.iter().copied());
            let near = entries
                .first()
                .and_then(|e| nero_model::names::suggest(&e.key, words));
            let hint = match near {
                Some(word) if word != "range" || entries.len() == 1 => {
                    format!("did you mean `{word}`?")
                }
                _ => "values are single, a list, or `{range: [start, end, step]}`".to_owned(),
            };
            reader.wrong(named.value.mark, format!("{} is a map", quoted(name)), hint);
            None
        }
    }
}

const RANGE_HINT: &str = "write [start, end, step]; the end is not part of it";

fn range(reader: &mut Reader<'_>, name: &str, node: &Node, items: &[Rc<Node>]) -> Option<Values> {
    let mut written = ["0", "0", "1"];
    if !(2..=3).contains(&items.len()) {
        let message = format!(
            "the range of {} takes two or three numbers, not {}",
            quoted(name),
            items.len()
        );
        reader.wrong(node.mark, message, RANGE_HINT);
        return None;
    }
    for (place, item) in written.iter_mut().zip(items) {
        match &item.kind {
            Kind::Scalar { text, plain: true } => *place = text,
            Kind::Scalar { .. } | Kind::List(_) | Kind::Map(_) => *place = "",
        }
    }
    let whole = format!("the range of {}", quoted(name));
    let (mark, message, hint) = match Range::new(written) {
        Ok(range) => return Some(Values::Range(range)),
        Err(RangeError::NotANumber(index)) => (
            items.get(index).map_or(node.mark, |item| item.mark),
            format!("an element of {whole} is no decimal number"),
            RANGE_HINT,
        ),
        Err(RangeError::NoStep) => (
            items[2].mark,
            format!("the step of {} is zero", quoted(name)),
            "a step leads somewhere",
        ),
        Err(RangeError::Empty) => (
            node.mark,
            format!("{whole} has no element"),
            "the step leads from the start towards the end, which is not part of it",
        ),
        Err(RangeError::TooFarApart) => (
            node.mark,
            format!("{whole} has numbers too far apart to be exact"),
            "write the values as a list",
        ),
    };
    reader.wrong(mark, message, hint);
    None
}
