use std::sync::Arc;

use nero_expr::ParseContext;
use proptest::prelude::*;

use super::*;
use crate::facts::now::PresentTime;
use crate::fold::experiment::Experiment;
use crate::tests::{Lab, definition};

fn rule(text: &str) -> Expr {
    Expr::parse(text, &ParseContext::utc(0).standing()).unwrap()
}

fn experiments(count: usize) -> Vec<Arc<Experiment>> {
    let mut lab = Lab::default();
    let named = (0..count).map(|at| nero_format::Definition {
        block: "a".to_owned().into(),
        ..definition(&format!("a{at}"), "1")
    });
    lab.add("/lab", named.collect());
    lab.state.experiments.iter().map(Arc::clone).collect()
}

/// Lines as they were printed: time, step, values of `loss` and `acc`.
type Line = (u64, f64, Option<f64>, Option<f64>);

fn series(lines: &[Line]) -> [Points; 2] {
    [2, 3].map(|column| {
        let value = |line: &Line| if column == 2 { line.2 } else { line.3 };
        let points = lines.iter().filter_map(|line| {
            Some(PastPoint {
                value: value(line)?,
                step: line.1,
                generation: 0,
                at_ms: line.0,
            })
        });
        Points {
            earlier: Vec::new(),
            since_start: points.collect(),
        }
    })
}

fn past_run<'a>(
    experiment: &'a Experiment,
    now: &'a PresentTime,
    points: &'a [Points; 2],
    started_ms: i64,
    ran_ms: u64,
) -> PastRun<'a> {
    let named = ["loss", "acc"].into_iter().zip(points);
    let printed = named.filter(|(_, points)| !points.since_start.is_empty());
    PastRun {
        sight: Sight::defined(experiment, now),
        started_ms,
        ran_ms,
        limit_ms: 0,
        sample_ms: 1000,
        series: printed
            .map(|(name, points)| PastSeries { name, points })
            .collect(),
    }
}

fn fires(text: &str, lines: &[Line], ran_ms: u64) -> Option<u64> {
    let (experiments, now, points) = (experiments(1), PresentTime::default(), series(lines));
    let run = past_run(&experiments[0], &now, &points, 5, ran_ms);
    let fired = replay(&rule(text), &[run]);
    fired[0]
        .as_ref()
        .unwrap()
        .as_ref()
        .map(|fired| fired.ran_ms)
}

const LINES: [Line; 4] = [
    (100, 1.0, Some(0.9), None),
    (2_200, 2.0, Some(0.5), Some(0.1)),
    (2_200, 3.0, Some(0.8), Some(0.2)),
    (9_000, 4.0, Some(0.7), Some(0.3)),
];

#[test]
fn a_rule_fires_at_the_line_or_at_the_moment() {
    for (text, when) in [
        ("loss < 0.6", Some(2_200)),
        ("loss < 0.4", None),
        ("loss@2 < 0.6 && acc >= 0.2", Some(2_200)),
        ("acc > 0.25 && loss > 0.6", Some(9_000)),
        ("count(loss) >= 4", Some(9_000)),
        ("runtime > 3", Some(3_001)),
        ("loss > 0.6 for 4s", Some(6_200)),
        ("loss < 0.6 for 1s", None),
        ("age(loss) >= 2", Some(2_100)),
        ("loss > 0.6 after 9.5s", Some(9_500)),
        ("min(loss, 1s) > 0.65", Some(100)),
        ("param.lr == 1 && acc > 0", Some(2_200)),
        ("id == 1", Some(0)),
    ] {
        assert_eq!(fires(text, &LINES, 10_000), when, "{text}");
    }
}

