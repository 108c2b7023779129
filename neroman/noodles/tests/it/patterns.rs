//! Patterns match what they match in Python.

use nero_noodles::{FullPattern, read};
use serde_json::{Value, json};

use crate::generate::Chance;
use crate::oracle::Oracle;

const PIECES: &[&str] = &[
    "a",
    "b",
    "1",
    " ",
    ".",
    "\\d",
    "\\w",
    "\\s",
    "\\S",
    "\\D",
    "\\W",
    "\\b",
    "\\B",
    "^",
    "$",
    "\\A",
    "\\Z",
    "[ab]",
    "[^a]",
    "[a-c\\d]",
    "[]x]",
    "[^]x]",
    "[\\S\\s]",
    "[a\\-z]",
    "[\\w.-]",
    "[&&a]",
    "[[a]",
    "[~]",
    "(a)",
    "(?:ab)",
    "(?P<n>a|b)",
    "(?P=n)",
    "\\1",
    "(?=a)",
    "(?!b)",
    "(?<=a)",
    "(?<!b)",
    "(?>a+)",
    "(?i:A)",
    "(?s:.)",
    "(?#x)",
    "(?(1)a|b)",
    "\\x61",
    "\\u0062",
    "\\n",
    "\\t",
    "\\.",
    "\\\\",
    "\\101",
    "\\0",
    "{",
    "}",
    "é",
    "|",
    "|ab",
    "\\ ",
    "-",
    "#",
    "&&",
    "]",
    "(?m:^a$)",
    "(?x: a b )",
    "/",
    "\\/",
    "\"",
    "\\q",
    "(",
    ")",
    "[",
    "[b-a]",
    "(?a:x)",
    "\\2",
];
const REPEATS: &[&str] = &[
    "*", "+", "?", "*?", "+?", "??", "{2}", "{,2}", "{1,}", "{1,2}?", "{}", "++", "?+", "**",
];
const TEXTS: &[&str] = &[
    "", "a", "b", "ab", "aa", "ba", "abab", "a\n", "\n", "a b", "1", "a1", "aab", "x", "]", "é",
    "a\nb", "{", "a{}", "a-b", "A", "AB", " ", "\x1c", "\\", "aaa", "b1 a", "&&", "#", "a/", "\"",
];

#[test]
fn patterns_match_what_they_match_in_python() {
    let mut oracle = Oracle::start();
    let mut chance = Chance::new(11);
    let (mut both, mut neither, mut only_there) = (0, 0, Vec::new());
    for round in 0..1500 {
        let mut pattern = String::new();
        if chance.one_in(8) {
            pattern.push_str(chance.of(&["(?i)", "(?s)", "(?m)", "(?x)", "(?im)"]));
        }
        if let Some(piece) = PIECES.get(round) {
            pattern = (*piece).to_owned();
        } else {
            for _ in 0..=chance.below(4) {
                pattern.push_str(chance.of(PIECES));
                if chance.one_in(3) {
                    pattern.push_str(chance.of(REPEATS));
                }
            }
        }
        let theirs = oracle.ask(&json!({"ask": "pattern", "pattern": pattern, "texts": TEXTS}));
        let ours = FullPattern::new(&pattern);
        match (theirs.get("is"), ours) {
            (Some(theirs), Ok(ours)) => {
                both += 1;
                for (text, theirs) in TEXTS.iter().zip(theirs.as_array().expect("a list")) {
                    let ours = ours.matches(text).expect("it is easy");
                    assert_eq!(Some(ours), theirs.as_bool(), "{pattern:?} on {text:?}");
                }
            }
            (None, Err(_)) => neither += 1,
            (Some(_), Err(refused)) => only_there.push(format!("{pattern:?}: {refused}")),
            (None, Ok(_)) => panic!("{pattern:?} is no pattern there: {theirs}"),
        }
    }
    assert!(both > 500 && neither > 50, "{both}, {neither}");
    // What we cannot do is rare, and known.
    for refused in &only_there {
        let known = ["cannot do the flags", "look-behind", "Look-behind"];
        assert!(
            known.iter().any(|known| refused.contains(known)),
            "{refused}"
        );
    }
}

#[test]
fn handlers_are_for_the_errors_that_they_are_for_there() {
    let text = r"
error_handlers:
- {return_code: 1, stderr_pattern: ''}
- {return_code: '[12]', stderr_pattern: '[\S\s]+'}
- {return_code: true, stderr_pattern: None}
- {stderr_pattern: '[\S\s]*'}
- {return_code: 255.0, stderr_pattern: 'ssh: .*'}
- {return_code: '', stderr_pattern: x}
- {return_code: '-?\d+'}
- {return_code: [3], stderr_pattern: '.*'}
- {return_code: 0, stderr_pattern: 5}
- {return_code: 0, stderr_pattern: ~}
";
    let errors = [
        (1, ""),
        (1, "x"),
        (2, "a\nb\n"),
        (12, "x"),
        (1, "None"),
        (255, "ssh: no"),
        (255, "ssh: no\n"),
        (3, "None"),
        (3, ""),
        (-9, "None"),
        (0, "5"),
        (0, "None"),
        (0, "x"),
    ];
    let mut oracle = Oracle::start();
    let theirs = oracle.ask(&json!({"ask": "handler", "text": text, "errors": errors}));
    let theirs = theirs
        .get("is")
        .unwrap_or_else(|| panic!("{theirs}"))
        .clone();
    let spec = read(text, "run", None).expect("it is a spec");
    let handlers = &spec.error_handlers;
    let ours: Vec<Value> = errors
        .iter()
        .map(|(code, stderr)| {
            let fits = |handler: &nero_noodles::Handler| handler.matches(*code, stderr) == Ok(true);
            json!(handlers.iter().position(fits))
        })
        .collect();
    assert_eq!(json!(ours), theirs);
}
