//! Standing rules that the daemon evaluates: those over what only it knows, such as the end of
//! a run or how long it waits.
//!
//! A rule is looked at when something of its run changes, and, where time alone can make it
//! hold, at intervals. Its firing is recorded in the transaction that has the change; what it
//! asks for follows from that record. It stands as long as its run: of a run that has ended only
//! the change to that end counts.

use nero_expr::{Bindings, Expr};
use nero_model::RunId;

use crate::facts::actions::RuleFirings;
use crate::facts::dispatch::Cancel;
use crate::facts::mail::notice::{FoundNotice, NoticeKind, rule_key};
use crate::facts::now::{Moment, PresentTime};
use crate::fold::change::{Change, Rule, dispatch_changed};
use crate::fold::experiment::Experiment;
use crate::fold::run::Run;
use crate::fold::scope::Sight;
use crate::fold::state::State;
use crate::step::input::Input;
use crate::step::{fits, step};

/// What follows from the rules of one run.
#[derive(Debug, Default)]
pub struct RuleEffects {
    pub changes: Vec<Change>,
    /// What people may be told of it.
    pub notices: Vec<FoundNotice>,
}

/// Evaluates the rules of a run that are for the daemon. `before`: the run before what
/// changed; a run that had ended in this phase already is left alone.
pub fn evaluate(state: &State, id: RunId, before: Option<&Run>, now: &Moment) -> RuleEffects {
    let mut fired = RuleEffects::default();
    let found = state.experiment(id.experiment).zip(state.run(id));
    let Some((experiment, run)) = found.filter(|(_, run)| has_any(state, run)) else {
        return fired;
    };
    let is_news = before.is_none_or(|before| before.phase() != run.phase());
    if run.is_unread() || (run.phase().is_end() && !is_news) {
        return fired;
    }
    let here = PresentTime::at(now);
    let mut run = run.clone();
    for rule in run.rules.clone().iter() {
        let found = state.rules.get(rule).zip(state.daemon_rules.get(rule));
        let Some((rule, expr)) = found else { continue };
        if let Some(values) = holds(rule, expr, experiment, &run, &here) {
            fire(rule, values, &mut run, now, &mut fired);
        }
    }
    fired
}

/// The live runs with a rule that holds by now, although nothing of them changed.
pub fn due(state: &State, now: &Moment) -> Vec<RunId> {
    if !state.daemon_rules.values().any(|expr| expr.uses_clock()) {
        return Vec::new();
    }
    let now = PresentTime::at(now);
    let mut due = Vec::new();
    for experiment in state.active() {
        for run in experiment.live() {
            let holds = run.rules.iter().any(|id| {
                let found = state.rules.get(id).zip(state.daemon_rules.get(id));
                found.is_some_and(|(rule, expr)| {
                    expr.uses_clock() && holds(rule, expr, experiment, run, &now).is_some()
                })
            });
            if holds {
                due.push(run.made.id);
            }
        }
    }
    due
}

/// Whether the daemon evaluates any of its rules.
fn has_any(state: &State, run: &Run) -> bool {
    let mut rules = run.rules.iter();
    rules.any(|id| state.daemon_rules.contains_key(id))
}

/// The bindings of a rule of the daemon for a run, or why it cannot stand there.
///
/// # Errors
/// The reason, for people.
pub fn stands(expr: &Expr, sight: &Sight<'_>) -> Result<Bindings, String> {
    let params = &sight.experiment.definition.params;
    let names = params.iter().map(|param| param.name.as_str());
    expr.check_place(names)
        .and_then(|()| expr.bind(sight))
        .map_err(|error| error.to_string())
}

/// The values with which a rule fires now, if it does.
fn holds(
    rule: &Rule,
    expr: &Expr,
    experiment: &Experiment,
    run: &Run,
    now: &PresentTime,
) -> Option<String> {
    if !may_fire(rule, run, now) {
        return None;
    }
    let sight = Sight {
        experiment,
        run: Some(run),
        now,
    };
    let bindings = stands(expr, &sight).ok()?;
    expr.eval(&bindings, &sight).is_true().then(|| {
        let values = expr.explain(&bindings, &sight).values;
        let mut shown: Vec<String> = values
            .iter()
            .map(|value| format!("{} = {}", value.written, value.shown))
            .collect();
        shown.dedup();
        shown.join(", ")
    })
}

fn may_fire(rule: &Rule, run: &Run, now: &PresentTime) -> bool {
    // A watcher of an earlier build evaluated rules over the exit code.
    let watched = run.journal.rules.get(&rule.id);
    if watched.is_some_and(|facts| facts.fired > 0) {
        return false;
    }
    let live = run.phase().is_live();
    if rule.action == "abort" {
        return live && run.dispatch.cancel.is_none();
    }
    match run.dispatch.fired.get(&rule.id) {
        None => true,
        Some(last) => {
            let passed_ms = now.since(last.at.as_ref(), last.at_ms);
            let repeat_ms = i64::try_from(rule.repeat_ms).unwrap_or(i64::MAX);
            live && repeat_ms > 0 && passed_ms >= repeat_ms
        }
    }
}

/// Records a firing, then what it asks for.
fn fire(rule: &Rule, values: String, run: &mut Run, now: &Moment, fired: &mut RuleEffects) {
    let times = run.dispatch.fired.get(&rule.id).map_or(0, |one| one.times) + 1;
    let firing = RuleFirings {
        times,
        at_ms: now.ms,
        at: Some(now.tick.clone()),
        action: rule.action.clone(),
        text: rule.text.clone(),
        values: values.clone(),
    };
    let mut changes: Vec<Change> = dispatch_changed(run, |dispatch| {
        dispatch.fired.insert(rule.id, firing);
    })
    .into_iter()
    .collect();
    changes.iter().for_each(|change| run.take(change));
    match rule.action.as_str() {
        "abort" => {
            let cancel = Cancel {
                asked_ms: now.ms,
                author: rule_author(rule),
                grace_ms: 0,
                signal: 0,
                delivered: false,
                rule: Some(rule.id),
            };
            let ended = fits(step(run, &Input::Cancel(cancel), now.ms));
            ended.iter().for_each(|change| run.take(change));
            changes.extend(ended);
        }
        "warn" | "notify" => {
            let kind = NoticeKind::Fired {
                run: run.made.id,
                rule: rule.text.clone(),
                values,
                is_asked: rule.action == "notify",
            };
            let key = rule_key(&run.made.token, rule.id, times);
            fired.notices.push((key, now.ms, kind));
        }
        _ => {}
    }
    fired.changes.extend(changes);
}

fn rule_author(rule: &Rule) -> String {
    match rule.author.as_str() {
        "" => format!("rule {}", rule.id),
        author => format!("rule {} of {author}", rule.id),
    }
}

/// Warnings about the rules of a run that the daemon evaluates: those that warned, and those
/// that cannot stand there.
pub fn warnings(state: &State, experiment: &Experiment, run: &Run) -> Vec<String> {
    let fired = run.dispatch.fired.values();
    let mut texts: Vec<String> = fired
        .filter(|firing| firing.action == "warn")
        .map(|firing| format!("rule `{}` ({})", firing.text, firing.values))
        .collect();
    let now = PresentTime::default();
    for id in run.rules.iter() {
        let found = state.rules.get(id).zip(state.daemon_rules.get(id));
        let sight = Sight {
            experiment,
            run: Some(run),
            now: &now,
        };
        if let Some((rule, expr)) = found
            && let Err(why) = stands(expr, &sight)
        {
            texts.push(format!("rule `{}` is off: {why}", rule.text));
        }
    }
    texts
}
