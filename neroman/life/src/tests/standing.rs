//! Rules that the daemon evaluates.

use nero_model::EndReason;

use super::*;
use crate::after::acts::{self, CommandOf, LocalCommand};
use crate::after::standing::{self, RuleEffects};
use crate::facts::journal::{AskedStep, CommandEnd, RuleFacts};
use crate::facts::mail::notice::NoticeKind;
use crate::fold::change::Rule;
use crate::fold::state::State;

impl Lab {
    /// The run of one experiment, with these rules in force.
    fn ruled(rules: &[(&str, &str)]) -> (Self, RunId) {
        let mut lab = Self::default();
        lab.add("/lab", vec![definition("a", "1")]);
        lab.start_batch(&[1], false);
        let numbered = (1..).zip(rules);
        for (id, (action, text)) in numbered.clone() {
            let (action, argument) = action.split_once(' ').unwrap_or((action, ""));
            lab.take(vec![Change::Rule(Arc::new(Rule {
                id,
                action: action.to_owned(),
                argument: argument.to_owned(),
                text: (*text).to_owned(),
                repeat_ms: if text.contains("repeated") { 1000 } else { 0 },
                author: String::new(),
                origin: String::new(),
            }))]);
        }
        let ids: Vec<u64> = numbered.map(|(id, _)| id).collect();
        lab.happens(run(1, 1), &Input::Rules { ids: ids.into() });
        (lab, run(1, 1))
    }

    /// What the writer does after a change.
    fn look_at_rules(&mut self, id: RunId, before: Option<&State>, at_ms: i64) -> Vec<String> {
        let before = before.and_then(|state| state.run(id));
        let RuleEffects { changes, notices } =
            standing::evaluate(&self.state, id, before, &moment(at_ms));
        self.take(changes);
        let told = notices.into_iter().map(|(_, _, kind)| match kind {
            NoticeKind::Fired { rule, values, .. } => format!("{rule}: {values}"),
            other => format!("{other:?}"),
        });
        told.collect()
    }
}

