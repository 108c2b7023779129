//! What a written name means, and that it never changes its meaning.

use nero_expr::{BindingChange, Bindings, Bound, NameKind, Truth, Value};

use crate::run::Run;

#[test]
fn exact_names_go_before_loose_ones() {
    let run = Run::new().metric("Loss", 1.0).metric("loss", 2.0);
    assert_eq!(run.says("loss == 2"), Ok(Truth::True));
    assert_eq!(run.says("Loss == 1"), Ok(Truth::True));
}

#[test]
fn loose_names_find_the_only_one_that_fits() {
    for written in [
        "errorrate",
        "Error_Rate",
        "ERRORRATE",
        "error-rate",
        "`error rate`",
        "metric.errorrate",
    ] {
        let run = Run::new().metric("Error rate", 0.5);
        assert_eq!(
            run.says(&format!("{written} == 0.5")),
            Ok(Truth::True),
            "{written}"
        );
    }
    let run = Run::new().fact(nero_expr::Fact::Runtime, Value::number(9.0));
    assert_eq!(run.says("Run_Time == 9"), Ok(Truth::True));
    assert!(
        run.says("`Run_Time` == 9").is_err(),
        "backticks never mean a fact"
    );
}

#[test]
fn a_plain_name_is_the_parameter_of_exactly_that_name_before_the_metric() {
    let run = Run::new().metric("lr", 1.0).param("lr", Value::number(2.0));
    assert_eq!(run.says("lr == 2"), Ok(Truth::True));
    assert_eq!(run.says_standing("lr == 2"), Ok(Truth::True));
    assert_eq!(run.says("param.lr == 2 && metric.lr == 1"), Ok(Truth::True));
}

#[test]
fn a_loose_name_of_two_things_has_to_be_written_in_full() {
    let run = Run::new().metric("val loss", 1.0).metric("val_loss", 2.0);
    let text = "runtime > 1 && valloss > 3";
    assert_eq!(
        run.says(text).unwrap_err().render(text),
        "`valloss` is the metric `val loss` and the metric `val_loss`\n  \
         runtime > 1 && valloss > 3\n                 ^^^^^^^\n\
         hint: write `metric('val loss')` or `metric.val_loss`"
    );
}

#[test]
fn a_rule_leaves_a_name_open_that_is_loosely_a_fact_it_never_sees() {
    let run = Run::new();
    let (rule, mut bindings) = run.standing("Wait_Time > 3").unwrap();
    assert!(bindings.is_open(0));
    bindings.see(&rule, NameKind::Metric, "wait_time");
    let run = Run::new().metric("wait_time", 4.0);
    assert_eq!(rule.eval(&bindings, &run), Truth::True);
}

#[test]
fn a_name_that_exists_nowhere_is_an_error_with_a_suggestion() {
    let run = Run::new()
        .metric("error_rate", 0.5)
        .metric("loss", 1.0)
        .metric("best", 1.0)
        .metric("val loss", 1.0);
    for (text, hint) in [
        ("eror_rate > 1", "did you mean `error_rate`?"),
        ("metric.los > 1", "did you mean `loss`?"),
        ("vall_loss > 1", "did you mean `val loss`?"),
        ("rumtime > 1", "did you mean `runtime`?"),
        (
            "loss-best > 1",
            "without blanks it is one name; write `loss - best`",
        ),
        (
            "loss/2 > 1",
            "without blanks it is one name; write `loss / 2`",
        ),
        ("loss == adam", "text stands in quotes: `== 'adam'`"),
    ] {
        let error = run.says(text).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some(hint), "{text}");
    }
}

#[test]
fn in_a_standing_rule_a_metric_not_seen_yet_is_unknown() {
    let run = Run::new();
    assert_eq!(run.says_standing("loss > 5"), Ok(Truth::Unknown));
    assert!(run.says("loss > 5").is_err());
    assert!(
        run.says_standing("param.lr > 5").is_err(),
        "parameters are known from the start"
    );
}

