//! Mistakes point at their place in the whole selector and suggest what to
//! write.

use nero_selector::SelectorErrorKind;

use crate::lab::{Experiment, Lab, experiment, lab};

#[test]
fn errors_point_at_the_place() {
    let lab = lab();
    for (text, shown) in [
        (
            "101,999",
            "there is no experiment 999\n  101,999\n      ^^^\nhint: numbers go from 101 to 120",
        ),
        (
            "500-600",
            "no experiment has a number of 500-600\n  500-600\n  ^^^^^^^\nhint: numbers go from 101 to 120",
        ),
        (
            "106-101",
            "a range goes upwards: 101-106\n  106-101\n  ^^^^^^^",
        ),
        (
            "smal",
            "no experiment is called `smal`\n  smal\n  ^^^^\nhint: did you mean `small`?",
        ),
        (
            "101,crahsed",
            "no experiment is called `crahsed`\n  101,crahsed\n      ^^^^^^^\nhint: did you mean `crashed`?",
        ),
        (
            "fob*",
            "no experiment has a name like `fob*`\n  fob*\n  ^^^^\nhint: `*` stands for any characters, `?` for one, and the whole name has to fit",
        ),
        (
            "fib/smal",
            "no experiment of `fib` is called `smal`\n  fib/smal\n  ^^^^^^^^\nhint: did you mean `fib/small`?",
        ),
        (
            "fib_breaktime",
            "no experiment is called `fib_breaktime`\n  fib_breaktime\n  ^^^^^^^^^^^^^\nhint: did you mean `fib_breaktime*`? it picks 2",
        ),
        (
            "fib/fib",
            "no experiment of `fib` is called `fib`\n  fib/fib\n  ^^^^^^^\nhint: did you mean `fib/fib*`? it picks 2",
        ),
        (
            "fib/`144`",
            "no experiment of `fib` is called `144`\n  fib/`144`\n  ^^^^^^^^^",
        ),
        (
            "fib/",
            "no experiment is called `fib/`\n  fib/\n  ^^^^\nhint: `fib/*` is all of that collection",
        ),
        (
            "101,fib",
            "no experiment is called `fib`\n  101,fib\n      ^^^\nhint: `fib/*` is all of that collection",
        ),
        (
            "fib/104",
            "there is no experiment 104 in `fib`\n  fib/104\n  ^^^^^^^\nhint: numbers go from 101 to 120",
        ),
        (
            "nope/*",
            "no experiment has a name like `nope/*`\n  nope/*\n  ^^^^^^\nhint: there is no collection `nope`",
        ),
        (
            "124-186,!130",
            "elements are added up, so `!` beside others takes nothing away\n  124-186,!130\n          ^^^^\nhint: write `124-186 && !130`",
        ),
        (
            "101,crashed,!103",
            "elements are added up, so `!` beside others takes nothing away\n  101,crashed,!103\n              ^^^^\nhint: write `(101 || crashed) && !103`",
        ),
        (
            "101,,102",
            "nothing stands at one side of this comma\n  101,,102\n     ^",
        ),
        (
            "101,",
            "nothing stands at one side of this comma\n  101,\n     ^",
        ),
        (
            "101,\u{a0}",
            "nothing stands at one side of this comma\n  101,\u{a0}\n     ^",
        ),
        (
            "",
            "the selector is empty\n  \n  ^\nhint: such as `144`, `124-186`, `crashed`, `all`",
        ),
        (
            "101,tag: good",
            "a tag is expected behind `tag:`\n  101,tag: good\n      ^^^^\nhint: such as `tag:baseline`, or `!tag:baseline`",
        ),
        (
            "101, lr > > 3",
            "a value is missing before `>`\n  101, lr > > 3\n            ^",
        ),
        (
            "101, eror_rate > 3",
            "no parameter or metric is called `eror_rate`\n  101, eror_rate > 3\n       ^^^^^^^^^\nhint: did you mean `error_rate`?",
        ),
        (
            "103,al alone",
            "`alone` is not expected here\n  103,al alone\n         ^^^^^\nhint: did you mean the experiment `all alone`?",
        ),
        (
            "101 - 103",
            "`101 - 103` is a number, not a condition\n  101 - 103\n  ^^^^^^^^^\nhint: a range of numbers is written without blanks and stands in selectors only: `101-103`",
        ),
        (
            "999 && crashed",
            "there is no experiment 999\n  999 && crashed\n  ^^^\nhint: numbers go from 101 to 120",
        ),
        (
            "abc",
            "no experiment is called `abc`\n  abc\n  ^^^\nhint: write the whole name or a pattern (`ab*`); a condition needs a comparison (`loss > 5`)",
        ),
        (
            "crashed && `smal`",
            "no experiment is called `smal`\n  crashed && `smal`\n             ^^^^^^\nhint: did you mean `small`?",
        ),
        (
            "103.9",
            "experiment 103 has no run 9\n  103.9\n  ^^^^^\nhint: its newest is 103.2",
        ),
        (
            "101.1",
            "experiment 101 has no run 1\n  101.1\n  ^^^^^\nhint: it never ran",
        ),
        (
            "103.2 && crashed",
            "a run stands alone, not inside an expression\n  103.2 && crashed\n  ^^^^^\nhint: write `103` for the experiment",
        ),
    ] {
        assert_eq!(lab.refusal(text), shown, "{text}");
    }
}

