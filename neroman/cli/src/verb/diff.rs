//! `diff A B`: what differs between two runs.

use nero_model::safe::Safe;
use nero_views::diff::{Diff, FILE_BYTES_MAX, MetricPair, Pair};
use nero_views::{json, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{CodePart, CodeRequest, ShowReply, ShowRequest};

use crate::args;
use crate::connect::CHANGE_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::say::Screen;
use crate::say::table::{self, Cell, Column};
use crate::session::{Session, zone};

pub async fn run(session: &mut Session, args: &args::Diff) -> Result<u8, Stop> {
    let one = fetch_facts(session, &args.one).await?;
    let other = fetch_facts(session, &args.other).await?;
    let runs = [&one, &other].map(name);
    for (reply, run) in [&one, &other].into_iter().zip(&runs) {
        if reply.run.is_none() {
            let note = "has never run: its parameters and its command are compared alone";
            session.out.note(&format!("note: {run} {note}"));
        }
    }
    let asked = CodeRequest {
        runs: runs.to_vec(),
        differing: true,
        file_bytes_max: FILE_BYTES_MAX,
    };
    let have_run = one.run.is_some() && other.run.is_some();
    let parts = if have_run && one.tree != other.tree {
        frozen(session, &asked).await?
    } else {
        Vec::new()
    };
    let diff = Diff::of(&one, &other, &parts);
    let out = &session.out;
    let text = || as_text(&out.screen, &runs, &diff);
    out.reply(&[], || diff.json(), text)?;
    Ok(code::OK)
}

/// All facts of an experiment or run.
pub(super) async fn fetch_facts(session: &mut Session, what: &str) -> Result<ShowReply, Fault> {
    let asked = ShowRequest {
        what: what.to_owned(),
        zone: zone(),
    };
    session.read(asked, ManClient::show).await
}

/// Frozen files; a connection that is lost meanwhile begins anew.
pub(super) async fn frozen(
    session: &mut Session,
    asked: &CodeRequest,
) -> Result<Vec<CodePart>, Fault> {
    let mut parts = Vec::new();
    let take = async |part: Option<CodePart>| {
        match part {
            Some(part) => parts.push(part),
            None => parts.clear(),
        }
        Ok::<_, Fault>(true)
    };
    session
        .each(CHANGE_DEADLINE, asked.clone(), ManClient::code, take)
        .await?;
    Ok(parts)
}

/// `144.2`; the number of an experiment that never ran.
pub(super) fn name(reply: &ShowReply) -> String {
    let view = reply.experiment.clone().unwrap_or_default();
    let run = reply.run.as_ref().map_or(0, |run| run.number);
    json::run_id(view.id, run).unwrap_or_else(|| view.id.to_string())
}

fn as_text(screen: &Screen, runs: &[String; 2], diff: &Diff) -> String {
    let mut said = String::new();
    for (sign, (run, view)) in ["---", "+++"].iter().zip(runs.iter().zip(&diff.runs)) {
        let name = text::full_name(&view.collection, &view.name);
        let state = table::painted(screen, &view.state);
        said.push_str(&format!("{sign} {run}  {}  {state}\n", Safe::line(&name)));
    }
    if diff.is_empty() {
        said.push_str("no difference in parameters, command, environment, metrics and code\n");
        return said;
    }
    said.push_str(&pairs(screen, "parameter", runs, &diff.parameters));
    if let Some([one, other]) = &diff.command {
        let line = |words: &[String]| Safe::line(&words.join(" ")).to_string();
        said.push_str(&format!("\ncommand\n- {}\n+ {}\n", line(one), line(other)));
    }
    said.push_str(&pairs(screen, "environment", runs, &diff.environment));
    if !diff.metrics.is_empty() {
        let columns: [Column<'_, MetricPair>; 4] = [
            ("metric", &|pair| Cell::text(&pair.name)),
            (&runs[0], &|pair| Cell::number(pair.values[0])),
            (&runs[1], &|pair| Cell::number(pair.values[1])),
            ("difference", &|pair| Cell::number(pair.difference())),
        ];
        said.push('\n');
        said.push_str(&table::list(screen, &columns, &diff.metrics));
    }
    if !diff.code.is_empty() {
        said.push_str("\ncode\n");
    }
    for file in &diff.code {
        match &file.lines {
            Some(lines) => said.push_str(&Safe::lines(lines.as_bytes()).to_string()),
            None => {
                let path = Safe::line(&file.path);
                let why = Safe::line(&file.why);
                said.push_str(&format!("{path}: {} ({why})\n", file.change));
            }
        }
    }
    said
}

/// Values beside each other; one without any is empty.
fn pairs(screen: &Screen, title: &str, runs: &[String; 2], pairs: &[Pair]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let value = |pair: &Pair, at: usize| Cell::text(pair.values[at].as_deref().unwrap_or_default());
    let columns: [Column<'_, Pair>; 3] = [
        (title, &|pair| Cell::text(&pair.name)),
        (&runs[0], &|pair| value(pair, 0)),
        (&runs[1], &|pair| value(pair, 1)),
    ];
    format!("\n{}", table::list(screen, &columns, pairs))
}
