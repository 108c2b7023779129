//! The experiments that each kind of element picks.

use nero_expr::{Fact, ParseContext, State};
use nero_selector::{Selector, reads_as};

use crate::lab::{Experiment, Lab, NOW_MS, experiment, lab};

const ALL: [u64; 12] = [101, 102, 103, 104, 105, 106, 107, 109, 110, 111, 112, 120];

fn table(rows: &[(&str, &[u64])]) {
    let lab = lab();
    for (text, ids) in rows {
        assert_eq!(lab.ids(text), *ids, "{text}");
    }
}

#[test]
fn ids_ranges_and_steps() {
    table(&[
        ("104", &[104]),
        ("102-104", &[102, 103, 104]),
        ("101-107:3", &[101, 104, 107]),
        ("107-110", &[107, 109, 110]),
        ("100-200", &ALL),
        ("0-18446744073709551615", &ALL),
        ("104,102-104,104", &[102, 103, 104]),
        (" 104 , 101 ", &[101, 104]),
    ]);
}

#[test]
fn states_and_state_words() {
    table(&[
        ("running", &[103, 104]),
        ("lost", &[111]),
        ("live", &[102, 103, 104, 109, 112]),
        ("failed", &[106, 107]),
        ("done", &[105, 120]),
        ("changed", &[105]),
        ("all", &ALL),
        ("last", &[101, 102]),
        ("pending", &[]),
        ("crashed,102-103,120", &[102, 103, 106, 120]),
    ]);
}

#[test]
fn every_state_of_a_run_is_a_word_that_picks_it() {
    let phases = nero_model::Phase::ALL.map(|phase| phase.as_str());
    for word in phases.into_iter().chain(["defined", "paused"]) {
        let mut one = experiment(1, "", "x");
        one.state = word;
        let other = experiment(2, "", "y");
        let lab = Lab::new(vec![one, other]);
        assert_eq!(lab.ids(&format!("{word} && 1")), [1], "{word}");
        let state = State::from_word(word).unwrap();
        assert!(state.is_single(), "{word}");
        assert_eq!(lab.ids(&format!("state=={word} && 1")), [1]);
    }
}

#[test]
fn names_letter_for_letter_whatever_characters_they_have() {
    table(&[
        ("fib_breaktime-0.1_n-10", &[101]),
        ("loss > 3", &[105]),
        ("`loss > 3`", &[105]),
        ("`odd, name`", &[106]),
        ("`odd, name`,101", &[101, 106]),
        ("`it``s`", &[111]),
        ("it`s", &[111]),
        ("deep/name", &[110]),
        ("lr", &[120]),
    ]);
}

#[test]
fn a_name_never_changes_what_a_number_or_a_state_means() {
    let lab = lab();
    assert_eq!(lab.ids("crashed"), [106], "the state, not 107 of that name");
    assert_eq!(lab.ids("`crashed`"), [107]);
    assert!(lab.pick("144").is_err(), "the number, not 109 of that name");
    assert_eq!(lab.ids("`144`"), [109]);
    assert_eq!(
        lab.ids("lang/`144`,101".trim_start_matches("lang/")),
        [101, 109]
    );
    for (name, what) in [
        ("144", Some("an id")),
        ("1-9", Some("a range")),
        ("9-1", Some("a range")),
        ("1.5", Some("a run")),
        ("crashed", Some("a state word")),
        ("last", Some("a word of selectors")),
        ("tag:x", Some("a tag")),
        ("a, b", Some("several elements")),
        ("fib_breaktime-0.1_n-10", None),
    ] {
        assert_eq!(reads_as(name), what, "{name}");
    }
}

#[test]
fn a_name_of_several_collections_picks_all_and_says_so() {
    let picked = lab().pick("small").unwrap();
    assert_eq!(picked.ids, [103, 104]);
    assert_eq!(
        picked.notes,
        ["`small` is an experiment of 2 collections: fib, lang"]
    );
    let picked = lab().pick("`small`").unwrap();
    assert_eq!(picked.notes.len(), 1);
}

#[test]
fn a_collection_narrows_what_follows() {
    table(&[
        ("fib/small", &[103]),
        ("lang/small", &[104]),
        ("fib/101-110", &[101, 102, 103]),
        ("lang/104", &[104]),
        ("lang/failed", &[106, 107]),
        ("fib/all", &[101, 102, 103]),
        ("fib/last,120", &[101, 102, 120]),
        ("fib/fib*", &[101, 102]),
        ("lang/deep/name", &[110]),
        ("lang/`144`", &[109]),
        ("fib/`small`,lang/`deep/name`", &[103, 110]),
        ("lang/*a*", &[104, 106, 107, 110]),
    ]);
    assert_eq!(lab().pick("fib/small").unwrap().notes, [""; 0]);
}

#[test]
fn globs_are_on_names() {
    table(&[
        ("fib*", &[101, 102]),
        ("*-?0", &[101, 102]),
        ("*", &ALL),
        ("s*l", &[103, 104]),
    ]);
}

