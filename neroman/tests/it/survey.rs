//! `metrics --try`: what would be found in a file, without any daemon.

use nero_wire::v1::{LogChunk, MetricReader, MetricReading, ShowReply};

use crate::fake::{Answers, Fake};
use crate::samples;

const LOG: &str =
    "Epoch 1/2\niter 10: loss 9.8, time 142.5ms\nstep,acc\n1,0.5\n2,0.75\nread 3 files\n";

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn what_a_file_would_give_is_shown_with_what_gave_nothing() {
    let file = file(LOG);
    let fake = Fake::new(Answers::default());
    let shown = fake.ok(&["metrics", "--try", &file.path().display().to_string()]);
    insta::assert_snapshot!(shown);
    assert!(fake.requests().is_empty(), "a file needs no daemon");
}

#[test]
fn patterns_and_recipes_can_be_tried() {
    let log = file("acc is 0.5\nDAV:   1     0.11E+03    0.12E+03   -0.4E+03\n");
    let path = log.path().display().to_string();
    let fake = Fake::new(Answers::default());
    let with = |pattern: &str| fake.run(&["metrics", "--try", &path, "--match", pattern]);
    assert!(with("acc is (?<accuracy>\\S+)").out.contains("accuracy"));
    assert!(with("vasp").out.contains("energy_change"));
    let wrong = with("(");
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
    assert!(
        wrong.err.contains("the pattern `(`: unclosed group"),
        "{}",
        wrong.err
    );
    let nothing = fake.run(&["metrics", "--try", "nowhere"]);
    assert_eq!(nothing.code, Some(2));
    assert!(
        nothing.err.contains("is no file and no run"),
        "{}",
        nothing.err
    );
    let empty = file("nothing here\n");
    let none = fake.run(&["metrics", "--try", &empty.path().display().to_string()]);
    assert_eq!((none.code, none.out.as_str()), (Some(1), "no metrics\n"));
}

#[test]
fn the_logs_of_a_run_are_read_as_its_experiment_says() {
    let fake = Fake::new(Answers {
        show: ShowReply {
            metric_patterns: vec!["got (?<own>\\S+)".to_owned()],
            ..ShowReply::default()
        },
        logs: vec![LogChunk {
            data: b"got 3\nacc=2\n".to_vec(),
            end: true,
            ..LogChunk::default()
        }],
        ..Answers::default()
    });
    let shown = fake.ok(&["metrics", "--try", "144.2"]);
    let names = ["own", "acc", "stdout", "stderr"];
    assert!(names.iter().all(|name| shown.contains(name)), "{shown}");
}

#[test]
fn a_page_shows_how_metrics_are_read_and_what_to_type_when_there_are_none() {
    let mut reply = samples::show();
    reply.metric_patterns = vec![r"^%WER (?<wer>\S+) \[".to_owned()];
    reply.metric_reading = Some(MetricReading {
        skip: vec!["^it's".to_owned()],
        decimal_comma: true,
        readers: vec![MetricReader {
            argv: vec!["./read er.py".to_owned(), "-v".to_owned()],
        }],
        ..MetricReading::default()
    });
    let shown = |reply: &ShowReply| {
        let fake = Fake::new(Answers {
            show: reply.clone(),
            ..Answers::default()
        });
        fake.ok(&["show", "146"])
    };
    let page = shown(&reply);
    for line in [
        "metrics are read by",
        "  match: '^%WER (?<wer>\\S+) \\['",
        "  skip: '^it''s'",
        "  command: './read er.py' -v",
        "  decimal: ','",
    ] {
        assert!(page.lines().any(|one| one == line), "{line}: {page}");
    }
    assert!(!page.contains("--try"), "{page}");
    let view = reply.experiment.as_mut().unwrap();
    view.metrics.clear();
    view.run = 2;
    reply.run.as_mut().unwrap().ended_ms = 0;
    let runs_still = shown(&reply);
    assert!(!runs_still.contains("--try"), "{runs_still}");
    reply.run.as_mut().unwrap().ended_ms = 1_700_000_002_250;
    let page = shown(&reply);
    let line = "metrics      none; neroman metrics --try 146.2 shows what its logs give";
    assert!(page.contains(line), "{page}");
}

#[test]
fn a_file_of_metrics_is_read_as_its_name_says() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(Answers::default());
    let tried = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        fake.run(&["metrics", "--try", &path.display().to_string()])
    };
    let csv = tried("m.csv", "step,note,loss\n4,warm up,0.5\n");
    assert!(csv.out.contains("loss"), "{csv:#?}");
    let json = tried("m.json", "[\n {\"f1\": 1},\n {\"f1\": 2}\n]\n");
    assert!(json.out.contains("f1"), "{json:#?}");
    let half = tried("half.json", "{\"f1\": 1");
    assert_eq!(half.code, Some(1), "{half:#?}");
    assert!(half.err.contains("no whole JSON value"), "{half:#?}");
}
