//! The matrix of `parameters.yml`: names in the order of the file, each with its values.

use std::rc::Rc;

use nero_format::python::{Object, Plain, float_text, list_text, resolve};
use nero_format::{EXPERIMENTS_MAX, Range, RangeError};
use nero_model::safe::quoted;
use nero_yaml::{Fields, Kind, Limits, Mark, MistakeKind, Mistakes, Node, Wrong};

/// What a file may hold: more than people write.
const LIMITS: Limits = Limits {
    depth: 64,
    key_chars: 8192,
    values: 1_000_000,
    repeated: 250_000,
};

/// The tag of an interval.
const TUPLE: &str = "!!python/tuple";
const INTERVAL: &str = "write `!!python/tuple [start, end, step]`; the end is not part of it";

/// A row of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name: behind two dashes it is the argument.
    pub name: String,
    /// Where it stands.
    pub place: Mark,
    /// What it runs through.
    pub values: Values,
}

/// The values of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// A single one.
    One(ParameterValue),
    /// One after another; never none, and none twice.
    List(Vec<ParameterValue>),
    /// Whole numbers: start, end, which is not part of it, and step.
    Range([String; 3]),
    /// True: the name alone is handed over; false: nothing.
    Flag(bool),
    /// It has no value, and is not handed over.
    Nothing,
    /// A map, which is no parameter there.
    Map,
}

/// A value that reaches the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterValue {
    /// The argument.
    pub text: String,
    /// Whether it is a number.
    pub is_number: bool,
}

/// Reads a `parameters.yml`.
///
/// # Errors
/// All mistakes, each with its place.
pub fn parameters(text: &str) -> Result<Vec<Parameter>, Mistakes> {
    let mut fields = Fields::default();
    let mut report = |wrong: Wrong| match &wrong.what {
        MistakeKind::Tag { tag, on_list: true } if **tag == *TUPLE => {}
        MistakeKind::Tag { tag, .. } => {
            let message = format!("the tag {} is not read", quoted(tag));
            fields.wrong(wrong.mark, message, INTERVAL);
        }
        _ => fields.add(wrong.into()),
    };
    let root = nero_yaml::parse(text, &LIMITS, &mut report);
    let mut found = Vec::new();
    match root {
        Err(wrong) => fields.add(wrong.into()),
        Ok(None) => {}
        Ok(Some(root)) => match &root.kind {
            Kind::Map(entries) => {
                for entry in entries {
                    let Some(values) = values(&mut fields, &entry.key, &entry.value) else {
                        continue;
                    };
                    found.push(Parameter {
                        name: entry.key.clone(),
                        place: entry.key_mark,
                        values,
                    });
                }
            }
            Kind::Scalar { .. } | Kind::List(_) if root.is_null() => {}
            Kind::Scalar { .. } | Kind::List(_) => {
                let message = format!("the file is {}, not a map of parameters", root.describe());
                fields.wrong(root.mark, message, "write `name: values`, one a line");
            }
        },
    }
    fields.finish()?;
    Ok(found)
}

fn values(fields: &mut Fields, name: &str, node: &Rc<Node>) -> Option<Values> {
    match &node.kind {
        Kind::Scalar { .. } => match object(fields, node)? {
            Object::Bool(is_set) => Some(Values::Flag(is_set)),
            Object::Null => Some(Values::Nothing),
            object => Some(Values::One(value(&object))),
        },
        Kind::List(items) if node.tag.is_some() => interval(fields, name, node, items),
        Kind::List(items) => list(fields, name, node, items),
        Kind::Map(_) => Some(Values::Map),
    }
}

/// What PyYAML reads: within a list also true, false and nothing are values.
fn object(fields: &mut Fields, node: &Node) -> Option<Object> {
    let (text, plain) = match &node.kind {
        Kind::Scalar { text, plain } => (text, *plain),
        Kind::List(_) | Kind::Map(_) => return Some(Object::Text(repr(fields, node)?)),
    };
    if !plain {
        return Some(Object::Text(text.clone()));
    }
    match resolve(text) {
        Plain::Read(object) => Some(object),
        Plain::Impossible | Plain::Sign => {
            let message = format!("{} is no value", quoted(text));
            fields.wrong(node.mark, message, "quote it if it is text");
            None
        }
    }
}

