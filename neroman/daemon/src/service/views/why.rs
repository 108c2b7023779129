//! `RuleWhy`: every part of a run's rules, with its value and the age of that.

use nero_expr::{Bound, Expr, Fact, FactSource, NamedValue, ParseContext, Truth};
use nero_life::pasts::Pasts;
use nero_life::run::Run;
use nero_life::scope::Sight;
use nero_life::standing;
use nero_wire::v1;
use nero_wire::v1::rule_why_reply::{Part, Value, Why};

use super::rules;
use crate::service::{Man, blocking};
use nero_home::failure::Failure;

impl Man {
    /// The parts of the rules of the picked runs.
    pub(crate) async fn rule_why(
        &self,
        request: v1::RuleListRequest,
    ) -> Result<v1::RuleWhyReply, Failure> {
        let selection = self.selection(request.selection, "live").await?;
        let (chosen, picked) = selection.choose_from(&self.ledger.state()).await?;
        self.settle(&chosen).await;
        let state = self.ledger.state();
        let mut found = Vec::new();
        let mut wanted = Pasts::default();
        for chosen in &chosen {
            let Some(experiment) = state.experiment(chosen.id) else {
                continue;
            };
            let run = chosen.of(experiment);
            for rule in rules::states(&state, experiment, run) {
                let text = &rule.rule.clone().unwrap_or_default().text;
                let expr = Expr::parse(text, &ParseContext::utc(0).standing()).ok();
                if let Some(expr) = &expr {
                    wanted.want_all(expr.named_pasts(), run.into_iter());
                }
                found.push((chosen.clone(), rule, expr));
            }
        }
        let mut now = self.now();
        now.pasts = crate::pasts::read(&self.ledger, &self.home, &state, wanted).await?;
        let now_ms = self.clock.now_ms();
        blocking(move || {
            let why = found.into_iter().filter_map(|(chosen, rule, expr)| {
                let experiment = state.experiment(chosen.id)?;
                let sight = Sight {
                    experiment,
                    run: chosen.of(experiment),
                    now: &now,
                };
                Some(why(rule, expr.as_ref(), &sight))
            });
            v1::RuleWhyReply {
                rules: why.collect(),
                notes: picked.notes,
                now_ms,
            }
        })
        .await
    }
}

fn why(mut rule: v1::RuleState, expr: Option<&Expr>, sight: &Sight<'_>) -> Why {
    let id = rule.rule.as_ref().map_or(0, |rule| rule.id);
    let mut parts = Vec::new();
    let bound = expr.map(|expr| (expr, standing::stands(expr, sight)));
    match bound {
        Some((expr, Ok(mut bindings))) => {
            if let Some(run) = sight.run
                && let Some(facts) = run.journal.rules.get(&id)
            {
                bindings.hold(facts.held.clone());
            }
            let told = expr.explain_parts(&bindings, sight).into_iter();
            parts = told.map(|part| of_part(part, sight)).collect();
        }
        Some((_, Err(off))) if rule.problem.is_empty() => rule.problem = format!("off: {off}"),
        Some((_, Err(_))) | None => {}
    }
    Why {
        name: sight.experiment.definition.name.clone(),
        run: sight.run.map_or(0, |run| run.made.id.number),
        state: match sight.run {
            Some(run) => run.state_word().as_str().to_owned(),
            None => "defined".to_owned(),
        },
        holds: parts
            .first()
            .map_or(String::new(), |part| part.holds.clone()),
        parts,
        rule: Some(rule),
    }
}

fn of_part(part: nero_expr::ExplainedPart, sight: &Sight<'_>) -> Part {
    Part {
        depth: u32::try_from(part.depth).unwrap_or(u32::MAX),
        text: part.text,
        holds: match part.truth {
            Truth::True => "yes",
            Truth::False => "no",
            Truth::Unknown => "unknown",
        }
        .to_owned(),
        values: part
            .values
            .into_iter()
            .map(|value| of_value(value, sight))
            .collect(),
    }
}

fn of_value(value: NamedValue, sight: &Sight<'_>) -> Value {
    let peers = sight.run.into_iter().flat_map(Run::peers);
    let mut peers = peers.filter(|one| one.text == value.written);
    let (means, at_ms) = match &value.bound {
        Some(Bound::Fact(fact)) => (
            format!("fact {}", fact.as_str()),
            sight.run.and_then(|run| measured_ms(run, *fact)),
        ),
        Some(Bound::Param(name)) => (format!("parameter {name}"), None),
        Some(Bound::Metric(name)) => {
            let metric = sight.run.and_then(|run| run.journal.metrics.get(&**name));
            (format!("metric {name}"), metric.map(|metric| metric.at_ms))
        }
        None => match peers.next() {
            Some(one) => ("peers".to_owned(), Some(one.at_ms)),
            None => (String::new(), None),
        },
    };
    Value {
        written: value.written,
        means,
        shown: value.shown,
        at_ms: at_ms.unwrap_or(0),
    }
}

/// When a fact was measured that is known from time to time.
fn measured_ms(run: &Run, fact: Fact) -> Option<i64> {
    match fact.source() {
        FactSource::Sample if fact != Fact::Progress => {
            run.journal.sample.as_ref().map(|sample| sample.at_ms)
        }
        _ => None,
    }
}
