//! The call `RuleList` lists the rules of experiments, and how often each fired.

use nero_expr::{Expr, Fact, NameKind, NameRef, ParseContext, RulePlace};
use nero_model::names::same_loosely;
use nero_model::sets::is_of_set;
use nero_wire::v1;

use crate::service::{Man, blocking};
use nero_home::failure::Failure;
use nero_home::spec;
use nero_life::change::Rule;
use nero_life::experiment::Experiment;
use nero_life::now::PresentTime;
use nero_life::run::Run;
use nero_life::scope::Sight;
use nero_life::standing;
use nero_life::state::State;

/// More metrics of a run than this are counted only.
const NAMED_MAX: usize = 8;

impl Man {
    /// The rules of the picked experiments, and how often they fired.
    pub(crate) async fn rule_list(
        &self,
        request: v1::RuleListRequest,
    ) -> Result<v1::RuleListReply, Failure> {
        let selection = self.selection(request.selection, "all").await?;
        let (chosen, picked) = selection.choose_from(&self.ledger.state()).await?;
        // The records that a rule needs may still be on their way.
        self.settle(&chosen).await;
        let state = self.ledger.state();
        blocking(move || {
            let rules = chosen
                .iter()
                .filter_map(|chosen| {
                    let experiment = state.experiment(chosen.id)?;
                    Some(states(&state, experiment, chosen.of(experiment)))
                })
                .flatten()
                .collect();
            v1::RuleListReply {
                rules,
                notes: picked.notes,
            }
        })
        .await
    }
}

/// The rules of one experiment: those in force in the run, then those that only
/// the next run will have.
pub(crate) fn states(
    state: &State,
    experiment: &Experiment,
    run: Option<&Run>,
) -> Vec<v1::RuleState> {
    let next = || of_next(state, experiment);
    let Some(run) = run else {
        return next();
    };
    let ran = |mut shown: v1::RuleState| {
        let rule = shown.rule.as_ref().map_or(0, |rule| rule.id);
        let beside = run.journal.rules.get(&rule).into_iter();
        let beside = beside.flat_map(|facts| facts.ran.iter().map(|(times, ran)| (*times, ran)));
        let here = run.acted().get(&rule);
        let here = here.map(|acted| (acted.times, &acted.ran));
        shown.ran = beside
            .chain(here)
            .map(|(times, ran)| v1::rule_state::Ran {
                times,
                at_ms: ran.at_ms,
                how: ran.how.clone(),
                output: ran.output.clone(),
            })
            .collect();
        shown
    };
    let mut shown: Vec<v1::RuleState> = run
        .rules
        .iter()
        .filter_map(|id| state.rules.get(id))
        .map(|rule| match state.daemon_rules.get(&rule.id) {
            Some(expr) => of_daemon(rule, expr, experiment, run),
            None => of_run(rule, experiment, run),
        })
        .map(ran)
        .collect();
    let is_newest = experiment
        .newest()
        .is_some_and(|newest| newest.made.id == run.made.id);
    if is_newest {
        let has = |one: &v1::RuleState, wanted: &v1::RuleState| match (&one.rule, &wanted.rule) {
            (Some(one), Some(wanted)) => {
                one.action == wanted.action
                    && one.argument == wanted.argument
                    && one.text == wanted.text
            }
            _ => false,
        };
        for mut one in next() {
            if !shown.iter().any(|known| has(known, &one)) {
                // Without the run's number: equal lines are shown as one.
                "not in its run: the next run takes it".clone_into(&mut one.problem);
                shown.push(one);
            }
        }
    }
    shown
}

/// The rules that the next run will have.
fn of_next(state: &State, experiment: &Experiment) -> Vec<v1::RuleState> {
    let mut fresh: Vec<Rule> = Vec::new();
    let ids = nero_life::start::rules(state, experiment, &mut fresh);
    ids.iter()
        .filter_map(|id| {
            let known = state.rules.get(id).map(|rule| &**rule);
            let new = fresh.iter().find(|rule| rule.id == *id);
            // A rule that no run has yet has no number.
            known.map(spec::rule).or_else(|| {
                new.map(|rule| v1::Rule {
                    id: 0,
                    ..spec::rule(rule)
                })
            })
        })
        .map(|rule| v1::RuleState {
            place: place(&rule.text),
            rule: Some(rule),
            experiment: experiment.id.0,
            ..v1::RuleState::default()
        })
        .collect()
}

/// Where a rule of this text is evaluated.
fn place(text: &str) -> String {
    let expr = Expr::parse(text, &ParseContext::utc(0).standing());
    expr.map_or_else(
        |_| String::new(),
        |expr| expr.rule_place().as_str().to_owned(),
    )
}

