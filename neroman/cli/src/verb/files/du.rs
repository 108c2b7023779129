//! `du [NODE]`: which files lie where, and their sizes.

use nero_model::safe::Safe;
use nero_views::{json, object, text};
use nero_wire::v1::disk_usage_reply::Run;
use nero_wire::v1::du_reply::OnNode;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{DiskUsageReply, DuReply, DuRequest};
use serde_json::Value;

use crate::args::Du;
use crate::connect::{AwaitedNodes, CHANGE_DEADLINE};
use crate::fault::{Stop, code};
use crate::say::Screen;
use crate::say::table::{self, Cell, Column};
use crate::session::Session;

pub async fn run(session: &mut Session, args: &Du) -> Result<u8, Stop> {
    let asked = DuRequest {
        node: args.node.clone().unwrap_or_default(),
        runs: args.runs,
    };
    let whose = args
        .node
        .clone()
        .map_or(AwaitedNodes::All, AwaitedNodes::Node);
    let mut silence = session.silence(whose).await?;
    let reply = silence
        .over(session.call(CHANGE_DEADLINE, asked, ManClient::du))
        .await?;
    let out = &session.out;
    out.reply(&[], || as_json(&reply), || as_text(&out.screen, &reply))?;
    let failed = reply.nodes.iter().filter(|node| !node.failed.is_empty());
    Ok(code::of_failures(failed.map(|node| node.away)))
}

fn as_text(screen: &Screen, reply: &DuReply) -> String {
    let columns: [Column<'_, (&OnNode, &DiskUsageReply)>; 9] = [
        ("node", &|(node, _)| Cell::text(&node.node)),
        ("runs", &|(_, usage)| Cell::bytes(usage.runs_bytes)),
        ("code", &|(_, usage)| Cell::bytes(usage.store_bytes)),
        ("of it unused", &|(_, it)| {
            Cell::bytes(it.store_unused_bytes)
        }),
        ("trash", &|(_, usage)| Cell::bytes(usage.trash_bytes)),
        ("programs", &|(_, usage)| Cell::bytes(usage.agents_bytes)),
        ("of them unused", &|(_, it)| {
            Cell::bytes(it.agents_unused_bytes)
        }),
        ("images", &|(_, usage)| Cell::bytes(usage.images_bytes)),
        ("free", &|(_, usage)| Cell::bytes(usage.free_bytes)),
    ];
    let mut measured = Vec::new();
    let mut below = String::new();
    for node in &reply.nodes {
        let Some(usage) = node.usage.as_ref().filter(|_| node.failed.is_empty()) else {
            let (name, why) = (Safe::line(&node.node), Safe::line(&node.failed));
            below.push_str(&format!("{name}: {why}\n"));
            continue;
        };
        measured.push((node, usage));
        for run in &usage.runs {
            below.push_str(&run_line(&node.node, run));
        }
    }
    let table = table::list(screen, &columns, &measured);
    let (code, results) = (
        text::bytes(reply.home_store_bytes),
        text::bytes(reply.home_results_bytes),
    );
    let databases = text::bytes(reply.home_database_bytes);
    format!("{table}{below}here: frozen code {code}, results {results}, databases {databases}\n")
}

fn run_line(node: &str, run: &Run) -> String {
    let id = run.run.as_ref();
    let id = id.map_or_else(String::new, |run| {
        format!("{}.{}", run.experiment, run.number)
    });
    let live = if run.live { "  live" } else { "" };
    let (node, bytes, folder) = (
        Safe::line(node),
        text::bytes(run.bytes),
        Safe::line(&run.folder),
    );
    format!("{node}  {id:<8} {bytes:>6}  {folder}{live}\n")
}

fn as_json(reply: &DuReply) -> Value {
    let id = |run: &Run| run.run.clone().unwrap_or_default();
    let usage = |usage: &DiskUsageReply| {
        object!(usage =>
            runs_bytes, store_bytes, store_files, store_unused_bytes, trash_bytes,
            agents_bytes, agents_unused_bytes, images_bytes, free_bytes, total_bytes,
            runs: [run =>
                id: id(run).experiment, run: json::run_id(id(run).experiment, id(run).number),
                bytes, live, folder,
            ],
        )
    };
    object!(reply =>
        nodes: [node =>
            node, usage: node.usage.as_ref().map(usage), failed?,
            as_of: text::iso_time(node.as_of_ms),
        ],
        home: object!(reply =>
            store_bytes: reply.home_store_bytes, results_bytes: reply.home_results_bytes,
            database_bytes: reply.home_database_bytes,
        ),
    )
}