/// By looking at all lines anew at every millisecond.
fn naive(expr: &Expr, run: &PastRun<'_>) -> Option<u64> {
    let mut lines: Vec<(u64, f64)> = Vec::new();
    for series in &run.series {
        lines.extend(
            series
                .points
                .since_start
                .iter()
                .map(|point| (point.at_ms, point.step)),
        );
    }
    lines.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    lines.dedup();
    let at = |now_ms: u64, read: usize| {
        let mut moment = Moment {
            run,
            at_ms: now_ms,
            latest: vec![None; run.series.len()],
            pasts: vec![SeriesPast::default(); run.series.len()],
            cohort: Vec::new(),
        };
        for (at, series) in run.series.iter().enumerate() {
            for (_, past) in expr.pasts() {
                moment.pasts[at].want(past);
            }
            for point in &series.points.since_start {
                if lines[..read].contains(&(point.at_ms, point.step)) {
                    moment.pasts[at].add(point);
                    moment.latest[at] = Some(point.value);
                }
            }
        }
        let bindings = expr.bind(&moment).unwrap();
        expr.eval(&bindings, &moment).is_true()
    };
    let mut read = 0;
    for now_ms in 0..=run.ran_ms {
        while lines.get(read).is_some_and(|line| line.0 <= now_ms) {
            read += 1;
            if at(now_ms, read) {
                return Some(now_ms);
            }
        }
        if at(now_ms, read) {
            return Some(now_ms);
        }
    }
    None
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let line = (
        1u64..40,
        0u8..8,
        proptest::option::of(0u8..10),
        proptest::option::of(0u8..10),
    );
    proptest::collection::vec(line, 0..20).prop_map(|lines| {
        let mut at_ms = 0;
        let lines = lines.into_iter().map(|(gap, step, loss, acc)| {
            at_ms += gap;
            let value = |number: Option<u8>| number.map(f64::from);
            (at_ms, f64::from(step), value(loss), value(acc))
        });
        lines.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_replay_is_a_look_at_everything_at_every_moment(lines in lines(), limit in 0u8..10, wait in 1u64..500) {
        let (experiments, now, points) = (experiments(1), PresentTime::default(), series(&lines));
        let ran_ms = lines.last().map_or(0, |line| line.0) + 300;
        let run = past_run(&experiments[0], &now, &points, 5, ran_ms);
        for text in [
            format!("loss > {limit}"),
            format!("loss@3 > {limit} && acc < 9"),
            format!("mean(loss) + acc > {limit}"),
            format!("min(loss) < {limit} && count(acc) > 2 || max(acc) > 8"),
            format!("runtime > {wait}ms && loss >= {limit}"),
            format!("age(loss) > {wait}ms"),
            format!("acc > {limit} after {wait}ms"),
        ] {
            let expr = rule(&text);
            let fired = replay(&expr, std::slice::from_ref(&run)).remove(0).unwrap();
            prop_assert_eq!(fired.map(|fired| fired.ran_ms), naive(&expr, &run), "{}", text);
        }
    }

    #[test]
    fn a_cohort_is_replayed_as_if_all_of_it_were_looked_at_after_each_line(
        all in proptest::collection::vec(lines(), 1..5),
    ) {
        let (experiments, now) = (experiments(all.len()), PresentTime::default());
        let points: Vec<_> = all.iter().map(|lines| series(lines)).collect();
        let runs: Vec<PastRun<'_>> = (experiments.iter().zip(&points).enumerate())
            .map(|(at, (one, points))| past_run(one, &now, points, at as i64, 0))
            .collect();
        let expr = rule("loss > median(peers.loss) && count(peers.acc) > 0");
        let fired = replay(&expr, &runs);
        // All lines by time, with the values that each run had by then.
        let mut events: Vec<(i64, usize, Line)> = Vec::new();
        for (at, lines) in all.iter().enumerate() {
            events.extend(lines.iter().map(|line| (at as i64 + line.0 as i64, at, *line)));
        }
        events.sort_by_key(|(time, at, _)| (*time, *at));
        let mut latest = vec![(None, None); all.len()];
        let mut ended: Vec<Option<u64>> = vec![None; all.len()];
        for (_, at, line) in events {
            if ended[at].is_some() || line.2.is_none() && line.3.is_none() {
                continue;
            }
            latest[at] = (line.2.or(latest[at].0), line.3.or(latest[at].1));
            let others = || latest.iter().enumerate().filter(|(other, _)| *other != at);
            let mut losses: Vec<f64> = others().filter_map(|(_, known)| known.0).collect();
            losses.sort_by(f64::total_cmp);
            let has_acc = others().any(|(_, known)| known.1.is_some());
            let middle = losses.len() / 2;
            let median = match losses.len() {
                0 => continue,
                odd if odd % 2 == 1 => losses[middle],
                _ => losses[middle - 1].midpoint(losses[middle]),
            };
            if has_acc && latest[at].0.is_some_and(|loss| loss > median) {
                ended[at] = Some(line.0);
            }
        }
        let fired: Vec<Option<u64>> =
            fired.into_iter().map(|one| one.unwrap().map(|fired| fired.ran_ms)).collect();
        prop_assert_eq!(fired, ended);
    }
}

#[test]
fn the_best_third_is_good() {
    let best = |value: f64| Some(BestValue { value, at_ms: 0 });
    let bests = [best(0.5), best(0.1), None, best(0.3), best(0.2)];
    assert_eq!(good(&bests, false), [false, true, false, false, true]);
    assert_eq!(good(&bests, true), [true, false, false, true, false]);
    assert_eq!(good(&[None], true), [false]);
}
