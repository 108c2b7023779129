//! `rule list|add|rm`: standing rules.

mod backtest;
mod why;

use nero_format::ACTIONS;
use nero_model::safe::Safe;
use nero_views::{json, object, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::rule_state::Ran;
use nero_wire::v1::{
    self, RuleAddRequest, RuleChangeReply, RuleListRequest, RuleRemoveRequest, RuleState,
};

use crate::args::Rule;
use crate::fault::{Fault, Stop, code};
use crate::say::Screen;
use crate::say::table::{self, Cell, Column};
use crate::session::{Session, author, request, selection};

pub async fn run(session: &mut Session, args: &Rule) -> Result<u8, Stop> {
    match args {
        Rule::List { picked, .. } => list(session, picked).await,
        Rule::Why { picked, .. } => why::run(session, picked).await,
        Rule::Add { picked, rule, .. } => add(session, picked, rule).await,
        Rule::Backtest(args) => backtest::run(session, args).await,
        Rule::Rm { picked, rule, .. } => remove(session, picked, *rule).await,
    }
}

async fn list(session: &mut Session, picked: &[String]) -> Result<u8, Stop> {
    let asked = RuleListRequest {
        selection: Some(selection(picked)),
    };
    let reply = session.read(asked, ManClient::rule_list).await?;
    let out = &session.out;
    let rules = || reply.rules.iter().map(json::rule).collect::<Vec<_>>();
    let fields = || object!(reply => rules: rules(), notes);
    let text = || as_text(&out.screen, &reply.rules, true);
    out.reply(&reply.notes, fields, text)?;
    Ok(code::OK)
}

async fn add(session: &mut Session, picked: &str, rule: &str) -> Result<u8, Stop> {
    let (action, text) = split(rule)?;
    let asked = RuleAddRequest {
        request: request(),
        selection: Some(selection(&[picked.to_owned()])),
        action: action.to_owned(),
        text: text.to_owned(),
        author: author(),
    };
    let reply = session.change(asked, ManClient::rule_add).await?;
    changed(session, &reply, "added")
}

async fn remove(session: &mut Session, picked: &str, rule: u64) -> Result<u8, Stop> {
    let asked = RuleRemoveRequest {
        request: request(),
        selection: Some(selection(&[picked.to_owned()])),
        rule,
    };
    let reply = session.change(asked, ManClient::rule_remove).await?;
    changed(session, &reply, "removed")
}

/// `abort: loss > 5` in its two parts.
pub fn split(rule: &str) -> Result<(&str, &str), Fault> {
    let how = "as in: neroman rule add 124-186 'abort: loss > 5'";
    // A command may have colons of its own.
    let is_command = ["run ", "run_local "]
        .iter()
        .any(|word| rule.trim_start().starts_with(word));
    let parts = if is_command {
        rule.rsplit_once(": ")
    } else {
        rule.split_once(':')
    };
    let Some((action, text)) = parts else {
        return Err(if is_command {
            Fault::usage(format!("`{rule}` does not tell when"))
                .hint("as in: neroman rule add 124-186 'run ./save.sh: loss > 5'")
        } else {
            Fault::usage(format!("`{rule}` has no action")).hint(how)
        });
    };
    let (action, text) = (action.trim(), text.trim());
    let (word, argument) = action.split_once(' ').unwrap_or((action, ""));
    if matches!(word, "run" | "run_local") && argument.is_empty() {
        return Err(
            Fault::usage(format!("`{word}` has no command")).hint(format!(
                "as in: neroman rule add 124-186 '{word} ./save.sh: loss > 5'"
            )),
        );
    }
    if word == "signal" && argument.is_empty() {
        return Err(Fault::usage("`signal` does not tell which")
            .hint("as in: neroman rule add 124-186 'signal USR1: loss > 5'"));
    }
    if !ACTIONS.contains(&word) {
        return Err(Fault::usage(format!("`{action}` is no action of a rule"))
            .hint(format!("the actions are {}", ACTIONS.join(", "))));
    }
    if text.is_empty() {
        return Err(Fault::usage("the rule has no expression").hint(how));
    }
    Ok((action, text))
}

fn changed(session: &Session, reply: &RuleChangeReply, done: &str) -> Result<u8, Stop> {
    let fields = || object!(reply => changed: [one => id: one.experiment, rule, note?], notes);
    let text = || changed_text(reply, done);
    session.out.reply(&reply.notes, fields, text)?;
    Ok(code::ok_if(!reply.changed.is_empty()))
}

fn changed_text(reply: &RuleChangeReply, done: &str) -> String {
    let mut text = String::new();
    let noted = reply.changed.iter().filter(|one| !one.note.is_empty());
    for (note, those) in text::grouped(noted.map(|one| (&one.note, one.experiment))) {
        text.push_str(&format!("{}: {}\n", text::ids(&those), Safe::line(note)));
    }
    let mut rules: Vec<u64> = reply.changed.iter().map(|one| one.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    let rules = match rules.as_slice() {
        [] => "rule".to_owned(),
        [rule] => format!("rule {rule}"),
        several => format!("rules {}", text::ids(several)),
    };
    let experiments = text::plural(reply.changed.len(), "experiment");
    text + &format!("{done} {rules} · {experiments}\n")
}

/// The table for eyes. The same rule of several experiments is one line, with the values
/// that all of them have; `show` has those of each.
pub fn as_text(screen: &Screen, rules: &[RuleState], with_experiments: bool) -> String {
    if rules.is_empty() {
        return "no rules\n".into();
    }
    let groups = text::grouped(rules.iter().map(|state| {
        let rule = state.rule.clone().unwrap_or_default();
        let key = (rule.action, rule.text, rule.id, state.fired, &state.problem);
        (key, state)
    }));
    let groups = groups.into_iter().map(|(_, those)| {
        let rule = those[0].rule.clone().unwrap_or_default();
        (those, rule)
    });
    let columns: [Column<'_, (Vec<&RuleState>, v1::Rule)>; 9] = [
        ("id", &|(those, _)| Cell::text(&experiments(those))),
        ("rule", &|(_, rule)| Cell::whole(rule.id)),
        ("where", &|(those, _)| Cell::text(&those[0].place)),
        ("action", &|(_, rule)| Cell::text(&action(rule))),
        ("when", &|(_, rule)| Cell::text(&rule.text)),
        ("fired", &|(those, _)| Cell::whole(those[0].fired)),
        ("last", &|(those, _)| Cell::text(&last_fired(those))),
        ("values", &|(those, _)| Cell::text(values(those))),
        ("notes", &|(those, rule)| Cell::text(&notes(those, rule))),
    ];
    let columns = &columns[usize::from(!with_experiments)..];
    table::list(screen, columns, &groups.collect::<Vec<_>>())
}

fn experiments(those: &[&RuleState]) -> String {
    let ids: Vec<u64> = those.iter().map(|state| state.experiment).collect();
    text::ids(&ids)
}

/// `abort`, `signal USR1`.
pub fn action(rule: &v1::Rule) -> String {
    match rule.argument.as_str() {
        "" => rule.action.clone(),
        argument => format!("{} {argument}", rule.action),
    }
}

fn last_fired(those: &[&RuleState]) -> String {
    match those.iter().map(|state| state.last_fired_ms).max() {
        Some(at) if at != 0 => text::local_time(at),
        _ => String::new(),
    }
}

/// The values that all of them have.
fn values<'a>(those: &[&'a RuleState]) -> &'a str {
    let first = &those[0].last_values;
    let is_one = those.iter().all(|state| state.last_values == *first);
    if is_one { first } else { "" }
}

