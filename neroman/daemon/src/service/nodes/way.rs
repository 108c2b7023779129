//! The way to a node, by a person's command: connecting it now, opening it in a
//! terminal, examining it, and telling how a command gets there.

use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use nero_config::{Config, LOCAL, check_name};
use nero_model::paths::NodePaths;
use nero_model::units::short_bytes;
use nero_wire::v1;
use nero_wire::v1::node_event::Event;
use tokio::time::Instant;

use super::examine::examine;
use super::scheduler;
use crate::service::select;
use crate::service::{Man, Sink};
use nero_home::failure::Failure;
use nero_life::run::Run;
use nero_life::state::State;
use nero_link::connect::Link;
use nero_link::node::{NodeHandle, NodeNow, RetryCause, not_configured};
use nero_link::outside::by_ssh;

/// How long a person waits for a connection at most; the agents may have to be
/// sent over a slow line.
const CONNECT: Duration = Duration::from_secs(30 * 60);
/// How long it may take to open a way for a command.
const LOCATE: Duration = Duration::from_secs(60);
/// How long a connected node may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Between two reports of progress.
const SAY_EVERY: Duration = Duration::from_millis(250);
/// Interpreters that are looked for on a node at most.
const PROGRAMS_MAX: usize = 50;

/// Sends an event to the caller; if it has left, the event is dropped.
pub(crate) async fn say(sink: &Sink<v1::NodeEvent>, event: Event) {
    let event = v1::NodeEvent { event: Some(event) };
    let _ = sink.send(Ok(event)).await;
}

/// Sends the progress of a transfer; a slow terminal misses some of it.
pub(crate) fn hearer(sink: &Sink<v1::NodeEvent>) -> impl Fn(v1::Progress) + Send + Sync + use<> {
    let sink = sink.clone();
    move |progress| {
        let event = Some(Event::Progress(progress));
        let _ = sink.try_send(Ok(v1::NodeEvent { event }));
    }
}

/// The lines about a new connection.
pub(crate) fn lines(name: &str, link: &Link) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(facts) = &link.facts {
        lines.push(format!(
            "ssh gets there: {} at {}, {} {}",
            facts.user, facts.host, facts.os, facts.arch
        ));
    }
    lines.push(format!(
        "the agent of {name} answers ({})",
        link.hello.build
    ));
    lines
}

/// The failure for a word that names no node: it may be a group, or unknown.
fn unlocated(config: &Config, state: &State, what: &str, failure: Failure) -> Failure {
    if let Some(group) = config.groups.get(what) {
        return Failure::usage(format!("`{what}` is a group"))
            .hint(format!("name one of its nodes: {}", group.nodes.join(", ")));
    }
    let mut experiments = state.experiments.iter();
    if check_name(what).is_err() || experiments.any(|one| one.definition.name == what) {
        return failure;
    }
    Failure::usage(format!("no node and no experiment is called `{what}`"))
        .hint("`neroman node list` names the nodes")
}

/// Waits until a node is connected and described, or a try failed.
///
/// # Errors
/// Why it cannot be connected.
pub(crate) async fn until_known(
    node: &NodeHandle,
    patience: Duration,
    sink: &Sink<v1::NodeEvent>,
) -> Result<(), Failure> {
    let deadline = Instant::now() + patience;
    let failures = node.now().failures;
    loop {
        let now = node.now();
        if now.connected() && now.about.is_some() && !node.inbox.is_changing() {
            return Ok(());
        }
        if node.has_ended() {
            return Err(not_configured(&node.name));
        }
        if now.failures > failures || Instant::now() >= deadline {
            return Err(node.away(&now));
        }
        if let Some(progress) = now.transfer {
            say(sink, Event::Progress(progress)).await;
        }
        let _ = tokio::time::timeout(SAY_EVERY, node.news()).await;
    }
}

