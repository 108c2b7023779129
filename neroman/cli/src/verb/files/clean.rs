//! `clean [SEL]`: frees space on nodes. It shows what would go and asks; files
//! that never came home stay unless `--unfetched` is given.

use std::collections::BTreeSet;

use nero_model::safe::Safe;
use nero_views::{json, object, text};
use nero_wire::v1::clean_ask_reply::{OnNode, One};
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{CleanAskReply, CleanAskRequest, Selection};
use serde_json::Value;

use crate::args::Clean;
use crate::connect::AwaitedNodes;
use crate::fault::{Fault, Stop, code};
use crate::session::{Session, exactly, refuse_empty, request, selection};
use crate::verb::change::rehearsal::{ending, skips};

/// That many run numbers of any length fit into one selector.
const RUNS_AT_ONCE: usize = 2000;

/// How many files of a run that are not home are named.
const NOT_HOME_NAMED: usize = 10;

pub async fn run(session: &mut Session, args: &Clean) -> Result<u8, Stop> {
    refuse_empty(&args.picked)?;
    let mut asked = CleanAskRequest {
        request: request(),
        selection: Some(selection(&args.picked)),
        node: args.node.clone().unwrap_or_default(),
        unfetched: args.unfetched,
        images: args.images,
        dry_run: true,
    };
    let mut reply = call(session, asked.clone()).await?;
    if !args.trial.dry_run {
        if !args.yes && !may_go_on(session, args, &reply).await? {
            session.out.note("nothing was done");
            return Ok(code::FAILED);
        }
        asked.dry_run = false;
        let shown = reply;
        reply = CleanAskReply::default();
        let whole = selection(&args.picked);
        let parts = if !args.yes && session.out.screen.can_ask {
            as_shown(&shown, whole)
        } else {
            vec![whole]
        };
        for part in &parts {
            asked.request = request();
            asked.selection = Some(part.clone());
            join(&mut reply, call(session, asked.clone()).await?);
        }
        // A node without runs to clean may still have unused files.
        let names = reply.nodes.iter().map(|node| node.node.clone());
        let done: BTreeSet<String> = names.collect();
        let left = shown.nodes.iter().filter(|node| node.store_bytes > 0);
        for node in left.filter(|node| !done.contains(&node.node)) {
            asked.request = request();
            asked.selection = parts.first().cloned();
            asked.node.clone_from(&node.node);
            join(&mut reply, call(session, asked.clone()).await?);
        }
        join_failed(&mut reply, shown);
    }
    let fields = || as_json(&reply, args.trial.dry_run);
    let text = || as_text(&reply, args.trial.dry_run);
    session.out.reply(&[], fields, text)?;
    let failed = reply.nodes.iter().filter(|node| !node.failed.is_empty());
    Ok(code::of_failures(failed.map(|node| node.away)))
}

async fn call(session: &mut Session, asked: CleanAskRequest) -> Result<CleanAskReply, Fault> {
    let picked = asked.selection.clone().unwrap_or_default();
    let whose = match (asked.node.as_str(), picked.text.as_str()) {
        ("", "" | "all") => AwaitedNodes::All,
        ("", _) => AwaitedNodes::Picked(picked),
        (node, _) => AwaitedNodes::Node(node.to_owned()),
    };
    let mut silence = session.silence(whose).await?;
    silence.over(session.change(asked, ManClient::clean)).await
}

/// The selections of exactly the runs that were shown, in as many parts as
/// needed. Without a run the whole selection, since other things may go.
fn as_shown(shown: &CleanAskReply, whole: Selection) -> Vec<Selection> {
    let runs: Vec<String> = going(shown)
        .map(|one| format!("{}.{}", one.experiment, one.run))
        .collect();
    if runs.is_empty() {
        return vec![whole];
    }
    let part = |runs: &[String]| exactly(runs.join(","));
    runs.chunks(RUNS_AT_ONCE).map(part).collect()
}

/// Adds the reply of another call.
fn join(all: &mut CleanAskReply, more: CleanAskReply) {
    all.runs.extend(more.runs);
    for node in more.nodes {
        let Some(known) = all.nodes.iter_mut().find(|one| one.node == node.node) else {
            all.nodes.push(node);
            continue;
        };
        known.freed_bytes += node.freed_bytes;
        known.store_bytes += node.store_bytes;
        if known.failed.is_empty() {
            known.failed = node.failed;
            known.away = node.away;
        }
        for note in node.notes {
            if !known.notes.contains(&note) {
                known.notes.push(note);
            }
        }
    }
}

/// Adds the nodes that could not be looked at and were not asked again: nothing
/// was cleaned there.
fn join_failed(all: &mut CleanAskReply, shown: CleanAskReply) {
    for node in shown.nodes {
        let is_known = all.nodes.iter().any(|one| one.node == node.node);
        if !is_known && !node.failed.is_empty() {
            all.nodes.push(node);
        }
    }
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
    let (runs, bytes) = (text::plural(runs, "run folder"), text::bytes(freed(reply)));
    let nodes = text::plural(reply.nodes.len(), "node");
    let what = format!("delete {runs} on {nodes} ({bytes})");
    if session.out.screen.can_ask {
        session.out.note(as_text(reply, true).trim_end());
        return session.out.ask(&format!("{what}?")).await;
    }
    if !args.picked.is_empty() && args.picked != ["all"] {
        return Ok(true);
    }
    Err(Fault::usage(format!("this would {what}"))
        .cause("nothing was named, and there is no terminal to ask")
        .hint("add --yes to go on, or --dry-run to see what would go")
        .into())
}

