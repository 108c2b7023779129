//! `metrics --try FILE|RUN`: what the watcher would find there, by the same code.

use std::io::Read;

use nero_metrics::file::{DOCUMENT_BYTES_MAX, FileForm, document_lines};
use nero_metrics::finder::{Finder, FinderOptions};
use nero_metrics::progress::ProgressKind;
use nero_metrics::recipe;
use nero_metrics::survey::{MissedLine, Survey, SurveyedMetric};
use nero_model::safe::Safe;
use nero_views::{json, object, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{LogChunk, LogsRequest, ShowRequest};
use serde_json::{Value, json};

use crate::args::Metrics;
use crate::connect::READ_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::say::Screen;
use crate::say::table::{self, Cell, Column};
use crate::session::Session;

/// Bytes that are read of a file at once.
const BLOCK_BYTES: usize = 256 * 1024;

/// What was found in one log.
struct LogSurvey {
    /// `stdout` and `stderr` of a run; empty for a file.
    log: &'static str,
    survey: Survey,
}

/// Runs the verb for `what`: a file, `-`, an experiment's number or a run.
pub async fn run(session: &mut Session, args: &Metrics, what: &str) -> Result<u8, Stop> {
    let is_run = what.starts_with(|c: char| c.is_ascii_digit())
        && what
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_file = what == "-" || std::path::Path::new(what).exists();
    let surveyed = match (is_file, is_run) {
        (true, _) => vec![LogSurvey {
            log: "",
            survey: of_file(what, finder(FinderOptions::default(), args)?)?,
        }],
        (false, true) => of_run(session, args, what).await?,
        (false, false) => {
            let fault = Fault::usage(format!("`{what}` is no file and no run"));
            let hint = "for example neroman metrics --try train.log, or --try 144.2";
            return Err(fault.hint(hint).into());
        }
    };
    let (out, fields) = (&session.out, || as_json(&surveyed));
    out.reply(&[], fields, || as_text(&out.screen, &surveyed))?;
    let is_empty = surveyed.iter().all(|one| one.survey.seen().is_empty());
    Ok(code::ok_if(!is_empty))
}

/// A finder that also reads by the patterns and recipes of `--match`.
fn finder(mut reading: FinderOptions, args: &Metrics) -> Result<Finder, Stop> {
    for pattern in &args.patterns {
        match recipe::patterns(pattern) {
            Some(patterns) => {
                let patterns = patterns.iter().map(|one| (*one).to_owned());
                reading.patterns.extend(patterns);
            }
            None => reading.patterns.push(pattern.clone()),
        }
    }
    let (finder, wrong) = Finder::new(&reading);
    match wrong.first() {
        None => Ok(finder),
        Some(error) => {
            let pattern = Safe::line(error.pattern());
            let fault = Fault::usage(format!("the pattern `{pattern}`: {}", error.reason()));
            let names: Vec<&str> = recipe::RECIPES.iter().map(|one| one.name).collect();
            Err(fault
                .hint(format!(
                    "groups name the metrics: 'loss is (?<loss>\\S+)'; recipes are {}",
                    names.join(", ")
                ))
                .into())
        }
    }
}

fn of_file(path: &str, finder: Finder) -> Result<Survey, Stop> {
    let cannot = |error: std::io::Error| {
        Stop::from(Fault::failed(format!("cannot read {path}")).because(&error))
    };
    let mut file: Box<dyn Read> = match path {
        "-" => Box::new(std::io::stdin().lock()),
        path => Box::new(std::fs::File::open(path).map_err(cannot)?),
    };
    let form = FileForm::of(path);
    let mut survey = Survey::of_file(finder, form);
    if form == FileForm::Document {
        let mut text = Vec::new();
        let limit = DOCUMENT_BYTES_MAX;
        file.take(limit + 1)
            .read_to_end(&mut text)
            .map_err(cannot)?;
        let whole = (text.len() as u64 <= limit).then(|| document_lines(&text));
        let Some(lines) = whole.flatten() else {
            let fault = Fault::failed(format!("{path} is no whole JSON value"));
            return Err(fault.hint(format!("of at most {} MiB", limit >> 20)).into());
        };
        survey.feed(&lines);
        survey.finish();
        return Ok(survey);
    }
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match file.read(&mut block).map_err(cannot)? {
            0 => break,
            length => survey.feed(&block[..length]),
        }
    }
    survey.finish();
    Ok(survey)
}

/// Both logs of a run, as they are now, read as its experiment says.
async fn of_run(session: &mut Session, args: &Metrics, what: &str) -> Result<Vec<LogSurvey>, Stop> {
    let asked = ShowRequest {
        what: what.to_owned(),
        ..ShowRequest::default()
    };
    let shown = session.read(asked, ManClient::show).await?;
    let more = shown.metric_reading.unwrap_or_default();
    let reading = FinderOptions {
        patterns: shown.metric_patterns,
        only: more.only,
        skip: more.skip,
        decimal_comma: more.decimal_comma,
        no_tables: more.no_tables,
    };
    let mut surveyed = Vec::new();
    for (log, stderr) in [("stdout", false), ("stderr", true)] {
        let mut survey = Survey::new(finder(reading.clone(), args)?);
        read_log(session, what, stderr, &mut survey).await?;
        surveyed.push(LogSurvey { log, survey });
    }
    Ok(surveyed)
}

