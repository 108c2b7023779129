//! What expressions come to.

use nero_expr::{Expr, Fact, Truth, Value};

use crate::run::{NOW_MS, Run, ago, context, parse};

fn a_run() -> Run {
    Run::new()
        .state("running")
        .fact(Fact::Id, Value::number(144.0))
        .fact(Fact::Name, Value::Text("fib_n-10"))
        .fact(Fact::Params, Value::Text("1 2 data/1.txt"))
        .fact(Fact::Runtime, Value::number(7300.0))
        .fact(Fact::Mem, Value::number(21.0 * 1024.0 * 1024.0 * 1024.0))
        .fact(Fact::Tmod, ago(600))
        .fact(Fact::Tstart, ago(7300))
        .param("lr", Value::Number(0.1, Some("0.10")))
        .param("version", Value::Number(10.0, Some("010")))
        .param("data", Value::Text("data/1.txt"))
        .param("flag", Value::Bool(true, Some("yes")))
        .param("Test/10ep", Value::number(3.0))
        .metric("error_rate", 0.45)
        .metric("loss", 0.31)
        .metric("bad", f64::NAN)
}

fn table(run: &Run, rows: &[(&str, Truth)]) {
    for (text, truth) in rows {
        match run.says(text) {
            Ok(said) => assert_eq!(said, *truth, "{text}"),
            Err(error) => panic!("{}", error.render(text)),
        }
    }
}

use Truth::{False, True, Unknown};

#[test]
fn numbers_compare_with_their_units() {
    table(
        &a_run(),
        &[
            ("runtime>7200&&errorrate>0.40", True),
            ("runtime > 2h", True),
            ("runtime > 2h && error_rate > 50%", False),
            ("mem > 20G", True),
            ("mem <= 20G", False),
            ("loss * 2 + 1 == 1.62", True),
            ("-loss < 0", True),
            ("7 % 4 == 3", True),
            ("Test/10ep == 3", True),
            ("id == 144 && id=14*", True),
            ("id != 144", False),
        ],
    );
}

#[test]
fn equality_is_of_numbers_as_numbers_else_of_text() {
    table(
        &a_run(),
        &[
            ("lr == 0.1", True),
            ("lr == 1e-1", True),
            ("lr == '0.10'", True),
            ("lr == '0.1'", False),
            ("version == 10", True),
            ("version == '010'", True),
            ("data == 'data/1.txt'", True),
            ("data == 'Data/1.txt'", False),
            ("data == 5", False),
            ("data != 5", True),
            ("data < 5", Unknown),
            ("flag", True),
            ("flag == true", True),
            ("flag == 'yes'", True),
            ("name == fib_n-10", True),
            ("name < 'g'", True),
            ("lr = 0.*", True),
            ("loss = 0.3?", True),
        ],
    );
}

#[test]
fn a_name_that_looks_like_a_number_is_compared_as_text() {
    let run = Run::new().fact(Fact::Name, Value::Text("010"));
    table(
        &run,
        &[
            ("name == 010", True),
            ("name = 010", True),
            ("name == 10", False),
        ],
    );
}

#[test]
fn globs_and_regular_expressions_look_at_text() {
    table(
        &a_run(),
        &[
            ("params=*data/1.txt*", True),
            ("params=data/1.txt", False),
            ("name=fib*", True),
            ("name = FIB*", False),
            ("name =~ 'n-\\d+$'", True),
            ("name=~^fib", True),
            ("name =~ '^n'", False),
        ],
    );
}

#[test]
fn a_time_is_an_age_beside_a_duration_and_a_moment_beside_a_date() {
    table(
        &a_run(),
        &[
            ("tmod<1h", True),
            ("tmod < 5m", False),
            ("tmod<3600", True),
            ("1h > tmod", True),
            ("tmod>yesterday", True),
            ("tmod < today", False),
            ("tmod>2026-11-20T13:45", True),
            ("tmod>2026-11-20T13:55", False),
            ("tmod > now - 1h", True),
            ("now - tstart > 2h", True),
            ("tstart + 3h > now", True),
            ("tmod - tstart > 6000", True),
            ("tend < 1h", Unknown),
        ],
    );
}