#[test]
fn a_name_is_bound_when_something_first_fits_and_a_second_fit_makes_it_unknown() {
    let empty = Run::new();
    let (rule, mut bindings) = empty.standing("errorrate > 0.4").unwrap();
    assert!(bindings.is_open(0));
    assert_eq!(bindings.see(&rule, NameKind::Metric, "loss"), []);

    let seen = bindings.see(&rule, NameKind::Metric, "error_rate");
    let to = Bound::Metric("error_rate".into());
    assert_eq!(
        seen,
        [BindingChange::Bound {
            written: "errorrate".into(),
            to: to.clone()
        }]
    );
    assert_eq!(
        bindings.see(&rule, NameKind::Metric, "error_rate"),
        [],
        "once"
    );
    let run = Run::new().metric("error_rate", 0.5);
    assert_eq!(rule.eval(&bindings, &run), Truth::True);

    let seen = bindings.see(&rule, NameKind::Metric, "Error rate");
    let second = Bound::Metric("Error rate".into());
    let written = "errorrate".to_owned();
    assert_eq!(
        seen,
        [BindingChange::Clash {
            written,
            first: to,
            second
        }]
    );
    assert_eq!(rule.eval(&bindings, &run), Truth::Unknown);
    assert!(bindings.warnings(&rule)[0].contains("Error rate"));
    assert_eq!(
        bindings.see(&rule, NameKind::Metric, "errorrate"),
        [],
        "for good"
    );
}

#[test]
fn a_name_bound_exactly_stays() {
    let run = Run::new().param("lr", Value::number(1.0));
    let (rule, mut bindings) = run.standing("lr > 0.5").unwrap();
    assert_eq!(bindings.see(&rule, NameKind::Metric, "lr"), []);
    assert_eq!(bindings.see(&rule, NameKind::Metric, "LR"), []);
    assert_eq!(rule.eval(&bindings, &run), Truth::True);
}

#[test]
fn bindings_survive_the_watcher() {
    let run = Run::new()
        .param("n", Value::number(1.0))
        .metric("val loss", 1.0);
    let text = "N > 0 && (valloss > 0 || `b c` > 0 || metric.late > 0)";
    let (rule, mut bindings) = run.standing(text).unwrap();
    bindings.see(&rule, NameKind::Metric, "B-C");
    bindings.see(&rule, NameKind::Metric, "bc");
    let records = bindings.records(&rule);
    let plain: Vec<_> = records
        .iter()
        .map(|r| {
            (
                r.written.as_str(),
                r.kind.as_str(),
                r.name.as_str(),
                r.clash.is_some(),
            )
        })
        .collect();
    assert_eq!(
        plain,
        [
            ("N", "param", "n", false),
            ("valloss", "metric", "val loss", false),
            ("`b c`", "metric", "B-C", true),
        ]
    );
    assert_eq!(Bindings::from_records(&rule, &records), bindings);
}

#[test]
fn records_of_another_version_are_left_out() {
    let (rule, bindings) = Run::new().standing("a > 0").unwrap();
    let mut records = bindings.records(&rule);
    records.push(nero_expr::BindRecord {
        written: "a".into(),
        kind: "hologram".into(),
        name: "a".into(),
        clash: None,
    });
    assert!(Bindings::from_records(&rule, &records).is_open(0));
}

#[test]
fn a_condition_that_can_hold_raises_no_doubt() {
    let run = Run::new()
        .param("target", Value::Text("0.9"))
        .param("optimizer", Value::Text("adam"))
        .param("flag", Value::Bool(true, None));
    for text in [
        "acc == target",
        "acc == '0.9' || exit == '1'",
        "flag && !flag || loss > 5",
        "optimizer == 'sgd' || optimizer = ad*",
        "loss > best_loss",
        "metric.exit_code != 0",
        "beta > 3 && rate > 2 && count < 5",
        "loss == nan || running",
    ] {
        let (rule, _) = run.standing(text).unwrap();
        assert_eq!(rule.doubt(&run), None, "{text}");
    }
}

