//! Evaluation is equal to a plain one over a tree that was never text.

use nero_expr::{Fact, Truth, Value};
use proptest::prelude::*;

use crate::run::Run;

/// A number, if it is known.
#[derive(Clone, Debug)]
enum Amount {
    Written(&'static str, f64),
    Metric(&'static str),
    Runtime,
    Negative(Box<Amount>),
    Absolute(Box<Amount>),
    Sum(char, Box<[Amount; 2]>),
}

/// A condition.
#[derive(Clone, Debug)]
enum Claim {
    Flag(&'static str),
    Compared(&'static str, Amount, Amount),
    Listed(Amount, Vec<Amount>),
    /// The age of the start in seconds.
    Started(&'static str, u32),
    Not(Box<Claim>),
    All(Vec<Claim>),
    Any(Vec<Claim>),
    After(Box<Claim>, u32),
}

const METRICS: [(&str, Option<f64>); 6] = [
    ("a", Some(1.5)),
    ("b", Some(-2.0)),
    ("c", Some(f64::NAN)),
    ("d", Some(f64::INFINITY)),
    ("e", Some(0.0)),
    ("f", None),
];
const FLAGS: [(&str, Option<bool>); 3] = [("yay", Some(true)), ("nay", Some(false)), ("hm", None)];
const STARTED_S: i64 = 5000;

fn run(runtime_s: Option<f64>) -> Run {
    let run = METRICS
        .iter()
        .fold(Run::new(), |run, (name, value)| match value {
            Some(value) => run.metric(name, *value),
            None => run,
        });
    let run = FLAGS.iter().fold(run, |run, (name, truth)| match truth {
        Some(truth) => run.param(name, Value::Bool(*truth, None)),
        None => run,
    });
    let run = run.fact(Fact::Tstart, crate::run::ago(STARTED_S));
    match runtime_s {
        Some(runtime_s) => run.fact(Fact::Runtime, Value::number(runtime_s)),
        None => run,
    }
}

impl Amount {
    fn value(&self, runtime_s: Option<f64>) -> Option<f64> {
        match self {
            Amount::Written(_, value) => Some(*value),
            Amount::Metric(name) => METRICS.iter().find(|(one, _)| one == name)?.1,
            Amount::Runtime => runtime_s,
            Amount::Negative(inner) => Some(-inner.value(runtime_s)?),
            Amount::Absolute(inner) => Some(inner.value(runtime_s)?.abs()),
            Amount::Sum(sign, pair) => {
                let (left, right) = (pair[0].value(runtime_s)?, pair[1].value(runtime_s)?);
                Some(match sign {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    '/' => left / right,
                    _ => left % right,
                })
            }
        }
    }

    /// As text inside an operator of this level, with the parentheses that are needed.
    fn text(&self, level: u8) -> String {
        let (own, text) = match self {
            Amount::Written(text, _) | Amount::Metric(text) => (9, (*text).to_owned()),
            Amount::Runtime => (9, "runtime".to_owned()),
            Amount::Absolute(inner) => (9, format!("abs({})", inner.text(0))),
            Amount::Negative(inner) => (8, format!("-{}", inner.text(8))),
            Amount::Sum(sign, pair) => {
                let own = if matches!(sign, '+' | '-') { 6 } else { 7 };
                let (left, right) = (pair[0].text(own), pair[1].text(own + 1));
                (own, format!("{left} {sign} {right}"))
            }
        };
        if own < level {
            format!("({text})")
        } else {
            text
        }
    }
}

impl Claim {
    /// By the meaning of unknown: a part that could be either way decides nothing.
    fn truth(&self, runtime_s: Option<f64>) -> Option<bool> {
        match self {
            Claim::Flag(name) => FLAGS.iter().find(|(one, _)| one == name)?.1,
            Claim::Compared(sign, left, right) => {
                let (left, right) = (left.value(runtime_s)?, right.value(runtime_s)?);
                Some(match *sign {
                    "<" => left < right,
                    "<=" => left <= right,
                    ">" => left > right,
                    ">=" => left >= right,
                    "==" => left == right,
                    _ => left != right,
                })
            }
            Claim::Listed(left, list) => {
                let each = list.iter().map(|item| {
                    let (left, item) = (left.value(runtime_s)?, item.value(runtime_s)?);
                    Some(left == item)
                });
                any(each)
            }
            Claim::Started(sign, seconds) => Some(match *sign {
                "<" => STARTED_S < i64::from(*seconds),
                _ => STARTED_S > i64::from(*seconds),
            }),
            Claim::Not(inner) => inner.truth(runtime_s).map(|truth| !truth),
            Claim::All(parts) => {
                let each = parts.iter().map(|part| part.truth(runtime_s));
                any(each.map(|truth| truth.map(|truth| !truth))).map(|truth| !truth)
            }
            Claim::Any(parts) => any(parts.iter().map(|part| part.truth(runtime_s))),
            Claim::After(inner, minutes) => {
                let is_late = runtime_s.map(|ran_s| ran_s >= f64::from(*minutes) * 60.0);
                let each = [is_late, inner.truth(runtime_s)].into_iter();
                any(each.map(|truth| truth.map(|truth| !truth))).map(|truth| !truth)
            }
        }
    }

    fn text(&self, level: u8, words: bool) -> String {
        let joined = |parts: &[Claim], own: u8, sign: &str| {
            let parts: Vec<String> = parts.iter().map(|part| part.text(own + 1, words)).collect();
            (own, parts.join(sign))
        };
        let (own, text) = match self {
            Claim::Flag(name) => (9, (*name).to_owned()),
            Claim::Compared(sign, left, right) => {
                (4, format!("{} {sign} {}", left.text(5), right.text(5)))
            }
            Claim::Listed(left, list) => {
                let list: Vec<String> = list.iter().map(|item| item.text(8)).collect();
                (4, format!("{} in ({})", left.text(5), list.join(", ")))
            }
            Claim::Started(sign, seconds) => (4, format!("tstart {sign} {seconds}s")),
            Claim::Not(inner) => {
                let sign = if words { "not " } else { "!" };
                (8, format!("{sign}{}", inner.text(8, words)))
            }
            Claim::All(parts) => joined(parts, 2, if words { " and " } else { "&&" }),
            Claim::Any(parts) => joined(parts, 1, if words { " or " } else { " || " }),
            Claim::After(inner, minutes) => {
                (3, format!("{} after {minutes}m", inner.text(3, words)))
            }
        };
        if own < level {
            format!("({text})")
        } else {
            text
        }
    }
}

/// Whether one of them holds, as far as that is known.
fn any(mut each: impl Iterator<Item = Option<bool>> + Clone) -> Option<bool> {
    if each.clone().any(|truth| truth == Some(true)) {
        return Some(true);
    }
    each.all(|truth| truth.is_some()).then_some(false)
}

fn amount() -> impl Strategy<Value = Amount> {
    let written = [
        ("1.5", 1.5),
        ("0", 0.0),
        ("40%", 0.4),
        ("2m", 120.0),
        ("1K", 1024.0),
        ("1e-3", 0.001),
        ("2:00:00", 7200.0),
    ];
    let leaf = prop_oneof![
        prop::sample::select(written.to_vec())
            .prop_map(|(text, value)| Amount::Written(text, value)),
        prop::sample::select(METRICS.map(|(name, _)| Amount::Metric(name)).to_vec()),
        Just(Amount::Runtime),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            inner
                .clone()
                .prop_map(|one| Amount::Negative(Box::new(one))),
            inner
                .clone()
                .prop_map(|one| Amount::Absolute(Box::new(one))),
            ("[-+*/%]", inner.clone(), inner).prop_map(|(sign, left, right)| {
                let sign = sign.chars().next().unwrap_or('+');
                Amount::Sum(sign, Box::new([left, right]))
            }),
        ]
    })
}

fn claim() -> impl Strategy<Value = Claim> {
    let sign = prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]);
    let item = prop_oneof![
        Just(Amount::Written("1.5", 1.5)),
        Just(Amount::Written("0", 0.0)),
        prop::sample::select(METRICS.map(|(name, _)| Amount::Metric(name)).to_vec()),
    ];
    let leaf = prop_oneof![
        1 => prop::sample::select(FLAGS.map(|(name, _)| Claim::Flag(name)).to_vec()),
        4 => (sign, amount(), amount())
            .prop_map(|(sign, left, right)| Claim::Compared(sign, left, right)),
        1 => (amount(), prop::collection::vec(item, 1..4))
            .prop_map(|(left, list)| Claim::Listed(left, list)),
        1 => (prop::sample::select(vec!["<", ">"]), 4000u32..6000)
            .prop_map(|(sign, seconds)| Claim::Started(sign, seconds)),
    ];
    leaf.prop_recursive(5, 30, 4, |inner| {
        let several = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            inner.clone().prop_map(|one| Claim::Not(Box::new(one))),
            several.clone().prop_map(Claim::All),
            several.prop_map(Claim::Any),
            (inner, 1u32..60).prop_map(|(one, minutes)| Claim::After(Box::new(one), minutes)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_condition_means_what_its_tree_means(
        claim in claim(),
        words: bool,
        runtime_s in prop_oneof![Just(None), (0.0..7200.0f64).prop_map(Some)],
    ) {
        let text = claim.text(0, words);
        let meant = Truth::from_option(claim.truth(runtime_s));
        let run = run(runtime_s);
        prop_assert_eq!(run.says_standing(&text), Ok(meant), "{}", text);
        let (rule, bindings) = run.standing(&text).unwrap();
        let again = nero_expr::Expr::parse(&rule.canonical(), &crate::run::context().standing());
        prop_assert_eq!(again.map(|rule| rule.eval(&bindings, &run)), Ok(meant));
    }

    #[test]
    fn a_condition_with_a_duration_holds_when_each_look_within_it_saw_it_hold(
        looks in prop::collection::vec((1u32..200, prop_oneof![Just(None), Just(Some(0.0)), Just(Some(2.0))]), 1..40),
        seconds in 1u32..600,
    ) {
        let at = |ran_s: u32, value: Option<f64>| {
            let run = Run::new().fact(Fact::Runtime, Value::number(f64::from(ran_s)));
            match value {
                Some(value) => run.metric("a", value),
                None => run,
            }
        };
        let seen = Run::new().metric("a", 0.0);
        let (rule, mut bindings) = seen.standing(&format!("a > 1 for {seconds}s")).unwrap();
        let (mut ran_s, mut since) = (0, None);
        for (passed, value) in looks {
            ran_s += passed;
            let run = at(ran_s, value);
            rule.note_held(&mut bindings, &run);
            let now = value.map(|value| value > 1.0);
            since = match now {
                Some(true) => since.or(Some(ran_s)),
                Some(false) | None => None,
            };
            let meant = match (now, since) {
                (Some(true), Some(since)) => Some(ran_s - since >= seconds),
                (other, _) => other,
            };
            prop_assert_eq!(rule.eval(&bindings, &run), Truth::from_option(meant), "at {}", ran_s);
        }
    }
}
