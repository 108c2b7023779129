//! `NodeAdd`: connects to a node and examines it; if that works, the configuration
//! keeps the node.

use std::sync::Arc;
use std::time::Duration;

use nero_agents::Prospect;
use nero_config::{Config, ConfigFile, Edit, EditError, WriteError};
use nero_model::units::short_bytes;
use nero_wire::v1;
use nero_wire::v1::node_event::Event;

use super::examine::examine;
use super::scheduler;
use super::scheduler::FoundScheduler;
use super::way::{self, say};
use crate::service::change::ChangeRequest as _;
use crate::service::{Man, Sink, blocking};
use nero_home::failure::Failure;
use nero_home::ledger::Decision;
use nero_link::connect::{ConnectFailure, Link};
use nero_link::outside::RemoteAgent;

/// How long a first connection may take, the agents on a slow line included.
const CONNECT: Duration = Duration::from_secs(30 * 60);
/// How often a change of the configuration is tried while others change it, too.
const WRITE_TRIES: u32 = 100;
/// How long the driver may take to connect over the open way.
const DRIVEN: Duration = Duration::from_secs(30);

impl Man {
    /// Adds a node; reports each finding.
    pub(crate) async fn node_add(
        &self,
        request: v1::NodeAddRequest,
        sink: Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let head = request.head();
        let added = async {
            self.add_on_trial(&request, &sink).await?;
            let done = Decision::of(v1::NodeRemoveReply::default());
            self.decided(&head, |_, _| Ok(done)).await
        };
        self.once(&head, added).await?;
        if head.is_rehearsal {
            return Ok(());
        }
        self.say_node(&request.name, &sink).await
    }

    /// Tries a node, and keeps it unless that fails or is a dry run.
    pub(crate) async fn add_on_trial(
        &self,
        request: &v1::NodeAddRequest,
        sink: &Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let config = self.prospect(edit_of(request)).await?;
        let node = config.node(&request.name).cloned().unwrap_or_default();
        if let Some(warning) = same_place(&config, &request.name) {
            say(sink, Event::Finding(warning)).await;
        }
        let mut trial = Trial {
            man: self.clone(),
            name: request.name.clone(),
            node: Some(node.clone()),
        };
        let done = if request.dry_run {
            self.look_once(request, &node, sink).await
        } else {
            self.try_and_keep(request, &node, sink).await
        };
        trial.end().await;
        done
    }

    /// Reports what would be done: whether `ssh` reaches the machine, which
    /// machine it is, and what would be sent. Nothing is written there.
    async fn look_once(
        &self,
        request: &v1::NodeAddRequest,
        node: &nero_config::Node,
        sink: &Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        if let (false, Some(address)) = (request.without_test, &node.address) {
            let agents = self.agents.with_key(node.key.clone());
            let host = agents.host(&request.name, address).await;
            let host = host.map_err(|refused| refused.failure)?;
            let line = format!("ssh goes to {}", host.place());
            say(sink, Event::Line(line)).await;
            let agent = RemoteAgent {
                agents,
                name: request.name.clone(),
                address: address.clone(),
                root: node.root.clone(),
                options: nero_link::outside::options(node),
            };
            let prospect = agent.prospect(&host).await?;
            for line in would(&prospect) {
                say(sink, Event::Line(line)).await;
            }
        }
        let line = format!("would add {}", request.name);
        say(sink, Event::Line(line)).await;
        Ok(())
    }