#[test]
fn unknown_neither_selects_nor_fires() {
    let run = a_run();
    table(
        &run,
        &[
            ("exit == 0", Unknown),
            ("!(exit == 0)", Unknown),
            ("exit != 0", Unknown),
            ("false && exit == 0", False),
            ("exit == 0 && false", False),
            ("true && exit == 0", Unknown),
            ("true || exit == 0", True),
            ("exit == 0 || true", True),
            ("exit == 0 || false", Unknown),
            ("exit + 1 > 0", Unknown),
            ("reason = a*", Unknown),
            ("changed", Unknown),
            ("lr", Unknown),
        ],
    );
    assert!(!run.says("exit == 0").unwrap().is_true());
}

#[test]
fn comparisons_with_nan_are_false_but_not_equal_is_true() {
    table(
        &a_run(),
        &[
            ("bad > 5", False),
            ("bad <= 5", False),
            ("bad == bad", False),
            ("bad != bad", True),
            ("loss != loss", False),
            ("!(bad > 5)", True),
            ("loss / 0 > 1e300", True),
        ],
    );
}

#[test]
fn state_words_are_conditions() {
    for (state, live, failed, done) in [
        ("queued", true, false, false),
        ("paused", true, false, false),
        ("ending", true, false, false),
        ("crashed", false, true, false),
        ("timeout", false, true, false),
        ("finished", false, false, true),
        ("lost", false, false, false),
        ("defined", false, false, false),
        ("aborted", false, false, false),
    ] {
        let run = Run::new().state(state);
        for (word, wanted) in [
            ("live", live),
            ("failed", failed),
            ("done", done),
            (state, true),
        ] {
            assert_eq!(
                run.says(word).unwrap().is_true(),
                wanted,
                "{word} of {state}"
            );
            let denied = run.says(&format!("!{word}")).unwrap();
            assert_eq!(denied.is_true(), !wanted, "!{word} of {state}");
        }
        assert!(run.says(&format!("state=={state}")).unwrap().is_true());
    }
    let mut run = Run::new();
    run.changed = Some(true);
    assert_eq!(
        run.says("changed && !crashed"),
        Ok(Unknown),
        "without a state"
    );
    assert_eq!(run.says("changed"), Ok(True));
}

#[test]
fn values_are_for_progress_and_order() {
    let run = a_run().metric("epoch", 20.0);
    let expr = Expr::parse_value("epoch / 50", &context()).unwrap();
    let bindings = expr.bind(&run).unwrap();
    assert_eq!(expr.value(&bindings, &run), Value::number(0.4));
    let expr = Expr::parse_value("tstart + 1h", &context()).unwrap();
    let bindings = expr.bind(&run).unwrap();
    assert_eq!(expr.value(&bindings, &run), Value::Time(NOW_MS - 3_700_000));
}

#[test]
fn an_expression_is_told_part_by_part() {
    let run = a_run().metric("loss", 7.3);
    let expr = parse("exit == 0 || !(loss > 5) || loss > 1 && (runtime > 9h || lr < 1)");
    let bindings = expr.bind(&run).unwrap();
    let parts = expr.explain_parts(&bindings, &run);
    let told: Vec<String> = parts
        .iter()
        .map(|part| format!("{}{:?} {}", "  ".repeat(part.depth), part.truth, part.text))
        .collect();
    assert_eq!(
        told,
        [
            "True any of",
            "  Unknown exit = unknown == 0",
            "  False not",
            "    True loss = 7.3 > 5",
            "  True all of",
            "    True loss = 7.3 > 1",
            "    True any of",
            "      False runtime = 7300s > 9h",
            "      True lr = 0.10 < 1",
        ]
    );
    assert_eq!(parts[3].values[0].written, "loss");
    assert!(parts[0].values.is_empty());
    let held = Expr::parse("loss > 5 for 10m", &context().standing()).unwrap();
    let parts = held.explain_parts(&held.bind(&run).unwrap(), &run);
    assert_eq!(parts[0].text, "for 10m (does not hold)");
    assert_eq!(parts[1].truth, Truth::True);
}

