//! `rule why`: every part of the rules of runs.

use nero_model::safe::Safe;
use nero_views::{json, object, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::rule_why_reply::{Part, Value, Why};
use nero_wire::v1::{RuleListRequest, RuleWhyReply};

use super::action;
use crate::fault::{Stop, code};
use crate::say::Screen;
use crate::say::table::{self, Cell};
use crate::session::{Session, selection};

pub async fn run(session: &mut Session, picked: &[String]) -> Result<u8, Stop> {
    let asked = RuleListRequest {
        selection: Some(selection(picked)),
    };
    let reply = session.read(asked, ManClient::rule_why).await?;
    let out = &session.out;
    let rules = || reply.rules.iter().map(in_json).collect::<Vec<_>>();
    let fields = || object!(reply => rules: rules(), notes);
    out.reply(&reply.notes, fields, || as_text(&out.screen, &reply))?;
    Ok(code::OK)
}

fn in_json(why: &Why) -> serde_json::Value {
    let mut rule = json::rule(&why.rule.clone().unwrap_or_default());
    let experiment = why.rule.as_ref().map_or(0, |rule| rule.experiment);
    let more = object!(why =>
        name, run: json::run_id(experiment, why.run), state, holds?,
        parts: [part =>
            depth, text, holds,
            values: [one => written, means?, shown, at: text::iso_time(one.at_ms)],
        ],
    );
    if let (Some(rule), serde_json::Value::Object(more)) = (rule.as_object_mut(), more) {
        rule.extend(more);
    }
    rule
}

fn as_text(screen: &Screen, reply: &RuleWhyReply) -> String {
    if reply.rules.is_empty() {
        return "no rules\n".to_owned();
    }
    let told = reply.rules.iter().map(|why| {
        let state = why.rule.clone().unwrap_or_default();
        let rule = state.rule.unwrap_or_default();
        let id = match why.run {
            0 => state.experiment.to_string(),
            run => format!("{}.{run}", state.experiment),
        };
        let mut text = format!(
            "{id}  {}  {}  rule {}, {}: {} {}\n",
            Safe::line(&why.name),
            table::painted(screen, &why.state),
            rule.id,
            match state.place.as_str() {
                "daemon" => "evaluated by neroman",
                _ => "evaluated beside the job",
            },
            Safe::line(&action(&rule)),
            Safe::line(&rule.text),
        );
        if state.fired > 0 {
            let times = text::plural(state.fired, "time");
            let (last, values) = (
                text::local_time(state.last_fired_ms),
                Safe::line(&state.last_values),
            );
            text.push_str(&format!("  fired {times}, last {last}: {values}\n"));
        }
        if !state.problem.is_empty() {
            text.push_str(&format!("  {}\n", Safe::line(&state.problem)));
        }
        if !why.parts.is_empty() {
            let header = ["holds", "part", "known"].map(str::to_owned);
            let rows: Vec<Vec<Cell>> = why.parts.iter().map(|part| row(part, reply)).collect();
            text.push_str(&table::print(screen, &header, &rows).0);
        }
        text
    });
    text::join(told, "\n")
}

fn row(part: &Part, reply: &RuleWhyReply) -> Vec<Cell> {
    let indent = "  ".repeat(usize::try_from(part.depth).unwrap_or(0));
    let known = part.values.iter().map(|value| known(value, reply.now_ms));
    let known = text::join(known.filter(|known| !known.is_empty()), ", ");
    let text = format!("{indent}{}", part.text);
    [&part.holds, &text, &known]
        .map(|text| Cell::text(text))
        .to_vec()
}

/// What a name stands for, and how old its value is.
fn known(value: &Value, now_ms: i64) -> String {
    let means = match value.means.split_once(' ') {
        Some((_, name)) if name == value.written => "",
        _ => value.means.as_str(),
    };
    let age = match value.at_ms {
        0 if value.shown == "unknown" && value.means.is_empty() => {
            "nothing of that name yet".to_owned()
        }
        0 => String::new(),
        at_ms => text::duration((now_ms - at_ms).max(0) as f64 / 1000.0) + " ago",
    };
    let told = [means, &age].into_iter().filter(|told| !told.is_empty());
    match text::join(told, ", ").as_str() {
        "" => String::new(),
        told => format!("{}: {told}", value.written),
    }
}
