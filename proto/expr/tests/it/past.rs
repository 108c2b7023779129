//! The past of metrics, durations, lists and functions of numbers.

use nero_expr::{Expr, Fact, Truth, Value};

use crate::run::{Run, ago, context, parse};

const YES: Result<Truth, nero_expr::ExprError> = Ok(Truth::True);
const NO: Result<Truth, nero_expr::ExprError> = Ok(Truth::False);
const UNKNOWN: Result<Truth, nero_expr::ExprError> = Ok(Truth::Unknown);

#[test]
fn aggregates_are_of_all_points_or_of_a_window() {
    let asked = "mean(loss, 64s) > 1 && loss@3 > 0";
    let points = [
        (1.0, 0, 9.0),
        (2.0, 100, 4.0),
        (4.0, 120, 2.0),
        (5.0, 130, 3.0),
    ];
    let run = Run::new().points("val loss", asked, &points);
    for text in [
        "min(valloss) == 2 && max(`val loss`) == 9 && mean(val_loss) == 4.5",
        "min(metric('val loss'), 64s) == 2 && max(valloss, 64s) == 4 && mean(valloss, 64) == 3",
        "first(valloss) == 9 && last(valloss) == 3 && first(valloss, 64s) == 4",
        "count(valloss) == 4 && count(valloss, 64s) == 3",
        "age(valloss) == 0 && rate(valloss, 64s) == -1 / 30",
        "best(valloss) == 2 && best(valloss, 64s) >= best(valloss)",
        "valloss@3 == 4 && metric('val loss')@3 == 4",
    ] {
        assert_eq!(run.says(text), YES, "{text}");
        assert_eq!(run.says_standing(text), YES, "{text}");
    }
    assert_eq!(run.says("valloss@9 > 0"), UNKNOWN, "not kept");
    assert!(run.says("min(los) > 0").is_err());
    assert_eq!(run.says_standing("min(los) > 0"), UNKNOWN);
    assert_eq!(
        run.says_standing("count(los) == 0"),
        YES,
        "it never printed it"
    );
}

#[test]
fn the_best_is_printed_as_what_it_is() {
    assert_eq!(
        parse("best(loss, 30m) > 1").canonical(),
        "min(loss, 30m) > 1"
    );
    assert_eq!(parse("best(acc) > 1").canonical(), "max(acc) > 1");
    assert_eq!(
        parse("min(metric.runtime) > 1").canonical(),
        "min(metric.runtime) > 1"
    );
    assert_eq!(
        parse("min(metric.loss)+ loss@1>1").canonical(),
        "(min(loss) + loss@1) > 1"
    );
    assert_eq!(
        parse("`a b`@1.5>-inf").canonical(),
        "metric('a b')@1.5 > -inf"
    );
    assert_eq!(
        parse("abs(a-b - c) in (1, -2,nan) after 5m").canonical(),
        "(abs(a-b - c) in (1, -2, nan)) after 5m"
    );
    let standing = Expr::parse("a>1 && b>2 for 10m", &context().standing()).unwrap();
    assert_eq!(standing.canonical(), "(a > 1) && ((b > 2) for 10m)");
    let text = "x > 1 and not crashed or state in (lost, crashed)";
    let canonical = "((x > 1) && !crashed) || (state in ('lost', 'crashed'))";
    assert_eq!(parse(text).canonical(), canonical);
}

#[test]
fn lists_numbers_and_times_of_day_mean_what_they_say() {
    let run = Run::new()
        .metric("loss", f64::NAN)
        .metric("big", f64::INFINITY)
        .metric("x", -2.5)
        .param("opt", Value::Text("adam"))
        .param("in", Value::number(3.0))
        .fact(Fact::Signal, Value::number(9.0))
        .fact(Fact::Tstart, ago(3600))
        .state("crashed");
    for text in [
        "loss == nan && !(x == nan) && x != nan && loss in (1, nan)",
        "big == inf && x > -inf && -big == -inf",
        "abs(x) == 2.5 && sqrt(abs(x) - 0.25) == 1.5 && round(x) == -3",
        "exp(0) == 1 && log(exp(2)) == 2 && round(log(0 - x) * 100) == 92",
        "x in (1, -2.5) && !(x in (1, 2)) && opt in ('sgd', 'adam')",
        "state in (lost, crashed) && signal in (TERM, KILL) && in == 3 && in in (3)",
        // It is 14:00 in the zone of the test.
        "tstart >= 13:00 && tstart <= 13:00 && tstart > 12:59 && tstart < 14:00 && now == 14:00",
        "not (loss > 1) && not (x > 1)",
    ] {
        assert_eq!(run.says(text), YES, "{text}");
    }
    assert_eq!(run.says("exit in (1, 2)"), UNKNOWN);
    assert_eq!(run.says("exit == nan"), UNKNOWN);
    assert_eq!(run.says("x in (1, exit)"), UNKNOWN);
    assert_eq!(run.says("x in (exit, -2.5)"), YES);
    assert_eq!(run.says("opt == nan"), NO);
}

#[test]
fn after_counts_from_running() {
    let run = |ran_s: f64| {
        Run::new()
            .fact(Fact::Runtime, Value::number(ran_s))
            .metric("x", 1.0)
    };
    assert_eq!(run(59.9).says("x > 0 after 1m"), NO);
    assert_eq!(run(60.0).says("x > 0 after 1m"), YES);
    assert_eq!(run(60.0).says("x > 1 after 1m"), NO);
    assert_eq!(Run::new().metric("x", 1.0).says("x > 0 after 1m"), UNKNOWN);
    assert_eq!(Run::new().metric("x", 1.0).says("x > 1 after 1m"), NO);
}

#[test]
fn a_condition_for_a_time_holds_when_it_held_at_every_look() {
    let (rule, mut bindings) = Run::new().standing("(x > 1) for 10s && y > 0").unwrap();
    assert!(rule.holds() && rule.uses_clock());
    let mut at = |ran_s: f64, x: Option<f64>| {
        let mut run = Run::new()
            .fact(Fact::Runtime, Value::number(ran_s))
            .metric("y", 1.0);
        if let Some(x) = x {
            run = run.metric("x", x);
        }
        for name in ["x", "y"] {
            bindings.see(&rule, nero_expr::NameKind::Metric, name);
        }
        rule.note_held(&mut bindings, &run);
        (rule.eval(&bindings, &run), bindings.held().to_vec())
    };
    assert_eq!(at(0.0, None), (Truth::Unknown, vec![None]));
    assert_eq!(at(1.0, Some(2.0)), (Truth::False, vec![Some(1.0)]));
    assert_eq!(at(5.0, Some(0.0)), (Truth::False, vec![None]));
    assert_eq!(at(6.0, Some(2.0)), (Truth::False, vec![Some(6.0)]));
    assert_eq!(at(15.999, Some(3.0)), (Truth::False, vec![Some(6.0)]));
    assert_eq!(at(16.0, Some(2.0)), (Truth::True, vec![Some(6.0)]));
    assert_eq!(at(17.0, None), (Truth::Unknown, vec![None]));
}