#[test]
fn expressions_select_by_facts_parameters_and_metrics() {
    table(&[
        ("runtime>7200&&errorrate>0.40", &[110, 111, 112, 120]),
        ("tmod<1h45m", &[101, 102, 103, 104]),
        ("param.lr < 15%", &[101, 102]),
        ("lr < 15%", &[101, 102]),
        ("name=fib*", &[101, 102]),
        ("collection==lang && id > 109", &[110, 111]),
        ("state==crashed", &[106]),
        ("runtime > 1000000", &[]),
        ("exit == 0", &[]),
        ("!(exit == 0)", &[]),
        ("!live && !failed && runtime > 3000", &[105, 110, 111, 120]),
    ]);
}

#[test]
fn ids_ranges_words_and_names_are_operands() {
    table(&[
        ("102-106 && running", &[103, 104]),
        ("102-106 && !103", &[102, 104, 105, 106]),
        ("!102-112", &[101, 120]),
        ("(101 || 103) and lr < 0.1", &[101]),
        ("last && !101", &[102]),
        ("all && !live && 101-105", &[101, 105]),
        ("`crashed` || crashed", &[106, 107]),
        ("changed or 101-107:3", &[101, 104, 105, 107]),
        ("(101 || 103) && lr < 0.1, crashed", &[101, 106]),
    ]);
}

#[test]
fn picking_nothing_by_a_state_or_an_expression_is_said() {
    let lab = lab();
    assert_eq!(
        lab.pick("pending").unwrap().notes,
        ["`pending` picks nothing"]
    );
    let notes = lab.pick("runtime > 1000000, 101").unwrap().notes;
    assert_eq!(notes, ["`runtime > 1000000` picks nothing"]);
    assert!(lab.pick("pending").unwrap().is_empty());
}

#[test]
fn a_range_with_gaps_says_how_many() {
    let lab = lab();
    let notes = |text| lab.pick(text).unwrap().notes;
    assert_eq!(notes("105-112"), ["105-112: 1 of 8 numbers do not exist"]);
    assert_eq!(
        notes("101-120:2"),
        ["101-120:2: 4 of 10 numbers do not exist"]
    );
    assert_eq!(
        notes("107-109 && live"),
        ["107-109: 1 of 3 numbers do not exist"]
    );
    assert_eq!(notes("101-107"), [""; 0]);
}

#[test]
fn runs_are_picked_by_themselves_and_can_be_refused() {
    let picked = lab().pick("103.2,101").unwrap();
    assert_eq!(picked.ids, [101]);
    assert_eq!((picked.runs[0].id, picked.runs[0].attempt), (103, 2));
    let shown = picked.without_runs().unwrap_err().render("103.2,101");
    assert_eq!(
        shown,
        "103.2 is a run, and an experiment is needed here\n  103.2,101\n  ^^^^^\nhint: write `103`"
    );
    assert!(lab().pick("101").unwrap().without_runs().is_ok());
}

#[test]
fn only_all_last_and_bare_wildcards_are_not_explicit() {
    let lab = lab();
    for (text, explicit) in [
        ("all", false),
        ("last", false),
        ("*", false),
        ("fib/all", false),
        ("101", true),
        ("101-103", true),
        ("101.1", false),
        ("crashed", true),
        ("fib/live", true),
        ("tmod<1h", true),
        ("fib*", true),
        ("small", true),
        ("all,101", true),
    ] {
        // Run 101.1 does not exist: 101 never ran.
        match lab.pick(text) {
            Ok(picked) => assert_eq!(picked.explicit, explicit, "{text}"),
            Err(error) => assert_eq!(error.message, "experiment 101 has no run 1"),
        }
    }
}

#[test]
fn a_selector_says_whether_it_looks_at_tmod() {
    let uses = |text: &str| {
        let selector = Selector::parse(text, &ParseContext::utc(NOW_MS)).unwrap();
        selector.uses_fact(Fact::Tmod)
    };
    assert!(uses("101,tmod<1h && crashed"));
    assert!(!uses("101,crashed,runtime<1h"));
}

#[test]
fn points_are_needed_of_experiments_that_nothing_else_decides() {
    let lab = lab();
    let undecided = |text: &str| -> Vec<Vec<usize>> {
        let selector = Selector::parse(text, &ParseContext::utc(NOW_MS)).unwrap();
        let found = selector.undecided(&lab).into_iter();
        found.map(|(_, rows)| rows).collect()
    };
    assert_eq!(undecided("running && mean(error_rate) > 0.1"), [[2, 3]]);
    assert_eq!(undecided("error_rate@10 > 0.1 || !crashed"), [[5]]);
    assert_eq!(
        undecided("101-103 && rate(errorrate, 10m) < 0, crashed"),
        [[0, 1, 2]]
    );
    assert_eq!(undecided("runtime > 1h || crashed"), [[0; 0]; 0]);
    let twice = undecided("101 && mean(error_rate) > 1, 102 && first(error_rate) > 1");
    assert_eq!(twice, [[0], [1]]);
}

