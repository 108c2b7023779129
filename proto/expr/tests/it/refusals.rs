//! Mistakes are refused with their place and what to write instead.

use nero_expr::{ErrorKind, Expr, NOT_BUILT, ParseContext, RulePlace};

use crate::run::context;

fn refused(text: &str, context: &ParseContext) -> String {
    match Expr::parse(text, context) {
        Ok(expr) => panic!("{text} was taken as {expr}"),
        Err(error) => error.render(text),
    }
}

#[test]
fn errors_point_at_the_place() {
    for (text, shown) in [
        (
            "1 < loss < 3",
            "comparisons do not chain\n  1 < loss < 3\n           ^\nhint: write `1 < loss && loss < …`",
        ),
        (
            "loss > > 5",
            "a value is missing before `>`\n  loss > > 5\n         ^",
        ),
        ("loss >", "something is missing here\n  loss >\n        ^"),
        (
            "(a > 1 && b > 2",
            "this `(` is never closed\n  (a > 1 && b > 2\n  ^",
        ),
        ("a > 1)", "this `)` closes nothing\n  a > 1)\n       ^"),
        (
            "runtime",
            "`runtime` is a number, not a condition\n  runtime\n  ^^^^^^^\nhint: compare it: `runtime > …`",
        ),
        (
            "crashed & x > 1",
            "a single `&` means nothing\n  crashed & x > 1\n          ^\nhint: write `&&`",
        ),
        (
            "runtime > 2hrs",
            "`2hrs` is not a number with a unit\n  runtime > 2hrs\n            ^^^^\nhint: write `2h`",
        ),
        (
            "loss=>5",
            "`=>` means nothing\n  loss=>5\n      ^^\nhint: write `>=`; a text that begins so stands in quotes: `= '>…'`",
        ),
        (
            "lr =<0.05",
            "`=<` means nothing\n  lr =<0.05\n     ^^\nhint: write `<=`; a text that begins so stands in quotes: `= '<…'`",
        ),
        (
            "state == crahsed",
            "there is no state `crahsed`\n  state == crahsed\n           ^^^^^^^\nhint: did you mean `crashed`?",
        ),
        (
            "state == failed",
            "`failed` is not one state but a word of its own\n  state == failed\n           ^^^^^^\nhint: write `failed` without `state ==`",
        ),
        (
            "124 - 186",
            "`124 - 186` is a number, not a condition\n  124 - 186\n  ^^^^^^^^^\nhint: a range of numbers is written without blanks and stands in selectors only: `124-186`",
        ),
        (
            "tmod > 2026-02-30",
            "there is no date `2026-02-30`\n  tmod > 2026-02-30\n         ^^^^^^^^^^\nhint: dates are written `2026-11-20`, `2026-11-20T14:00` or `…:30`",
        ),
        (
            "x % 2 == 0 && y%2 == 0",
            "the remainder needs a blank before `%`\n  x % 2 == 0 && y%2 == 0\n                 ^\nhint: a `%` that touches what is before it is per cent: `40%`",
        ),
        (
            "!runtime > 3",
            "`runtime` is a number, not a condition\n  !runtime > 3\n   ^^^^^^^\nhint: `!` reaches no further than the next word: write `!(…)`",
        ),
        ("", "the expression is empty\n  \n  ^"),
    ] {
        assert_eq!(refused(text, &context()), shown, "{text}");
    }
}

#[test]
fn a_condition_that_can_never_hold_is_refused() {
    for text in [
        "name < 5",
        "name > 2026-11-20",
        "tmod == 'yesterday'",
        "exit = abc",
        "tmod = a*",
        "state = crahsed",
        "name + 1 > 2",
        "tstart + tend > 3",
        "tmod * 2 > 3",
        "(a > 1) < 2",
        "-name == 3",
        "'text'",
        "5",
        "now",
        "a && 5",
        "x == (runtime && y)",
        "name =~ 'a('",
        "name = ",
        "param('') > 1",
        "param(lr) > 1",
        "``> 1",
        "'open",
        "foo(3) > 1",
        "a ? b",
    ] {
        refused(text, &context());
    }
}

