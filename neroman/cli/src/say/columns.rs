//! Columns of experiments: what `--columns` and `--sort` name, which ones a
//! table shows by itself, and their text for eyes and for CSV.

use std::cmp::Ordering;

use nero_expr::{FactKind, NOT_BUILT};
use nero_wire::v1::{ExperimentView, MetricSummary, Param, fact_value};

use super::json::{parameter, run_id};
use super::table::{self, Cell};
use super::text::iso_time;
use super::{Screen, csv, text};
use crate::fault::Fault;

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
}

/// Facts; [`NAMES`] has their names, which are those of selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    Id,
    Name,
    Collection,
    State,
    Phase,
    Node,
    Run,
    Runtime,
    Exit,
    Signal,
    Reason,
    Wish,
    Waiting,
    Contact,
    Cpu,
    Mem,
    Created,
    Modified,
    Submitted,
    Started,
    Ended,
    Path,
    Results,
    Warnings,
}

/// Every fact with its name; CSV has them in this order.
const NAMES: &[(&str, Fact)] = &[
    ("id", Fact::Id),
    ("name", Fact::Name),
    ("collection", Fact::Collection),
    ("state", Fact::State),
    ("node", Fact::Node),
    ("run", Fact::Run),
    ("runtime", Fact::Runtime),
    ("exit", Fact::Exit),
    ("signal", Fact::Signal),
    ("reason", Fact::Reason),
    ("created", Fact::Created),
    ("modified", Fact::Modified),
    ("submitted", Fact::Submitted),
    ("started", Fact::Started),
    ("ended", Fact::Ended),
    ("path", Fact::Path),
    ("results", Fact::Results),
    ("phase", Fact::Phase),
    ("wish", Fact::Wish),
    ("waiting", Fact::Waiting),
    ("contact", Fact::Contact),
    ("cpu", Fact::Cpu),
    ("mem", Fact::Mem),
    ("warnings", Fact::Warnings),
];

/// Names of the same facts in expressions.
const IN_EXPRESSIONS: &[(&str, Fact)] = &[
    ("attempt", Fact::Run),
    ("tmod", Fact::Modified),
    ("tsub", Fact::Submitted),
    ("tstart", Fact::Started),
    ("tend", Fact::Ended),
];

/// How many of [`NAMES`] a CSV has by itself.
const IN_CSV: usize = 17;

impl Column {
    /// The name, as in a header.
    pub fn name(&self) -> String {
        match self {
            Self::Fact(fact) => NAMES
                .iter()
                .find(|(_, known)| known == fact)
                .map(|(name, _)| (*name).to_owned())
                .unwrap_or_default(),
            Self::Param(name) | Self::Metric(name) => name.clone(),
            Self::Asked(fact) => fact.word().to_owned(),
        }
    }

    /// For eyes.
    pub fn cell(&self, view: &ExperimentView) -> Cell {
        match self {
            Self::Fact(Fact::State) => Cell::state(&view.state),
            Self::Fact(Fact::Id | Fact::Runtime | Fact::Cpu | Fact::Mem | Fact::Exit)
            | Self::Metric(_) => Cell::right(&self.text(view)),
            Self::Param(name) => match param(view, name) {
                Some(found) if parameter(found).is_number() => Cell::right(&found.text),
                Some(found) => Cell::text(&found.text),
                None => Cell::default(),
            },
            Self::Asked(fact) if fact.kind() != FactKind::Text => Cell::right(&self.text(view)),
            Self::Fact(_) | Self::Asked(_) => Cell::text(&self.text(view)),
        }
    }

    /// The text for eyes, not yet safe.
    pub fn text(&self, view: &ExperimentView) -> String {
        match self {
            Self::Param(name) => param(view, name)
                .map(|p| p.text.clone())
                .unwrap_or_default(),
            Self::Metric(name) => {
                let last = metric(view, name).map(|m| text::number(m.last));
                text::marked(&last.unwrap_or_default(), view.as_of_ms != 0)
            }
            Self::Fact(fact @ (Fact::Runtime | Fact::Cpu | Fact::Mem)) => {
                text::marked(&fact_text(*fact, view), view.as_of_ms != 0)
            }
            Self::Fact(fact) => fact_text(*fact, view),
            Self::Asked(fact) => match asked(view, *fact) {
                Some(fact_value::Value::Text(text)) => text.clone(),
                Some(fact_value::Value::Number(number)) => {
                    text::marked(&measured(*fact, *number), view.as_of_ms != 0)
                }
                None => String::new(),
            },
        }
    }

