//! `metrics SEL [NAME…]`: every point of the series.

use nero_views::series::{SeriesPoint, points};
use nero_views::{csv, json, object, text, typed};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::metrics_reply::Series;
use nero_wire::v1::{MetricsReply, MetricsRequest};
use serde_json::Value;

use super::survey;
use crate::args::Metrics;
use crate::fault::{Fault, Stop, code};
use crate::say::table::{self, Cell, Column};
use crate::say::{Screen, parquet};
use crate::session::{Session, selection};

pub async fn run(session: &mut Session, args: &Metrics) -> Result<u8, Stop> {
    if let Some(what) = &args.attempt {
        return survey::run(session, args, what).await;
    }
    if args.parquet && session.out.screen.tty {
        let fault = Fault::usage("a Parquet file is nothing for a terminal");
        return Err(fault.hint("send it into a file: `> points.parquet`").into());
    }
    let asked = MetricsRequest {
        selection: Some(selection(args.picked.as_slice())),
        names: args.names.clone(),
        ..MetricsRequest::default()
    };
    let reply = session.read(asked, ManClient::metrics).await?;
    let out = &session.out;
    if args.parquet {
        out.notes(&reply.notes);
        let made = parquet::bytes(&about(args), typed::of_points(&reply.series)).await?;
        out.bytes(&made)?;
    } else if args.csv {
        out.notes(&reply.notes);
        out.raw(&as_csv(&reply))?;
    } else {
        let text = || as_text(&out.screen, &reply);
        out.reply(&reply.notes, || as_json(&reply), text)?;
    }
    Ok(code::ok_if(!reply.series.is_empty()))
}

/// How a file was made.
fn about(args: &Metrics) -> Vec<(String, String)> {
    let picked = args.picked.iter().chain(&args.names);
    let words: Vec<&str> = picked.map(String::as_str).collect();
    let command = format!("neroman metrics {}", words.join(" "));
    let by = format!("neroman {}", env!("CARGO_PKG_VERSION"));
    let made = jiff::Timestamp::now().to_string();
    let about = [("made", made), ("by", by), ("command", command)];
    about
        .map(|(title, value)| (title.to_owned(), value))
        .to_vec()
}

fn run_of(series: &Series) -> String {
    json::run_id(series.experiment, series.run).unwrap_or_else(|| series.experiment.to_string())
}

/// The table for eyes.
pub fn as_text(screen: &Screen, reply: &MetricsReply) -> String {
    if reply.series.is_empty() {
        return "no metrics\n".into();
    }
    let columns: [Column<'_, (&Series, SeriesPoint)>; 5] = [
        ("run", &|(series, _)| Cell::text(&run_of(series))),
        ("metric", &|(series, _)| Cell::text(&series.name)),
        ("step", &|(_, point)| Cell::number(point.step)),
        ("value", &|(_, point)| Cell::number(point.value)),
        ("time", &|(_, point)| Cell::time(point.time_ms)),
    ];
    let all: usize = reply.series.iter().map(|series| series.values.len()).sum();
    // A terminal shows the newest of each series.
    let last = if screen.tty && all > table::ROWS_MAX {
        (table::ROWS_MAX / reply.series.len()).max(1)
    } else {
        usize::MAX
    };
    let mut shown = Vec::new();
    let mut earlier = 0;
    for series in &reply.series {
        let skipped = series.values.len().saturating_sub(last);
        earlier += skipped;
        shown.extend(points(series).skip(skipped).map(|point| (series, point)));
    }
    let mut text = table::list(screen, &columns, &shown);
    if earlier > 0 {
        text.push_str(&format!(
            "({earlier} earlier points are left out: --csv and --json have all)\n"
        ));
    }
    let folded: u64 = reply.series.iter().map(|series| series.folded).sum();
    if folded > 0 {
        text.push_str(&format!(
            "({folded} points were joined into coarser ones)\n"
        ));
    }
    text
}

pub(super) fn as_csv(reply: &MetricsReply) -> Vec<u8> {
    let header = ["run", "metric", "step", "value", "time", "segment"].map(str::to_owned);
    let mut rows = Vec::new();
    for series in &reply.series {
        for point in points(series) {
            rows.push(vec![
                csv::Cell::Text(run_of(series)),
                csv::Cell::text(&series.name),
                point.step.map_or(csv::Cell::Empty, csv::Cell::number),
                csv::Cell::number(point.value),
                text::iso_time(point.time_ms).map_or(csv::Cell::Empty, csv::Cell::Text),
                csv::Cell::whole(point.segment),
            ]);
        }
    }
    csv::print(&header, &rows)
}

fn as_json(reply: &MetricsReply) -> Value {
    let numbers =
        |values: &[f64]| -> Vec<Value> { values.iter().copied().map(json::number).collect() };
    let times = |series: &Series| -> Vec<Option<String>> {
        let times = series.times_ms.iter().copied();
        times.map(text::iso_time).collect()
    };
    object!(reply =>
        series: [one =>
            id: one.experiment, run: json::run_id(one.experiment, one.run), name,
            steps: numbers(&one.steps), values: numbers(&one.values), times: times(one),
            segments: one.generation, folded,
        ],
        notes,
    )
}
