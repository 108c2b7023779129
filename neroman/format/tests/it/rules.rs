//! Rules of a file: when, what, how often.

use nero_format::RuleAction;

use crate::{load, report};

#[test]
fn a_rule_tells_when_by_its_action_or_by_on() {
    let loaded = load(
        "\
+a:
  command: prog
  rules:
    - notify: crashed
    - {on: crashed, notify: true}
    - {on: 'silent > 20m', warn: , pause: true, repeat: 1h}
    - {warn: loss > 2, repeat: never}
    - abort: waittime > 12h
    - {on: loss > 5, signal: SIGUSR1, repeat: 1h}
",
    );
    let rules = loaded.definitions[0].rules.iter();
    let rules: Vec<_> = rules
        .map(|rule| (rule.action, rule.text.as_str(), rule.repeat_ms))
        .collect();
    const HOUR_MS: u64 = 3_600_000;
    assert_eq!(
        rules,
        [
            (RuleAction::Notify, "crashed", 0),
            (RuleAction::Notify, "crashed", 0),
            (RuleAction::Warn, "silent > 20m", HOUR_MS),
            (RuleAction::Pause, "silent > 20m", HOUR_MS),
            (RuleAction::Warn, "loss > 2", 100 * 365 * 24 * HOUR_MS),
            (RuleAction::Abort, "waittime > 12h", 0),
            (RuleAction::Signal, "loss > 5", HOUR_MS),
        ]
    );
    assert_eq!(loaded.definitions[0].rules[6].argument, "SIGUSR1");
}

#[test]
fn a_rule_that_could_not_do_what_it_tells_is_refused() {
    for (rule, message, hint) in [
        (
            "{abort: crashed}",
            "`abort` of a run that is over",
            "`notify`",
        ),
        (
            "{abort: waittime > 2h && exit != 0}",
            "`abort` of a run that is over",
            "`warn`",
        ),
        ("{restart: lost}", "`restart` ends a job", "retry"),
        ("{signal: USR1}", "`signal` does not tell when", "on: "),
        (
            "{on: loss > 5, signal: NOPE}",
            "`NOPE` is no signal",
            "USR1",
        ),
        (
            "{on: loss > 5, signal: 9}",
            "can act on the signal 9",
            "`abort`",
        ),
        (
            "{pause: waittime > 2h}",
            "`pause` is done beside the job",
            "`notify`",
        ),
        (
            "{warn: crashed && silent > 2m}",
            "`crashed` is known to neroman alone",
            "a rule for each",
        ),
        (
            "{warn: state =~ 'cra' && runtime > 2m}",
            "beside the job alone",
            "a rule for each",
        ),
        (
            "{warn: 'state in (crashed, timeout) && loss > 2'}",
            "beside the job alone",
            "a rule for each",
        ),
        (
            "{on: crashed, notify: failed}",
            "both tell when",
            "`notify: true`",
        ),
        ("{on: crashed}", "`on` without an action", "notify: true"),
        ("{repeat: 5m}", "`repeat` without an action", "notify: true"),
        (
            "{abort: loss > 2, repeat: 5m}",
            "nothing repeats",
            "leave `repeat` out",
        ),
        ("{warn: loss > 2, repeat: 0}", "`repeat` is zero", ""),
        ("{on: , warn: true}", "an empty rule", ""),
        ("{on: chrashed > , warn: true}", "something is missing", ""),
    ] {
        let problems = report(&format!("+a:\n  command: prog\n  rules: [{rule}]\n"));
        assert!(problems.contains(message), "{rule}: {problems}");
        assert!(problems.contains(hint), "{rule}: {problems}");
        assert!(problems.contains(":3:"), "{rule}: {problems}");
    }
}
