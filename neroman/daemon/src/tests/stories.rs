//! What happens between a command, the databases and a node.

use nero_journal::v1::{self as journal, RecordKind};
use nero_wire::v1;
use nero_wire::v1::run_state::Stage;

use super::{DEADLINE, Rig, select};

pub(super) const TWO: &str = "collection: lab\ncommand: echo {x}\nparameters: {x: [1, 2]}\n";

/// A daemon that was given an experiment.
pub(super) async fn added(yaml: &str) -> Rig {
    let rig = Rig::new();
    rig.write(yaml);
    rig.add().await;
    rig
}

/// The same with run 1.1 handed over, and its token.
pub(super) async fn sent(yaml: &str) -> (Rig, Vec<u8>) {
    let rig = added(yaml).await;
    rig.start("1").await;
    let token = rig.mum.token(1, 1).await;
    (rig, token)
}

/// The same with run 1.1 running, and its token.
pub(super) async fn begun(yaml: &str) -> (Rig, Vec<u8>) {
    let (rig, token) = sent(yaml).await;
    rig.mum.begin(&token);
    rig.state(1, "running").await;
    (rig, token)
}

/// What is noted of an experiment or a run.
pub(super) async fn notes(rig: &Rig, what: &str) -> Vec<String> {
    let show = v1::ShowRequest {
        what: what.to_owned(),
        zone: String::new(),
    };
    rig.man.show(show).await.unwrap().notes
}

#[tokio::test]
async fn a_run_goes_there_and_its_end_comes_back() {
    let rig = Rig::new();
    rig.write(TWO);
    assert_eq!(rig.add().await.range, "1-2");
    let reply = rig.start("1").await;
    assert_eq!((reply.experiments.len(), reply.experiments[0].run), (1, 1));
    let token = rig.mum.token(1, 1).await;
    let spec = rig.mum.spec(&token);
    assert_eq!(
        (spec.argv, spec.number),
        (vec!["echo".to_owned(), "1".to_owned()], 1)
    );
    rig.mum.begin(&token);
    rig.state(1, "running").await;
    let metrics = journal::Metrics {
        names: vec!["loss".to_owned()],
        series: vec![0, 0],
        steps: vec![1.0, 2.0],
        values: vec![0.5, 0.25],
        mono_ms: vec![1, 2],
        ..journal::Metrics::default()
    };
    rig.mum.record(&token, RecordKind::Metrics, &metrics);
    rig.mum.end(&token, 0, b"1\n");
    let events = rig.wait("1-2", true).await;
    let last = events.last().unwrap();
    assert!(last.done && last.still_live == 0);
    let mut ended: Vec<_> = events
        .iter()
        .flat_map(|event| &event.ended)
        .map(|view| (view.id, view.state.as_str()))
        .collect();
    // The run that ended first is reported first, which here may be either.
    ended.sort_unstable();
    assert_eq!(ended, [(1, "finished"), (2, "defined")]);
    let view = rig
        .until(1, "had results", |view| !view.results.is_empty())
        .await;
    assert_eq!((view.metrics[0].last, view.metrics[0].count), (0.25, 2));
    assert_eq!((view.exit_code, view.runtime_s), (Some(0), Some(0.007)));
    rig.mum.closed(&token).await;
    let log = std::path::Path::new(&rig.view(1).await.results).join("stdout.log");
    assert_eq!(std::fs::read(log).unwrap(), b"1\n");
    let request = v1::MetricsRequest {
        selection: select("1"),
        names: vec!["Loss".to_owned()],
        ..v1::MetricsRequest::default()
    };
    let series = rig.man.metrics(request).await.unwrap().series;
    assert_eq!(series[0].values, [0.5, 0.25]);
    rig.stop().await;
}

