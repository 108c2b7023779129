//! What holds for every text.

use nero_expr::{Expr, ParseContext};
use proptest::prelude::*;

use crate::run::{NOW_MS, Run, context};

/// Texts that are often expressions.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "[a-c]{1,2}(/10|\\.x|-y)?",
        "(runtime|tmod|name|state|exit|signal|now|today|yesterday|true|crashed|live|all|last)",
        "[0-9]{1,3}(\\.5)?(s|m|h|K|G|%|e-3)?",
        "[0-9]{1,3}-[0-9]{1,3}",
        "2026-1[012]-[012][0-9](T1[0-9]:30)?",
        "'[a-c\" ]{0,3}'",
        "`[a-c' ]{1,3}`",
        "(param|metric)\\.[a-c]",
        "(param|metric)\\('[a-c/ ]{1,3}'\\)",
        "(min|max|mean|first|last|count|age|rate|best)\\((loss|[a-c]{1,2}|metric\\.in|`a b`)(, [0-9]{1,2}(\\.5)?m?)?\\)",
        "([a-c]|running|metric\\.now|`a b`|metric\\('a b'\\))@[0-9]{1,2}(\\.5)?",
        "(count|min|max|mean|median)\\((peers\\.(a|metric\\('a b'\\)|param\\.c|x\\.y)(@[0-9])?|2 \\* max\\(peers\\.b\\) - peers\\.c)\\)",
        "quantile\\(peers\\.loss@9,(1/3|0\\.5|25%| 1 - 1/3)\\)",
        "(nan|inf|-inf|[01][0-9]:[0-5][0-9])",
    ];
    leaf.prop_recursive(6, 40, 3, |inner| {
        let op = "( (<|<=|>|>=|==|!=|&&|\\|\\||and|or|\\+|-|\\*|/|%) |&&|>)";
        prop_oneof![
            (inner.clone(), op, inner.clone()).prop_map(|(l, op, r)| format!("{l}{op}{r}")),
            (inner.clone(), " (>|==|<) ", inner.clone())
                .prop_map(|(l, op, r)| format!("({l}{op}{r})")),
            inner.clone().prop_map(|e| format!("({e})")),
            inner.clone().prop_map(|e| format!("name == ({e})")),
            inner.clone().prop_map(|e| format!("signal != {e}")),
            inner.clone().prop_map(|e| format!("!{e}")),
            inner.clone().prop_map(|e| format!("-{e}")),
            (inner.clone(), "(abs|sqrt|log|exp|round)")
                .prop_map(|(e, function)| format!("{function}({e})")),
            (inner.clone(), " (for|after) [1-9]m").prop_map(|(e, held)| format!("{e}{held}")),
            (
                inner.clone(),
                "[a-c]|-[1-9]|'x'|nan|node",
                "[a-c]|[1-9]%|metric\\('x y'\\)|crashed"
            )
                .prop_map(|(e, one, other)| format!("{e} in ({one}, {other})")),
            (inner.clone(), "(=|=~)[a-c*0-9]{1,4}").prop_map(|(l, glob)| format!("{l}{glob}")),
        ]
    })
}

