//! A workbook of results: a row per run, statistics per group, points, where everything came
//! from, and charts. Made here as cells with types; `nero-spreadsheet` makes the file.

mod cells;
mod curves;

use jiff::tz::TimeZone;
use nero_table::book::{BookCell, ChartKind, ChartSeries, NewBook, NewChart, NewSheet};
use nero_table::{COLUMNS_MAX, ROWS_MAX};
use nero_wire::v1::ExperimentView;

use crate::columns::{Column, is_step, params, repeats_parameter};
use crate::results::{self, Groups, NoRows, Objective, ResultGroup, Runs, all_columns};
use crate::series::ThinSeries;
use crate::{Fact, Value, text};
use cells::{BookCells, column};

/// The fact of expressions that a view holds only when it is asked for: the command of a run, which its provenance shows.
pub const ASKED: nero_expr::Fact = nero_expr::Fact::Command;
/// Points of one series in a workbook: more than a chart shows.
const SERIES_POINTS_MAX: usize = 1000;
/// Points of a chart of groups.
const GROUPS: std::ops::RangeInclusive<usize> = 2..=40;
/// Parameters that only tell repetitions apart.
const REPETITIONS: [&str; 3] = ["seed", "repeat", "random_seed"];

/// A workbook.
#[derive(Debug)]
pub struct ResultBook {
    /// All but the rows.
    pub book: NewBook,
    /// The rows of each sheet.
    pub rows: Vec<Vec<Vec<BookCell>>>,
    /// What a person must know about it.
    pub notes: Vec<String>,
}

/// Why there is no workbook.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBook {
    /// No rows at all.
    #[error(transparent)]
    NoRows(#[from] NoRows),
    /// The format has less room.
    #[error("a sheet has at most {max} {what}, and there are {count}")]
    TooMany {
        /// Rows or columns.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: u32,
    },
}

/// What a workbook is made of.
#[derive(Debug)]
pub struct BookParts<'a> {
    /// The runs in their order.
    pub runs: &'a Runs,
    /// Parameters that runs of a group share; empty for those that differ.
    pub by: &'a [String],
    /// Points of all metrics.
    pub series: Vec<ThinSeries>,
    /// How it was made: titles and values.
    pub about: Vec<(String, String)>,
    /// The zone of its moments.
    pub zone: TimeZone,
}

/// How many points of each series of these runs there is room for.
pub fn points_max(views: &[ExperimentView]) -> usize {
    let series: usize = views.iter().map(|view| view.metrics.len()).sum();
    let room = ROWS_MAX as usize - 1;
    (room / series.max(1)).min(SERIES_POINTS_MAX)
}

/// Makes a workbook.
///
/// # Errors
/// When the format has no room for it, or no run has a parameter that groups.
pub fn make(parts: BookParts<'_>) -> Result<ResultBook, NoBook> {
    let runs = parts.runs;
    let mut making = BookBuilder {
        cells: BookCells {
            zone: parts.zone,
            cut: 0,
        },
        made: ResultBook {
            book: NewBook::default(),
            rows: Vec::new(),
            notes: Vec::new(),
        },
    };
    making.views("Runs", &all_columns(runs), runs)?;
    let by = match parts.by {
        [] => differing(&runs.views),
        by => by.to_vec(),
    };
    let groups = results::groups(&runs.views, &by, runs.best.as_ref())?;
    making.summary(&groups)?;
    curves::add(&mut making, runs, &parts.series)?;
    let mut columns: Vec<Column> = [Fact::Run, Fact::Name].map(Column::Fact).into();
    columns.extend(provenance());
    making.views("Provenance", &columns, runs)?;
    making.about(parts.about)?;
    Ok(making.made)
}

/// What tells where a run came from.
pub(crate) fn provenance() -> Vec<Column> {
    let facts = [
        Fact::Node,
        Fact::Hosts,
        Fact::Image,
        Fact::Created,
        Fact::Submitted,
        Fact::Batch,
        Fact::Follows,
        Fact::Exit,
        Fact::Signal,
        Fact::Warnings,
        Fact::Results,
    ];
    let first = [Column::Fact(Fact::Path), Column::Asked(ASKED)];
    first.into_iter().chain(facts.map(Column::Fact)).collect()
}