#[test]
fn planned_words_are_refused_with_their_place() {
    assert!(Expr::parse("tag:x && crashed", &context()).is_ok());
    for text in ["tag:", "tag: x", "tag:'x'", "tag:x=3"] {
        let error = Expr::parse(text, &context()).unwrap_err();
        assert_eq!(error.message, "a tag is expected behind `tag:`", "{text}");
    }
    for fact in NOT_BUILT {
        let text = format!("{fact} > 1");
        let error = Expr::parse(&text, &context()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotBuilt);
        assert_eq!(error.message, format!("`{fact}` is not built yet"));
        assert!(Expr::parse(&format!("param.{fact} > 1"), &context()).is_ok());
    }
    let progress = Expr::parse_progress("mean(loss, 10m)", &context()).unwrap_err();
    assert_eq!(progress.message, "`mean(loss, 10m)` here is not built yet");
}

#[test]
fn a_mistake_in_a_form_is_a_mistake_of_grammar() {
    for text in [
        "x > 1 for",
        "x > 1 for loss",
        "mean(loss, y) > 1",
        "mean(loss > 1",
        "loss@ > 3",
    ] {
        let error = Expr::parse(text, &context()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Syntax, "{text}: {error}");
    }
}

#[test]
fn standing_rules_take_no_day_that_moves() {
    let standing = context().standing();
    for word in ["today", "yesterday"] {
        let shown = refused(&format!("tstart > {word}"), &standing);
        assert!(shown.contains("another day tomorrow"), "{shown}");
    }
    assert!(refused("changed", &standing).contains("selectors"));
    assert!(Expr::parse("tstart > 2026-11-20 && tstart > now - 1h", &standing).is_ok());
}

#[test]
fn a_rule_that_no_side_knows_all_of_is_refused_with_its_parts() {
    let standing = context().standing();
    for (text, place, watcher) in [
        ("runtime > 2h && waittime > 2h", "waittime", "runtime"),
        ("tmod < 10h || cpu > 3", "tmod", "cpu"),
        ("crashed && metric.loss > 1", "crashed", "metric.loss"),
        ("state == crashed && silent > 20m", "crashed", "silent"),
        ("state in (timeout, lost) && mem > 1G", "timeout", "mem"),
        ("mean(loss, 10m) > 1 && reason == rule", "reason", "loss"),
        ("loss@10 > 1 && path=*lang*", "path", "loss"),
        ("waittime > 2h for 10m", "waittime", "for 10m"),
    ] {
        let error = Expr::parse(text, &standing).unwrap_err();
        assert_eq!(error.span.of(text), place, "{text}");
        let both = format!("`{place}` is known to neroman alone and `{watcher}` beside");
        assert!(error.message.contains(&both), "{text}: {error}");
        assert!(error.hint.unwrap().contains("a rule for each"), "{text}");
    }
    let error = Expr::parse("defined", &standing).unwrap_err();
    assert!(error.message.contains("stands with a run"), "{error}");
}

#[test]
fn a_rule_is_evaluated_where_all_of_it_is_known() {
    let standing = context().standing();
    for (text, place) in [
        ("loss > 1", RulePlace::Job),
        ("runtime > 2h && exit != 0", RulePlace::Job),
        ("running && silent > 20m", RulePlace::Job),
        ("timeleft < 1m && mem > 1GB && name = a*", RulePlace::Job),
        ("metric.waittime > 3 && param.path == 'x'", RulePlace::Job),
        ("Wait_Time > 3", RulePlace::Job),
        ("exit != 0 && loss > 1", RulePlace::Job),
        ("param.lr > 1", RulePlace::Job),
        ("waittime >= 0", RulePlace::Daemon),
        ("waittime > 2h && lr > 1", RulePlace::Daemon),
        ("tmod < 10h", RulePlace::Daemon),
        ("crashed", RulePlace::Daemon),
        ("!failed", RulePlace::Daemon),
        ("state == crashed", RulePlace::Daemon),
        ("state in (crashed, timeout)", RulePlace::Daemon),
        ("state=crash*", RulePlace::Daemon),
        ("state =~ 'crash'", RulePlace::Daemon),
        ("ending || live || state == pending", RulePlace::Job),
        ("exit != 0", RulePlace::Daemon),
        ("started", RulePlace::Daemon),
        ("ended && param.lr > 1", RulePlace::Daemon),
    ] {
        let rule = Expr::parse(text, &standing).unwrap();
        assert_eq!(rule.rule_place(), place, "{text}");
        let stored = Expr::parse(&rule.canonical(), &standing).unwrap();
        assert_eq!(stored, rule, "{text}");
    }
    let selector = Expr::parse("started", &context()).unwrap();
    assert_eq!(selector.unbound_names().len(), 1, "a word of rules alone");
}

