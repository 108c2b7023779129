//! Frames, and what keys ask for.

use nero_wire::v1::{
    BatchView, ExperimentView, MetricSummary, NodeView, NodesReply, Param, WatchEvent, WindowRows,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::{Ask, Event, LineAnswer, Query, TerminalLook, Top};

const PLAIN: TerminalLook = TerminalLook {
    color: false,
    unicode: true,
};

fn view(id: u64, state: &str, loss: f64) -> ExperimentView {
    ExperimentView {
        id,
        name: format!("fit_lr-{id}"),
        collection: "lab".to_owned(),
        state: state.to_owned(),
        node: "alpha".to_owned(),
        run: 1,
        runtime_s: Some(id as f64 * 7.0),
        params: vec![Param {
            name: "lr".to_owned(),
            text: format!("0.{id}"),
            ..Param::default()
        }],
        metrics: vec![MetricSummary {
            name: "loss".to_owned(),
            last: loss,
            ..MetricSummary::default()
        }],
        ..ExperimentView::default()
    }
}

/// A daemon that has these experiments, in the order of their numbers.
struct Rig {
    top: Top,
    views: Vec<ExperimentView>,
    asks: Vec<Ask>,
}

impl Rig {
    fn new(views: Vec<ExperimentView>, size: (u16, u16)) -> Self {
        let mut rig = Self {
            top: Top::new("", PLAIN, size),
            views,
            asks: Vec::new(),
        };
        rig.take(Event::Resize(size.0, size.1));
        rig.take(Event::Nodes(Ok(Box::new(NodesReply {
            nodes: vec![NodeView {
                name: "alpha".to_owned(),
                connected: true,
                cpus: 8.0,
                cpus_free: 6.0,
                memory_bytes: 1 << 34,
                memory_used: 0.25,
                ..NodeView::default()
            }],
            ..NodesReply::default()
        }))));
        rig
    }

    fn take(&mut self, event: Event) {
        let asks = self.top.update(event);
        for ask in &asks {
            if let Ask::Rows(query) = ask {
                self.answer(query);
            }
        }
        self.asks.extend(asks);
    }

    fn answer(&mut self, query: &Query) {
        let total = self.views.len();
        let begin = usize::try_from(query.offset).unwrap().min(total);
        let rows = &self.views[begin..total.min(begin + query.count as usize)];
        let event = WatchEvent {
            experiments: rows.to_vec(),
            first: true,
            live: 1,
            batches: vec![BatchView {
                runs: 4,
                ended: 1,
                text: "1 of 4 done, about 2 h left".to_owned(),
                ..BatchView::default()
            }],
            window: Some(WindowRows {
                total: total as u64,
                offset: begin as u64,
                ids: rows.iter().map(|view| view.id).collect(),
            }),
            ..WatchEvent::default()
        };
        self.take(Event::Rows(query.clone(), Box::new(event)));
    }

    fn press(&mut self, keys: &str) {
        for c in keys.chars() {
            self.code(KeyCode::Char(c));
        }
    }

    fn code(&mut self, code: KeyCode) {
        self.take(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }

    fn frame(&self) -> String {
        let (width, height) = self.top.size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| self.top.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    /// The last thing that was asked for.
    fn last(&self) -> &Ask {
        self.asks.last().unwrap()
    }
}

fn few() -> Vec<ExperimentView> {
    vec![
        view(1, "finished", 0.25),
        view(2, "running", 0.5),
        ExperimentView {
            reason: "exit code 1".to_owned(),
            ..view(3, "crashed", 9.5)
        },
        view(4, "defined", 0.125),
    ]
}

#[test]
fn a_small_screen_has_counts_nodes_rows_a_pane_and_keys() {
    let mut rig = Rig::new(few(), (80, 24));
    rig.take(Event::Detail(
        1,
        Ok("1.1  lab/fit_lr-1  finished\n  command  train 0.1\n".to_owned()),
    ));
    rig.press(" ");
    insta::assert_snapshot!(rig.frame());
}

#[test]
fn a_large_screen_has_every_column() {
    let mut rig = Rig::new(few(), (200, 60));
    rig.press(">>i4");
    insta::assert_snapshot!(rig.frame());
}

#[test]
fn an_action_is_a_line_that_is_shown_tried_and_then_executed() {
    let mut rig = Rig::new(few(), (80, 24));
    rig.press("  ja");
    assert_eq!(rig.last(), &Ask::Try("abort 1,2".to_owned()));
    rig.take(Event::Tried(LineAnswer {
        line: "abort 1,2".to_owned(),
        code: Some(0),
        text: "would abort 1 · skipped 1 finished\n".to_owned(),
    }));
    let frame = rig.frame();
    assert!(
        frame.contains("would abort 1 · skipped 1 finished"),
        "{frame}"
    );
    assert!(
        frame.contains("neroman abort 1,2   Enter does it"),
        "{frame}"
    );
    rig.press("y");
    assert!(
        rig.asks
            .contains(&Ask::Copy("neroman abort 1,2".to_owned()))
    );
    rig.code(KeyCode::Enter);
    assert!(
        rig.asks
            .contains(&Ask::ExecuteConfirmed("abort 1,2".to_owned()))
    );
    rig.take(Event::Done(LineAnswer {
        line: "abort 1,2".to_owned(),
        code: Some(0),
        text: "aborted 1\n".to_owned(),
    }));
    assert!(rig.frame().contains("abort 1,2: aborted 1"));
    rig.press("@");
    assert!(rig.frame().contains("neroman abort 1,2"));
}

#[test]
fn without_marks_the_row_below_the_cursor_is_meant() {
    for (key, line) in [
        ('a', "abort 2"),
        ('r', "restart 2"),
        ('s', "start 2"),
        ('p', "pause 2"),
        ('x', "rm 2"),
    ] {
        let mut rig = Rig::new(few(), (80, 24));
        rig.code(KeyCode::Down);
        rig.press(&key.to_string());
        assert_eq!(rig.last(), &Ask::Try(line.to_owned()));
        rig.code(KeyCode::Esc);
        assert!(
            !rig.asks
                .iter()
                .any(|ask| matches!(ask, Ask::Execute(_) | Ask::ExecuteConfirmed(_)))
        );
    }
}

#[test]
fn a_mistake_in_a_selector_is_shown_while_it_is_typed_and_esc_takes_it_back() {
    let mut rig = Rig::new(few(), (80, 24));
    rig.press("/lo");
    let Ask::Rows(query) = rig.last().clone() else {
        panic!("{:?}", rig.last());
    };
    assert_eq!(query.selection, "lo");
    rig.take(Event::Refused(
        query,
        "no experiment is called `lo`\nlo\n^^".to_owned(),
    ));
    assert!(
        rig.frame()
            .contains("no experiment is called `lo` | lo | ^^")
    );
    rig.code(KeyCode::Enter);
    assert!(rig.frame().contains("/lo"), "it stays to be mended");
    rig.code(KeyCode::Esc);
    let Ask::Rows(query) = rig.last() else {
        panic!("{:?}", rig.last());
    };
    assert_eq!(query.selection, "");
}

#[test]
fn a_completed_word_takes_the_place_of_the_one_that_was_begun() {
    let mut rig = Rig::new(few(), (80, 24));
    rig.press("/crashed,lo");
    rig.code(KeyCode::Tab);
    assert_eq!(rig.last(), &Ask::Complete("lo".to_owned()));
    rig.take(Event::Words(
        "lo".to_owned(),
        vec!["loss".to_owned(), "lost".to_owned()],
    ));
    assert!(rig.frame().contains("loss  lost"));
    rig.code(KeyCode::Tab);
    assert!(rig.frame().contains("/crashed,los"));
}

#[test]
fn any_of_many_rows_is_reached_and_only_those_around_it_are_asked_for() {
    let many = (1..=100_000).map(|id| view(id, "defined", 1.0)).collect();
    let mut rig = Rig::new(many, (80, 24));
    rig.code(KeyCode::End);
    assert!(rig.frame().contains("fit_lr-100000"), "{}", rig.frame());
    for _ in 0..40 {
        rig.code(KeyCode::Up);
    }
    assert!(rig.frame().contains("fit_lr-99960"), "{}", rig.frame());
    rig.code(KeyCode::Home);
    assert!(rig.frame().contains("fit_lr-1 "));
    let counts = rig.asks.iter().filter_map(|ask| match ask {
        Ask::Rows(query) => Some(query.count),
        _ => None,
    });
    assert!(counts.max().unwrap() < 100);
}

#[test]
fn a_typed_line_is_not_taken_for_a_confirmed_one() {
    let mut rig = Rig::new(few(), (80, 24));
    rig.press(":rm all");
    rig.code(KeyCode::Enter);
    assert_eq!(rig.last(), &Ask::Execute("rm all".to_owned()));
}

#[test]
fn a_range_of_marks_follows_the_cursor() {
    let mut rig = Rig::new(few(), (80, 24));
    rig.code(KeyCode::Down);
    rig.press("vjjva");
    assert_eq!(rig.last(), &Ask::Try("abort 2-4".to_owned()));
}

#[test]
fn hostile_texts_and_tiny_screens_do_no_harm() {
    let hostile = ExperimentView {
        name: "\x1b[2J\u{202e}日本\0\n".repeat(50),
        reason: "<script>\x07".to_owned(),
        state: "crashed".to_owned(),
        ..view(7, "crashed", f64::NAN)
    };
    for size in [(1, 1), (3, 2), (20, 5), (80, 3), (400, 100)] {
        let mut rig = Rig::new(vec![hostile.clone(), view(8, "lost", 1e300)], size);
        for keys in ["1", "2", "3", "4", "?", "?", "d", "g"] {
            rig.press(keys);
            let frame = rig.frame();
            assert!(!frame.contains(['\x1b', '\u{202e}', '\0', '\x07']));
        }
    }
}

#[test]
fn a_daemon_that_left_and_rows_of_an_old_query_are_told_apart() {
    let mut rig = Rig::new(few(), (80, 24));
    rig.take(Event::Daemon(Some("it ended".to_owned())));
    assert!(rig.frame().contains("the daemon does not answer: it ended"));
    // Rows of another query do not replace those shown.
    let old = Query {
        selection: "elsewhere".to_owned(),
        ..Query::default()
    };
    rig.take(Event::Rows(old, Box::default()));
    assert!(rig.frame().contains("fit_lr-1"));
}

#[test]
fn the_first_row_by_a_metric_is_marked_as_the_best() {
    let views = vec![view(1, "finished", 0.5), view(2, "finished", 0.25)];
    let mut rig = Rig::new(views, (80, 24));
    assert!(!rig.frame().contains('★'), "{}", rig.frame());
    for _ in 0..12 {
        rig.press(">");
        let sorted = rig.asks.iter().rev().find_map(|ask| match ask {
            Ask::Rows(query) => Some(query.sort.clone()),
            _ => None,
        });
        if sorted.is_some_and(|sort| sort.contains("loss")) {
            assert!(rig.frame().contains('★'), "{}", rig.frame());
            return;
        }
    }
    panic!("no key sorts by the metric");
}

#[test]
fn keys_that_are_typed_ahead_are_about_the_rows_that_come() {
    let mut top = Top::new("", PLAIN, (80, 24));
    let key = |code| Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
    let typed = "/b".chars().map(KeyCode::Char);
    let ahead = " ja".chars().map(KeyCode::Char);
    let mut asks = top.update(Event::Resize(80, 24));
    let rows = |views: Vec<ExperimentView>| WatchEvent {
        window: Some(WindowRows {
            total: views.len() as u64,
            offset: 0,
            ids: views.iter().map(|view| view.id).collect(),
        }),
        experiments: views,
        first: true,
        ..WatchEvent::default()
    };
    let query = |asks: &[Ask]| {
        let mut queries = asks.iter().filter_map(|ask| match ask {
            Ask::Rows(query) => Some(query.clone()),
            _ => None,
        });
        queries.next_back().unwrap()
    };
    top.update(Event::Rows(query(&asks), Box::new(rows(few()))));
    asks.clear();
    for code in typed.chain([KeyCode::Enter]).chain(ahead) {
        asks.extend(top.update(key(code)));
    }
    assert!(
        !asks.iter().any(|ask| matches!(ask, Ask::Try(_))),
        "{asks:?}"
    );
    let picked = vec![view(2, "running", 0.5), view(4, "running", 0.5)];
    let asks = top.update(Event::Rows(query(&asks), Box::new(rows(picked))));
    assert!(asks.contains(&Ask::Try("abort 2".to_owned())), "{asks:?}");
}