/// A workbook on its way.
#[derive(Debug)]
struct BookBuilder {
    cells: BookCells,
    made: ResultBook,
}

impl BookBuilder {
    /// Adds a sheet; returns its position.
    fn sheet(
        &mut self,
        name: &str,
        columns: Vec<(String, bool)>,
        rows: Vec<Vec<BookCell>>,
    ) -> Result<usize, NoBook> {
        has_room("rows with its header", rows.len() + 1, ROWS_MAX)?;
        has_room("columns", columns.len(), COLUMNS_MAX)?;
        let columns = columns.into_iter().enumerate();
        let columns = columns.map(|(at, (title, is_measured))| {
            let title = self
                .cells
                .text(&title)
                .map_or_else(String::new, |title| title.text().to_owned());
            let cells = rows.iter().map(|row| row.get(at).cloned().flatten());
            column(title, cells, is_measured)
        });
        let sheet = NewSheet {
            name: name.to_owned(),
            columns: columns.collect(),
            has_filter: !rows.is_empty(),
            row_count: rows.len() as u32,
        };
        self.made.book.sheets.push(sheet);
        self.made.rows.push(rows);
        Ok(self.made.rows.len() - 1)
    }

    /// Adds a sheet with a row per run; columns of facts that no run has are left out.
    fn views(&mut self, name: &str, columns: &[Column], runs: &Runs) -> Result<(), NoBook> {
        let is_there = |column: &Column| {
            let always = [Fact::Run, Fact::Name, Fact::State].map(Column::Fact);
            let has = |view| column.value(view).csv() != crate::csv::Cell::Empty;
            always.contains(column) || runs.views.iter().any(has)
        };
        let columns: Vec<&Column> = columns.iter().filter(|column| is_there(column)).collect();
        has_room("columns", columns.len(), COLUMNS_MAX)?;
        let mut rows = Vec::new();
        for view in &runs.views {
            let cells = columns
                .iter()
                .map(|column| self.cells.value(&column.value(view)));
            rows.push(cells.collect::<Vec<_>>());
        }
        let all: Vec<Column> = columns.iter().map(|column| (*column).clone()).collect();
        let titles = columns.iter().map(|column| {
            let measured = |view| column.value(view).is_measured();
            (self.title(column, &all), runs.views.iter().any(measured))
        });
        let mut titles: Vec<(String, bool)> = titles.collect();
        if let Some(best) = runs
            .best
            .as_ref()
            .filter(|_| all.contains(&Column::Fact(Fact::State)))
        {
            // Beside the name, where it is seen first.
            let at = titles.len().min(2);
            titles.insert(at, (best.title(), true));
            for (row, view) in rows.iter_mut().zip(&runs.views) {
                row.insert(at, self.cells.number(best.of(view)));
            }
        }
        self.sheet(name, titles, rows)?;
        Ok(())
    }

    /// The title of a column, with its unit.
    fn title(&self, column: &Column, all: &[Column]) -> String {
        let name = column.title(all);
        match column {
            Column::Fact(Fact::Runtime) => format!("{name} (s)"),
            Column::Fact(
                Fact::Created | Fact::Modified | Fact::Submitted | Fact::Started | Fact::Ended,
            ) => self.with_zone(&name),
            Column::Fact(Fact::Path) => "folder".to_owned(),
            Column::Fact(_)
            | Column::Param(_)
            | Column::Metric(_)
            | Column::Asked(_)
            | Column::Expression(_) => name,
        }
    }

    fn with_zone(&self, name: &str) -> String {
        match self.cells.zone.iana_name() {
            Some(zone) => format!("{name} ({zone})"),
            None => name.to_owned(),
        }
    }

    fn summary(&mut self, groups: &Groups) -> Result<(), NoBook> {
        if groups.by.is_empty() {
            self.summary_of_all(groups)
        } else {
            self.summary_by(groups)
        }
    }

