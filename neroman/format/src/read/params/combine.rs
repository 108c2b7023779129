//! Which combinations of values become experiments: `zip`, `exclude`, `repeat`.

use super::Axis;
use crate::definition::{Param, Value};
use crate::read::block::Scope as Block;
use crate::read::fields::Field;
use crate::read::reader::Reader;
use nero_expr::{Bindings, Bound, Expr, ExprError, Fact, NameKind, ParseContext, Scope};
use nero_model::names::suggest;
use nero_model::safe::quoted;
use nero_yaml::{Kind, Mark, Node};

/// Most repeats of one combination.
const REPEATS_MAX: u32 = 100_000;

/// How the parameters of a block are combined.
#[derive(Debug, Default)]
pub(crate) struct Combine {
    /// Positions of parameters that run together; the last of these dimensions runs fastest.
    pub(crate) dimensions: Vec<Vec<usize>>,
    excludes: Vec<(Expr, Bindings)>,
}

/// Reads the fields, and adds the parameters `repeat` and `seed` to the others.
pub(crate) fn read(reader: &mut Reader<'_>, block: &Block, axes: &mut Vec<Axis>) -> Combine {
    if reader.is_table {
        let fields = [Field::Zip, Field::Exclude, Field::Repeat];
        for given in fields.into_iter().filter_map(|field| block.get(field)) {
            reader.wrong(
                given.key_mark,
                format!("`{}` does not go with a table", given.key),
                "each row of a table is one experiment",
            );
        }
    } else {
        repeat(reader, block, axes);
    }
    let groups = zip(reader, block, axes);
    let mut combine = Combine::default();
    for index in 0..axes.len() {
        match groups.iter().find(|group| group.contains(&index)) {
            Some(group) if group[0] == index => combine.dimensions.push(group.clone()),
            Some(_) => {}
            None => combine.dimensions.push(vec![index]),
        }
    }
    exclude(reader, block, axes, &mut combine);
    combine
}

impl Combine {
    /// The number of combinations, dropped ones included.
    pub(crate) fn count(&self, axes: &[Axis]) -> u128 {
        let lengths = self.dimensions.iter().map(|one| axes[one[0]].count());
        lengths.fold(1, |count, length| count.saturating_mul(length))
    }

    /// The parameters of a combination; `None`: it is excluded.
    pub(crate) fn element(&self, axes: &[Axis], mut index: u128) -> Option<Vec<Param>> {
        let mut at = vec![0; axes.len()];
        for dimension in self.dimensions.iter().rev() {
            let length = axes[dimension[0]].count();
            for one in dimension {
                at[*one] = index % length;
            }
            index /= length;
        }
        let params: Vec<Param> = axes.iter().zip(at).map(|(axis, i)| axis.param(i)).collect();
        let scope = Combination(&params);
        let is_dropped =
            |(expr, bindings): &(Expr, Bindings)| expr.eval(bindings, &scope).is_true();
        (!self.excludes.iter().any(is_dropped)).then_some(params)
    }
}

/// `repeat: 5`: the parameter `repeat` from 1 to 5, and a `seed` of the same number.
fn repeat(reader: &mut Reader<'_>, block: &Block, axes: &mut Vec<Axis>) {
    let Some(given) = block.get(Field::Repeat) else {
        return;
    };
    let Some(text) = reader.single(&given.key, &given.value) else {
        return;
    };
    let count = text.parse::<u32>().ok();
    let Some(count) = count.filter(|count| (1..=REPEATS_MAX).contains(count)) else {
        let message = format!("`repeat` takes a whole number from 1, not {}", quoted(text));
        reader.wrong(given.value.mark, message, "for example `repeat: 5`");
        return;
    };
    if let Some(axis) = axes.iter().find(|axis| axis.name == "repeat") {
        let message = "a parameter is called `repeat`, which `repeat:` makes itself";
        reader.wrong(axis.mark, message, "rename the parameter");
        return;
    }
    axes.push(Axis::repeat("repeat", given.key_mark, count));
    if axes.iter().all(|axis| axis.name != "seed") {
        axes.push(Axis::seed(given.key_mark, count));
    }
}

