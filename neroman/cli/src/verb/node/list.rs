//! `node list` and `status nodes`: the machines and how they do.

use nero_model::safe::Safe;
use nero_views::{json, object, text};
use nero_wire::v1::{NodeNames, NodeView, NodesReply, Remedy};
use serde_json::{Map, Value, json};

use crate::fault::{Stop, code};
use crate::say::Screen;
use crate::say::table::{self, Cell, Column};
use crate::session::Session;
use crate::verb::on_node;

/// Asks the nodes and shows them.
pub async fn show(session: &mut Session) -> Result<u8, Stop> {
    let reply = on_node::ask(session, false).await?;
    session.warn_of_broken_config();
    let out = &session.out;
    out.reply(&[], || as_json(&reply), || as_text(&out.screen, &reply))?;
    Ok(code::OK)
}

fn as_json(reply: &NodesReply) -> Value {
    let groups = sorted_groups(reply);
    let unbalanced = groups.iter().filter(|(_, nodes)| nodes.unbalanced);
    let names = groups
        .iter()
        .map(|(name, nodes)| ((*name).clone(), json!(nodes.names)));
    object!(reply =>
        nodes: reply.nodes.iter().map(json::node).collect::<Vec<_>>(),
        groups: names.collect::<Map<_, _>>(),
        unbalanced: unbalanced.map(|(name, _)| name).collect::<Vec<_>>(),
        default_node?,
    )
}

fn sorted_groups(reply: &NodesReply) -> Vec<(&String, &NodeNames)> {
    let mut groups: Vec<_> = reply.groups.iter().collect();
    groups.sort_by_key(|(name, _)| name.as_str());
    groups
}

/// The table, and below it the remarks that do not fit.
pub fn as_text(screen: &Screen, reply: &NodesReply) -> String {
    let mut said = table::list(screen, COLUMNS, &reply.nodes);
    for node in &reply.nodes {
        said.extend(remarks(node).iter().map(|text| line(node, text)));
    }
    for (name, nodes) in sorted_groups(reply) {
        let stay = if nodes.unbalanced {
            " (balance: off, so runs stay where they wait)"
        } else {
            ""
        };
        let line = format!("group {name}: {}{stay}", nodes.names.join(", "));
        said.push_str(&format!("{}\n", Safe::line(&line)));
    }
    said
}

fn line(node: &NodeView, text: &str) -> String {
    format!("{}: {}\n", Safe::line(&node.name), Safe::line(text))
}

/// What a node's scheduler has of ours, and how often it was asked; empty: it has none.
pub fn usage_as_text(node: &NodeView) -> String {
    let Some(usage) = &node.usage else {
        return String::new();
    };
    let of_at_most = |limits: &[(Option<u64>, &str)]| {
        let known = limits.iter();
        let known = known.filter_map(|(limit, whose)| Some(format!("{} ({whose})", (*limit)?)));
        match text::join(known, ", ").as_str() {
            "" => String::new(),
            known => format!(", of at most {known}"),
        }
    };
    let mut queue = vec![format!("{} of your runs here", usage.own)];
    if let Some(queued) = usage.queued {
        let limits = [
            (usage.max_queued, "max_queued"),
            (usage.site_max_own, "the site"),
        ];
        queue.push(format!("{queued} of your jobs{}", of_at_most(&limits)));
    }
    // Both are counted at times of their own; fewer of all users than of this one is old.
    let is_older = |all: &_| usage.queued.is_some_and(|own| own > *all);
    if let Some(all) = usage.all.filter(|all| !is_older(all)) {
        let limits = [(usage.site_max_all, "the site")];
        queue.push(format!("{all} of all users{}", of_at_most(&limits)));
    }
    if let Some(running) = usage.max_running {
        queue.push(format!("max_running is {running}"));
    }
    if let Some(age_s) = usage.answered_s {
        queue.push(format!("counted {} ago", text::duration(age_s)));
    }
    // A node may tell any number.
    let (mut hour, mut total) = (0_u64, 0_u64);
    for one in &usage.programs {
        hour = hour.saturating_add(one.last_hour);
        total = total.saturating_add(one.total);
    }
    let programs = usage.programs.iter();
    let programs = programs.map(|one| format!("{} {}/{}", one.name, one.last_hour, one.total));
    let programs = text::join(programs, "  ");
    let (up, cpu) = (text::duration(usage.up_s), text::duration(usage.cpu_s));
    let listed = format!("{} submission folders listed", usage.lists);
    let lines = [
        format!("in the queue: {}", queue.join("; ")),
        format!("commands, last hour/in {up}: {hour}/{total}  {programs}"),
        format!(
            "neromum there: {cpu} of CPU, {listed}, {} run folders read",
            usage.reads
        ),
    ];
    lines.iter().map(|text| line(node, text)).collect()
}