    /// A row per metric.
    fn summary_of_all(&mut self, groups: &Groups) -> Result<(), NoBook> {
        let mut rows = Vec::new();
        for group in &groups.rows {
            let metrics = groups.metrics.iter().zip(&group.stats);
            for (name, stats) in metrics.filter(|(name, _)| !is_step(name)) {
                let best = Objective::known(name, groups.best.as_ref());
                rows.push(vec![
                    self.cells.text(&groups.title(name)),
                    self.cells.value(&Value::Whole(stats.count as i64)),
                    self.cells.number(stats.mean),
                    self.cells.number(stats.deviation),
                    self.cells.number(stats.best),
                    best.and_then(|best| self.cells.text(best.direction())),
                ]);
            }
        }
        let titles = ["metric", "n", "mean", "deviation", "best", "best is"];
        let titles = titles.map(|title| (title.to_owned(), false));
        self.sheet("Summary", titles.to_vec(), rows)?;
        Ok(())
    }

    /// A row per group.
    fn summary_by(&mut self, groups: &Groups) -> Result<(), NoBook> {
        // A chart takes one column for the names of its points.
        let has_name = groups.by.len() > 1;
        let named = has_name.then(|| "group".to_owned());
        let by = named.into_iter().chain(groups.by.iter().cloned());
        let mut titles: Vec<(String, bool)> = by.map(|title| (title, false)).collect();
        titles.extend(["n", "finished"].map(|title| (title.to_owned(), false)));
        let metrics: Vec<SummaryMetric> = (groups.metrics.iter().enumerate())
            .filter(|(_, name)| !is_step(name))
            .map(|(at, name)| SummaryMetric {
                at,
                best: Objective::known(name, groups.best.as_ref()),
                has_count: (groups.rows.iter()).any(|row| row.stats[at].count != row.ids.len()),
            })
            .collect();
        let mut charted = None;
        for metric in &metrics {
            let name = groups.title(&groups.metrics[metric.at]);
            if metric.has_count {
                titles.push((format!("{name} n"), false));
            }
            let is_wanted = match &groups.best {
                Some(asked) => asked.name == groups.metrics[metric.at],
                None => metric.best.is_some(),
            };
            if is_wanted && charted.is_none() {
                charted = Some((name.clone(), titles.len()));
            }
            titles.push((format!("{name} mean"), true));
            titles.push((format!("{name} deviation"), true));
            let best = metric.best.iter();
            titles.extend(best.map(|best| (format!("best {}", best.title()), true)));
        }
        let rows = groups.rows.iter().map(|group| {
            let name = has_name.then(|| self.cells.text(&group_name(groups, group)));
            let mut row: Vec<BookCell> = name.into_iter().collect();
            for param in &group.params {
                let value = param.as_ref().map_or(Value::Unknown, Value::Param);
                row.push(self.cells.value(&value));
            }
            row.push(self.cells.value(&Value::Whole(group.ids.len() as i64)));
            row.push(self.cells.value(&Value::Whole(group.finished as i64)));
            for metric in &metrics {
                let stats = &group.stats[metric.at];
                if metric.has_count {
                    row.push(self.cells.value(&Value::Whole(stats.count as i64)));
                }
                row.push(self.cells.number(stats.mean));
                row.push(self.cells.number(stats.deviation));
                if metric.best.is_some() {
                    row.push(self.cells.number(stats.best));
                }
            }
            row
        });
        let rows: Vec<Vec<BookCell>> = rows.collect();
        let count = rows.len();
        let sheet = self.sheet("Summary", titles, rows)?;
        if let Some((name, column)) = charted.filter(|_| GROUPS.contains(&count)) {
            let by = groups.by.join(", ");
            // A sheet has no more columns.
            let y = u16::try_from(column).unwrap_or(u16::MAX);
            self.made.book.charts.push(NewChart {
                title: format!("{name} by {by}: mean and deviation"),
                x_title: by,
                y_title: name.clone(),
                sheet,
                kind: ChartKind::Points {
                    deviation: y.saturating_add(1),
                },
                series: vec![ChartSeries {
                    name,
                    x: 0,
                    y,
                    rows: (0, count as u32 - 1),
                }],
            });
        }
        Ok(())
    }