/// The groups of parameters that run together.
fn zip(reader: &mut Reader<'_>, block: &Block, axes: &[Axis]) -> Vec<Vec<usize>> {
    let mut groups = Vec::new();
    let seed = axes.iter().position(Axis::is_seed);
    groups.extend(seed.map(|seed| vec![seed - 1, seed]));
    let Some(given) = block.get(Field::Zip) else {
        return groups;
    };
    let wrong = |reader: &mut Reader<'_>, node: &Node| {
        reader.wrong(
            node.mark,
            format!("`zip` takes names of parameters, not {}", node.describe()),
            "`zip: [x, y]` beside `parameters: {x: [1, 2], y: [3, 4]}` makes two experiments",
        );
    };
    let Kind::List(items) = &given.value.kind else {
        wrong(reader, &given.value);
        return groups;
    };
    let is_list = |node: &Node| matches!(node.kind, Kind::List(_));
    let several = items.iter().any(|item| is_list(item));
    let lists = if several {
        items.iter().map(|item| &**item).collect()
    } else {
        vec![&*given.value]
    };
    for list in lists {
        match &list.kind {
            Kind::List(names) => {
                let group = names.iter().filter_map(|name| member(reader, axes, name));
                let group: Vec<(usize, Mark)> = group.collect();
                groups.extend(checked(reader, axes, &groups, &group));
            }
            Kind::Scalar { .. } | Kind::Map(_) => wrong(reader, list),
        }
    }
    groups
}

/// The parameter that a name in `zip` means.
fn member(reader: &mut Reader<'_>, axes: &[Axis], node: &Node) -> Option<(usize, Mark)> {
    let name = reader.single("zip", node)?;
    let found = axes.iter().position(|axis| axis.name == name);
    if found.is_none() {
        let near = suggest(name, axes.iter().map(|axis| axis.name.as_str()));
        let hint = match near {
            Some(near) => format!("did you mean {}?", quoted(near)),
            None => format!(
                "give it values: `parameters: {{{}: [1, 2]}}`",
                crate::definition::problem::printable(name)
            ),
        };
        reader.wrong(
            node.mark,
            format!("{} of `zip` is no parameter", quoted(name)),
            hint,
        );
    }
    found.map(|index| (index, node.mark))
}

/// The group without parameters of one value, when all others have as many as each other.
fn checked(
    reader: &mut Reader<'_>,
    axes: &[Axis],
    groups: &[Vec<usize>],
    group: &[(usize, Mark)],
) -> Option<Vec<usize>> {
    let mut members: Vec<usize> = Vec::new();
    for &(index, mark) in group {
        let axis = &axes[index];
        if members.contains(&index) || groups.iter().any(|other| other.contains(&index)) {
            reader.wrong(
                mark,
                format!("{} is in `zip` twice", quoted(&axis.name)),
                "",
            );
            return None;
        }
        // An inner block that gives a single value takes the parameter out of the group.
        if axis.count() == 1 {
            continue;
        }
        if let Some(first) = members.first()
            && axes[*first].count() != axis.count()
        {
            let (first, other) = (&axes[*first], axis);
            let message = format!(
                "{} has {} values and {} has {}",
                quoted(&first.name),
                first.count(),
                quoted(&other.name),
                other.count()
            );
            reader.wrong(mark, message, "what `zip` pairs has as many values each");
            return None;
        }
        members.push(index);
    }
    members.sort_unstable();
    (members.len() > 1).then_some(members)
}

/// `exclude: ['lr > 0.1 && layers == 4']`.
fn exclude(reader: &mut Reader<'_>, block: &Block, axes: &[Axis], combine: &mut Combine) {
    let Some(given) = block.get(Field::Exclude) else {
        return;
    };
    let params: Vec<Param> = axes.iter().map(|axis| axis.param(0)).collect();
    let context = ParseContext {
        standing: false,
        ..reader.context.clone()
    };
    for (text, node) in reader.several(&given.key, &given.value) {
        match condition(text, &context, &params) {
            Ok(one) => {
                let mark = |error: &ExprError| reader.text.mark_inside(node, error.span.start);
                let kinds = Kinds::of(&one, axes);
                for error in kinds.never {
                    let place = mark(&error);
                    reader.wrong(place, error.message, error.hint.unwrap_or_default());
                }
                for error in kinds.sometimes {
                    let note = format!(
                        "{}: the condition leaves such a combination in",
                        error.message
                    );
                    reader.note(Some(mark(&error)), note);
                }
                combine.excludes.push(one);
            }
            Err(error) => {
                let mark = reader.text.mark_inside(node, error.span.start);
                reader.wrong(mark, error.message, error.hint.unwrap_or_default());
            }
        }
    }
}

