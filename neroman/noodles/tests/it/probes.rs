//! Results of probes are compared as the original compares them.

use nero_format::python::float_text;
use nero_noodles::{Comparison, Metric, Satisfaction};
use serde_json::{Value, json};

use crate::generate::Chance;
use crate::oracle::Oracle;

const LINES: &[&str] = &[
    "0.5",
    "1",
    "True",
    "None",
    "Yes",
    "yes",
    "x y",
    "1e-3",
    "0x10",
    "0b11",
    "0o7",
    "1_000",
    "007",
    "00",
    "'a'",
    "\"a\" 'b'",
    "b'x'",
    "[1, 2]",
    "(3)",
    "(3,)",
    "3,",
    "{1: 2}",
    "{1, 2}",
    "{}",
    "-5",
    "+-2.5",
    "1.",
    ".5",
    "1e400",
    "-1e400",
    "nan",
    "12abc",
    "1 # c",
    " 2",
    "\t3 ",
    "'\\x41'",
    "r'\\d'",
    "u'x'",
    "f'x'",
    "'it''s'",
    "...",
    "1+1",
    "",
    "   ",
    "é",
    "99999999999999999999999999",
    "1__0",
    "1_",
    "_1",
    "not x",
    "set()",
    "(1",
    "'a",
    "0777",
    "1E5",
    "True # t",
    "((1), 2)",
    "'\\q'",
    "\"\\u00e9\"",
];
const VALUES: &[&str] = &[
    "0.5", "1", "True", "None", "Yes", "'Yes'", "x y", "1e-3", "16", "1000", "[1, 2]", "a", "ab",
    "3", "-5", "Z", "", "\"a\"", "0777", "1e400", "é", "b'x'", "2.5",
];
const OPERATORS: &[&str] = &["==", "!=", "<=", ">=", "<", ">"];

#[test]
fn results_of_probes_satisfy_what_they_satisfy_there() {
    let mut oracle = Oracle::start();
    let mut chance = Chance::new(5);
    let mut compared = 0;
    for round in 0..400 {
        // Each line alone, then several.
        let alone = LINES.get(round).copied();
        let first = alone.unwrap_or_else(|| chance.of(LINES));
        let lines = 1 + alone.map_or_else(|| chance.below(3), |_| 0);
        let mut stdout = first.to_owned();
        for _ in 1..lines {
            stdout.push('\n');
            stdout.push_str(chance.of(LINES));
        }
        // The end of the last line is ours to leave out, so the original is asked without.
        let ours = Metric::read(&format!("{stdout}\n"));
        let expressions: Vec<String> = (0..12)
            .map(|_| match chance.of(VALUES) {
                // `>=` alone is `>` and the text `=` there; here it is refused.
                "" => "==".to_owned(),
                value => format!("{}{value}", chance.of(OPERATORS)),
            })
            .collect();
        let theirs = oracle.ask(&json!({
            "ask": "probe", "stdout": stdout, "expressions": expressions,
        }));
        let theirs = theirs
            .get("is")
            .unwrap_or_else(|| panic!("{stdout:?}: {theirs}"));
        let mine = match &ours {
            Metric::Number(number) if number.is_finite() => json!(["number", number]),
            Metric::Number(number) => json!(["number", float_text(*number)]),
            Metric::Text(text) => json!(["text", text]),
            Metric::Null | Metric::Missing => json!(["none"]),
        };
        assert_eq!(mine, theirs["metric"], "of {stdout:?}");
        for (expression, theirs) in expressions
            .iter()
            .zip(theirs["satisfied"].as_array().expect("a list"))
        {
            let ours = Comparison::read(expression).map(|comparison| comparison.compare(&ours));
            let told = format!("{stdout:?} {expression:?}: {ours:?}, {theirs}");
            match theirs.get("is").and_then(Value::as_bool) {
                Some(true) => assert_eq!(ours, Some(Satisfaction::Satisfied), "{told}"),
                Some(false) => assert_eq!(ours, Some(Satisfaction::Unsatisfied), "{told}"),
                None => assert!(
                    matches!(ours, None | Some(Satisfaction::Incomparable)),
                    "{told}"
                ),
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 4800);
}