fn as_text(reply: &CleanAskReply, dry_run: bool) -> String {
    let skipped = reply
        .runs
        .iter()
        .filter(|one| !one.skipped.is_empty())
        .map(|one| (one.experiment, &*one.skipped_as, &*one.skipped));
    let (mut said, short) = skips(skipped);
    let lost = going(reply).filter(|one| one.not_home_files > 0);
    for one in lost {
        let run = json::run_id(one.experiment, one.run);
        let names = one.not_home.iter().take(NOT_HOME_NAMED);
        let more = match (one.not_home_files as usize).saturating_sub(names.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names = text::join(names.map(|name| Safe::line(name).to_string()), ", ");
        let verb = if dry_run { "deletes" } else { "deleted" };
        let run = run.unwrap_or_default();
        said.push_str(&format!(
            "{verb} of {run} what is not home: {names}{more}\n"
        ));
    }
    for node in &reply.nodes {
        said.push_str(&line(node, dry_run));
    }
    let verb = if dry_run { "would clean" } else { "cleaned" };
    let (runs, bytes) = (
        text::plural(going(reply).count(), "run"),
        text::bytes(freed(reply)),
    );
    said + &format!("{verb} {runs} · {bytes}") + &ending(&short, false)
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
        said.push_str(&format!(", {store} of it unused code, programs and images"));
    }
    said.push('\n');
    for note in &node.notes {
        said.push_str(&format!("  note: {}\n", Safe::line(note)));
    }
    said
}

fn as_json(reply: &CleanAskReply, dry_run: bool) -> Value {
    object!(reply =>
        runs: [one =>
            id: one.experiment, run: json::run_id(one.experiment, one.run),
            node, bytes, skipped?, not_home, not_home_files, not_home_bytes,
        ],
        nodes: [node => node, freed_bytes, store_bytes, failed?, notes],
        dry_run: dry_run,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(experiment: u64, run: u32, skipped: &str) -> One {
        One {
            experiment,
            run,
            skipped: skipped.to_owned(),
            ..One::default()
        }
    }

    #[test]
    fn runs_that_were_shown_go_in_selectors_that_are_read() {
        let whole = || selection(&["all".to_owned()]);
        let kept = CleanAskReply {
            runs: vec![one(1, 1, "live")],
            nodes: Vec::new(),
        };
        assert_eq!(as_shown(&kept, whole()), [whole()]);
        let count = 3 * RUNS_AT_ONCE as u64 + 1;
        let runs = (0..count).map(|nth| one(u64::MAX - nth, u32::MAX, ""));
        let shown = CleanAskReply {
            runs: runs.chain([one(7, 7, "live")]).collect(),
            nodes: Vec::new(),
        };
        let parts = as_shown(&shown, whole());
        assert!(parts.iter().all(|part| part.text.len() <= 64 * 1024));
        let picked: Vec<&str> = parts.iter().flat_map(|part| part.text.split(',')).collect();
        let wanted: Vec<String> = (0..count)
            .map(|nth| format!("{}.{}", u64::MAX - nth, u32::MAX))
            .collect();
        assert_eq!(picked, wanted);
    }

    #[test]
    fn the_work_of_several_calls_is_reported_once() {
        let reply = |freed_bytes, failed: &str, note: &str| CleanAskReply {
            runs: vec![one(freed_bytes, 1, "")],
            nodes: vec![OnNode {
                node: "h1".to_owned(),
                freed_bytes,
                store_bytes: 1,
                failed: failed.to_owned(),
                away: !failed.is_empty(),
                notes: vec![note.to_owned()],
            }],
        };
        let mut all = CleanAskReply::default();
        join(&mut all, reply(10, "", "busy"));
        join(&mut all, reply(20, "gone", "busy"));
        assert_eq!(all.runs.len(), 2);
        let [node] = all.nodes.as_slice() else {
            panic!("{all:?}");
        };
        assert_eq!((node.freed_bytes, node.store_bytes), (30, 2));
        assert_eq!((node.failed.as_str(), node.notes.len()), ("gone", 1));
        assert!(node.away);
    }

    #[test]
    fn a_node_that_could_not_be_looked_at_counts_at_the_end() {
        let reply = |nodes: &[(&str, &str)]| CleanAskReply {
            runs: Vec::new(),
            nodes: nodes
                .iter()
                .map(|(node, failed)| OnNode {
                    node: (*node).to_owned(),
                    failed: (*failed).to_owned(),
                    ..OnNode::default()
                })
                .collect(),
        };
        let mut all = reply(&[("h1", "")]);
        join_failed(
            &mut all,
            reply(&[("h1", "no way"), ("h2", ""), ("h3", "no way")]),
        );
        assert_eq!(all, reply(&[("h1", ""), ("h3", "no way")]));
    }
}