/// Comparisons of parameters with values of another kind.
#[derive(Default)]
struct Kinds {
    /// Those of every value.
    never: Vec<ExprError>,
    /// Those of some values.
    sometimes: Vec<ExprError>,
}

/// Most values that a parameter is looked at for its kinds.
const KINDS_MAX: u128 = 1000;

impl Kinds {
    fn of((expr, bindings): &(Expr, Bindings), axes: &[Axis]) -> Self {
        let count = axes.iter().map(Axis::count).max().unwrap_or(1);
        let count = count.min(KINDS_MAX);
        let mut found: Vec<(ExprError, u128)> = Vec::new();
        for index in 0..count {
            // Each value of each parameter stands in one of these.
            let params = axes.iter().map(|axis| axis.param(index % axis.count()));
            let params: Vec<Param> = params.collect();
            for error in expr.incomparable(bindings, &Combination(&params)) {
                match found.iter_mut().find(|(known, _)| known.span == error.span) {
                    Some((_, times)) => *times += 1,
                    None => found.push((error, 1)),
                }
            }
        }
        let (never, sometimes) = found
            .into_iter()
            .partition::<Vec<_>, _>(|(_, times)| *times >= count);
        let errors =
            |those: Vec<(ExprError, u128)>| those.into_iter().map(|(error, _)| error).collect();
        Self {
            never: errors(never),
            sometimes: errors(sometimes),
        }
    }
}

fn condition(
    text: &str,
    context: &ParseContext,
    params: &[Param],
) -> Result<(Expr, Bindings), ExprError> {
    let expr = Expr::parse(text, context)?;
    let bindings = expr.bind(&Combination(params))?;
    let names = expr.unbound_names();
    let loose = (0..names.len()).find_map(|slot| match bindings.get(slot) {
        Some(Bound::Fact(fact)) => Some(*fact),
        Some(Bound::Param(_) | Bound::Metric(_)) | None => None,
    });
    let fact = expr.facts().iter().next().or(loose);
    let is_value = matches!(
        expr.value(&bindings, &Combination(params)),
        nero_expr::Value::Number(..) | nero_expr::Value::Text(_)
    );
    match fact {
        None if is_value => {
            let span = nero_expr::Span::new(0, text.len());
            let message = format!("{} is a value and no condition", quoted(text));
            let error = ExprError::new(nero_expr::ErrorKind::Kind, span, message);
            Err(error.hint("compare it: `exclude: ['x > 1']`"))
        }
        None => Ok((expr, bindings)),
        Some(fact) => {
            let word = fact.as_str();
            let span = nero_expr::Span::new(text.find(word).unwrap_or(0), text.len());
            let message = format!("`exclude` compares parameters, and `{word}` belongs to a run");
            let error = ExprError::new(nero_expr::ErrorKind::Name, span, message);
            Err(error.hint(format!("a parameter of that name is `param.{word}`")))
        }
    }
}

/// One combination, for expressions over its parameters.
struct Combination<'a>(&'a [Param]);

impl Scope for Combination<'_> {
    fn now_ms(&self) -> i64 {
        0
    }

    fn fact(&self, _fact: Fact) -> nero_expr::Value<'_> {
        nero_expr::Value::Unknown
    }

    fn param(&self, name: &str) -> nero_expr::Value<'_> {
        let Some(param) = self.0.iter().find(|param| param.name == name) else {
            return nero_expr::Value::Unknown;
        };
        match &param.value {
            Value::Null => nero_expr::Value::Unknown,
            Value::Bool(truth) => nero_expr::Value::Bool(*truth, Some(&param.text)),
            Value::Int(number) => nero_expr::Value::Number(*number as f64, Some(&param.text)),
            Value::Float(number) => nero_expr::Value::Number(*number, Some(&param.text)),
            Value::Text(_) => nero_expr::Value::Text(&param.text),
        }
    }

    fn metric(&self, _name: &str) -> Option<f64> {
        None
    }

    fn visit_names(&self, visit: &mut dyn FnMut(NameKind, &str)) {
        for param in self.0 {
            visit(NameKind::Param, &param.name);
        }
    }
}
