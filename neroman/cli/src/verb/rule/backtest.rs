//! `rule backtest`: what a rule would have done to past runs.

use nero_model::safe::Safe;
use nero_views::{object, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::rule_backtest_reply::Run;
use nero_wire::v1::{RuleBacktestReply, RuleBacktestRequest};

use super::split;
use crate::args::BacktestArgs;
use crate::fault::{Stop, code};
use crate::say::Screen;
use crate::say::table::{self, Cell, Column};
use crate::session::{Session, selection};

pub async fn run(session: &mut Session, args: &BacktestArgs) -> Result<u8, Stop> {
    let (action, text) = split(&args.rule)?;
    let asked = RuleBacktestRequest {
        selection: Some(selection(std::slice::from_ref(&args.picked))),
        action: action.to_owned(),
        text: text.to_owned(),
        best: args.best.clone().unwrap_or_default(),
    };
    let reply = session.read(asked, ManClient::rule_backtest).await?;
    let (out, fields) = (&session.out, || as_json(&reply));
    out.reply(&reply.notes, fields, || as_text(&out.screen, &reply))?;
    Ok(code::OK)
}

fn saved_ms(run: &Run) -> u64 {
    run.fired_ms
        .map_or(0, |fired_ms| run.ran_ms.saturating_sub(fired_ms))
}

fn id(run: &Run) -> String {
    format!("{}.{}", run.experiment, run.number)
}

fn as_json(reply: &RuleBacktestReply) -> serde_json::Value {
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let direction = if reply.more_is_better { "max" } else { "min" };
    object!(reply =>
        rule: reply.text, ends, best?,
        direction: (!reply.best.is_empty()).then_some(direction),
        runs: [run =>
            id: run.experiment, run: id(run), name, state,
            runtime_s: seconds(run.ran_ms),
            fired_s: run.fired_ms.map(seconds),
            step: run.step.filter(|_| run.fired_ms.is_some()),
            values?,
            best: run.best.filter(|best| best.is_finite()),
            good, lost, problem?,
        ],
        notes,
    )
}

/// The runs that it would have concerned, and what that comes to.
fn as_text(screen: &Screen, reply: &RuleBacktestReply) -> String {
    let fired = reply.runs.iter().filter(|run| run.fired_ms.is_some());
    let fired: Vec<&Run> = fired.collect();
    let mut shown = String::new();
    if !fired.is_empty() {
        let when = if reply.ends { "ends at" } else { "fires at" };
        let side = if reply.more_is_better { "max" } else { "min" };
        let best = format!("{side}({})", reply.best);
        let lost = |run: &&Run| Cell::text(if reply.ends && run.lost { "good" } else { "" });
        let always: [Column<'_, &Run>; 6] = [
            ("run", &|run| Cell::text(&id(run))),
            ("name", &|run| Cell::text(&run.name)),
            ("state", &|run| Cell::text(&run.state)),
            ("ran", &|run| duration(run.ran_ms)),
            (when, &|run| duration(run.fired_ms.unwrap_or(0))),
            ("step", &|run| Cell::number(run.step)),
        ];
        let mut columns = always.to_vec();
        if reply.ends {
            columns.push(("saved", &|run| duration(saved_ms(run))));
        }
        if !reply.best.is_empty() {
            columns.push((&best, &|run| Cell::number(run.best)));
            columns.push(("lost", &lost));
        }
        columns.push(("values", &|run| Cell::text(&run.values)));
        shown.push_str(&table::list(screen, &columns, &fired));
    }
    shown.push_str(&summary(reply, &fired));
    for run in reply.runs.iter().filter(|run| !run.problem.is_empty()) {
        shown.push_str(&format!("{}: off: {}\n", id(run), Safe::line(&run.problem)));
    }
    shown
}

fn duration(ms: u64) -> Cell {
    Cell::right(&text::duration(ms as f64 / 1000.0))
}

fn summary(reply: &RuleBacktestReply, fired: &[&Run]) -> String {
    let runs = text::plural(reply.runs.len(), "run");
    let count = fired.len();
    if !reply.ends {
        return format!("{count} of {runs}: it would have fired\n");
    }
    let total: u64 = reply.runs.iter().map(|run| run.ran_ms).sum();
    let saved: u64 = fired.iter().map(|run| saved_ms(run)).sum();
    let duration = |ms: u64| text::duration(ms as f64 / 1000.0);
    let (saved, total) = (duration(saved), duration(total));
    let told = format!("{count} of {runs} would have ended: {saved} of {total} saved\n");
    if reply.best.is_empty() {
        return told
            + "no metric of the rule tells which runs are good: `--best METRIC` names one\n";
    }
    let good = reply.runs.iter().filter(|run| run.good).count();
    let (good, best) = (text::plural(good, "good run"), Safe::line(&reply.best));
    let lost = fired.iter().filter(|run| run.lost);
    let lost: Vec<String> = lost.map(|run| id(run)).collect();
    let (count, lost) = match lost.as_slice() {
        [] => (0, String::new()),
        lost => (lost.len(), format!(": {}", lost.join(", "))),
    };
    let third = if reply.more_is_better {
        "highest"
    } else {
        "lowest"
    };
    told + &format!(
        "{count} of {good} lost (good: its best `{best}` is in the {third} third; lost: it came \
         after the end){lost}\n"
    )
}
