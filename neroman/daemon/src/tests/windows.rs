//! Windows over lists, and totals of all that was picked.

use nero_views::{columns, totals};
use nero_wire::v1;

use tokio::sync::mpsc;

use super::unasked_notes::Heard;
use super::{Rig, select, stories};

const MANY: &str = "collection: lab\ncommand: echo {x} {word}\n\
    parameters: {x: [10, 9, 2, 1.5, none], word: [b, a, ü, B]}\n+other: {parameters: {x: 2, word: '7'}}\n";

#[tokio::test]
async fn a_window_is_a_part_of_the_sorted_list_and_totals_are_of_all() {
    let (rig, _token) = stories::begun(MANY).await;
    let asked = |sort: &str, window: Option<v1::Window>| v1::ListRequest {
        selection: select("all"),
        facts: columns::asked_facts([sort.trim_start_matches('-')].into_iter()),
        totals: window.is_some(),
        window,
        ..v1::ListRequest::default()
    };
    for sort in [
        "",
        "x",
        "-x",
        "word",
        "-word",
        "name",
        "-id",
        "state",
        "node",
        "x * 2",
        "-(x < 5)",
        "0 / (x - 9)",
        "-(0 / (x - 9))",
    ] {
        let (is_backwards, name) = match sort.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, sort),
        };
        let mut whole = rig.man.list(asked(sort, None)).await.unwrap().experiments;
        let all = totals::of(&whole);
        if !name.is_empty() {
            let column = columns::named(name, &whole).unwrap();
            whole.sort_by(|one, other| column.compare(one, other, is_backwards));
        }
        let ids: Vec<u64> = whole.iter().map(|view| view.id).collect();
        for offset in [0, 1, 7, 20, 21, u64::MAX] {
            for count in [0, 1, 5, 21, u64::MAX] {
                let sort = sort.to_owned();
                let window = v1::Window {
                    sort: sort.clone(),
                    offset,
                    count,
                };
                let reply = rig.man.list(asked(&sort, Some(window))).await.unwrap();
                let shown: Vec<u64> = reply.experiments.iter().map(|view| view.id).collect();
                let from = ids.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                let expected: Vec<u64> = ids[from..].iter().copied().take(count).collect();
                assert_eq!(shown, expected, "{sort} {offset} {count}");
                assert_eq!(reply.totals, Some(all.clone()));
            }
        }
    }
    let window = v1::Window {
        sort: "x *".to_owned(),
        offset: 0,
        count: 1,
    };
    let refused = rig.man.list(asked("", Some(window))).await;
    assert!(refused.is_err(), "half an expression");
    rig.stop().await;
}

#[tokio::test]
async fn changes_beside_a_window_are_counted_and_those_in_it_are_shown() {
    let rig = Rig::configured("");
    let values: Vec<String> = (0..40).map(|i| (i * 17 % 40).to_string()).collect();
    rig.write(&format!(
        "collection: lab\ncommand: echo\n+a: {{parameters: {{x: [{}]}}}}\n+b: {{}}\n",
        values.join(", ")
    ));
    rig.add().await;
    let (tx, rx) = mpsc::channel(8);
    let request = v1::WatchRequest {
        selection: select("all"),
        window: Some(v1::Window {
            sort: "x".to_owned(),
            offset: 0,
            count: 3,
        }),
        facts: vec!["x * 2".to_owned()],
        ..v1::WatchRequest::default()
    };
    let man = rig.man.clone();
    let call = tokio::spawn(async move { man.watch_window(request, tx).await });
    let mut heard = Heard { rx, call };
    let first = heard.next().await;
    assert!(first.first);
    let rows = first.window.unwrap();
    assert_eq!((rows.total, rows.ids.len(), first.live), (41, 3, 0));
    let doubled = |view: &v1::ExperimentView| view.facts[0].value.clone();
    assert_eq!(
        doubled(&first.experiments[1]),
        Some(v1::fact_value::Value::Number(2.0))
    );
    // The largest is beside the window.
    let beside = rig
        .man
        .list(v1::ListRequest {
            window: Some(v1::Window {
                sort: "-x".to_owned(),
                offset: 0,
                count: 1,
            }),
            ..v1::ListRequest::default()
        })
        .await
        .unwrap();
    rig.start(&beside.experiments[0].id.to_string()).await;
    let event = loop {
        let event = heard.next().await;
        if event.live == 1 {
            break event;
        }
    };
    assert_eq!(event.experiments, []);
    rig.start(&rows.ids[2].to_string()).await;
    let event = loop {
        let event = heard.next().await;
        if !event.experiments.is_empty() {
            break event;
        }
    };
    assert_eq!(event.experiments[0].id, rows.ids[2]);
    assert!(!event.first && event.window.unwrap().ids == rows.ids);
}