    /// For a program.
    pub fn csv(&self, view: &ExperimentView) -> csv::Cell {
        let whole = |value: Option<i32>| value.map_or(csv::Cell::Empty, csv::Cell::whole);
        let time = |ms| iso_time(ms).map_or(csv::Cell::Empty, |text| csv::Cell::text(&text));
        match self {
            Self::Param(name) => match param(view, name) {
                Some(found) if parameter(found).is_number() => {
                    csv::Cell::Number(found.text.clone())
                }
                Some(found) => csv::Cell::text(&found.text),
                None => csv::Cell::Empty,
            },
            Self::Metric(name) => {
                metric(view, name).map_or(csv::Cell::Empty, |m| csv::Cell::number(m.last))
            }
            Self::Fact(Fact::Id) => csv::Cell::whole(view.id),
            Self::Fact(Fact::Reason) => csv::Cell::text(&view.reason),
            Self::Fact(Fact::Runtime) => view.runtime_s.map_or(csv::Cell::Empty, csv::Cell::number),
            Self::Fact(Fact::Cpu) => view.cpu_cores.map_or(csv::Cell::Empty, csv::Cell::number),
            Self::Fact(Fact::Mem) => view.rss_bytes.map_or(csv::Cell::Empty, csv::Cell::whole),
            Self::Fact(Fact::Exit) => whole(view.exit_code),
            Self::Fact(Fact::Signal) => whole(view.signal),
            Self::Fact(Fact::Created) => time(view.created_ms),
            Self::Fact(Fact::Modified) => time(view.modified_ms),
            Self::Fact(Fact::Submitted) => time(view.submitted_ms),
            Self::Fact(Fact::Started) => time(view.started_ms),
            Self::Fact(Fact::Ended) => time(view.ended_ms),
            Self::Fact(fact) => csv::Cell::text(&fact_text(*fact, view)),
            Self::Asked(fact) => match asked(view, *fact) {
                Some(fact_value::Value::Text(text)) => csv::Cell::text(text),
                Some(fact_value::Value::Number(number)) => csv::Cell::number(*number),
                None => csv::Cell::Empty,
            },
        }
    }

    /// The name in a CSV header, with the unit.
    pub fn csv_name(&self, all: &[Self]) -> String {
        match self {
            Self::Fact(Fact::Runtime) => "runtime_s".into(),
            Self::Fact(Fact::Exit) => "exit_code".into(),
            Self::Fact(Fact::Mem) => "rss_bytes".into(),
            Self::Fact(Fact::Cpu) => "cpu_cores".into(),
            Self::Fact(
                Fact::Created | Fact::Modified | Fact::Submitted | Fact::Started | Fact::Ended,
            ) => format!("{}_at", self.name()),
            Self::Asked(fact) => match fact.kind() {
                FactKind::Seconds => format!("{}_s", fact.word()),
                FactKind::Bytes => format!("{}_bytes", fact.word()),
                FactKind::Number
                | FactKind::Text
                | FactKind::Time
                | FactKind::Version
                | FactKind::Words => fact.word().to_owned(),
            },
            Self::Fact(_) | Self::Param(_) | Self::Metric(_) => self.title(all),
        }
    }

    /// The name in a table, with a prefix where another column has the same.
    pub fn title(&self, all: &[Self]) -> String {
        match self {
            Self::Param(name) if shared(name, all) => format!("param.{name}"),
            Self::Metric(name) if shared(name, all) => format!("metric.{name}"),
            Self::Fact(_) | Self::Asked(_) | Self::Param(_) | Self::Metric(_) => self.name(),
        }
    }