impl Man {
    /// A configured node.
    pub(crate) fn configured(&self, name: &str) -> Result<NodeHandle, Failure> {
        let config = self.nodes.config()?;
        match self.nodes.node(name) {
            Some(node) => Ok(node),
            None => Err(match config.resolve(name) {
                Ok(_) => Failure::usage(format!("`{name}` is a group and one node is needed here")),
                Err(error) => Failure::usage(error.to_string()).hint(error.hint),
            }),
        }
    }

    /// Sends the node as it is now, as the last event.
    pub(crate) async fn say_node(
        &self,
        name: &str,
        sink: &Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let config = self.nodes.config()?;
        say(sink, Event::Node(self.node_view(&config, name))).await;
        Ok(())
    }

    /// Tries to connect at once, whatever kept the daemon from trying.
    pub(crate) async fn node_connect(
        &self,
        request: v1::NodeConnectRequest,
        sink: Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let node = self.configured(&request.name)?;
        if !node.now().connected() {
            node.inbox.kick(RetryCause::Person);
            until_known(&node, CONNECT, &sink).await?;
        }
        self.say_node(&request.name, &sink).await
    }

    /// The command that opens the way in a terminal.
    pub(crate) async fn node_login(
        &self,
        request: v1::NodeLoginRequest,
    ) -> Result<v1::NodeLoginReply, Failure> {
        let node = self.configured(&request.name)?;
        let config = self.nodes.config()?;
        let configured = config.node(&request.name).cloned().unwrap_or_default();
        let (Some(address), false) = (configured.address, node.now().connected()) else {
            return Ok(v1::NodeLoginReply {
                argv: Vec::new(),
                open: true,
            });
        };
        let words = self
            .agents
            .with_key(configured.key)
            .ssh()?
            .login(&request.name, &address)
            .await
            .map_err(|error| by_ssh(&error))?;
        Ok(v1::NodeLoginReply {
            argv: words.into_iter().map(OsStringExt::into_vec).collect(),
            open: false,
        })
    }

    /// Examines a node from there and from here.
    pub(crate) async fn node_doctor(
        &self,
        request: v1::NodeDoctorRequest,
        sink: Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let node = self.configured(&request.name)?;
        if !node.now().connected() {
            node.inbox.kick(RetryCause::Person);
        }
        until_known(&node, CONNECT, &sink).await?;
        let mut now = node.described(Duration::from_secs(10)).await;
        if !now.connected() && now.failures == 0 {
            // Its configuration was changed: it is connected anew.
            until_known(&node, CONNECT, &sink).await?;
            now = node.described(Duration::from_secs(10)).await;
        }
        for line in about(&now) {
            say(&sink, Event::Line(line)).await;
        }
        let Some(channel) = now.channel.clone() else {
            return Err(node.away(&now));
        };
        let offset = now.about.as_ref().map(|about| about.clock_offset_ms);
        let config = self.nodes.config()?;
        let node = config.node(&request.name).cloned().unwrap_or_default();
        for mut finding in examine(&channel, self.programs(), offset, &node).await {
            scheduler::compare(&mut finding, node.warden);
            say(&sink, Event::Finding(finding)).await;
        }
        self.say_node(&request.name, &sink).await
    }

    /// Interpreters that experiments name.
    fn programs(&self) -> Vec<String> {
        let state = self.ledger.state();
        let mut programs: Vec<String> = state
            .experiments
            .iter()
            .filter_map(|experiment| experiment.definition.argv.first())
            .filter(|program| !program.contains('/'))
            .cloned()
            .collect();
        programs.sort_unstable();
        programs.dedup();
        programs.truncate(PROGRAMS_MAX);
        programs
    }

