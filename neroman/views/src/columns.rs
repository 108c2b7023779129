//! Columns of experiments: what `--columns` and `--sort` name, and which ones a
//! table shows by itself.

use std::cmp::Ordering;

use nero_expr::{FactKind, NOT_BUILT};
use nero_model::sets::meant;
use nero_wire::v1::{ExperimentView, MetricSummary, Param};

use crate::json::parameter;
use crate::{Fact, Value, csv, fact, text};

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// A fact that every experiment has.
    Fact(Fact),
    /// A parameter.
    Param(String),
    /// The latest value of a metric.
    Metric(String),
    /// A fact of expressions that views hold when it is asked for
    /// ([`asked_facts`]).
    Asked(nero_expr::Fact),
    /// An expression whose value they hold then.
    Expression(String),
}

/// A name that no column has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoColumn {
    /// A fact of the design that is not there yet.
    #[error("the column `{0}` is not built yet")]
    NotBuilt(String),
    /// No fact, parameter or metric.
    #[error("there is no column `{name}`")]
    Unknown {
        /// The name.
        name: String,
        /// The column that was perhaps meant.
        near: Option<String>,
        /// All names.
        there: Vec<String>,
    },
}

impl Column {
    /// The name, as in a header.
    pub fn name(&self) -> String {
        match self {
            Self::Fact(fact) => fact.name().to_owned(),
            Self::Param(name) | Self::Metric(name) | Self::Expression(name) => name.clone(),
            Self::Asked(fact) => fact.as_str().to_owned(),
        }
    }

    /// The expression that has its value, by which a daemon sorts; `None` where there is none.
    pub fn expression(&self) -> Option<String> {
        let named = |kind: &str, name: &str| format!("{kind}('{}')", name.replace('\'', "''"));
        match self {
            Self::Fact(fact) => {
                nero_expr::Fact::from_word(fact.name()).map(|fact| fact.as_str().to_owned())
            }
            Self::Param(name) => Some(named("param", name)),
            Self::Metric(name) => Some(named("metric", name)),
            Self::Asked(fact) => Some(fact.as_str().to_owned()),
            Self::Expression(text) => Some(text.clone()),
        }
    }

    /// The value that an experiment has.
    pub fn value<'a>(&self, view: &'a ExperimentView) -> Value<'a> {
        match self {
            Self::Fact(fact) => fact.value(view),
            Self::Param(name) => param(view, name).map_or(Value::Unknown, Value::Param),
            Self::Metric(name) => {
                metric(view, name).map_or(Value::Unknown, |metric| Value::Number(metric.last))
            }
            Self::Asked(fact) => fact::asked(view, *fact),
            Self::Expression(text) => fact::held(view, text),
        }
    }

    /// The text for people, not yet safe. Old figures stand in brackets.
    pub fn text(&self, view: &ExperimentView) -> String {
        let value = self.value(view);
        text::marked(&value.text(), value.is_measured() && view.as_of_ms != 0)
    }

    /// The name in a CSV header, with the unit.
    pub fn csv_name(&self, all: &[Self]) -> String {
        match self {
            Self::Fact(fact) => fact.csv_name().to_owned(),
            Self::Asked(fact) => match fact.kind() {
                FactKind::Seconds => format!("{}_s", fact.as_str()),
                FactKind::Bytes => format!("{}_bytes", fact.as_str()),
                FactKind::Number
                | FactKind::Text
                | FactKind::Time
                | FactKind::Version
                | FactKind::Words => fact.as_str().to_owned(),
            },
            Self::Param(_) | Self::Metric(_) | Self::Expression(_) => self.title(all),
        }
    }

    /// The name in a table: `param.` stands before it where another column has the same, and
    /// what the names of all parameters there have in common (`Params/`) is left out.
    pub fn heading(&self, all: &[Self]) -> String {
        let is_free = |short: &str| !all.iter().any(|column| column.name() == short);
        let common = common_group(all.iter().filter_map(|column| match column {
            Self::Param(name) => Some(name.as_str()),
            _ => None,
        }));
        let short = match self {
            Self::Param(name) => name.strip_prefix(common).filter(|short| is_free(short)),
            _ => None,
        };
        short.map_or_else(|| self.title(all), str::to_owned)
    }

    /// The name in a header of a file, with a prefix where another column has the same.
    pub fn title(&self, all: &[Self]) -> String {
        match self {
            Self::Param(name) if shared(name, all) => format!("param.{name}"),
            Self::Metric(name) if shared(name, all) => format!("metric.{name}"),
            Self::Fact(_)
            | Self::Asked(_)
            | Self::Param(_)
            | Self::Metric(_)
            | Self::Expression(_) => self.name(),
        }
    }

    /// The order of rows: numbers before text; the other way round for `backwards`. Missing values
    /// come last in both.
    pub fn compare(
        &self,
        one: &ExperimentView,
        other: &ExperimentView,
        backwards: bool,
    ) -> Ordering {
        let key = |view| match self.value(view).csv() {
            csv::Cell::Number(text) => (0, text.parse::<f64>().unwrap_or(f64::NAN), String::new()),
            csv::Cell::Text(text) => (1, 0.0, text),
            csv::Cell::Empty => (2, 0.0, String::new()),
        };
        let ((kind, number, text), (kind2, number2, text2)) = (key(one), key(other));
        let order = kind.cmp(&kind2);
        let order = order.then(number.total_cmp(&number2));
        let order = order.then_with(|| text.cmp(&text2));
        let both_have_one = kind < 2 && kind2 < 2;
        if backwards && both_have_one {
            order.reverse()
        } else {
            order
        }
    }
}