/// Makes sure that what is read is printed so that it reads the same, at
/// another time and in another zone.
fn check_round_trip(text: &str) -> Result<bool, TestCaseError> {
    let elsewhere = ParseContext::utc(NOW_MS + 1_000_000_000);
    let standing: fn(&str, &ParseContext) -> _ =
        |text, context| Expr::parse(text, &context.clone().standing());
    let kinds: [fn(&str, &ParseContext) -> _; 4] = [
        Expr::parse,
        Expr::parse_selecting,
        Expr::parse_value,
        standing,
    ];
    let mut taken = false;
    for parse in kinds {
        match parse(text, &context()) {
            Err(error) => {
                prop_assert!(text.get(error.span.start..error.span.end).is_some());
                error.render(text);
            }
            Ok(expr) => {
                taken = true;
                let canonical = expr.canonical();
                let again = parse(&canonical, &elsewhere);
                prop_assert_eq!(again.as_ref(), Ok(&expr), "{}", canonical);
                prop_assert_eq!(again.map(|e| e.canonical()), Ok(canonical));
                let run = Run::new().metric("a", 1.0).metric("b/10", f64::NAN);
                let standing = Expr::parse(text, &context().standing());
                if let Ok(rule) = standing
                    && let Ok(bindings) = rule.bind(&run)
                {
                    let why = rule.explain(&bindings, &run);
                    prop_assert_eq!(why.truth, rule.eval(&bindings, &run));
                }
            }
        }
    }
    Ok(taken)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printing_and_parsing_give_the_same(text in expression()) {
        check_round_trip(&text)?;
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,60}") {
        check_round_trip(&text)?;
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        check_round_trip(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn no_row_of_tokens_makes_it_panic(
        parts in proptest::collection::vec(
            prop::sample::select(vec![
                "(", ")", "!", "-", "a", "5", "5%", "10m", "&&", "||", "=", "==", "=~", "<", "@",
                " ", "'", "\"", "`", "for", "mean(", "median(peers.", "quantile(peers.a", "peers", "param(", "tag:", ",", "2026-11-20", "1-9:2",
                "é", "\u{0}", ".", "state", "crashed", "*", "%", "1e", "..", "T", ":", "in", "nan", "abs(",
                "14:00", "after", "best(", "in (", "@10",
            ]),
            0..24,
        )
    ) {
        check_round_trip(&parts.concat())?;
        check_round_trip(&parts.join(" "))?;
    }
}

#[test]
fn the_generator_makes_real_expressions() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let taken = (0..400)
        .filter(|_| {
            let text = expression().new_tree(&mut runner).unwrap().current();
            check_round_trip(&text).unwrap()
        })
        .count();
    assert!(taken > 100, "only {taken} of 400 texts are expressions");
}

#[test]
fn no_depth_overflows_a_small_stack() {
    let bombs = || {
        let n = 2500;
        vec![
            "(".repeat(n),
            "!".repeat(n),
            "-".repeat(n) + "1",
            "a||a&&a<a+a*(".repeat(n / 8),
            "mean(".repeat(n / 3),
            format!("{}a{}", "(".repeat(n), ")".repeat(n)),
            format!("a > {}1", "1 + ".repeat(n / 2)),
            format!("a > {}1{}", "(1 + ".repeat(n / 3), ")".repeat(n / 3)),
            "a && ".repeat(n / 3) + "a",
            "!(a && ".repeat(30) + "a",
            format!("{}a{}", "!(b && ".repeat(15), ")".repeat(15)),
            format!("{}a{}", "!(b && (b || ".repeat(20), "))".repeat(20)),
            format!("a > {}1{}", "(1 + ".repeat(60), ")".repeat(60)),
            format!("a > {}1", "-".repeat(60)),
        ]
    };
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(move || {
            for text in bombs() {
                for text in [&text[..text.len().min(8000)], &text[..text.len().min(400)]] {
                    if let Ok(expr) = Expr::parse_selecting(text, &context()) {
                        let again = Expr::parse_selecting(&expr.canonical(), &context());
                        assert_eq!(again.as_ref(), Ok(&expr));
                        let run = Run::new().metric("a", 1.0).metric("b", 1.0);
                        if let Ok(bindings) = expr.bind(&run) {
                            expr.explain(&bindings, &run);
                        }
                    }
                }
            }
        })
        .unwrap()
        .join()
        .expect("no text overflows the stack");
}

#[test]
fn the_highest_tree_prints_so_that_it_can_be_read() {
    let mut text = "a".to_owned();
    while let Ok(expr) = Expr::parse(&format!("!(b && -c < 1 && {text})"), &context()) {
        text = expr.canonical();
        assert_eq!(Expr::parse(&text, &context()), Ok(expr));
    }
    assert!(text.len() > 200, "it stopped early: {text}");
}
