//! Applies records of a run's rules.

use nero_journal::{RuleRecord, v1};

use crate::facts::journal::{CommandEnd, Journal, RuleFacts, RuleOff};
use crate::fold::records::apply::{REMARKS_MAX, RecordPlace};
use crate::fold::records::text::text;

/// Most `for` of one rule: its text has no room for more.
const HELD_MAX: usize = 2048;
/// Commands of a rule whose ends are kept.
const RAN_MAX: usize = 10;
/// Firings of a rule whose times are kept.
const FIRINGS_MAX: usize = 100;

/// Applies a record to the facts of a run.
pub(super) fn apply(
    journal: &mut Journal,
    place: &RecordPlace<'_>,
    record: &RuleRecord<'_>,
) -> Result<(), prost::DecodeError> {
    match record {
        RuleRecord::RulesApplied(applied) => applied_set(journal, applied.decode()?),
        RuleRecord::RulesRefused(refused) => {
            let refused = refused.decode()?;
            let newer = journal.rules_refused.as_ref();
            let newer = newer.is_none_or(|(version, _)| *version < refused.version);
            if newer {
                journal.rules_refused = Some((refused.version, text(refused.why)));
            }
        }
        RuleRecord::RuleBound(bound) => {
            let bound = bound.decode()?;
            if let Some(facts) = rule_facts(journal, bound.rule) {
                bind(facts, bound);
            }
        }
        RuleRecord::RuleFired(fired) => {
            let fired = fired.decode()?;
            if let Some(facts) = rule_facts(journal, fired.rule) {
                fire(facts, place, fired);
            }
        }
        RuleRecord::RuleHeld(held) => {
            let held = held.decode()?;
            let facts = rule_facts(journal, held.rule);
            if let Some(facts) = facts.filter(|facts| place.of_run() >= facts.held_key) {
                facts.held_key = place.of_run();
                let since = held.since_s.into_iter().take(HELD_MAX);
                facts.held = since
                    .map(|one| Some(one).filter(|one| one.is_finite()))
                    .collect();
            }
        }
        RuleRecord::RuleRan(ran) => {
            let ran = ran.decode()?;
            if let Some(facts) = rule_facts(journal, ran.rule) {
                let at_ms = place.at_ms;
                facts.ran.entry(ran.times).or_insert(CommandEnd {
                    at_ms,
                    how: text(ran.how),
                    output: text(ran.output),
                });
                if facts.ran.len() > RAN_MAX {
                    facts.ran.pop_first();
                }
            }
        }
    }
    Ok(())
}

fn rule_facts(journal: &mut Journal, rule: u64) -> Option<&mut RuleFacts> {
    if journal.rules.len() >= REMARKS_MAX && !journal.rules.contains_key(&rule) {
        return None;
    }
    Some(journal.rules.entry(rule).or_default())
}

/// The rules of the newest version that are off. Every watcher sends the same for one version.
fn applied_set(journal: &mut Journal, applied: v1::RulesApplied) {
    if applied.version > journal.rules_applied {
        journal.rules_applied = applied.version;
        journal.rules_off.clear();
    }
    if applied.version != journal.rules_applied {
        return;
    }
    let room = REMARKS_MAX.saturating_sub(journal.rules_off.len());
    for off in applied.off.into_iter().take(room) {
        let rule = RuleOff {
            text: text(off.text),
            why: text(off.why),
        };
        journal.rules_off.insert(off.rule, rule);
    }
}

fn bind(facts: &mut RuleFacts, bound: v1::RuleBound) {
    let (written, exact) = (text(bound.written), text(bound.exact));
    if bound.also == [format!("metric {exact}")] {
        if facts.of_set.len() < REMARKS_MAX {
            facts.of_set.insert((written, exact));
        }
        return;
    }
    if !bound.also.is_empty() {
        facts.problem = text(format!(
            "`{written}` fits {exact} and {}",
            bound.also.join(", ")
        ));
    }
    if facts.bound.len() < REMARKS_MAX {
        facts.bound.insert(written, exact);
    }
}

fn fire(facts: &mut RuleFacts, place: &RecordPlace<'_>, fired: v1::RuleFired) {
    let times = fired.times.max(1);
    facts.fired = facts.fired.max(times);
    // Watchers that took over may tell one firing twice.
    let at = facts.firings.entry(times).or_insert(place.at_ms);
    *at = place.at_ms.min(*at);
    if facts.firings.len() > FIRINGS_MAX {
        facts.firings.pop_first();
    }
    if place.of_run() >= facts.key {
        facts.key = place.of_run();
        facts.action = text(fired.action);
        facts.text = text(fired.text);
        facts.last_values = text(fired.values);
        facts.last_fired_ms = place.at_ms;
    }
}