fn notes(those: &[&RuleState], rule: &v1::Rule) -> String {
    let state = those[0];
    let names = state.names.iter();
    let mut notes: Vec<String> = names
        .filter(|name| name.written != name.exact)
        .map(|name| format!("{} → {}", name.written, name.exact))
        .collect();
    if state.names.is_empty() {
        // An older daemon.
        notes.clone_from(&state.bound);
    }
    if let ([_], Some(ran)) = (those, state.ran.last()) {
        let at = text::local_time(ran.at_ms);
        notes.push(format!("command: {} at {at}", ran_line(ran)));
    }
    notes.extend([state.problem.clone(), rule.origin.clone()]);
    notes.retain(|note| !note.is_empty());
    notes.join("; ")
}

/// How a command ended, with the last line that it printed.
fn ran_line(ran: &Ran) -> String {
    let mut lines = ran.output.lines().map(str::trim);
    match lines.rfind(|line| !line.is_empty()) {
        Some(line) => Safe::line(&format!("{} ({line})", ran.how)).to_string(),
        None => Safe::line(&ran.how).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_an_action_and_an_expression() {
        assert_eq!(split("abort: loss > 5"), Ok(("abort", "loss > 5")));
        assert_eq!(
            split("signal USR1: loss > 5"),
            Ok(("signal USR1", "loss > 5"))
        );
        assert_eq!(
            split("warn:error_rate>=0.35 for 10m"),
            Ok(("warn", "error_rate>=0.35 for 10m"))
        );
        assert_eq!(
            split("run_local ssh head 'echo a: b': crashed"),
            Ok(("run_local ssh head 'echo a: b'", "crashed"))
        );
        for wrong in [
            "loss > 5",
            "abort:",
            "kill: loss > 5",
            "run ./x.sh",
            "run: loss > 5",
            "",
        ] {
            assert_eq!(
                split(wrong).map_err(|fault| fault.exit_code),
                Err(2),
                "{wrong}"
            );
        }
    }
}
