//! `node rm` and `node gone`: list the runs concerned, ask, act.

use nero_model::safe::Safe;
use nero_views::{json, object, text};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::node_gone_reply::{One, Outcome};
use nero_wire::v1::{NodeGoneReply, NodeGoneRequest, NodeRemoveReply, NodeRemoveRequest};

use crate::args::NodeEnd;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, author, request};

/// Runs that are named one by one before the question.
const NAMED_MAX: usize = 20;

/// `node rm`.
pub async fn remove(session: &mut Session, args: &NodeEnd) -> Result<u8, Stop> {
    let (name, yes, dry_run) = (&args.name, args.yes, args.trial.dry_run);
    let mut reply = call_remove(session, name, true, yes).await?;
    let name = Safe::line(name);
    if !dry_run {
        let folders = text::plural(reply.runs, "run folder");
        let question = format!("forget node {name}? {folders} stay there");
        if !yes
            && reply.runs > 0
            && session.out.screen.can_ask
            && !session.out.ask(&question).await?
        {
            session.out.note("nothing was done");
            return Ok(code::FAILED);
        }
        reply = call_remove(session, &args.name, false, yes).await?;
    }
    let done = if dry_run { "would forget" } else { "forgot" };
    let fields = || object!(reply => node: args.name, runs, live, notes, dry_run: dry_run);
    let text = || format!("{done} {name}\n");
    session.out.reply(&reply.notes, fields, text)?;
    Ok(code::OK)
}

/// Whether no run that was handed to a node has still to end there.
pub async fn may_forget(session: &mut Session, name: &str) -> Result<(), Fault> {
    call_remove(session, name, true, true).await.map(drop)
}

/// Removes a node that was kept a moment ago.
pub async fn quietly(session: &mut Session, name: &str) -> Result<(), Fault> {
    call_remove(session, name, false, true).await.map(drop)
}

async fn call_remove(
    session: &mut Session,
    name: &str,
    dry_run: bool,
    yes: bool,
) -> Result<NodeRemoveReply, Fault> {
    let asked = NodeRemoveRequest {
        request: request(),
        name: name.to_owned(),
        dry_run,
        yes,
    };
    session.change(asked, ManClient::node_remove).await
}

/// `node gone`.
pub async fn gone(session: &mut Session, args: &NodeEnd) -> Result<u8, Stop> {
    let (name, yes, dry_run) = (&args.name, args.yes, args.trial.dry_run);
    let mut reply = call_gone(session, name, true).await?;
    if !dry_run {
        if !yes && !may_go_on(session, name, &reply).await? {
            session.out.note("nothing was done");
            return Ok(code::FAILED);
        }
        reply = call_gone(session, name, false).await?;
    }
    let fields = || {
        object!(reply =>
            node: name,
            runs: [one =>
                id: one.experiment, run: json::run_id(one.experiment, one.run), outcome
            ],
            notes, dry_run: dry_run,
        )
    };
    let text = || as_text(name, &reply, dry_run);
    session.out.reply(&reply.notes, fields, text)?;
    Ok(code::OK)
}

/// Asks, whatever the number of runs: a run that goes on there although it was
/// given up may run twice.
async fn may_go_on(session: &Session, name: &str, reply: &NodeGoneReply) -> Result<bool, Stop> {
    if reply.runs.is_empty() {
        return Ok(true);
    }
    if !session.out.screen.can_ask {
        let runs = text::plural(reply.runs.len(), "run");
        let fault = Fault::usage(format!("this would give up {runs} of node {name}"));
        return Err(fault
            .cause(
                "a job that still runs there could then run twice, and there is no terminal to ask",
            )
            .hint("add --yes when the machine is gone for good")
            .into());
    }
    for one in reply.runs.iter().take(NAMED_MAX) {
        let line = format!("  {}.{}  {}", one.experiment, one.run, one.outcome);
        session.out.note(&Safe::line(&line).to_string());
    }
    if reply.runs.len() > NAMED_MAX {
        let more = reply.runs.len() - NAMED_MAX;
        session.out.note(&format!("  … and {more} more"));
    }
    let question = format!("is {} gone for good?", Safe::line(name));
    session.out.ask(&question).await
}

async fn call_gone(
    session: &mut Session,
    name: &str,
    dry_run: bool,
) -> Result<NodeGoneReply, Fault> {
    let asked = NodeGoneRequest {
        request: request(),
        name: name.to_owned(),
        dry_run,
        author: author(),
    };
    session.change(asked, ManClient::node_gone).await
}

fn as_text(name: &str, reply: &NodeGoneReply, dry_run: bool) -> String {
    // An older daemon gives the word alone.
    let key = |one: &One| match one.became() {
        Outcome::Unspecified => (Outcome::Unspecified, one.outcome.clone()),
        outcome => (outcome, String::new()),
    };
    let begin = if dry_run { "would be gone" } else { "gone" };
    let mut text = format!("{} {begin}", Safe::line(name));
    for (_, those) in text::grouped(reply.runs.iter().map(|one| (key(one), one))) {
        let outcome = Safe::line(&those[0].outcome);
        text.push_str(&format!(" · {} {outcome}", those.len()));
    }
    text + "\n"
}
