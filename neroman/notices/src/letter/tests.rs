use jiff::tz::TimeZone;

use super::*;

/// 2026-11-24 13:02:00 UTC.
const AT: i64 = 1_795_525_320_000;

fn event(run: &str, name: &str, kind: EventKind) -> LetterEvent {
    LetterEvent {
        run: run.to_owned(),
        name: name.to_owned(),
        collection: "digits".to_owned(),
        node: "alpha".to_owned(),
        at_ms: AT,
        kind,
    }
}

fn crashed(stderr: &[u8]) -> EventKind {
    EventKind::Crashed {
        how: "exit code 1".to_owned(),
        runtime_ms: Some(200_000),
        stderr: stderr.to_vec(),
    }
}

fn values(list: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    list.iter().map(owned).collect()
}

fn account(events: Vec<LetterEvent>) -> Account {
    Account {
        collection: Some("digits".to_owned()),
        events,
        ..Account::default()
    }
}

/// The mail, after what holds for every mail was checked.
fn told(account: &Account) -> LetterText {
    let told = letter(account, &TimeZone::UTC);
    for line in told.text.lines() {
        assert!(line.chars().count() <= 72, "{line:?} in\n{}", told.text);
    }
    let acts = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202e}' | '\u{200b}');
    for part in [&told.text, &told.html] {
        assert!(!part.contains(acts), "{part:?}");
    }
    assert!(
        !told.subject.contains(|c: char| c.is_control()),
        "{:?}",
        told.subject
    );
    let html = &told.html;
    assert!(!html.contains("http") && !html.contains("<script") && !html.contains("url("));
    let sources = html.matches("src=").count();
    assert_eq!(
        sources,
        usize::from(matches!(account.curves, LetterCurves::Drawn { .. })),
        "{html}"
    );
    told
}

fn everything() -> Account {
    let rule = || "loss > 20 && step > 100".to_owned();
    let fired = || values(&[("loss", "23.1"), ("step", "400")]);
    let traceback = b"Epoch 1\rEpoch 2\rEpoch 3\nTraceback (most recent call last):\n\
        \tFile \"train.py\", line 12, in <module>\n\
        ValueError: could not convert <string> & \x1b[31mcolour\x1b[0m \xff to float\n";
    account(vec![
        event("141.1", "lr_0.001", EventKind::Started),
        event(
            "142.1",
            "lr_0.01",
            EventKind::Finished {
                runtime_ms: Some(9_000_000),
                values: values(&[("loss", "0.31"), ("acc", "0.92")]),
            },
        ),
        event("144.2", "lr_0.1", crashed(traceback)),
        event(
            "145.1",
            "lr_1",
            EventKind::Aborted {
                rule: rule(),
                values: fired(),
            },
        ),
        event(
            "146.1",
            "lr_2",
            EventKind::Cancelled {
                by: "ada".to_owned(),
            },
        ),
        event(
            "147.1",
            "lr_3",
            EventKind::TimedOut {
                limit_ms: Some(7_200_000),
            },
        ),
        event(
            "148.1",
            "lr_4",
            EventKind::Lost {
                why: "the node was erased".to_owned(),
            },
        ),
        event(
            "149.1",
            "lr_5",
            EventKind::Warned {
                rule: rule(),
                values: fired(),
            },
        ),
        event(
            "150.1",
            "lr_6",
            EventKind::Remarked {
                text: "the job moved its log".to_owned(),
            },
        ),
        event(
            "151.1",
            "lr_7",
            EventKind::Stalled {
                silent_ms: 3_720_000,
            },
        ),
        event(
            "",
            "",
            EventKind::NodeAway {
                since_ms: AT - 600_000,
                why: "no route to host".to_owned(),
            },
        ),
        event("", "", EventKind::NodeBack { away_ms: 1_200_000 }),
    ])
}

#[test]
fn every_event_is_told_in_a_sentence() {
    let told = told(&everything());
    insta::assert_snapshot!(
        "everything_text",
        format!("{}\n\n{}", told.subject, told.text)
    );
    insta::assert_snapshot!("everything_html", told.html);
}

#[test]
fn one_event_is_told_without_a_heading() {
    let told = told(&account(vec![event("144.2", "lr_0.1", crashed(b"boom\n"))]));
    insta::assert_snapshot!(format!("{}\n\n{}", told.subject, told.text));
}

#[test]
fn a_digest_has_progress_a_table_of_ten_lines_and_a_picture() {
    let row = |index: usize| {
        let loss = format!("{:.3}", 1.0 / (index + 1) as f64);
        vec![
            format!("{}", 124 + index),
            format!("lr_{index}"),
            "running".to_owned(),
            loss,
        ]
    };
    let header = ["id", "name", "state", "loss"].map(str::to_owned).to_vec();
    let told = told(&Account {
        progress: Some(BatchProgress {
            done: 61,
            of: 200,
            failed: 3,
            left_ms: Some(32_400_000),
            ends_at_ms: Some(AT + 32_400_000),
        }),
        table: Some(LetterTable {
            header,
            rows: (0..62).map(row).collect(),
        }),
        curves: LetterCurves::Drawn {
            of: "loss\n\"x\"".to_owned(),
        },
        is_digest: true,
        ..account(vec![event("144.2", "lr_0.1", crashed(b"boom\n"))])
    });
    insta::assert_snapshot!("digest_text", format!("{}\n\n{}", told.subject, told.text));
    insta::assert_snapshot!("digest_html", told.html);
}