    /// The order of rows: numbers before text, missing values last.
    pub fn compare(&self, one: &ExperimentView, other: &ExperimentView) -> Ordering {
        let key = |view| match self.csv(view) {
            csv::Cell::Number(text) => (0, text.parse::<f64>().unwrap_or(f64::NAN), String::new()),
            csv::Cell::Text(text) => (1, 0.0, text),
            csv::Cell::Empty => (2, 0.0, String::new()),
        };
        let ((kind, number, text), (kind2, number2, text2)) = (key(one), key(other));
        kind.cmp(&kind2)
            .then(number.total_cmp(&number2))
            .then_with(|| text.cmp(&text2))
    }
}

/// The facts among these names of columns that views contain only on request.
pub fn asked_facts<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let always_there = |name: &str| {
        let mut known = NAMES.iter().chain(IN_EXPRESSIONS);
        known.any(|(fact, _)| *fact == name)
    };
    names
        .filter(|name| !always_there(name))
        .filter(|name| nero_expr::Fact::from_word(name).is_some())
        .map(str::to_owned)
        .collect()
}

/// The column of a name that was typed.
///
/// # Errors
/// When no fact, parameter or metric has that name.
pub fn named(name: &str, views: &[ExperimentView]) -> Result<Column, Fault> {
    let has_param = |wanted: &str| views.iter().any(|view| param(view, wanted).is_some());
    let has_metric = |wanted: &str| views.iter().any(|view| metric(view, wanted).is_some());
    if let Some(rest) = name.strip_prefix("param.").filter(|rest| has_param(rest)) {
        return Ok(Column::Param(rest.to_owned()));
    }
    if let Some(rest) = name.strip_prefix("metric.").filter(|rest| has_metric(rest)) {
        return Ok(Column::Metric(rest.to_owned()));
    }
    let mut facts = NAMES.iter().chain(IN_EXPRESSIONS);
    if let Some((_, fact)) = facts.find(|(known, _)| *known == name) {
        return Ok(Column::Fact(*fact));
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
    match all
        .iter()
        .find(|column| loose(&column.name()) == loose(name))
    {
        Some(column) => Ok(column.clone()),
        // Without experiments no name can be checked.
        None if views.is_empty() => Ok(Column::Metric(name.to_owned())),
        None if NOT_BUILT.contains(&name) => Err(Fault::not_built(format!("the column `{name}`"))),
        None => Err(unknown(name, &all)),
    }
}

/// Every column of a CSV.
pub fn all(views: &[ExperimentView]) -> Vec<Column> {
    let facts = NAMES[..IN_CSV].iter().map(|(_, fact)| Column::Fact(*fact));
    facts
        .chain(params(views).into_iter().map(Column::Param))
        .chain(metrics(views).into_iter().map(Column::Metric))
        .collect()
}

/// The columns that a table shows by default: those whose values differ. A
/// narrow terminal cuts from the right, so the most wanted come first: metrics
/// before their steps and before parameters that are part of the names. A
/// metric that only repeats its parameter is left out.
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
    let runtime = Column::Fact(Fact::Runtime);
    if said(&runtime) {
        columns.push(runtime);
    }
    let varying = params(views).into_iter().map(Column::Param);
    let (in_names, others): (Vec<_>, Vec<_>) = varying
        .filter(differs)
        .partition(|column| is_in_names(column, views));
    let printed = metrics(views).into_iter();
    let (steps, measured): (Vec<_>, Vec<_>) = printed
        .filter(|name| !repeats_parameter(name, views))
        .map(Column::Metric)
        .partition(|column| is_step(&column.name()));
    columns.extend(others);
    columns.extend(measured);
    for fact in [Fact::Reason, Fact::Wish, Fact::Waiting, Fact::Contact] {
        let column = Column::Fact(fact);
        if said(&column) {
            columns.push(column);
        }
    }
    columns.extend(steps);
    columns.extend(in_names);
    columns
}

