use std::fmt::Write as _;

use nero_yaml::MistakeKind;

use crate::{LIMITS, read};

/// The first mistake: where, what, what to do.
fn first(text: &str) -> String {
    let wrong = match read(text) {
        Err(wrong) => wrong,
        Ok((_, wrongs)) => wrongs.into_iter().next().expect("a mistake"),
    };
    let (mark, what) = (wrong.mark, wrong.what);
    format!("{}:{} {what}; {}", mark.line, mark.column, what.hint())
}

#[test]
fn each_mistake_is_said_with_its_place() {
    let table = [
        (
            "a: 1\n---\nb: 2\n",
            "2:1 a second document begins here; one file has one document: remove the `---`",
        ),
        (
            "a: &x [*x]\n",
            "1:8 an alias stands inside of what it repeats; write the value out",
        ),
        (
            "? [x]\n: 1\n",
            "1:3 a key is text, not a list; quote it if it is text that begins with `{` or `[`",
        ),
        (
            "a: 1\nb: 2\na: 3\n",
            "3:1 `a` is given twice; it stands in line 1 already",
        ),
        (
            "\"a\\e\": 1\n\"a\\e\": 2\n",
            "2:1 `a\\u{1b}` is given twice; it stands in line 1 already",
        ),
        (
            "<<: [3]\n",
            "1:6 `<<` takes a map or a list of maps, not a single value; quote it if it is a name: '<<'",
        ),
        (
            "a: !!t [1]\n",
            "1:4 `!!t` is a YAML tag; quote the value if it is text",
        ),
    ];
    for (text, want) in table {
        assert_eq!(first(text), want, "{text:?}");
    }
}

#[test]
fn a_text_that_does_not_parse_has_the_usual_cause_as_hint() {
    let table = [
        ("a: {x} {y}\n", "quote text that begins with `{`: '{x} {y}'"),
        (
            "a:\r\n\tb: 1\r\n",
            "YAML does not indent with tabs: use spaces",
        ),
        ("a: *.py\n", "quote text that begins with `*`: '*.py'"),
        (
            "a: b: c\n",
            "quote text that holds `: `, or check the indentation of this line",
        ),
        (
            "a: sh -c \"echo b: 5; echo c: {x}; sleep 3\"\n",
            "quote text that holds `: `, or check the indentation of this line",
        ),
        ("a: !b>3\n", "quote text that begins with `!`: '!finished'"),
        (
            "a: \"\\w+\"\n",
            "in double quotes a `\\` begins an escape: use single quotes, '\\w+'",
        ),
        ("a: @b\n", "quote text that begins with this character"),
        ("a: [1, 2\n", "close the bracket"),
        ("a: 'b\n", "close the quote, or double a quote inside of it"),
        (
            "a: \"b\" c\n",
            "quote the whole value, with the other kind of quotes outside",
        ),
    ];
    for (text, want) in table {
        let said = first(text);
        assert!(said.contains("this is not YAML: "), "{text:?}: {said}");
        assert!(said.ends_with(&format!("; {want}")), "{text:?}: {said}");
    }
}

#[test]
fn a_text_never_grows_beyond_its_limits() {
    let deep = "[".repeat(LIMITS.depth + 1);
    assert!(first(&deep).ends_with("; values are nested too deeply"));

    let many = format!("[{}]", "1,".repeat(LIMITS.values));
    let wrong = read(&many).expect_err("too many");
    assert_eq!(wrong.what, MistakeKind::TooMany(LIMITS.values));

    let mut bomb = String::from("a0: &a0 [x, x, x]\n");
    for i in 1..6 {
        let alias = format!("*a{},", i - 1).repeat(3);
        writeln!(bomb, "a{i}: &a{i} [{alias}]").expect("a string");
    }
    let wrong = read(&bomb).expect_err("too many");
    assert_eq!(wrong.what, MistakeKind::TooManyRepeated(LIMITS.repeated));
}