#[tokio::test]
async fn a_picture_gets_the_points_that_it_can_show_and_what_was_added_since() {
    let (rig, token) = begun(TWO).await;
    let mut count = 0;
    let mut print = |values: &[f64]| {
        let steps: Vec<f64> = (count..).map(f64::from).take(values.len()).collect();
        count += values.len() as u32;
        let metrics = journal::Metrics {
            names: vec!["loss".to_owned()],
            series: vec![0; values.len()],
            mono_ms: steps.iter().map(|step| *step as u64).collect(),
            steps,
            values: values.to_vec(),
            ..journal::Metrics::default()
        };
        rig.mum.record(&token, RecordKind::Metrics, &metrics);
    };
    let asked = async |width: u32, from: Option<f64>, to: Option<f64>| {
        let request = v1::MetricsRequest {
            selection: select("1"),
            names: vec!["loss".to_owned()],
            width,
            from_step: from,
            to_step: to,
        };
        rig.man.metrics(request).await.unwrap().series.remove(0)
    };
    let mut values = vec![1.0; 5000];
    values[4321] = 9.0;
    print(&values);
    rig.until(1, "had them", |view| {
        view.metrics.iter().any(|one| one.count == 5000)
    })
    .await;
    let seen = asked(50, None, None).await;
    assert!(seen.steps.len() <= 400, "{}", seen.steps.len());
    assert!(seen.steps.contains(&4321.0) && seen.steps.contains(&4999.0));
    let all = asked(0, None, None).await;
    assert_eq!(all.steps.len(), 5000);
    print(&[-7.0, 2.0]);
    rig.until(1, "had more", |view| {
        view.metrics.iter().any(|one| one.count == 5002)
    })
    .await;
    let seen = asked(50, None, None).await;
    assert!(seen.values.contains(&9.0) && seen.values.contains(&-7.0));
    assert_eq!(seen.steps.last(), Some(&5001.0));
    let seen = asked(50, Some(4300.0), Some(4340.0)).await;
    assert_eq!(seen.steps.len(), 41);
    let seen = asked(50, Some(9000.0), None).await;
    assert_eq!(seen.steps, [] as [f64; 0]);
    rig.stop().await;
}

