//! Outputs in the form of well-known programs, each with its series, which were written by
//! hand before the code read them (`tests/corpus`).
//!
//! `#### title`, the output, `--- series`, then a line for each series, `loss: 0.5@1 0.4@2` (a
//! step that does not matter is left out), `...` where it has further ones, `none` where it has
//! none, and the newest progress of those that matter (`progress: 0.5`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use nero_metrics::finder::{Context, Finder, FinderOptions};
use nero_metrics::found::LinePairs;

type Points = Vec<(f64, f64)>;

/// What an output gives.
struct OutputSeries {
    series: BTreeMap<String, Points>,
    progress: Option<f64>,
}

fn read(output: &str) -> OutputSeries {
    let mut finder = Finder::new(&FinderOptions::default()).0;
    let mut context = Context::default();
    let mut series: BTreeMap<String, Points> = BTreeMap::new();
    let mut progress = None;
    for line in output.split(['\n', '\r']) {
        let found = finder.find(line.as_bytes(), &mut context);
        progress = found.progress.map(|done| done.share).or(progress);
        for (name, value) in found.pairs() {
            let points = series.entry(name.to_owned()).or_default();
            let last = points.last().map(|(_, step)| *step);
            let (step, _) = found.step_after(last);
            points.push((value, step));
        }
    }
    OutputSeries { series, progress }
}

/// Whether points are those of a line `0.5@1 0.4@2`.
fn are(points: &Points, wanted: &str) -> bool {
    let number = |text: &str| -> f64 { text.parse().unwrap() };
    let near = |one: f64, other: f64| (one - other).abs() <= 1e-12 * other.abs();
    let wanted: Vec<&str> = wanted.split_whitespace().collect();
    let fits = |((value, step), wanted): (&(f64, f64), &&str)| {
        let (wanted, at) = wanted.split_once('@').unwrap_or((wanted, ""));
        near(*value, number(wanted)) && (at.is_empty() || near(*step, number(at)))
    };
    wanted.len() == points.len() && points.iter().zip(&wanted).all(fits)
}

fn shown(points: &Points) -> String {
    let points = points.iter().map(|(value, step)| format!("{value}@{step}"));
    points.collect::<Vec<_>>().join(" ")
}

/// The mistakes of one output.
fn mistakes(output: &str, wanted: &str) -> String {
    let given = read(output);
    let mut others: Vec<&str> = given.series.keys().map(String::as_str).collect();
    let mut mistakes = String::new();
    let mut may_have_others = false;
    for line in wanted
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        if line == "..." {
            may_have_others = true;
        } else if let Some(progress) = line.strip_prefix("progress: ") {
            let shown = given.progress.map_or("none".to_owned(), |share| {
                format!("{}", (share * 1e4).round() / 1e4)
            });
            if shown != progress {
                writeln!(mistakes, "  progress {shown}, not {progress}").unwrap();
            }
        } else if line != "none" {
            let (name, points) = line.rsplit_once(": ").unwrap();
            others.retain(|other| *other != name);
            match given.series.get(name) {
                Some(given) if are(given, points) => {}
                Some(given) => {
                    writeln!(mistakes, "  {name}: {}, not {points}", shown(given)).unwrap();
                }
                None => writeln!(mistakes, "  no {name}").unwrap(),
            }
        }
    }
    for other in others {
        let points = shown(&given.series[other]);
        if !may_have_others {
            writeln!(mistakes, "  unexpected {other}: {points}").unwrap();
        } else if mistakes.contains("  no ") {
            writeln!(mistakes, "  (there is {other}: {points})").unwrap();
        }
    }
    mistakes
}

/// The texts of the corpus.
fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let texts = paths
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap());
    texts.collect()
}

#[test]
fn a_line_is_read_as_by_a_finder_that_saw_no_line_before() {
    let next = |c: char| match c.to_digit(10) {
        Some(digit) => char::from_digit((digit + 1) % 10, 10).unwrap(),
        None => c,
    };
    for all in corpus() {
        // Each line comes again with other digits: `Fold 1` is then `Fold 2`.
        let others: String = all.chars().map(next).collect();
        let lines = all.lines().zip(others.lines());
        let mut kept = Finder::new(&FinderOptions::default()).0;
        let (mut context, mut fresh_context) = (Context::default(), Context::default());
        for line in lines.flat_map(|(line, other)| [line, other, line]) {
            let pairs = |found: &LinePairs| -> Vec<(String, u64)> {
                let pairs = found.pairs();
                pairs
                    .map(|(name, value)| (name.to_owned(), value.to_bits()))
                    .collect()
            };
            let one = pairs(kept.find(line.as_bytes(), &mut context));
            let mut fresh = Finder::new(&FinderOptions::default()).0;
            let other = pairs(fresh.find(line.as_bytes(), &mut fresh_context));
            assert_eq!(one, other, "{line}");
        }
    }
}

#[test]
fn outputs_of_well_known_programs_give_the_series_written_by_hand() {
    let (mut outputs, mut wrong) = (0, String::new());
    for all in corpus() {
        for one in format!("\n{all}").split("\n#### ").skip(1) {
            let (title, rest) = one.split_once('\n').unwrap();
            let (output, wanted) = rest.split_once("\n--- series\n").unwrap();
            outputs += 1;
            let mistakes = mistakes(output, wanted);
            if !mistakes.is_empty() {
                write!(wrong, "{title}\n{mistakes}").unwrap();
            }
        }
    }
    assert!(outputs >= 80, "{outputs}");
    assert!(wrong.is_empty(), "of {outputs} outputs\n{wrong}");
}
