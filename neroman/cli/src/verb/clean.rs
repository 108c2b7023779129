//! `clean [SEL]`: frees space on nodes. It shows what would go and asks; what
//! never came home stays unless that is said.

use nero_model::safe::Safe;
use nero_wire::v1::clean_ask_reply::{OnNode, One};
use nero_wire::v1::{CleanAskReply, CleanAskRequest, Selection};
use serde_json::{Value, json};

use super::start::skips;
use crate::args::Clean;
use crate::connect::{CHANGE_DEADLINE, Whose};
use crate::fault::{Fault, Stop, code};
use crate::say::{json, text};
use crate::session::{Session, request, selection};

/// Does it.
pub async fn run(session: &mut Session, args: &Clean) -> Result<u8, Stop> {
    let mut asked = CleanAskRequest {
        request: request(),
        selection: Some(selection(&args.picked)),
        node: args.node.clone().unwrap_or_default(),
        unfetched: args.unfetched,
        dry_run: true,
    };
    let mut reply = call(session, asked.clone()).await?;
    if !args.dry_run {
        if !args.yes && !may_go_on(session, args, &reply).await? {
            session.out.note("nothing was done");
            return Ok(code::FAILED);
        }
        if !args.yes && session.out.screen.can_ask {
            // What was shown is what goes.
            let runs: Vec<String> = going(&reply)
                .map(|one| format!("{}.{}", one.experiment, one.run))
                .collect();
            if !runs.is_empty() {
                asked.selection = Some(Selection {
                    text: runs.join(","),
                    ..Selection::default()
                });
            }
        }
        asked.request = request();
        asked.dry_run = false;
        reply = call(session, asked).await?;
    }
    if args.json.json {
        session.out.json(&as_json(&reply, args.dry_run))?;
    } else {
        session.out.text(&as_text(&reply, args.dry_run))?;
    }
    let failed = reply
        .nodes
        .iter()
        .filter(|node| !node.failed.is_empty())
        .count();
    Ok(match failed {
        0 => code::OK,
        failed if failed == reply.nodes.len() => code::NO_NODE,
        _ => code::FAILED,
    })
}

async fn call(session: &mut Session, asked: CleanAskRequest) -> Result<CleanAskReply, Fault> {
    let whose = match asked.node.as_str() {
        "" => Whose::All,
        node => Whose::Node(node.to_owned()),
    };
    let mut silence = session.silence(whose).await?;
    let client = session.client().await?;
    silence
        .over(client.call(CHANGE_DEADLINE, asked, async |man, request| {
            man.clean(request).await
        }))
        .await
}

fn going(reply: &CleanAskReply) -> impl Iterator<Item = &One> {
    reply.runs.iter().filter(|one| one.skipped.is_empty())
}

fn freed(reply: &CleanAskReply) -> u64 {
    reply.nodes.iter().map(|node| node.freed_bytes).sum()
}

async fn may_go_on(session: &Session, args: &Clean, reply: &CleanAskReply) -> Result<bool, Stop> {
    let runs = going(reply).count();
    if runs == 0 && freed(reply) == 0 {
        return Ok(true);
    }
    let what = format!(
        "delete {} on {} ({})",
        text::plural(runs, "run folder"),
        text::plural(reply.nodes.len(), "node"),
        text::bytes(freed(reply))
    );
    if session.out.screen.can_ask {
        session.out.note(as_text(reply, true).trim_end());
        return session.out.ask(&format!("{what}?")).await;
    }
    if !args.picked.is_empty() && args.picked != ["all"] {
        return Ok(true);
    }
    Err(Fault::usage(format!("this would {what}"))
        .cause("nothing was named, and nobody can be asked")
        .hint("add --yes to go on, or --dry-run to see what would go")
        .into())
}

fn as_text(reply: &CleanAskReply, dry_run: bool) -> String {
    let skipped = reply
        .runs
        .iter()
        .filter(|one| !one.skipped.is_empty())
        .map(|one| (one.experiment, one.skipped.as_str()));
    let (mut said, short) = skips(skipped);
    for node in &reply.nodes {
        said.push_str(&line(node, dry_run));
    }
    let verb = if dry_run { "would clean" } else { "cleaned" };
    said.push_str(&format!(
        "{verb} {} · {}",
        text::plural(going(reply).count(), "run"),
        text::bytes(freed(reply))
    ));
    if !short.is_empty() {
        said.push_str(&format!(" · skipped {short}"));
    }
    said.push('\n');
    said
}

fn line(node: &OnNode, dry_run: bool) -> String {
    let name = Safe::line(&node.node);
    if !node.failed.is_empty() {
        return format!("{name}: failed: {}\n", Safe::line(&node.failed));
    }
    let verb = if dry_run { "would free" } else { "freed" };
    let mut said = format!("{name}: {verb} {}", text::bytes(node.freed_bytes));
    if node.store_bytes > 0 {
        let store = text::bytes(node.store_bytes);
        said.push_str(&format!(
            ", {store} of it code and programs that nobody uses"
        ));
    }
    said.push('\n');
    for note in &node.notes {
        said.push_str(&format!("  note: {}\n", Safe::line(note)));
    }
    said
}

fn as_json(reply: &CleanAskReply, dry_run: bool) -> Value {
    let run = |one: &One| {
        json!({
            "id": one.experiment,
            "run": json::run_id(one.experiment, one.run),
            "node": one.node,
            "bytes": one.bytes,
            "skipped": json::some(&one.skipped),
        })
    };
    let node = |node: &OnNode| {
        json!({
            "node": node.node,
            "freed_bytes": node.freed_bytes,
            "store_bytes": node.store_bytes,
            "failed": json::some(&node.failed),
            "notes": node.notes,
        })
    };
    json::document(json!({
        "runs": reply.runs.iter().map(run).collect::<Vec<_>>(),
        "nodes": reply.nodes.iter().map(node).collect::<Vec<_>>(),
        "dry_run": dry_run,
    }))
}
