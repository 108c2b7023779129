//! What holds for every selector, and at size.

use nero_expr::ParseContext;
use nero_selector::{SELECTOR_BYTES_MAX, Selector, SelectorErrorKind};
use proptest::prelude::*;

use crate::lab::{Experiment, Lab, NOW_MS, experiment, lab};

fn element() -> impl Strategy<Value = String> {
    prop_oneof![
        "1[012][0-9]",
        "10[0-4]-1[012][0-9](:[1-3])?",
        "(all|last|live|crashed|done|changed|small|fib\\*|\\*)",
        "(fib|lang)/(small|all|10[1-9]|failed|\\*)",
        "`(small|loss > 3)`",
        "!?10[1-9] (&&|\\|\\|) (live|lr > 0\\.[1-9])",
        "runtime [<>] [0-9]{4}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_selection_is_the_union_of_its_elements_in_order(parts in prop::collection::vec(element(), 1..5)) {
        let lab = lab();
        let each: Result<Vec<_>, _> = parts.iter().map(|part| lab.pick(part)).collect();
        let beside = parts.len() > 1 && parts.iter().any(|part| part.starts_with('!'));
        match (each, lab.pick(&parts.join(" , "))) {
            (Ok(each), Ok(whole)) => {
                let mut ids: Vec<u64> = each.iter().flat_map(|picked| picked.ids.clone()).collect();
                ids.sort_unstable();
                ids.dedup();
                prop_assert_eq!(whole.ids, ids);
                prop_assert_eq!(whole.explicit, each.iter().any(|picked| picked.explicit));
            }
            (_, Err(_)) if beside => {}
            (Err(_), Err(_)) => {}
            (each, whole) => prop_assert!(false, "{:?} {:?}", each, whole),
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "[\\PC,`'()!*0-9/-]{0,40}") {
        if let Err(error) = lab().pick(&text) {
            prop_assert!(text.get(error.span.start..error.span.end).is_some());
            error.render(&text);
        }
    }

    #[test]
    fn any_name_in_backticks_is_that_experiment(name in "\\PC{1,20}") {
        let lab = Lab::new(vec![experiment(1, "", &name), experiment(2, "", "other")]);
        let quoted = format!("`{}`", name.replace('`', "``"));
        let picked = lab.pick(&quoted).map(|picked| picked.ids);
        prop_assert_eq!(picked, Ok(vec![1]));
    }
}

#[test]
fn length_is_limited_but_thousands_of_numbers_fit() {
    let context = ParseContext::utc(NOW_MS);
    let many = vec!["101"; 10_000].join(",");
    assert!(Selector::parse(&many, &context).is_ok());
    let too_many = "1,".repeat(SELECTOR_BYTES_MAX);
    let error = Selector::parse(&too_many, &context).unwrap_err();
    assert_eq!(error.kind, SelectorErrorKind::Limit);
}

#[test]
fn no_depth_overflows_a_small_stack() {
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(|| {
            for text in [
                "(".repeat(5000),
                "!".repeat(5000),
                "`".repeat(5000),
                "'(".repeat(2500),
                format!("{}live{}", "!(101 || ".repeat(40), ")".repeat(40)),
                format!("{}101{}", "(".repeat(2000), ")".repeat(2000)),
            ] {
                let _either = lab().pick(&text);
            }
        })
        .unwrap()
        .join()
        .expect("no selector overflows the stack");
}

/// As many experiments as the budget names, each with parameters and metrics.
fn crowd() -> Lab {
    let states = ["finished", "crashed", "running", "defined"];
    let experiments = (0..100_000_u64).map(|row| Experiment {
        state: states[row as usize % 4],
        age_s: row as i64,
        runtime_s: row as f64,
        attempts: 1,
        params: vec![
            ("lr", 0.1),
            ("batch", 32.0),
            ("seed", row as f64),
            ("n", 10.0),
        ],
        metrics: vec![
            ("loss", 0.5),
            ("val loss", 0.6),
            ("error_rate", row as f64 / 1e5),
        ],
        ..experiment(row + 1, "grid", &format!("grid_lr-0.1_batch-32_seed-{row}"))
    });
    Lab::new(experiments.collect())
}

const BIG_SELECTORS: [(&str, usize); 7] = [
    ("1-100000", 100_000),
    ("crashed,144-149,170,175", 25_006),
    ("runtime>7200&&errorrate>0.40", 59_999),
    ("tmod<1h", 3600),
    ("*seed-9999?", 10),
    ("124-186 && crashed", 16),
    (
        "name =~ 'seed-\\d{3}$' && params = x* || metric.valloss < 0.5 || seed == 7",
        1,
    ),
];

#[test]
fn a_hundred_thousand_experiments_are_picked_from() {
    let crowd = crowd();
    for (text, count) in BIG_SELECTORS {
        assert_eq!(crowd.ids(text).len(), count, "{text}");
    }
}

/// The budget of 50 ms, measured: `cargo test --release -p nero-selector -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, of meaning only in a release build on a quiet machine"]
fn a_selector_over_a_hundred_thousand_takes_at_most_50_ms() {
    let crowd = crowd();
    for (text, _) in BIG_SELECTORS {
        let start = std::time::Instant::now();
        let count = crowd.ids(text).len();
        let took = start.elapsed();
        println!("{took:>10.2?}  {count:>6}  {text}");
        assert!(took.as_millis() <= 50, "{text} took {took:?}");
    }
}