    fn about(&mut self, about: Vec<(String, String)>) -> Result<(), NoBook> {
        let cut = self.cells.cut;
        if cut > 0 {
            self.made.notes.push(format!(
                "{} cut: a cell holds 32767 characters",
                match cut {
                    1 => "1 text was".to_owned(),
                    cut => format!("{cut} texts were"),
                }
            ));
        }
        let notes = self.made.notes.iter().cloned();
        let notes = notes.map(|note| ("note".to_owned(), note));
        let mut rows = Vec::new();
        for (title, value) in about.into_iter().chain(notes) {
            rows.push(vec![self.cells.text(&title), self.cells.text(&value)]);
        }
        let titles = ["about", "value"].map(|title| (title.to_owned(), false));
        self.sheet("About", titles.to_vec(), rows)?;
        Ok(())
    }
}

fn has_room(what: &'static str, count: usize, max: u32) -> Result<(), NoBook> {
    if count > max as usize {
        Err(NoBook::TooMany { what, count, max })
    } else {
        Ok(())
    }
}

/// The columns of a metric in a summary.
#[derive(Debug)]
struct SummaryMetric {
    /// Its place among the metrics.
    at: usize,
    /// How it is best, where that is known.
    best: Option<Objective>,
    /// Whether runs lack it.
    has_count: bool,
}

/// `lr 0.1, layers 2`.
fn group_name(groups: &Groups, group: &ResultGroup) -> String {
    let params = groups.by.iter().zip(&group.params);
    let params =
        params.filter_map(|(name, param)| Some(format!("{name} {}", param.as_ref()?.text)));
    params.collect::<Vec<_>>().join(", ")
}