#[test]
fn a_rule_over_an_end_fires_once_with_the_change_to_it() {
    let (mut lab, id) = Lab::ruled(&[
        ("notify", "crashed"),
        ("warn", "finished"),
        ("notify", "started"),
        ("notify", "exit == 3 && lr != 'x'"),
    ]);
    assert!(lab.look_at_rules(id, None, 10).is_empty());
    lab.say(id, running());
    assert_eq!(
        lab.look_at_rules(id, None, 10),
        ["started: state = 'running'"]
    );
    let before = lab.state.clone();
    lab.say(id, ended(3));
    let told = lab.look_at_rules(id, Some(&before), 20);
    assert_eq!(told.len(), 1, "the last may name a metric: {told:?}");
    assert!(told[0].starts_with("crashed: "), "{told:?}");
    assert!(
        lab.look_at_rules(id, Some(&before), 30).is_empty(),
        "it fired"
    );
    let before = lab.state.clone();
    assert!(lab.look_at_rules(id, Some(&before), 40).is_empty());
    let stored = crate::fold::row::DispatchRow::of(lab.state.run(id).unwrap());
    let json = serde_json::to_string(&stored).unwrap();
    assert!(json.contains(r#""text":"crashed""#), "{json}");
}

#[test]
fn a_run_that_ended_before_the_rule_was_known_is_left_alone() {
    let (mut lab, id) = Lab::ruled(&[("notify", "crashed")]);
    lab.say(id, ended(3));
    let before = lab.state.clone();
    assert!(lab.look_at_rules(id, Some(&before), 20).is_empty());
}

#[test]
fn a_run_that_waits_too_long_is_cancelled_by_its_rule() {
    let (mut lab, id) = Lab::ruled(&[
        ("abort", "waittime > 2s && lr != 'x'"),
        ("notify", "aborted"),
    ]);
    assert!(standing::due(&lab.state, &moment(1500)).is_empty());
    assert_eq!(standing::due(&lab.state, &moment(2500)), [id]);
    let before = lab.state.clone();
    lab.look_at_rules(id, Some(&before), 2500);
    assert_eq!(lab.phase(id), Phase::Queued, "it may have reached its node");
    let cancel = lab.state.run(id).unwrap().cancel().unwrap().clone();
    assert_eq!((cancel.rule, cancel.author.as_str()), (Some(1), "rule 1"));
    assert!(standing::due(&lab.state, &moment(9000)).is_empty());
    lab.dispatch(id, |dispatch| dispatch.take_away(2600));
    let reason = lab.state.run(id).unwrap().reason().unwrap().clone();
    let EndReason::ByRule { rule, text, values } = reason else {
        panic!("{reason:?}");
    };
    assert_eq!((rule, text.as_str()), (1, "waittime > 2s && lr != 'x'"));
    assert!(values.starts_with("waittime = 2.49"), "{values}");
    assert_eq!(lab.look_at_rules(id, Some(&before), 2700).len(), 1);
}

#[test]
fn a_run_that_no_node_has_is_over_at_once_and_by_the_rule() {
    let (mut lab, id) = Lab::ruled(&[("abort", "waittime > 2s")]);
    lab.dispatch(id, |dispatch| {
        dispatch.stage = crate::facts::stage::Stage::Unplaced
    });
    lab.look_at_rules(id, None, 2500);
    assert_eq!(lab.phase(id), Phase::Aborted);
    let reason = lab.state.run(id).unwrap().reason();
    assert!(
        matches!(reason, Some(EndReason::ByRule { rule: 1, .. })),
        "{reason:?}"
    );
}

#[test]
fn a_rule_that_cannot_stand_in_one_run_is_off_there_and_said() {
    let (mut lab, id) = Lab::ruled(&[
        ("notify", "waittime > 0 && momentum > 1"),
        ("notify", "waittime > 0 && param.momentum > 1"),
        ("warn", "waittime > 0"),
    ]);
    assert_eq!(lab.look_at_rules(id, None, 500).len(), 1);
    let experiment = lab.state.experiment(id.experiment).unwrap();
    let run = lab.state.run(id).unwrap();
    let warnings = standing::warnings(&lab.state, experiment, run);
    assert!(
        warnings[0].starts_with("rule `waittime > 0` (waittime = "),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("is off: `waittime` is known to neroman alone and `momentum`"));
    assert!(
        warnings[2].contains("is off: no parameter is called `momentum`"),
        "{warnings:?}"
    );
}

#[test]
fn a_command_of_this_machine_is_wanted_until_its_end_is_recorded() {
    let (mut lab, id) = Lab::ruled(&[("run_local ./tell.sh", "crashed"), ("notify", "crashed")]);
    lab.say(id, running());
    let before = lab.state.clone();
    lab.say(id, ended(3));
    assert!(lab.state.unacted.is_empty(), "it has not fired");
    lab.look_at_rules(id, Some(&before), 20);
    assert_eq!(lab.state.unacted.iter().collect::<Vec<_>>(), [&id]);
    let commands = acts::commands(&lab.state, id);
    let [command] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    let wanted = CommandOf::Rule {
        rule: 1,
        times: 1,
        command: "./tell.sh".to_owned(),
        text: "crashed".to_owned(),
        values: "state = 'crashed'".to_owned(),
    };
    assert_eq!(command.of, wanted);
    let ran = CommandEnd {
        at_ms: 30,
        how: "exit code 0".to_owned(),
        output: "told\n\n".to_owned(),
    };
    let change = acts::acted(&lab.state, command, &ran);
    lab.take(change.into_iter().collect());
    assert!(lab.state.unacted.is_empty() && acts::commands(&lab.state, id).is_empty());
    assert_eq!(
        lab.state.run(id).unwrap().acted()[&1].ran.line(),
        "exit code 0: told"
    );
    // The rows of an earlier and a later start of the daemon.
    let stored = serde_json::to_string(&crate::fold::row::DispatchRow::of(
        lab.state.run(id).unwrap(),
    ))
    .unwrap();
    let kept: crate::fold::row::DispatchRow = serde_json::from_str(&stored).unwrap();
    let run = lab.state.run(id).unwrap();
    let again = kept.run((*run.made).clone(), run.journal.clone(), run.rules.clone());
    assert!(again.unacted(&lab.state.rules).next().is_none());
}

#[test]
fn a_node_cannot_have_another_rule_run_here() {
    let (mut lab, id) = Lab::ruled(&[("signal USR1", "loss > 2")]);
    lab.say(id, running());
    let mut journal = (*lab.state.run(id).unwrap().journal).clone();
    let facts = RuleFacts {
        fired: 1,
        action: "run_local".to_owned(),
        ..RuleFacts::default()
    };
    journal.rules.insert(1, facts.clone());
    journal.rules.insert(2, facts);
    let journal = Arc::new(journal);
    lab.take(vec![Change::Journal { run: id, journal }]);
    assert!(lab.state.unacted.is_empty());
}

#[test]
fn a_rule_that_fired_twice_before_its_command_ran_runs_it_once_with_the_newest_values() {
    let (mut lab, id) = Lab::ruled(&[("run_local ./tell.sh", "loss > 2")]);
    lab.say(id, running());
    let mut journal = (*lab.state.run(id).unwrap().journal).clone();
    let facts = RuleFacts {
        fired: 2,
        action: "run_local".to_owned(),
        last_values: "loss = 4".to_owned(),
        ..RuleFacts::default()
    };
    journal.rules.insert(1, facts);
    let journal = Arc::new(journal);
    lab.take(vec![Change::Journal { run: id, journal }]);
    let commands = acts::commands(&lab.state, id);
    let [LocalCommand { of, .. }] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    assert!(
        matches!(of, CommandOf::Rule { times: 2, values, .. } if values == "loss = 4"),
        "{of:?}"
    );
    // A rule that is removed takes what waits with it.
    let experiment = lab.state.experiment(id.experiment).unwrap();
    let (_, changes) = crate::after::rules::remove(&lab.state, experiment, 1, 50);
    lab.take(changes);
    assert!(lab.state.unacted.is_empty());
    let told = &lab.state.run(id).unwrap().acted()[&1].ran.how;
    assert_eq!(told, "not run: the rule was removed");
}

/// The run's node tells that its job waits for this step of this start.
fn ask(lab: &mut Lab, id: RunId, of: (u32, u32)) {
    let mut journal = (*lab.state.run(id).unwrap().journal).clone();
    journal.incarnations.get_or_default(of.0);
    journal.step = Some(AskedStep { of, at_ms: 20 });
    let journal = Arc::new(journal);
    lab.take(vec![Change::Journal { run: id, journal }]);
}

#[test]
fn a_local_step_is_wanted_once_and_its_end_is_told_until_the_node_has_it() {
    let (mut lab, id) = Lab::ruled(&[]);
    lab.say(id, running());
    assert_eq!(lab.state.run(id).unwrap().waits_for_step(), None);
    ask(&mut lab, id, (1, 2));
    assert_eq!(lab.state.unacted.iter().collect::<Vec<_>>(), [&id]);
    let commands = acts::commands(&lab.state, id);
    let [command] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    let step = CommandOf::Step {
        incarnation: 1,
        step: 2,
    };
    assert_eq!(command.of, step);
    let waits = |lab: &Lab| lab.state.run(id).unwrap().waits_for_step();
    assert_eq!(waits(&lab).as_deref(), Some("local step 2"));
    let ran = CommandEnd {
        at_ms: 30,
        how: "exit code 3".to_owned(),
        output: "no such host\n".to_owned(),
    };
    let changes = acts::acted(&lab.state, command, &ran);
    let event = changes.iter().find_map(|change| match change {
        Change::Event { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(event, Some("1.1: local step 2: exit code 3: no such host"));
    lab.take(changes);
    assert!(lab.state.unacted.is_empty());
    let answers = |lab: &Lab| crate::step::needs::of(lab.state.run(id).unwrap()).answer;
    assert!(answers(&lab));
    // The rows of an earlier and a later start of the daemon.
    let run = lab.state.run(id).unwrap();
    let stored = serde_json::to_string(&crate::fold::row::DispatchRow::of(run)).unwrap();
    let sample = r#""stepped":{"of":[1,2],"ran":{"at_ms":30,"how":"exit code 3","output":"no such host\n"},"delivered":false}"#;
    assert!(stored.contains(sample), "{stored}");
    let asked = serde_json::to_string(&*run.journal).unwrap();
    assert!(
        asked.contains(r#""step":{"of":[1,2],"at_ms":20}"#),
        "{asked}"
    );
    let kept: crate::fold::row::DispatchRow = serde_json::from_str(&stored).unwrap();
    let again = kept.run((*run.made).clone(), run.journal.clone(), run.rules.clone());
    assert_eq!(again.step_to_tell(), run.step_to_tell());
    let other = acts::answered(&lab.state, id, (1, 1));
    assert!(other.is_none(), "an answer to another step");
    lab.take(acts::answered(&lab.state, id, (1, 2)).into_iter().collect());
    assert!(!answers(&lab) && waits(&lab).is_none());
    // A watcher that begins anew tells the step again.
    ask(&mut lab, id, (1, 2));
    assert!(lab.state.unacted.is_empty());
    ask(&mut lab, id, (1, 3));
    assert_eq!(lab.state.unacted.len(), 1);
}

#[test]
fn each_end_of_a_step_is_told_and_one_of_an_earlier_start_is_not() {
    let (mut lab, id) = Lab::ruled(&[]);
    lab.say(id, running());
    let command = |lab: &Lab| acts::commands(&lab.state, id).pop().unwrap();
    let ran = CommandEnd::default();
    ask(&mut lab, id, (1, 1));
    let old = command(&lab);
    ask(&mut lab, id, (2, 1));
    lab.take(acts::acted(&lab.state, &command(&lab), &ran));
    // Its command was ended, which takes a while.
    assert!(acts::acted(&lab.state, &old, &ran).is_empty());
    assert!(lab.state.unacted.is_empty());
    // The job goes on before the reply of its node is here.
    ask(&mut lab, id, (2, 2));
    let before = lab.state.run(id).unwrap().clone();
    lab.take(acts::acted(&lab.state, &command(&lab), &ran));
    let after = lab.state.run(id);
    assert!(crate::step::needs::changed(Some(&before), after));
}

#[test]
fn a_step_of_an_earlier_start_or_of_a_run_that_is_to_end_is_not_wanted() {
    let (mut lab, id) = Lab::ruled(&[]);
    lab.say(id, running());
    ask(&mut lab, id, (1, 1));
    assert_eq!(lab.state.unacted.len(), 1);
    let mut journal = (*lab.state.run(id).unwrap().journal).clone();
    journal.incarnations.get_or_default(2);
    let journal = Arc::new(journal);
    lab.take(vec![Change::Journal { run: id, journal }]);
    assert!(lab.state.unacted.is_empty(), "its job is gone");
    ask(&mut lab, id, (2, 1));
    assert_eq!(lab.state.unacted.len(), 1);
    lab.dispatch(id, |dispatch| {
        dispatch.cancel = Some(Box::new(lab::cancel("ada", 40)));
    });
    assert!(lab.state.unacted.is_empty());
}