/// Whether a text can only be an expression. `val-loss` and `train/loss` are names, which a sign
/// between blanks is not.
pub fn is_expression(text: &str) -> bool {
    let signs = [" + ", " - ", " / ", " % ", " * ", " in "];
    signs.iter().any(|sign| text.contains(sign))
        || text.contains(['(', '*', '<', '>', '=', '&', '|', '`', '@'])
}

/// Texts between the commas of a list of columns. A comma in brackets is an expression's.
pub fn split(list: &str) -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut depth = 0_usize;
    for letter in list.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match texts.last_mut() {
            Some(last) if letter != ',' || depth > 0 => last.push(letter),
            _ => texts.push(String::new()),
        }
    }
    texts.iter().map(|text| text.trim().to_owned()).collect()
}

/// The facts and expressions among these names of columns, which views contain only on request.
pub fn asked_facts<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names
        .filter(|name| Fact::named(name).is_none())
        .filter(|name| nero_expr::Fact::from_word(name).is_some() || is_expression(name))
        .map(str::to_owned)
        .collect()
}

/// The column of a name that was typed.
///
/// # Errors
/// When no fact, parameter or metric has that name.
pub fn named(name: &str, views: &[ExperimentView]) -> Result<Column, NoColumn> {
    let has_param = |wanted: &str| views.iter().any(|view| param(view, wanted).is_some());
    let has_metric = |wanted: &str| views.iter().any(|view| metric(view, wanted).is_some());
    if let Some(rest) = name.strip_prefix("param.").filter(|rest| has_param(rest)) {
        return Ok(Column::Param(rest.to_owned()));
    }
    if let Some(rest) = name.strip_prefix("metric.").filter(|rest| has_metric(rest)) {
        return Ok(Column::Metric(rest.to_owned()));
    }
    if let Some(fact) = Fact::named(name) {
        return Ok(Column::Fact(fact));
    }
    if let Some(fact) = nero_expr::Fact::from_word(name) {
        return Ok(Column::Asked(fact));
    }
    if has_param(name) {
        return Ok(Column::Param(name.to_owned()));
    }
    if has_metric(name) {
        return Ok(Column::Metric(name.to_owned()));
    }
    let all = all(views);
    let matches = |full: &str| loose(full) == loose(name);
    // A table leaves out what the names of all parameters begin with.
    let mut short = all.iter().filter(|column| {
        let full = column.name();
        let part = full.rsplit_once('/').map(|(_, part)| part);
        matches!(column, Column::Param(_)) && part.is_some_and(matches)
    });
    let short = short.next().filter(|_| short.next().is_none());
    let whole = all.iter().find(|column| matches(&column.name()));
    let of_set = || of_set(name, views).map(Column::Metric);
    match whole.or(short).cloned().or_else(of_set) {
        Some(column) => Ok(column),
        None if is_expression(name) => Ok(Column::Expression(name.to_owned())),
        // Without experiments no name can be checked.
        None if views.is_empty() => Ok(Column::Metric(name.to_owned())),
        None if NOT_BUILT.contains(&name) => Err(NoColumn::NotBuilt(name.to_owned())),
        None => Err(unknown(name, &all)),
    }
}

