//! What holds for every selector, and at size.

use nero_expr::ParseContext;
use nero_selector::{SELECTOR_BYTES_MAX, Selector, SelectorErrorKind};
use proptest::prelude::*;

use crate::crowd::{BIG_SELECTORS, crowd};
use crate::lab::{Lab, NOW_MS, experiment, lab};

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

#[test]
fn a_hundred_thousand_experiments_are_picked_from() {
    let crowd = crowd();
    for (text, count) in BIG_SELECTORS {
        assert_eq!(crowd.ids(text).len(), count, "{text}");
    }
}
