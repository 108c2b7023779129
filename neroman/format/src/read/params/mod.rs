//! Parameters and the values they run through.

pub(crate) mod combine;
pub(crate) mod range;
mod series;
pub(crate) mod tree;

use self::range::{Range, RangeError};
use self::series::Series;
use crate::definition::{Param, Value};
use crate::read::block::{NamedEntry, Scope};
use crate::read::parse::is_tuple;
use crate::read::reader::Reader;
use crate::read::scalar::typed;

use nero_model::safe::quoted;
use nero_yaml::{Entry, Kind, Mark, Node};
use std::rc::Rc;

/// A parameter with all its values.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) mark: Mark,
    values: Values,
    origin: AxisOrigin,
}

#[derive(Debug, Clone)]
enum Values {
    List(Vec<Param>),
    Range(Range),
    Series(Series),
    /// 1, 2, 3 … up to this.
    Counted(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AxisOrigin {
    Written,
    /// `repeat:` made it.
    Repeat,
    /// `repeat:` made it beside the other; the name of the experiment does not repeat it.
    Seed,
}

impl Axis {
    /// The parameter that counts repeats.
    pub(crate) fn repeat(name: &str, mark: Mark, count: u32) -> Self {
        Self {
            name: name.to_owned(),
            mark,
            values: Values::Counted(count),
            origin: AxisOrigin::Repeat,
        }
    }

    /// The parameter `seed` beside it.
    pub(crate) fn seed(mark: Mark, count: u32) -> Self {
        Self {
            origin: AxisOrigin::Seed,
            ..Self::repeat("seed", mark, count)
        }
    }

    /// Whether the file gives it values.
    pub(crate) fn is_written(&self) -> bool {
        self.origin == AxisOrigin::Written
    }

    /// Whether it is the seed that `repeat:` made.
    pub(crate) fn is_seed(&self) -> bool {
        self.origin == AxisOrigin::Seed
    }

    /// How many values there are; never none.
    pub(crate) fn count(&self) -> u128 {
        match &self.values {
            Values::List(list) => list.len() as u128,
            Values::Range(range) => range.count(),
            Values::Series(series) => u128::from(series.count()),
            Values::Counted(count) => u128::from(*count),
        }
    }

    /// The values that the file lists.
    pub(crate) fn listed(&self) -> &[Param] {
        match &self.values {
            Values::List(list) => list,
            Values::Range(_) | Values::Series(_) | Values::Counted(_) => &[],
        }
    }

    /// The parameter with one of its values.
    pub(crate) fn param(&self, index: u128) -> Param {
        let text = match &self.values {
            Values::List(list) => {
                return list[usize::try_from(index).unwrap_or(usize::MAX)].clone();
            }
            Values::Range(range) => range.text(index),
            Values::Series(series) => series.text(u32::try_from(index).unwrap_or(u32::MAX)),
            Values::Counted(_) => (index + 1).to_string(),
        };
        let value = typed(&text, true);
        Param::new(&*self.name, text, value)
    }
}

/// All parameters of a block in their order. One with a mistake keeps its place with
/// no more than one value, so that its name is still known to the command.
pub(crate) fn axes(reader: &mut Reader<'_>, scope: &Scope) -> Vec<Axis> {
    scope
        .params
        .iter()
        .map(|named| Axis {
            name: named.name.clone(),
            mark: named.key_mark,
            values: values(reader, named)
                .unwrap_or_else(|| Values::List(vec![Param::new(&*named.name, "", Value::Null)])),
            origin: AxisOrigin::Written,
        })
        .collect()
}

fn values(reader: &mut Reader<'_>, named: &NamedEntry) -> Option<Values> {
    if named.name.is_empty() || named.name.contains('\0') {
        reader.wrong(named.key_mark, "a parameter has no proper name", "");
    }
    reader.is_marked("`parameters`", &named.name, named.key_mark);
    let node = &*named.value;
    if drops_combinations(named) {
        reader.wrong(
            named.key_mark,
            "`exclude` stands beside `parameters`, not inside of it",
            "move it one level out: `exclude: ['x > 1']`",
        );
        return None;
    }
    match &node.kind {
        Kind::Scalar { .. } => Some(Values::List(vec![single(reader, &named.name, node)?])),
        Kind::List(items) if is_tuple(node) => range(reader, &named.name, node, items),
        Kind::List(items) => list(reader, &named.name, node, items),
        Kind::Map(entries) => generated(reader, named, entries),
    }
}

/// Whether this is `exclude: ['x > 1']`, and no parameter of that name.
fn drops_combinations(named: &NamedEntry) -> bool {
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

/// One value: a text, or a list or map of its own.
fn single(reader: &mut Reader<'_>, name: &str, node: &Node) -> Option<Param> {
    if let Kind::Scalar { text, plain } = &node.kind {
        let odd = reader.is_odd(&quoted(name), text, node.mark);
        return (!odd).then(|| Param::new(name, &**text, typed(text, *plain)));
    }
    let is_generator = match &node.kind {
        Kind::Map(entries) => entries.iter().any(|e| GENERATORS.contains(&&*e.key)),
        Kind::Scalar { .. } | Kind::List(_) => is_tuple(node),
    };
    if is_generator {
        let message = format!("{} holds several values inside of a list", quoted(name));
        reader.wrong(
            node.mark,
            message,
            "write them alone, without the list around them",
        );
        return None;
    }
    is_sound(reader, name, node).then(|| tree::param(reader, name, node))
}

/// Whether all texts of a list or map can be handed over.
fn is_sound(reader: &mut Reader<'_>, name: &str, node: &Node) -> bool {
    match &node.kind {
        Kind::Scalar { text, .. } => !reader.is_odd(&quoted(name), text, node.mark),
        Kind::List(items) => items.iter().all(|item| is_sound(reader, name, item)),
        Kind::Map(entries) => entries.iter().all(|entry| {
            !reader.is_odd(&quoted(name), &entry.key, entry.key_mark)
                && is_sound(reader, name, &entry.value)
        }),
    }
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
    let values = items.iter().filter_map(|item| single(reader, name, item));
    let values: Vec<_> = values.collect();
    (values.len() == items.len()).then_some(Values::List(values))
}

/// Ways to write the values of a parameter.
pub(crate) const GENERATORS: &[&str] = &["range", "linspace", "logspace", "sample"];
/// Words beside `sample`.
pub(crate) const SAMPLE: &[&str] = &["sample", "n", "log", "seed"];

/// `{range: […]}`, `{linspace: […]}`, `{logspace: […]}`, `{sample: […], n: 20}`.
fn generated(reader: &mut Reader<'_>, named: &NamedEntry, entries: &[Entry]) -> Option<Values> {
    let name = &named.name;
    let has = |word: &str| entries.iter().any(|entry| entry.key == word);
    if has("sample") {
        return sample(reader, named, entries);
    }
    if let [entry] = entries
        && GENERATORS.contains(&entry.key.as_str())
    {
        let Kind::List(items) = &entry.value.kind else {
            let (word, what) = (&entry.key, entry.value.describe());
            let message = format!("`{word}` takes a list, not {what}");
            reader.wrong(entry.value.mark, message, hint(word));
            return None;
        };
        return match entry.key.as_str() {
            "range" => range(reader, name, &entry.value, items),
            word => spaced(reader, name, word, &entry.value, items),
        };
    }
    let words = GENERATORS.iter().copied();
    let near = entries
        .first()
        .and_then(|e| nero_model::names::suggest(&e.key, words));
    let hint = match near {
        _ if has("zip") || has("exclude") => format!(
            "`zip: [{0}, y]` and `exclude: ['{0} > 1']` stand beside `parameters`",
            crate::definition::problem::printable(name)
        ),
        Some(word) if word != "range" || entries.len() == 1 => {
            format!("did you mean `{word}`?")
        }
        _ => "as one value it stands in a list, `[{…}]`; several are a list, or `{range: [start, end, step]}`, linspace, logspace, sample".to_owned(),
    };
    reader.wrong(named.value.mark, format!("{} is a map", quoted(name)), hint);
    None
}

/// What a way to write values looks like.
fn hint(word: &str) -> &'static str {
    match word {
        "linspace" => "write [first, last, how many]; both ends are values",
        "logspace" => {
            "write [first exponent, last exponent, how many]: [-4, -1, 4] is 1e-4, 1e-3, 1e-2, 1e-1"
        }
        "sample" => "for example `{sample: [1e-4, 1e-1], n: 20, log: true, seed: 1}`",
        _ => RANGE_HINT,
    }
}

/// `{linspace: [0, 1, 5]}`, `{logspace: [-4, -1, 4]}`.
fn spaced(
    reader: &mut Reader<'_>,
    name: &str,
    word: &str,
    node: &Node,
    items: &[Rc<Node>],
) -> Option<Values> {
    let [first, last, count] = items else {
        let message = format!(
            "`{word}` of {} takes three numbers, not {}",
            quoted(name),
            items.len()
        );
        reader.wrong(node.mark, message, hint(word));
        return None;
    };
    let first = end(reader, name, word, first);
    let last = end(reader, name, word, last);
    let count = how_many(reader, name, word, count);
    let (ends, count) = ([first?, last?], count?);
    if count > 1 && ends[0] == ends[1] {
        let message = format!(
            "`{word}` of {} begins and ends with the same value",
            quoted(name)
        );
        reader.wrong(node.mark, message, hint(word));
        return None;
    }
    if word == "linspace" {
        return Some(Values::Series(Series::Linear { ends, count }));
    }
    // 1e-4 as an exponent is 1.00023: what is meant is the value.
    let is_value = |x: &f64| *x > 0.0 && *x <= 0.1;
    if ends.iter().any(is_value) {
        let exponents = ends.map(|x| {
            if x > 0.0 {
                crate::read::params::range::shortest(x.log10())
            } else {
                "…".to_owned()
            }
        });
        let message = format!("`logspace` of {} takes exponents of ten", quoted(name));
        let hint = format!("write [{}, {count}]", exponents.join(", "));
        reader.wrong(node.mark, message, hint);
        return None;
    }
    if ends.iter().any(|x| x.abs() > 300.0) {
        let message = format!(
            "`logspace` of {} leads to numbers that are none",
            quoted(name)
        );
        reader.wrong(node.mark, message, hint(word));
        return None;
    }
    let exponents = ends;
    Some(Values::Series(Series::Powers { exponents, count }))
}

/// `{sample: [1e-4, 1e-1], n: 20, log: true, seed: 1}`.
fn sample(reader: &mut Reader<'_>, named: &NamedEntry, entries: &[Entry]) -> Option<Values> {
    let name = &named.name;
    let before = reader.count();
    let (mut ends, mut count, mut is_log, mut seed) = (None, None, false, 0);
    for entry in entries {
        let value = &entry.value;
        match (entry.key.as_str(), &value.kind) {
            ("sample", Kind::List(items)) if items.len() == 2 => {
                let low = end(reader, name, "sample", &items[0]);
                let high = end(reader, name, "sample", &items[1]);
                ends = low.zip(high).map(|(low, high)| [low, high]);
            }
            ("sample", _) => {
                let message = format!("`sample` of {} takes the two ends", quoted(name));
                reader.wrong(value.mark, message, hint("sample"));
            }
            ("n", _) => count = how_many(reader, name, "sample", value),
            ("log", _) => is_log = reader.boolean("log", value).unwrap_or(false),
            ("seed", _) => {
                let text = reader.single("seed", value).unwrap_or("0");
                match text.parse() {
                    Ok(number) => seed = number,
                    Err(_) => reader.wrong(
                        value.mark,
                        format!("`seed` is a whole number, not {}", quoted(text)),
                        hint("sample"),
                    ),
                }
            }
            _ => reader.unknown(entry, "is no part of `sample`", SAMPLE, &[]),
        }
    }
    if count.is_none() && entries.iter().all(|entry| entry.key != "n") {
        let message = format!("`sample` of {} has no `n`", quoted(name));
        reader.wrong(named.value.mark, message, hint("sample"));
    }
    let ends = ends?;
    let refused = match ends {
        [low, high] if low >= high => Some("the first end is not below the second"),
        [low, _] if is_log && low <= 0.0 => Some("a logarithmic scale begins above zero"),
        _ => None,
    };
    if let Some(why) = refused {
        let message = format!("`sample` of {}: {why}", quoted(name));
        reader.wrong(named.value.mark, message, hint("sample"));
    }
    let is_sound = reader.count() == before;
    let series = Series::sample(name, seed, ends, count?, is_log);
    is_sound.then_some(Values::Series(series))
}

/// An end of a series.
fn end(reader: &mut Reader<'_>, name: &str, word: &str, node: &Node) -> Option<f64> {
    let text = match &node.kind {
        Kind::Scalar { text, plain: true } => text,
        Kind::Scalar { .. } | Kind::List(_) | Kind::Map(_) => "",
    };
    let number = typed(text, true).number().filter(|x| x.is_finite());
    if number.is_none() {
        let message = format!("an element of `{word}` of {} is no number", quoted(name));
        reader.wrong(node.mark, message, hint(word));
    }
    number
}

/// How many values a series has.
fn how_many(reader: &mut Reader<'_>, name: &str, word: &str, node: &Node) -> Option<u32> {
    let text = node.scalar().unwrap_or("");
    let count = text.parse::<u32>().ok().filter(|count| *count > 0);
    if count.is_none() {
        let message = format!(
            "how many values `{word}` of {} has is a whole number from 1",
            quoted(name)
        );
        reader.wrong(node.mark, message, hint(word));
    }
    count
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