/// Every column of a CSV.
pub fn all(views: &[ExperimentView]) -> Vec<Column> {
    Fact::of_csv()
        .map(Column::Fact)
        .chain(params(views).into_iter().map(Column::Param))
        .chain(metrics(views).into_iter().map(Column::Metric))
        .collect()
}

/// A header and a row per experiment, for CSV.
pub fn sheet(columns: &[Column], views: &[ExperimentView]) -> (Vec<String>, Vec<Vec<csv::Cell>>) {
    let row = |view| {
        let cells = columns.iter().map(|column| column.value(view).csv());
        cells.collect()
    };
    let header = columns.iter().map(|column| column.csv_name(columns));
    (header.collect(), views.iter().map(row).collect())
}

/// The columns that a table shows by default: those whose values differ. A
/// narrow terminal cuts from the right, so the most wanted come first: state and
/// metrics, reasons, then parameters, of which those that are part of the names come
/// last. A metric that only repeats its parameter is left out.
pub fn telling(views: &[ExperimentView]) -> Vec<Column> {
    let mut columns = vec![Column::Fact(Fact::Id), Column::Fact(Fact::Name)];
    let differs = |column: &Column| {
        let mut texts = views.iter().map(|view| column.text(view));
        let first = texts.next().unwrap_or_default();
        texts.any(|text| text != first)
    };
    let said = |column: &Column| views.iter().any(|view| !column.text(view).is_empty());
    for fact in [Fact::Collection, Fact::State, Fact::Node] {
        let column = Column::Fact(fact);
        if fact == Fact::State || differs(&column) {
            columns.push(column);
        }
    }
    if views.iter().any(|view| view.hosts.len() > 1) {
        columns.push(Column::Fact(Fact::Hosts));
    }
    for fact in [Fact::Runtime, Fact::Progress, Fact::Eta] {
        let column = Column::Fact(fact);
        if said(&column) {
            columns.push(column);
        }
    }
    let varying = params(views).into_iter().map(Column::Param);
    let (in_names, others): (Vec<_>, Vec<_>) = varying
        .filter(differs)
        .partition(|column| is_in_names(column, views));
    let printed = metrics(views).into_iter();
    let (steps, measured): (Vec<_>, Vec<_>) = printed
        .filter(|name| !repeats_parameter(name, views) && *name != Fact::Progress.name())
        .map(Column::Metric)
        .partition(|column| is_step(&column.name()));
    columns.extend(measured);
    for fact in [Fact::Reason, Fact::Cancel, Fact::Waiting, Fact::Contact] {
        let column = Column::Fact(fact);
        if said(&column) {
            columns.push(column);
        }
    }
    columns.extend(others);
    columns.extend(steps);
    columns.extend(in_names);
    columns
}

/// Whether every experiment's name contains its value of a parameter, as the
/// names of a product do: `fit_lr-0.1_n-3`.
fn is_in_names(column: &Column, views: &[ExperimentView]) -> bool {
    let name = column.name();
    views.iter().all(|view| {
        param(view, &name).is_none_or(|p| view.name.contains(&format!("{name}-{}", p.text)))
    })
}

/// Whether a metric only repeats its parameter, which the program printed.
pub(crate) fn repeats_parameter(name: &str, views: &[ExperimentView]) -> bool {
    views.iter().all(|view| {
        let Some(metric) = metric(view, name) else {
            return true;
        };
        let given = param(view, name).and_then(|param| parameter(param).as_f64());
        given.is_some_and(|given| metric.min == given && metric.max == given)
    })
}

/// Names that count a job's progress.
pub(crate) fn is_step(name: &str) -> bool {
    const STEPS: [&str; 5] = ["step", "globalstep", "iteration", "iter", "epoch"];
    STEPS.contains(&loose(name).as_str())
}

/// Names of parameters in the order in which they first come.
pub fn params(views: &[ExperimentView]) -> Vec<String> {
    distinct(views.iter().flat_map(|view| &view.params).map(|p| &p.name))
}

