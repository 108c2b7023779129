//! The canonical print shows how a text was read.

use nero_expr::{Expr, Fact};

use crate::run::{context, parse};

#[test]
fn operators_bind_as_the_table_says() {
    for (text, canonical) in [
        (
            "runtime>7200&&errorrate>0.40",
            "(runtime > 7200) && (errorrate > 0.40)",
        ),
        ("a > 1 || b > 2 && c > 3", "(a > 1) || ((b > 2) && (c > 3))"),
        (
            "a > 1 or b > 2 and c > 3",
            "(a > 1) || ((b > 2) && (c > 3))",
        ),
        (
            "(a > 1 || b > 2) && c > 3",
            "((a > 1) || (b > 2)) && (c > 3)",
        ),
        ("a && b && c", "a && b && c"),
        ("(a && b) && c", "(a && b) && c"),
        ("a + b * c > d - e - f", "(a + (b * c)) > ((d - e) - f)"),
        ("-a * b > 1", "(-a * b) > 1"),
        ("!crashed && !(x > 1)", "!crashed && !(x > 1)"),
        ("a / b % 7 >= 40%", "((a / b) % 7) >= 40%"),
        ("(((a > 1)))", "a > 1"),
        ("!crashed == true", "(!crashed) == true"),
        ("(crashed) == true", "(crashed) == true"),
        ("loss-best > 1", "loss-best > 1"),
        ("loss - best > 1", "(loss - best) > 1"),
        ("x > 5-3", "x > (5 - 3)"),
    ] {
        assert_eq!(parse(text).canonical(), canonical, "{text}");
    }
}

#[test]
fn names_print_as_they_have_to_be_typed() {
    for (text, canonical) in [
        ("param.lr > 1", "param.lr > 1"),
        ("param('lr') > 1", "param.lr > 1"),
        ("param('Test/10ep') > 1", "param.Test/10ep > 1"),
        ("metric('val loss') > 1", "metric('val loss') > 1"),
        ("metric(\"it's\") > 1", "metric('it''s') > 1"),
        ("`val loss` > 1", "`val loss` > 1"),
        ("`runtime` > 1", "`runtime` > 1"),
        ("param.a.b > 1", "param.a.b > 1"),
    ] {
        assert_eq!(parse(text).canonical(), canonical, "{text}");
    }
}

#[test]
fn equals_sign_is_a_glob_unless_a_number_follows() {
    for (text, canonical) in [
        ("params=*data/1.txt*", "params = '*data/1.txt*'"),
        ("name = 'a b*'", "name = 'a b*'"),
        ("x=5", "x == 5"),
        ("x=-5", "x == -5"),
        ("x=2h", "x == 2h"),
        ("x=5&&name=a*", "(x == 5) && (name = 'a*')"),
        ("x=5-3", "x = '5-3'"),
        ("name=~^a[,)]b", "name =~ '^a['"),
    ] {
        match Expr::parse(text, &context()) {
            Ok(expr) => assert_eq!(expr.canonical(), canonical, "{text}"),
            // A regular expression ends where a glob would; a cut one is refused.
            Err(error) => assert!(error.message.contains("regular expression"), "{error}"),
        }
    }
}

#[test]
fn a_bare_word_beside_a_text_fact_is_text() {
    for (text, canonical) in [
        ("state==crashed", "state == 'crashed'"),
        ("state != finished", "state != 'finished'"),
        ("node == triton-01", "node == 'triton-01'"),
        ("node == name", "node == 'name'"),
        ("node == gpu", "node == 'gpu'"),
        ("signal == SIGKILL", "signal == 9"),
        ("signal=term", "signal == 15"),
        ("optimizer == adam", "optimizer == adam"),
        ("name == param.a", "name == param.a"),
        ("name == param('a')", "name == param.a"),
        ("name == (node)", "name == (node)"),
        ("signal == (kill)", "signal == (kill)"),
    ] {
        assert_eq!(parse(text).canonical(), canonical, "{text}");
    }
}

#[test]
fn dates_are_read_in_the_zone_of_who_types_and_kept_in_utc() {
    for (text, canonical) in [
        ("tmod>2026-11-20", "tmod > 2026-11-19T22:00:00Z"),
        ("tmod>2026-11-20T14:00", "tmod > 2026-11-20T12:00:00Z"),
        ("tmod>2026-11-20T14:00:30Z", "tmod > 2026-11-20T14:00:30Z"),
        ("tmod > today", "tmod > 2026-11-19T22:00:00Z"),
        ("tmod > yesterday", "tmod > 2026-11-18T22:00:00Z"),
        ("tmod > now - 1h", "tmod > (now - 1h)"),
    ] {
        assert_eq!(parse(text).canonical(), canonical, "{text}");
    }
}

#[test]
fn ids_and_ranges_are_operands_in_selectors_only() {
    for (text, canonical) in [
        ("124-186 && crashed", "124-186 && crashed"),
        ("(1-9:2 or 144) && !130", "(1-9:2 || 144) && !130"),
        ("all && !last", "all && !last"),
        ("`fib n-1` && failed", "`fib n-1` && failed"),
        ("`val loss` > 3 && 144", "(`val loss` > 3) && 144"),
        ("124-186 > 3 && 5", "((124 - 186) > 3) && 5"),
    ] {
        let expr = Expr::parse_selecting(text, &context()).unwrap();
        assert_eq!(expr.canonical(), canonical, "{text}");
    }
    assert!(Expr::parse("124-186 && crashed", &context()).is_err());
}

#[test]
fn an_expression_says_what_it_depends_on() {
    let rule = parse("cpu < 10% && param.lr > loss || failed || Run_Time > 1");
    assert!(rule.uses_clock(), "Run_Time may be the fact");
    assert_eq!(
        rule.facts().iter().collect::<Vec<_>>(),
        [Fact::State, Fact::Cpu]
    );
    let names: Vec<&str> = rule
        .unbound_names()
        .iter()
        .map(|name| &*name.text)
        .collect();
    assert_eq!(names, ["lr", "loss", "Run_Time"]);
    assert!(parse("tmod<1h").uses_clock() && parse("silent > 20m").uses_clock());
}