#[test]
fn the_first_line_tells_which_runs_wait_for_the_reader_and_what_to_type() {
    let mut account = account(vec![event("5.1", "e", crashed(b""))]);
    account.held = vec![
        HeldRuns {
            experiments: (6..=168).collect(),
            why: "the first 5 of its start crashed as 1.1 did: exit code 1".to_owned(),
            can_resume: true,
        },
        HeldRuns {
            experiments: vec![200],
            why: "held at SLURM".to_owned(),
            can_resume: false,
        },
    ];
    let told = told(&account);
    assert!(told.subject.ends_with(", 164 held"), "{}", told.subject);
    let text = told.text.replace('\n', " ");
    assert!(
        text.starts_with(
            "163 runs wait for you: the first 5 of its start crashed as 1.1 did: exit code 1. \
             `neroman resume 6-168` goes on; `start` in its place makes new runs, `abort` takes \
             them away.  1 run waits for you: held at SLURM. `neroman start 200` makes new runs;"
        ),
        "{text}"
    );
}

#[test]
fn a_digest_without_its_curves_tells_why() {
    let told = told(&Account {
        curves: LetterCurves::Failed {
            why: "it took longer than 60 s <b>".to_owned(),
        },
        is_digest: true,
        ..account(Vec::new())
    });
    let words = "The curves could not be drawn: it took longer than 60 s";
    assert!(
        told.text.contains(&format!("{words} <b>.")),
        "{}",
        told.text
    );
    assert!(
        told.html.contains(&format!("{words} &lt;b&gt;.")),
        "{}",
        told.html
    );
}

#[test]
fn a_thousand_failures_are_one_short_mail() {
    let crash = |index: usize| {
        event(
            &format!("{index}.1"),
            "lr",
            crashed(b"CUDA out of memory\n"),
        )
    };
    let told = told(&account((1..=1000).map(crash).collect()));
    assert_eq!(told.subject, "digits: 1000 crashed");
    assert!(told.text.contains("and 990 more"), "{}", told.text);
    assert!(told.text.lines().count() < 40, "{}", told.text);
    assert!(told.html.len() < 10_000);
}

#[test]
fn the_end_of_a_start_is_the_subject_whatever_else_is_told() {
    let done = |finished, failed| EventKind::AllDone {
        finished,
        failed,
        took_ms: Some(32_520_000),
    };
    let told_done = told(&account(vec![
        event("144.2", "lr_0.1", crashed(b"")),
        event("", "", done(188, 12)),
    ]));
    assert_eq!(told_done.subject, "digits: all 200 ended, 12 failed");
    assert!(
        told_done.text.contains("all 200 ended, 12 failed in 9h02m"),
        "{}",
        told_done.text
    );
    let alone = told(&account(vec![event("", "", done(200, 0))]));
    assert_eq!(alone.subject, "digits: all 200 finished");
}

#[test]
fn hostile_bytes_and_names_do_nothing() {
    let mut stderr: Vec<u8> = (0..=255).collect();
    stderr.extend("</pre><img src=x onerror=alert(1)>\u{202e}evil\n".bytes());
    stderr.extend([b'x'; 100_000]);
    let name = "</title><script>\r\nBcc: eve@example.org\u{1b}]0;x\u{7}";
    let mut event = event("1.1", name, crashed(&stderr));
    event.node = name.to_owned();
    event.collection = name.to_owned();
    let told = told(&Account {
        collection: Some(name.to_owned()),
        table: Some(LetterTable {
            header: vec![name.to_owned(); 30],
            rows: vec![vec![name.to_owned(); 30]; 3],
        }),
        ..account(vec![event])
    });
    assert!(!told.html.contains("<img") && told.html.len() < 60_000);
    assert!(told.text.lines().count() < 80, "{}", told.text);
}

#[test]
fn the_last_lines_are_those_that_a_terminal_showed_last() {
    let lines: String = (0..40).map(|index| format!("line {index}\r\n")).collect();
    let told = told(&account(vec![event("1.1", "a", crashed(lines.as_bytes()))]));
    assert!(told.text.contains("  | line 39\n") && told.text.contains("  | line 28\n"));
    assert!(!told.text.contains("line 27"), "{}", told.text);
}

#[test]
fn an_event_is_json_with_its_fields_beside_the_common_ones() {
    let json = event_json(&event("144.2", "lr_0.1", crashed(b"boom \xff\n")));
    let expected = serde_json::json!({
        "format": 1,
        "event": "crashed",
        "run": "144.2",
        "name": "lr_0.1",
        "collection": "digits",
        "node": "alpha",
        "time": "2026-11-24T13:02:00Z",
        "how": "exit code 1",
        "runtime_s": 200.0,
        "stderr": "boom \\xff\n",
    });
    assert_eq!(json, expected);
    for event in everything().events {
        assert!(event_json(&event)["event"].is_string());
    }
}

#[test]
fn the_test_mail_tells_of_what_mail_will_tell() {
    let told = test_letter(&["crashed", "done"]);
    assert!(
        told.text.contains("It will tell of: crashed, done."),
        "{}",
        told.text
    );
    assert!(told.html.contains("crashed, done"), "{}", told.html);
}