async fn read_log(
    session: &mut Session,
    what: &str,
    stderr: bool,
    survey: &mut Survey,
) -> Result<(), Stop> {
    let asked = LogsRequest {
        what: what.to_owned(),
        stderr,
        ..LogsRequest::default()
    };
    let take = async |chunk: Option<LogChunk>| match chunk {
        Some(chunk) => {
            survey.feed(&chunk.data);
            Ok(!chunk.end)
        }
        None => Err(Fault::no_daemon(format!("the log of {what} ended early")).hint("ask again")),
    };
    session
        .each(READ_DEADLINE, asked, ManClient::logs, take)
        .await?;
    survey.finish();
    Ok(())
}

fn as_text<'a>(screen: &Screen, surveyed: &'a [LogSurvey]) -> String {
    let columns: [Column<'_, (&LogSurvey, &SurveyedMetric)>; 7] = [
        ("metric", &|(_, seen)| Cell::text(&seen.name)),
        ("points", &|(_, seen)| Cell::whole(seen.points)),
        ("steps", &|(_, seen)| Cell::right(&steps(seen.steps))),
        ("first", &|(_, seen)| Cell::number(seen.values.0)),
        ("last", &|(_, seen)| Cell::number(seen.values.1)),
        ("line", &|(_, seen)| Cell::whole(seen.line)),
        ("log", &|(one, _)| Cell::text(one.log)),
    ];
    let is_run = surveyed.len() > 1;
    let columns = if is_run { &columns[..] } else { &columns[..6] };
    let of_log = |one: &'a LogSurvey| one.survey.seen().iter().map(move |seen| (one, seen));
    let seen: Vec<_> = surveyed.iter().flat_map(of_log).collect();
    let mut page = if seen.is_empty() {
        "no metrics\n".to_owned()
    } else {
        table::list(screen, columns, &seen)
    };
    for one in surveyed {
        let Some(told) = one.survey.progress() else {
            continue;
        };
        let (kind, lines, of) = (
            kind(told.source),
            text::plural(told.lines, "line"),
            of(one.log),
        );
        let (first, last) = (text::percent(told.shares.0), text::percent(told.shares.1));
        page.push_str(&format!(
            "\nprogress by {kind} in {lines}{of}: {first} … {last}\n"
        ));
    }
    for one in surveyed {
        let survey = &one.survey;
        let (partly, lines) = (survey.partly_read(), survey.partly_read_lines());
        page.push_str(&listed(one.log, lines, "were read in part", partly));
        let (missed, lines) = (survey.missed(), survey.missed_lines());
        page.push_str(&listed(one.log, lines, "with digits gave nothing", missed));
    }
    page
}

fn steps((first, last): (f64, f64)) -> String {
    if first == last {
        text::number(first)
    } else {
        format!("{} … {}", text::number(first), text::number(last))
    }
}

/// The first of so many lines of a log, below what is said of them.
fn listed(log: &str, lines: u64, what: &str, first: &[MissedLine]) -> String {
    if lines == 0 {
        return String::new();
    }
    let (count, of) = (text::plural(lines, "line"), of(log));
    let what = match lines {
        1 => what.replace("were", "was"),
        _ => what.to_owned(),
    };
    let mut page = format!("\n{count}{of} {what}:\n");
    for one in first {
        page.push_str(&format!("  {}: {}\n", one.line, Safe::line(&one.text)));
    }
    if lines > first.len() as u64 {
        page.push_str("  …\n");
    }
    page
}

fn of(log: &str) -> String {
    match log {
        "" => String::new(),
        log => format!(" of {log}"),
    }
}

/// What tells the progress.
fn kind(source: ProgressKind) -> &'static str {
    match source {
        ProgressKind::Bar => "bar",
        ProgressKind::Steps => "steps",
        ProgressKind::Metric => "metric",
    }
}

fn as_json(surveyed: &[LogSurvey]) -> Value {
    let log = |one: &LogSurvey| (!one.log.is_empty()).then_some(one.log);
    let metrics = surveyed.iter().flat_map(|one| {
        one.survey.seen().iter().map(move |seen| {
            object!(seen =>
                log: log(one), name, points,
                steps: [json::number(seen.steps.0), json::number(seen.steps.1)],
                values: [json::number(seen.values.0), json::number(seen.values.1)],
                line, text,
            )
        })
    });
    let lines_of = |lines: fn(&Survey) -> &[MissedLine]| -> Vec<Value> {
        let all = surveyed.iter();
        let all = all.flat_map(|one| lines(&one.survey).iter().map(move |line| (one, line)));
        all.map(|(one, line)| object!(line => log: log(one), line, text))
            .collect()
    };
    let progress = surveyed.iter().filter_map(|one| {
        let told = one.survey.progress()?;
        Some(object!(told =>
            log: log(one), source: kind(told.source), lines,
            shares: [json::number(told.shares.0), json::number(told.shares.1)],
        ))
    });
    let count =
        |lines: fn(&Survey) -> u64| -> u64 { surveyed.iter().map(|one| lines(&one.survey)).sum() };
    json!({
        "metrics": metrics.collect::<Vec<_>>(),
        "missed": lines_of(Survey::missed),
        "missed_lines": count(Survey::missed_lines),
        "partly_read": lines_of(Survey::partly_read),
        "partly_read_lines": count(Survey::partly_read_lines),
        "progress": progress.collect::<Vec<_>>(),
    })
}