#[test]
fn a_name_without_a_set_finds_the_metric_of_a_set() {
    let only = |name: &'static str| Run::new().metric(name, 3.0);
    for name in ["train loss", "Train Loss", "val/loss", "Fold 1 loss"] {
        assert_eq!(only(name).says("loss == 3"), Ok(Truth::True), "{name}");
        let in_rule = if name == "val/loss" {
            Truth::Unknown
        } else {
            Truth::True
        };
        assert_eq!(only(name).says_standing("loss == 3"), Ok(in_rule), "{name}");
        assert_eq!(
            only(name).says("max(loss) == 3 || loss == 3"),
            Ok(Truth::True)
        );
    }
    // A word within a name, and a sum, is no set.
    assert!(only("train_loss").says("loss == 3").is_err());
    assert!(only("AVERAGES loss").says("loss == 3").is_err());
    // What fits better is meant: the name itself, then the set to train with.
    let run = only("val loss").metric("train loss", 2.0);
    assert_eq!(run.says("loss == 2"), Ok(Truth::True));
    assert_eq!(run.says_standing("loss == 2"), Ok(Truth::True));
    assert_eq!(run.metric("loss", 1.0).says("loss == 1"), Ok(Truth::True));
    // Two other sets are two things; of numbered parts the newest is meant.
    let run = only("val loss").metric("test loss", 2.0);
    assert!(run.says("loss == 2").is_err());
    let run = only("Fold 1 loss").metric("Fold 2 loss", 2.0);
    assert_eq!(run.says("loss == 2"), Ok(Truth::True));
}

#[test]
fn a_rule_is_bound_to_no_other_set_than_that_to_train_with() {
    let run = Run::new().metric("val loss", 9.0);
    let (_, bindings) = run.standing("loss > 5").unwrap();
    assert_eq!(bindings.get(0), None);
    // The same when it is printed later, in either order, and behind a take-over.
    let (rule, mut bindings) = Run::new().standing("loss > 5").unwrap();
    for (printed, bound) in [
        ("val loss", None),
        ("test loss", None),
        ("train loss", Some("train loss")),
        ("val Loss", Some("train loss")),
    ] {
        bindings.see(&rule, NameKind::Metric, printed);
        let records = bindings.records(&rule);
        if printed == "val loss" {
            let same = Some(("metric".to_owned(), "val loss".to_owned()));
            assert_eq!(records[0].clash, same, "told as a name that is of a set");
        }
        bindings = Bindings::from_records(&rule, &records);
        assert_eq!(bindings.get(0).map(Bound::name), bound, "{printed}");
        assert_eq!(bindings.warnings(&rule).len(), 0, "{printed}");
    }
}

#[test]
fn a_rule_goes_on_with_what_fits_better_than_the_metric_of_a_set() {
    let (rule, mut bindings) = Run::new().standing("loss > 20").unwrap();
    let bound = |bindings: &Bindings| bindings.get(0).map(|bound| bound.name().to_owned());
    for (printed, want) in [
        ("Fold 1 loss", Some("Fold 1 loss")),
        ("Fold 2 loss", Some("Fold 2 loss")),
        ("test loss", Some("Fold 2 loss")),
        ("Chain 1 loss", None),
        ("train loss", Some("train loss")),
        ("dev loss", Some("train loss")),
        ("loss", Some("loss")),
        ("train Loss", Some("loss")),
    ] {
        bindings.see(&rule, NameKind::Metric, printed);
        assert_eq!(bound(&bindings).as_deref(), want, "{printed}");
        let records = bindings.records(&rule);
        bindings = Bindings::from_records(&rule, &records);
    }
    // What is bound loosely is not touched by a set.
    let (rule, mut bindings) = Run::new()
        .metric("Loss", 1.0)
        .standing("loss > 20")
        .unwrap();
    assert_eq!(bindings.see(&rule, NameKind::Metric, "train loss"), []);
    assert_eq!(bound(&bindings).as_deref(), Some("Loss"));
}