#[tokio::test]
async fn a_curve_of_an_expression_has_a_point_wherever_a_metric_has_one() {
    let (rig, token) = begun(TWO).await;
    let metrics = journal::Metrics {
        names: vec!["loss".to_owned(), "val-loss".to_owned()],
        series: vec![0, 0, 1, 0],
        steps: vec![1.0, 2.0, 2.0, 3.0],
        values: vec![0.5, 0.25, 4.0, 0.125],
        mono_ms: vec![1, 2, 2, 3],
        ..journal::Metrics::default()
    };
    rig.mum.record(&token, RecordKind::Metrics, &metrics);
    rig.until(1, "had both", |view| view.metrics.len() == 2)
        .await;
    let asked = async |name: &str| {
        let request = v1::MetricsRequest {
            selection: select("1"),
            names: vec![name.to_owned()],
            ..v1::MetricsRequest::default()
        };
        rig.man.metrics(request).await
    };
    let points = async |name: &str| {
        let one = asked(name).await.unwrap().series.remove(0);
        assert_eq!(one.name, name);
        (one.steps, one.values)
    };
    let both = points("loss * 2 + metric('val-loss')").await;
    assert_eq!(both, (vec![2.0, 3.0], vec![4.5, 4.25]));
    let one = points("loss * 2").await;
    assert_eq!(one, (vec![1.0, 2.0, 3.0], vec![1.0, 0.5, 0.25]));
    let truth = points("loss < 0.3").await;
    assert_eq!(truth.1, [0.0, 1.0, 1.0]);
    assert_eq!(points("min(loss)").await.1, [0.5, 0.25, 0.125]);
    assert_eq!(points("mean(loss, 10m)").await.1, [0.5, 0.375, 0.875 / 3.0]);
    assert_eq!(
        points("loss - loss@2").await,
        (vec![2.0, 3.0], vec![0.0, -0.125])
    );
    // A word with a sign and without blanks is the name of a metric.
    assert_eq!(points("val-loss").await.1, [4.0]);
    let notes = asked("train-loss").await.unwrap().notes;
    assert!(notes[0].contains("there are: loss, val-loss"), "{notes:?}");
    for (text, why) in [
        ("loss * runtime", "not built yet: `runtime` in a curve"),
        ("los * 2", "`los`"),
        ("loss * * 2", "*"),
    ] {
        let failure = asked(text).await.unwrap_err().to_string();
        assert!(failure.contains(why), "{text}: {failure}");
    }
    // Experiment 2 has no run.
    for (text, picked) in [
        (
            "min(loss) == 0.125 && max(loss) == 0.5 && count(loss) == 3",
            vec![1],
        ),
        (
            "first(loss) == 0.5 && mean(loss) < 0.3 && age(loss) >= 0",
            vec![1],
        ),
        (
            "loss@2 == 0.25 && loss@1.5 == 0.5 && valloss@2 == 4",
            vec![1],
        ),
        (
            "mean(loss, 1d) < 0.3 && count(loss, 1d) == 3 && best(loss) < 1",
            vec![1],
        ),
        (
            "loss@3 > 1 || loss@4 > 0 || min(metric.val-loss) < 0",
            vec![],
        ),
        ("count(loss) == 0 || loss in (0.5, nan)", vec![]),
    ] {
        let request = v1::ListRequest {
            selection: select(text),
            ..v1::ListRequest::default()
        };
        let reply = rig.man.list(request).await.unwrap();
        let ids: Vec<u64> = reply.experiments.iter().map(|view| view.id).collect();
        assert_eq!(ids, picked, "{text}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_run_on_another_host_of_its_node_is_told_with_that_host() {
    let (rig, token) = begun(TWO).await;
    rig.mum.goes_on_at(&token, "login\x1b[31m2");
    let view = rig
        .until(1, "was told to be elsewhere", |view| {
            !view.warnings.is_empty()
        })
        .await;
    assert_eq!(view.state, "running");
    let told = &view.warnings[0];
    let plain = !told.contains('\x1b');
    assert!(told.contains("another host") && plain, "{told}");
    rig.mum.goes_on_at(&token, "");
    rig.until(1, "was here again", |view| view.warnings.is_empty())
        .await;
}

#[tokio::test]
async fn accepted_orders_are_there_after_a_restart_of_the_daemon() {
    let rig = added(TWO).await;
    rig.mum.cut(true);
    rig.start("1-2").await;
    let rig = rig.restart().await;
    assert_eq!(rig.view(1).await.state, "queued");
    assert_eq!(rig.mum.hand_overs(), 0);
    rig.mum.cut(false);
    let token = rig.mum.token(1, 1).await;
    rig.mum.begin(&token);
    rig.state(1, "running").await;
    let rig = rig.restart().await;
    assert_eq!(rig.view(1).await.state, "running");
    rig.mum.end(&token, 3, b"");
    let view = rig.state(1, "crashed").await;
    assert_eq!(view.reason, "exit code 3");
    rig.mum.closed(&token).await;
    let rig = rig.restart().await;
    assert_eq!(rig.view(1).await.state, "crashed");
    rig.stop().await;
}

/// A node with a scheduler makes one submission of what arrives together.
#[tokio::test]
async fn what_one_command_starts_arrives_at_its_node_together() {
    let values: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    let parameters = format!("parameters: {{x: [{}]}}\n", values.join(", "));
    let (rig, _) = sent(&format!(
        "collection: lab\ncommand: echo {{x}}\n{parameters}"
    ))
    .await;
    assert_eq!(rig.mum.hand_overs(), 1);
    rig.start("2-300").await;
    for id in 2..=300 {
        rig.mum.token(id, 1).await;
    }
    assert_eq!(rig.mum.hand_overs(), 2);
    rig.stop().await;
}

#[tokio::test]
async fn a_node_that_was_cut_off_goes_on_from_our_positions() {
    let (rig, token) = begun(TWO).await;
    rig.mum.cut(false);
    rig.mum.end(&token, 0, b"");
    rig.state(1, "finished").await;
    let position = &rig.mum.positions()[0];
    assert_eq!(position.run.as_ref().unwrap().token, token);
    assert!(position.segments[0].offset > 80);
    rig.stop().await;
}

#[tokio::test]
async fn a_node_without_room_for_rules_keeps_its_connection() {
    let (rig, _) = begun(TWO).await;
    let add = |text: &str| v1::RuleAddRequest {
        selection: select("1"),
        action: "warn".to_owned(),
        text: text.to_owned(),
        ..v1::RuleAddRequest::default()
    };
    rig.mum.take_no_rules(true);
    rig.man.rule_add(add("loss > 1")).await.unwrap();
    rig.mum.refused_rules().await;
    let node = rig.man.nodes.node("local").unwrap();
    assert!(node.answers(DEADLINE).await);
    assert_eq!(rig.mum.tries(), 1);
    rig.mum.take_no_rules(false);
    rig.man.rule_add(add("loss > 2")).await.unwrap();
    // The earlier set may have been sent again in between.
    rig.mum.has_rules(2).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_cancel_is_shown_until_it_is_carried_out() {
    let rig = added(TWO).await;
    rig.start("1-2").await;
    let token = rig.mum.token(1, 1).await;
    rig.mum.begin(&token);
    rig.state(1, "running").await;
    rig.mum.cut(true);
    let abort = |text: &str| v1::AbortRequest {
        selection: select(text),
        author: "me".to_owned(),
        ..v1::AbortRequest::default()
    };
    let reply = rig.man.abort(abort("1")).await.unwrap();
    assert_eq!(reply.experiments[0].outcome, "asked");
    let view = rig
        .until(1, "was unreachable", |view| {
            view.cancel.ends_with("node unreachable")
        })
        .await;
    assert_eq!(view.state, "running");
    rig.mum.cut(false);
    rig.mum.cancelled(&token).await;
    let stop = journal::StopAsked {
        cause: journal::StopCause::Person.into(),
        ..journal::StopAsked::default()
    };
    rig.mum.record(&token, RecordKind::StopAsked, &stop);
    rig.mum.end(&token, 0, b"");
    let view = rig.state(1, "aborted").await;
    assert_eq!(view.reason, "aborted by me");
    // The other one waits at the node and is taken away there.
    rig.mum.token(2, 1).await;
    rig.man.abort(abort("2")).await.unwrap();
    let view = rig.state(2, "aborted").await;
    assert_eq!(view.reason, "taken away before it was started");
    let again = rig.man.abort(abort("2")).await.unwrap();
    assert_eq!(again.experiments[0].outcome, "skipped");
    rig.stop().await;
}

#[tokio::test]
async fn a_restart_of_a_live_run_waits_for_its_end() {
    let (rig, token) = begun(TWO).await;
    rig.restart_runs("1").await;
    rig.mum.cancelled(&token).await;
    let view = rig.view(1).await;
    assert_eq!((view.run, view.state.as_str()), (2, "queued"));
    assert_eq!(view.waiting_for, "the end of run 1.1");
    assert!(!rig.mum.has(1, 2));
    rig.mum.end(&token, 0, b"");
    rig.mum.token(1, 2).await;
    rig.stop().await;
}

#[tokio::test]
async fn asking_twice_is_asking_once() {
    let rig = Rig::new();
    rig.mum.has_cpus(2.0);
    rig.write(TWO);
    rig.add().await;
    let request = v1::StartRequest {
        request: vec![5; 16],
        selection: select("1"),
        ..v1::StartRequest::default()
    };
    let first = rig.man.start(request.clone()).await.unwrap();
    let second = rig.man.start(request.clone()).await.unwrap();
    assert_eq!(first, second);
    let rig = rig.restart().await;
    let third = rig.man.start(request.clone()).await.unwrap();
    assert_eq!(first, third);
    // By now a new start would be refused.
    rig.write("collection: lab\ncommand: [\n");
    let fourth = rig.man.start(request).await.unwrap();
    assert_eq!(first, fourth);
    assert_eq!(rig.view(1).await.run, 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_rehearsal_refuses_a_pilot_that_would_wait_as_the_start_does() {
    let first = "+a: {command: 'true'}";
    let others = "+b: {command: 'true {x}', parameters: {x: [1, 2]}, depends_on: [a]}";
    let rig = added(&format!("collection: lab\n{first}\n{others}\n")).await;
    for dry_run in [true, false] {
        let request = v1::StartRequest {
            selection: select("2-3"),
            pilot: true,
            dry_run,
            ..v1::StartRequest::default()
        };
        let refused = rig.man.start(request).await.unwrap_err();
        assert!(refused.to_string().contains("none can run first"));
    }
    rig.stop().await;
}

#[tokio::test]
async fn sources_are_read_again_and_a_mistake_changes_nothing() {
    let rig = added(TWO).await;
    rig.write("collection: lab\ncommand: echo new {x}\nparameters: {x: [1, 2]}\n");
    let reply = rig.start("1").await;
    assert!(
        reply.notes.iter().any(|note| note.starts_with("1-2: ")),
        "{:?}",
        reply.notes
    );
    let token = rig.mum.token(1, 1).await;
    assert_eq!(rig.mum.spec(&token).argv, ["echo", "new", "1"]);
    rig.write("collection: lab\ncommand: [\n");
    let request = v1::StartRequest {
        selection: select("2"),
        ..v1::StartRequest::default()
    };
    let refused = rig.man.start(request.clone()).await.unwrap_err();
    assert!(refused.to_string().contains("mistake"), "{refused}");
    assert_eq!(rig.view(2).await.state, "defined");
    let as_added = v1::StartRequest {
        as_added: true,
        ..request
    };
    let reply = rig.man.start(as_added).await.unwrap();
    assert_eq!(reply.experiments[0].run, 1);
    rig.stop().await;
}

#[tokio::test]
async fn rules_reach_a_live_run_with_a_higher_version() {
    let (rig, token) = begun(TWO).await;
    let request = v1::RuleAddRequest {
        selection: select("1"),
        action: "abort".to_owned(),
        text: "loss>7".to_owned(),
        ..v1::RuleAddRequest::default()
    };
    let reply = rig.man.rule_add(request.clone()).await.unwrap();
    let rule = reply.changed[0].rule;
    let set = rig.mum.rules(1).await;
    assert_eq!((set.version, set.rules[0].text.as_str()), (2, "loss > 7"));
    let wrong = v1::RuleAddRequest {
        text: "loss >".to_owned(),
        ..request
    };
    assert!(rig.man.rule_add(wrong).await.is_err());
    let fired = journal::RuleFired {
        rule,
        action: "abort".to_owned(),
        text: "loss > 7".to_owned(),
        values: "loss = 8".to_owned(),
        times: 1,
        ..journal::RuleFired::default()
    };
    rig.mum.record(&token, RecordKind::RuleFired, &fired);
    let stop = journal::StopAsked {
        cause: journal::StopCause::Rule.into(),
        rule,
        ..journal::StopAsked::default()
    };
    rig.mum.record(&token, RecordKind::StopAsked, &stop);
    rig.mum.end(&token, 0, b"");
    let view = rig.state(1, "aborted").await;
    assert_eq!(view.reason, "rule `loss > 7` (loss = 8)");
    let list = v1::RuleListRequest {
        selection: select("1"),
    };
    let rules = rig.man.rule_list(list).await.unwrap().rules;
    assert_eq!(
        (rules[0].fired, rules[0].last_values.as_str()),
        (1, "loss = 8")
    );
    rig.stop().await;
}

#[tokio::test]
async fn rules_that_no_watcher_can_read_are_not_sent_one_set_after_another() {
    let (rig, token) = begun(TWO).await;
    let add = |text: &str| v1::RuleAddRequest {
        selection: select("1"),
        action: "warn".to_owned(),
        text: text.to_owned(),
        ..v1::RuleAddRequest::default()
    };
    let refused = |version| journal::RulesRefused {
        version,
        why: format!("rules.{version} is damaged"),
    };
    rig.man.rule_add(add("loss > 1")).await.unwrap();
    assert_eq!(rig.mum.rules(1).await.version, 2);
    for (count, version) in [(2, 2), (2, 3)] {
        rig.mum
            .record(&token, RecordKind::RulesRefused, &refused(version));
        rig.mum.rules(count).await;
        rig.until(1, "tells of it", |view| {
            view.warnings
                .iter()
                .any(|warning| warning.contains(&format!("rules.{version} is damaged")))
        })
        .await;
    }
    // A change by a person goes there at once, above what was refused.
    rig.man.rule_add(add("loss > 2")).await.unwrap();
    let set = rig.mum.rules(3).await;
    assert_eq!((set.version, set.rules.len()), (5, 2));
    rig.stop().await;
}

#[tokio::test]
async fn outputs_come_home_under_safe_names_and_within_bounds() {
    let rig = added("collection: lab\ncommand: echo\noutputs: ['*', {path: big, max: 1K}]\n").await;
    rig.mum.file("sub/model.pt", b"weights");
    rig.mum.file("../evil", b"x");
    rig.mum.file("/etc/evil", b"x");
    rig.mum.file("od\x1bd", b"odd");
    rig.start("1").await;
    let token = rig.mum.token(1, 1).await;
    rig.mum.begin(&token);
    rig.mum.end(&token, 0, b"hello\n");
    let view = rig
        .until(1, "had results", |view| !view.results.is_empty())
        .await;
    rig.mum.closed(&token).await;
    let folder = std::path::PathBuf::from(&view.results);
    assert!(folder.starts_with(rig.folder.canonicalize().unwrap()));
    assert_eq!(
        std::fs::read(folder.join("sub/model.pt")).unwrap(),
        b"weights"
    );
    assert_eq!(
        std::fs::read(folder.join("stdout.log")).unwrap(),
        b"hello\n"
    );
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
    assert!(!rig.base.path().join("evil").exists());
    let notes = notes(&rig, "1").await;
    assert_eq!(
        notes
            .iter()
            .filter(|note| note.contains("no name that can be kept"))
            .count(),
        2
    );
    assert!(folder.parent().unwrap().join("latest").is_symlink());
    rig.stop().await;
}

#[tokio::test]
async fn a_node_that_refuses_ends_the_run_with_its_words() {
    let (rig, token) = sent(TWO).await;
    rig.mum.stage(&token, Stage::Refused);
    let view = rig.state(1, "crashed").await;
    assert_eq!(view.exit_code, None);
    rig.stop().await;
}

#[tokio::test]
async fn mistakes_in_a_selection_point_at_the_place() {
    let rig = added(TWO).await;
    for text in ["7", "state ==", "nosuch"] {
        let request = v1::ListRequest {
            selection: select(text),
            settle: false,
            ..v1::ListRequest::default()
        };
        let failure = rig.man.list(request).await.unwrap_err();
        let (shown, caret) = failure.place().split_once('\n').expect("two lines");
        assert_eq!(shown.trim(), text, "{failure}");
        assert!(caret.contains('^'), "{text}: {caret}");
    }
    let request = v1::StartRequest {
        selection: select("1"),
        node: "triton".to_owned(),
        ..v1::StartRequest::default()
    };
    let failure = rig.man.start(request).await.unwrap_err();
    let said = failure.to_string();
    assert_eq!(said, "no node or group is named `triton`");
    assert!(rig.home.data.exists());
    rig.stop().await;
}

#[tokio::test]
async fn a_long_list_in_parts_is_the_whole_one() {
    let rig =
        added("collection: lab\ncommand: echo {x}\nparameters: {x: {range: [1, 1201]}}\n").await;
    for text in ["", "id>1", "id>9999"] {
        let request = v1::ListRequest {
            selection: select(text),
            settle: false,
            ..v1::ListRequest::default()
        };
        let whole = rig.man.list(request.clone()).await.unwrap();
        let (sink, mut parts) = tokio::sync::mpsc::channel(1);
        let man = rig.man.clone();
        let listing = tokio::spawn(async move { man.list_parts(request, sink).await });
        let mut together = parts.recv().await.unwrap().unwrap();
        let mut count = 1;
        while let Some(part) = parts.recv().await {
            together.experiments.extend(part.unwrap().experiments);
            count += 1;
        }
        listing.await.unwrap().unwrap();
        assert_eq!(together, whole, "{text}");
        assert_eq!(count, if whole.experiments.is_empty() { 1 } else { 3 });
    }
    rig.stop().await;
}

#[tokio::test]
async fn every_mistake_of_every_folder_is_reported_at_once_and_nothing_is_added() {
    let rig = added(TWO).await;
    let folder = |name: &str, yaml: &str| {
        let folder = rig.base.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("neronet.yaml"), yaml).unwrap();
        folder.display().to_string()
    };
    let fine = folder("fine", "collection: fine\ncommand: echo\n");
    let odd = folder(
        "odd",
        "comand: echo\ncollection: odd\nresources: {cpu: 2}\n",
    );
    let wrong = folder("wrong", "collection: [\n");
    let request = v1::AddRequest {
        paths: vec![fine, odd.clone(), wrong.clone()],
        ..v1::AddRequest::default()
    };
    let refused = rig.man.add(request).await.unwrap_err();
    let what = refused.to_string();
    assert!(what.ends_with("mistakes in what is to be read"), "{what}");
    let report = refused.place();
    for part in ["comand", "`command`", "`cpus`", &odd, &wrong] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert_eq!(rig.man.ledger.state().experiments.len(), 2);
    rig.stop().await;
}