/// The experiments as a table, and below it the names of columns left out.
pub fn print(screen: &Screen, columns: &[Column], views: &[ExperimentView]) -> String {
    let header: Vec<String> = columns.iter().map(|column| column.title(columns)).collect();
    // Looking up a cell by name among thousands is slow: only what can be
    // shown.
    let shown = &columns[..columns.len().min(table::COLUMNS_MAX)];
    let rows: Vec<Vec<Cell>> = views
        .iter()
        .map(|view| shown.iter().map(|column| column.cell(view)).collect())
        .collect();
    let (text, left_out) = table::print(screen, &header, &rows);
    text + &table::no_room(&left_out)
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
fn repeats_parameter(name: &str, views: &[ExperimentView]) -> bool {
    views.iter().all(|view| {
        let Some(metric) = metric(view, name) else {
            return true;
        };
        let given = param(view, name).and_then(|param| parameter(param).as_f64());
        given.is_some_and(|given| metric.min == given && metric.max == given)
    })
}

/// Names that count a job's progress.
fn is_step(name: &str) -> bool {
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

/// The value of a requested fact, if known.
fn asked(view: &ExperimentView, fact: nero_expr::Fact) -> Option<&fact_value::Value> {
    let mut facts = view.facts.iter();
    facts.find(|held| held.name == fact.word())?.value.as_ref()
}

/// A number in the unit of its fact.
fn measured(fact: nero_expr::Fact, number: f64) -> String {
    match fact.kind() {
        FactKind::Seconds => text::duration(number),
        FactKind::Bytes => text::bytes(number as u64),
        FactKind::Number
        | FactKind::Text
        | FactKind::Time
        | FactKind::Version
        | FactKind::Words => text::number(number),
    }
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

fn fact_text(fact: Fact, view: &ExperimentView) -> String {
    let time = |ms| {
        if ms == 0 {
            String::new()
        } else {
            text::local_time(ms)
        }
    };
    let whole = |value: Option<i32>| value.map(|value| value.to_string()).unwrap_or_default();
    match fact {
        Fact::Id => view.id.to_string(),
        Fact::Name => view.name.clone(),
        Fact::Collection => view.collection.clone(),
        Fact::State => view.state.clone(),
        Fact::Phase => view.phase.clone(),
        Fact::Node => view.node.clone(),
        Fact::Run => run_id(view.id, view.run).unwrap_or_default(),
        Fact::Runtime => view.runtime_s.map(text::duration).unwrap_or_default(),
        Fact::Exit => whole(view.exit_code),
        Fact::Signal => view
            .signal
            .map(nero_model::state::signal_name)
            .unwrap_or_default(),
        // A finished run needs no reason.
        Fact::Reason if view.state == "finished" => String::new(),
        Fact::Reason => text::why(&view.state, &view.reason, &view.stderr_line),
        Fact::Wish => view.wish.clone(),
        Fact::Waiting => view.waiting_for.clone(),
        Fact::Contact => view.contact.clone(),
        Fact::Cpu => view.cpu_cores.map(text::number).unwrap_or_default(),
        Fact::Mem => view.rss_bytes.map(text::bytes).unwrap_or_default(),
        Fact::Created => time(view.created_ms),
        Fact::Modified => time(view.modified_ms),
        Fact::Submitted => time(view.submitted_ms),
        Fact::Started => time(view.started_ms),
        Fact::Ended => time(view.ended_ms),
        Fact::Path => view.path.clone(),
        Fact::Results => view.results.clone(),
        Fact::Warnings => view.warnings.join("; "),
    }
}

/// Whether a name needs its prefix: another column has it too.
fn shared(name: &str, all: &[Column]) -> bool {
    all.iter().filter(|column| column.name() == name).count() > 1
}

fn unknown(name: &str, all: &[Column]) -> Fault {
    let names: Vec<String> = all.iter().map(Column::name).collect();
    let near = nero_model::names::suggest(name, names.iter().map(String::as_str));
    let fault = Fault::usage(format!("there is no column `{name}`"));
    match near {
        Some(near) => fault.hint(format!("did you mean `{near}`?")),
        None => fault.hint(format!("there are {}", table::some(&names))),
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    names
        .filter(|name| seen.insert(name.as_str()))
        .cloned()
        .collect()
}