#[test]
fn a_rule_of_the_daemon_names_no_metric() {
    let standing = context().standing();
    let rule = Expr::parse("waittime > 2h && lr > 1", &standing).unwrap();
    assert_eq!(rule.check_place(["n", "lr"].into_iter()), Ok(()));
    let error = rule.check_place(["n"].into_iter()).unwrap_err();
    let both = "`waittime` is known to neroman alone and `lr` beside";
    assert!(error.message.contains(both), "{error}");
    let beside = Expr::parse("runtime > 2h && lr > 1", &standing).unwrap();
    assert_eq!(beside.check_place([].into_iter()), Ok(()));
}

#[test]
fn what_is_wrong_in_a_function_is_shown_with_what_to_write() {
    let standing = context().standing();
    for (text, place, said, hint) in [
        (
            "mean(cpu, 10m) > 1",
            "cpu",
            "takes a metric",
            "cpu > … for 10m",
        ),
        (
            "max(param.lr) > 1",
            "param.lr",
            "is a parameter",
            "metric.lr",
        ),
        ("max(param('a b')) > 1", "param", "not a parameter", ""),
        (
            "best(energy) < 1",
            "energy",
            "high or low",
            "`max(energy)` or `min(energy)`",
        ),
        ("mean(loss * 2) > 1", "*", "`)` is expected", ""),
        ("mean(loss, 0) > 1", "0", "no duration", "mean(loss, 10m)"),
        ("mean(loss, 99999999w) > 1", "99999999w", "no duration", ""),
        ("mean() > 1", ")", "a metric is expected", "mean(loss, 10m)"),
        ("mean(3) > 1", "3", "a metric is expected", ""),
        (
            "median(loss) > 1",
            "median",
            "is over peers",
            "median(peers.loss@9)",
        ),
        ("param.lr@3 > 1", "param.lr", "is a parameter", ""),
        ("runtime@3 > 1", "3", "between a metric", "loss@10"),
        ("loss@10m > 1", "10m", "between a metric", ""),
        ("loss > 5 for", "", "a duration is expected", "for 10m"),
        ("loss > 5 for 0s", "0s", "no duration", "for 10m"),
        ("loss for 5s > 3", "loss for 5s", "has no order", ""),
        ("abs('x') > 1", "'x'", "is text", ""),
        ("abs() > 1", ")", "a value is missing", ""),
        ("loss < nan", "nan", "`==` and `!=` only", "`loss == nan`"),
        ("loss + nan > 1", "nan", "`==` and `!=` only", ""),
        ("x in 3", "3", "a list in parentheses", "x in (1, 2)"),
        ("x in ()", ")", "a value is missing", ""),
        ("x in (1 2)", "2", "`)` is expected", ""),
        ("state in (crahsed)", "crahsed", "no state", "crashed"),
        (
            "tstart in ('a')",
            "tstart in ('a'",
            "not compared with text",
            "",
        ),
        (
            "tstart > 14:00",
            "14:00",
            "another moment tomorrow",
            "2026-11-20T14:00",
        ),
        ("tstart > 25:00", "25:00", "", ""),
    ] {
        let error = Expr::parse(text, &standing).unwrap_err();
        assert_eq!(error.span.of(text), place, "{text}: {error}");
        assert!(error.message.contains(said), "{text}: {error}");
        let given = error.hint.clone().unwrap_or_default();
        assert!(given.contains(hint), "{text}: {given}");
    }
    for text in ["runtime > 14:00", "x > 14:00"] {
        let shown = refused(text, &context());
        let said = "`14:00` is a time of day";
        assert!(
            shown.contains(said) && shown.contains("`14:00:00` or `90m`"),
            "{shown}"
        );
    }
    let selector = refused("loss > 5 for 10m", &context());
    assert!(selector.contains("`for` needs a rule"), "{selector}");
}

#[test]
fn length_and_depth_are_limited() {
    let long = format!("x > {}", "1 + ".repeat(3000));
    assert_eq!(
        Expr::parse(&long, &context()).unwrap_err().kind,
        ErrorKind::Limit
    );
    let wide = vec!["x > 1"; 500].join(" || ");
    assert!(
        Expr::parse(&wide, &context()).is_ok(),
        "chains are not deep"
    );
    let sum = format!("{} > 1", vec!["x"; 200].join(" + "));
    assert_eq!(
        Expr::parse(&sum, &context()).unwrap_err().kind,
        ErrorKind::Limit
    );
}
