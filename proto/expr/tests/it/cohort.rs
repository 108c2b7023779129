//! Aggregates over peers.

use nero_expr::{CohortNumber, Expr, ParseContext, Truth};

use crate::run::{NOW_MS, Run};

fn rule(text: &str) -> Result<Expr, nero_expr::ExprError> {
    Expr::parse(text, &ParseContext::utc(NOW_MS).standing())
}

#[test]
fn what_is_read_is_printed_so_that_it_reads_the_same() {
    for (text, canonical) in [
        (
            "loss@9>quantile(peers.loss@9,1/3)",
            "loss@9 > quantile(peers.loss@9, 1 / 3)",
        ),
        (
            "loss > 1.1*median( (peers.loss) )",
            "loss > (1.1 * median(peers.loss))",
        ),
        (
            "count(peers.metric('val loss'))>=3 && acc < max(best(peers.acc))",
            "(count(peers.metric('val loss')) >= 3) && (acc < max(max(peers.acc)))",
        ),
        (
            "mean(-peers.a+2*peers.param.lr)==min(abs(peers.metric.runtime))",
            "mean(-peers.a + (2 * peers.param.lr)) == min(abs(peers.metric.runtime))",
        ),
        (
            "max(peers.metric.state@3) > log(quantile(peers.peers.x, 25%)) for 2m",
            "(max(peers.metric.state@3) > log(quantile(peers.peers.x, 25%))) for 2m",
        ),
        (
            "min(metric.peers) > 1 && metric('peers.x')@2 > min(loss)",
            "(min(metric.peers) > 1) && (metric.peers.x@2 > min(loss))",
        ),
        (
            "min(peers.metric.peers@3) > 1",
            "min(peers.metric.peers@3) > 1",
        ),
    ] {
        let read = rule(text).unwrap_or_else(|error| panic!("{text}: {}", error.render(text)));
        assert_eq!(read.canonical(), canonical);
        assert_eq!(rule(canonical).as_ref(), Ok(&read));
        assert_eq!(rule(canonical).unwrap().canonical(), canonical);
    }
}

#[test]
fn peers_stand_in_aggregates_of_rules_only() {
    let told: Vec<String> = [
        "loss > peers.loss",
        "peers > 3",
        "abs(peers.loss) > 3",
        "age(peers.loss) > 3",
        "peers.loss@9 > 1",
        "loss > mean(loss, peers.loss)",
        "loss > median(loss)",
        "loss > median(peers.loss",
        "loss > median(peers.loss - loss)",
        "loss > median(`val loss` - peers.loss)",
        "loss > median(peers.loss, 3)",
        "loss > mean(peers.loss, 10m)",
        "loss > mean(max(peers.loss, 10m))",
        "loss > mean(mean(peers.loss))",
        "loss > median(peers.)",
        "loss > median(median(peers.loss))",
        "loss > median(peers.loss > 3)",
        "loss > median(peers.runtime)",
        "count(peers.finished) > 3",
        "loss > quantile(peers.loss)",
        "loss > quantile(peers.loss, )",
        "loss > quantile(peers.loss, 3)",
        "loss > quantile(peers.loss, peers.x)",
        "loss > quantile(0.5, peers.loss)",
        "loss > peers.median(loss)",
        "loss > median(metric.loss)",
        "loss > count()",
        "loss > first(peers.loss)",
        "median(peers.loss)",
        "loss > medain(peers.loss)",
    ]
    .into_iter()
    .map(|text| match rule(text) {
        Ok(read) => panic!("{text} is read as {read}"),
        Err(error) => error.render(text),
    })
    .collect();
    insta::assert_snapshot!(told.join("\n\n"));
    let selecting = Expr::parse_selecting("loss > median(peers.loss)", &ParseContext::utc(NOW_MS));
    let told = selecting.unwrap_err().to_string();
    assert!(told.contains("`peers` needs a rule"), "{told}");
}

#[test]
fn an_aggregate_without_a_number_is_unknown() {
    let text = "loss > median(peers.loss)";
    let rule = rule(text).unwrap();
    assert_eq!(rule.cohorts()[0].text(), "median(peers.loss)");
    let names: Vec<&str> = rule
        .unbound_names()
        .iter()
        .map(|name| &*name.text)
        .collect();
    assert_eq!(
        names,
        ["loss"],
        "those of peers are bound by whoever knows peers"
    );
    let mut run = Run::new().metric("loss", 3.0);
    let bindings = rule.bind(&run).unwrap();
    let why = |run: &Run| rule.explain(&bindings, run);
    assert_eq!(why(&run).truth, Truth::Unknown);
    run.cohort = Some(CohortNumber {
        value: None,
        peers: 0,
        at_ms: NOW_MS,
    });
    assert_eq!(why(&run).truth, Truth::Unknown);
    run.cohort = Some(CohortNumber {
        // What a sum of numbers with one decimal comes to.
        value: Some(0.1 + 0.2),
        peers: 12,
        at_ms: NOW_MS + 894,
    });
    let told = why(&run);
    assert_eq!(told.truth, Truth::True);
    let shown: Vec<String> = (told.values.iter())
        .map(|value| format!("{} = {}", value.written, value.shown))
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_peer_has_a_number_of_its_own() {
    let rule = rule("loss > mean(peers.loss * 2 + peers.lr)").unwrap();
    let number = |run: &Run| rule.cohorts()[0].number_of(run);
    let run = Run::new().metric("loss", 3.0);
    assert_eq!(number(&run), None, "it has no lr");
    let run = run.metric("lr", 0.5);
    assert_eq!(number(&run), Some(6.5));
    assert_eq!(number(&run.metric("loss", f64::NAN)), None);
}