#[test]
fn planned_words_inside_expressions_are_refused() {
    for text in ["user > 1", "tag:x && user == ada"] {
        let error = lab().pick(text).unwrap_err();
        assert_eq!(error.kind, SelectorErrorKind::NotBuilt, "{text}");
    }
}

#[test]
fn with_nothing_added_an_id_says_what_to_do() {
    let empty = Lab::new(Vec::new());
    assert!(
        empty
            .refusal("144")
            .ends_with("hint: nothing is added yet: `neroman add PATH`")
    );
    assert_eq!(empty.ids("all"), [0; 0]);
    assert_eq!(empty.ids("crashed"), [0; 0]);
    assert_eq!(empty.ids("tmod<1h"), [0; 0]);
}

#[test]
fn a_program_that_prints_its_own_arguments_breaks_no_selector() {
    let both = Experiment {
        params: vec![("lr", 1.0)],
        metrics: vec![("lr", 2.0)],
        ..experiment(7, "", "both")
    };
    let only = Experiment {
        params: vec![("lr", 3.0)],
        ..experiment(8, "", "only")
    };
    let printed = Experiment {
        metrics: vec![("lr", 4.0)],
        ..experiment(9, "", "printed")
    };
    let echoed = Experiment {
        params: vec![("Max_Steps", 5.0)],
        metrics: vec![("max steps", 5.0)],
        ..experiment(10, "", "echoed")
    };
    let lab = Lab::new(vec![both, only, printed, echoed]);
    assert_eq!(lab.ids("lr > 0"), [7, 8, 9]);
    assert_eq!(lab.ids("lr > 1.5"), [8, 9], "the parameter of 7 is meant");
    assert_eq!(lab.ids("metric.lr == 2"), [7]);
    assert_eq!(lab.ids("maxsteps == 5"), [10]);
}

#[test]
fn a_loose_name_of_two_things_in_one_experiment_has_to_be_written_in_full() {
    let both = Experiment {
        params: vec![("lr", 1.0)],
        metrics: vec![("LR", 2.0)],
        ..experiment(7, "", "both")
    };
    let only = Experiment {
        params: vec![("lr", 1.0)],
        ..experiment(8, "", "only")
    };
    let lab = Lab::new(vec![both, only]);
    assert_eq!(
        lab.refusal("8, Lr > 0"),
        "`Lr` has more than one meaning in experiment 7\n  8, Lr > 0\n     ^^\nhint: write `param.lr` or `metric.LR`"
    );
    assert_eq!(lab.ids("8 && Lr > 0"), [8], "7 is not looked at");
    assert_eq!(lab.ids("param.lr == 1"), [7, 8]);
    assert_eq!(lab.ids("metric.LR == 2"), [7]);
}