    /// The place of a run or node, and the command that gets there.
    pub(crate) async fn locate(
        &self,
        request: v1::LocateRequest,
    ) -> Result<v1::LocateReply, Failure> {
        let config = self.nodes.config()?;
        if config.nodes.contains_key(&request.what) {
            return self.way_to(&request.what, request.terminal).await;
        }
        let state = self.ledger.state();
        let chosen = select::choose_single(&state, &request.what, self.now())
            .map_err(|failure| unlocated(&config, &state, &request.what, failure))?;
        let experiment = state
            .experiment(chosen.id)
            .ok_or_else(|| Failure::usage(format!("`{}` picks nothing", request.what)))?;
        let run = chosen.of(experiment).ok_or_else(|| {
            Failure::failed(format!("{} has never run", request.what))
                .hint(format!("neroman start {}", chosen.id))
        })?;
        let name = run.node().ok_or_else(|| {
            Failure::failed(format!("{} has no node yet", run.made.id))
                .because(run.why().to_string())
        })?;
        let mut reply = self.way_to(name, request.terminal).await?;
        let root = self
            .root_of(name)
            .ok_or_else(|| Failure::node(format!("node {name} has not said where its root is")))?;
        let paths = NodePaths::new(std::path::Path::new(&root), &self.deployment, name);
        reply.folder = nero_home::spec::work_folder(&paths, run);
        reply.env = names(&experiment.definition, run, name, &reply.folder);
        Ok(reply)
    }

    /// The root of a node, absolute, if known.
    pub(crate) fn root_of(&self, name: &str) -> Option<String> {
        if name == LOCAL {
            return Some(self.home.local_root.display().to_string());
        }
        let now = self.nodes.now(name);
        let said = now.about.as_ref().map(|about| &about.description.root);
        said.filter(|root| !root.is_empty())
            .cloned()
            .or_else(|| now.facts.as_ref().map(|facts| facts.root.clone()))
    }

    async fn way_to(&self, name: &str, terminal: bool) -> Result<v1::LocateReply, Failure> {
        let mut reply = v1::LocateReply {
            node: name.to_owned(),
            ..v1::LocateReply::default()
        };
        if name == LOCAL {
            return Ok(reply);
        }
        let node = self.nodes.node(name).ok_or_else(|| not_configured(name))?;
        let was_open = node.now().connected();
        node.channel(LOCATE).await?;
        if was_open && !node.answers(ANSWER).await {
            let silent = node.now();
            return Err(if silent.connected() {
                Failure::node(format!("node {name} does not answer")).because(format!(
                    "nothing came from it within {} s",
                    ANSWER.as_secs()
                ))
            } else {
                node.away(&silent)
            });
        }
        let host = node.now().host;
        let host = host.ok_or_else(|| node.away(&node.now()))?;
        let words = host.argv(terminal, &[]).await;
        reply.argv = words
            .map_err(|error| by_ssh(&error))?
            .into_iter()
            .map(OsStringExt::into_vec)
            .collect();
        Ok(reply)
    }
}

/// Our variables in the environment of a run's job.
fn names(
    definition: &nero_format::Definition,
    run: &Run,
    node: &str,
    folder: &str,
) -> Vec<v1::EnvVar> {
    let id = run.made.id;
    [
        ("NERO_RUN", id.to_string()),
        ("NERO_ID", id.experiment.to_string()),
        ("NERO_NAME", definition.name.clone()),
        ("NERO_COLLECTION", definition.collection().to_owned()),
        ("NERO_ATTEMPT", id.number.to_string()),
        ("NERO_NODE", node.to_owned()),
        ("NERO_DIR", folder.to_owned()),
        ("NERO_OUT", folder.to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| v1::EnvVar {
        name: name.to_owned(),
        value,
        unset: false,
        expand: false,
    })
    .collect()
}

/// Lines about the machine.
fn about(now: &NodeNow) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(facts) = &now.facts {
        lines.push(format!(
            "{} at {}: {} {}, kernel {}, {}, shell {}",
            facts.user, facts.host, facts.os, facts.arch, facts.kernel, facts.libc, facts.shell
        ));
        lines.push(format!("root {} ({})", facts.root, facts.file_system));
    }
    if let Some(about) = &now.about {
        let said = &about.description;
        lines.push(format!(
            "{} cpus, {} memory, {} disk free, load {:.2}, round trip {:.0} ms",
            said.cpus,
            short_bytes(said.memory_bytes),
            short_bytes(said.disk_free_bytes),
            said.load_1,
            about.round_trip_ms
        ));
    }
    lines
}