/// Three experiments of a block, whose last left its source, and a namesake of
/// it.
fn changed_file() -> Lab {
    let of_block = |id, name: &str, state| Experiment {
        block: "fib".to_owned(),
        state,
        params: vec![("n", id as f64)],
        ..experiment(id, "lang", name)
    };
    Lab::new(vec![
        of_block(1, "fib_n-1", "defined"),
        of_block(2, "fib_n-2", "crashed"),
        Experiment {
            gone: true,
            ..of_block(3, "fib_n-3", "crashed")
        },
        experiment(4, "lang", "fib_n-1"),
    ])
}

#[test]
fn an_experiment_gone_from_its_source_is_picked_by_number_name_and_its_word() {
    let lab = changed_file();
    for (text, ids) in [
        ("all", &[1, 2, 4][..]),
        ("crashed", &[2]),
        ("fib*", &[1, 2, 4]),
        ("lang/*", &[1, 2, 4]),
        ("lang/all", &[1, 2, 4]),
        ("n > 0", &[1, 2]),
        ("!defined", &[2]),
        ("gone", &[3]),
        ("lang/gone", &[3]),
        ("gone && n > 2", &[3]),
        ("all && !gone", &[1, 2, 4]),
        ("3", &[3]),
        ("2-4", &[2, 3, 4]),
        ("2-4 && crashed", &[2, 3]),
        ("fib_n-3", &[3]),
        ("`fib_n-3` || n == 1", &[1, 3]),
        ("all,3", &[1, 2, 3, 4]),
    ] {
        assert_eq!(lab.ids(text), ids, "{text}");
    }
    let left_out = lab.pick("crashed,n > 0").unwrap().notes;
    assert_eq!(
        left_out,
        [
            "left out, no longer in their source: 1 (3); their numbers or `gone` pick them, `neroman rm gone` ends this line"
        ]
    );
    assert!(lab.pick("all,3").unwrap().notes.is_empty());
    assert_eq!(lab.pick("2-4").unwrap().gone, [3]);
    assert_eq!(lab.pick("gone").unwrap().gone, [0; 0]);
    assert_eq!(reads_as("gone"), Some("a state word"));
}

#[test]
fn the_name_of_a_block_picks_all_that_it_made() {
    let lab = changed_file();
    assert_eq!(lab.ids("fib"), [1, 2]);
    assert_eq!(lab.ids("lang/fib"), [1, 2]);
    assert!(lab.pick("fib").unwrap().explicit);
    assert_eq!(lab.ids("`fib`"), [1, 2]);
    assert_eq!(lab.ids("`fib` && crashed"), [2]);
    assert_eq!(lab.ids("!`fib` && all"), [4]);
    assert_eq!(lab.ids("`fib` && gone, n < 2"), [1, 3]);
    let refused = lab.refusal("crashed && fib");
    let hint = "hint: inside a condition a name stands in backticks: `` `fib` ``";
    assert!(refused.ends_with(hint), "{refused}");
}

#[test]
fn a_name_that_several_experiments_of_one_collection_have_says_so() {
    let picked = changed_file().pick("fib_n-1").unwrap();
    assert_eq!(picked.ids, [1, 4]);
    assert_eq!(
        picked.notes,
        ["`fib_n-1` is the name of 2 experiments: 1, 4"]
    );
}

#[test]
fn a_tag_picks_whatever_names_there_are() {
    let mut named = crate::lab::experiment(1, "lab", "tag:paper");
    named.tags = "draft";
    let mut other = crate::lab::experiment(2, "lab", "b");
    other.tags = "paper draft";
    let plain = crate::lab::experiment(3, "lab", "c");
    let lab = crate::lab::Lab::new(vec![named, other, plain]);
    assert_eq!(lab.ids("tag:paper"), [2]);
    assert_eq!(lab.ids("tag:d*"), [1, 2]);
    assert_eq!(lab.ids("!tag:draft"), [3]);
    assert_eq!(lab.ids("tag:draft && !tag:paper"), [1]);
    assert_eq!(lab.ids("lab/tag:paper"), [2]);
    assert_eq!(lab.ids("tag in (paper, other)"), [2]);
    assert_eq!(lab.ids("tag != paper"), [1, 3]);
    assert_eq!(lab.ids("`tag:paper`"), [1]);
    let none = lab.pick("tag:none").expect("a tag that nobody has");
    assert_eq!(none.notes, ["`tag:none` picks nothing"]);
}

#[test]
fn a_metric_that_a_live_run_may_still_print_is_a_note_and_a_slip_is_none() {
    let mut lab = lab();
    let picked = lab.pick("runtime > 0 && errorrates_of_all > 0.4").unwrap();
    assert!(picked.ids.is_empty());
    assert_eq!(
        picked.notes[0],
        "no run has printed `errorrates_of_all` yet: it is unknown so far"
    );
    assert!(lab.pick("run_tme > 3").is_err());
    assert!(lab.pick("param.errorrates_of_all > 3").is_err());
    for one in &mut lab.experiments {
        one.state = "finished";
    }
    assert!(lab.pick("errorrates_of_all > 0.4").is_err());
}
