//! Nodes of a set, each made ready or put away by one call: `neroman infra` makes these calls for
//! all of its hosts at once. Every step that is done already is left out, so that a call goes on
//! where an earlier one was cut off. The configuration is written last: a node that was not put
//! away is still named there.

mod put_away;

use std::time::Duration;

use nero_config::Edit;
use nero_wire::v1;
use nero_wire::v1::finding::Level;
use nero_wire::v1::node_event::Event;
use tonic::Code;

use super::add::joins;
use super::way::{self, say};
use crate::service::{Man, Sink, counted};
use nero_home::failure::{Failure, connection_lost};
use nero_home::spec;
use nero_link::connect::mum_client;
use nero_link::node::RetryCause;

/// How long a connection may take, the agents on a slow line included.
const CONNECT: Duration = Duration::from_secs(30 * 60);
/// How long a node may take to be reached for an answer.
const REACHED: Duration = Duration::from_secs(10);

impl Man {
    /// Adds a node to the configuration and a group, or connects the one that is there; looks at
    /// a new member, and has its image brought.
    pub(crate) async fn node_ready(
        &self,
        request: v1::NodeReadyRequest,
        sink: Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let node = request.node.unwrap_or_default();
        let config = self.nodes.config()?;
        match config.node(&node.name) {
            None => self.add_on_trial(&node, &sink).await?,
            Some(known) => {
                let address = known.address.as_deref().unwrap_or_default();
                if !node.address.is_empty() && node.address != address {
                    let what = format!("the node {} is another machine: {address}", node.name);
                    return Err(Failure::usage(what).hint(format!(
                        "neroman infra down {} first, or another name for the set",
                        node.group
                    )));
                }
                self.join(&node, &sink).await?;
            }
        }
        self.bring_image(&node.name, &request.pull, request.idle_only, &sink)
            .await?;
        self.say_node(&node.name, &sink).await
    }

    /// Connects a known node, and lets it join its group.
    async fn join(
        &self,
        request: &v1::NodeAddRequest,
        sink: &Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let edit = Edit::Several(joins(request));
        self.prospect(edit.clone()).await?;
        let node = self.configured(&request.name)?;
        if !node.now().connected() {
            node.inbox.kick(RetryCause::Person);
            way::until_known(&node, CONNECT, sink).await?;
        }
        self.write(edit).await?;
        self.nodes.config().map(drop)
    }

    /// Has the image of a node brought. The node goes on with it when this call ends, and a
    /// later call finds it under way.
    async fn bring_image(
        &self,
        name: &str,
        pull: &str,
        idle_only: bool,
        sink: &Sink<v1::NodeEvent>,
    ) -> Result<(), Failure> {
        let Some(mut container) = self.container_of(name)? else {
            return Ok(());
        };
        if container.image.starts_with("./") {
            let what = format!("the image {} is a file of a folder here", container.image);
            return Err(Failure::usage(what).hint(
                "it travels with runs that name it; for a set of hosts give a name of a registry, \
                 or a path there that begins with `/` or `~/`",
            ));
        }
        let live = self.live_runs(name);
        if idle_only && live > 0 {
            let line = format!("{} there: its image stays", counted(live, "live run"));
            let mut finding = finding(Level::Warning, line);
            finding.hint = "--now replaces it all the same; live runs keep theirs".to_owned();
            say(sink, Event::Finding(finding)).await;
        } else if !pull.is_empty() {
            pull.clone_into(&mut container.pull);
        }
        loop {
            let what = format!("bringing {}", container.image);
            say(sink, progress(name, what)).await;
            let Some(reply) = self.ask_image(name, &container).await? else {
                continue;
            };
            if let Some(ready) = reply.ready {
                let text = format!("{} ({})", ready.image, how(&ready));
                say(sink, Event::Finding(finding(Level::Good, text))).await;
                return Ok(());
            }
            if !reply.later {
                return Err(Failure::failed(reply.why).hint(reply.hint.replace("NODE", name)));
            }
        }
    }

    /// Whether a node has the image of its configuration.
    pub(crate) async fn node_image(
        &self,
        request: v1::NodeImageRequest,
    ) -> Result<v1::NodeImageReply, Failure> {
        let name = request.name;
        let Some(mut container) = self.container_of(&name)? else {
            return Ok(v1::NodeImageReply::default());
        };
        "never".clone_into(&mut container.pull);
        let mut reply = v1::NodeImageReply {
            image: container.image.clone(),
            ..v1::NodeImageReply::default()
        };
        match self.ask_image(&name, &container).await {
            Ok(Some(v1::BringImageReply {
                ready: Some(ready), ..
            })) => {
                reply.runtime = ready.runtime;
                reply.digest = ready.digest;
            }
            Ok(answer) => reply.why_not = answer.unwrap_or_default().why,
            Err(failure) => reply.why_not = failure.to_string(),
        }
        Ok(reply)
    }

    /// The container of a node's configuration.
    fn container_of(&self, name: &str) -> Result<Option<v1::Container>, Failure> {
        let config = self.nodes.config()?;
        let asks = config.node(name).map(|node| &node.asks);
        let container = asks.and_then(|asks| asks.container.on(name));
        let container = container.map(spec::container);
        Ok(container.filter(|container| !container.image.is_empty()))
    }

    /// `None`: the connection was lost on the way.
    async fn ask_image(
        &self,
        name: &str,
        container: &v1::Container,
    ) -> Result<Option<v1::BringImageReply>, Failure> {
        let channel = self.nodes.channel(name, REACHED).await?;
        let request = v1::BringImageRequest {
            container: Some(container.clone()),
        };
        match mum_client(channel).bring_image(request).await {
            Ok(reply) => Ok(Some(reply.into_inner())),
            Err(status) if connection_lost(&status) => Ok(None),
            Err(status) if status.code() == Code::Unimplemented => {
                let what = format!("the agent of {name} is of an earlier build");
                Err(Failure::failed(what).hint("a run that asks for the image brings it"))
            }
            Err(status) => Err(Failure::node_does("does not bring its image")
                .status(&status)
                .of(name)),
        }
    }

    /// Runs of a node that have not ended.
    fn live_runs(&self, name: &str) -> u64 {
        let state = self.ledger.state();
        let runs = state.experiments.iter().flat_map(|one| one.runs.iter());
        let there = runs.filter(|run| run.node() == Some(name) && run.may_be_there());
        there.filter(|run| run.phase().is_live()).count() as u64
    }
}

/// `podman, sha256:3f9c21ab`.
fn how(ready: &v1::Container) -> String {
    let digest: String = ready.digest.chars().take(19).collect();
    match digest.as_str() {
        "" => ready.runtime.clone(),
        digest => format!("{}, {digest}", ready.runtime),
    }
}

fn progress(name: &str, what: String) -> Event {
    Event::Progress(v1::Progress {
        what,
        node: name.to_owned(),
        ..v1::Progress::default()
    })
}

fn finding(level: Level, text: String) -> v1::Finding {
    v1::Finding {
        level: level.into(),
        what: "image".to_owned(),
        text,
        ..v1::Finding::default()
    }
}
