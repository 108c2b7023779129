//! Files of metrics: what each form gives.

use nero_metrics::file::{FileForm, document_lines};
use nero_metrics::finder::{Context, Finder, FinderOptions};
use nero_metrics::lines::LINE_BYTES_MAX;
use nero_metrics::survey::Survey;

/// The points of a file, line by line: `name=value@step`.
fn points(name: &str, text: &str) -> Vec<String> {
    points_by(&FinderOptions::default(), name, text)
}

fn points_by(reading: &FinderOptions, name: &str, text: &str) -> Vec<String> {
    let form = FileForm::of(name);
    let mut finder = Finder::new(reading).0;
    let mut context = Context::of_file(form, reading.decimal_comma);
    let mut points = Vec::new();
    for line in text.split('\n') {
        let found = finder.find(line.as_bytes(), &mut context);
        let step = found.step.or(found.carried);
        let step = step.map_or_else(String::new, |step| format!("@{step}"));
        points.extend(
            found
                .pairs()
                .map(|(name, value)| format!("{name}={value}{step}")),
        );
    }
    points
}

#[test]
fn the_ending_of_a_name_tells_the_form() {
    for (name, form) in [
        ("metrics.csv", FileForm::Columns(None)),
        ("a.b/log.TSV", FileForm::Columns(Some(b'\t'))),
        ("m.jsonl", FileForm::JsonLines),
        ("m.ndjson", FileForm::JsonLines),
        ("m.json", FileForm::Document),
        ("log.txt", FileForm::Printed),
        ("a.csv/log", FileForm::Printed),
        ("csv", FileForm::Printed),
    ] {
        assert_eq!(FileForm::of(name), form, "{name}");
    }
}

#[test]
fn cells_with_numbers_are_values_whatever_else_is_in_a_row() {
    for (text, want) in [
        (
            "epoch,loss\n1,0.5\n2,0.4\n",
            &["epoch=1@1", "loss=0.5@1", "epoch=2@2", "loss=0.4@2"][..],
        ),
        // A word in a row, empty cells, a quoted cell with the sign in it.
        (
            "phase,step,loss\ntrain,1,0.5\n\"a, b\",2,\n",
            &["step=1@1", "train loss=0.5@1", "step=2@2"],
        ),
        ("\u{feff}step;acc\r\n3;0.5\r\n", &["step=3@3", "acc=0.5@3"]),
        (",loss\n0,0.5\n1,0.4\n", &["loss=0.5", "loss=0.4"]),
        (
            "# step, val loss\n1, nan\n",
            &["step=1@1", "val loss=NaN@1"],
        ),
        // One column is enough where the name of the file says what it is.
        ("loss\n0.5\n", &["loss=0.5"]),
        // A remark before the names, and one between rows.
        (
            "# made today\nstep,loss\n1,2\n# paused\n2,3\n",
            &["step=1@1", "loss=2@1", "step=2@2", "loss=3@2"],
        ),
        // The names once more, and further columns.
        (
            "step,a\n1,2\nstep,a\n2,3\nstep,a,b\n3,4,5\n",
            &[
                "step=1@1", "a=2@1", "step=2@2", "a=3@2", "step=3@3", "a=4@3", "b=5@3",
            ],
        ),
        // First rows without a number are no names.
        (
            "time,loss\n2026-11-24 10:00,\n2026-11-24 10:10,0.5\n",
            &["loss=0.5"],
        ),
        (
            "event,step,loss\nstart,,\nN/A,-,warmup\ntrain,1,0.5\n",
            &["step=1@1", "loss=0.5@1"],
        ),
        // A remark without a sign has fewer cells than the names.
        ("Results\nstep,loss\n1,2\n", &["step=1@1", "loss=2@1"]),
        // More cells than names are no row; empty ones are.
        ("a,b\n1,2,3\n4,5,\n", &["a=4", "b=5"]),
        // No names at all, and no text.
        ("1,0.5\n2,0.4\n", &[]),
        ("\0\u{1}PK,\n1,2\n", &[]),
        ("a,b\n3/4,12:30\n", &[]),
    ] {
        assert_eq!(points("m.csv", text), want, "{text:?}");
    }
    assert_eq!(points("m.tsv", "a, b\tc\n1\t2\n"), ["a, b=1", "c=2"]);
    let comma = FinderOptions {
        decimal_comma: true,
        ..FinderOptions::default()
    };
    assert_eq!(points_by(&comma, "m.csv", "a;b\n0,5;2\n"), ["a=0.5", "b=2"]);
    assert_eq!(points_by(&comma, "m.csv", "a,b\n5,2\n"), ["a=5", "b=2"]);
}

#[test]
fn lines_of_json_are_read_as_nothing_else() {
    let text = "{\"step\": 2, \"loss\": 0.5, \"val\": {\"acc\": 1}}\nloss = 3\n{\"loss\": \n";
    let want = ["step=2@2", "loss=0.5@2", "val/acc=1@2"];
    assert_eq!(points("m.jsonl", text), want);
    assert_eq!(points("log.txt", "loss = 3"), ["loss=3"]);
}

#[test]
fn a_document_is_an_object_or_a_list_of_them() {
    for (text, want) in [
        (
            "{\n  \"epoch\": 3,\n  \"val\": {\"acc\": NaN},\n  \"all\": [1, 2]\n}\n",
            Some("{\"epoch\":3.0,\"val/acc\":NaN}\n"),
        ),
        (
            "[{\"a\": 1, \"b\": [2, {}]}, 7, {\"a\": \"]\\\"\", \"b\": 2}]",
            Some("{\"a\":1.0}\n{\"b\":2.0}\n"),
        ),
        ("[]", Some("")),
        ("{\"a\": 1", None),
        ("[{\"a\": 1}", None),
        ("[{\"a\": }]", None),
        ("[{\"a\": 1}]]", None),
        ("]", None),
        ("", None),
        ("3", None),
    ] {
        let lines = document_lines(text.as_bytes());
        let lines = lines.map(|lines| String::from_utf8(lines).unwrap());
        assert_eq!(lines.as_deref(), want, "{text}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(document_lines(deep.as_bytes()), None);
}

#[test]
fn a_document_of_many_numbers_is_read_whole() {
    let numbers: Vec<String> = (0..4000)
        .map(|number| format!("\"a number with a long name, {number}\": {number}"))
        .collect();
    let text = format!("{{{}}}", numbers.join(",\n"));
    let lines = document_lines(text.as_bytes()).unwrap();
    assert!(lines.len() > LINE_BYTES_MAX);
    let mut survey = Survey::of_file(Finder::default(), FileForm::Document);
    survey.feed(&lines);
    survey.finish();
    assert_eq!(survey.seen().len(), numbers.len());
}