    /// Connects, unless `without_test` is set, and writes the node to the
    /// configuration.
    async fn try_and_keep(
        &self,
        request: &v1::NodeAddRequest,
        node: &nero_config::Node,
        sink: &Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let mut request = request.clone();
        let link = if request.without_test {
            None
        } else {
            let (link, found, bad) = self.try_node(&request, node, sink).await?;
            if let Some(bad) = bad.filter(|_| !request.group.is_empty()) {
                let what = format!("{}: {}", bad.what, bad.text);
                return Err(Failure::failed(what).hint(bad.hint));
            }
            if let Some((word, line)) = scheduler::chosen(&request, &found)? {
                word.clone_into(&mut request.warden);
                say(sink, Event::Line(line)).await;
            }
            Some(link)
        };
        self.write(edit_of(&request)).await?;
        self.nodes.config()?;
        tracing::info!(node = request.name, address = request.address, "node added");
        // The driver goes over the same connection, which `link` keeps open.
        if link.is_some()
            && let Some(node) = self.nodes.node(&request.name)
        {
            node.inbox.kick(nero_link::node::RetryCause::Person);
            let _ = way::until_known(&node, DRIVEN, sink).await;
        }
        Ok(())
    }

    /// The configuration with a change that is not written.
    pub(crate) async fn prospect(&self, edit: Edit) -> Result<Arc<Config>, Failure> {
        let path = self.home.config.clone();
        blocking(move || {
            let file = ConfigFile::open(&path).map_err(|error| Failure::config(&error))?;
            let text = edit
                .on(&path, file.text())
                .map_err(|error| refused(&error))?;
            Config::parse(&path, &text)
                .map(Arc::new)
                .map_err(|error| Failure::config(&error))
        })
        .await?
    }

    /// Changes the file.
    pub(crate) async fn write(&self, edit: Edit) -> Result<(), Failure> {
        let path = self.home.config.clone();
        let apply = move || {
            for _ in 0..WRITE_TRIES {
                match edit.apply(&path) {
                    Err(EditError::Write(WriteError::Changed { .. })) => {}
                    done => return done,
                }
            }
            edit.apply(&path)
        };
        blocking(move || apply().map_err(|error| refused(&error))).await?
    }

    /// Connects to the node by its future configuration, and examines it. Returns the
    /// schedulers that were found, and the first bad finding, too.
    async fn try_node(
        &self,
        request: &v1::NodeAddRequest,
        node: &nero_config::Node,
        sink: &Sink<v1::NodeEvent>,
    ) -> Result<(Link, Vec<FoundScheduler>, Option<v1::Finding>), Failure> {
        let name = &request.name;
        let connector = self.nodes.way(name, node);
        let heard = way::hearer(sink);
        let link = tokio::time::timeout(CONNECT, connector.connect(&heard))
            .await
            .map_err(|_| Failure::node(format!("node {name} takes too long")))?
            .map_err(|refused: ConnectFailure| refused.failure)?;
        for line in way::lines(name, &link) {
            say(sink, Event::Line(line)).await;
        }
        let offset = link.facts.as_ref().and_then(|facts| facts.clock_offset_ms);
        let (mut found, mut bad) = (Vec::new(), None);
        for mut finding in examine(&link.channel, Vec::new(), offset, node).await {
            if finding.warden() != v1::Warden::Unspecified {
                let answered = finding.level() == v1::finding::Level::Good;
                found.push(FoundScheduler {
                    warden: finding.warden(),
                    answered,
                });
            }
            // A scheduler that is found becomes the node's, or the node is not added.
            let warden = match request.warden.as_str() {
                "" => scheduler::config_word(finding.warden()).unwrap_or(node.warden),
                _ => node.warden,
            };
            scheduler::compare(&mut finding, warden);
            if finding.level() == v1::finding::Level::Bad {
                bad.get_or_insert_with(|| finding.clone());
            }
            say(sink, Event::Finding(finding)).await;
        }
        Ok((link, found, bad))
    }
}

/// A node on trial. Its connections end with the trial, even if the caller leaves
/// meanwhile.
struct Trial {
    man: Man,
    name: String,
    /// The node's configuration, until the trial is over.
    node: Option<nero_config::Node>,
}

impl Trial {
    async fn end(&mut self) {
        if let Some(node) = self.node.take() {
            let_go(&self.man, &self.name, &node).await;
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            let (man, name) = (self.man.clone(), std::mem::take(&mut self.name));
            // Without a runtime the daemon has ended, and its connections with it.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { let_go(&man, &name, &node).await });
            }
        }
    }
}