#[test]
fn an_explanation_has_every_name_with_its_value() {
    let run = a_run().metric("loss", 7.3);
    let shown = |text: &str| {
        let expr = parse(text);
        let bindings = expr.bind(&run).unwrap();
        expr.explain(&bindings, &run)
    };
    for (text, wanted) in [
        ("loss > 5", "loss = 7.3 > 5"),
        (
            "loss*2 > 5 && !failed",
            "loss * 2 = 14.6 > 5 && !(failed (state = 'running'))",
        ),
        ("tmod<1h", "tmod = 600s ago < 1h"),
        (
            "tmod > today",
            "tmod = 2026-11-20T11:50:00Z > 2026-11-19T22:00:00Z",
        ),
        (
            "mem > 20G || exit == 0",
            "mem = 21G > 20G || exit = unknown == 0",
        ),
        ("lr = 0.*", "lr = 0.10 = '0.*'"),
        ("errorrate > 40%", "errorrate = 0.45 > 40%"),
    ] {
        assert_eq!(shown(text).text, wanted);
    }
    let why = shown("errorrate > 40% && exit == 0 && errorrate < 2");
    let values: Vec<_> = why
        .values
        .iter()
        .map(|v| (v.written.as_str(), v.shown.as_str()))
        .collect();
    assert_eq!(values, [("errorrate", "0.45"), ("exit", "unknown")]);
    assert_eq!(why.values[0].number, Some(0.45));
    assert_eq!(
        why.values[0].bound.as_ref().map(|bound| bound.name()),
        Some("error_rate")
    );
    assert_eq!(why.truth, Unknown);
}

#[test]
fn thresholds_are_the_comparisons_of_a_name_with_a_number() {
    let of = |text: &str| {
        let expr = parse(text);
        let found = expr.thresholds();
        (found.iter())
            .map(|(name, number)| format!("{} {number}", name.text))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("loss > 5 && (runtime > 3600 || -1.5 >= acc)"),
        ["loss 5", "acc -1.5"]
    );
    assert_eq!(of("error_rate > 40%"), ["error_rate 0.4"]);
    for text in [
        "loss * 2 > 5",
        "loss > bad",
        "loss == 'x'",
        "runtime > 5",
        "running",
    ] {
        assert!(of(text).is_empty(), "{text}: {:?}", of(text));
    }
}

#[test]
fn texts_of_parameters_compare_as_the_dates_sizes_and_durations_that_they_are() {
    let run = Run::new()
        .param("when", Value::Text("2018-11-25"))
        .param("at", Value::Text("2018-11-25 14:30"))
        .param("size", Value::Text("4G"))
        .param("limit", Value::Text("90min"))
        .param("subject", Value::Text("007"))
        .param("word", Value::Text("never"));
    for (text, want) in [
        ("when == 2018-11-25", Truth::True),
        ("when > 2018-11-25", Truth::False),
        ("when >= 2018-11-25", Truth::True),
        ("when < 2018-11-25T00:01", Truth::True),
        ("when in (2018-11-24, 2018-11-25)", Truth::True),
        ("when == '2018-11-25'", Truth::True),
        (
            "at > 2018-11-25T14:00 && at < 2018-11-25T15:00",
            Truth::True,
        ),
        ("at > 2018-11-25T14:00Z", Truth::True),
        ("size == 4096M && size > 1000", Truth::True),
        ("limit > 1h && limit * 2 == 3h", Truth::True),
        ("subject == '007' && subject == 7", Truth::True),
        ("subject == '7'", Truth::False),
        ("word == 2018-11-25", Truth::False),
        ("word != 2018-11-25", Truth::True),
        ("word > 2018-11-25", Truth::Unknown),
    ] {
        assert_eq!(run.says(text), Ok(want), "{text}");
        // As it travels, read in another zone.
        let (expr, _) = run.standing(text).unwrap();
        let context = nero_expr::ParseContext::utc(0).standing();
        let again = nero_expr::Expr::parse(&expr.canonical(), &context).unwrap();
        let bindings = again.bind(&run).unwrap();
        assert_eq!(again.eval(&bindings, &run), want, "{again}");
    }
}

#[test]
fn long_whole_numbers_are_compared_by_all_their_digits() {
    let digits = "9007199254740993";
    let run = Run::new().param(
        "seed",
        Value::Number(9007199254740993_u64 as f64, Some(digits)),
    );
    for (text, want) in [
        ("seed == 9007199254740993", Truth::True),
        ("seed == 9007199254740992", Truth::False),
        ("seed > 9007199254740992", Truth::True),
        ("seed < 9007199254740994", Truth::True),
        ("seed == 9007199254740992.0", Truth::True),
    ] {
        assert_eq!(run.says(text), Ok(want), "{text}");
    }
}