/// Parameters whose values differ, but for repetitions; none when no two runs would share a
/// group.
fn differing(views: &[ExperimentView]) -> Vec<String> {
    let groups = |by: &[String]| {
        let keys = views.iter().map(|view| results::group_key(view, by));
        keys.collect::<std::collections::HashSet<_>>().len()
    };
    let mut by = params(views);
    by.retain(|name| !REPETITIONS.contains(&name.as_str()));
    by.retain(|name| groups(std::slice::from_ref(name)) > 1);
    if groups(&by) < views.len() {
        by
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use nero_table::CellValue;
    use nero_wire::v1::{MetricSummary, Param};

    use super::*;

    fn metric(name: &str, last: f64) -> MetricSummary {
        MetricSummary {
            name: name.to_owned(),
            last,
            min: last / 2.0,
            max: last,
            count: 1,
            ..MetricSummary::default()
        }
    }

    fn view(id: u64, params: &[(&str, &str)], loss: f64) -> ExperimentView {
        let params = params.iter().map(|(name, text)| Param {
            name: (*name).to_owned(),
            text: (*text).to_owned(),
            json: (*text).to_owned(),
        });
        ExperimentView {
            id,
            run: 1,
            name: format!("r{id}"),
            state: "finished".to_owned(),
            params: params.collect(),
            metrics: vec![metric("epoch", 9.0), metric("loss", loss)],
            ..ExperimentView::default()
        }
    }

    fn of(runs: &Runs, by: &[String], series: Vec<ThinSeries>) -> Result<ResultBook, NoBook> {
        make(BookParts {
            runs,
            by,
            series,
            about: vec![("made".to_owned(), "now".to_owned())],
            zone: TimeZone::UTC,
        })
    }

    fn sheet<'a>(made: &'a ResultBook, name: &str) -> (Vec<&'a str>, &'a [Vec<BookCell>]) {
        let sheets = made.book.sheets.iter().position(|sheet| sheet.name == name);
        let at = sheets.unwrap_or_else(|| panic!("no sheet {name}"));
        let columns = made.book.sheets[at].columns.iter();
        (
            columns.map(|column| column.title.as_str()).collect(),
            &made.rows[at],
        )
    }

    fn number(text: &str) -> BookCell {
        Some(CellValue::Number(text.to_owned()))
    }

    #[test]
    fn repetitions_are_a_group_with_its_best() {
        let views = [
            view(1, &[("lr", "0.1"), ("seed", "1")], 4.0),
            view(2, &[("lr", "0.1"), ("seed", "2")], 2.0),
            view(3, &[("lr", "0.2"), ("seed", "1")], 8.0),
        ];
        let made = of(&Runs::of(&views, None), &[], Vec::new()).unwrap();
        let (titles, rows) = sheet(&made, "Summary");
        assert_eq!(
            titles,
            [
                "lr",
                "n",
                "finished",
                "loss mean",
                "loss deviation",
                "best min(loss)"
            ]
        );
        assert_eq!(
            rows[0][..4],
            [number("0.1"), number("2"), number("2"), number("3")]
        );
        assert_eq!(rows[0][5], number("1"));
        assert_eq!(
            rows[1],
            [
                number("0.2"),
                number("1"),
                number("1"),
                number("8"),
                None,
                number("4")
            ]
        );
        assert_eq!(made.book.charts.len(), 1);
        let (_, runs) = sheet(&made, "Runs");
        assert_eq!(runs.len(), 3);
    }

    #[test]
    fn runs_that_all_differ_are_one_summary_with_a_row_per_metric() {
        let views = [
            view(1, &[("lr", "0.1")], 4.0),
            view(2, &[("lr", "0.2")], 2.0),
        ];
        let made = of(&Runs::of(&views, None), &[], Vec::new()).unwrap();
        let (titles, rows) = sheet(&made, "Summary");
        assert_eq!(titles[..3], ["metric", "n", "mean"]);
        let loss = Some(CellValue::Text("loss".to_owned()));
        assert_eq!(rows[0][..3], [loss, number("2"), number("3")]);
        assert_eq!(rows.len(), 1);
    }

    #[test]
    fn what_no_chart_can_draw_stands_beside_it() {
        let views = [view(1, &[], 4.0)];
        let point = |value| crate::series::SeriesPoint {
            step: None,
            value,
            time_ms: 0,
            segment: 0,
        };
        let series = ThinSeries {
            experiment: 1,
            run: 1,
            name: "loss".to_owned(),
            points: vec![point(1.0), point(f64::NAN)],
            count: 9000,
        };
        let made = of(&Runs::of(&views, None), &[], vec![series]).unwrap();
        let (titles, rows) = sheet(&made, "Series");
        assert_eq!(titles[3..], ["step", "value", "time (UTC)", "not finite"]);
        let nan = Some(CellValue::Text("NaN".to_owned()));
        assert_eq!(rows[1][3..], [number("2"), None, None, nan]);
        assert_eq!(made.book.charts[0].title, "loss by step");
        assert!(
            made.notes[0].contains("1 series is thinned"),
            "{:?}",
            made.notes
        );
        let (_, about) = sheet(&made, "About");
        assert_eq!(about.len(), 2);
    }

    #[test]
    fn what_a_sheet_has_no_room_for_is_refused_with_the_limit() {
        let mut making = BookBuilder {
            cells: BookCells {
                zone: TimeZone::UTC,
                cut: 0,
            },
            made: ResultBook {
                book: NewBook::default(),
                rows: Vec::new(),
                notes: Vec::new(),
            },
        };
        let refused = making
            .sheet("Runs", Vec::new(), vec![Vec::new(); 1 << 20])
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a sheet has at most 1048576 rows with its header, and there are 1048577"
        );
        let rows = vec![Vec::new(); (1 << 20) - 1];
        assert!(making.sheet("Runs", Vec::new(), rows).is_ok());
        let refused = making.sheet("Runs", vec![(String::new(), false); 16_385], Vec::new());
        assert_eq!(
            refused.unwrap_err().to_string(),
            "a sheet has at most 16384 columns, and there are 16385"
        );
    }

    #[test]
    fn points_of_many_runs_fit_one_sheet() {
        let many = vec![view(1, &[], 1.0); 5000];
        assert!(points_max(&many) * 10_000 < 1 << 20);
        assert_eq!(points_max(&many[..3]), SERIES_POINTS_MAX);
        assert_eq!(points_max(&[]), SERIES_POINTS_MAX);
    }
}
