//! One state is told equally by `status --json`, by the page and by `neroman top`.

use nero_top::{Ask, Event, TerminalLook, Top};
use nero_views::json;
use nero_wire::v1::{ExperimentView, MetricSummary, Param, WatchEvent, WindowRows};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::Value;

use super::{Options, Rig};

const STATES: [&str; 10] = [
    "defined", "queued", "running", "paused", "finished", "crashed", "aborted", "lost", "blocked",
    "stopping",
];
const NUMBERS: [f64; 9] = [
    0.0,
    -0.25,
    1e15,
    1e-300,
    123_456.789,
    f64::NAN,
    f64::INFINITY,
    3.0,
    0.1,
];

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![prop::sample::select(&NUMBERS[..]), any::<f64>()]
}

fn metric(name: &'static str) -> impl Strategy<Value = Vec<MetricSummary>> {
    let summary = (number(), number(), 1_u64..1_000_000);
    prop::option::of(summary).prop_map(move |summary| {
        let of = |(last, min, count)| MetricSummary {
            name: name.to_owned(),
            last,
            min,
            max: last,
            count,
            ..MetricSummary::default()
        };
        summary.map(of).into_iter().collect()
    })
}

fn param() -> impl Strategy<Value = Vec<Param>> {
    let text = prop_oneof![
        "[a-z]{1,6}",
        "-?[0-9]{1,4}",
        "日本|ü|a b|\u{202e}x|\u{1b}\\[31m"
    ];
    prop::option::of(text).prop_map(|text| {
        let of = |text| Param {
            name: "p".to_owned(),
            text,
            ..Param::default()
        };
        text.map(of).into_iter().collect()
    })
}

fn experiments() -> impl Strategy<Value = Vec<ExperimentView>> {
    let one = (
        "[a-zé<]{1,8}",
        prop::sample::select(&STATES[..]),
        prop::sample::select(&["", "alpha", "beta"][..]),
        prop::option::of(0.0..1e6),
        (metric("loss"), metric("val acc")),
        param(),
    );
    let view = one.prop_map(
        |(name, state, node, runtime_s, (loss, acc), params)| ExperimentView {
            name,
            collection: "lab".to_owned(),
            state: state.to_owned(),
            node: node.to_owned(),
            run: u32::from(state != "defined"),
            runtime_s,
            metrics: [loss, acc].concat(),
            params,
            ..ExperimentView::default()
        },
    );
    prop::collection::vec(view, 1..20).prop_map(|mut views| {
        for (id, view) in (1..).zip(&mut views) {
            view.id = id;
        }
        views
    })
}

/// The lines of a screen that is large enough for all.
fn frame(views: &[ExperimentView]) -> Vec<String> {
    const SIZE: (u16, u16) = (200, 60);
    let look = TerminalLook {
        color: false,
        unicode: true,
    };
    let mut top = Top::new("", look, SIZE);
    let asked = top.update(Event::Resize(SIZE.0, SIZE.1)).into_iter();
    let mut query = asked.filter_map(|ask| match ask {
        Ask::Rows(query) => Some(query),
        _ => None,
    });
    let event = WatchEvent {
        experiments: views.to_vec(),
        first: true,
        window: Some(WindowRows {
            total: views.len() as u64,
            offset: 0,
            ids: views.iter().map(|view| view.id).collect(),
        }),
        ..WatchEvent::default()
    };
    let query = query.next_back().expect("it asks for rows");
    top.update(Event::Rows(query, Box::new(event)));
    let mut terminal = Terminal::new(TestBackend::new(SIZE.0, SIZE.1)).expect("a screen");
    terminal.draw(|frame| top.draw(frame)).expect("a frame");
    let screen = terminal.backend().buffer();
    let line = |y| -> String {
        // A wide character takes two cells; the second is a blank.
        let cells = (0..SIZE.0).map(|x| screen[(x, y)].symbol());
        cells.collect()
    };
    (0..SIZE.1).map(line).collect()
}

/// Asserts that a line has these texts one behind the other.
fn has_in_order(line: &str, texts: &[Value]) -> Result<(), TestCaseError> {
    let bare = |text: &str| text.replace(' ', "");
    let (line, mut from) = (bare(line), 0);
    for text in texts {
        let text = bare(text.as_str().unwrap_or_default());
        let at = line[from..].find(&text);
        prop_assert!(at.is_some(), "{text:?} is not in {line:?} behind {from}");
        from += at.unwrap_or(0) + text.len();
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_state_is_the_same_in_json_on_the_page_and_in_the_terminal(views in experiments()) {
        let rig = Rig::new(Options { views: views.clone(), ..Options::default() });
        let document: Value = serde_json::from_str(&rig.get("/api/window").body).expect("a document");
        let rows = document["experiments"].as_array().expect("rows");
        prop_assert_eq!(rows.len(), views.len());
        let lines = frame(&views);
        let begin = lines.iter().position(|line| line.trim_start().starts_with("id "));
        let begin = begin.expect("a heading");
        let headings: Vec<Value> = document["columns"].as_array().expect("columns").iter()
            .map(|column| column["heading"].clone()).collect();
        has_in_order(&lines[begin], &headings)?;
        for ((view, row), line) in views.iter().zip(rows).zip(&lines[begin + 1..]) {
            let mut row = row.clone();
            let cells = row.as_object_mut().expect("a row").remove("cells");
            let told: Value = serde_json::from_str(&json::print(&json::experiment(view))).expect("json");
            prop_assert_eq!(&row, &told);
            has_in_order(line, cells.expect("cells").as_array().expect("texts"))?;
        }
    }
}