fn value(object: &Object) -> ParameterValue {
    let text = object.text();
    let is_number = match object {
        Object::Int(_) | Object::Float(_) => true,
        // `1e-3` is text for PyYAML, and the same argument.
        Object::Text(text) => nero_yaml::number(text).is_some(),
        Object::Null | Object::Bool(_) | Object::Time(_) | Object::List(_) | Object::Map(_) => {
            false
        }
    };
    ParameterValue { text, is_number }
}

/// Python's text of a list or a map in a list, which is one value.
fn repr(fields: &mut Fields, node: &Node) -> Option<String> {
    let parts = |fields: &mut Fields, items: &[Rc<Node>]| {
        let parts: Option<Vec<String>> = items.iter().map(|item| repr(fields, item)).collect();
        parts.map(|parts| parts.join(", "))
    };
    match &node.kind {
        Kind::Scalar { .. } => Some(match object(fields, node)? {
            Object::Text(text) => {
                let list = list_text(&[text]);
                list[1..list.len() - 1].to_owned()
            }
            object => object.text(),
        }),
        Kind::List(_) if node.tag.is_some() => {
            let message = "an interval stands within a list";
            fields.wrong(
                node.mark,
                message,
                "write it alone, without the list around it",
            );
            None
        }
        Kind::List(items) => Some(format!("[{}]", parts(fields, items)?)),
        Kind::Map(entries) => {
            let mut pairs = Vec::new();
            for entry in entries {
                let key = list_text(std::slice::from_ref(&entry.key));
                let value = repr(fields, &entry.value)?;
                pairs.push(format!("{}: {value}", &key[1..key.len() - 1]));
            }
            Some(format!("{{{}}}", pairs.join(", ")))
        }
    }
}

fn list(fields: &mut Fields, name: &str, node: &Node, items: &[Rc<Node>]) -> Option<Values> {
    if items.is_empty() {
        let message = format!("{} has an empty list, which makes no task", quoted(name));
        fields.wrong(node.mark, message, "give it values, or take it out");
        return None;
    }
    let mut values: Vec<ParameterValue> = Vec::with_capacity(items.len());
    let mut seen = std::collections::HashSet::new();
    for item in items {
        let value = value(&object(fields, item)?);
        if !seen.insert(value.text.clone()) {
            let message = format!("{} has {} twice", quoted(name), quoted(&value.text));
            let hint = "take one out; `repeat: 2` in neronet.yaml runs each twice";
            fields.wrong(item.mark, message, hint);
            return None;
        }
        values.push(value);
    }
    Some(Values::List(values))
}

/// `[start, end)` in steps, of decimal numbers without the noise of sums of floats.
fn interval(fields: &mut Fields, name: &str, node: &Node, items: &[Rc<Node>]) -> Option<Values> {
    let whole = format!("the interval of {}", quoted(name));
    if !(2..=3).contains(&items.len()) {
        let message = format!("{whole} takes two or three numbers, not {}", items.len());
        fields.wrong(node.mark, message, INTERVAL);
        return None;
    }
    let mut written = ["0".to_owned(), "0".to_owned(), "1".to_owned()];
    let mut is_whole = true;
    for (place, item) in written.iter_mut().zip(items) {
        match object(fields, item)? {
            Object::Int(digits) => *place = digits,
            Object::Float(number) => {
                is_whole = false;
                *place = float_text(number);
            }
            _ => {
                let message = format!("an element of {whole} is no number");
                fields.wrong(item.mark, message, INTERVAL);
                return None;
            }
        }
    }
    let range = match Range::new([&written[0], &written[1], &written[2]]) {
        Ok(range) => range,
        Err(error) => {
            let why = match error {
                RangeError::NoStep | RangeError::Empty => "has no value",
                RangeError::NotANumber(_) | RangeError::TooFarApart => {
                    "has numbers that are too far apart to be exact"
                }
            };
            fields.wrong(node.mark, format!("{whole} {why}"), INTERVAL);
            return None;
        }
    };
    let count = range.count();
    if count > u128::from(EXPERIMENTS_MAX) {
        let message = format!("{whole} has {count} values");
        let hint = format!("one file makes at most {EXPERIMENTS_MAX} experiments");
        fields.wrong(node.mark, message, hint);
        return None;
    }
    if is_whole {
        return Some(Values::Range(written));
    }
    // Where one number has a point, all have one: 1.0, 1.5, 2.0.
    let float = |index| float_text(range.text(index).parse().unwrap_or(f64::NAN));
    let values = (0..count).map(|index| ParameterValue {
        text: float(index),
        is_number: true,
    });
    Some(Values::List(values.collect()))
}