/// Names of metrics in the order in which they first come.
pub fn metrics(views: &[ExperimentView]) -> Vec<String> {
    distinct(views.iter().flat_map(|view| &view.metrics).map(|m| &m.name))
}

/// An experiment's parameter.
pub fn param<'a>(view: &'a ExperimentView, name: &str) -> Option<&'a Param> {
    view.params.iter().find(|param| param.name == name)
}

/// An experiment's metric.
pub fn metric<'a>(view: &'a ExperimentView, name: &str) -> Option<&'a MetricSummary> {
    view.metrics.iter().find(|metric| metric.name == name)
}

/// A name as loosely as selectors match it.
pub fn loose(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, ' ' | '_' | '-' | '/' | '.'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// What all these names begin with, up to a `/`: `Params/`.
pub(crate) fn common_group<'a>(mut names: impl Iterator<Item = &'a str>) -> &'a str {
    let group = |name: &str| name.rfind('/').map_or(0, |at| at + 1);
    let Some(first) = names.next() else {
        return "";
    };
    let mut common = &first[..group(first)];
    for name in names {
        while !name.starts_with(common) {
            common = &common[..group(&common[..common.len() - 1])];
        }
    }
    common
}

/// The metric of a set that a name without one means.
fn of_set(name: &str, views: &[ExperimentView]) -> Option<String> {
    let all = metrics(views);
    meant(name, all.iter().map(String::as_str)).map(str::to_owned)
}

/// Whether a name needs its prefix: another column has it too.
fn shared(name: &str, all: &[Column]) -> bool {
    all.iter().filter(|column| column.name() == name).count() > 1
}

fn unknown(name: &str, all: &[Column]) -> NoColumn {
    let there: Vec<String> = all.iter().map(Column::name).collect();
    let near = nero_model::names::suggest(name, there.iter().map(String::as_str));
    NoColumn::Unknown {
        name: name.to_owned(),
        near: near.map(str::to_owned),
        there,
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    names
        .filter(|name| seen.insert(name.as_str()))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_brackets_belongs_to_an_expression() {
        for (list, texts) in [
            ("id", &["id"][..]),
            ("id,mean(loss, 10m),lr", &["id", "mean(loss, 10m)", "lr"]),
            ("round(min(a, b)), c)", &["round(min(a, b))", "c)"]),
            ("", &[""]),
            ("a, b", &["a", "b"]),
        ] {
            assert_eq!(split(list), texts, "{list}");
        }
    }

    #[test]
    fn a_heading_has_no_group_that_all_parameters_share() {
        let params = |names: &[&str]| -> Vec<Column> {
            let names = names.iter().map(|name| Column::Param((*name).to_owned()));
            [Column::Fact(Fact::Id)].into_iter().chain(names).collect()
        };
        for (names, headings) in [
            (&["Params/lr", "Params/deep/n"][..], &["lr", "deep/n"][..]),
            (&["Params/lr", "Data/n"], &["Params/lr", "Data/n"]),
            (&["Params/lr", "n"], &["Params/lr", "n"]),
            (&["Params/id", "Params/lr"], &["Params/id", "lr"]),
            (&["Params/lr"], &["lr"]),
        ] {
            let columns = params(names);
            let shown: Vec<String> = columns[1..]
                .iter()
                .map(|one| one.heading(&columns))
                .collect();
            assert_eq!(shown, headings, "{names:?}");
        }
    }

    #[test]
    fn a_heading_can_be_typed() {
        let param = |name: &str| Param {
            name: name.to_owned(),
            ..Param::default()
        };
        let view = ExperimentView {
            params: vec![param("Params/lr"), param("Params/n"), param("Data/n")],
            ..ExperimentView::default()
        };
        let views = [view];
        assert_eq!(
            named("lr", &views),
            Ok(Column::Param("Params/lr".to_owned()))
        );
        assert!(named("n", &views).is_err(), "two end so");
    }

    #[test]
    fn names_are_no_expressions() {
        for name in ["loss", "val-loss", "train/loss", "val loss", "Params/lr"] {
            assert!(!is_expression(name), "{name}");
        }
        for text in ["min(loss)", "loss@10", "loss - best", "loss>1", "2 * lr"] {
            assert!(is_expression(text), "{text}");
        }
    }
}
