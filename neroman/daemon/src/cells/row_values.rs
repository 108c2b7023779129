//! What the cells of a table's experiments are to hold.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nero_expr::{Expr, Fact, ParseContext, Value};
use nero_format::{BoundTable, CellValue, ShownValue};
use nero_model::{ExperimentId, Phase, StateWord};
use nero_table::child::CellToWrite;

use nero_life::experiment::{Experiment, Origin};
use nero_life::now::PresentTime;
use nero_life::pasts::{self, Pasts};
use nero_life::scope::Sight;
use nero_life::state::State;
use nero_views::text;

/// A cell has room for 32 767 characters.
const TEXT_CHARS_MAX: usize = 32_000;

/// The values of a row, by column.
pub(super) type RowValues = Arc<[Option<CellValue>]>;

/// One row of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ShownRow {
    /// The number in the sheet.
    pub number: u64,
    /// The row in the sheet when it was read.
    pub line: u32,
    pub name: String,
    pub values: RowValues,
}

/// The columns of a table, and the values that were computed before.
#[derive(Debug)]
pub(super) struct Columns {
    pub bound: BoundTable,
    /// By column; none: the state.
    exprs: Vec<Option<Expr>>,
    uses_clock: bool,
    before: HashMap<ExperimentId, (u64, RowValues)>,
}

impl Columns {
    pub(super) fn of(bound: &BoundTable, now_ms: i64) -> Self {
        let context = ParseContext::utc(now_ms);
        let exprs = bound.columns.iter().map(|column| match &column.shows {
            ShownValue::State => None,
            // What an older build refused to keep is not among these.
            ShownValue::Expression(text) => Expr::parse_value(text, &context).ok(),
        });
        let exprs: Vec<Option<Expr>> = exprs.collect();
        Self {
            bound: bound.clone(),
            uses_clock: exprs.iter().flatten().any(Expr::uses_clock),
            exprs,
            before: HashMap::new(),
        }
    }

    /// The points that the columns need.
    pub(super) fn wanted(&self, state: &State, origin: &Origin) -> Pasts {
        let asked = self.exprs.iter().flatten().flat_map(Expr::named_pasts);
        let runs = state.of_origin(origin.id).filter_map(|one| one.current());
        pasts::wanted(asked, runs)
    }

    /// The rows of experiments that are in the table and not removed.
    pub(super) fn rows(
        &mut self,
        state: &State,
        origin: &Origin,
        now: &PresentTime,
    ) -> BTreeMap<ExperimentId, ShownRow> {
        let offset = origin.source.table.as_ref().map_or(0, |table| table.offset);
        let mut rows = BTreeMap::new();
        for experiment in state.of_origin(origin.id) {
            let number = experiment.definition.number;
            let number = number.and_then(|number| number.checked_sub(offset));
            let is_there = !experiment.gone && experiment.hidden_ms.is_none();
            let Some(number) = number.filter(|_| is_there) else {
                continue;
            };
            let row = ShownRow {
                number,
                line: experiment.definition.place.line,
                name: experiment.definition.name.clone(),
                values: self.values(experiment, now),
            };
            rows.insert(experiment.id, row);
        }
        rows
    }

    /// Whether states may replace this text of the owner: she listed it under `over`.
    pub(super) fn is_over(&self, column: usize, text: &str) -> bool {
        let column = self.bound.columns.get(column);
        column.is_some_and(|column| column.over.iter().any(|over| over == text))
    }

    /// Whether a cell that holds this text of the owner gets its state. `TODO` is as good a word
    /// for an experiment that was never started as ours.
    pub(super) fn replaces(&self, cell: &CellToWrite, text: &str) -> bool {
        let unstarted = CellValue::Text(StateWord::Defined.as_str().to_owned());
        self.is_over(cell.heading, text) && cell.value != Some(unstarted)
    }

    fn values(&mut self, experiment: &Experiment, now: &PresentTime) -> RowValues {
        if let Some((revision, values)) = self.before.get(&experiment.id)
            && *revision == experiment.revision
            && !self.uses_clock
        {
            return Arc::clone(values);
        }
        let sight = Sight::current(experiment, now);
        let columns = self.bound.columns.iter().zip(&self.exprs);
        let values = columns.map(|(column, expr)| match (&column.shows, expr) {
            (ShownValue::State, _) => {
                let word = experiment.state().as_str();
                let edited = experiment
                    .current()
                    .filter(|run| experiment.is_edited_since(run));
                let text = edited.map_or_else(|| word.to_owned(), |_| text::edited_since(word));
                Some(CellValue::Text(text))
            }
            (ShownValue::Expression(text), Some(_)) if text == Fact::Reason.as_str() => {
                reason(experiment).and_then(|reason| text_cell(&reason))
            }
            (ShownValue::Expression(_), Some(expr)) => value(expr, &sight),
            (ShownValue::Expression(_), None) => None,
        });
        let values: RowValues = values.collect();
        let known = (experiment.revision, Arc::clone(&values));
        self.before.insert(experiment.id, known);
        values
    }
}

/// Why the current run ended as it did, in the words of `status`. Expressions compare the word
/// before the first figure (`exit code`) alone.
fn reason(experiment: &Experiment) -> Option<String> {
    let run = experiment.current()?;
    let state = experiment.state();
    let reason = run
        .reason()
        .filter(|_| state != StateWord::Phase(Phase::Finished))?;
    Some(text::why(
        state.as_str(),
        &reason.to_string(),
        run.stderr_line(),
    ))
}

fn text_cell(text: &str) -> Option<CellValue> {
    let text: String = text.trim().chars().take(TEXT_CHARS_MAX).collect();
    (!text.is_empty()).then_some(CellValue::Text(text))
}

/// The value of an expression; none while it is unknown, as before a metric's first line.
fn value(expr: &Expr, sight: &Sight<'_>) -> Option<CellValue> {
    let bindings = expr.bind(sight).ok()?;
    match expr.value(&bindings, sight) {
        Value::Unknown => None,
        Value::Number(number, _) if !number.is_finite() => {
            Some(CellValue::Text(number.to_string()))
        }
        Value::Number(number, _) => Some(CellValue::Number(number.to_string())),
        Value::Bool(truth, _) => Some(CellValue::Bool(truth)),
        Value::Text(text) => text_cell(text),
        Value::Time(ms) => {
            let at = jiff::Timestamp::from_millisecond(ms).ok()?;
            Some(CellValue::Text(
                at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            ))
        }
    }
}