/// Ends our connections of a node that was not kept. Connections of a node that is
/// configured by now belong to its driver.
async fn let_go(man: &Man, name: &str, node: &nero_config::Node) {
    if man.nodes.node(name).is_none() {
        man.nodes.way(name, node).hang_up().await;
    }
}

/// The machine's facts, and what would be sent to it.
fn would(prospect: &Prospect) -> Vec<String> {
    let facts = &prospect.facts;
    let short = |text: &str| text.chars().take(100).collect::<String>();
    let free = facts.free_bytes.map_or_else(String::new, |bytes| {
        format!(", {} free", short_bytes(bytes))
    });
    vec![
        format!(
            "ssh gets there without a question: {} at {}, {} {}, {}",
            short(&facts.user),
            short(&facts.host),
            short(&facts.os),
            short(&facts.arch),
            short(&facts.libc.to_string())
        ),
        format!("root {} ({}{free})", facts.root, short(&facts.file_system)),
        match prospect.send_bytes {
            0 => format!(
                "the agent {} is there: nothing would be sent",
                prospect.build
            ),
            bytes => format!(
                "would send the agent {}: {}, compressed on the way",
                prospect.build,
                short_bytes(bytes)
            ),
        },
    ]
}

/// A finding if another node is the same folder of the same machine.
fn same_place(config: &Config, name: &str) -> Option<v1::Finding> {
    let place = |node: &nero_config::Node| {
        let root = node.root.as_deref().unwrap_or("~/.neronet");
        (node.address.clone(), root.trim_end_matches('/').to_owned())
    };
    let ours = place(config.node(name)?);
    let (other, _) = config
        .nodes
        .iter()
        .find(|(other, node)| *other != name && node.address.is_some() && place(node) == ours)?;
    Some(v1::Finding {
        level: v1::finding::Level::Warning.into(),
        what: "address".to_owned(),
        text: format!(
            "node {other} has the same address and root: what the machine has is counted twice"
        ),
        hint: format!("use {other}, or neroman node rm one of them"),
        ..v1::Finding::default()
    })
}

/// How a node joins its group, and gets the image of its runs.
pub(crate) fn joins(request: &v1::NodeAddRequest) -> Vec<Edit> {
    let mut edits = Vec::new();
    if !request.group.is_empty() {
        edits.push(Edit::JoinGroup {
            group: request.group.clone(),
            node: request.name.clone(),
        });
    }
    if !request.container.is_empty() {
        edits.push(Edit::Set {
            key: format!("nodes.{}.container", request.name),
            value: request.container.clone(),
        });
    }
    edits
}

fn edit_of(request: &v1::NodeAddRequest) -> Edit {
    let mut fields = vec![("address".to_owned(), request.address.clone())];
    let mut say = |word: &str, value: String| {
        if !value.is_empty() {
            fields.push((word.to_owned(), value));
        }
    };
    say("key", request.key.clone());
    say("root", request.root.clone());
    if request.cpus > 0.0 {
        say("cpus", request.cpus.to_string());
    }
    if request.memory_bytes > 0 {
        say(
            "memory",
            nero_model::units::print_bytes(request.memory_bytes),
        );
    }
    say("warden", request.warden.clone());
    match request.shared.as_str() {
        "yes" => say("shared", "true".to_owned()),
        "no" => say("shared", "false".to_owned()),
        _ => {}
    }
    let node = Edit::AddNode {
        name: request.name.clone(),
        fields,
    };
    let mut edits = joins(request);
    edits.insert(0, node);
    Edit::Several(edits)
}

fn refused(error: &EditError) -> Failure {
    let failure = Failure::usage(error.to_string());
    let failure = match std::error::Error::source(error) {
        Some(cause) => failure.caused_by(cause),
        None => failure,
    };
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
