//! `results -o X.xlsx|.ods`: the cells are gathered here, and `neroman-office` makes the file.

use std::path::Path;

use nero_child::{Office, json_line};
use nero_table::UnreadableTable;
use nero_table::child::BOOK_VERB;
use nero_views::book::{self, BookParts, NoBook, ResultBook};
use nero_views::json::run_id;
use nero_views::results::Runs;
use nero_views::series::ThinSeries;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{ExperimentView, MetricsRequest};

use crate::args::Results;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, selection};

/// Runs and points that are asked for at once: a reply stays small, and far below what the daemon
/// refuses.
const RUNS_AT_ONCE: usize = 50;
const POINTS_AT_ONCE: u64 = 1_000_000;

/// Writes the workbook of these runs.
pub async fn save(
    session: &mut Session,
    args: &Results,
    runs: &Runs,
    path: &Path,
) -> Result<(), Stop> {
    let series = series(session, &runs.views).await?;
    let mut about = about(args, runs.views.len());
    let kept = "`neroman results` makes this file anew unless another program saved it; copy it before you edit it";
    about.push(("kept".to_owned(), kept.to_owned()));
    let made = book::make(BookParts {
        runs,
        by: &args.by,
        series,
        about,
        zone: jiff::tz::TimeZone::system(),
    })
    .map_err(Fault::from)?;
    write(path, &made).await?;
    for note in &made.notes {
        session.out.note(note);
    }
    let has_charts = !made.book.charts.is_empty();
    if has_charts
        && path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("ods"))
    {
        session.out.note("an .ods has no charts; an .xlsx has them");
    }
    Ok(())
}

/// The points of all metrics of these runs, thinned as they come.
async fn series(session: &mut Session, views: &[ExperimentView]) -> Result<Vec<ThinSeries>, Stop> {
    let points_max = book::points_max(views);
    let mut series = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for part in parts(views) {
        let runs = part.iter().filter_map(|view| run_id(view.id, view.run));
        let runs: Vec<String> = runs.collect();
        let asked = MetricsRequest {
            selection: Some(selection(&runs)),
            names: Vec::new(),
            ..MetricsRequest::default()
        };
        let reply = session.read(asked, ManClient::metrics).await?;
        series.extend(
            reply
                .series
                .iter()
                .map(|one| ThinSeries::of(one, points_max)),
        );
        let fresh = reply.notes.into_iter().filter(|note| !notes.contains(note));
        let fresh: Vec<String> = fresh.collect();
        notes.extend(fresh);
    }
    session.out.notes(&notes);
    Ok(series)
}

/// Runs with points, as many together as one reply should have.
fn parts(views: &[ExperimentView]) -> Vec<Vec<&ExperimentView>> {
    let mut parts: Vec<Vec<&ExperimentView>> = Vec::new();
    let mut points = 0;
    for view in views.iter().filter(|view| !view.metrics.is_empty()) {
        let count: u64 = view.metrics.iter().map(|metric| metric.count).sum();
        match parts.last_mut() {
            Some(part) if part.len() < RUNS_AT_ONCE && points + count <= POINTS_AT_ONCE => {
                points += count;
                part.push(view);
            }
            _ => {
                points = count;
                parts.push(vec![view]);
            }
        }
    }
    parts
}

/// How the file was made.
pub(super) fn about(args: &Results, run_count: usize) -> Vec<(String, String)> {
    let now = jiff::Zoned::now();
    let mut command = format!("neroman results {}", args.picked.join(","));
    if !args.by.is_empty() {
        command.push_str(&format!(" --by {}", args.by.join(",")));
    }
    if let Some(best) = &args.best {
        command.push_str(&format!(" --best {best}"));
    }
    let zone = now.time_zone().iana_name().unwrap_or("local time");
    let zone = zone.to_owned();
    [
        ("made", now.strftime("%Y-%m-%d %H:%M:%S %:z").to_string()),
        ("by", format!("neroman {}", env!("CARGO_PKG_VERSION"))),
        ("command", command),
        ("runs", run_count.to_string()),
        ("time zone", zone),
        (
            "metrics",
            "the latest value of each run; `best …` is the best that one ever had".to_owned(),
        ),
        ("deviation", "of a sample: n - 1".to_owned()),
    ]
    .map(|(title, value)| (title.to_owned(), value))
    .to_vec()
}

/// Has the process write the file.
async fn write(path: &Path, made: &ResultBook) -> Result<(), Fault> {
    let book = std::iter::once_with(|| json_line(&made.book));
    let rows = made.rows.iter().flatten().map(json_line);
    let answer = match Office::own() {
        Ok(office) => office.ask_json(BOOK_VERB, [path], book.chain(rows)).await,
        Err(error) => Err(error),
    };
    let fault = Fault::cannot("write", path);
    match answer {
        Ok(Ok(())) => Ok(()),
        Ok(Err(UnreadableTable::File { why, hint })) => Err(fault.cause(why).hint(hint)),
        Ok(Err(other)) => Err(fault.cause(format!("{other:?}"))),
        Err(error) => Err(fault.because(&error).hint("pick fewer runs, or write .csv")),
    }
}

impl From<NoBook> for Fault {
    fn from(error: NoBook) -> Self {
        match error {
            NoBook::NoRows(error) => error.into(),
            NoBook::TooMany { .. } => {
                Self::new(code::FAILED, error.to_string()).hint("pick fewer runs, or write .csv")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nero_wire::v1::MetricSummary;

    use super::*;

    #[test]
    fn long_runs_are_asked_for_in_small_parts() {
        let view = |count| ExperimentView {
            metrics: vec![MetricSummary {
                count,
                ..MetricSummary::default()
            }],
            ..ExperimentView::default()
        };
        let sizes = |counts: &[u64]| {
            let views: Vec<_> = counts.iter().map(|count| view(*count)).collect();
            let parts = parts(&views);
            parts.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[500_000; 5]), [2, 2, 1]);
        assert_eq!(sizes(&[30_000_000, 1, 1]), [1, 2]);
        assert_eq!(sizes(&[10; 101]), [50, 50, 1]);
        assert_eq!(parts(&[ExperimentView::default()]).len(), 0);
    }
}
