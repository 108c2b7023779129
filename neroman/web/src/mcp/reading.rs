//! Tools that read.

use nero_plot::{CurvePoint, thinned};
use nero_views::{columns, json, object};
use nero_wire::v1::metrics_reply::Series;
use nero_wire::v1::{LogsRequest, MetricsRequest};
use serde_json::{Value, json};

use super::fields::ToolFields;
use crate::call::{Refusal, ViewCall};
use crate::reply::fault;
use crate::server::Caller;
use crate::window::PageWindow;
use crate::{files, lines};

/// Rows of `status` that names no number of them.
const ROWS: u64 = 50;
/// Bytes of a log in one answer.
const LOG_MAX: usize = 40_000;
const LINES: u64 = 200;
/// Points of a series that names no number of them, and of all together.
const POINTS: u64 = 100;
const ALL_POINTS_MAX: u32 = 1600;
/// Points that are kept of a column: the first, lowest, highest and last.
const POINTS_OF_COLUMN: u32 = 4;

/// `status`.
pub(super) async fn status(
    caller: &Caller,
    fields: &ToolFields,
    picked: &str,
) -> Result<Value, Refusal> {
    let names = fields.texts("columns");
    let page = PageWindow::new(
        fields.text("select").unwrap_or(picked),
        fields.text("sort").unwrap_or_default(),
        fields.number("offset").unwrap_or(0),
        fields.number("count").unwrap_or(ROWS),
        names.clone(),
    );
    let rows = page.list(caller).await?;
    let views = &rows.rows;
    let named: Vec<_> = names
        .iter()
        .map(|name| columns::named(name, views).ok())
        .collect();
    let row = |view| -> Value {
        if names.is_empty() {
            return json::experiment(view);
        }
        let cells = names.iter().zip(&named).map(|(name, column)| {
            let value = column
                .as_ref()
                .map_or(Value::Null, |column| column.value(view).json());
            (name.clone(), value)
        });
        let mut row = object!(view => id, name, state);
        row.as_object_mut()
            .into_iter()
            .for_each(|row| row.extend(cells.clone()));
        row
    };
    let shown: Vec<Value> = views.iter().map(row).collect();
    Ok(rows.about(json!({"experiments": shown})))
}

/// `logs`.
pub(super) async fn logs(caller: &Caller, fields: &ToolFields) -> Result<Value, Refusal> {
    let from = fields.number("from");
    let asked = LogsRequest {
        what: fields.text("what").unwrap_or_default().to_owned(),
        stderr: fields.is_set("stderr"),
        lines: fields.number("last").unwrap_or(LINES),
        offset: from.and_then(|from| i64::try_from(from).ok()).unwrap_or(0),
        use_offset: from.is_some(),
        ..LogsRequest::default()
    };
    let part = files::log_part(caller, asked, LOG_MAX).await?;
    Ok(json::document(object!(part =>
        text: String::from_utf8_lossy(&part.bytes),
        from,
        next: part.from + part.bytes.len() as u64,
        is_end, notice,
    )))
}

/// `metrics`.
pub(super) async fn metrics(
    caller: &Caller,
    fields: &ToolFields,
    picked: &str,
) -> Result<Value, Refusal> {
    let selection = fields.text("select").unwrap_or(picked);
    let wanted = fields.number("points").unwrap_or(POINTS);
    let wanted = u32::try_from(wanted)
        .unwrap_or(u32::MAX)
        .max(POINTS_OF_COLUMN);
    let asked = MetricsRequest {
        selection: Some((caller.settings.select)(selection)),
        names: fields.texts("names"),
        width: wanted / POINTS_OF_COLUMN,
        ..MetricsRequest::default()
    };
    let reply = caller
        .ask(|answer| ViewCall::Metrics(asked, answer))
        .await?;
    let share = ALL_POINTS_MAX / u32::try_from(reply.series.len()).unwrap_or(u32::MAX).max(1);
    let points = wanted.min(share).max(POINTS_OF_COLUMN);
    let series: Vec<Value> = reply
        .series
        .iter()
        .map(|one| of_series(one, points))
        .collect();
    let notes = reply.notes;
    Ok(json::document(
        json!({"series": series, "points_max": points, "notes": notes}),
    ))
}

/// A series with about so many of its points.
fn of_series(one: &Series, points: u32) -> Value {
    // Places stand in the place of steps, which may fall back.
    let all = one.values.iter().enumerate();
    let all: Vec<CurvePoint> = all
        .map(|(at, y)| CurvePoint {
            x: at as f64,
            y: *y,
        })
        .collect();
    let kept = if all.len() > points as usize {
        thinned(&all, points / POINTS_OF_COLUMN)
    } else {
        all
    };
    let steps = kept
        .iter()
        .map(|point| one.steps.get(point.x as usize).copied());
    let steps = steps.map(|step| step.map_or(Value::Null, json::number));
    json!({
        "id": one.experiment,
        "run": json::run_id(one.experiment, one.run),
        "name": one.name,
        "steps": steps.collect::<Vec<_>>(),
        "values": kept.iter().map(|point| json::number(point.y)).collect::<Vec<_>>(),
    })
}

/// A tool that is a line: its document.
pub(super) async fn line(
    caller: &Caller,
    tool: &str,
    fields: &ToolFields,
    picked: &str,
) -> Result<Value, Refusal> {
    let select = || {
        let selection = fields.text("select").unwrap_or(picked);
        (!selection.is_empty()).then(|| selection.to_owned())
    };
    let (name, words) = match tool {
        "show" => (
            "show",
            vec![fields.text("what").unwrap_or_default().to_owned()],
        ),
        "diff" => {
            let both =
                ["one", "other"].map(|name| fields.text(name).unwrap_or_default().to_owned());
            ("diff", both.to_vec())
        }
        "results" => {
            let mut words = vec![select().unwrap_or_else(|| "all".to_owned())];
            let by = fields
                .texts("by")
                .into_iter()
                .map(|name| format!("--by={name}"));
            words.extend(by);
            words.extend(fields.text("best").map(|best| format!("--best={best}")));
            words.extend(fields.is_set("all_runs").then(|| "--all-runs".to_owned()));
            ("results", words)
        }
        "rule_why" => ("rule-why", select().into_iter().collect()),
        _ => ("nodes", Vec::new()),
    };
    let bytes = lines::read_bytes(caller, name, words).await?;
    lines::read_document(&bytes).ok_or_else(|| fault("the answer is no document", ""))
}