/// Since when it is out of reach, why, and what to do.
fn remarks(node: &NodeView) -> Vec<String> {
    let mut said = Vec::new();
    if node.unreachable_since_ms != 0 {
        let since = text::local_time(node.unreachable_since_ms);
        said.push(match node.why_not.as_str() {
            "" => format!("out of reach since {since}"),
            why => format!("out of reach since {since}: {why}"),
        });
        if node.needs_person {
            let then = match node.remedy() {
                // Taking over connects, too.
                Remedy::TakeOver => String::new(),
                Remedy::Unspecified | Remedy::Connect | Remedy::Terminal => {
                    format!("; then neroman node connect {}", node.name)
                }
            };
            said.push(format!("not tried again before you act{then}"));
        } else if node.next_try_ms != 0 {
            said.push("tried next at ".to_owned() + &text::local_time(node.next_try_ms));
        }
        if !node.hint.is_empty() {
            said.push(format!("hint: {}", node.hint));
        }
    }
    if node.known_old && node.contact_ms != 0 {
        let at = text::local_time(node.contact_ms);
        said.push(format!("its figures in brackets are of {at}"));
    }
    said.extend(node.troubles.iter().cloned());
    if !node.transfer.is_empty() {
        said.push(node.transfer.clone());
    }
    if node.clock_offset_s.abs() >= 5.0 {
        let side = if node.clock_offset_s > 0.0 {
            "ahead of"
        } else {
            "behind"
        };
        let offset = text::duration(node.clock_offset_s.abs());
        said.push(format!("its clock is {offset} {side} ours"));
    }
    said
}

/// The original's node table, with the free resources.
const COLUMNS: &[Column<'_, NodeView>] = &[
    ("name", &|node| Cell::text(&node.name)),
    ("type", &|node| {
        let warden = json::some(&node.warden);
        Cell::text(warden.unwrap_or("none"))
    }),
    ("address", &|node| Cell::text(&node.address)),
    ("load", &|node| measured(node, text::number(node.load_15))),
    ("mem", &|node| measured(node, share(node.memory_used))),
    ("disk", &|node| measured(node, share(node.disk_used))),
    ("cpus", &|node| of_host(node, node.cpus)),
    ("free", &|node| of_host(node, node.cpus_free)),
    ("live", &|node| counted(node, node.live)),
    ("waiting", &|node| counted(node, node.waiting)),
    ("says", &|node| Cell::text(&says(node))),
];

fn share(value: f64) -> String {
    format!("{:.0}%", value * 100.0)
}

/// A figure of a node that was described, in brackets when it is an old one.
fn measured(node: &NodeView, figure: String) -> Cell {
    if node.connected || node.known_old {
        Cell::right(&text::marked(&figure, node.known_old))
    } else {
        Cell::right("")
    }
}

/// Of a cluster these are figures of one of its hosts, and left out.
fn of_host(node: &NodeView, value: f64) -> Cell {
    let has_scheduler = !["", "none"].contains(&&*node.warden);
    let figure = if has_scheduler {
        String::new()
    } else {
        text::number(value)
    };
    measured(node, figure)
}

fn counted(node: &NodeView, count: u32) -> Cell {
    let is_away = node.unreachable_since_ms != 0;
    Cell::right(&text::marked(&count.to_string(), is_away && count > 0))
}

/// A word or two; the full text stands below the table.
fn says(node: &NodeView) -> String {
    if node.unreachable_since_ms != 0 {
        return "out of reach".to_owned();
    }
    let said = [&node.why_not, &node.hold].into_iter();
    let said = text::join(said.filter(|text| !text.is_empty()), "; ");
    if node.connected || !said.is_empty() {
        said
    } else {
        // No run is live there, and none was sent there for a while.
        "idle".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use nero_wire::v1::{SchedulerUse, scheduler_use::Program};

    use super::*;

    #[test]
    fn a_node_may_tell_any_number_of_commands() {
        let program = |name: &str| Program {
            name: name.to_owned(),
            total: u64::MAX,
            last_hour: u64::MAX,
        };
        let node = NodeView {
            name: "cluster".to_owned(),
            usage: Some(SchedulerUse {
                programs: vec![program("squeue"), program("sbatch")],
                ..SchedulerUse::default()
            }),
            ..NodeView::default()
        };
        let said = usage_as_text(&node);
        assert!(
            said.contains(&format!("{0}/{0}  squeue", u64::MAX)),
            "{said}"
        );
    }
}
