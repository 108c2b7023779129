//! Reads the report that nextest writes of a run: how long each test took, and which passed at
//! the second try alone.

use std::fs;
use std::path::Path;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// One test of a run.
#[derive(Debug, Default, PartialEq)]
pub struct Test {
    /// Package, binary and name.
    pub name: String,
    /// Time of its last try, in seconds.
    pub seconds: f64,
    /// How its first try failed, where a later one passed.
    pub first_failure: Option<String>,
}

/// Reads the report of a run.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> Result<Vec<Test>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text).map_err(|why| format!("{}: {why}", path.display()))
}

fn parse(text: &str) -> Result<Vec<Test>, String> {
    let mut reader = Reader::from_str(text);
    let mut tests: Vec<Test> = Vec::new();
    loop {
        let tag = match reader.read_event().map_err(|error| error.to_string())? {
            Event::Eof => return Ok(tests),
            Event::Start(tag) | Event::Empty(tag) => tag,
            _ => continue,
        };
        match tag.name().as_ref() {
            "testcase" => tests.push(Test {
                name: format!("{} {}", value(&tag, "classname")?, value(&tag, "name")?),
                seconds: value(&tag, "time")?.parse().unwrap_or(0.0),
                first_failure: None,
            }),
            "flakyFailure" | "flakyError" => {
                let message = value(&tag, "message")?;
                if let Some(test) = tests.last_mut() {
                    test.first_failure.get_or_insert(message);
                }
            }
            _ => {}
        }
    }
}

fn value(tag: &BytesStart<'_>, name: &str) -> Result<String, String> {
    let found = tag
        .try_get_attribute(name)
        .map_err(|error| error.to_string())?;
    let Some(found) = found else {
        return Ok(String::new());
    };
    let value = found.normalized_value(XmlVersion::Explicit1_0);
    Ok(value.map_err(|error| error.to_string())?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Test, parse};

    #[test]
    fn a_test_that_passed_at_its_second_try_has_its_first_failure() {
        let text = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="2" failures="0"><testsuite name="nero-tests::it">
<testcase name="kill::a" classname="nero-tests::it" timestamp="x" time="3.5"></testcase>
<testcase name="ssh::b" classname="nero-tests::it" timestamp="x" time="1.25">
<flakyFailure timestamp="x" time="9.0" message="thread &apos;b&apos; panicked" type="test failure">no &lt;state&gt;<system-out>o</system-out></flakyFailure>
</testcase></testsuite></testsuites>"#;
        let of = |name: &str, seconds, first_failure: Option<&str>| Test {
            name: name.to_owned(),
            seconds,
            first_failure: first_failure.map(str::to_owned),
        };
        let expected = [
            of("nero-tests::it kill::a", 3.5, None),
            of("nero-tests::it ssh::b", 1.25, Some("thread 'b' panicked")),
        ];
        assert_eq!(parse(text).unwrap(), expected);
    }
}
