//! `status NODE`: a node, or the nodes of a group, and the experiments there.

use nero_config::{Config, LOCAL, check_name};
use nero_wire::v1::{ListReply, NodesReply, NodesRequest};
use serde_json::json;

use super::{node, status};
use crate::args::Status;
use crate::connect::READ_DEADLINE;
use crate::fault::{Fault, Stop, code};
use crate::say::json;
use crate::session::{Session, home};

/// A word that names nodes and no experiment.
pub struct Named {
    word: String,
    nodes: Vec<String>,
}

impl Named {
    /// What the word names, by what the daemon knows; none when it names no node.
    pub async fn find(session: &mut Session, word: &str) -> Result<Option<Self>, Fault> {
        let known = ask(session, true).await?;
        let is_node = known.nodes.iter().any(|node| node.name == word);
        let nodes = match known.groups.get(word) {
            _ if is_node => vec![word.to_owned()],
            Some(group) => group.names.clone(),
            None => return Ok(None),
        };
        let word = word.to_owned();
        Ok(Some(Self { word, nodes }))
    }

    /// The selector of what runs there, ran there last, or waits for it.
    pub fn selector(&self) -> String {
        let mut words = self.nodes.clone();
        if !words.contains(&self.word) {
            words.push(self.word.clone());
        }
        let each: Vec<String> = words
            .iter()
            .map(|word| format!("node==\"{word}\""))
            .collect();
        each.join(",")
    }

    /// Shows the nodes and what runs there.
    pub async fn show(&self, session: &mut Session, args: &Status) -> Result<u8, Stop> {
        let mut reply = ask(session, false).await?;
        reply.nodes.retain(|node| self.nodes.contains(&node.name));
        reply
            .groups
            .retain(|name, group| *name == self.word || group.names.contains(&self.word));
        let there = status::list(session, &[self.selector()]).await?;
        session.warn_of_broken_config();
        if args.json.json {
            let (views, _) = status::arranged(&there.experiments, args)?;
            let nodes: Vec<_> = reply.nodes.iter().map(json::node).collect();
            let views: Vec<_> = views.iter().map(json::experiment).collect();
            session.out.json(&json::document(json!({
                "nodes": nodes,
                "experiments": views,
            })))?;
            return Ok(code::OK);
        }
        let mut screen = session.out.screen;
        let nodes = node::nodes_as_text(&screen, &reply);
        let lines = u16::try_from(nodes.lines().count() + 1).unwrap_or(u16::MAX);
        screen.height = screen.height.saturating_sub(lines);
        let experiments = match there.experiments.is_empty() {
            true => "no experiment runs there, ran there last, or waits for it\n".to_owned(),
            // What picks nothing here was not typed by anybody.
            false => status::as_text(&screen, &without_notes(there), args)?,
        };
        session.out.text(&format!("{nodes}\n{experiments}"))?;
        Ok(code::OK)
    }
}

/// What a verb about experiments says of a word that picks nothing: it may be
/// a node's name.
pub async fn hinted(session: &mut Session, fault: Fault, word: &str) -> Fault {
    if fault.exit_code != code::USAGE || !may_name_nodes(word) {
        return fault;
    }
    // Without an answer the fault stays as it is.
    match Named::find(session, word).await {
        Ok(Some(_)) => fault.hint(format!(
            "`{word}` is a node: neroman status {word}, or neroman node doctor {word}"
        )),
        Ok(None) | Err(_) => fault,
    }
}

/// Whether a node or a group can have this name.
pub fn may_name_nodes(word: &str) -> bool {
    word == LOCAL || check_name(word).is_ok()
}

/// Says that a node has the name as well, where experiments were meant.
pub fn note_namesake(session: &Session, picked: &[String]) {
    let [word] = picked else { return };
    // A configuration that cannot be read is complained of elsewhere.
    let Ok(config) = home().map(|home| Config::read(&home.config)) else {
        return;
    };
    let is_known =
        |config: &Config| config.node(word).is_some() || config.groups.contains_key(word);
    if config.is_ok_and(|config| is_known(&config)) {
        session.out.note(&format!(
            "note: a node or group is called `{word}` too; `neroman status nodes` shows it"
        ));
    }
}

async fn ask(session: &mut Session, as_known: bool) -> Result<NodesReply, Fault> {
    let client = session.client().await?;
    let asked = NodesRequest { as_known };
    client
        .call(READ_DEADLINE, asked, async |man, request| {
            man.nodes(request).await
        })
        .await
}

fn without_notes(reply: ListReply) -> ListReply {
    ListReply {
        notes: Vec::new(),
        ..reply
    }
}
