//! `status NODE`: a node, or the nodes of a group, and the experiments there.

use nero_config::{Config, LOCAL, check_name};
use nero_views::text;
use nero_wire::v1::man_client::ManClient;
use nero_wire::v1::{NodesReply, NodesRequest};

use super::listed::views;
use crate::fault::{Fault, code};
use crate::session::{Session, home, selection};

/// A word that names nodes and no experiment.
pub struct NamedNodes {
    /// The word.
    pub word: String,
    /// The nodes that it names.
    pub nodes: Vec<String>,
}

impl NamedNodes {
    /// The nodes that `word`, which picks no experiment, names in the daemon's
    /// configuration.
    ///
    /// # Errors
    /// `fault`, which reports that it picks none, with the addition that it
    /// names no node either.
    pub async fn find(session: &mut Session, word: &str, fault: Fault) -> Result<Self, Fault> {
        // If the daemon cannot be asked now, the selector's own mistake is
        // reported.
        let Ok(known) = ask(session, true).await else {
            return Err(fault);
        };
        let is_node = known.nodes.iter().any(|node| node.name == word);
        let nodes = match known.groups.get(word) {
            _ if is_node => vec![word.to_owned()],
            Some(group) => group.names.clone(),
            None => return Err(neither(fault, &known, word)),
        };
        let word = word.to_owned();
        Ok(Self { word, nodes })
    }

    /// The selector of the experiments that run there, ran there last, or wait
    /// for it.
    pub fn selector(&self) -> String {
        let mut words = self.nodes.clone();
        if !words.contains(&self.word) {
            words.push(self.word.clone());
        }
        text::join(words.iter().map(|word| format!("node==\"{word}\"")), ",")
    }
}

/// Adds a hint to the fault of a verb about experiments when one of the words
/// that pick nothing is a node's name.
pub async fn hinted(session: &mut Session, fault: Fault, words: &[String]) -> Fault {
    if fault.is_of_selector() && !fault.hint_names && are_files(words) {
        return match words[0].rsplit_once('/') {
            Some((folder, _)) => fault.hint(format!(
                "the shell made names of files of a pattern; in quotes it stays one: '{folder}/*'"
            )),
            None => fault
                .hint("the shell made names of files of a pattern; in quotes it stays one: 'lr_*'"),
        };
    }
    let words = words.iter().flat_map(|words| words.split(','));
    let words = words.map(str::trim).filter(|word| may_name_nodes(word));
    let words: Vec<&str> = words.collect();
    if fault.exit_code != code::USAGE || words.is_empty() {
        return fault;
    }
    // Without an answer the fault stays as it is.
    let Ok(known) = ask(session, true).await else {
        return fault;
    };
    for word in words {
        let is_node = known.nodes.iter().any(|node| node.name == word);
        let hint = if is_node {
            format!("`{word}` is a node: neroman status {word}, or neroman node doctor {word}")
        } else if known.groups.contains_key(word) {
            format!("`{word}` is a group of nodes: neroman status {word}")
        } else {
            continue;
        };
        // If an experiment has this name, another word is wrong.
        let listed = views(session, selection(&[word.to_owned()])).await;
        if listed.is_err_and(|fault| fault.exit_code == code::USAGE) {
            return fault.hint(hint);
        }
    }
    fault
}

/// Whether every word is an existing path, as the shell makes them from a
/// pattern without quotes.
fn are_files(words: &[String]) -> bool {
    !words.is_empty() && words.iter().all(|word| std::path::Path::new(word).exists())
}

/// The error of `status` for a word that names nothing at all.
fn neither(mut fault: Fault, known: &NodesReply, word: &str) -> Fault {
    fault.what.push_str(", and no node or group");
    let nodes = known.nodes.iter().map(|node| node.name.as_str());
    let groups = known.groups.keys().map(String::as_str);
    match nero_model::names::suggest(word, nodes.chain(groups)) {
        // The daemon may know an experiment or a collection of a near name.
        Some(near) if !fault.hint_names => {
            fault.hint(format!("did you mean `neroman status {near}`?"))
        }
        Some(_) | None => fault,
    }
}

/// Whether a node or a group can have this name.
pub fn may_name_nodes(word: &str) -> bool {
    word == LOCAL || check_name(word).is_ok()
}

/// Prints a note that a node has the same name, where experiments were meant.
pub fn note_namesake(session: &Session, picked: &[String]) {
    let [word] = picked else { return };
    // Another check reports a configuration that cannot be read.
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

/// The nodes and groups; with `as_known` no node is asked.
pub async fn ask(session: &mut Session, as_known: bool) -> Result<NodesReply, Fault> {
    let asked = NodesRequest { as_known };
    session.read(asked, ManClient::nodes).await
}