/// A rule that this daemon evaluates.
fn of_daemon(rule: &Rule, expr: &Expr, experiment: &Experiment, run: &Run) -> v1::RuleState {
    let firing = run.fired().get(&rule.id).cloned().unwrap_or_default();
    let now = PresentTime::default();
    let sight = Sight {
        experiment,
        run: Some(run),
        now: &now,
    };
    let (names, problem) = match standing::stands(expr, &sight) {
        Ok(bindings) => (bindings.records(expr), String::new()),
        Err(why) => (Vec::new(), format!("off: {why}")),
    };
    v1::RuleState {
        rule: Some(spec::rule(rule)),
        experiment: experiment.id.0,
        place: RulePlace::Daemon.as_str().to_owned(),
        fired: firing.times,
        fired_ms: Some(firing.at_ms)
            .filter(|_| firing.times > 0)
            .into_iter()
            .collect(),
        last_fired_ms: firing.at_ms,
        last_values: firing.values,
        names: names
            .into_iter()
            .map(|name| v1::rule_state::Bound {
                written: name.written,
                exact: name.name,
            })
            .collect(),
        problem,
        ..v1::RuleState::default()
    }
}

fn of_run(rule: &Rule, experiment: &Experiment, run: &Run) -> v1::RuleState {
    let mut shown = v1::RuleState {
        place: place(&rule.text),
        rule: Some(spec::rule(rule)),
        experiment: experiment.id.0,
        ..v1::RuleState::default()
    };
    if let Some(facts) = run.journal.rules.get(&rule.id) {
        shown.fired = facts.fired;
        shown.last_values = facts.last_values.clone();
        shown.last_fired_ms = facts.last_fired_ms;
        shown.fired_ms = facts.firings.values().copied().collect();
        shown.bound = facts
            .bound
            .iter()
            .map(|(written, exact)| format!("{written} → {exact}"))
            .collect();
        let name = |(written, exact): (&String, &String)| v1::rule_state::Bound {
            written: written.clone(),
            exact: exact.clone(),
        };
        shown.names = facts.bound.iter().map(name).collect();
        let problem = Some(facts.problem.clone()).filter(|problem| !problem.is_empty());
        let problems: Vec<String> = problem.into_iter().chain(facts.doubts()).collect();
        shown.problem = problems.join("; ");
    }
    if let Some(off) = run.journal.rules_off.get(&rule.id) {
        shown.problem = format!("off: {}", off.why);
    }
    if let Some((version, why)) = &run.journal.rules_refused
        && *version >= run.journal.rules_applied
        && shown.problem.is_empty()
    {
        shown.problem = format!("the run refused these rules: {why}");
    }
    if shown.problem.is_empty() {
        let seen = never_seen(&rule.text, experiment, run);
        shown.problem = seen
            .or_else(|| without_peers(&rule.text, run))
            .unwrap_or_default();
    }
    shown
}

/// The note that no peer of the run has a value of an aggregate in the rule.
fn without_peers(text: &str, run: &Run) -> Option<String> {
    let expr = Expr::parse(text, &ParseContext::utc(0).standing()).ok()?;
    let has_none = |text: &str| {
        let known = run.peers().iter().find(|known| known.text == text);
        known.is_none_or(|known| known.peers == 0)
    };
    let cohorts = expr.cohorts().into_iter().map(nero_expr::Cohort::text);
    let without = cohorts.filter(|text| has_none(text));
    let without: Vec<String> = without.map(|text| format!("`{text}`")).collect();
    if without.is_empty() || run.started_ms().is_none() {
        return None;
    }
    Some(format!("no peer has a value of {}", without.join(", ")))
}

/// The note that a rule cannot have fired, because the run printed no metric of
/// a name in it.
fn never_seen(text: &str, experiment: &Experiment, run: &Run) -> Option<String> {
    let has_begun = run.started_ms().is_some();
    let expr = Expr::parse(text, &ParseContext::utc(0).standing()).ok()?;
    let metrics = &run.journal.metrics;
    let params = &experiment.definition.params;
    let is_open = |name: &&NameRef| {
        let is_it = |exact: &str| same_loosely(&name.text, exact) || is_of_set(&name.text, exact);
        let fits = |kind, exact: &str| name.asked.allows(kind) && is_it(exact);
        Fact::from_word(&name.text).is_none()
            && !metrics.keys().any(|exact| fits(NameKind::Metric, exact))
            && !params
                .iter()
                .any(|param| fits(NameKind::Param, &param.name))
    };
    let open = expr.unbound_names().iter().filter(is_open);
    let open: Vec<String> = open.map(|name| format!("`{}`", name.text)).collect();
    if open.is_empty() || !has_begun {
        return None;
    }
    let seen: Vec<&str> = metrics.keys().take(NAMED_MAX).map(String::as_str).collect();
    let more = metrics.len().saturating_sub(seen.len());
    let seen = match (seen.as_slice(), more) {
        ([], _) => "the run printed no metric".to_owned(),
        (seen, 0) => format!("the run printed {}", seen.join(", ")),
        (seen, more) => format!("the run printed {} and {more} more", seen.join(", ")),
    };
    Some(format!("{} not seen: {seen}", open.join(", ")))
}
